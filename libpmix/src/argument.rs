//! Arguments of exported functions, as types that carry the promise of the C caller.
//!
//! C sees a pointer or a number. Calls from C make values of these types; Rust code needs `unsafe` for it. So the
//! parameter list of a function states what its caller promises, the promise is argued here once, and the body of the
//! function is safe.
//!
//! | type | in C | promise |
//! |---|---|---|
//! | [`In`] | `const T *` | P1: NULL, plainly wrong, or a structure; P1 for every pointer inside, too |
//! | [`Items`], [`Count`] | `const T *`, `size_t` | as [`In`], for so many structures in a row |
//! | [`Marked`], [`Count`] | `pmix_info_t *` | as [`Items`]; the flags of the entries are ours to change |
//! | [`Out`] | `T *` | P1: storage for a `T` with any content, which nobody else uses |
//! | [`Filled`] | `T *` | as [`Out`], but its members have values; pointers among them are not followed |
//! | [`FilledItems`], [`Count`] | `T *`, `size_t` | as [`Filled`], for so many in a row |
//! | [`InOut`] | `T *` | as [`In`] and as [`Out`], and F1 for the content |
//! | [`Freed`] | `T *` | as [`InOut`]; the block itself is libc's, too, and not used afterwards |
//! | [`CText`] | `const char *` | P1: NULL or a string that a NUL ends |
//! | [`FixedText`] | `const char *` | as [`CText`], or a whole array of this size |
//! | [`TextArray`] | `char **` | P1: NULL or an array that a NULL ends, with strings that NULs end |
//! | [`FreedTexts`] | `char **` | as [`TextArray`]; all of it is libc's blocks and not used afterwards |
//! | [`Data`], [`TypeCode`] | `void *`, `pmix_data_type_t` | P2: an element of this type, or the direct form of one |
//! | [`Data`], [`DataCount`] | `void *`, `int32_t` | as [`Data`], for so many elements in a row |
//! | [`DataPlace`], [`TypeCode`], [`DataCount`] | `void *` ... | P2: storage for elements of this type, for so many in a row |
//! | [`DataOut`] | `void **` | as [`Out`]; for data that is copied out, the pointer there is NULL, plainly wrong, or names storage for it |
//! | [`ValueOut`] | `pmix_value_t **` | as [`Out`]; with static values, the pointer there is NULL, plainly wrong, or names storage for one |
//! | [`GivenBlock`], [`Count`] | `char *`, `size_t` | NULL or a block of libc's with so many bytes, which the function takes over |
//! | [`Callback`](crate::callback::Callback), [`CallerData`](crate::pointer::CallerData) | function, `void *` | the function may be called on any thread with the data |
//!
//! - **A1** The promise holds until the exported function returns: the lifetime `'a`.
//! - **A2** Arguments with the same `'a` come from one call: the lifetime is invariant. A count belongs to the array of the same
//!   type. Functions with two arrays of one type number them (`N`).

use std::ffi::CStr;
use std::marker::PhantomData;

use modex::types::{DataType, InfoFlags};

use super::error::CError;
pub use super::form::Counted;
use super::form::element::{Element, Place};
use super::form::{Argv, Form, Own, Whole, bare_regex};
use super::to_c::Array;
use super::types::{
    PMIX_MAX_KEYLEN, PMIX_MAX_NSLEN, c_char, c_void, pmix_data_type_t, pmix_info_t, pmix_status_t, pmix_value_t,
};
use super::{memory, pointer};

/// Mark of one call (A2).
type Call<'a> = PhantomData<fn(&'a ()) -> &'a ()>;

/// A structure to read.
#[repr(transparent)]
pub struct In<'a, F: Form> {
    pointer: *const F::C,
    call: Call<'a>,
}

impl<F: Form> Clone for In<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Form> Copy for In<'_, F> {}

