//! Directives that the server itself reads. All others go to the host unchanged.

use std::time::Duration;

use crate::gds::{RealmName, RealmQualifiers, RealmRequest, qualified};
use crate::keys::{self, DefaultRealm, TypedKey, default_realm};
use crate::types::{DataArray, DataType, Info, Key, ProcId, Scope, Value};

/// Whether a boolean directive is present and not false.
pub(crate) fn flag(directives: &[Info], key: TypedKey<bool>) -> bool {
    find(directives, key).is_some_and(|info| info.value.as_bool().unwrap_or(false))
}

/// The bound on the operation: whole seconds; absent and 0 mean none.
pub(crate) fn timeout(directives: &[Info]) -> Option<Duration> {
    let seconds = find(directives, keys::TIMEOUT)?.value.as_u64()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Whether an entry is required that a reader of the `understood` keys does not honour.
pub(crate) fn requires_more_than(directives: &[Info], understood: &[&str]) -> bool {
    keys::first_unmet(directives, understood).is_some()
}

/// The first entry with this key.
pub(crate) fn find<T: ?Sized>(directives: &[Info], key: TypedKey<T>) -> Option<&Info> {
    directives.iter().find(|info| info.key.as_str() == key.name())
}

/// The directives of a Get.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GetDirectives {
    /// Answer from the local data; neither wait nor ask the host.
    pub(crate) immediate: bool,
    /// Ask the host even if an older value is stored.
    pub(crate) refresh: bool,
    pub(crate) timeout: Option<Duration>,
    /// A timeout of 0: no bound at all.
    pub(crate) is_unbounded: bool,
    /// Only values posted with this scope.
    pub(crate) scope: Option<Scope>,
    pub(crate) realm: OwnedRealm,
    /// Only a value with these qualifiers.
    pub(crate) qualifiers: Vec<Info>,
}

impl GetDirectives {
    /// Reads the directives. `PMIX_OPTIONAL` should never reach a server; if it does, it means immediate.
    pub(crate) fn read(directives: &[Info], key: Option<&Key>) -> Self {
        Self {
            immediate: flag(directives, keys::IMMEDIATE) || flag(directives, keys::OPTIONAL),
            refresh: flag(directives, keys::GET_REFRESH_CACHE),
            timeout: timeout(directives),
            is_unbounded: find(directives, keys::TIMEOUT).is_some_and(|info| info.value.as_u64() == Some(0)),
            scope: find(directives, keys::DATA_SCOPE).and_then(|info| match info.value {
                Value::Scope(raw) => Scope::from_raw(raw),
                _ => None,
            }),
            realm: OwnedRealm::read(directives).of_key(key),
            qualifiers: qualified::qualifiers(directives),
        }
    }
}

/// An owned [`RealmQualifiers`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnedRealm {
    name: RealmName,
    hostname: Option<String>,
    node_id: Option<u32>,
    app_number: Option<u32>,
    session_id: Option<u32>,
}

impl OwnedRealm {
    /// Reads the realm's directives.
    pub(crate) fn read(directives: &[Info]) -> Self {
        let names = [
            (keys::SESSION_INFO, RealmName::Session),
            (keys::JOB_INFO, RealmName::Job),
            (keys::APP_INFO, RealmName::App),
            (keys::NODE_INFO, RealmName::Node),
        ];
        let named = names.into_iter().filter(|(key, _)| flag(directives, *key));
        let name = named.fold(RealmName::Default, |name, (_, other)| name.beside(other));
        // Clients of OpenPMIx send the highest number for one that they don't know.
        let number =
            |key| find(directives, key).and_then(|info| info.value.as_u32()).filter(|number| *number != u32::MAX);
        Self {
            name,
            hostname: find(directives, keys::HOSTNAME).and_then(|info| info.value.as_str()).map(str::to_owned),
            node_id: number(keys::NODEID),
            app_number: number(keys::APPNUM),
            session_id: number(keys::SESSION_ID),
        }
    }

    /// The realm for a key: the number of a session alone selects the session realm, if sessions have the key.
    pub(crate) fn of_key(self, key: Option<&Key>) -> Self {
        let is_of_session = |key: &Key| default_realm(key.as_str()) == DefaultRealm::Session;
        match self.session_id {
            Some(_) if self.is_default() && key.is_some_and(is_of_session) => Self { name: RealmName::Session, ..self },
            _ => self,
        }
    }

    pub(crate) fn as_request(&self) -> RealmRequest<'_> {
        let Self { name, hostname, node_id, app_number, session_id } = self;
        let hostname = hostname.as_deref();
        let (node_id, app_number, session_id) = (*node_id, *app_number, *session_id);
        RealmQualifiers { realm: *name, hostname, node_id, app_number, session_id }.request()
    }

    /// Whether the key alone selects the realm.
    pub(crate) fn is_default(&self) -> bool {
        self.as_request() == RealmRequest::Default
    }

    /// Whether the realm is a session.
    pub(crate) fn is_of_session(&self) -> bool {
        self.name == RealmName::Session
    }

    /// The number of a session, if given.
    pub(crate) const fn session_id(&self) -> Option<u32> {
        self.session_id
    }

    /// The realm with this session number, unless one is given.
    pub(crate) fn of_session(&self, id: u32) -> Self {
        Self { session_id: self.session_id.or(Some(id)), ..self.clone() }
    }
}

/// A list of processes as a value.
pub(crate) fn processes(procs: impl IntoIterator<Item = ProcId>) -> Value {
    let elements = procs.into_iter().map(Value::from).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: clients of OpenPMIx since 6.1 that ask about the node of another job's rank were refused.
    #[test]
    fn the_highest_number_names_no_node_application_or_session() {
        let realm = Info::new(Key::from_static(keys::NODE_INFO.name()), true);
        let number = |key: TypedKey<u32>| Info::new(Key::from_static(key.name()), u32::MAX);
        let [node, app, session] = [keys::NODEID, keys::APPNUM, keys::SESSION_ID].map(number);
        assert_eq!(OwnedRealm::read(&[realm.clone(), node, app, session]), OwnedRealm::read(&[realm]));
    }
}
