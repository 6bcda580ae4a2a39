//! The form of a spawned job's output, as the directives of the spawn ask for it.
//!
//! Tags have the launcher's own form. Files are refused: only the command line names some (`--output`).

use modex::keys::{self, TypedKey};
use modex::types::Info;

use super::line_prefix::LineMarks;

const TAGS: [TypedKey<bool>; 3] = [keys::IOF_TAG_OUTPUT, keys::TAG_OUTPUT, keys::IOF_RANK_OUTPUT];
const TIMES: [TypedKey<bool>; 2] = [keys::IOF_TIMESTAMP_OUTPUT, keys::TIMESTAMP_OUTPUT];
const MERGES: [TypedKey<bool>; 2] = [keys::IOF_MERGE_STDERR_STDOUT, keys::MERGE_STDERR_STDOUT];

/// The directives that are honoured.
pub(super) const KNOWN: [&str; 7] = [
    TAGS[0].name(),
    TAGS[1].name(),
    TAGS[2].name(),
    TIMES[0].name(),
    TIMES[1].name(),
    MERGES[0].name(),
    MERGES[1].name(),
];

/// The directives for files.
const DESTINATIONS: [&str; 4] = [
    keys::IOF_OUTPUT_TO_FILE.name(),
    keys::OUTPUT_TO_FILE.name(),
    keys::IOF_OUTPUT_TO_DIRECTORY.name(),
    keys::OUTPUT_TO_DIRECTORY.name(),
];

/// The form that a job's directives ask for; `None` where they say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OutputForm {
    has_tag: Option<bool>,
    has_time: Option<bool>,
    /// Whether standard error goes where standard output goes.
    pub(super) is_merged: bool,
}

impl OutputForm {
    /// Reads directives. Fails with the key of the first one that asks for a file.
    pub(super) fn read(job: &[Info]) -> Result<Self, &str> {
        let destination = job.iter().map(|info| info.key.as_str()).find(|key| DESTINATIONS.contains(key));
        destination.map_or(Ok(()), Err)?;
        let is_merged = wish(job, &MERGES).unwrap_or_default();
        Ok(Self { has_tag: wish(job, &TAGS), has_time: wish(job, &TIMES), is_merged })
    }

    /// The marks of the job's lines. `general` are those of the command line.
    pub(super) fn marks(self, general: LineMarks) -> LineMarks {
        let has_time = self.has_time.unwrap_or(general.has_time);
        LineMarks { has_time, has_tag: self.has_tag.unwrap_or(general.has_tag) }
    }
}

/// Whether one of these directives is true; `None` if none is given.
fn wish(job: &[Info], keys: &[TypedKey<bool>]) -> Option<bool> {
    let given = job.iter().filter(|info| keys.iter().any(|key| key.name() == info.key.as_str()));
    given.filter_map(|info| info.value.as_bool()).reduce(|one, other| one || other)
}
