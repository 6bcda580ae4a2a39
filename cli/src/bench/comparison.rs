//! `--compare`: the figures of this run beside those of an earlier one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use modex::stderr_log::printable;
use serde::{Deserialize, Serialize};

use super::super::origin::{Machine, Origin};
use super::figure::Figure;

/// The JSON document of an earlier run, as far as it is compared.
#[derive(Clone, Debug)]
pub(super) struct EarlierRun {
    path: PathBuf,
    document: EarlierDocument,
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierDocument {
    command: String,
    version: String,
    date: Option<String>,
    machine: Option<Machine>,
    figures: Vec<EarlierFigure>,
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierFigure {
    name: String,
    params: BTreeMap<String, u64>,
    unit: String,
    p25: Option<f64>,
    p50: f64,
    p75: Option<f64>,
}

/// Both runs. The field names are part of the command's contract; see [`super::output::HELP`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Comparison {
    file: String,
    version: String,
    date: Option<String>,
    machine: Option<Machine>,
    pub(super) rows: Vec<ComparedFigure>,
    /// The number of figures in one run alone.
    #[serde(skip)]
    alone: usize,
}

/// A figure in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ComparedFigure {
    pub(super) name: String,
    pub(super) params: BTreeMap<String, u64>,
    pub(super) unit: &'static str,
    /// The medians.
    pub(super) before: f64,
    pub(super) now: f64,
    /// `now` divided by `before`.
    pub(super) ratio: Option<f64>,
    /// The spread of the samples of each run.
    pub(super) spread_before: Option<f64>,
    pub(super) spread_now: Option<f64>,
    pub(super) change: Change,
}

/// The meaning of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Change {
    Less,
    More,
    /// The medians differ by no more than the spread of the samples.
    Noise,
    /// A run has too few samples for a spread.
    Unknown,
}

impl Change {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Less => "less",
            Self::More => "more",
            Self::Noise => "noise",
            Self::Unknown => "unknown",
        }
    }
}

/// Half of the distance of the quartiles, divided by the median.
fn spread(p25: Option<f64>, p50: f64, p75: Option<f64>) -> Option<f64> {
    Some((p75? - p25?) / 2.0 / p50).filter(|spread| spread.is_finite() && *spread >= 0.0)
}

impl EarlierRun {
    /// Reads the value of `--compare`.
    pub(super) fn read(file: OsString) -> Result<Self, String> {
        let path = PathBuf::from(file);
        let text = std::fs::read_to_string(&path).map_err(|reason| reason.to_string())?;
        let document = serde_json::from_str(&text)
            .map_err(|reason| format!("it is no document of `modex bench --json`: {reason}"))?;
        Ok(Self { path, document })
    }

    /// Refuses the document of another scenario.
    pub(super) fn check(&self, scenario: &str) -> Result<(), String> {
        let command = printable(&self.document.command);
        if command == scenario {
            return Ok(());
        }
        Err(format!("{} is a document of `modex bench {command}`, not of `{scenario}`", self.path.display()))
    }

    /// A line for the user if the runs can't be compared well.
    pub(super) fn note(&self, origin: &Origin) -> Option<String> {
        let file = self.path.display();
        let Some(machine) = &self.document.machine else {
            return Some(format!("{file} does not name its machine; it may be another one"));
        };
        let facts = |machine: &Machine| (machine.host.clone(), machine.processor.clone(), machine.processors);
        let (theirs, ours) = (facts(machine), facts(&origin.machine));
        let (host, processor, processors) = &theirs;
        let said = format!("{file} is from another machine: {host}, {processor}, {processors} processors");
        (theirs != ours).then(|| printable(&said))
    }

    /// The figures that both runs have.
    pub(super) fn compare(&self, figures: &[Figure]) -> Comparison {
        let row = |figure: &Figure| {
            let is_same = |other: &&EarlierFigure| {
                other.name == figure.name && other.params == figure.params && other.unit == figure.unit
            };
            self.document.figures.iter().find(is_same).map(|other| ComparedFigure::of(other, figure))
        };
        let EarlierDocument { version, date, machine, .. } = self.document.clone();
        let file = self.path.display().to_string();
        let rows: Vec<_> = figures.iter().filter_map(row).collect();
        let alone = (figures.len() + self.document.figures.len()).saturating_sub(2 * rows.len());
        Comparison { file, version, date, machine, rows, alone }
    }
}

