//! Conversion of Rust values to libc's memory (M1).
//!
//! Data lent to a callback are an [`Array`] or another owner of this file, which releases all memory when it is
//! dropped. `into_raw` takes out data that the caller releases.

use modex::gds::{Damage, ValueRef};
use modex::runtime::{Borrowed, Fetched};
use modex::types::{App, DataType, Info, InfoFlags, Namespace, Pdata, ProcId, Query, Rank, Text, Value};

use super::error::CError;
use super::form::{Argv, Counted, Depth, Form, List, Own, Str, Whole, write_bytes};
use super::types::{
    PMIX_MAX_NSLEN, c_char, pmix_app_t, pmix_byte_object_t, pmix_info_t, pmix_nspace_t, pmix_pdata_t, pmix_proc_t,
    pmix_query_t, pmix_value_t,
};
use super::{memory, pointer};

/// An array of structures in one block, with all memory that they own.
#[derive(Debug)]
pub struct Array<F: Form> {
    first: *mut F::C,
    count: usize,
}

// SAFETY: the array and what it holds belong to nobody else; libc's blocks may be freed by any thread.
unsafe impl<F: Form> Send for Array<F> {}

impl<F: Form> Array<F> {
    /// No elements.
    #[must_use]
    pub const fn empty() -> Self {
        Self { first: std::ptr::null_mut(), count: 0 }
    }

    /// Copies of these values.
    ///
    /// # Errors
    /// [`CError`] when there is no memory, or the C type cannot hold a value.
    pub fn new(owned: &[F::Owned]) -> Result<Self, CError> {
        // On an error the drop of `array` releases the finished elements.
        let mut array = Self::empty();
        super::form::write_list::<F>(owned, &mut array.first, &mut array.count)?;
        Ok(array)
    }

    /// Deep copies of foreign structures.
    ///
    /// # Errors
    /// As [`Form::copy`].
    pub fn copied(source: Counted<'_, F>) -> Result<Self, CError> {
        let mut array = Self::empty();
        super::form::copy_list(source, &mut array.first, &mut array.count, Depth::TOP)?;
        Ok(array)
    }

    /// An array of `count` empty structures.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn constructed(count: usize) -> Result<Self, CError> {
        let mut array = Self { first: memory::zeroed(count)?, count };
        // SAFETY: an empty structure owns nothing.
        unsafe { array.as_mut_slice() }.iter_mut().for_each(F::construct);
        Ok(array)
    }

    /// As [`Array::constructed`], with one more empty structure behind the last. The array does not count it.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn constructed_with_spare(count: usize) -> Result<Self, CError> {
        if count == 0 {
            return Ok(Self::empty());
        }
        let mut array = Self::constructed(count.saturating_add(1))?;
        array.count = count;
        Ok(array)
    }

    /// The first element; NULL when there are none.
    #[must_use]
    pub const fn as_ptr(&self) -> *const F::C {
        self.first
    }

    /// The first element; NULL when there are none.
    pub const fn as_mut_ptr(&mut self) -> *mut F::C {
        self.first
    }

    /// Number of elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The elements to change.
    ///
    /// # Safety
    /// The change keeps F1: the array still owns all that its elements name, and nobody else does.
    pub unsafe fn as_mut_slice(&mut self) -> &mut [F::C] {
        // SAFETY: the block has so many elements and belongs to nobody else.
        unsafe { pointer::slice_mut(self.first, self.count, "array") }.unwrap_or_default()
    }

    /// The elements to read.
    #[must_use]
    pub fn whole(&self) -> List<'_, F> {
        // SAFETY: the block has so many elements and belongs to nobody else.
        let elements = unsafe { pointer::slice(self.first, self.count, "array") }.unwrap_or_default();
        // SAFETY: the array owns all memory that the elements name (F1).
        unsafe { List::new(elements) }
    }

    /// The elements as an argument.
    #[must_use]
    pub const fn counted(&self) -> Counted<'_, F> {
        // SAFETY: the block has so many elements, and the array owns all memory that they name (F1).
        unsafe { Counted::new(self.first, self.count) }
    }

    /// The elements, for a caller who releases them.
    #[must_use]
    pub fn into_raw(self) -> (*mut F::C, usize) {
        let array = std::mem::ManuallyDrop::new(self);
        (array.first, array.count)
    }
}

