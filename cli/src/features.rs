//! The features of the PMIx Standard and their states: the table `spec/features.tsv`, which `modex info --features`
//! prints.
//!
//! `cli/tests/cli/features.rs` compares the table with the repository. It also writes the tables in `README.md` and
//! `docs/compatibility.md`, which follow from it.

use clap::ValueEnum;
use serde::{Serialize, Serializer};

/// How far modex has a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum State {
    /// modex does it. Where the host has a part, modex run does that, too
    Works,
    /// A part is missing, or no test shows the whole
    Partly,
    /// The library carries the request, and the host decides. modex run does not do it
    Host,
    /// modex does not do it
    NotDone,
}

/// Whether an implementation of the standard must have a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Required by the standard.
    Required,
    /// Optional in the standard.
    Optional,
    /// A feature of OpenPMIx beyond the standard.
    Extension,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// The chapter of the standard.
    pub chapter: &'static str,
    /// The feature in words. In its chapter no other feature has the same words.
    pub feature: &'static str,
    /// Functions, attributes and statuses that belong to it.
    pub names: Vec<&'static str>,
    /// Whether an implementation must have it.
    pub need: Need,
    /// How far modex has it.
    pub state: State,
    /// The tests that show it, as `file::function` of the repository.
    pub shown_by: Vec<&'static str>,
    /// The missing part, or a remark.
    pub note: Option<&'static str>,
}

impl State {
    /// Every state, the best first.
    pub const ALL: [Self; 4] = [Self::Works, Self::Partly, Self::Host, Self::NotDone];

    /// The state in words, as in the table.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Partly => "partly",
            Self::Host => "host's part",
            Self::NotDone => "not done",
        }
    }
}

impl Need {
    const ALL: [Self; 3] = [Self::Required, Self::Optional, Self::Extension];

    /// The need in words, as in the table.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Optional => "optional",
            Self::Extension => "extension",
        }
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.words())
    }
}

impl Serialize for Need {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.words())
    }
}

/// Every feature, chapter after chapter. A line that does not have the form is left out, and a test fails.
pub fn features() -> impl Iterator<Item = Feature> {
    TABLE.lines().skip(1).filter_map(read)
}

fn read(line: &'static str) -> Option<Feature> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[chapter, feature, names, need, state, shown_by, note] = fields.as_slice() else { return None };
    Some(Feature {
        chapter,
        feature,
        names: names.split_whitespace().collect(),
        need: Need::ALL.into_iter().find(|known| known.words() == need)?,
        state: State::ALL.into_iter().find(|known| known.words() == state)?,
        shown_by: shown_by.split("; ").filter(|test| !test.is_empty()).collect(),
        note: Some(note).filter(|note| !note.is_empty()),
    })
}

/// The features as lines under their chapters, and their number in each state.
pub(super) fn text(rows: &[Feature]) -> String {
    let mut text = String::new();
    let mut chapter = "";
    for row in rows {
        if row.chapter != chapter {
            text += &format!("{}{}\n", if chapter.is_empty() { "" } else { "\n" }, row.chapter);
            chapter = row.chapter;
        }
        text += &format!("  {:11}  {:9}  {}\n", row.state.words(), row.need.words(), row.feature);
        if let Some(note) = row.note {
            text += &format!("{:26}{note}\n", "");
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text + &counts(rows) + "\n"
}

/// The number of features in each state, in words.
pub(super) fn counts(rows: &[Feature]) -> String {
    let of = |state: State| rows.iter().filter(|row| row.state == state).count();
    let states: Vec<String> = State::ALL.map(|state| format!("{} {}", state.words(), of(state))).to_vec();
    format!("{} features: {}", rows.len(), states.join(", "))
}

const TABLE: &str = include_str!("../../spec/features.tsv");
