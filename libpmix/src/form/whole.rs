//! Structures of C together with the promise about their pointers.
//!
//! - [`Whole`]: P1 holds for every pointer inside. Safe code may read it.
//! - [`Counted`] and [`List`]: arrays of such structures, before and after the check of pointer and count.
//! - [`Own`]: F1 holds, too, and nobody else uses the structure. Safe code may release it.
//!
//! The form says what a pointer means. For [`Str`](super::Str) it is a string, for [`Address`](super::Address) a
//! number. All are made by `unsafe` functions, or from the arguments of a C caller ([`crate::argument`]).

use std::marker::PhantomData;
use std::ops::Deref;

use super::Form;
use crate::error::CError;
use crate::pointer;

/// A structure or a member that may be read: P1 holds for every pointer inside.
#[derive(Debug)]
pub struct Whole<'a, F: Form>(&'a F::C);

impl<F: Form> Clone for Whole<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Form> Copy for Whole<'_, F> {}

impl<F: Form> Deref for Whole<'_, F> {
    type Target = F::C;

    fn deref(&self) -> &F::C {
        self.0
    }
}

impl<'a, F: Form> Whole<'a, F> {
    /// Asserts the promise for a structure.
    ///
    /// # Safety
    /// P1 holds for every pointer inside, as the form takes it.
    pub const unsafe fn new(structure: &'a F::C) -> Self {
        Self(structure)
    }

    /// The structure.
    #[must_use]
    pub const fn get(self) -> &'a F::C {
        self.0
    }

    /// A copy of the structure alone. It has the same pointers.
    #[must_use]
    pub const fn shallow(self) -> Shallow<'a, F> {
        Shallow(*self.0, PhantomData)
    }
}

/// A copy of a whole structure. The targets of its pointers still belong to the owner of the original.
#[derive(Debug)]
pub struct Shallow<'a, F: Form>(F::C, PhantomData<&'a F::C>);

impl<F: Form> Shallow<'_, F> {
    /// The copy as a structure to read.
    #[must_use]
    pub const fn whole(&self) -> Whole<'_, F> {
        // SAFETY: the pointers are those of the original, for which P1 holds during the lifetime of this type.
        unsafe { Whole::new(&self.0) }
    }

    /// The structure.
    #[must_use]
    pub const fn get(&self) -> &F::C {
        &self.0
    }
}

/// A structure or a member that may be released: F1 holds, and nobody else uses it.
#[derive(Debug)]
pub struct Own<'a, F: Form>(&'a mut F::C);

impl<'a, F: Form> Own<'a, F> {
    /// Asserts the promise for a structure.
    ///
    /// # Safety
    /// F1 holds, P1 holds for every pointer inside, and nobody else uses the memory that the structure owns.
    pub const unsafe fn new(structure: &'a mut F::C) -> Self {
        Self(structure)
    }

    /// The structure to read.
    #[must_use]
    pub const fn whole(&self) -> Whole<'_, F> {
        // SAFETY: P1 is a part of the promise of `new`.
        unsafe { Whole::new(self.0) }
    }

    /// The structure after the release of its content: empty (F2).
    #[must_use]
    pub fn emptied(self) -> &'a mut F::C {
        let Self(structure) = self;
        F::destruct(Own(&mut *structure));
        structure
    }

    /// The structure without the promise.
    #[must_use]
    pub const fn into_place(self) -> &'a mut F::C {
        self.0
    }
}

/// An array that is not looked at yet. NULL without elements is permitted.
#[derive(Debug)]
pub struct Counted<'a, F: Form> {
    first: *const F::C,
    count: usize,
    elements: PhantomData<&'a F::C>,
}

impl<F: Form> Clone for Counted<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Form> Copy for Counted<'_, F> {}

impl<'a, F: Form> Counted<'a, F> {
    /// Asserts the promise for an array.
    ///
    /// # Safety
    /// P1 for so many elements, and for every pointer inside, as the form takes it.
    pub const unsafe fn new(first: *const F::C, count: usize) -> Self {
        Self { first, count, elements: PhantomData }
    }

    /// The number of elements.
    #[must_use]
    pub const fn count(self) -> usize {
        self.count
    }

    /// The structures; none need no pointer.
    ///
    /// # Errors
    /// When NULL has elements, the pointer is an impossible address, or the count is impossible; `what` names the
    /// array.
    #[inline]
    pub fn list(self, what: &'static str) -> Result<List<'a, F>, CError> {
        // SAFETY: P1 holds for so many elements (`new`).
        let elements = unsafe { pointer::slice(self.first, self.count, what) }?;
        // SAFETY: P1 holds for the pointers inside, too (`new`).
        Ok(unsafe { List::new(elements) })
    }
}

/// An array of whole structures.
#[derive(Debug)]
pub struct List<'a, F: Form>(&'a [F::C]);

impl<F: Form> Clone for List<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Form> Copy for List<'_, F> {}

impl<'a, F: Form> List<'a, F> {
    /// No structures.
    pub const EMPTY: Self = Self(&[]);

    /// Asserts the promise for an array.
    ///
    /// # Safety
    /// P1 holds for every pointer inside the elements, as the form takes it.
    pub const unsafe fn new(elements: &'a [F::C]) -> Self {
        Self(elements)
    }

    /// The structures.
    #[must_use]
    pub const fn get(self) -> &'a [F::C] {
        self.0
    }

    /// One structure.
    #[must_use]
    pub fn at(self, index: usize) -> Option<Whole<'a, F>> {
        // SAFETY: P1 holds for every element (`new`).
        self.0.get(index).map(|element| unsafe { Whole::new(element) })
    }

    /// The structures from the first to the last.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Whole<'a, F>> + use<'a, F> {
        // SAFETY: P1 holds for every element (`new`).
        self.0.iter().map(|element| unsafe { Whole::new(element) })
    }

    /// The first structure, and the others.
    #[must_use]
    pub fn split_first(self) -> Option<(Whole<'a, F>, Self)> {
        Some((self.at(0)?, Self(self.0.get(1..)?)))
    }
}
