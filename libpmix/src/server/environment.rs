//! A caller's array of environment variables.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use modex::{EnvironmentChange, Variable};

use crate::error::CError;
use crate::form::{Argv, List, Own, Str, Whole};
use crate::to_c::{self, Single};
use crate::types::c_char;
use crate::{memory, pointer};

/// A caller's array of `NAME=value` strings that a NULL ends.
///
/// - **V1** The array is NULL, or has `count` strings before its NULL. It and its strings are libc's blocks (F1), and change
///   through this type alone.
pub(super) struct Environment<'a> {
    array: &'a mut *mut *mut c_char,
    count: usize,
}

impl<'a> Environment<'a> {
    pub(super) fn open(array: Own<'a, Argv>) -> Result<Self, CError> {
        let count = array.whole().texts("environment variable")?.len();
        Ok(Self { array: array.into_place(), count })
    }

    fn entries(&self) -> List<'_, Str> {
        // SAFETY: the array has so many entries (V1).
        let entries = unsafe { pointer::slice(*self.array, self.count, "environment") }.unwrap_or_default();
        // SAFETY: the entries are strings (V1).
        unsafe { List::new(entries) }
    }

    /// The entries, and the NULL that ends them.
    fn entries_and_end(&mut self) -> Result<&mut [*mut c_char], CError> {
        // SAFETY: so many entries and the NULL behind them are there (V1), and `self` is borrowed.
        unsafe { pointer::slice_mut(*self.array, self.count.saturating_add(1), "environment") }
    }

    fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.entries().iter().find_map(|entry| value_of(entry, name))
    }

    /// The first entry of a variable at or behind `from`.
    fn position(&self, name: &[u8], from: usize) -> Option<usize> {
        let mut entries = self.entries().iter().enumerate().skip(from);
        entries.find(|&(_, entry)| value_of(entry, name).is_some()).map(|(index, _)| index)
    }

    /// Sets a variable and removes its other entries: some programs take the first entry of a variable, others the
    /// last.
    pub(super) fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), CError> {
        let text = to_c::string(&[name, b"=", value].concat())?;
        if let Some(index) = self.position(name, 0)
            && let Some(place) = self.entries_and_end()?.get_mut(index)
        {
            // SAFETY: the old string is a block of libc's (V1).
            text.replace(unsafe { Own::new(place) });
            return self.unset_from(name, index.saturating_add(1));
        }
        self.push(text)
    }

    /// Changes a variable.
    pub(super) fn apply(&mut self, change: &EnvironmentChange) -> Result<(), CError> {
        let name = change.name().as_bytes();
        match change.apply_to(self.get(name).map(OsStr::from_bytes)) {
            Variable::Unchanged => Ok(()),
            Variable::Set(value) => self.set(name, &value),
            Variable::Unset => self.unset(name),
        }
    }

    fn push(&mut self, text: Single<Str>) -> Result<(), CError> {
        // SAFETY: the array is a block of libc's or NULL (V1); the new block replaces it at once.
        *self.array = unsafe { memory::resized(*self.array, self.count.saturating_add(2)) }?;
        self.count = self.count.saturating_add(1);
        if let [.., entry, end] = self.entries_and_end()? {
            (*entry, *end) = (text.into_raw(), std::ptr::null_mut());
        }
        Ok(())
    }

    pub(super) fn unset(&mut self, name: &[u8]) -> Result<(), CError> {
        self.unset_from(name, 0)
    }

    /// Removes every entry of a variable at or behind `from`.
    fn unset_from(&mut self, name: &[u8], from: usize) -> Result<(), CError> {
        while let Some(index) = self.position(name, from) {
            self.remove(index)?;
        }
        Ok(())
    }

    fn remove(&mut self, index: usize) -> Result<(), CError> {
        let rest = self.entries_and_end()?.get_mut(index..).unwrap_or_default();
        let removed = rest.first().copied();
        rest.rotate_left(1);
        if let Some(last) = rest.last_mut() {
            *last = std::ptr::null_mut();
        }
        self.count = self.count.saturating_sub(1);
        if let Some(removed) = removed {
            // SAFETY: the string is a block of libc's (V1), and in the array no longer.
            unsafe { memory::release(removed) };
        }
        Ok(())
    }
}

/// The value in an entry of an environment, if the entry is of this variable.
fn value_of<'a>(entry: Whole<'a, Str>, name: &[u8]) -> Option<&'a [u8]> {
    entry.text("environment variable").ok()??.to_bytes().strip_prefix(name)?.strip_prefix(b"=")
}

#[cfg(test)]
mod tests {
    use modex::keys;
    use modex::types::{Envar, Info, Key, Text, Value};

    use super::*;

    /// An environment as a C caller has it, freed at the end.
    struct Caller(*mut *mut c_char);