impl<'a, F: Form> In<'a, F> {
    /// Asserts the promise for a pointer.
    ///
    /// # Safety
    /// As the table above says.
    pub const unsafe fn new(pointer: *const F::C) -> Self {
        Self { pointer, call: PhantomData }
    }

    /// Whether the caller gave none.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.pointer.is_null()
    }

    /// The structure.
    ///
    /// # Errors
    /// When the pointer is NULL or an impossible address; `what` names it.
    #[inline]
    pub fn get(self, what: &'static str) -> Result<Whole<'a, F>, CError> {
        // SAFETY: P1 holds for the structure (`new`).
        let structure = unsafe { pointer::shared(self.pointer, what) }?;
        // SAFETY: P1 holds for the pointers inside, too (`new`).
        Ok(unsafe { Whole::new(structure) })
    }

    /// The structure in the form of an array.
    #[must_use]
    pub const fn as_counted(self) -> Counted<'a, F> {
        // SAFETY: one structure, with the promise of this type.
        unsafe { Counted::new(self.pointer, 1) }
    }
}

/// The first of several structures to read.
#[repr(transparent)]
pub struct Items<'a, F: Form, const N: u8 = 0> {
    first: *const F::C,
    call: Call<'a>,
}

impl<F: Form, const N: u8> Clone for Items<'_, F, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Form, const N: u8> Copy for Items<'_, F, N> {}

impl<'a, F: Form, const N: u8> Items<'a, F, N> {
    /// The array with its number of elements.
    #[must_use]
    pub const fn counted(self, count: Count<'a, F, N>) -> Counted<'a, F> {
        // SAFETY: the promise of this type; the count belongs to the array (A2).
        unsafe { Counted::new(self.first, count.number) }
    }
}

/// Directives in an array of the caller's that may be marked as processed.
#[repr(transparent)]
pub struct Marked<'a> {
    first: *mut pmix_info_t,
    call: Call<'a>,
}

impl<'a> Marked<'a> {
    /// The array with its number of elements. The borrow ends before [`Marked::mark_if`].
    #[must_use]
    pub const fn counted<'b>(&'b self, count: Count<'a, pmix_info_t>) -> Counted<'b, pmix_info_t> {
        // SAFETY: the promise of this type; the count belongs to the array (A2); no flag changes during the borrow.
        unsafe { Counted::new(self.first, count.number) }
    }

    /// Marks the required directives after a success (`PMIX_INFO_REQD_PROCESSED`). No function succeeds without
    /// honouring them. Other entries stay untouched.
    pub fn mark_if(self, status: pmix_status_t, count: Count<'a, pmix_info_t>) -> pmix_status_t {
        if status >= 0 {
            // SAFETY: so many entries are there (A2) and their flags ours to change until the call ends (A1); this
            // argument is used up.
            for info in unsafe { pointer::slice_mut(self.first, count.number, "array of infos") }.unwrap_or_default() {
                let flags = InfoFlags::from_bits_retain(info.flags);
                if flags.contains(InfoFlags::REQUIRED) && !flags.contains(InfoFlags::PROCESSED) {
                    info.flags |= InfoFlags::PROCESSED.bits();
                }
            }
        }
        status
    }
}

/// Number of structures.
#[repr(transparent)]
pub struct Count<'a, T: ?Sized, const N: u8 = 0> {
    number: usize,
    call: Call<'a>,
    of: PhantomData<T>,
}

impl<T: ?Sized, const N: u8> Clone for Count<'_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized, const N: u8> Copy for Count<'_, T, N> {}

impl<T: ?Sized, const N: u8> Count<'_, T, N> {
    /// The number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.number
    }
}

/// Storage to write.
#[repr(transparent)]
pub struct Out<'a, T> {
    pointer: *mut T,
    call: Call<'a>,
}

impl<'a, T> Out<'a, T> {
    /// Asserts the promise for a pointer.
    ///
    /// # Safety
    /// As the table above says.
    pub const unsafe fn new(pointer: *mut T) -> Self {
        Self { pointer, call: PhantomData }
    }

