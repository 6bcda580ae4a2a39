//! A change of resources after a job was described: its record with the new resources instead of the old ones.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::gds::job_record::{Column, ColumnValues, JobRecord};
use crate::keys::{self, DefaultRealm, default_realm};
use crate::types::{Info, Key, Namespace, Value, descend};

use super::coerce::{RecordCell, ValueRule, number_of, text_of};
use super::container::{Container, Infos, unwrapped};
use super::context::Context;
use super::description::Description;
use super::error::RegisterError;
use super::maps::MAPS;
use super::node_identity::{NodeIdentity, names_in};
use super::parse::parse_description;
use super::previous::{column, indexes_by_id, value_at};
use super::resources::{rank_of, resources_for};

/// All resources of a server, before and after a change.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceChange {
    /// The resources that a job's record may have.
    pub before: Arc<[Info]>,
    /// The resources that it is to have.
    pub after: Arc<[Info]>,
}

/// The record of a described job after a change of resources; `None` if nothing changes. Values that equal those of the
/// old resources go. New resources add what the job then lacks. All other values stay.
///
/// Source: PMIx Standard, chapter on server-specific interfaces, `PMIx_server_register_resources`.
///
/// # Errors
/// [`RegisterError`] if the job exceeds the limits.
pub(in crate::gds) fn with_resources(
    namespace: &Namespace,
    context: &Context,
    job: &JobRecord,
    change: &ResourceChange,
) -> Result<Option<JobRecord>, RegisterError> {
    let known = known_of(job);
    let of_job = |resources: &[Info]| resources_for(namespace, &known, resources);
    let (before, after) = (of_job(&change.before), of_job(&change.after));
    // The host wants no data of a job without any.
    if before == after || *job == JobRecord::default() {
        return Ok(None);
    }
    let mut gone = Gone::default();
    let places = Places::of(job);
    for resource in &before {
        places.retained(Place::Job, resource, &mut |place, info| {
            if places.value(place, info.key.as_str()).is_some_and(|stored| is_same(&stored, info)) {
                gone.insert(place, info.key.clone());
            }
            false
        });
    }
    let reduced = gone.taken_from(job);
    let places = Places::of(&reduced);
    let is_missing = &mut |place, info: &Info| places.value(place, info.key.as_str()).is_none();
    let added: Vec<Info> = after.iter().filter_map(|added| places.retained(Place::Job, added, is_missing)).collect();
    let mut description = Description::default();
    description.prepend(added);
    let record = parse_description(namespace, context, &description, Some(&reduced))?;
    Ok(Some(record).filter(|record| record != job))
}

/// The job's values that decide which resources are for it.
fn known_of(job: &JobRecord) -> Description {
    let decides = |key: &Key| DECIDING.contains(&key.as_str()) || MAPS.contains(&key.as_str());
    let values = job.job.iter().filter(|(key, _)| decides(key));
    Description::from(values.map(|(key, value)| Info::new(key.clone(), value.clone())).collect::<Vec<_>>())
}

const DECIDING: [&str; 2] = [keys::JOBID.name(), keys::JOB_SIZE.name()];

/// Keys in arrays that name the subject, not a fact about it.
const IDENTITIES: [&str; 8] = [
    keys::HOSTNAME.name(),
    keys::NODEID.name(),
    keys::HOSTNAME_ALIASES.name(),
    keys::RANK.name(),
    keys::PROCID.name(),
    keys::NSPACE.name(),
    keys::APPNUM.name(),
    keys::SESSION_ID.name(),
];

/// The subject of a value in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Session,
    Job,
    App(u32),
    /// By index.
    Node(u32),
    /// By rank.
    Proc(u32),
}

/// The subjects that a record knows.
struct Places<'a> {
    job: &'a JobRecord,
    by_name: OnceCell<FxHashMap<String, u32>>,
    by_id: OnceCell<FxHashMap<u32, u32>>,
}

impl<'a> Places<'a> {
    const fn of(job: &'a JobRecord) -> Self {
        Self { job, by_name: OnceCell::new(), by_id: OnceCell::new() }
    }

    /// The part of a resource whose values are to be kept. An array that is left without values is dropped. The array
    /// of a subject that the record does not know stays whole.
    fn retained(&self, place: Place, info: &Info, is_kept: &mut dyn FnMut(Place, &Info) -> bool) -> Option<Info> {
        let info = unwrapped(info);
        let key = info.key.as_str();
        let Some(container) = Container::of(key) else {
            let is_identity = place != Place::Job && IDENTITIES.contains(&key);
            let is_kept = is_identity || self.home(place, key).is_none_or(|home| is_kept(home, info));
            return is_kept.then(|| info.clone());
        };
        let infos = Infos::of(key, &info.value).ok()?;
        let Some(inner) = self.subject(place, container, infos) else { return Some(info.clone()) };
        let entries: Vec<Info> =
            infos.iter().filter_map(|entry| descend(|| self.retained(inner, entry, is_kept))).collect();
        let is_fact = |entry: &Info| inner == Place::Job || !IDENTITIES.contains(&entry.key.as_str());
        entries.iter().any(is_fact).then(|| Info {
            key: info.key.clone(),
            flags: info.flags,
            value: Value::info_array(entries),
        })
    }

