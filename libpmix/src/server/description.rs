//! A job's description, read from the caller's arrays.
//!
//! A large job is one array for each process, all with the same keys in the same order. The values of such arrays go
//! into a table while they are read; no array is copied.

use std::mem::offset_of;

use modex::gds::registration::{ColumnId, Description, HostValue, TableCell};
use modex::keys;
use modex::types::{DataType, Rank, Value};

use crate::argument::Counted;
use crate::error::CError;
use crate::form::{List, Whole};
use crate::types::{c_char, pmix_info_t, pmix_value_t};
use crate::{from_c, pointer};

/// Reads a description.
///
/// # Errors
/// As `from_c::infos`.
pub(super) fn read(infos: Counted<'_, pmix_info_t>) -> Result<Description, CError> {
    let infos = infos.list("array of infos")?;
    let mut description = Description::default();
    let mut cells = Vec::new();
    for (position, info) in infos.iter().enumerate() {
        fetch_ahead(infos, position);
        if !file_process(info, &mut description, &mut cells)? {
            description.push(from_c::info(info)?);
        }
    }
    Ok(description)
}

/// Distances of the prefetch from the current info, in infos: to the info itself, ...
const LOOK_AHEAD: usize = 20;
/// ... to its array, ...
const FIND_AHEAD: usize = 12;
/// ... and to the entries of its array.
const FETCH_AHEAD: usize = 4;

/// Limit of prefetched entries for each array.
const FETCHED_MAX: usize = 16;

/// Prefetches the memory of later infos. A large description exceeds every cache, and its arrays lie on scattered pages
/// that processors can't predict. Without the prefetch registering takes 1.1 times as long (docs/performance.md).
fn fetch_ahead(infos: List<'_, pmix_info_t>, position: usize) {
    let is_array = |info: &Whole<'_, pmix_info_t>| info.value.type_ == DataType::DataArray.to_raw();
    let array_at = |ahead: usize| infos.at(position + ahead).filter(is_array);
    if let Some(info) = infos.get().get(position + LOOK_AHEAD) {
        pointer::fetch(info);
        pointer::fetch(&raw const info.value);
    }
    if let Some(info) = array_at(FIND_AHEAD) {
        pointer::fetch(info.value.data.darray());
    }
    let Some(Ok(array)) = array_at(FETCH_AHEAD).map(|info| info.value().data_array()) else { return };
    if array.type_ != DataType::Info.to_raw() {
        return;
    }
    let entries = array.array.cast::<pmix_info_t>();
    for at in 0..array.size.min(FETCHED_MAX) {
        let entry = entries.wrapping_add(at);
        pointer::fetch(entry);
        pointer::fetch(entry.wrapping_byte_add(offset_of!(pmix_info_t, value)));
    }
}

/// Files the values of a process array. Returns false if it is no process array, or has a form that the table can't
/// hold. `cells` is scratch memory.
fn file_process(
    info: Whole<'_, pmix_info_t>,
    description: &mut Description,
    cells: &mut Vec<TableCell>,
) -> Result<bool, CError> {
    if !is(&info.key, keys::PROC_INFO_ARRAY.name()) {
        return Ok(false);
    }
    let Some((first, others)) = info.entries()?.and_then(List::split_first) else { return Ok(false) };
    let Some(rank) = rank_in(&first) else { return Ok(false) };
    let table = description.processes();
    cells.clear();
    for (place, entry) in others.iter().enumerate() {
        let known = table.column_at(place, |key| is(&entry.key, key));
        let column: Option<ColumnId> = match known {
            Some(column) => Some(column),
            None => table.column(place, &from_c::key_of(&entry)?),
        };
        let Some(column) = column else { return Ok(false) };
        let given = given(entry.value())?;
        let Some(cell) = table.cell(column, given) else { return Ok(false) };
        cells.push(cell);
    }
    table.push(rank, cells);
    Ok(true)
}

/// The rank of a process array, if its first entry is a rank.
fn rank_in(first: &pmix_info_t) -> Option<u32> {
    if !is(&first.key, keys::RANK.name()) || first.value.type_ != DataType::ProcRank.to_raw() {
        return None;
    }
    let rank = first.value.data.rank();
    (rank <= Rank::PROCESS_MAX).then_some(rank)
}

