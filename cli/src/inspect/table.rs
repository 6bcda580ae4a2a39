//! The report for people.

use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle, presets};
use modex::stderr_log::printable;
use serde_json::Value as Json;

use super::detail::{ColumnReport, KeyReport, NamedValue, PartReport, RankReport, RealmsReport};
use super::view::{Report, SegmentContent, SegmentReport, ServerReport};

/// The report as text. A terminal gets bold headings and lines that fit it.
pub(super) fn render(report: &Report, is_terminal: bool) -> String {
    let mut page = Page { text: String::new(), is_terminal };
    for segment in &report.segments {
        page.segment(segment);
    }
    page.servers(&report.servers);
    if let Some(inventory) = &report.inventory {
        page.inventory(inventory);
    } else if let Some(clusters) = &report.inventories {
        page.clusters(clusters);
        if clusters.is_empty() && report.problems.is_empty() {
            page.text.push_str(NO_CLUSTER);
        }
    } else if report.segments.is_empty() && report.problems.is_empty() {
        page.text.push_str(NO_SERVER);
    }
    page.text
}

/// The report without a segment.
const NO_SERVER: &str = "\
No job that this user may inspect has a segment. A job gets one when its first process calls PMIx_Init.
Start a job with modex run, or inspect the jobs of other users as root.
";

/// The report on inventories without a server.
const NO_CLUSTER: &str = "\
No server of this user runs here. Start a job with modex run.
";

/// Text in the making: tables one below the other.
pub(super) struct Page {
    pub(super) text: String,
    is_terminal: bool,
}

