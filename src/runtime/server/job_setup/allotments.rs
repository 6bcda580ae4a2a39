//! The values that a job was given before its description.
//!
//! A later answer of a setup is about all applications so far, so it has most values of the earlier ones again. They
//! are kept once. Endpoints of several calls are kept as lists, so that a call reads its own alone. Endpoints of one
//! call stay in runs of ranks, which are smaller.

use std::collections::BTreeMap;

use super::layout::elements;
use crate::gds::job_record::EndpointLists;
use crate::gds::registration::{ENDPOINTS, info_of_lists, lists_of};
use crate::keys;
use crate::types::{Info, Key, Value};

/// Values of several calls. As in a description, the newest value of a key counts, and the first endpoints of a
/// process.
#[derive(Debug, Default)]
pub(super) struct Allotments {
    values: Vec<Info>,
    places: BTreeMap<Slot, usize>,
    endpoints: Option<Endpoints>,
    /// The calls that have added values.
    calls: usize,
}

/// Endpoints of processes.
#[derive(Debug)]
enum Endpoints {
    /// Endpoints of one call, as they came.
    Runs(Info),
    /// Endpoints of several calls, with a number for each rank.
    Lists(EndpointLists),
}

impl Endpoints {
    /// The lists; the info if it is damaged.
    fn into_lists(self) -> Result<EndpointLists, Info> {
        match self {
            Self::Runs(info) => lists_of(&info).ok_or(info),
            Self::Lists(lists) => Ok(lists),
        }
    }
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
        later.endpoints.into_iter().for_each(|endpoints| self.add_endpoints(endpoints));
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
        self.endpoints.as_ref().map(|endpoints| match endpoints {
            Endpoints::Runs(info) => info.clone(),
            Endpoints::Lists(lists) => info_of_lists(lists),
        })
    }

    /// Adds endpoints. Damaged ones stand alone, and the registration refuses them.
    fn add_endpoints(&mut self, later: Endpoints) {
        let Some(earlier) = self.endpoints.take() else {
            self.endpoints = Some(later);
            return;
        };
        let mut added: Option<EndpointLists> = None;
        for endpoints in [earlier, later] {
            match (endpoints.into_lists(), &mut added) {
                (Ok(lists), Some(earlier)) => earlier.add(lists),
                (Ok(lists), None) => added = Some(lists),
                (Err(damaged), _) => self.values.push(damaged),
            }
        }
        self.endpoints = added.map(Endpoints::Lists);
    }

    fn add_one(&mut self, value: Info) {
        if value.key.as_str() == ENDPOINTS {
            return self.add_endpoints(Endpoints::Runs(value));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gds::registration::{endpoints_info, read_lists};
    use crate::types::{DataArray, DataType};

    /// One list for all of these ranks.
    fn endpoints(ranks: std::ops::Range<u32>) -> Info {
        let list = DataArray { element_type: DataType::Endpoint, elements: Vec::new() };
        endpoints_info(vec![Value::DataArray(Box::new(list))], ranks.map(|rank| (rank, 1)))
    }

    /// Regression: a job that waited for its registration kept 8 bytes of each rank.
    #[test]
    fn endpoints_of_one_call_stay_in_runs() {
        let (info, before) = (endpoints(0..1_000_000), read_lists());
        let mut allotments = Allotments::of(vec![info.clone()]);
        assert_eq!((allotments.endpoints(), read_lists()), (Some(info), before));
        allotments.append(Allotments::of(vec![endpoints(999_999..1_000_001)]));
        let lists = lists_of(&allotments.endpoints().unwrap()).unwrap();
        assert_eq!((lists.numbers.len(), &lists.numbers[999_998..]), (1_000_001, &[1, 1, 2][..]));
    }

    /// The registration must see them, and refuse them.
    #[test]
    fn damaged_endpoints_stay() {
        let damaged = || Info::new(Key::from_static(ENDPOINTS), 7_u32);
        let sound = || endpoints(0..2);
        for [first, second] in [[damaged(), sound()], [sound(), damaged()]] {
            let mut allotments = Allotments::of(vec![first]);
            allotments.append(Allotments::of(vec![second]));
            assert_eq!(allotments.into_values(), [damaged(), sound()]);
        }
    }
}
