//! Values that a caller may read without owning them (`PMIX_GET_POINTER_VALUES`).

use modex::runtime::{Borrowed, Fetched};
use modex::types::{DataType, Status, Value};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::guard::Failure;
use crate::to_c::Single;
use crate::types::pmix_value_t;

/// Values handed out. They stay in place until the client ends: callers have pointers to them. A repeated Get finds the
/// same copy, so memory grows with the number of values, not of calls.
///
/// The map's number is a hash of process and key. A collision is harmless: a value is handed out again only if its
/// source is equal.
#[derive(Default)]
pub(crate) struct KeptValues(Mutex<FxHashMap<u64, Vec<Kept>>>);

/// One value, as the caller sees it.
struct Kept {
    source: Source,
    /// Boxed, so that it stays in place.
    value: Box<Single<pmix_value_t>>,
}

/// Origin of a value, to recognise it.
#[derive(PartialEq)]
enum Source {
    /// Bytes in a segment, which never change: address and length.
    Stored(DataType, usize, usize),
    /// Any other value.
    Copied(Value),
}

// SAFETY: the addresses are numbers here, and the values are only ever read.
unsafe impl Send for Kept {}

impl KeptValues {
    /// A pointer to the library's copy of a value.
    pub(super) fn pointer_to(&self, number: u64, fetched: &Fetched<'_>) -> Result<*mut pmix_value_t, Failure> {
        let source = source_of(fetched)?;
        self.pointer_to_copy(number, source, || fetched.clone().into_value().map_err(|_| Failure(Status::ERROR)))
    }

    /// As [`KeptValues::pointer_to`], for a value that lies in no segment.
    pub(super) fn pointer_to_value(&self, number: u64, value: Value) -> Result<*mut pmix_value_t, Failure> {
        self.pointer_to_copy(number, Source::Copied(value), || Err(Failure(Status::ERROR)))
    }

    /// `stored` makes the value of a [`Source::Stored`], which holds only an address.
    fn pointer_to_copy(
        &self,
        number: u64,
        source: Source,
        stored: impl FnOnce() -> Result<Value, Failure>,
    ) -> Result<*mut pmix_value_t, Failure> {
        let mut values = self.0.lock();
        let of_key = values.entry(number).or_default();
        if let Some(known) = of_key.iter_mut().find(|kept| kept.source == source) {
            return Ok(known.value.as_mut_ptr());
        }
        let value = match &source {
            Source::Copied(value) => Single::new(value)?,
            Source::Stored(..) => Single::new(&stored()?)?,
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
    if let Borrowed::Stored(stored) = fetched.borrow()
        && let Some(number) = stored.number()
    {
        return Ok(Source::Copied(number));
    }
    let value = fetched.clone().into_value().map_err(|_| Failure(Status::ERROR))?;
    Ok(Source::Copied(value))
}
