//! The form of a spawned job's output, as the directives of the spawn ask for it. Tags have the launcher's own form.

use modex::keys::{self, TypedKey};
use modex::types::{Info, ProcId};

use super::line_form::LineMarks;
use super::rank_id::RankId;

const TAGS: [TypedKey<bool>; 3] = [keys::IOF_TAG_OUTPUT, keys::TAG_OUTPUT, keys::IOF_RANK_OUTPUT];
const TIMES: [TypedKey<bool>; 2] = [keys::IOF_TIMESTAMP_OUTPUT, keys::TIMESTAMP_OUTPUT];
const MERGES: [TypedKey<bool>; 2] = [keys::IOF_MERGE_STDERR_STDOUT, keys::MERGE_STDERR_STDOUT];

const XML: [TypedKey<bool>; 1] = [keys::IOF_XML_OUTPUT];
const RAW: [TypedKey<bool>; 1] = [keys::IOF_OUTPUT_RAW];
/// Tags with more about the source.
const FULL_NAMES: [TypedKey<bool>; 1] = [keys::IOF_TAG_FULLNAME_OUTPUT];
const ORIGINS: [TypedKey<bool>; 1] = [keys::IOF_TAG_DETAILED_OUTPUT];

/// The directives that are honoured.
pub(super) const KNOWN: [&str; 11] = [
    TAGS[0].name(),
    TAGS[1].name(),
    TAGS[2].name(),
    TIMES[0].name(),
    TIMES[1].name(),
    MERGES[0].name(),
    MERGES[1].name(),
    XML[0].name(),
    RAW[0].name(),
    FULL_NAMES[0].name(),
    ORIGINS[0].name(),
];

/// The form that a job's directives ask for; `None` where they say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OutputForm {
    has_tag: Option<bool>,
    has_time: Option<bool>,
    is_xml: Option<bool>,
    has_full_name: bool,
    /// Whether node and process number are shown.
    pub(super) has_origin: bool,
    /// Whether the beginning of a line is passed on before its end comes.
    pub(super) is_raw: bool,
    /// Whether standard error goes where standard output goes.
    pub(super) is_merged: bool,
}

impl OutputForm {
    /// Reads directives.
    pub(super) fn of(job: &[Info]) -> Self {
        let is_set = |keys: &[TypedKey<bool>]| wish(job, keys).unwrap_or_default();
        let (has_full_name, has_origin) = (is_set(&FULL_NAMES), is_set(&ORIGINS));
        Self {
            has_tag: (has_full_name || has_origin).then_some(true).or_else(|| wish(job, &TAGS)),
            has_time: wish(job, &TIMES),
            is_xml: wish(job, &XML),
            has_full_name,
            has_origin,
            is_raw: is_set(&RAW),
            is_merged: is_set(&MERGES),
        }
    }

    /// The source in the tags of a rank with this process number on this node.
    pub(super) fn source(self, rank: RankId, proc: &ProcId, (node, pid): (&str, u32)) -> String {
        let name = if self.has_full_name { proc.to_string() } else { rank.tag() };
        if self.has_origin { format!("{name} {node}:{pid}") } else { name }
    }

    /// The marks of the job's lines. `general` are those of the command line.
    pub(super) fn marks(self, general: LineMarks) -> LineMarks {
        LineMarks {
            has_time: self.has_time.unwrap_or(general.has_time),
            has_tag: self.has_tag.unwrap_or(general.has_tag),
            is_xml: self.is_xml.unwrap_or(general.is_xml),
        }
    }
}

/// Whether one of these directives is true; `None` if none is given.
fn wish(job: &[Info], keys: &[TypedKey<bool>]) -> Option<bool> {
    let given = job.iter().filter(|info| keys.iter().any(|key| key.name() == info.key.as_str()));
    given.filter_map(|info| info.value.as_bool()).reduce(|one, other| one || other)
}
