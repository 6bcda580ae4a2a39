//! The directives of publish, lookup and unpublish.

use std::time::Duration;

use crate::keys::{self, TypedKey};
use crate::server::{find, requires_more_than};
use crate::types::codes::persistence::{PERSIST_APP, PERSIST_FIRST_READ, PERSIST_INDEF, PERSIST_PROC, PERSIST_SESSION};
use crate::types::codes::range::{
    RANGE_CUSTOM, RANGE_GLOBAL, RANGE_LOCAL, RANGE_NAMESPACE, RANGE_PROC_LOCAL, RANGE_RM, RANGE_SESSION, RANGE_UNDEF,
};
use crate::types::{Info, InfoFlags, ProcId, Status, Value};

/// The processes that may see data, or whose data is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Range {
    /// The server's own process.
    Host,
    /// The processes of this node.
    Local,
    Namespace,
    /// The processes of this server.
    Session,
    Global,
    /// These processes; the wildcard rank: all of a namespace.
    Custom(Vec<ProcId>),
    /// The process alone.
    Process,
}

/// The end of published data, unless it is unpublished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    /// The end of the server.
    Server,
    /// The first read, or the end of the job.
    FirstRead,
    /// The end of the process.
    Process,
    /// The end of the job.
    Job,
}

/// Users and groups that may read data. A process needs one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) users: Vec<u32>,
    pub(super) groups: Vec<u32>,
}

/// A request to publish, without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublishDirectives {
    pub(super) range: Range,
    pub(super) persistence: Persistence,
    /// `None`: processes that reach the publisher.
    pub(super) access: Option<Access>,
}

/// A lookup, without its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LookupDirectives {
    pub(super) range: Range,
    /// The number of values to wait for.
    pub(super) wait: Wait,
    pub(super) timeout: Option<Duration>,
}

/// The number of values that a lookup waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    All,
    For(usize),
}

impl PublishDirectives {
    /// Splits a request into data and directives. A reserved key is data if it is no directive of this request.
    ///
    /// # Errors
    /// The status for the requester.
    pub(super) fn split(infos: Vec<Info>) -> Result<(Self, Vec<Info>), Status> {
        let (directives, data): (Vec<Info>, Vec<Info>) =
            infos.into_iter().partition(|info| OF_PUBLISH.contains(&info.key.as_str()));
        let is_unmet = |info: &Info| info.key.is_reserved() && is_required(info);
        if data.iter().any(is_unmet) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        refuse_unknown(&directives, &OF_PUBLISH)?;
        if data.iter().any(|info| info.key.as_str().is_empty()) {
            return Err(Status::ERR_BAD_PARAM);
        }
        check_timeout(&directives)?;
        let range = range(&directives)?.unwrap_or(Range::Session);
        let persistence = number(&directives, keys::PERSISTENCE)?.unwrap_or_else(|| PERSIST_APP.into());
        let persistence = u8::try_from(persistence).ok().and_then(persistence_of).ok_or(Status::ERR_BAD_PARAM)?;
        Ok((Self { range, persistence, access: access(&directives)? }, data))
    }
}

impl LookupDirectives {
    /// # Errors
    /// The status for the requester.
    pub(super) fn read(directives: &[Info]) -> Result<Self, Status> {
        refuse_unknown(directives, &OF_LOOKUP)?;
        let timeout = check_timeout(directives)?;
        let wait = match find(directives, keys::WAIT).map(|info| &info.value) {
            None => Wait::No,
            // Open MPI gives a boolean.
            Some(value) => match (value.as_bool(), value.as_u64().and_then(|count| usize::try_from(count).ok())) {
                (Some(true), _) | (_, Some(0)) => Wait::All,
                (Some(false), _) => Wait::No,
                (None, Some(count)) => Wait::For(count),
                (None, None) => return Err(Status::ERR_BAD_PARAM),
            },
        };
        Ok(Self { range: range(directives)?.unwrap_or(Range::Session), wait, timeout })
    }
}

/// The range of a request to unpublish. `None`: data of every range.
///
/// # Errors
/// The status for the requester.
pub(super) fn unpublish_range(directives: &[Info]) -> Result<Option<Range>, Status> {
    refuse_unknown(directives, &OF_UNPUBLISH)?;
    check_timeout(directives)?;
    range(directives)
}

fn refuse_unknown(directives: &[Info], known: &[&str]) -> Result<(), Status> {
    if requires_more_than(directives, known) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(()) }
}

const fn is_required(info: &Info) -> bool {
    info.flags().contains(InfoFlags::REQUIRED)
}

/// The number of a directive. Callers use different types for the codes of ranges and persistences.
fn number<T>(infos: &[Info], key: TypedKey<T>) -> Result<Option<u64>, Status> {
    let Some(info) = find(infos, key) else { return Ok(None) };
    let code = match info.value {
        Value::DataRange(code) | Value::Persistence(code) => Some(code.into()),
        ref value => value.as_u64(),
    };
    code.map(Some).ok_or(Status::ERR_BAD_PARAM)
}

/// The time limit; absent and 0 mean none.
fn check_timeout(infos: &[Info]) -> Result<Option<Duration>, Status> {
    Ok(number(infos, keys::TIMEOUT)?.filter(|&seconds| seconds > 0).map(Duration::from_secs))
}

