//! Directives of Get and Fence: conversion of arrays of infos to structures.

use std::time::Duration;

use super::attribute;
pub use crate::gds::RealmName as RealmDirective;
use crate::gds::{RealmQualifiers, RealmRequest, qualified};
use crate::keys;
use crate::proto::Get;
use crate::types::{AsStatus, Info, Key, Query, Scope, Status, Value};

/// Directives of a Get.
///
/// Source: PMIx Standard, "Data Access and Sharing" (`PMIx_Get`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GetDirectives {
    /// Look only in the process's own stores.
    pub optional: bool,
    /// The server must answer from its own data.
    pub immediate: bool,
    /// Fetch values again that may be cached.
    pub refresh: bool,
    /// Time limit; `None`: none.
    pub timeout: Option<Duration>,
    /// Only values posted with this scope.
    pub scope: Option<Scope>,
    /// The requested realm.
    pub realm: RealmDirective,
    /// Node by name.
    pub hostname: Option<String>,
    /// Node by number.
    pub node_id: Option<u32>,
    /// Application by number.
    pub app_number: Option<u32>,
    /// Session by number.
    pub session_id: Option<u32>,
    /// Only a value with these qualifiers: the entries with the qualifier flag.
    pub qualifiers: Vec<Info>,
    /// Give a pointer into the store.
    pub pointer_values: bool,
    /// Fill the caller's storage.
    pub static_values: bool,
    /// Entries for the server: all but those that are honoured here alone. Unknown entries are included unchanged.
    pub upward: Vec<Info>,
}

/// Directives of a Fence.
///
/// Source: PMIx Standard, "Data Access and Sharing" (`PMIx_Fence`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FenceDirectives {
    /// Exchange committed data, too.
    pub collect: bool,
    /// Whether job data computed by servers is exchanged; `None`: not given (the standard's default is yes).
    pub collect_generated_job_info: Option<bool>,
    /// Time limit; `None`: none.
    pub timeout: Option<Duration>,
    /// Entries for the server: all, unchanged.
    pub upward: Vec<Info>,
}

/// Reason of refused directives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DirectiveError {
    /// The value has a wrong type, or is out of range.
    #[error("directive {key:?} needs {wanted}; the given value is not one")]
    WrongValue {
        /// The directive.
        key: Key,
        /// The expected value, for people.
        wanted: &'static str,
    },
    /// Two directives exclude each other.
    #[error("directive {second:?} contradicts {first:?}; give one of them")]
    Conflict {
        /// The directive that came first.
        first: &'static str,
        /// The other directive.
        second: &'static str,
    },
    /// A required directive that neither this library nor its servers know.
    #[error("directive {key:?} is required, but nothing here honours it; leave it out or do not mark it as required")]
    NotSupported {
        /// The directive.
        key: Key,
    },
}

impl AsStatus for DirectiveError {
    fn status(&self) -> Status {
        match self {
            Self::WrongValue { .. } | Self::Conflict { .. } => Status::ERR_BAD_PARAM,
            Self::NotSupported { .. } => Status::ERR_NOT_SUPPORTED,
        }
    }
}

impl GetDirectives {
    /// Reads the directives of a Get. Unknown entries are kept for the server, unless they are required. No server
    /// would honour a required one, because servers pass no directive of a Get to their hosts.
    ///
    /// # Errors
    /// [`DirectiveError`] for a known directive with an impossible value, for pointer and static values at once, and
    /// for an unknown required directive.
    pub fn parse(infos: &[Info]) -> Result<Self, DirectiveError> {
        if let Some(info) = Get::unmet(infos) {
            return Err(DirectiveError::NotSupported { key: info.key.clone() });
        }
        let mut directives = Self { qualifiers: qualified::qualifiers(infos), ..Self::default() };
        for info in infos {
            match directives.apply(info)? {
                Honoured::Here => {}
                Honoured::Upward => directives.upward.push(info.clone()),
                // OpenPMIx 4.2 to 6.1 recognise the session directive only as the first of all.
                Honoured::UpwardFirst => directives.upward.insert(0, info.clone()),
            }
        }
        directives.name_one_realm();
        if directives.pointer_values && directives.static_values {
            return Err(DirectiveError::Conflict {
                first: attribute::POINTER_VALUES,
                second: attribute::STATIC_VALUES,
            });
        }
        Ok(directives)
    }