impl<F: Form> Drop for Array<F> {
    fn drop(&mut self) {
        // SAFETY: F1: the array owns its block and all memory that its elements name.
        unsafe { super::form::destruct_list::<F>(&mut self.first, &mut self.count) };
    }
}

/// Infos in one block, with the end mark.
///
/// # Errors
/// As [`Array::new`].
pub fn infos(infos: &[Info]) -> Result<Array<pmix_info_t>, CError> {
    let mut array = Array::<pmix_info_t>::new(infos)?;
    array.mark_end();
    Ok(array)
}

impl Array<pmix_info_t> {
    /// Marks the last info, and no other, as the end, for releases that look for it.
    pub fn mark_end(&mut self) {
        // SAFETY: this mark says nothing about the owner of a value.
        if let [others @ .., last] = unsafe { self.as_mut_slice() } {
            // The infos may come from an array with another end.
            others.iter_mut().for_each(|info| info.flags &= !InfoFlags::ARRAY_END.bits());
            last.flags |= InfoFlags::ARRAY_END.bits();
        }
    }
}

/// Processes in one block.
///
/// # Errors
/// As [`Array::new`].
pub fn procs(procs: &[ProcId]) -> Result<Array<pmix_proc_t>, CError> {
    Array::new(procs)
}

/// Published values in one block.
///
/// # Errors
/// As [`Array::new`].
pub fn pdata(pdata: &[Pdata]) -> Result<Array<pmix_pdata_t>, CError> {
    Array::new(pdata)
}

/// Applications in one block.
///
/// # Errors
/// As [`Array::new`].
pub fn apps(apps: &[App]) -> Result<Array<pmix_app_t>, CError> {
    Array::new(apps)
}

/// Queries in one block.
///
/// # Errors
/// As [`Array::new`].
pub fn queries(queries: &[Query]) -> Result<Array<pmix_query_t>, CError> {
    Array::new(queries)
}

/// One structure, with all memory that it owns.
#[derive(Debug)]
pub struct Single<F: Form>(F::C);

// SAFETY: what it holds belongs to nobody else; libc's blocks may be freed by any thread.
unsafe impl<F: Form> Send for Single<F> {}

impl<F: Form> Single<F> {
    /// A copy of this value.
    ///
    /// # Errors
    /// As [`Array::new`].
    pub fn new(owned: &F::Owned) -> Result<Self, CError> {
        let mut single = Self::constructed();
        F::write(owned, &mut single.0)?;
        Ok(single)
    }

    /// An empty structure.
    #[must_use]
    pub fn constructed() -> Self {
        Self(super::form::empty::<F>())
    }

    /// The structure.
    #[must_use]
    pub const fn as_ptr(&self) -> *const F::C {
        &raw const self.0
    }

    /// The structure.
    pub const fn as_mut_ptr(&mut self) -> *mut F::C {
        &raw mut self.0
    }

