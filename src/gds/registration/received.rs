//! Makes a record of job information from another server.

use crate::gds::job_record::JobRecord;
use crate::gds::qualified::{self, QUALIFIED_VALUE};
use crate::gds::read::job_entries::OTHER_SESSIONS;
use crate::keys::{self, DefaultRealm, default_realm};
use crate::types::{Info, Key, Kval, Namespace, Rank, Text, Value};

use super::coerce::{ValueRule, text_of};
use super::container::{self, Container, Infos, unwrapped};
use super::context::Context;
use super::description::Description;
use super::error::RegisterError;
use super::parse::parse_as_given;
use super::processes::HostValue;

/// Job information from a socket (wire.md 7.1), collected for the process's own store: the inverse of
/// [`NamespaceReader::visit_job_entries`](crate::gds::NamespaceReader::visit_job_entries).
///
/// It is not refused like a host's description. Entries that registration cannot read, or without a subject, are left
/// out; a later Get requests them from the server. Other values of another type than their key's are kept.
///
/// Source: OpenPMIx wire protocol, "REQ reply (job info)".
#[derive(Debug)]
pub struct ReceivedJob {
    namespace: Namespace,
    description: Description,
    /// Application values outside application arrays are of application 0.
    loose_app: Vec<Info>,
    /// The arrays of sessions besides the job's.
    other_sessions: Vec<Info>,
    has_session: bool,
    has_node_map: bool,
    has_proc_map: bool,
}

impl ReceivedJob {
    /// An empty collection for a job.
    #[must_use]
    pub fn new(namespace: Namespace) -> Self {
        Self {
            namespace,
            description: Description::default(),
            loose_app: Vec::new(),
            other_sessions: Vec::new(),
            has_session: false,
            has_node_map: false,
            has_proc_map: false,
        }
    }

    /// Takes one entry.
    pub fn entry(&mut self, entry: Kval) {
        match entry.key.as_str() {
            OTHER_SESSIONS => self.take_other_sessions(&entry.value),
            _ => self.sort(Info::new(entry.key, entry.value), 0),
        }
    }

    fn take_other_sessions(&mut self, value: &Value) {
        let Ok(infos) = Infos::of(OTHER_SESSIONS, value) else { return };
        let is_session = |info: &&Info| Container::of(info.key.as_str()) == Some(Container::Session);
        self.other_sessions.extend(infos.iter().filter(is_session).filter_map(|info| usable(info, 0)));
    }

    /// Takes the entries of a process.
    pub fn process(&mut self, rank: u32, entries: impl IntoIterator<Item = Kval>) {
        let table = self.description.processes();
        let (mut cells, mut others) = (Vec::new(), Vec::new());
        let named = |Kval { key, value }| {
            let (key, value) = qualified::stored(key, value);
            Kval { key, value }
        };
        for (place, entry) in entries.into_iter().filter(|entry| !is_identity(&entry.key)).map(named).enumerate() {
            let known = table.column_at(place, |key| key == entry.key.as_str());
            let Some(column) = known.or_else(|| table.column(place, &entry.key)) else { continue };
            if table.is_apart(column, &entry.value) {
                others.push(Info::new(entry.key, entry.value));
                continue;
            }
            let cell = match &entry.value {
                Value::String(text) => table.cell(column, HostValue::Text(text.as_bytes())),
                _ => table.cell(column, HostValue::Other(entry.value)),
            };
            cells.extend(cell);
        }
        table.push(rank, &cells);
        // A server may send several arrays for a process.
        others.retain(is_fit);
        if !others.is_empty() {
            others.insert(0, Info::new(Key::from_static(keys::RANK.name()), Rank::from(rank)));
            self.description.push(array(keys::PROC_INFO_ARRAY.name(), others));
        }
    }

    /// Takes the ranks of a node, as a list with commas.
    pub fn node_ranks(&mut self, hostname: Text, ranks: Text) {
        let node = vec![
            Info::new(Key::from_static(keys::HOSTNAME.name()), Value::String(hostname.clone())),
            Info::new(Key::from_static(keys::LOCAL_PEERS.name()), Value::String(ranks.clone())),
        ];
        self.description.push(array(keys::NODE_INFO_ARRAY.name(), node));
        let ranks = ranks.to_string_lossy();
        for rank in ranks.split(',').filter_map(|rank| rank.trim().parse().ok()) {
            let key = Key::from_static(keys::HOSTNAME.name());
            self.process(rank, [Kval { key, value: Value::String(hostname.clone()) }]);
        }
    }

    /// The record; with `previous`, an update of it.
    ///
    /// # Errors
    /// [`RegisterError`] if the parts contradict each other.
    pub fn into_record(mut self, context: &Context, previous: Option<&JobRecord>) -> Result<JobRecord, RegisterError> {
        if !self.loose_app.is_empty() {
            self.loose_app.insert(0, Info::new(Key::from_static(keys::APPNUM.name()), 0_u32));
            self.description.prepend(vec![array(keys::APP_INFO_ARRAY.name(), self.loose_app)]);
        }
        // The first session becomes the job's. If the job names none, a session without a number goes first.
        let is_in_some = self.has_session || previous.is_some_and(|previous| previous.session_id.is_some());
        if !self.other_sessions.is_empty() && !is_in_some {
            let none = Info::new(Key::from_static(keys::SESSION_ID.name()), SESSION_NONE);
            self.description.push(array(keys::SESSION_INFO_ARRAY.name(), vec![none]));
        }
        self.other_sessions.into_iter().for_each(|session| self.description.push(session));
        let mut record = parse_as_given(&self.namespace, context, &self.description, previous)?;
        if record.session_id == Some(SESSION_NONE) {
            record.session_id = None;
            record.session.retain(|(key, _)| key.as_str() != keys::SESSION_ID.name());
        }
        Ok(record)
    }