    /// The subject of an array; `None` if the record does not know it. Nodes in arrays of sessions and applications
    /// have values of their own, which no resource takes away.
    fn subject(&self, place: Place, container: Container, infos: Infos<'_>) -> Option<Place> {
        let number = |key: &'static str| infos.with_key(key).last().and_then(|info| info.value.as_u32());
        match container {
            Container::Job => Some(Place::Job),
            Container::Session => (number(keys::SESSION_ID.name()) == self.job.session_id).then_some(Place::Session),
            Container::App => Some(Place::App(number(keys::APPNUM.name())?)),
            Container::Proc => infos.iter().find_map(rank_of).map(Place::Proc),
            Container::Node if matches!(place, Place::Session | Place::App(_)) => None,
            Container::Node => self.node(infos).map(Place::Node),
        }
    }

    fn node(&self, infos: Infos<'_>) -> Option<u32> {
        let identity = NodeIdentity::of_infos(infos.iter()).ok()?;
        let by_name = self.by_name.get_or_init(|| nodes_by_name(self.job));
        let names = identity.hostname.iter().chain(&identity.aliases);
        let named = names.filter_map(|name| by_name.get(name).copied()).next();
        let by_id = || self.by_id.get_or_init(|| indexes_by_id(self.job));
        named.or_else(|| by_id().get(&identity.id.filter(|_| identity.hostname.is_none())?).copied())
    }

    /// The subject of a value: for one outside of such arrays the key's default realm decides.
    fn home(&self, place: Place, key: &str) -> Option<Place> {
        match default_realm(key) {
            _ if place != Place::Job => Some(place),
            DefaultRealm::ByRank => Some(Place::Job),
            DefaultRealm::Session => Some(Place::Session),
            DefaultRealm::Application => self.job.apps.first().map(|app| Place::App(app.number)),
            DefaultRealm::Node => self.job.own_node.map(Place::Node),
        }
    }

    fn value(&self, place: Place, key: &str) -> Option<Value> {
        let entry = |entries: &[(Key, Value)]| {
            entries.iter().rfind(|(found, _)| found.as_str() == key).map(|(_, value)| value.clone())
        };
        match place {
            Place::Session => entry(&self.job.session),
            Place::Job => entry(&self.job.job),
            Place::App(number) => {
                self.job.apps.iter().find(|app| app.number == number).and_then(|app| entry(&app.entries))
            }
            Place::Node(index) => value_at(&column(&self.job.node_columns, key)?.values, index),
            Place::Proc(rank) => value_at(&column(&self.job.proc_columns, key)?.values, rank),
        }
    }
}

/// The index of each node under all its names.
fn nodes_by_name(job: &JobRecord) -> FxHashMap<String, u32> {
    let value = |key: &str, index| value_at(&column(&job.node_columns, key)?.values, index);
    let names = |index| {
        let aliases = value(keys::HOSTNAME_ALIASES.name(), index).as_ref().map(names_in).unwrap_or_default();
        let hostname = value(keys::HOSTNAME.name(), index).as_ref().and_then(text_of);
        aliases.into_iter().chain(hostname).map(move |name| (name, index))
    };
    (0..job.node_count).flat_map(names).collect()
}

/// Whether a stored value is the one that a resource gave.
fn is_same(stored: &Value, given: &Info) -> bool {
    let key = given.key.as_str();
    match ValueRule::of(key).check(key, &given.value) {
        Ok(RecordCell::Number(number)) => number_of(stored).is_some_and(|(_, found)| found == number),
        Ok(RecordCell::Borrowed(value)) => value == stored,
        Ok(RecordCell::Owned(value)) => *value == *stored,
        Err(_) => false,
    }
}

/// Values to be taken from a record: each key with its subjects.
#[derive(Default)]
struct Gone(BTreeMap<Key, BTreeSet<Place>>);

impl Gone {
    fn insert(&mut self, place: Place, key: Key) {
        self.0.entry(key).or_default().insert(place);
    }

    /// The record without these values.
    fn taken_from(&self, job: &JobRecord) -> JobRecord {
        let mut job = job.clone();
        let is_gone = |place: Place, key: &Key| self.0.get(key).is_some_and(|places| places.contains(&place));
        job.session.retain(|(key, _)| !is_gone(Place::Session, key));
        job.job.retain(|(key, _)| !is_gone(Place::Job, key));
        for app in &mut job.apps {
            app.entries.retain(|(key, _)| !is_gone(Place::App(app.number), key));
        }
        self.clear(&mut job.node_columns, job.node_count, Place::Node);
        self.clear(&mut job.proc_columns, job.rank_count, Place::Proc);
        job
    }

    /// Empties cells of columns. Columns that are empty then go.
    fn clear(&self, columns: &mut Vec<Column>, length: u32, place: impl Fn(u32) -> Place) {
        for column in columns.iter_mut() {
            let Some(places) = self.0.get(&column.key) else { continue };
            let kept = |index| if places.contains(&place(index)) { None } else { value_at(&column.values, index) };
            if (0..length).any(|index| places.contains(&place(index))) {
                column.values = ColumnValues::Values((0..length).map(kept).collect());
            }
        }
        columns.retain(|column| match &column.values {
            ColumnValues::Values(values) => values.iter().any(Option::is_some),
            _ => true,
        });
    }
}
