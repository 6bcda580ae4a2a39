//! Containers: values that are arrays of infos about one session, job, application, process or node.

use super::entry_path::EntryPath;
use crate::gds::qualified::{QUALIFIED_VALUE, Qualified};
use crate::keys;
use crate::shmem::fetch;
use crate::types::{DataType, Info, Value};

use super::coerce::ValueRule;
use super::error::RegisterError;

/// The subject of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Session,
    Job,
    App,
    Proc,
    Node,
}

impl Container {
    /// The kind of container that a key names. The old name `PMIX_PROC_DATA` is the same string as the new one.
    pub(super) fn of(key: &str) -> Option<Self> {
        KINDS.into_iter().find(|(name, _)| *name == key).map(|(_, kind)| kind)
    }
}

const KINDS: [(&str, Container); 5] = [
    (keys::SESSION_INFO_ARRAY.name(), Container::Session),
    (keys::JOB_INFO_ARRAY.name(), Container::Job),
    (keys::APP_INFO_ARRAY.name(), Container::App),
    (keys::PROC_INFO_ARRAY.name(), Container::Proc),
    (keys::NODE_INFO_ARRAY.name(), Container::Node),
];

/// The keys of containers.
pub(crate) const CONTAINERS: [&str; 5] = [KINDS[0].0, KINDS[1].0, KINDS[2].0, KINDS[3].0, KINDS[4].0];

impl RegisterError {
    /// Adds an entry of the description around the path.
    pub(super) fn in_entry(self, info: &Info, position: u64) -> Self {
        let key = info.key.as_str();
        // A value that is not an array has no entries.
        let is_inside = Container::of(key).is_some() && !matches!(&self, Self::Type { key: wrong, .. } if wrong == key);
        match self {
            Self::At { path, error } if is_inside => Self::At { path: path.inside(key, position), error },
            error if is_inside => Self::At { path: EntryPath::default().inside(key, position), error: Box::new(error) },
            error => error.about(key),
        }
    }
}

/// The entries of a container.
#[derive(Clone, Copy, Debug)]
pub(super) struct Infos<'a>(&'a [Value]);

/// An entry for sorting: a qualified value without qualifiers is replaced by the entry in it.
#[inline]
pub(super) fn unwrapped(info: &Info) -> &Info {
    if info.key.as_str() == QUALIFIED_VALUE { first_unless_qualified(info) } else { info }
}

#[cold]
fn first_unless_qualified(info: &Info) -> &Info {
    let plain = Qualified::of(&info.value).filter(|qualified| qualified.qualifiers().next().is_none());
    plain.map_or(info, |plain| plain.first())
}

/// Takes a qualified value apart. Its value fits its key.
pub(super) fn qualified(info: &Info) -> Result<Qualified<'_>, RegisterError> {
    let key = info.key.as_str();
    Infos::of(key, &info.value)?;
    let qualified = Qualified::of(&info.value).ok_or_else(|| RegisterError::NoValue.about(key))?;
    match qualified.key().as_str() {
        // A value without qualifiers has been unwrapped already, so this one was nested.
        _ if qualified.qualifiers().next().is_none() => Err(RegisterError::NestedQualified.about(key)),
        QUALIFIED_VALUE => Err(RegisterError::NestedQualified.about(key)),
        inner => ValueRule::of(inner).check(inner, qualified.value()).map(|_| qualified),
    }
}

impl<'a> Infos<'a> {
    /// Opens a container.
    pub(super) fn of(key: &str, value: &'a Value) -> Result<Self, RegisterError> {
        let refuse = |found: DataType| RegisterError::Type {
            key: key.to_owned(),
            expected: "PMIX_DATA_ARRAY of PMIX_INFO",
            found: found.name(),
        };
        let Value::DataArray(array) = value else { return Err(refuse(value.data_type())) };
        if array.element_type != DataType::Info && !array.elements.is_empty() {
            return Err(refuse(array.element_type));
        }
        match array.elements.iter().find(|element| !matches!(element, Value::Info(_))) {
            Some(other) => Err(refuse(other.data_type())),
            None => Ok(Self(&array.elements)),
        }
    }

    /// The entries with a key, [unwrapped].
    pub(super) fn iter(self) -> impl Iterator<Item = &'a Info> {
        self.0.iter().filter_map(|element| match element {
            Value::Info(info) => Some(unwrapped(info)).filter(|info| !info.key.as_str().is_empty()),
            _ => None,
        })
    }

    /// The entries under one key.
    pub(super) fn with_key(self, key: &'static str) -> impl Iterator<Item = &'a Info> {
        self.iter().filter(move |info| info.key.as_str() == key)
    }

    /// Prefetches entries. A large description exceeds every cache and its parts are scattered: without this,
    /// registering takes 1.2 times as long (docs/performance.md).
    pub(super) fn fetch_ahead(self, position: usize) {
        let array_at = |ahead: usize| match self.0.get(position + ahead) {
            Some(Value::Info(info)) => match &info.value {
                Value::DataArray(array) => Some(&**array),
                _ => None,
            },
            _ => None,
        };
        if let Some(Value::Info(info)) = self.0.get(position + 4 * FETCH_STEP) {
            fetch(&**info);
        }
        if let Some(array) = array_at(3 * FETCH_STEP) {
            fetch(array);
        }
        if let Some(array) = array_at(2 * FETCH_STEP) {
            array.elements.iter().step_by(2).take(FETCHED_MAX).for_each(fetch);
        }
        if let Some(array) = array_at(FETCH_STEP) {
            for element in array.elements.iter().take(FETCHED_MAX) {
                if let Value::Info(info) = element {
                    fetch(&**info);
                }
            }
        }
    }

    /// Number of entries.
    pub(super) fn len(self) -> u64 {
        u64::try_from(self.0.len()).unwrap_or(u64::MAX)
    }
}

/// Distance, in arrays, between the stages of the prefetch.
const FETCH_STEP: usize = 2;

/// Most entries of an array that are fetched ahead.
const FETCHED_MAX: usize = 16;
