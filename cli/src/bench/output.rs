//! Output of figures: a table, a JSON document, a plot, and a comparison with an earlier run.

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::super::origin::Origin;
use super::super::result_file::ResultFile;
use super::super::{Outcome, printing};
use super::comparison::{Comparison, EarlierRun};
use super::figure::Figure;
use super::node::Failure;
use super::plot;
use super::progress::{Progress, progress};

/// The contract of `--json`.
pub(super) const HELP: &str = concat!(
    "\
Examples:
  modex bench get
  modex bench launch -n 64 --json
  modex bench fence --plot fence.svg
  modex bench fence --json > before.json
  modex bench fence --compare before.json
  modex bench mpi -n 4 -- ./program

Exit status:
  0  The measurement is complete
  1  It is not, or its result can't be written
  2  The command line makes no sense

Environment:
",
    log_help!(),
    "  TMPDIR     Parent of the directory for the jobs' files [default: /tmp]

JSON document (--json):
  command, version, date (UTC), machine (host, processor, processors, kernel), figures[]; with
  --compare also compared. A figure has
  name      what was measured, such as \"get.job_key\"
  params    under which circumstances: an object of numbers, such as {\"threads\": 4}
  n         number of samples
  min p25 p50 p75 p90 p99 p99.9 max
            percentiles of the samples. A percentile is missing if there are too few: p25 and p75
            need 4 samples, p90 10, p99 100, p99.9 1000
  unit      of the percentiles: \"ns\", \"us\", \"ms\", \"B\" or \"%\"
  ratio     median divided by the median of the figure named in ratio_to (both may be missing)
  compared has file, version, date and machine of the earlier run, and rows[] with name, params, unit
  before now  the medians
  ratio     now / before
  spread_before spread_now
            half of the distance of the quartiles, divided by the median
  change    \"less\" or \"more\"; \"noise\" if the ratio differs from 1 by no more than the larger
            spread; \"unknown\" without a spread

The spread is that of the samples of one run. Runs at other times may differ by more: repeat both."
);

/// Options of every scenario.
#[derive(Args, Debug)]
pub(super) struct BenchOutput {
    /// Print one JSON document instead of a table (fields: see `modex bench --help`)
    #[arg(long)]
    json: bool,

    /// Also draw the distributions into an SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,

    /// The file of the plot, open from the begin of the measurement.
    #[arg(skip)]
    plot_file: OnceLock<ResultFile>,

    /// Also compare the medians with those of an earlier run, a file made with --json
    #[arg(long, value_name = "FILE.json", value_parser = OsStringValueParser::new().try_map(EarlierRun::read))]
    compare: Option<EarlierRun>,
}

#[derive(Serialize)]
struct Document<'a> {
    command: &'a str,
    #[serde(flatten)]
    origin: &'a Origin,
    figures: &'a [Figure],
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<&'a Comparison>,
}

impl BenchOutput {
    /// The begin of a scenario with this number of steps.
    pub(super) fn begin(&self, scenario: &'static str, steps: usize) -> Result<Progress, Failure> {
        self.compare.as_ref().map_or(Ok(()), |earlier| earlier.check(scenario))?;
        if let Some(path) = &self.plot {
            let file = ResultFile::open(path);
            let file = file.map_err(|reason| format!("cannot write the plot {}: {reason}", path.display()))?;
            self.plot_file.get_or_init(|| file);
        }
        Ok(Progress::new(scenario, steps))
    }