    /// Whether the caller gave none.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.pointer.is_null()
    }

    /// The storage.
    ///
    /// # Errors
    /// When the pointer is NULL or an impossible address; `what` names it.
    pub fn place(&mut self, what: &'static str) -> Result<&mut T, CError> {
        // SAFETY: the storage is ours alone (`new`); the result borrows this argument, so there is one reference at a
        // time.
        unsafe { pointer::unique(self.pointer, what) }
    }

    /// As [`Out::place`], for the rest of the call.
    ///
    /// # Errors
    /// As [`Out::place`].
    pub fn into_place(self, what: &'static str) -> Result<&'a mut T, CError> {
        // SAFETY: the storage is ours alone (`new`) until the call ends (A1); this argument is used up.
        unsafe { pointer::unique(self.pointer, what) }
    }

    /// The storage; `None` for NULL.
    ///
    /// # Errors
    /// When the pointer is an impossible address; `what` names it.
    pub fn optional(self, what: &'static str) -> Result<Option<&'a mut T>, CError> {
        if self.is_null() { Ok(None) } else { self.into_place(what).map(Some) }
    }

    /// Whether [`Out::put`] stores: the pointer is neither NULL nor in the first page.
    #[inline]
    #[must_use]
    pub fn is_possible(&self) -> bool {
        pointer::is_possible(self.pointer)
    }

    /// Stores a value, aligned or not. NULL and impossible addresses take none.
    #[inline]
    pub fn put(&mut self, value: T) {
        if self.is_possible() {
            // SAFETY: not plainly wrong (checked), so it is storage for a `T` (`new`).
            unsafe { self.pointer.write_unaligned(value) };
        }
    }
}

impl<T> Out<'_, *mut T> {
    /// Stores NULL in place of the result of a failed call. An impossible place stays unchanged.
    pub fn clear(&mut self) {
        if let Ok(place) = self.place("place for a result") {
            *place = std::ptr::null_mut();
        }
    }
}

/// Places for an array of the library's and for its count.
pub struct OutArray<'a, T> {
    first: Out<'a, *mut T>,
    count: Out<'a, usize>,
}

impl<'a, T> OutArray<'a, T> {
    /// Stores NULL and 0, the results of a failed call. Either place may be missing.
    pub fn cleared(mut first: Out<'a, *mut T>, mut count: Out<'a, usize>) -> Self {
        first.clear();
        if let Ok(count) = count.place("place for a count") {
            *count = 0;
        }
        Self { first, count }
    }

    /// Both places.
    ///
    /// # Errors
    /// When one is missing or an impossible address.
    pub fn places(
        &mut self,
        what: &'static str,
        what_count: &'static str,
    ) -> Result<(&mut *mut T, &mut usize), CError> {
        Ok((self.first.place(what)?, self.count.place(what_count)?))
    }

    /// Hands an array over. A caller without a place for it does not want it.
    ///
    /// # Errors
    /// When a place is an impossible address; the array is then released.
    pub fn put<F: Form<C = T>>(&mut self, array: Array<F>) -> Result<(), CError> {
        if self.first.is_null() || self.count.is_null() {
            return Ok(());
        }
        pointer::check_address(self.first.pointer, "place for an array")?;
        pointer::check_address(self.count.pointer, "place for a count")?;
        let (first, count) = array.into_raw();
        self.first.put(first);
        self.count.put(count);
        Ok(())
    }
}

/// Storage to change: its numbers and texts may be read first.
#[repr(transparent)]
pub struct Filled<'a, T>(Out<'a, T>);

impl<T> Filled<'_, T> {
    /// The storage with its content.
    ///
    /// # Errors
    /// As [`Out::place`].
    pub fn place(&mut self, what: &'static str) -> Result<&mut T, CError> {
        self.0.place(what)
    }
}