    /// The structure to read.
    #[must_use]
    pub const fn whole(&self) -> Whole<'_, F> {
        // SAFETY: the structure owns all memory that it names (F1).
        unsafe { Whole::new(&self.0) }
    }

    /// The structure, for reading.
    #[must_use]
    pub const fn get(&self) -> &F::C {
        &self.0
    }

    /// The structure to change.
    ///
    /// # Safety
    /// The change keeps F1: this value still owns all that the structure names, and nobody else does.
    pub const unsafe fn get_mut(&mut self) -> &mut F::C {
        &mut self.0
    }

    /// Puts the structure in place of another, whose memory is released.
    pub fn replace(mut self, old: Own<'_, F>) {
        std::mem::swap(&mut self.0, old.into_place());
    }

    /// The structure, for a caller who releases its memory.
    #[must_use]
    pub fn into_raw(self) -> F::C {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl<F: Form> Drop for Single<F> {
    fn drop(&mut self) {
        // SAFETY: F1: the structure owns all memory that it names.
        F::destruct(unsafe { Own::new(&mut self.0) });
    }
}

/// Strings in an array that a NULL ends (NULL for none).
///
/// # Errors
/// When there is no memory.
pub fn argv(texts: &[Text]) -> Result<Single<Argv>, CError> {
    self::texts(texts.iter().map(Text::as_bytes))
}

/// As [`argv`], for texts in any form.
///
/// # Errors
/// When there is no memory.
pub fn texts<'a>(texts: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<Single<Argv>, CError> {
    let mut single = Single::<Argv>::constructed();
    Argv::write_all(texts, &mut single.0)?;
    Ok(single)
}

/// A string with its NUL.
///
/// # Errors
/// When there is no memory.
pub fn string(text: &[u8]) -> Result<Single<Str>, CError> {
    Ok(Single(memory::new_string(text)?))
}

/// Bytes and their number.
///
/// # Errors
/// When there is no memory.
pub fn byte_object(bytes: &[u8]) -> Result<Single<pmix_byte_object_t>, CError> {
    let mut single = Single::<pmix_byte_object_t>::constructed();
    write_bytes(bytes, &mut single.0)?;
    Ok(single)
}

/// A process.
#[must_use]
pub fn proc(proc: &ProcId) -> pmix_proc_t {
    pmix_proc_t { nspace: namespace(&proc.namespace), rank: proc.rank.to_raw() }
}

/// A process, or without one an empty namespace and the undefined rank.
#[must_use]
pub fn optional_proc(process: Option<&ProcId>) -> pmix_proc_t {
    let nobody = pmix_proc_t { nspace: [0; PMIX_MAX_NSLEN + 1], rank: Rank::Undefined.to_raw() };
    process.map_or(nobody, proc)
}

/// A namespace in place.
#[must_use]
pub fn namespace(namespace: &Namespace) -> pmix_nspace_t {
    let mut place = [0; PMIX_MAX_NSLEN + 1];
    let name = namespace.as_str().as_bytes();
    place.iter_mut().zip(name).for_each(|(to, from)| *to = from.cast_signed());
    place
}

/// A string for a caller who frees it.
///
/// # Errors
/// When there is no memory.
pub fn text(text: &str) -> Result<*mut c_char, CError> {
    memory::new_string(text.as_bytes())
}

/// Writes a value to storage whose old content is not released.
///
/// # Errors
/// [`CError`] when the C type cannot hold it; the storage is then empty.
pub fn value(value: &Value, to: &mut pmix_value_t) -> Result<(), CError> {
    super::form::write_anew::<pmix_value_t>(value, to)
}

/// A value in a new block, for a caller who releases both.
///
/// # Errors
/// As [`value`].
pub fn new_value(owned: &Value) -> Result<*mut pmix_value_t, CError> {
    in_new_block(|to| value(owned, to))
}

/// The result of a Get, for a caller who releases it. Strings and bytes are copied once, from the place where they are
/// stored.
///
/// # Errors
/// [`FetchedError`].
pub fn new_fetched(found: &Fetched<'_>) -> Result<*mut pmix_value_t, FetchedError> {
    in_new_block(|to| fetched(found, to))
}

/// The result of a Get, written to storage whose old content is not released.
///
/// # Errors
/// [`FetchedError`]; the storage is then empty.
pub fn fetched(found: &Fetched<'_>, to: &mut pmix_value_t) -> Result<(), FetchedError> {
    match found.borrow() {
        Borrowed::Stored(stored) => value_ref(stored, to),
        Borrowed::Value(found) => Ok(value(found, to)?),
    }
}

