//! The phases of the job's start: a table of their durations, all moments of each rank as JSON, or a picture.

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use modex::types::Time;

use super::report_document::{RankMoments, ReportDocument};
use super::timeline_picture;
use crate::origin::Origin;
use crate::printing::escaped_json;
use crate::result_file::ResultFile;
use crate::time_table::time_table;

/// A moment in a rank's life, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessPhase {
    /// The launcher asked the kernel for the process.
    Spawned,
    /// The process entered Init, by its own report, as near to the start of `main` as a library can tell. Not every
    /// client reports it.
    InitBegun,
    /// Its connect message has reached the server, so the process runs its own code and is inside Init.
    Connected,
    /// The server has admitted it. The rest of Init happens in the process itself.
    Initialized,
    /// Its request for its first fence has reached the server.
    FenceBegun,
    /// The server has released its first fence.
    Fenced,
    /// The server has taken its finalize.
    Finalized,
    /// The process has ended.
    Ended,
}

/// The ranks of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    All,
    /// Ranks that reported the start of their Init. If no rank did, the row is shown only without silent ranks.
    Telling,
    /// Ranks that connected and did not report it, if there are any.
    Silent,
}

const ROWS: [(Of, &str, ProcessPhase, ProcessPhase); 7] = [
    (Of::Telling, "spawn to main (Init begins)", ProcessPhase::Spawned, ProcessPhase::InitBegun),
    (Of::Telling, "Init begins to granted", ProcessPhase::InitBegun, ProcessPhase::Initialized),
    (Of::Silent, "spawn to main and connect", ProcessPhase::Spawned, ProcessPhase::Connected),
    (Of::Silent, "connect to Init granted", ProcessPhase::Connected, ProcessPhase::Initialized),
    (Of::All, "Init to first fence done", ProcessPhase::Initialized, ProcessPhase::Fenced),
    (Of::All, "first fence to exit", ProcessPhase::Fenced, ProcessPhase::Ended),
    (Of::All, "spawn to exit", ProcessPhase::Spawned, ProcessPhase::Ended),
];

/// The moments of every rank.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    ranks: Vec<Moments>,
}

/// The moments of one rank, by phase.
#[derive(Clone, Copy, Debug, Default)]
struct Moments([Option<Time>; 8]);

impl Moments {
    fn at(&self, phase: ProcessPhase) -> Option<Time> {
        *self.0.get(phase as usize)?
    }

    fn is_silent(&self) -> bool {
        self.at(ProcessPhase::Connected).is_some() && self.at(ProcessPhase::InitBegun).is_none()
    }
}

impl Timeline {
    /// The report of a job with this many ranks.
    pub(super) fn new(rank_count: usize) -> Self {
        Self { ranks: vec![Moments::default(); rank_count] }
    }

    /// Notes a moment; the first of its kind counts. A moment before the process existed is a client's error and
    /// ignored.
    pub(super) fn mark(&mut self, rank: u32, phase: ProcessPhase, now: Time) {
        let Some(moments) = usize::try_from(rank).ok().and_then(|rank| self.ranks.get_mut(rank)) else { return };
        if moments.at(ProcessPhase::Spawned).is_some_and(|spawned| now < spawned) {
            return;
        }
        if let Some(moment) = moments.0.get_mut(phase as usize) {
            moment.get_or_insert(now);
        }
    }

    /// The table for people.
    pub(super) fn table(&self) -> String {
        let has_silent = self.ranks.iter().any(Moments::is_silent);
        let has_telling = self.ranks.iter().any(|moments| moments.at(ProcessPhase::InitBegun).is_some());
        let is_shown = |of| match of {
            Of::All => true,
            Of::Telling => has_telling || !has_silent,
            Of::Silent => has_silent,
        };
        let rows = ROWS.into_iter().filter(|(of, ..)| is_shown(*of));
        time_table("phase (ms)", 1e3, rows.map(|(of, name, from, to)| (name, self.spans(of, from, to)))) + "\n"
    }

