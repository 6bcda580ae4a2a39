//! Output of figures: a table, a JSON document, a plot, and progress lines on a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::super::{Outcome, printing};
use super::figure::Figure;
use super::plot;

/// The contract of `--json`.
pub(super) const HELP: &str = "\
Examples:
  modex bench get
  modex bench launch -n 64 --json
  modex bench fence --plot fence.svg

Exit status:
  0  The measurement is complete
  1  It is not, or its result can't be written
  2  The command line makes no sense

Environment:
  MODEX_LOG  Level of the log: off, error, warn, info or debug [default: warn]. If it is set, lines
             have the time
  MODEX_LOG_FORMAT
             Form of the log: text or json [default: text]
  TMPDIR     Parent of the directory for the jobs' files [default: /tmp]

JSON document (--json):
  command, version, figures[]; a figure has
  name      what was measured, such as \"get.job_key\"
  params    under which circumstances: an object of numbers, such as {\"threads\": 4}
  n         number of samples
  min p50 p90 p99 max   percentiles of the samples
  unit      of the percentiles: \"ns\", \"us\", \"ms\" or \"B\"
  ratio     median divided by the median of the figure named in ratio_to (both may be missing)";

/// Options of every scenario.
#[derive(Args, Debug)]
pub(super) struct BenchOutput {
    /// Print one JSON document instead of a table (fields: see `modex bench --help`)
    #[arg(long)]
    json: bool,

    /// Also draw the percentiles into an SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document<'a> {
    command: &'a str,
    version: &'a str,
    figures: &'a [Figure],
}

impl BenchOutput {
    /// Prints the figures of a scenario.
    pub(super) fn show(&self, command: &str, figures: &[Figure]) -> Outcome {
        progress("");
        if self.json {
            let document = Document { command, version: env!("CARGO_PKG_VERSION"), figures };
            printing::print(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
        } else {
            printing::print(&format!("{}\n", table(figures)))?;
        }
        if let Some(file) = &self.plot {
            plot::percentiles(file, command, figures)
                .map_err(|reason| format!("cannot draw the plot {}: {reason}", file.display()))?;
        }
        Ok(0)
    }
}

/// Shows the present step on one line, which the next one overwrites; only on a terminal.
pub(crate) fn progress(what: &str) {
    let mut terminal = stderr();
    if terminal.is_terminal() {
        // An error about a progress line would help nobody.
        let _ = write!(terminal, "\r\x1b[K{what}").and_then(|()| terminal.flush());
    }
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["figure", "n", "min", "p50", "p90", "p99", "max", "unit", "ratio", "to"]);
    for figure in figures {
        let numbers = [figure.min, figure.p50, figure.p90, figure.p99, figure.max].map(short);
        let mut row = vec![figure.label(), figure.n.to_string()];
        row.extend(numbers);
        row.push(figure.unit.to_owned());
        row.push(figure.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2} x")));
        row.push(figure.ratio_to.clone().unwrap_or_default());
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1).take(6) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
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
        let series = Series::new("get.job_key", Unit::Nanoseconds).param("threads", 4).with(vec![1.5, 2.5]);
        vec![Figure::of(series).unwrap()]
    }

    #[test]
    fn json_has_the_fields_that_the_help_names() {
        let figures = figures();
        let document = Document { command: "get", version: "1", figures: &figures };
        let json = serde_json::to_value(&document).unwrap();
        let figure = &json["figures"][0];
        for field in ["name", "params", "n", "min", "p50", "p90", "p99", "max", "unit"] {
            assert!(HELP.contains(field) && !figure[field].is_null(), "{field} in {figure}");
        }
        assert_eq!(figure["params"]["threads"], 4);
        assert!(figure.get("ratio").is_none());
    }

    #[test]
    fn the_table_has_a_row_for_each_figure() {
        let text = table(&figures()).to_string();
        assert!(text.lines().any(|line| line.contains("get.job_key threads=4") && line.contains("2.500")), "{text}");
    }
}
