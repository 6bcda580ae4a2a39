//! Changes of the environment that a job's processes start with.

use std::borrow::Cow;
use std::collections::BTreeMap;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentChange {
    name: Text,
    kind: Kind,
}

/// The kind of a change, and its value. The byte is the separator of a list; 0 stands for no separator.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// Names of variables to forward, separated by semicolons; `?` stands for one character and `*` for the rest.
///
/// Source: RFC0029.
const PATTERNS: &str = "PMIX_MCA_forward_envars";

/// The variables that the user forwards to the processes of jobs, as infos that set them.
pub(super) fn forwarded(environment: &[(OsString, OsString)]) -> Vec<Info> {
    let patterns = environment.iter().find(|(name, _)| name == PATTERNS).map(|(_, patterns)| patterns);
    patterns.map_or_else(Vec::new, |patterns| matching(&patterns.to_string_lossy(), environment))
}

fn matching(patterns: &str, variables: &[(OsString, OsString)]) -> Vec<Info> {
    let patterns: Vec<&str> = patterns.split(';').map(str::trim).filter(|pattern| !pattern.is_empty()).collect();
    let is_wanted = |name: &OsStr| patterns.iter().any(|pattern| is_match(pattern.as_bytes(), name.as_bytes()));
    let mut wanted: Vec<&(OsString, OsString)> = variables.iter().filter(|(name, _)| is_wanted(name)).collect();
    // The environment has no order; sorted, two calls give the same.
    wanted.sort_by_key(|(name, _)| name);
    let set = |(name, value): &(OsString, OsString)| {
        let (name, value) = (Some(Text::until_nul(name.as_bytes())), Some(Text::until_nul(value.as_bytes())));
        let envar = Envar { name, value, separator: 0 };
        Info::new(Key::from_static(keys::SET_ENVAR.name()), Value::Envar(Box::new(envar)))
    };
    wanted.into_iter().map(set).collect()
}

fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([b'*', ..], _) => true,
        ([b'?', pattern @ ..], [_, name @ ..]) => is_match(pattern, name),
        ([wanted, pattern @ ..], [found, name @ ..]) => wanted == found && is_match(pattern, name),
        ([], []) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matches_a_pattern_is_forwarded_in_order_whatever_bytes_it_has() {
        let patterns = (PATTERNS, "A*; B?C;;");
        let variables = [patterns, ("B1C", "x"), ("AX", "1=2"), ("A", ""), ("BB1C", "x"), ("C", "\u{1b}")];
        let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let infos = forwarded(&variables);
        let found = infos.iter().filter_map(|info| match &info.value {
            Value::Envar(envar) => Some((envar.name.as_ref()?.to_string(), envar.value.as_ref()?.to_string())),
            _ => None,
        });
        let found: Vec<_> = found.collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found, [pair("A", ""), pair("AX", "1=2"), pair("B1C", "x")]);
        assert_eq!(forwarded(&variables[1..]), []);
    }

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
}