    /// Sets the entry's field. Returns where the entry is honoured.
    fn apply(&mut self, info: &Info) -> Result<Honoured, DirectiveError> {
        match info.key.as_str() {
            attribute::OPTIONAL => return here(&mut self.optional, info),
            attribute::POINTER_VALUES => return here(&mut self.pointer_values, info),
            attribute::STATIC_VALUES => return here(&mut self.static_values, info),
            attribute::IMMEDIATE => self.immediate = flag(info)?,
            attribute::REFRESH_CACHE => self.refresh = flag(info)?,
            attribute::TIMEOUT => self.timeout = timeout(info)?,
            attribute::DATA_SCOPE => self.scope = scope(info)?,
            attribute::SESSION_INFO => {
                self.add_realm(RealmDirective::Session, info)?;
                return Ok(Honoured::UpwardFirst);
            }
            attribute::JOB_INFO => self.add_realm(RealmDirective::Job, info)?,
            attribute::APP_INFO => self.add_realm(RealmDirective::App, info)?,
            attribute::NODE_INFO => self.add_realm(RealmDirective::Node, info)?,
            attribute::HOSTNAME => self.hostname = Some(text(info)?),
            attribute::NODE_ID => self.node_id = Some(number(info)?),
            attribute::APP_NUMBER => self.app_number = Some(number(info)?),
            attribute::SESSION_ID => self.session_id = Some(number(info)?),
            _ => {}
        }
        Ok(Honoured::Upward)
    }

    fn add_realm(&mut self, realm: RealmDirective, info: &Info) -> Result<(), DirectiveError> {
        if flag(info)? {
            self.realm = self.realm.beside(realm);
        }
        Ok(())
    }

    /// Removes the realms that do not count: servers of the reference use the first of several.
    fn name_one_realm(&mut self) {
        let named = directive_of(self.realm);
        self.upward.retain(|info| {
            let key = info.key.as_str();
            let is_named = key == named && info.value.as_bool() == Some(true);
            is_named || !RealmDirective::PRECEDENCE.into_iter().any(|realm| directive_of(realm) == key)
        });
    }

    /// The realm in the datastore's terms.
    #[must_use]
    pub fn realm_request(&self) -> RealmRequest<'_> {
        let qualifiers = RealmQualifiers {
            realm: self.realm,
            hostname: self.hostname.as_deref(),
            node_id: self.node_id,
            app_number: self.app_number,
            session_id: self.session_id,
        };
        qualifiers.request()
    }

    /// Whether every Get for the same key of the same process has this answer: no realm, qualifier, scope or device
    /// narrows it. Only such answers may be cached.
    #[must_use]
    pub fn is_unqualified(&self) -> bool {
        let is_device = |info: &Info| Get::OF_HARDWARE.contains(&info.key.as_str());
        !self.upward.iter().any(is_device)
            && self.scope.is_none()
            && self.session_id.is_none()
            && self.realm_request() == RealmRequest::Default
            && self.qualifiers.is_empty()
    }

    /// Adds the session directive when only a number names the session: servers of the reference need the directive.
    pub(super) fn name_session(&mut self) {
        if self.realm != RealmDirective::Session {
            self.realm = RealmDirective::Session;
            self.upward.retain(|info| info.key.as_str() != attribute::SESSION_INFO);
            self.upward.insert(0, Info::new(Key::from_static(attribute::SESSION_INFO), true));
        }
    }

    /// Changes the request so that the server answers from its own data.
    pub(crate) fn demand_immediate(&mut self) {
        if !self.immediate {
            self.immediate = true;
            self.upward.retain(|info| info.key.as_str() != attribute::IMMEDIATE);
            self.upward.push(Info::new(Key::from_static(attribute::IMMEDIATE), true));
        }
    }

    /// Subtracts the spent time from the time limit, for a retry. Returns whether any is left. The server gets whole
    /// seconds, rounded up.
    #[must_use]
    pub fn spend(&mut self, spent: Duration) -> bool {
        let Some(timeout) = self.timeout else { return true };
        let left = timeout.saturating_sub(spent);
        let seconds = left.as_secs().saturating_add(u64::from(left.subsec_nanos() > 0));
        self.timeout = Some(left);
        for info in self.upward.iter_mut().filter(|info| info.key.as_str() == attribute::TIMEOUT) {
            info.value = Value::Int(i32::try_from(seconds).unwrap_or(i32::MAX));
        }
        !left.is_zero()
    }
}

/// The directive of a realm.
const fn directive_of(realm: RealmDirective) -> &'static str {
    match realm {
        RealmDirective::Default => "",
        RealmDirective::Session => attribute::SESSION_INFO,
        RealmDirective::Job => attribute::JOB_INFO,
        RealmDirective::App => attribute::APP_INFO,
        RealmDirective::Node => attribute::NODE_INFO,
    }
}

impl FenceDirectives {
    /// Reads the directives of a Fence. Unknown entries are kept for the server.
    ///
    /// # Errors
    /// [`DirectiveError`] for a known directive with an impossible value.
    pub fn parse(infos: &[Info]) -> Result<Self, DirectiveError> {
        let mut directives = Self { upward: infos.to_vec(), ..Self::default() };
        for info in infos {
            match info.key.as_str() {
                attribute::COLLECT_DATA => directives.collect = flag(info)?,
                attribute::COLLECT_GENERATED_JOB_INFO => {
                    directives.collect_generated_job_info = Some(flag(info)?);
                }
                attribute::TIMEOUT => directives.timeout = timeout(info)?,
                _ => {}
            }
        }
        Ok(directives)
    }
}

