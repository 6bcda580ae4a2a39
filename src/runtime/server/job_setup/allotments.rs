//! The values that a job was given before its description.
//!
//! A later answer of a setup is about all applications so far, so it has most values of the earlier ones again. They are kept once. Endpoints
//! are kept as lists, so that a call reads its own alone.

use std::collections::BTreeMap;

use super::layout::elements;
use crate::gds::job_record::EndpointLists;
use crate::gds::registration::{ENDPOINTS, info_of_lists, lists_of};
use crate::keys;
use crate::types::{Info, Key, Value};

/// Values of several calls. As in a description, the newest value of a key counts, and the first endpoints of a process.
#[derive(Debug, Default)]
pub(super) struct Allotments {
    values: Vec<Info>,
    places: BTreeMap<Slot, usize>,
    endpoints: Option<EndpointLists>,
    /// The calls that have added values.
    calls: usize,
}

/// The subject of a value.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    Job(Key),
    Node(String),
}

impl Allotments {
    /// The values of a call.
    pub(super) fn of(values: Vec<Info>) -> Self {
        let mut of_call = Self { calls: 1, ..Self::default() };
        values.into_iter().for_each(|value| of_call.add_one(value));
        of_call
    }

    /// Adds the values of later calls.
    pub(super) fn append(&mut self, later: Self) {
        self.calls = self.calls.saturating_add(later.calls);
        later.values.into_iter().for_each(|value| self.add_one(value));
        later.endpoints.into_iter().for_each(|lists| self.add_endpoints(lists));
    }

    /// The number of calls.
    pub(super) const fn calls(&self) -> usize {
        self.calls
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.values.is_empty() && self.endpoints.is_none()
    }

    pub(super) fn into_values(mut self) -> Vec<Info> {
        self.values.extend(self.endpoints());
        self.values
    }

    /// All values but the endpoints.
    pub(super) fn values(&self) -> &[Info] {
        &self.values
    }

    pub(super) fn endpoints(&self) -> Option<Info> {
        self.endpoints.as_ref().map(info_of_lists)
    }

    fn add_endpoints(&mut self, later: EndpointLists) {
        match &mut self.endpoints {
            Some(earlier) => earlier.add(later),
            None => self.endpoints = Some(later),
        }
    }

    fn add_one(&mut self, value: Info) {
        if value.key.as_str() == ENDPOINTS
            && let Some(lists) = lists_of(&value)
        {
            return self.add_endpoints(lists);
        }
        // The registration refuses damaged endpoints.
        let next = self.values.len();
        let place = Slot::of(&value).map_or(next, |slot| *self.places.entry(slot).or_insert(next));
        let Some(earlier) = self.values.get_mut(place) else { return self.values.push(value) };
        match value.key.as_str() {
            key if key == keys::NODE_INFO_ARRAY.name() => add_of_node(earlier, value),
            _ => *earlier = value,
        }
    }
}

impl Slot {
    /// `None` for a value that stands alone.
    fn of(value: &Info) -> Option<Self> {
        match value.key.as_str() {
            key if key == keys::NODE_INFO_ARRAY.name() => {
                let name = elements(&value.value).find(|info| info.key.as_str() == keys::HOSTNAME.name())?;
                Some(Self::Node(name.value.as_str()?.to_owned()))
            }
            key if OF_JOB.contains(&key) || !value.key.is_reserved() => Some(Self::Job(value.key.clone())),
            _ => None,
        }
    }
}

/// Reserved keys of which a job has one value.
const OF_JOB: [&str; 2] = [keys::ALLOC_FABRIC_SEC_KEY.name(), keys::CREDENTIAL.name()];

/// Adds a node's values to its earlier ones, whose keys they replace.
fn add_of_node(earlier: &mut Info, mut later: Info) {
    let (Value::DataArray(kept), Value::DataArray(added)) = (&mut earlier.value, &mut later.value) else { return };
    let key_of = |value: &Value| if let Value::Info(info) = value { Some(info.key.clone()) } else { None };
    kept.elements.retain(|kept| !added.elements.iter().any(|added| key_of(added) == key_of(kept)));
    kept.elements.append(&mut added.elements);
}