    /// Prints the figures of a scenario.
    pub(super) fn show(&self, command: &str, figures: &[Figure]) -> Outcome {
        progress("");
        let origin = Origin::now();
        let comparison = self.compare.as_ref().map(|earlier| earlier.compare(figures));
        if self.json {
            let document = Document { command, origin: &origin, figures, compared: comparison.as_ref() };
            printing::print(&format!("{}\n", printing::escaped_json(&serde_json::to_string_pretty(&document)?)))?;
        } else {
            let compared = comparison.as_ref().filter(|comparison| !comparison.rows.is_empty());
            let compared = compared.map(|comparison| format!("\n{}", comparison_text(comparison)));
            printing::print(&format!("{}\n{}", table(figures), compared.unwrap_or_default()))?;
        }
        if let (Some(path), Some(file)) = (&self.plot, self.plot_file.get()) {
            let drawn = plot::distributions(command, &origin, figures);
            drawn
                .and_then(|picture| Ok(file.fill(&picture)?))
                .map_err(|reason| format!("cannot draw the plot {}: {reason}", path.display()))?;
        }
        let of_machine = self.compare.as_ref().and_then(|earlier| earlier.note(&origin));
        let of_figures = comparison.as_ref().and_then(Comparison::note);
        for note in of_machine.into_iter().chain(of_figures) {
            printing::complain(&note);
        }
        Ok(0)
    }
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["figure", "n", "min", "p50", "p90", "p99", "p99.9", "max", "unit", "ratio", "to"]);
    for figure in figures {
        let Figure { min, p50, p90, p99, p999, max, .. } = figure;
        let numbers = [Some(*min), Some(*p50), *p90, *p99, *p999, Some(*max)];
        let numbers = numbers.map(|number| number.map_or_else(|| "-".to_owned(), short));
        let mut row = vec![figure.label(), figure.n.to_string()];
        row.extend(numbers);
        row.push(figure.unit.to_owned());
        row.push(figure.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2} x")));
        row.push(figure.ratio_to.clone().unwrap_or_default());
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1).take(7) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The medians of both runs side by side.
fn comparison_text(comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["figure", "before", "now", "unit", "now/before", "spread before", "spread now", "change"]);
    let percent = |spread: Option<f64>| spread.map_or("-".to_owned(), |spread| format!("{:.1} %", spread * 100.0));
    for row in &comparison.rows {
        table.add_row([
            row.label(),
            short(row.before),
            short(row.now),
            row.unit.to_owned(),
            row.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
            percent(row.spread_before),
            percent(row.spread_now),
            row.change.name().to_owned(),
        ]);
    }
    for column in [1, 2, 4, 5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n{table}\n", comparison.head())
}

/// Four digits or so.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Series, Unit};
    use super::*;

    fn figures() -> Vec<Figure> {
        let series =
            Series::new("get.job_key", Unit::Nanoseconds).param("threads", 4).with((0..1000).map(f64::from).collect());
        vec![Figure::of(series).unwrap()]
    }

    fn help_names(field: &str) -> bool {
        HELP.split(|c: char| c.is_whitespace() || "(),;[]".contains(c)).any(|word| word == field)
    }

    #[test]
    fn json_has_the_fields_that_the_help_names() {
        let figures = figures();
        let origin = Origin::now();
        let document = Document { command: "get", origin: &origin, figures: &figures, compared: None };
        let json = serde_json::to_value(&document).unwrap();
        for field in ["command", "version", "date", "machine"] {
            assert!(help_names(field) && !json[field].is_null(), "{field} in {json}");
        }
        for field in ["host", "processor", "processors", "kernel"] {
            assert!(help_names(field) && !json["machine"][field].is_null(), "{field} in {json}");
        }
        let figure = &json["figures"][0];
        for field in ["name", "params", "n", "min", "p25", "p50", "p75", "p90", "p99", "p99.9", "max", "unit"] {
            assert!(help_names(field) && !figure[field].is_null(), "{field} in {figure}");
        }
        assert_eq!(figure["params"]["threads"], 4);
        assert!(figure.get("ratio").is_none());
    }

    #[test]
    fn the_table_has_a_row_for_each_figure() {
        let text = table(&figures()).to_string();
        assert!(text.lines().any(|line| line.contains("get.job_key threads=4") && line.contains("999.0")), "{text}");
    }

    #[test]
    fn a_missing_percentile_is_a_dash() {
        let series = Series::new("a", Unit::Bytes).with(vec![1.0, 2.0]);
        let text = table(&[Figure::of(series).unwrap()]).to_string();
        let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row, ["a", "2", "1.000", "1.000", "-", "-", "-", "2.000", "B"]);
    }
}