fn range(infos: &[Info]) -> Result<Option<Range>, Status> {
    let code = number(infos, keys::RANGE)?;
    // Another range leaves the list of processes out.
    if code != Some(RANGE_CUSTOM.into()) && find(infos, keys::EVENT_CUSTOM_RANGE).is_some_and(is_required) {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    let Some(code) = code else { return Ok(None) };
    Ok(match u8::try_from(code).map_err(|_| Status::ERR_BAD_PARAM)? {
        RANGE_UNDEF => None,
        RANGE_RM => Some(Range::Host),
        RANGE_LOCAL => Some(Range::Local),
        RANGE_NAMESPACE => Some(Range::Namespace),
        RANGE_SESSION => Some(Range::Session),
        RANGE_GLOBAL => Some(Range::Global),
        RANGE_PROC_LOCAL => Some(Range::Process),
        RANGE_CUSTOM => {
            let listed = find(infos, keys::EVENT_CUSTOM_RANGE).ok_or(Status::ERR_BAD_PARAM)?;
            Some(Range::Custom(procs(&listed.value)?))
        }
        _ => return Err(Status::ERR_BAD_PARAM),
    })
}

/// The processes of a custom range: one, or an array.
fn procs(value: &Value) -> Result<Vec<ProcId>, Status> {
    let of = |value: &Value| match value {
        Value::Proc(proc) => Ok(ProcId::clone(proc)),
        _ => Err(Status::ERR_BAD_PARAM),
    };
    let procs = match value {
        Value::DataArray(array) if array.elements.len() > LISTED_MAX => return Err(Status::ERR_OUT_OF_RESOURCE),
        Value::DataArray(array) => array.elements.iter().map(of).collect::<Result<Vec<_>, _>>()?,
        one => vec![of(one)?],
    };
    if procs.is_empty() { Err(Status::ERR_BAD_PARAM) } else { Ok(procs) }
}

const fn persistence_of(code: u8) -> Option<Persistence> {
    match code {
        PERSIST_INDEF | PERSIST_SESSION => Some(Persistence::Server),
        PERSIST_FIRST_READ => Some(Persistence::FirstRead),
        PERSIST_PROC => Some(Persistence::Process),
        PERSIST_APP => Some(Persistence::Job),
        _ => None,
    }
}

/// The permissions of data: lists in `PMIX_ACCESS_PERMISSIONS`, or beside it. Permissions without a list are an error.
fn access(infos: &[Info]) -> Result<Option<Access>, Status> {
    let mut access = Access::default();
    let mut has_list = false;
    let mut read = |info: &Info| {
        let list = match info.key.as_str() {
            key if key == keys::ACCESS_USERIDS.name() => &mut access.users,
            key if key == keys::ACCESS_GRPIDS.name() => &mut access.groups,
            _ => return if is_required(info) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(()) },
        };
        has_list = true;
        list.extend(ids(&info.value)?);
        if list.len() > LISTED_MAX { Err(Status::ERR_OUT_OF_RESOURCE) } else { Ok(()) }
    };
    let mut is_given = false;
    for info in infos {
        match info.key.as_str() {
            key if key == keys::ACCESS_PERMISSIONS.name() => {
                is_given = true;
                let Value::DataArray(array) = &info.value else { return Err(Status::ERR_BAD_PARAM) };
                for element in &array.elements {
                    let Value::Info(inner) = element else { return Err(Status::ERR_BAD_PARAM) };
                    read(inner)?;
                }
            }
            key if [keys::ACCESS_USERIDS.name(), keys::ACCESS_GRPIDS.name()].contains(&key) => read(info)?,
            _ => {}
        }
    }
    match (is_given, has_list) {
        (_, true) => Ok(Some(access)),
        (true, false) => Err(Status::ERR_BAD_PARAM),
        (false, false) => Ok(None),
    }
}

/// Ids of users or groups: one, or an array.
fn ids(value: &Value) -> Result<Vec<u32>, Status> {
    let of = |value: &Value| value.as_u32().ok_or(Status::ERR_BAD_PARAM);
    match value {
        Value::DataArray(array) => array.elements.iter().take(LISTED_MAX + 1).map(of).collect(),
        one => Ok(vec![of(one)?]),
    }
}

/// The most processes of a custom range, users or groups in one request. Each read of an entry walks through them.
const LISTED_MAX: usize = 256;

/// Directives of a request to publish.
pub const OF_PUBLISH: [&str; 9] = [
    keys::RANGE.name(),
    keys::EVENT_CUSTOM_RANGE.name(),
    keys::PERSISTENCE.name(),
    keys::ACCESS_PERMISSIONS.name(),
    keys::ACCESS_USERIDS.name(),
    keys::ACCESS_GRPIDS.name(),
    keys::TIMEOUT.name(),
    keys::USERID.name(),
    keys::GRPID.name(),
];

/// Directives of a lookup.
pub const OF_LOOKUP: [&str; 6] = [
    keys::RANGE.name(),
    keys::EVENT_CUSTOM_RANGE.name(),
    keys::WAIT.name(),
    keys::TIMEOUT.name(),
    keys::USERID.name(),
    keys::GRPID.name(),
];

/// Directives of a request to unpublish.
pub const OF_UNPUBLISH: [&str; 5] = [
    keys::RANGE.name(),
    keys::EVENT_CUSTOM_RANGE.name(),
    keys::TIMEOUT.name(),
    keys::USERID.name(),
    keys::GRPID.name(),
];