/// The first of several places to change.
#[repr(transparent)]
pub struct FilledItems<'a, T> {
    first: *mut T,
    call: Call<'a>,
}

impl<'a, T> FilledItems<'a, T> {
    /// Whether the caller gave none.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.first.is_null()
    }

    /// The places; none need no pointer.
    ///
    /// # Errors
    /// As [`Counted::list`].
    pub fn places(self, count: Count<'a, T>, what: &'static str) -> Result<&'a mut [T], CError> {
        // SAFETY: so many places are ours alone (A2) until the call ends (A1); this argument is used up.
        unsafe { pointer::slice_mut(self.first, count.number, what) }
    }
}

/// A structure to read and to change.
#[repr(transparent)]
pub struct InOut<'a, F: Form> {
    pointer: *mut F::C,
    call: Call<'a>,
}

impl<'a, F: Form> InOut<'a, F> {
    /// Asserts the promise for a pointer.
    ///
    /// # Safety
    /// As the table above says.
    pub const unsafe fn new(pointer: *mut F::C) -> Self {
        Self { pointer, call: PhantomData }
    }

    /// The structure to read.
    ///
    /// # Errors
    /// When the pointer is NULL or an impossible address; `what` names it.
    pub fn whole(&self, what: &'static str) -> Result<Whole<'_, F>, CError> {
        // SAFETY: P1 holds for the structure (the promise of this type), and the result borrows this argument.
        let structure = unsafe { pointer::shared(self.pointer, what) }?;
        // SAFETY: P1 holds for the pointers inside, too.
        Ok(unsafe { Whole::new(structure) })
    }

    /// The structure to change or release.
    ///
    /// # Errors
    /// As [`InOut::whole`].
    pub fn own(self, what: &'static str) -> Result<Own<'a, F>, CError> {
        // SAFETY: the structure is ours alone until the call ends (A1); this argument is used up.
        let structure = unsafe { pointer::unique(self.pointer, what) }?;
        // SAFETY: F1 holds for the content (the promise of this type).
        Ok(unsafe { Own::new(structure) })
    }
}

/// Structures to release together with their block.
#[repr(transparent)]
pub struct Freed<'a, F: Form> {
    first: *mut F::C,
    call: Call<'a>,
}

impl<'a, F: Form> Freed<'a, F> {
    /// Releases so many structures, their content, and their block. NULL is nothing to release.
    pub fn free(self, count: Count<'a, F>) {
        self.release(count.number);
    }

    /// As [`Freed::free`], for the block of one structure.
    pub fn free_one(self) {
        self.release(1);
    }

    fn release(self, count: usize) {
        // SAFETY: so many structures are ours alone (A2; one where the function has no count).
        for structure in unsafe { pointer::slice_mut(self.first, count, "array") }.unwrap_or_default() {
            // SAFETY: F1 holds for the content of each (the promise of this type).
            F::destruct(unsafe { Own::new(structure) });
        }
        // SAFETY: the block is libc's or NULL, and not used afterwards (the promise of this type).
        unsafe { memory::release(self.first) };
    }
}

/// A string.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct CText<'a> {
    pointer: *const c_char,
    call: Call<'a>,
}

impl<'a> CText<'a> {
    /// Asserts the promise for a pointer.
    ///
    /// # Safety
    /// As the table above says.
    pub const unsafe fn new(pointer: *const c_char) -> Self {
        Self { pointer, call: PhantomData }
    }

    /// The string; `None` for NULL.
    ///
    /// # Errors
    /// When the pointer is an impossible address; `what` names it.
    pub fn get(self, what: &'static str) -> Result<Option<&'a CStr>, CError> {
        // SAFETY: P1 holds, and a NUL ends the string (`new`).
        unsafe { pointer::text(self.pointer, what) }
    }
}

/// A string in an array of fixed size, such as a key. The array may be full and lack the NUL, so no byte behind it is
/// read.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct FixedText<'a, const SIZE: usize> {
    pointer: *const c_char,
    call: Call<'a>,
}

