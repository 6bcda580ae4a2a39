//! The TSV files as rows.

use std::cmp::Reverse;

/// A row of `spec/attributes.tsv`.
pub(crate) struct AttributeRow {
    pub(crate) macro_name: String,
    pub(crate) key: String,
    pub(crate) value_type: String,
    pub(crate) since: String,
    pub(crate) standing: String,
    pub(crate) meaning: String,
    pub(crate) realm: String,
}

/// A row of `spec/constants.tsv`.
pub(crate) struct ConstantRow {
    pub(crate) name: String,
    pub(crate) value: i64,
    pub(crate) group: String,
    pub(crate) since: String,
    pub(crate) notes: String,
}

/// Sorts the preferred of several names for one thing first: in use, then older, then by name.
pub(crate) type Preference = (Reverse<bool>, (u32, u32), String);

impl AttributeRow {
    pub(crate) fn preference(&self) -> Preference {
        let in_use = self.standing.is_empty();
        (Reverse(in_use), version(&self.since), self.macro_name.clone())
    }

    /// The key strings in the remark `[key string: "a" from 2.0, "b" from 3.0]`, if the meaning ends in one.
    pub(crate) fn spellings(&self) -> Vec<&str> {
        match self.meaning.split_once("[key string:") {
            Some((_, remark)) => remark.split('"').skip(1).step_by(2).collect(),
            None => Vec::new(),
        }
    }
}

impl ConstantRow {
    pub(crate) fn preference(&self) -> Preference {
        let in_use = !self.notes.contains("deprecated") && !self.notes.contains("last in");
        (Reverse(in_use), version(&self.since), self.name.clone())
    }
}

pub(crate) fn attributes() -> Vec<AttributeRow> {
    let text = include_str!("../../spec/attributes.tsv");
    let header = ["macro", "key", "value_type", "first_version", "deprecated", "meaning", "realm"];
    let rows = rows(text, header).into_iter();
    rows.map(|[macro_name, key, value_type, since, standing, meaning, realm]| AttributeRow {
        macro_name,
        key,
        value_type,
        since,
        standing,
        meaning,
        realm,
    })
    .collect()
}

pub(crate) fn constants() -> Vec<ConstantRow> {
    let text = include_str!("../../spec/constants.tsv");
    let rows = rows(text, ["name", "value", "group", "first_version", "notes"]).into_iter();
    rows.map(|[name, value, group, since, notes]| ConstantRow {
        value: value.parse().unwrap_or_else(|_| panic!("{name} has the value {value}, not a number")),
        name,
        group,
        since,
        notes,
    })
    .collect()
}

/// Splits a TSV text whose header must be the given one into rows of exactly as many fields.
fn rows<const N: usize>(text: &str, header: [&str; N]) -> Vec<[String; N]> {
    let mut rows = text.lines().map(|line| -> [String; N] {
        let fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
        fields.try_into().unwrap_or_else(|fields| panic!("not {N} fields: {fields:?}"))
    });
    assert_eq!(rows.next().expect("a header"), header);
    rows.collect()
}

/// Major and minor number of `4.2`, `4.2.x` or `7.0-dev`.
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split(['.', '-']).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => panic!("{text} is no version"),
    }
}
