//! Path to an unreadable entry in a caller's array, for the log message beside the status.

use modex::bfrops::DecodeLimits;
use modex::gds::registration::EntryPath;

use crate::argument::Counted;
use crate::error::CError;
use crate::form::List;
use crate::types::pmix_info_t;
use crate::{from_c, pointer};

/// The reason why an array of infos can't be read, with the path to the entry.
pub(super) fn reason(infos: Counted<'_, pmix_info_t>, error: &CError) -> String {
    let path = path(infos.list("array of infos").unwrap_or(List::EMPTY));
    format!("{path}{}{error}", if path.is_empty() { "" } else { ": " })
}

/// The path to the first unreadable entry; empty if all can be read.
fn path(infos: List<'_, pmix_info_t>) -> EntryPath {
    let mut steps = Vec::new();
    let mut around = infos;
    // Nothing is read below this depth, so the fault is not deeper.
    let mut left = DecodeLimits::NESTING_MAX;
    while let Some(next) = left.checked_sub(1) {
        let wrong = |info| from_c::info(info).err();
        let found = (0_u64..).zip(around.iter()).find_map(|(position, info)| Some((position, info, wrong(info)?)));
        let Some((position, info, error)) = found else { break };
        // Every level is read again from its entry on. For a value nested too deep, the first steps of the path
        // suffice.
        let is_too_deep = matches!(error, CError::TooDeep { .. });
        left = if is_too_deep { next.min(STEPS_SHOWN_MAX) } else { next };
        steps.push((key(&info), position));
        around = info.entries().ok().flatten().unwrap_or(List::EMPTY);
    }
    let Some((last, position)) = steps.pop() else { return EntryPath::default() };
    let path =
        if around.get().is_empty() { EntryPath::of_key(&last) } else { EntryPath::default().inside(&last, position) };
    steps.into_iter().rev().fold(path, |path, (key, position)| path.inside(&key, position))
}

/// The text of a key, up to its NUL.
fn key(info: &pmix_info_t) -> String {
    let name = pointer::bytes(&info.key);
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len().min(SHOWN_BYTES_MAX));
    String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned()
}

/// Limit of steps on the path to a value nested too deep: more than a text names.
const STEPS_SHOWN_MAX: u32 = 16;
/// Limit of shown bytes of a key without an end.
const SHOWN_BYTES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use modex::types::{DataType, Info, Key, Value};

    use super::*;
    use crate::to_c::{self, Array};
    use crate::types::pmix_data_array_t;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    /// The entries in the array of an entry.
    fn inside(info: &mut pmix_info_t) -> &mut [pmix_info_t] {
        // SAFETY: the tests pass arrays of infos, made by `to_c`.
        let array = unsafe { *info.value.data.darray() };
        // SAFETY: the array has so many infos, which belong to the entry.
        unsafe { pointer::slice_mut(array.array.cast(), array.size, "infos") }.unwrap()
    }

    fn said(infos: List<'_, pmix_info_t>) -> String {
        path(infos).to_string()
    }

    /// The second entry of the first entry of the second info of an array.
    fn entry(array: &mut Array<pmix_info_t>) -> &mut pmix_info_t {
        // SAFETY: the tests change no pointer.
        let infos = unsafe { array.as_mut_slice() };
        &mut inside(&mut inside(&mut infos[1])[0])[1]
    }

    #[test]
    fn a_readable_array_has_no_place_of_an_error() {
        let array = to_c::infos(&[info("a", 1_u8), info("b", Value::info_array(vec![info("c", "x")]))]).unwrap();
        assert_eq!(said(array.whole()), "");
    }

    #[test]
    fn the_way_leads_to_the_entry_that_can_not_be_read() {
        let node = info("pmix.node.arr", Value::info_array(vec![info("pmix.hname", "n"), info("x", 1_u8)]));
        let mut array = to_c::infos(&[info("a", 1_u8), info("pmix.job.arr", Value::info_array(vec![node]))]).unwrap();
        entry(&mut array).value.type_ = 999;
        assert_eq!(said(array.whole()), "job.arr[1].node.arr[0] \"x\"");
        entry(&mut array).value.type_ = DataType::Uint8.to_raw();
        entry(&mut array).key.fill(b'k'.cast_signed());
        assert_eq!(said(array.whole()), format!("job.arr[1].node.arr[0] {:?}", "k".repeat(32)));
        // Ends the key again before the array is released.
        entry(&mut array).key[1] = 0;
        // SAFETY: no pointer is changed.
        let infos = unsafe { array.as_mut_slice() };
        infos[0].key[0] = -1;
        assert_eq!(said(array.whole()), "\"\u{fffd}\"");
    }

    #[test]
    fn the_place_of_a_too_deep_entry_has_a_bounded_length() {
        let innermost = to_c::infos(&[info("x", 1_u8)]).unwrap();
        let mut arrays: Vec<Box<(pmix_data_array_t, pmix_info_t)>> = Vec::new();
        let mut entries: *mut pmix_info_t = innermost.as_ptr().cast_mut();
        for _ in 0..100_000 {
            let array = pmix_data_array_t { type_: DataType::Info.to_raw(), size: 1, array: entries.cast() };
            let mut level = Box::new((array, innermost.whole().get()[0]));
            level.1.value.type_ = DataType::DataArray.to_raw();
            level.1.value.data.darray = &raw mut level.0;
            entries = &raw mut level.1;
            arrays.push(level);
        }
        let outermost = std::slice::from_ref(&arrays[arrays.len() - 1].1);
        // SAFETY: each level has the array of the next one, and all of them are alive.
        let said = said(unsafe { List::new(outermost) });
        assert!(said.starts_with("x[0].x[0].x[0].") && said.len() < 100, "{said}");
    }
}