/// A key as an argument.
pub type KeyText<'a> = FixedText<'a, { PMIX_MAX_KEYLEN + 1 }>;
/// A namespace as an argument.
pub type NamespaceText<'a> = FixedText<'a, { PMIX_MAX_NSLEN + 1 }>;

impl<'a, const SIZE: usize> FixedText<'a, SIZE> {
    /// Asserts the promise for a pointer.
    ///
    /// # Safety
    /// As the table above says.
    pub const unsafe fn new(pointer: *const c_char) -> Self {
        Self { pointer, call: PhantomData }
    }

    /// Whether the caller gave none.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.pointer.is_null()
    }

    /// The pointer, to give back to the caller.
    #[must_use]
    pub const fn as_ptr(self) -> *const c_char {
        self.pointer
    }

    /// The text; `None` for NULL.
    ///
    /// # Errors
    /// When the pointer is an impossible address, or no NUL comes within the array; `what` names it.
    #[inline]
    pub fn get(self, what: &'static str) -> Result<Option<&'a [u8]>, CError> {
        // SAFETY: a string, or an array of this size (`new`).
        unsafe { pointer::text_within(self.pointer, SIZE, what) }
    }

    /// The text, cut where the array must have its NUL. `None` for NULL, and for an impossible address.
    #[must_use]
    pub fn cut(self) -> Option<&'a [u8]> {
        // SAFETY: a string, or an array of this size (`new`).
        unsafe { pointer::text_up_to(self.pointer, SIZE - 1, "text") }
    }
}

/// Strings in an array that a NULL ends.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct TextArray<'a> {
    first: *const *mut c_char,
    call: Call<'a>,
}

impl<'a> TextArray<'a> {
    /// Whether the caller gave none.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.first.is_null()
    }

    /// The strings; none for NULL.
    ///
    /// # Errors
    /// When a pointer is an impossible address; `what` names it.
    pub fn get(self, what: &'static str) -> Result<Vec<&'a CStr>, CError> {
        // SAFETY: an array that a NULL ends, with its strings (the promise of this type).
        unsafe { pointer::texts(self.first, what) }
    }
}

/// Strings to release together with their array.
#[repr(transparent)]
pub struct FreedTexts<'a> {
    first: *mut *mut c_char,
    call: Call<'a>,
}

impl FreedTexts<'_> {
    /// Releases the strings and the array. NULL is nothing to release.
    pub fn free(mut self) {
        // SAFETY: the array and its strings are libc's blocks and not used afterwards (the promise of this type).
        Argv::destruct(unsafe { Own::new(&mut self.first) });
    }
}

/// Data of a type that the caller names.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Data<'a> {
    pointer: *const c_void,
    call: Call<'a>,
}

/// The type of data.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct TypeCode<'a> {
    code: pmix_data_type_t,
    call: Call<'a>,
}

impl TypeCode<'_> {
    /// The number.
    #[must_use]
    pub const fn get(self) -> pmix_data_type_t {
        self.code
    }

    /// The type.
    ///
    /// # Errors
    /// When the number is unknown.
    pub fn known(self) -> Result<DataType, CError> {
        DataType::from_raw(self.code).ok_or(CError::UnknownType { code: self.code })
    }
}

/// Number of elements of data.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct DataCount<'a> {
    number: i32,
    call: Call<'a>,
}

impl DataCount<'_> {
    /// The number; `None` if it is negative.
    #[must_use]
    pub fn get(self) -> Option<usize> {
        usize::try_from(self.number).ok()
    }

    /// The number, or a smaller one.
    #[must_use]
    pub fn at_most(self, number: usize) -> Self {
        let number = i32::try_from(number).unwrap_or(i32::MAX).min(self.number);
        Self { number, call: PhantomData }
    }
}