    /// All moments, in milliseconds after the first spawn.
    pub(super) fn document(&self, job: &str) -> ReportDocument {
        let begun = self.ranks.iter().filter_map(|moments| moments.at(ProcessPhase::Spawned)).min();
        let row = |(rank, moments): (u32, &Moments)| {
            let at = |phase| Some(moments.at(phase)?.since(begun?).as_secs_f64() * 1e3);
            RankMoments {
                rank,
                spawned: at(ProcessPhase::Spawned),
                init_begun: at(ProcessPhase::InitBegun),
                connected: at(ProcessPhase::Connected),
                init_granted: at(ProcessPhase::Initialized),
                fence_begun: at(ProcessPhase::FenceBegun),
                fence_ended: at(ProcessPhase::Fenced),
                finalized: at(ProcessPhase::Finalized),
                ended: at(ProcessPhase::Ended),
            }
        };
        let moments: Vec<RankMoments> = (0..).zip(&self.ranks).map(row).collect();
        let ranks = u32::try_from(moments.len()).unwrap_or(u32::MAX);
        ReportDocument { job: job.to_owned(), ranks, origin: Origin::now(), unit: "ms".to_owned(), moments }
    }

    fn spans(&self, of: Of, from: ProcessPhase, to: ProcessPhase) -> Vec<Duration> {
        let ranks = self.ranks.iter().filter(|moments| of != Of::Silent || moments.is_silent());
        ranks.filter_map(|moments| Some(moments.at(to)?.since(moments.at(from)?))).collect()
    }
}

/// The value of `--report`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReportWish {
    /// A table on standard error.
    Table,
    /// A file of JSON.
    Json(PathBuf),
    /// A picture.
    Svg(PathBuf),
}

/// The value of `--report` without a file.
pub(super) const TABLE: &str = "table";

impl ReportWish {
    /// The ending of a file's name chooses its form.
    pub(super) fn of(value: OsString) -> Result<Self, String> {
        let path = PathBuf::from(value);
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("json") => Ok(Self::Json(path)),
            Some("svg") => Ok(Self::Svg(path)),
            _ if path == Path::new(TABLE) => Ok(Self::Table),
            _ => Err("the name of a report ends with .svg or .json; write --report alone for the table".to_owned()),
        }
    }
}

/// No file for a report.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the report {path}: {reason}")]
pub(crate) struct ReportFileError {
    /// The file.
    path: PathBuf,
    /// The operating system's reason.
    reason: io::Error,
}

/// The open places of the reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports(Vec<(ReportWish, Option<Arc<ResultFile>>)>);