impl ComparedFigure {
    fn of(earlier: &EarlierFigure, figure: &Figure) -> Self {
        let ratio = Some(figure.p50 / earlier.p50).filter(|ratio| ratio.is_finite() && earlier.p50 > 0.0);
        let spread_before = spread(earlier.p25, earlier.p50, earlier.p75);
        let spread_now = spread(figure.p25, figure.p50, figure.p75);
        let change = match (ratio, spread_before, spread_now) {
            (Some(ratio), Some(before), Some(now)) if (ratio - 1.0).abs() <= f64::max(before, now) => Change::Noise,
            (Some(ratio), Some(_), Some(_)) if ratio < 1.0 => Change::Less,
            (Some(_), Some(_), Some(_)) => Change::More,
            _ => Change::Unknown,
        };
        Self {
            name: figure.name.clone(),
            params: figure.params.clone(),
            unit: figure.unit,
            before: earlier.p50,
            now: figure.p50,
            ratio,
            spread_before,
            spread_now,
            change,
        }
    }

    /// Name and circumstances in one line.
    pub(super) fn label(&self) -> String {
        super::figure::label(&self.name, &self.params)
    }
}

impl Comparison {
    /// The line above the table.
    pub(super) fn head(&self) -> String {
        let date = self.date.as_deref().map_or_else(String::new, |date| format!(", {date}"));
        let head = format!("before: {} (modex {}{date})", self.file, self.version);
        printable(&head)
    }

    /// A line for the user if figures are missing in the table.
    pub(super) fn note(&self) -> Option<String> {
        let text = match (self.rows.len(), self.alone) {
            (_, 0) => return None,
            (0, _) => "no figure has the same name, parameters and unit".to_owned(),
            (_, 1) => "1 figure is in one of both runs alone".to_owned(),
            (_, count) => format!("{count} figures are in one of both runs alone"),
        };
        Some(printable(&format!("{}: {text}", self.file)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Series, Unit};
    use super::*;

    fn figure(name: &str, samples: Vec<f64>) -> Figure {
        Figure::of(Series::new(name, Unit::Milliseconds).param("ranks", 4).with(samples)).unwrap()
    }

    fn earlier(command: &str, figures: &[Figure]) -> EarlierRun {
        let file = tempfile::NamedTempFile::new().unwrap();
        let document = serde_json::json!({ "command": command, "version": "0.0.1", "figures": figures });
        std::fs::write(file.path(), document.to_string()).unwrap();
        EarlierRun::read(file.path().into()).unwrap()
    }

    #[test]
    fn a_median_that_moved_less_than_the_samples_spread_is_noise() {
        let before = [
            figure("same", vec![9.0, 10.0, 11.0, 12.0]),
            figure("less", vec![10.0, 10.0, 10.1, 10.1]),
            figure("more", vec![1.0; 4]),
            figure("few", vec![1.0]),
            figure("gone", vec![1.0]),
        ];
        let now = [
            figure("same", vec![10.0, 10.5, 11.5, 12.0]),
            figure("less", vec![5.0; 8]),
            figure("more", vec![2.0; 8]),
            figure("few", vec![2.0]),
            figure("new", vec![1.0]),
        ];
        let comparison = earlier("put", &before).compare(&now);
        let changes: Vec<_> = comparison.rows.iter().map(|row| (row.name.as_str(), row.change)).collect();
        let expected =
            [("same", Change::Noise), ("less", Change::Less), ("more", Change::More), ("few", Change::Unknown)];
        assert_eq!(changes, expected);
        assert!(comparison.note().unwrap().ends_with(": 2 figures are in one of both runs alone"));
        let strangers = earlier("put", &before).compare(&now[4..]);
        assert!(strangers.note().unwrap().ends_with(": no figure has the same name, parameters and unit"));
        assert_eq!(earlier("put", &before).compare(&before).note(), None);
        assert_eq!(
            (comparison.rows[2].before, comparison.rows[2].now, comparison.rows[2].ratio),
            (1.0, 2.0, Some(2.0))
        );
    }

    #[test]
    fn other_documents_are_refused() {
        assert!(EarlierRun::read("/no/such/file".into()).is_err());
        assert!(EarlierRun::read("/proc/self/status".into()).unwrap_err().contains("no document"));
        let run = earlier("get", &[]);
        assert!(run.check("get").is_ok() && run.check("put").unwrap_err().contains("`modex bench get`"));
        assert!(run.note(&Origin::now()).unwrap().contains("does not name its machine"));
    }
}