/// Data of one element.
pub enum Datum<'a> {
    /// A string, passed itself.
    Text(&'a CStr),
    /// A map expression, passed itself.
    Regex(&'a [u8]),
    /// A pointer, passed itself. The library never follows it.
    Pointer(*mut c_void),
    /// Any other element, passed by its address.
    Element(Element<'a>),
}

impl<'a> Data<'a> {
    /// Whether the caller gave none.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.pointer.is_null()
    }

    /// The data of one element.
    ///
    /// # Errors
    /// When the type is unknown, the pointer is NULL or an impossible address, or a map expression has no end.
    pub fn datum(self, code: TypeCode<'a>) -> Result<Datum<'a>, CError> {
        let data_type = code.known()?;
        match data_type {
            DataType::String => {
                // SAFETY: data of this type is the string itself (the promise of this type and A2).
                let text = unsafe { pointer::text(self.pointer.cast(), "string") }?;
                text.map(Datum::Text).ok_or(CError::Null { what: "string" })
            }
            // SAFETY: data of this type is the expression itself, which a NUL or its own size ends.
            DataType::Regex => unsafe { bare_regex(self.pointer.cast()) }.map(Datum::Regex),
            DataType::Pointer => Ok(Datum::Pointer(self.pointer.cast_mut())),
            // SAFETY: an element of this type is there (A2), at any address (P2).
            _ => Ok(Datum::Element(unsafe { Element::new(data_type, self.pointer) })),
        }
    }

    /// The pointer to the first of several elements. Map expressions are then passed as an array of bare pointers.
    #[must_use]
    pub const fn as_ptr(self) -> *const c_void {
        self.pointer
    }
}

/// Storage for data of a type that the caller names.
#[repr(transparent)]
pub struct DataPlace<'a> {
    pointer: *mut c_void,
    call: Call<'a>,
}

impl<'a> DataPlace<'a> {
    /// Whether the caller gave none.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.pointer.is_null()
    }

    /// The storage of one element.
    ///
    /// # Errors
    /// When the type is unknown.
    pub fn place(self, code: TypeCode<'a>) -> Result<Place<'a>, CError> {
        // SAFETY: an element of this type may be written there (A2), at any address (P2); this argument is used up.
        Ok(unsafe { Place::new(code.known()?, self.pointer) })
    }

    /// The pointer to the storage of the first of several elements.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut c_void {
        self.pointer
    }
}

/// The place for unloaded data.
#[repr(transparent)]
pub struct DataOut<'a>(Out<'a, *mut c_void>);

impl DataOut<'_> {
    /// The place.
    ///
    /// # Errors
    /// As [`Out::place`].
    pub fn place(&mut self, what: &'static str) -> Result<&mut *mut c_void, CError> {
        self.0.place(what)
    }

    /// The storage that the pointer at the place names.
    ///
    /// # Errors
    /// As [`Out::place`], and when there is none.
    ///
    /// # Safety
    /// Data of this type is copied out by the call, or the function has stored a pointer to a block of its own for it.
    pub unsafe fn storage(&mut self, data_type: DataType) -> Result<Place<'_>, CError> {
        let what = "place for data";
        let at = *self.0.place(what)?;
        if at.is_null() {
            return Err(CError::Null { what });
        }
        // SAFETY: storage for an element of this type: the caller's, by the promise of `DataOut`, or the function's
        // block.
        Ok(unsafe { Place::new(data_type, at) })
    }
}

/// The place for the value of a Get.
#[repr(transparent)]
pub struct ValueOut<'a>(Out<'a, *mut pmix_value_t>);

