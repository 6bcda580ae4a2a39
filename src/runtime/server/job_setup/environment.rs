//! Changes of the environment that a job's processes start with.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::keys;
use crate::types::{Envar, Info, Key, Text, Value};

/// A change of one environment variable, for the processes of a job on this node. See
/// [`Server::setup_local_support`](crate::Server::setup_local_support).
///
/// ```
/// use modex::types::{Envar, Info, Key, Text, Value};
/// use modex::{EnvironmentChange, Variable, keys};
///
/// let (name, value) = (Some(Text::from("PATH")), Some(Text::from("/opt/bin")));
/// let envar = Value::Envar(Box::new(Envar { name, value, separator: b':' }));
/// let change = EnvironmentChange::read(&Info::new(Key::new(keys::PREPEND_ENVAR.name())?, envar)).unwrap();
/// assert_eq!(change.name(), "PATH");
/// assert_eq!(change.apply_to(Some("/usr/bin".as_ref())), Variable::Set(b"/opt/bin:/usr/bin".as_slice().into()));
/// # Ok::<(), modex::types::KeyError>(())
/// ```
///
/// Source: PMIx Standard, `PMIX_SET_ENVAR` and its relatives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvironmentChange {
    name: Text,
    kind: Kind,
}

/// The kind of a change, and its value. The byte is the separator of a list; 0 stands for no separator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Set(Text),
    /// Unless the variable has a value.
    Add(Text),
    Unset,
    Prepend(Text, u8),
    Append(Text, u8),
    /// Prepend, and remove the value from the rest of the list.
    First(Text, u8),
}

/// A variable after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable<'a> {
    /// It stays as it is.
    Unchanged,
    /// It has this value.
    Set(Cow<'a, [u8]>),
    /// It is removed.
    Unset,
}

/// Keys of the infos that change the environment.
pub(in crate::runtime::server) const ENVIRONMENT_CHANGES: [&str; 6] = [
    keys::SET_ENVAR.name(),
    keys::ADD_ENVAR.name(),
    keys::UNSET_ENVAR.name(),
    keys::PREPEND_ENVAR.name(),
    keys::APPEND_ENVAR.name(),
    keys::FIRST_ENVAR.name(),
];

impl EnvironmentChange {
    /// The change that an info means; `None` for other infos.
    #[must_use]
    pub fn read(info: &Info) -> Option<Self> {
        let key = info.key.as_str();
        if key == keys::UNSET_ENVAR.name() {
            let name = match &info.value {
                Value::String(name) => Some(name.clone()),
                Value::Envar(envar) => envar.name.clone(),
                _ => None,
            };
            return name.map(|name| Self { name, kind: Kind::Unset });
        }
        let Value::Envar(envar) = &info.value else { return None };
        let (name, value, separator) = (envar.name.clone()?, envar.value.clone().unwrap_or_default(), envar.separator);
        let kind = match key {
            _ if key == keys::SET_ENVAR.name() => Kind::Set(value),
            _ if key == keys::ADD_ENVAR.name() => Kind::Add(value),
            _ if key == keys::PREPEND_ENVAR.name() => Kind::Prepend(value, separator),
            _ if key == keys::APPEND_ENVAR.name() => Kind::Append(value, separator),
            _ if key == keys::FIRST_ENVAR.name() => Kind::First(value, separator),
            _ => return None,
        };
        Some(Self { name, kind })
    }

    /// The change that gives a variable a value.
    pub(super) fn set(name: &OsStr, value: &OsStr) -> Self {
        Self { name: Text::until_nul(name.as_bytes()), kind: Kind::Set(Text::until_nul(value.as_bytes())) }
    }

