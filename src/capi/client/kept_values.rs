//! Values that a caller may look at without owning them (`PMIX_GET_POINTER_VALUES`).

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::capi::guard::Failure;
use crate::capi::to_c::Single;
use crate::capi::types::pmix_value_t;
use crate::runtime::{Borrowed, Fetched};
use crate::types::{DataType, Key, ProcId, Status, Value};

/// What was handed out, by process and key. It stays where it is until the client is gone: callers have pointers to it.
/// A value that is asked for again is not made again, so this grows with the values that there are, not with the calls.
#[derive(Default)]
pub(in crate::capi) struct KeptValues(Mutex<BTreeMap<Name, Vec<Kept>>>);

/// A process and a key; without the key, all that the process posted.
type Name = (ProcId, Option<Key>);

/// One value, as the caller sees it.
struct Kept {
    source: Source,
    /// In a place of its own, so that it stays there.
    value: Box<Single<pmix_value_t>>,
}

/// Where it came from, to recognise it.
#[derive(PartialEq)]
enum Source {
    /// Bytes in a segment, which never change: address and length.
    Stored(DataType, usize, usize),
    /// Anything else.
    Copied(Value),
}

// SAFETY: the addresses are numbers here, and the values are only ever read.
unsafe impl Send for Kept {}

impl KeptValues {
    /// A pointer to the library's copy of a value.
    pub(super) fn pointer_to(
        &self,
        proc: ProcId,
        key: Option<Key>,
        fetched: &Fetched<'_>,
    ) -> Result<*mut pmix_value_t, Failure> {
        let source = source_of(fetched)?;
        let mut values = self.0.lock();
        let of_key = values.entry((proc, key)).or_default();
        if let Some(known) = of_key.iter_mut().find(|kept| kept.source == source) {
            return Ok(known.value.as_mut_ptr());
        }
        let value = match &source {
            Source::Copied(value) => Single::new(value)?,
            Source::Stored(..) => Single::new(&fetched.clone().into_value().map_err(|_| Failure(Status::ERROR))?)?,
        };
        let mut kept = Kept { source, value: Box::new(value) };
        let pointer = kept.value.as_mut_ptr();
        of_key.push(kept);
        Ok(pointer)
    }
}

fn source_of(fetched: &Fetched<'_>) -> Result<Source, Failure> {
    if let Borrowed::Stored(stored) = fetched.borrow()
        && let Some(bytes) = stored.as_bytes()
    {
        return Ok(Source::Stored(stored.data_type(), bytes.as_ptr().addr(), bytes.len()));
    }
    let value = fetched.clone().into_value().map_err(|_| Failure(Status::ERROR))?;
    Ok(Source::Copied(value))
}
