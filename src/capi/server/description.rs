//! A job's description, read from the caller's arrays.
//!
//! It names few keys, many times: one array for each process, all with the same keys in the same order. Known keys are
//! not copied, and are mostly recognised by the place where they stood in the array before.

use crate::capi::error::CError;
use crate::capi::form::Depth;
use crate::capi::types::{c_char, pmix_info_t};
use crate::capi::{from_c, pointer};
use crate::keys;
use crate::types::{DataType, Info, Key, Value};

/// Reads a description.
///
/// # Errors
/// As `from_c::infos`.
///
/// # Safety
/// P1 for the array and every pointer inside.
pub(super) unsafe fn read(infos: *const pmix_info_t, count: usize) -> Result<Vec<Info>, CError> {
    // SAFETY: the caller's contract.
    unsafe { read_array(infos, count, &mut Recent::default(), Depth::TOP) }
}

/// # Safety
/// As [`read`].
unsafe fn read_array(
    infos: *const pmix_info_t,
    count: usize,
    recent: &mut Recent,
    depth: Depth,
) -> Result<Vec<Info>, CError> {
    // SAFETY: the caller's contract.
    let infos = unsafe { pointer::slice(infos, count, "array of infos") }?;
    // The keys of the arrays inside this one.
    let mut inner = Recent::default();
    let mut read = Vec::with_capacity(infos.len());
    for (place, info) in infos.iter().enumerate() {
        let key = recent.key(place, &info.key)?;
        // SAFETY: the caller's contract.
        let value = unsafe { read_value(info, &mut inner, depth) }?;
        read.push(Info { key, flags: info.flags, value });
    }
    Ok(read)
}

/// # Safety
/// P1 for every pointer inside.
unsafe fn read_value(info: &pmix_info_t, inner: &mut Recent, depth: Depth) -> Result<Value, CError> {
    if info.value.type_ == DataType::DataArray.to_raw() {
        // SAFETY: the type says which member it is, and any bytes are a pointer.
        let array = unsafe { info.value.data.darray };
        // SAFETY: the caller's contract.
        let array = unsafe { pointer::shared(array, "data array") }?;
        if array.type_ == DataType::Info.to_raw() {
            // SAFETY: the caller's contract; the type says what the elements are.
            let infos = unsafe { read_array(array.array.cast(), array.size, inner, depth.deeper()?) }?;
            return Ok(Value::info_array(infos));
        }
    }
    // SAFETY: the caller's contract.
    unsafe { from_c::value(&info.value) }
}

/// The known key that stood at each place of the array before.
#[derive(Default)]
struct Recent(Vec<Option<&'static str>>);

impl Recent {
    fn key(&mut self, place: usize, name: &[c_char]) -> Result<Key, CError> {
        if let Some(known) = self.0.get(place).copied().flatten().filter(|known| is(name, known)) {
            return Ok(Key::from_static(known));
        }
        let known = KNOWN.iter().copied().find(|known| is(name, known));
        if place < PLACES_MAX {
            self.0.resize(self.0.len().max(place.saturating_add(1)), None);
            if let Some(slot) = self.0.get_mut(place) {
                *slot = known;
            }
        }
        match known {
            Some(known) => Ok(Key::from_static(known)),
            None => Ok(Key::new(from_c::key_in_place(name)?.to_owned())?),
        }
    }
}

fn is(name: &[c_char], known: &str) -> bool {
    let Some((text, rest)) = name.split_at_checked(known.len()) else { return false };
    rest.first() == Some(&0) && text.iter().zip(known.bytes()).all(|(a, b)| a.cast_unsigned() == b)
}

/// The outer array has as many places as there are processes: their key is found among the first.
const PLACES_MAX: usize = 32;

/// What is said of each process and node; most frequent first.
const KNOWN: [&str; 24] = [
    keys::PROC_INFO_ARRAY.name(),
    keys::NODE_INFO_ARRAY.name(),
    keys::RANK.name(),
    keys::APPNUM.name(),
    keys::GLOBAL_RANK.name(),
    keys::APP_RANK.name(),
    keys::LOCAL_RANK.name(),
    keys::NODE_RANK.name(),
    keys::NODEID.name(),
    keys::HOSTNAME.name(),
    keys::LOCALITY_STRING.name(),
    keys::CPUSET.name(),
    keys::REINCARNATION.name(),
    keys::PROCDIR.name(),
    keys::SPAWNED.name(),
    keys::PACKAGE_RANK.name(),
    keys::NODE_SIZE.name(),
    keys::LOCAL_PEERS.name(),
    keys::LOCAL_SIZE.name(),
    keys::LOCALLDR.name(),
    keys::HOSTNAME_ALIASES.name(),
    keys::APP_INFO_ARRAY.name(),
    keys::APP_SIZE.name(),
    keys::APPLDR.name(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capi::to_c;
    use crate::types::Text;

    fn process(rank: u32) -> Info {
        let entries = vec![
            Info::new(Key::from_static("pmix.rank"), crate::types::Rank::Process(rank)),
            Info::new(Key::from_static("pmix.hname"), Text::from("n0")),
            Info::new(Key::from_static("pmix.ran"), 1_u32),
            Info::new(Key::from_static("vendor.key"), Value::NullString),
        ];
        Info::new(Key::from_static("pmix.pdata"), Value::info_array(entries))
    }

    #[test]
    fn a_description_is_read_as_any_other_array() {
        let mut description: Vec<Info> = (0..40).map(process).collect();
        description.insert(3, Info::new(Key::from_static("pmix.job.size"), 40_u32));
        let array = to_c::infos(&description).unwrap();
        // SAFETY: an array made just now.
        let read = unsafe { read(array.as_ptr(), array.len()) }.unwrap();
        // SAFETY: as above.
        assert_eq!(read, unsafe { from_c::infos(array.as_ptr(), array.len()) }.unwrap());
    }

    #[test]
    fn a_key_without_an_end_is_refused() {
        let mut array = to_c::infos(&[process(0)]).unwrap();
        array.as_mut_slice()[0].key.fill(b'x'.cast_signed());
        // SAFETY: an array made just now.
        assert!(unsafe { read(array.as_ptr(), array.len()) }.is_err());
    }
}