    impl Caller {
        fn with(entries: &[&str]) -> Self {
            let mut caller = Self(std::ptr::null_mut());
            for entry in entries {
                let (name, value) = entry.split_once('=').unwrap();
                caller.open().set(name.as_bytes(), value.as_bytes()).unwrap();
            }
            caller
        }

        fn open(&mut self) -> Environment<'_> {
            // SAFETY: NULL, or an array that `set` made.
            Environment::open(unsafe { Own::new(&mut self.0) }).unwrap()
        }

        fn change(&mut self, key: &'static str, name: &str, value: &str, separator: u8) {
            let (name, value) = (Some(Text::from(name)), Some(Text::from(value)));
            let envar = Value::Envar(Box::new(Envar { name, value, separator }));
            let change = EnvironmentChange::read(&Info::new(Key::from_static(key), envar)).unwrap();
            self.open().apply(&change).unwrap();
        }

        fn texts(&self) -> Vec<String> {
            // SAFETY: NULL, or an array that `set` made.
            let texts = unsafe { pointer::texts(self.0, "entry") }.unwrap();
            texts.into_iter().map(|text| text.to_str().unwrap().to_owned()).collect()
        }
    }

    impl Drop for Caller {
        fn drop(&mut self) {
            while let Some(entry) = self.texts().first() {
                let name = entry.split_once('=').unwrap().0.to_owned();
                self.open().unset(name.as_bytes()).unwrap();
            }
            // SAFETY: libc's block, used by nobody any more.
            unsafe { memory::release(self.0) };
        }
    }

    #[test]
    fn variables_are_added_to_nothing_and_replaced_in_place() {
        let mut caller = Caller::with(&["A=1", "B=2", "A=3"]);
        assert_eq!(caller.texts(), ["A=3", "B=2"]);
        caller.open().set(b"AB", b"").unwrap();
        assert_eq!(caller.texts(), ["A=3", "B=2", "AB="]);
        assert_eq!(caller.open().get(b"AB"), Some(&b""[..]));
        assert_eq!(caller.open().get(b"ABC"), None);
    }

    #[test]
    fn a_variable_is_taken_out_wherever_it_stands() {
        for name in ["A", "B", "C"] {
            let mut caller = Caller::with(&["A=1", "B=2", "C=3"]);
            caller.open().unset(name.as_bytes()).unwrap();
            assert_eq!(caller.texts().len(), 2, "{name}");
            assert!(caller.texts().iter().all(|text| !text.starts_with(name)));
        }
        let mut caller = Caller::with(&["A=1"]);
        caller.open().unset(b"B").unwrap();
        assert_eq!(caller.texts(), ["A=1"]);
    }

    /// Regression: a second entry in the caller's array stayed, and a shell took that one. A process looked for another
    /// server.
    #[test]
    fn a_variable_that_stands_there_twice_is_replaced_and_taken_out_as_one() {
        let mut caller = Caller::with(&["A=1", "B=2"]);
        caller.open().push(to_c::string(b"A=3").unwrap()).unwrap();
        caller.open().set(b"A", b"4").unwrap();
        assert_eq!(caller.texts(), ["A=4", "B=2"]);
        caller.open().push(to_c::string(b"A=5").unwrap()).unwrap();
        caller.open().unset(b"A").unwrap();
        assert_eq!(caller.texts(), ["B=2"]);
    }

    /// Regression: the separator's NUL ended the value, and the variable's old value was lost.
    #[test]
    fn values_joined_without_a_separator_stand_side_by_side() {
        let mut caller = Caller::with(&["P=/usr"]);
        caller.change(keys::PREPEND_ENVAR.name(), "P", "/a", 0);
        caller.change(keys::APPEND_ENVAR.name(), "P", "/z", 0);
        caller.change(keys::FIRST_ENVAR.name(), "P", "b", 0);
        assert_eq!(caller.texts(), ["P=b/a/usr/z"]);
    }

    #[test]
    fn changes_follow_the_standard() {
        let mut caller = Caller::with(&["P=/usr", "Q=x:y:z"]);
        for (key, name, value) in [
            (keys::PREPEND_ENVAR.name(), "P", "/a"),
            (keys::APPEND_ENVAR.name(), "P", "/z"),
            (keys::APPEND_ENVAR.name(), "NEW", "n"),
            (keys::ADD_ENVAR.name(), "P", "ignored"),
            (keys::ADD_ENVAR.name(), "R", "r"),
            (keys::FIRST_ENVAR.name(), "Q", "y"),
            (keys::FIRST_ENVAR.name(), "T", "t"),
            (keys::SET_ENVAR.name(), "S", "s"),
            (keys::UNSET_ENVAR.name(), "R", ""),
        ] {
            caller.change(key, name, value, b':');
        }
        assert_eq!(caller.texts(), ["P=/a:/usr:/z", "Q=y:x:z", "NEW=n", "T=t", "S=s"]);
    }
}