impl ValueOut<'_> {
    /// As [`Out::is_possible`].
    #[inline]
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.0.is_possible()
    }

    /// As [`Out::put`].
    #[inline]
    pub fn put(&mut self, value: *mut pmix_value_t) {
        self.0.put(value);
    }

    /// Stores NULL in place of the result of a failed call.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The place.
    ///
    /// # Errors
    /// As [`Out::place`].
    pub fn place(&mut self) -> Result<&mut *mut pmix_value_t, CError> {
        self.0.place("place for the value")
    }

    /// The caller's storage for a static value.
    ///
    /// # Errors
    /// As [`Out::place`], and when there is none.
    ///
    /// # Safety
    /// The directives of the call ask for a static value.
    pub unsafe fn storage(&mut self) -> Result<&mut pmix_value_t, CError> {
        let at = *self.place()?;
        // SAFETY: with static values the pointer names storage that is the caller's alone (the promise of `ValueOut`).
        unsafe { pointer::unique(at, "storage for the value") }
    }
}

/// Bytes that a function takes over.
#[repr(transparent)]
pub struct GivenBlock<'a> {
    block: *mut c_char,
    call: Call<'a>,
}

impl<'a> GivenBlock<'a> {
    /// The block and its size. The receiver owns the block.
    #[must_use]
    pub const fn into_block(self, size_bytes: Count<'a, u8>) -> (*mut c_char, usize) {
        (self.block, size_bytes.number)
    }
}

#[cfg(test)]
mod tests {
    use super::as_c::FromC;
    use super::*;

    /// Regression: `PMIx_Get` and functions with an array of results stored in the first page, and the caller crashed.
    #[test]
    fn an_impossible_place_takes_no_result() {
        // SAFETY: the address is in the first page, so no promise is needed (P1).
        let mut place = unsafe { Out::<*mut pmix_value_t>::new(std::ptr::without_provenance_mut(8)) };
        assert!(!place.is_possible());
        place.put(std::ptr::null_mut());
        place.clear();
        let mut count = 7;
        // SAFETY: as above.
        let first = unsafe { Out::<*mut pmix_info_t>::new(std::ptr::without_provenance_mut(8)) };
        // SAFETY: the test's own number.
        let mut places = OutArray::cleared(first, unsafe { Out::new(&raw mut count) });
        let array = Array::<pmix_info_t>::constructed(1).unwrap();
        assert_eq!(places.put(array), Err(CError::BadPointer { what: "place for an array", address: 8 }));
        assert_eq!(count, 0);
    }

    #[test]
    fn a_success_marks_the_required_directives_alone() {
        let flags_after = |status| {
            let mut infos = Array::<pmix_info_t>::constructed(2).unwrap();
            // SAFETY: the test's own array; no pointer inside changes.
            let places = unsafe { infos.as_mut_slice() };
            places[1].flags = InfoFlags::REQUIRED.bits();
            let (first, count) = (places.as_mut_ptr(), places.len());
            // SAFETY: as above, for the call.
            let marked = unsafe { Marked::from_c(first) };
            // SAFETY: the number of its elements.
            let count = unsafe { Count::from_c(count) };
            assert_eq!(marked.mark_if(status, count), status);
            // SAFETY: as above.
            let places = unsafe { infos.as_mut_slice() };
            places.iter().map(|info| InfoFlags::from_bits_retain(info.flags)).collect::<Vec<_>>()
        };
        let processed = InfoFlags::REQUIRED | InfoFlags::PROCESSED;
        assert_eq!(flags_after(0), [InfoFlags::empty(), processed]);
        assert_eq!(flags_after(7), [InfoFlags::empty(), processed]);
        assert_eq!(flags_after(-47), [InfoFlags::empty(), InfoFlags::REQUIRED]);
    }
}

#[cfg(test)]
pub(crate) mod as_c {
    //! Calls of exported functions by tests, which play the C caller.

    use super::*;
    use crate::callback::Callback;
    use crate::pointer::CallerData;

    /// Makes an argument of what C passes.
    pub(crate) trait FromC<C> {
        /// # Safety
        /// The promise of the type.
        unsafe fn from_c(passed: C) -> Self;
    }