/// A column of a table: heading, and whether it holds numbers.
pub(super) type Heading = (&'static str, bool);

const KEY: Heading = ("key", false);
const TYPE: Heading = ("type", false);
pub(super) const SIZE: Heading = ("bytes", true);
const VALUE: Heading = ("value", false);

/// Longest value in a table, in characters.
const VALUE_CHARS_MAX: usize = 72;

impl Page {
    fn segment(&mut self, segment: &SegmentReport) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let mut table = self.plain_table();
        for (name, fact) in facts(segment) {
            table.add_row([self.heading(name), Cell::new(printable(&fact))]);
        }
        self.push(&table);
        if let Some(content) = &segment.content {
            self.content(content);
        }
        if let Some(hardware) = &segment.hardware {
            self.hardware(hardware);
        }
    }

    fn servers(&mut self, servers: &[ServerReport]) {
        for server in servers {
            let ServerReport { pid, longest_turn_us, longest_turn_cause, longest_turn_cause_us } = server;
            let cause = printable(longest_turn_cause);
            self.text.push_str(&format!(
                "\nserver {pid}: longest turn {longest_turn_us} us, {longest_turn_cause_us} us of it for {cause}\n"
            ));
        }
    }

    fn content(&mut self, content: &SegmentContent) {
        let share = |share: Option<f64>| share.map_or_else(nothing, |share| format!("{:.1} %", share * 100.0));
        let each = |bytes: Option<f64>| bytes.map_or_else(nothing, |bytes| format!("{bytes:.1}"));
        let sections = content.sections.iter().map(|section| {
            vec![section.name.to_owned(), section.bytes.to_string(), share(section.share), each(section.bytes_per_rank)]
        });
        self.table("", &[("section", false), SIZE, ("share", true), ("per rank", true)], sections);
        if let Some(keys) = &content.keys {
            self.keys(keys);
        }
        if let Some(realms) = &content.realms {
            self.realms(realms);
        }
        if let Some(rank) = &content.rank {
            self.rank(rank);
        }
    }

    fn keys(&mut self, keys: &[KeyReport]) {
        let rows = keys
            .iter()
            .map(|key| vec![key.name.clone(), key.attribute.map_or_else(nothing, str::to_owned), key.realm.to_owned()]);
        self.table("Keys", &[KEY, ("attribute", false), ("realm", false)], rows);
    }

    fn realms(&mut self, realms: &RealmsReport) {
        self.values("Session realm", &realms.session);
        self.columns("Session realm, nodes", &realms.session_node_columns);
        for session in &realms.other_sessions {
            self.part(&format!("Session realm, session {}", session.number), session);
        }
        self.values("Job realm", &realms.job);
        for app in &realms.apps {
            self.part(&format!("Application realm, application {}", app.number), app);
        }
        self.columns("Node realm", &realms.node_columns);
        self.columns("Process realm", &realms.proc_columns);
    }

    fn part(&mut self, title: &str, part: &PartReport) {
        self.values(title, &part.values);
        self.columns(&format!("{title}, nodes"), &part.node_columns);
    }

    fn rank(&mut self, rank: &RankReport) {
        self.values(&format!("Process realm of rank {}", rank.rank), &rank.values);
        for block in &rank.blocks {
            let rows = block.entries.iter().map(|entry| {
                let mut row = row(&entry.named);
                row.splice(0..0, [entry.scope.to_owned(), entry.origin.to_owned()]);
                row
            });
            let title = format!("Block of rank {} at {:#x}", rank.rank, block.offset);
            self.table(&title, &[("scope", false), ("origin", false), KEY, TYPE, SIZE, VALUE], rows);
        }
        if rank.blocks.is_empty() {
            self.text.push_str(&format!("\nRank {} has not committed anything.\n", rank.rank));
        }
    }

    fn values(&mut self, title: &str, values: &[NamedValue]) {
        self.table(title, &[KEY, TYPE, SIZE, VALUE], values.iter().map(row));
    }

    fn columns(&mut self, title: &str, columns: &[ColumnReport]) {
        let rows = columns.iter().map(|column| {
            vec![
                column.key.clone(),
                column.data_type.unwrap_or("-").to_owned(),
                column.encoding.to_owned(),
                column.width_bytes.map_or_else(nothing, |width| width.to_string()),
                column.size_bytes.to_string(),
                column.count.to_string(),
                values_text(column),
            ]
        });
        let headings = [KEY, TYPE, ("encoding", false), ("width", true), SIZE, ("count", true), ("values", false)];
        self.table(title, &headings, rows);
    }

    /// A table with a title; nothing if it has no rows.
    pub(super) fn table(&mut self, title: &str, headings: &[Heading], rows: impl Iterator<Item = Vec<String>>) {
        let mut table = self.plain_table();
        table.load_style(UNDERLINED).set_header(headings.iter().map(|(name, _)| self.heading(name)));
        for row in rows {
            table.add_row(row.iter().map(|text| Cell::new(printable(text))));
        }
        if table.is_empty() {
            return;
        }
        for (column, (_, is_number)) in table.column_iter_mut().zip(headings) {
            if *is_number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self.text.push('\n');
        if !title.is_empty() {
            self.text.push_str(title);
            self.text.push('\n');
        }
        self.push(&table);
    }

    fn plain_table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if self.is_terminal {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        } else {
            table.force_no_tty();
        }
        table
    }

    fn heading(&self, name: &str) -> Cell {
        let cell = Cell::new(name);
        if self.is_terminal { cell.add_attribute(Attribute::Bold) } else { cell }
    }

    fn push(&mut self, table: &Table) {
        self.text.push_str(&table.trim_fmt());
        self.text.push('\n');
    }
}

/// A line below the headings, and no other lines.
const UNDERLINED: TableStyle = presets::NOTHING.header_separator(LineStyle::none().fill('-'));

/// The lines about a segment.
fn facts(segment: &SegmentReport) -> Vec<(&'static str, String)> {
    let unknown = || "unknown".to_owned();
    let holder = segment.holder_pid.filter(|&pid| pid != segment.creator_pid);
    let holder = holder.map_or_else(String::new, |pid| format!(", held by process {pid}"));
    let whose = if segment.is_layout_ours { "" } else { ", of another build" };
    let mut facts = vec![
        ("namespace", segment.namespace.clone().unwrap_or_else(unknown)),
        (
            "server",
            format!("{}, process {}{holder}", segment.owner.clone().unwrap_or_else(unknown), segment.creator_pid),
        ),
        ("segment", format!("{}, {}", segment.backing, segment.place)),
        ("protection", protection(segment)),
        ("layout", format!("{}, version {}{whose}", segment.layout_id, segment.layout_version)),
    ];
    facts.extend(segment.note.clone().map(|note| ("note", note)));
    facts.extend(segment.created_unix_s.map(|seconds| ("created", format!("{seconds} s after 1970"))));
    facts.extend(segment.content.as_ref().map(content_facts).unwrap_or_default());
    let published = segment.content.as_ref().and_then(|content| content.published_bytes);
    facts.extend(published.map(|bytes| ("published", size(bytes))));
    facts.extend(segment.reserved_bytes.map(|bytes| ("reserved", size(bytes))));
    facts.push(("span", size(segment.span_bytes)));
    facts
}