    /// The info that means this change. See [`EnvironmentChange::read`].
    #[must_use]
    pub fn info(&self) -> Info {
        let (key, value, separator) = match &self.kind {
            Kind::Set(value) => (keys::SET_ENVAR.name(), value, 0),
            Kind::Add(value) => (keys::ADD_ENVAR.name(), value, 0),
            Kind::Unset => return Info::new(Key::from_static(keys::UNSET_ENVAR.name()), self.name.clone()),
            Kind::Prepend(value, separator) => (keys::PREPEND_ENVAR.name(), value, *separator),
            Kind::Append(value, separator) => (keys::APPEND_ENVAR.name(), value, *separator),
            Kind::First(value, separator) => (keys::FIRST_ENVAR.name(), value, *separator),
        };
        let envar = Envar { name: Some(self.name.clone()), value: Some(value.clone()), separator };
        Info::new(Key::from_static(key), Value::Envar(Box::new(envar)))
    }

    /// Adds the changes of a later call. They apply after the earlier changes. An earlier change is left out if a later
    /// one repeats it, or sets or removes its variable.
    pub(super) fn add_up(changes: &mut Vec<Self>, more: Vec<Self>) {
        let mut later: BTreeSet<Self> = BTreeSet::new();
        let mut settled: BTreeSet<Text> = BTreeSet::new();
        // From the last change to the first.
        let all = std::mem::take(changes).into_iter().chain(more).rev();
        let mut kept: Vec<Self> = all
            .filter(|change| {
                let is_needed = !settled.contains(&change.name) && later.insert(change.clone());
                if matches!(change.kind, Kind::Set(_) | Kind::Unset) {
                    settled.insert(change.name.clone());
                }
                is_needed
            })
            .collect();
        kept.reverse();
        *changes = kept;
    }

    /// The variable's name.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.name.as_bytes())
    }

    /// The variable after the change, if it had the value `old` before.
    #[must_use]
    pub fn apply_to(&self, old: Option<&OsStr>) -> Variable<'_> {
        let old = old.map(OsStr::as_bytes);
        match &self.kind {
            Kind::Set(value) => Variable::Set(value.as_bytes().into()),
            Kind::Add(_) if old.is_some() => Variable::Unchanged,
            Kind::Add(value) => Variable::Set(value.as_bytes().into()),
            Kind::Unset => Variable::Unset,
            Kind::Prepend(value, separator) => joined([value.as_bytes()].into_iter().chain(old), *separator),
            Kind::Append(value, separator) => joined(old.into_iter().chain([value.as_bytes()]), *separator),
            Kind::First(value, separator) => {
                let parts = old.into_iter().flat_map(|old| old.split(|byte| byte == separator));
                let others = parts.filter(|part| *part != value.as_bytes());
                joined([value.as_bytes()].into_iter().chain(others), *separator)
            }
        }
    }

    /// The variables after all changes, in order. `old` gives a variable's value before. A variable without a value is
    /// removed.
    ///
    /// ```
    /// use modex::EnvironmentChange;
    ///
    /// let changes: Vec<EnvironmentChange> = Vec::new();
    /// assert!(EnvironmentChange::merged(&changes, |name| std::env::var_os(name)).is_empty());
    /// ```
    #[must_use]
    pub fn merged(changes: &[Self], old: impl Fn(&OsStr) -> Option<OsString>) -> BTreeMap<OsString, Option<OsString>> {
        let mut variables: BTreeMap<OsString, Option<OsString>> = BTreeMap::new();
        for change in changes {
            let name = change.name();
            let value = variables.entry(name.to_owned()).or_insert_with(|| old(name));
            match change.apply_to(value.as_deref()) {
                Variable::Unchanged => {}
                Variable::Set(new) => *value = Some(OsStr::from_bytes(&new).to_owned()),
                Variable::Unset => *value = None,
            }
        }
        variables
    }

    /// Memory of it.
    pub(super) fn size_bytes(&self) -> usize {
        let value = match &self.kind {
            Kind::Unset => 0,
            Kind::Set(value) | Kind::Add(value) => value.as_bytes().len(),
            Kind::Prepend(value, _) | Kind::Append(value, _) | Kind::First(value, _) => value.as_bytes().len(),
        };
        size_of::<Self>().saturating_add(self.name.as_bytes().len()).saturating_add(value)
    }

    /// The name, if no variable can have it.
    pub(super) fn impossible_name(&self) -> Option<&Text> {
        Some(&self.name).filter(|name| name.as_bytes().is_empty() || name.as_bytes().contains(&b'='))
    }
}

