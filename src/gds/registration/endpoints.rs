//! Endpoints of a job's processes as one info of its description.
//!
//! ```text
//! modex.endpoints: infos
//!     pmix.fab.endpt  an array of endpoints without ranks; once for each list
//!     modex.runs      runs of ranks, 16 bytes each: first rank, number of ranks, list of the first one, growth
//! ```
//!
//! Lists are counted from 1. Numbers have 32 bits, least significant byte first.

use crate::gds::job_record::EndpointLists;
use crate::keys;
use crate::types::{DataType, Info, Key, Value};

use super::context::DescriptionLimits;

/// The key of the info.
pub const ENDPOINTS: &str = "modex.endpoints";

const RUNS: &str = "modex.runs";
const RUN_BYTES: usize = 16;

/// The info for these lists, and the list of each rank, by rank.
#[must_use]
pub fn endpoints_info(lists: Vec<Value>, numbers: impl Iterator<Item = (u32, u32)>) -> Info {
    let mut runs: Vec<[u32; 4]> = Vec::new();
    for (rank, number) in numbers {
        if let Some([first, count, start, growth]) = runs.last_mut()
            && first.checked_add(*count) == Some(rank)
        {
            if *count == 1 {
                *growth = number.wrapping_sub(*start);
            }
            if at(*start, *growth, *count) == number {
                *count += 1;
                continue;
            }
        }
        runs.push([rank, 1, number, 0]);
    }
    let runs = runs.into_iter().flatten().flat_map(u32::to_le_bytes).collect();
    let mut infos: Vec<Info> = lists.into_iter().map(|list| Info::new(endpoint_key(), list)).collect();
    infos.push(Info::new(Key::from_static(RUNS), Value::ByteObject(runs)));
    Info::new(Key::from_static(ENDPOINTS), Value::info_array(infos))
}

/// The lists of the info, for additions. `None` if it is damaged.
#[must_use]
pub fn lists_of(info: &Info) -> Option<EndpointLists> {
    endpoint_lists(&info.value, DescriptionLimits::default().ranks_max)
}

/// The info for lists.
#[must_use]
pub fn info_of_lists(lists: &EndpointLists) -> Info {
    let number = |number: u64| u32::try_from(number).ok().filter(|number| *number > 0);
    let numbers = (0..).zip(&lists.numbers).filter_map(|(rank, of)| Some((rank, number(*of)?)));
    endpoints_info(lists.lists.clone(), numbers)
}

#[cfg(test)]
thread_local! {
    static READ_LISTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Number of lists that this thread has read.
#[cfg(test)]
pub(crate) fn read_lists() -> usize {
    READ_LISTS.get()
}

/// Reads the value of the info. `None` if it is damaged or has ranks from `ranks_max`.
pub(super) fn endpoint_lists(value: &Value, ranks_max: u32) -> Option<EndpointLists> {
    let Value::DataArray(array) = value else { return None };
    let mut found = EndpointLists::default();
    for element in &array.elements {
        let Value::Info(info) = element else { return None };
        match &info.value {
            list if info.key == endpoint_key() && is_list(list) => found.lists.push(list.clone()),
            Value::ByteObject(runs) if info.key.as_str() == RUNS => read_runs(runs, ranks_max, &mut found.numbers)?,
            _ => return None,
        }
    }
    #[cfg(test)]
    READ_LISTS.set(READ_LISTS.get() + found.lists.len());
    let list_count = u64::try_from(found.lists.len()).ok()?;
    found.numbers.iter().all(|number| *number <= list_count).then_some(found)
}

fn read_runs(bytes: &[u8], ranks_max: u32, numbers: &mut Vec<u64>) -> Option<()> {
    let (runs, rest) = bytes.as_chunks::<RUN_BYTES>();
    for run in runs {
        let (words, _) = run.as_chunks::<4>();
        let &[first, count, start, growth] = words else { return None };
        let [first, count, start, growth] = [first, count, start, growth].map(u32::from_le_bytes);
        let end = first.checked_add(count).filter(|&end| end <= ranks_max)?;
        // Runs ascend, so a short text makes no more work than the ranks.
        let begin = usize::try_from(first).ok().filter(|begin| *begin >= numbers.len())?;
        numbers.resize(begin, 0);
        numbers.extend((0..end - first).map(|place| u64::from(at(start, growth, place))));
    }
    rest.is_empty().then_some(())
}

const fn at(start: u32, growth: u32, place: u32) -> u32 {
    start.wrapping_add(growth.wrapping_mul(place))
}

fn is_list(value: &Value) -> bool {
    matches!(value, Value::DataArray(array) if array.element_type == DataType::Endpoint)
}

const fn endpoint_key() -> Key {
    Key::from_static(keys::FABRIC_ENDPT.name())
}