/// A value of a process.
fn given(value: Whole<'_, pmix_value_t>) -> Result<HostValue<'_>, CError> {
    const UINT16: u16 = DataType::Uint16.to_raw();
    const UINT32: u16 = DataType::Uint32.to_raw();
    const PROC_RANK: u16 = DataType::ProcRank.to_raw();
    const STRING: u16 = DataType::String.to_raw();
    match value.type_ {
        UINT16 => return Ok(HostValue::Number(DataType::Uint16, value.data.uint16().into())),
        UINT32 => return Ok(HostValue::Number(DataType::Uint32, value.data.uint32())),
        PROC_RANK => {
            let rank = value.data.rank();
            if rank <= Rank::PROCESS_MAX {
                return Ok(HostValue::Number(DataType::ProcRank, rank));
            }
        }
        STRING => {
            let text = value.string()?;
            return Ok(text.map_or(HostValue::Other(Value::NullString), |text| HostValue::Text(text.to_bytes())));
        }
        _ => {}
    }
    Ok(HostValue::Other(from_c::value(value)?))
}

/// Whether a key in place equals `key`.
fn is(name: &[c_char], key: &str) -> bool {
    pointer::bytes(name).strip_prefix(key.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
}

#[cfg(test)]
mod tests {
    use modex::types::{Info, Key, Text};

    use super::*;
    use crate::to_c;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    fn process(rank: u32, others: Vec<Info>) -> Info {
        let mut entries = vec![info("pmix.rank", Rank::Process(rank))];
        entries.extend(others);
        info("pmix.pdata", Value::info_array(entries))
    }

    fn usual(rank: u32) -> Info {
        let node = Text::from(if rank < 20 { "n0" } else { "n1" });
        let others = vec![
            info("pmix.hname", node),
            info("pmix.lrank", 3_u16),
            info("pmix.appnum", 1_u32),
            info("pmix.grank", Rank::Process(rank)),
            info("vendor.key", Value::NullString),
            info("vendor.number", Value::Uint64(u64::MAX)),
            info("pmix.spawned", true),
        ];
        process(rank, others)
    }

    fn read_back(infos: &[Info]) -> Description {
        let array = to_c::infos(infos).unwrap();
        read(array.counted()).unwrap()
    }

    #[test]
    fn process_arrays_are_in_a_table_and_say_the_same() {
        let mut infos: Vec<Info> = (0..40).map(usual).collect();
        infos.insert(3, info("pmix.job.size", 40_u32));
        let description = read_back(&infos);
        assert_eq!(description.infos(), [info("pmix.job.size", 40_u32)]);
        let (size, mut processes) = (infos.remove(3), infos);
        processes.push(size);
        assert_eq!(*description.to_infos(), processes);
    }

    #[test]
    fn entries_that_fit_no_table_keep_their_positions() {
        let odd = [
            process(4, vec![info("pmix.appnum", "one")]),
            process(5, vec![info("pmix.rank", Rank::Process(5))]),
            process(6, vec![info("pmix.node.arr", Value::info_array(vec![info("pmix.hname", "n")]))]),
            info("pmix.pdata", 7_u32),
            info("pmix.pdata", Value::info_array(Vec::new())),
            info("pmix.pdata", Value::info_array(vec![info("pmix.rank", Rank::Wildcard)])),
            info("pmix.pdata", Value::info_array(vec![info("pmix.appnum", 1_u32)])),
        ];
        for odd in odd {
            let infos = [usual(0), usual(1), odd.clone(), usual(2)];
            let description = read_back(&infos);
            assert_eq!(description.infos(), [odd]);
            assert_eq!(*description.to_infos(), infos);
        }
    }

    #[test]
    fn keys_in_another_order_and_other_keys_are_told_apart() {
        let turned = |rank| process(rank, vec![info("pmix.grank", Rank::Process(9)), info("pmix.appnum", rank)]);
        let mixed: Vec<Info> = (0..9).map(|rank| if rank % 2 == 0 { usual(rank) } else { turned(rank) }).collect();
        let description = read_back(&mixed);
        assert!(description.infos().is_empty());
        let spelled = description.to_infos();
        let sorted = |info: &Info| {
            let Value::DataArray(array) = &info.value else { panic!("no array") };
            let mut entries: Vec<String> = array.elements.iter().map(|entry| format!("{entry:?}")).collect();
            entries.sort();
            entries
        };
        for (spelled, given) in spelled.iter().zip(&mixed) {
            assert_eq!(sorted(spelled), sorted(given));
        }
    }

    #[test]
    fn a_key_without_an_end_is_refused() {
        let mut array = to_c::infos(&[usual(0)]).unwrap();
        // SAFETY: no pointer is changed.
        let infos = unsafe { array.as_mut_slice() };
        infos[0].key.fill(b'x'.cast_signed());
        assert!(read(array.counted()).is_err());
    }

    #[test]
    fn a_key_inside_without_an_end_is_refused() {
        let array = to_c::infos(&[usual(0)]).unwrap();
        // SAFETY: the value was made just now and is an array.
        let entries = unsafe { *array.whole().get()[0].value.data.darray() };
        // SAFETY: the array has so many infos, and nobody else uses them now.
        let entries = unsafe { pointer::slice_mut(entries.array.cast::<pmix_info_t>(), entries.size, "infos") };
        entries.unwrap()[1].key.fill(b'x'.cast_signed());
        assert!(read(array.counted()).is_err());
    }
}