    macro_rules! from_c {
        ($([$($generic:tt)*] $passed:ty => $argument:ty: |$name:ident| $make:expr;)*) => {
            $(impl<'a, $($generic)*> FromC<$passed> for $argument {
                unsafe fn from_c($name: $passed) -> Self {
                    $make
                }
            })*
        };
    }

    from_c! {
        [F: Form] *const F::C => In<'a, F>: |pointer| Self { pointer, call: PhantomData };
        [F: Form] *mut F::C => In<'a, F>: |pointer| Self { pointer, call: PhantomData };
        [F: Form, const N: u8] *const F::C => Items<'a, F, N>: |first| Self { first, call: PhantomData };
        [F: Form, const N: u8] *mut F::C => Items<'a, F, N>: |first| Self { first, call: PhantomData };
        [] *mut pmix_info_t => Marked<'a>: |first| Self { first, call: PhantomData };
        [] *const pmix_info_t => Marked<'a>: |first| Self { first: first.cast_mut(), call: PhantomData };
        [T: ?Sized, const N: u8] usize => Count<'a, T, N>: |number| Self { number, call: PhantomData, of: PhantomData };
        [T] *mut T => Out<'a, T>: |pointer| Self { pointer, call: PhantomData };
        [const SIZE: usize] *mut c_char => Out<'a, [c_char; SIZE]>: |text| Self { pointer: text.cast(), call: PhantomData };
        [T] *mut T => Filled<'a, T>: |pointer| Self(Out { pointer, call: PhantomData });
        [T] *mut T => FilledItems<'a, T>: |first| Self { first, call: PhantomData };
        [F: Form] *mut F::C => InOut<'a, F>: |pointer| Self { pointer, call: PhantomData };
        [F: Form] *mut F::C => Freed<'a, F>: |first| Self { first, call: PhantomData };
        [] *const c_char => CText<'a>: |pointer| Self { pointer, call: PhantomData };
        [] *mut c_char => CText<'a>: |pointer| Self { pointer, call: PhantomData };
        [const SIZE: usize] *const c_char => FixedText<'a, SIZE>: |pointer| Self { pointer, call: PhantomData };
        [const SIZE: usize] *mut c_char => FixedText<'a, SIZE>: |pointer| Self { pointer, call: PhantomData };
        [] *mut *mut c_char => TextArray<'a>: |first| Self { first, call: PhantomData };
        [] *mut *mut c_char => FreedTexts<'a>: |first| Self { first, call: PhantomData };
        [] *const c_void => Data<'a>: |pointer| Self { pointer, call: PhantomData };
        [] *mut c_void => Data<'a>: |pointer| Self { pointer, call: PhantomData };
        [] *mut c_void => DataPlace<'a>: |pointer| Self { pointer, call: PhantomData };
        [] pmix_data_type_t => TypeCode<'a>: |code| Self { code, call: PhantomData };
        [] *mut c_void => CallerData: |data| Self::of(data);
        [C] Option<C> => Callback<C>: |function| Self::of(function);
        [] i32 => DataCount<'a>: |number| Self { number, call: PhantomData };
        [] *mut i32 => Filled<'a, DataCount<'a>>: |number| Self(Out { pointer: number.cast(), call: PhantomData });
        [] *mut *mut c_void => DataOut<'a>: |pointer| Self(Out { pointer, call: PhantomData });
    }

    impl<T> FromC<T> for T {
        unsafe fn from_c(passed: T) -> Self {
            passed
        }
    }

    /// Calls an exported function with the arguments that C would pass.
    macro_rules! as_c {
        ($($function:ident)::+($($argument:expr),* $(,)?)) => {
            $($function)::+($({
                let passed = $argument;
                // SAFETY: the test passes what the type promises: its own locals, results of the library, or NULL.
                unsafe { $crate::argument::as_c::FromC::from_c(passed) }
            }),*)
        };
    }
    pub(crate) use as_c;
}
