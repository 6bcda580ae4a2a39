//! Recursion into nested values, independent of the caller's stack.
//!
//! Recursive functions read, copy, compare and write values. They recurse through [`descend`]: every [`LEVELS_UNASKED`]
//! levels it checks the stack, and if necessary continues on a new piece of stack. Readers of foreign data also have a
//! bound ([`NESTING_MAX`]).

use std::cell::Cell;

use rkyv::rancor::Fallible;
use rkyv::vec::{ArchivedVec, VecResolver};
use rkyv::with::{ArchiveWith, DeserializeWith, SerializeWith};
use rkyv::{Archive, Deserialize, Place, Serialize};

/// Nesting depth of values. An array of infos takes two levels, and the innermost value one: so 1024 such arrays may be
/// nested.
pub const NESTING_MAX: u32 = 2 * 1024 + 1;

/// Levels without an array: values, infos and the like that hold one another directly. No real data has more, and
/// dropping and copying these uses the caller's stack.
pub const BARE_NESTING_MAX: u32 = 32;

/// Runs `below` one level deeper. For values of usual depth this costs a counter; the stack is not even checked.
pub fn descend<T>(below: impl FnOnce() -> T) -> T {
    let level = Level::enter();
    if level.0 % LEVELS_UNASKED == LEVELS_UNASKED - 1 {
        stacker::maybe_grow(ROOM_BYTES, PIECE_BYTES, below)
    } else {
        below()
    }
}

/// Runs a function that needs this much stack.
pub fn with_stack<T>(size_bytes: usize, deep: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(size_bytes, size_bytes, deep)
}

thread_local! {
    static LEVEL: Cell<u32> = const { Cell::new(0) };
}

/// The depth of this thread's recursion; decreases on drop.
struct Level(u32);

impl Level {
    fn enter() -> Self {
        let level = LEVEL.get();
        LEVEL.set(level.wrapping_add(1));
        Self(level)
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        LEVEL.set(self.0);
    }
}

/// Archives the elements of an array like those of any vector, one level deeper.
#[derive(Debug)]
pub(super) struct Deeper;

impl<T: Archive> ArchiveWith<Vec<T>> for Deeper {
    type Archived = ArchivedVec<T::Archived>;
    type Resolver = VecResolver;

    fn resolve_with(field: &Vec<T>, resolver: VecResolver, out: Place<Self::Archived>) {
        field.resolve(resolver, out);
    }
}

impl<T, S> SerializeWith<Vec<T>, S> for Deeper
where
    T: Archive,
    Vec<T>: Serialize<S> + Archive<Archived = ArchivedVec<T::Archived>, Resolver = VecResolver>,
    S: Fallible + ?Sized,
{
    fn serialize_with(field: &Vec<T>, serializer: &mut S) -> Result<VecResolver, S::Error> {
        descend(|| field.serialize(serializer))
    }
}

impl<T, D> DeserializeWith<ArchivedVec<T::Archived>, Vec<T>, D> for Deeper
where
    T: Archive,
    ArchivedVec<T::Archived>: Deserialize<Vec<T>, D>,
    D: Fallible + ?Sized,
{
    fn deserialize_with(field: &ArchivedVec<T::Archived>, deserializer: &mut D) -> Result<Vec<T>, D::Error> {
        descend(|| field.deserialize(deserializer))
    }
}

/// Levels between two checks of the stack.
const LEVELS_UNASKED: u32 = 4;
/// Stack for these levels in a build without optimisation.
const ROOM_BYTES: usize = 512 << 10;
/// A piece of stack.
const PIECE_BYTES: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{DataArray, DataType, Info, Key, Kval, Value, footprint};

    /// Nested arrays of infos.
    fn nested(levels: u32) -> Value {
        let key = || Key::from_static("k");
        (0..levels).fold(Value::Bool(true), |inner, _| Value::info_array(vec![Info::new(key(), inner)]))
    }

    /// Smaller than the stacks of real programs.
    fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(test);
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn deep_values_are_copied_compared_and_told_on_a_small_stack() {
        on_a_small_stack(|| {
            let value = nested(NESTING_MAX / 2);
            assert!(footprint(&value).is_some_and(|size| size > 1024 * size_of::<Value>()));
            let copy = value.clone();
            assert!(copy == value);
            assert!(format!("{value:?}").ends_with(&" })] })".repeat(10)));
        });
    }

    #[test]
    fn a_value_of_any_depth_is_dropped_on_a_small_stack() {
        on_a_small_stack(|| {
            let value = nested(100_000);
            assert_eq!(footprint(&value), None, "it is too deep for everybody else");
            drop(value);
            let entry = |value| Kval { key: Key::from_static("k"), value };
            let array =
                |value| DataArray { element_type: DataType::Kval, elements: vec![Value::Kval(Box::new(entry(value)))] };
            drop((0..100_000).fold(Value::Bool(true), |inner, _| Value::DataArray(Box::new(array(inner)))));
        });
    }

    #[test]
    fn a_return_or_a_panic_leaves_all_levels() {
        let fall = || descend(|| descend(|| LEVEL.get()));
        assert_eq!((fall(), fall()), (2, 2));
        let thrown = std::panic::catch_unwind(|| descend(|| panic!("on the way down")));
        assert!(thrown.is_err() && LEVEL.get() == 0);
    }
}