impl Reports {
    /// Opens the files, so that a job does not run in vain.
    pub(super) fn open(wishes: &[ReportWish]) -> Result<Self, ReportFileError> {
        let open = |wish: &ReportWish| {
            let (ReportWish::Json(path) | ReportWish::Svg(path)) = wish else { return Ok((wish.clone(), None)) };
            let file = ResultFile::open(path).map_err(|reason| ReportFileError { path: path.clone(), reason })?;
            Ok((wish.clone(), Some(Arc::new(file))))
        };
        Ok(Self(wishes.iter().map(open).collect::<Result<_, _>>()?))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes all files. Returns the text for the user, and whether all could be written.
    pub(super) fn write(&self, timeline: &Timeline, job: &str) -> (String, bool) {
        let (mut text, mut is_complete) = (String::new(), true);
        for (wish, file) in &self.0 {
            let written = match wish {
                ReportWish::Table => {
                    text += &timeline.table();
                    Ok(())
                }
                ReportWish::Json(_) => json(&timeline.document(job)).and_then(|json| fill(file.as_deref(), &json)),
                ReportWish::Svg(_) => {
                    timeline_picture::draw(&timeline.document(job)).and_then(|svg| fill(file.as_deref(), &svg))
                }
            };
            if let (Err(reason), ReportWish::Json(path) | ReportWish::Svg(path)) = (written, wish) {
                text += &format!("modex: cannot write the report {}: {reason}\n", path.display());
                is_complete = false;
            }
        }
        (text, is_complete)
    }
}

fn json(document: &ReportDocument) -> Result<String, Box<dyn Error>> {
    Ok(escaped_json(&serde_json::to_string_pretty(document)?) + "\n")
}

fn fill(file: Option<&ResultFile>, text: &str) -> Result<(), Box<dyn Error>> {
    Ok(file.map_or(Ok(()), |file| file.fill(text))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    /// The figures of a row: minimum, median, maximum, ranks.
    fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
        let row = table.lines().find_map(|line| line.strip_prefix(name));
        row.map_or_else(Vec::new, |figures| figures.split_whitespace().collect())
    }

    #[test]
    fn each_phase_is_counted_from_the_one_before() {
        let mut timeline = Timeline::new(3);
        for (rank, late) in [(0, 0), (1, 2), (2, 7)] {
            timeline.mark(rank, ProcessPhase::Spawned, at(0));
            timeline.mark(rank, ProcessPhase::InitBegun, at(1 + late));
            timeline.mark(rank, ProcessPhase::Connected, at(2 + late));
            timeline.mark(rank, ProcessPhase::Initialized, at(4 + late));
        }
        timeline.mark(0, ProcessPhase::InitBegun, at(50));
        let table = timeline.table();
        assert_eq!(row(&table, "spawn to main (Init begins)"), ["1.000", "3.000", "8.000", "3"]);
        assert_eq!(row(&table, "Init begins to granted"), ["3.000", "3.000", "3.000", "3"]);
        assert!(!table.contains("connect"), "{table}");
    }

    #[test]
    fn a_client_that_does_not_say_when_its_init_began_is_timed_from_its_connect_message() {
        let mut timeline = Timeline::new(2);
        for rank in 0..2 {
            timeline.mark(rank, ProcessPhase::Spawned, at(1));
            timeline.mark(rank, ProcessPhase::Connected, at(3));
            timeline.mark(rank, ProcessPhase::Initialized, at(4));
        }
        let silent = timeline.table();
        assert_eq!(row(&silent, "spawn to main and connect"), ["2.000", "2.000", "2.000", "2"]);
        assert_eq!(row(&silent, "connect to Init granted"), ["1.000", "1.000", "1.000", "2"]);
        assert!(!silent.contains("Init begins"), "{silent}");
        // A rank that was not started yet can have no moment.
        timeline.mark(0, ProcessPhase::InitBegun, at(0));
        assert_eq!(timeline.table(), silent);
        timeline.mark(0, ProcessPhase::InitBegun, at(2));
        let mixed = timeline.table();
        assert_eq!(row(&mixed, "Init begins to granted"), ["2.000", "2.000", "2.000", "1"]);
        assert_eq!(row(&mixed, "spawn to main and connect"), ["2.000", "2.000", "2.000", "1"]);
    }

    #[test]
    fn a_phase_nobody_reached_has_no_figures() {
        let timeline = Timeline::new(1);
        assert!(timeline.table().lines().skip(1).all(|row| row.trim_end().ends_with('0') && row.contains('-')));
    }

    #[test]
    fn the_document_has_the_moments_of_each_rank_after_the_first_spawn() {
        let mut timeline = Timeline::new(2);
        timeline.mark(0, ProcessPhase::Spawned, at(5));
        timeline.mark(1, ProcessPhase::Spawned, at(7));
        timeline.mark(1, ProcessPhase::FenceBegun, at(9));
        timeline.mark(1, ProcessPhase::Ended, at(11));
        let document = timeline.document("job");
        assert_eq!((document.ranks, document.moments[0].spawned), (2, Some(0.0)));
        let second = RankMoments {
            rank: 1,
            spawned: Some(2.0),
            fence_begun: Some(4.0),
            ended: Some(6.0),
            ..RankMoments::default()
        };
        assert_eq!(document.moments[1], second);
        assert_eq!(serde_json::from_str::<ReportDocument>(&json(&document).unwrap()).unwrap(), document);
    }

    #[test]
    fn the_ending_of_the_name_chooses_the_form() {
        let wish = |value: &str| ReportWish::of(value.into());
        assert_eq!(wish("table"), Ok(ReportWish::Table));
        assert_eq!(wish("a/b.svg"), Ok(ReportWish::Svg("a/b.svg".into())));
        assert_eq!(wish("b.json"), Ok(ReportWish::Json("b.json".into())));
        assert!(wish("b.png").is_err() && wish("").is_err() && wish("svg").is_err());
    }
}