/// Writes a stored value to storage whose old content is not released. If its form allows, no owned value is made in
/// between.
///
/// # Errors
/// [`FetchedError`]; the storage is then empty.
pub fn value_ref(stored: ValueRef<'_>, to: &mut pmix_value_t) -> Result<(), FetchedError> {
    if let Some(number) = stored.as_u64()
        && unsigned(stored.data_type(), number, to)
    {
        return Ok(());
    }
    if let Some(bytes) = stored.as_bytes() {
        match stored.data_type() {
            DataType::String => {
                pmix_value_t::construct(to);
                to.data.string = memory::new_string(bytes)?;
                to.type_ = DataType::String.to_raw();
                return Ok(());
            }
            data_type @ (DataType::ByteObject
            | DataType::CompressedString
            | DataType::CompressedByteObject
            | DataType::Regex) => {
                pmix_value_t::construct(to);
                to.data.bo = pmix_byte_object_t { bytes: memory::new_bytes(bytes)?, size: bytes.len() };
                to.type_ = data_type.to_raw();
                return Ok(());
            }
            _ => {}
        }
    }
    let owned = match stored.number() {
        Some(number) => number,
        None => stored.to_value()?,
    };
    Ok(value(&owned, to)?)
}

/// The fast path for the types of most values of a job, without a [`Value`]; false for other types.
#[inline]
fn unsigned(data_type: DataType, number: u64, to: &mut pmix_value_t) -> bool {
    pmix_value_t::construct(to);
    match data_type {
        DataType::Uint32 => to.data.uint32 = low(number),
        DataType::Uint16 => to.data.uint16 = low(number),
        DataType::Uint64 => to.data.uint64 = number,
        DataType::Size => to.data.size = low(number),
        _ => return false,
    }
    to.type_ = data_type.to_raw();
    true
}

/// A number that fits by its type.
#[inline]
fn low<N: TryFrom<u64> + Default>(number: u64) -> N {
    number.try_into().unwrap_or_default()
}

/// Reason why a stored value can't become a C value.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchedError {
    /// The C type cannot hold it, or there is no memory.
    #[error(transparent)]
    Border(#[from] CError),
    /// The segment is damaged.
    #[error(transparent)]
    Damage(#[from] Damage),
}

impl modex::types::AsStatus for FetchedError {
    fn status(&self) -> modex::types::Status {
        match self {
            Self::Border(error) => error.status(),
            Self::Damage(_) => modex::types::Status::ERROR,
        }
    }
}

fn in_new_block<E: From<CError>>(
    write: impl FnOnce(&mut pmix_value_t) -> Result<(), E>,
) -> Result<*mut pmix_value_t, E> {
    let block: *mut pmix_value_t = memory::zeroed_one()?;
    // SAFETY: made just now; zero is a valid value.
    let outcome = unsafe { pointer::unique(block, "value") }.map_err(E::from).and_then(write);
    match outcome {
        Ok(()) => Ok(block),
        Err(error) => {
            // SAFETY: made just now; after an error it holds nothing.
            unsafe { memory::release(block) };
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use modex::types::Key;

    use super::*;

    /// Regression: a caller's mark of its array's end ended the host's array too early, before the requester's ids.
    #[test]
    fn the_last_info_alone_is_marked_as_such() {
        let end = InfoFlags::ARRAY_END.bits();
        let info = |flags| Info { key: Key::from_static("k"), flags, value: Value::Bool(true) };
        let array = infos(&[info(end), info(InfoFlags::REQUIRED.bits())]).unwrap();
        let flags: Vec<u32> = array.whole().iter().map(|info| info.flags).collect();
        assert_eq!(flags, [0, InfoFlags::REQUIRED.bits() | end]);
    }
}