/// A separator of 0 is left out, because a NUL byte would end the value.
fn joined<'a>(parts: impl Iterator<Item = &'a [u8]>, separator: u8) -> Variable<'static> {
    let parts: Vec<&[u8]> = parts.collect();
    Variable::Set(Cow::Owned(if separator == 0 { parts.concat() } else { parts.join(&separator) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule: each change applies to the result of the changes before it.
    #[test]
    fn several_changes_of_a_variable_add_up() {
        let change = |kind| EnvironmentChange { name: Text::from("PATH"), kind };
        let (one, two) = (Kind::Prepend(Text::from("/1"), b':'), Kind::Append(Text::from("/2"), b':'));
        let merged = |kinds: Vec<Kind>| {
            let changes: Vec<EnvironmentChange> = kinds.into_iter().map(change).collect();
            let merged = EnvironmentChange::merged(&changes, |_| Some(OsString::from("/usr")));
            merged.into_values().collect::<Vec<_>>()
        };
        assert_eq!(merged(vec![one.clone(), two.clone()]), [Some(OsString::from("/1:/usr:/2"))]);
        assert_eq!(merged(vec![Kind::Unset, two.clone()]), [Some(OsString::from("/2"))]);
        assert_eq!(merged(vec![two, one, Kind::Unset]), [None]);
    }

    fn changes(kinds: &[(&str, Kind)]) -> Vec<EnvironmentChange> {
        kinds.iter().map(|(name, kind)| EnvironmentChange { name: Text::from(*name), kind: kind.clone() }).collect()
    }

    /// Regression: of two calls for one job only the second call's changes were kept, so the variables of its first
    /// application were lost.
    #[test]
    fn changes_of_several_calls_add_up_and_do_not_pile_up() {
        let set = |value: &str| Kind::Set(Text::from(value));
        let prepend = |value: &str| Kind::Prepend(Text::from(value), b':');
        let mut all = changes(&[("A", set("1")), ("PATH", prepend("/a"))]);
        EnvironmentChange::add_up(
            &mut all,
            changes(&[("B", set("2")), ("PATH", prepend("/b")), ("PATH", prepend("/a"))]),
        );
        // Regression: a repeated change kept its first place, so the later call's order was lost.
        let both = changes(&[("A", set("1")), ("B", set("2")), ("PATH", prepend("/b")), ("PATH", prepend("/a"))]);
        assert_eq!(all, both);
        EnvironmentChange::add_up(&mut all, both.clone());
        assert_eq!(all, both, "the same call again changes nothing");
        EnvironmentChange::add_up(
            &mut all,
            changes(&[("PATH", prepend("/x")), ("PATH", Kind::Unset), ("PATH", prepend("/a"))]),
        );
        let rest = |all: &[EnvironmentChange]| {
            all.iter().filter(|change| change.name() == "PATH").cloned().collect::<Vec<_>>()
        };
        assert_eq!(rest(&all), changes(&[("PATH", Kind::Unset), ("PATH", prepend("/a"))]));
    }

    #[test]
    fn the_info_of_a_change_means_the_change() {
        let (text, separator) = (Text::from("v"), b':');
        let kinds = [
            Kind::Set(text.clone()),
            Kind::Add(text.clone()),
            Kind::Unset,
            Kind::Prepend(text.clone(), separator),
            Kind::Append(text.clone(), separator),
            Kind::First(text, separator),
        ];
        for kind in kinds {
            let change = EnvironmentChange { name: Text::from("A"), kind };
            assert_eq!(EnvironmentChange::read(&change.info()), Some(change));
        }
    }
}