fn protection(segment: &SegmentReport) -> String {
    if segment.seals.is_empty() {
        return segment.protection.to_owned();
    }
    format!("{} (seals: {})", segment.protection, segment.seals.join(", "))
}

fn content_facts(content: &SegmentContent) -> Vec<(&'static str, String)> {
    let mut facts =
        vec![("state", format!("{}, generation {}", content.state.unwrap_or("unknown"), content.generation))];
    facts.push((
        "job",
        content.job.as_ref().map_or_else(
            || "not registered yet, or unreadable".to_owned(),
            |job| {
                let own = job.own_node.map_or_else(String::new, |own| format!(", of which this is node {own}"));
                let session = job.session_id.map_or_else(String::new, |id| format!("; session {id}"));
                let (ranks, nodes) = (counted(job.rank_count, "rank"), counted(job.node_count, "node"));
                format!("{ranks} on {nodes}{own}{session}")
            },
        ),
    ));
    facts.extend(content.key_count.map(|count| ("keys", count.to_string())));
    let roots = content.roots.iter().filter_map(|root| Some(format!("{} {:#x}", root.name, root.offset?)));
    facts.push(("roots", roots.collect::<Vec<_>>().join(", ")));
    facts
}

/// Key, type, size and value of an entry.
fn row(named: &NamedValue) -> Vec<String> {
    vec![
        named.key.clone(),
        named.value.data_type.to_owned(),
        named.value.size_bytes.map_or_else(nothing, |bytes| bytes.to_string()),
        named.value.value.as_ref().map_or_else(|| "(not shown)".to_owned(), |value| shortened(&text(value))),
    ]
}

/// The values of a column, the first of them in full and as many as fit.
fn values_text(column: &ColumnReport) -> String {
    let values = column.values.iter().map(|value| value.as_ref().map_or_else(nothing, text));
    let listed = shortened(&values.collect::<Vec<_>>().join(" "));
    let is_complete = u32::try_from(column.values.len()) == Ok(column.count);
    if is_complete || listed.ends_with(ELLIPSIS) { listed } else { format!("{listed} {ELLIPSIS}") }
}

/// A value as people write it: text without quotes, the rest as JSON.
fn text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

const ELLIPSIS: &str = "...";

fn shortened(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}{ELLIPSIS}", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

pub(super) fn nothing() -> String {
    "-".to_owned()
}

/// A number of things.
pub(super) fn counted(count: u32, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// A number of bytes, also in the unit that suits it.
pub(super) fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift != 0) {
        Some((unit, shift)) => {
            let tenths = ((bytes >> (shift - 10)) % 1024) * 10 / 1024;
            format!("{bytes} bytes ({}.{tenths} {unit})", bytes >> shift)
        }
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_between_characters() {
        let long = "\u{e4}".repeat(VALUE_CHARS_MAX + 1);
        assert_eq!(shortened(&long), "\u{e4}".repeat(VALUE_CHARS_MAX) + ELLIPSIS);
        let fits = "\u{e4}".repeat(VALUE_CHARS_MAX);
        assert_eq!(shortened(&fits), fits);
    }

    #[test]
    fn sizes_come_in_bytes_and_in_the_unit_that_suits_them() {
        assert_eq!(size(1000), "1000 bytes");
        assert_eq!(size(1536), "1536 bytes (1.5 KiB)");
        assert_eq!(size(8 << 30), "8589934592 bytes (8.0 GiB)");
    }
}