    fn sort(&mut self, info: Info, depth: u32) {
        let info = match unwrapped(&info) {
            inner if std::ptr::eq(inner, &raw const info) => info,
            inner => inner.clone(),
        };
        let Some(container) = Container::of(info.key.as_str()) else { return self.loose(info) };
        let Ok(infos) = Infos::of(info.key.as_str(), &info.value) else { return };
        self.has_session |= container == Container::Session;
        match container {
            Container::Proc => {
                let Some(rank) = rank_in(infos) else { return };
                let entries = infos.iter().skip(1);
                self.process(rank, entries.map(|info| Kval { key: info.key.clone(), value: info.value.clone() }));
            }
            Container::Job if depth < NESTED_MAX => infos.iter().for_each(|info| self.sort(info.clone(), depth + 1)),
            container => identified(container, infos, depth).into_iter().for_each(|info| self.description.push(info)),
        }
    }

    /// A value outside all containers.
    fn loose(&mut self, info: Info) {
        const NODE_MAP: &str = keys::NODE_MAP.name();
        const PROC_MAP: &str = keys::PROC_MAP.name();
        const NSPACE: &str = keys::NSPACE.name();
        const NODATA: &str = keys::REGISTER_NODATA.name();
        let is_out_of_place = match info.key.as_str() {
            NODE_MAP => std::mem::replace(&mut self.has_node_map, true),
            PROC_MAP => std::mem::replace(&mut self.has_proc_map, true),
            NSPACE => text_of(&info.value).is_some_and(|name| name != self.namespace.as_str()),
            // A directive from a host to its server, not a value.
            NODATA => true,
            _ => false,
        };
        if is_out_of_place || !is_fit(&info) {
            return;
        }
        match default_realm(info.key.as_str()) {
            DefaultRealm::Application => self.loose_app.push(info),
            _ => self.description.push(info),
        }
    }
}

/// The number that the reference library gives a session without one.
const SESSION_NONE: u32 = u32::MAX;
/// Depth up to which containers are searched.
const NESTED_MAX: u32 = 4;

/// A container without unusable entries; `None` if it has no subject.
fn identified(container: Container, infos: Infos<'_>, depth: u32) -> Option<Info> {
    let mut kept: Vec<Info> = infos.iter().filter_map(|info| usable(info, depth)).collect();
    let has = |key: &str| kept.iter().any(|info| info.key.as_str() == key);
    match container {
        Container::Session => number_first(&mut kept, keys::SESSION_ID.name(), SESSION_NONE),
        Container::App => number_first(&mut kept, keys::APPNUM.name(), 0),
        Container::Node if !has(keys::HOSTNAME.name()) && !has(keys::NODEID.name()) => return None,
        Container::Proc => rank_in(infos).map(drop)?,
        _ => {}
    }
    let key = match container {
        Container::Session => keys::SESSION_INFO_ARRAY.name(),
        Container::Job => keys::JOB_INFO_ARRAY.name(),
        Container::App => keys::APP_INFO_ARRAY.name(),
        Container::Proc => keys::PROC_INFO_ARRAY.name(),
        Container::Node => keys::NODE_INFO_ARRAY.name(),
    };
    Some(array(key, kept))
}

/// Moves the number of an array's subject to the front, once.
fn number_first(kept: &mut Vec<Info>, key: &'static str, otherwise: u32) {
    let is_number = |info: &Info| info.key.as_str() == key;
    let number = kept.iter().find(|info| is_number(info)).cloned();
    kept.retain(|info| !is_number(info));
    kept.insert(0, number.unwrap_or_else(|| Info::new(Key::from_static(key), otherwise)));
}

fn usable(info: &Info, depth: u32) -> Option<Info> {
    match Container::of(info.key.as_str()) {
        None => is_fit(info).then(|| info.clone()),
        Some(_) if depth >= NESTED_MAX => None,
        Some(inner) => identified(inner, Infos::of(info.key.as_str(), &info.value).ok()?, depth + 1),
    }
}

/// The process of an array, from its first entry.
fn rank_in(infos: Infos<'_>) -> Option<u32> {
    let first = infos.iter().next().filter(|info| info.key.as_str() == keys::RANK.name())?;
    match &first.value {
        Value::ProcRank(rank) => rank.process(),
        other => Rank::from_raw(other.as_u32()?).ok()?.process(),
    }
}

/// Whether the key only repeats the identity of the process.
fn is_identity(key: &Key) -> bool {
    [keys::RANK.name(), keys::PROCID.name(), keys::NSPACE.name()].contains(&key.as_str())
}

fn is_fit(info: &Info) -> bool {
    match info.key.as_str() {
        QUALIFIED_VALUE => container::qualified(info).is_ok(),
        key => ValueRule::of(key).check(key, &info.value).is_ok(),
    }
}

fn array(key: &'static str, infos: Vec<Info>) -> Info {
    Info::new(Key::from_static(key), Value::info_array(infos))
}
