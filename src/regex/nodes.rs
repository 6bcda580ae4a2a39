//! The expanded node map.

use super::decimal;
use super::error::{MapError, within};
use super::limits::MapLimits;

/// Any number of node names in map order, in two allocations.
///
/// Never empty. Names are neither empty nor unprintable and hold no separator or bracket, so that every generator can
/// write every list. A name may occur twice: the reader of the map decides whether that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeList {
    /// All names, with a comma between them.
    text: String,
    /// The end of each name in `text`.
    ends: Vec<u32>,
}

impl NodeList {
    /// Collects names in order.
    ///
    /// # Errors
    /// If there are no names, a name is empty or holds an illegal character, or `limits` are exceeded.
    pub fn from_names<N: AsRef<str>>(names: impl IntoIterator<Item = N>, limits: &MapLimits) -> Result<Self, MapError> {
        let mut builder = NodeListBuilder::new(limits);
        for name in names {
            builder.push_name(name.as_ref())?;
        }
        builder.finish()
    }

    /// Number of nodes; at least one.
    #[expect(clippy::len_without_is_empty, reason = "a list is never empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The name of the node at `index`, counted from zero.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&str> {
        let start = match index.checked_sub(1) {
            None => 0,
            // One further than the end of the name before: a comma is between them.
            Some(previous) => position(*self.ends.get(previous)?).checked_add(1)?,
        };
        self.text.get(start..position(*self.ends.get(index)?))
    }

    /// All names in map order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }

    /// All names in map order with a comma between them: the value of the node list key.
    #[must_use]
    pub fn as_text(&self) -> &str {
        &self.text
    }
}

/// Collects names one at a time, within limits.
pub(super) struct NodeListBuilder<'a> {
    list: NodeList,
    limits: &'a MapLimits,
}

impl<'a> NodeListBuilder<'a> {
    pub(super) fn new(limits: &'a MapLimits) -> Self {
        Self { list: NodeList { text: String::new(), ends: Vec::new() }, limits }
    }

    /// Number of names so far, which is the index of the next one.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.list.ends.len()).unwrap_or(u32::MAX)
    }

    /// Appends one name.
    pub(super) fn push_name(&mut self, name: &str) -> Result<(), MapError> {
        self.push(|text| text.push_str(name))
    }

    /// Appends one name per number from `first` to `last`, both included: the prefix, the number padded to
    /// `width` digits, the suffix.
    pub(super) fn push_numbered(
        &mut self,
        (prefix, suffix): (&str, &str),
        width: u32,
        (first, last): (u64, u64),
    ) -> Result<(), MapError> {
        let width = within("digits in a node name", u64::from(width), self.limits.name_bytes_max)?;
        // The whole range must fit before the first name is made.
        let count_after = last.saturating_sub(first).saturating_add(1).saturating_add(u64::from(self.count()));
        within("nodes", count_after, self.limits.nodes_max)?;
        for number in first..=last {
            self.push(|text| {
                text.push_str(prefix);
                decimal::push_padded(text, number, width);
                text.push_str(suffix);
            })?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<NodeList, MapError> {
        if self.list.ends.is_empty() {
            return Err(MapError::NoNodes);
        }
        Ok(self.list)
    }

    /// Appends the text from `write` as one name, and checks it.
    fn push(&mut self, write: impl FnOnce(&mut String)) -> Result<(), MapError> {
        let node = self.count();
        within("nodes", u64::from(node) + 1, self.limits.nodes_max)?;
        if node > 0 {
            self.list.text.push(',');
        }
        let start = self.list.text.len();
        write(&mut self.list.text);
        check_name(self.list.text.get(start..).unwrap_or_default(), node, self.limits)?;
        let end = u64::try_from(self.list.text.len()).unwrap_or(u64::MAX);
        let end = within("bytes of node names", end, self.limits.names_bytes_max)?;
        self.list.ends.push(end);
        Ok(())
    }
}

fn check_name(name: &str, node: u32, limits: &MapLimits) -> Result<(), MapError> {
    if name.is_empty() {
        return Err(MapError::EmptyName { node });
    }
    let name_bytes = u64::try_from(name.len()).unwrap_or(u64::MAX);
    within("bytes in a node name", name_bytes, limits.name_bytes_max)?;
    let is_forbidden = |character: &char| {
        matches!(character, ',' | ';' | '[' | ']') || character.is_control() || character.is_whitespace()
    };
    match name.chars().find(is_forbidden) {
        Some(character) => Err(MapError::NameCharacter { node, character }),
        None => Ok(()),
    }
}

fn position(end: u32) -> usize {
    usize::try_from(end).unwrap_or(usize::MAX)
}