/// The time limit among the directives of any other operation, if there is one. It stays among them for the server.
///
/// # Errors
/// [`DirectiveError`] when it is no number of seconds.
pub fn time_limit(infos: &[Info]) -> Result<Option<Duration>, DirectiveError> {
    let is_limit = |info: &&Info| UNDERSTOOD_OF_REQUESTS.contains(&info.key.as_str());
    infos.iter().rev().find(is_limit).map_or(Ok(None), timeout)
}

/// Infos of every request that a client honours itself.
pub const UNDERSTOOD_OF_REQUESTS: [&str; 1] = [attribute::TIMEOUT];

/// Infos of `PMIx_Init`. Those about a programming model differ between the libraries in a process: each declares its
/// own.
pub const UNDERSTOOD_OF_INIT: [&str; 9] = [
    keys::EXTERNAL_PROGRESS.name(),
    keys::PROGRAMMING_MODEL.name(),
    keys::MODEL_LIBRARY_NAME.name(),
    keys::MODEL_LIBRARY_VERSION.name(),
    keys::THREADING_MODEL.name(),
    keys::MODEL_NUM_THREADS.name(),
    keys::MODEL_NUM_CPUS.name(),
    keys::MODEL_CPU_TYPE.name(),
    keys::MODEL_AFFINITY_POLICY.name(),
];

/// Whether queries ask for a group of results for each of them.
#[must_use]
pub fn ask_for_groups(queries: &[Query]) -> bool {
    let asks = |info: &Info| UNDERSTOOD_OF_QUERIES.contains(&info.key.as_str()) && info.value.as_bool() == Some(true);
    queries.iter().flat_map(|query| &query.qualifiers).any(asks)
}

/// Qualifiers of queries that a client honours itself: true asks for a group of results for each query.
pub const UNDERSTOOD_OF_QUERIES: [&str; 1] = [keys::QUERY_RESULTS.name()];

/// The directives of the leader of an invitation.
pub const UNDERSTOOD_OF_INVITATIONS: [&str; 3] =
    [keys::TIMEOUT.name(), keys::GROUP_OPTIONAL.name(), keys::GROUP_ASSIGN_CONTEXT_ID.name()];

/// The directives of an answer to an invitation.
pub const UNDERSTOOD_OF_ACCEPTANCES: [&str; 1] = [keys::TIMEOUT.name()];

/// Refuses required entries that a reader of the `understood` keys does not honour.
///
/// # Errors
/// [`DirectiveError::NotSupported`] with the first of them.
pub fn refuse_required(infos: &[Info], understood: &[&str]) -> Result<(), DirectiveError> {
    keys::first_unmet(infos, understood).map_or(Ok(()), |key| Err(DirectiveError::NotSupported { key: key.clone() }))
}

/// The places that honour an entry.
enum Honoured {
    Here,
    Upward,
    UpwardFirst,
}

fn here(field: &mut bool, info: &Info) -> Result<Honoured, DirectiveError> {
    *field = flag(info)?;
    Ok(Honoured::Here)
}

fn flag(info: &Info) -> Result<bool, DirectiveError> {
    info.value.as_bool().ok_or_else(|| wrong(info, "a boolean or no value"))
}

fn number(info: &Info) -> Result<u32, DirectiveError> {
    info.value.as_u32().ok_or_else(|| wrong(info, "a number from 0 to 2^32 - 1"))
}

fn text(info: &Info) -> Result<String, DirectiveError> {
    info.value.as_str().map(str::to_owned).ok_or_else(|| wrong(info, "a UTF-8 string"))
}

fn timeout(info: &Info) -> Result<Option<Duration>, DirectiveError> {
    let seconds = info.value.as_u64().ok_or_else(|| wrong(info, "a number of seconds, 0 for no limit"))?;
    Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
}

fn scope(info: &Info) -> Result<Option<Scope>, DirectiveError> {
    let Value::Scope(raw) = info.value else {
        return Err(wrong(info, "a scope"));
    };
    // 0 is the standard's undefined scope: no restriction.
    match (raw, Scope::from_raw(raw)) {
        (0, _) => Ok(None),
        (_, Some(scope)) => Ok(Some(scope)),
        (_, None) => Err(wrong(info, "one of the standard's scopes")),
    }
}

fn wrong(info: &Info, wanted: &'static str) -> DirectiveError {
    DirectiveError::WrongValue { key: info.key.clone(), wanted }
}

#[cfg(test)]
mod tests;
