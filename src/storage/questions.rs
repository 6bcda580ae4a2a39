//! Storage in the standard's keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::devices::float;
use super::files::{self, FILE_KEYS};
use super::provider::{DeviceNumber, Provider, Rates, StorageSystem, Usage};
use crate::keys::{self, TypedKey};
use crate::types::codes::storage_access_type::{STORAGE_ACCESS_RD, STORAGE_ACCESS_RDWR, STORAGE_ACCESS_WR};
use crate::types::{Info, Key, Query, Text, Value, footprint};

/// Facts about a system. They also select systems, as qualifiers.
const FACTS: [&str; 8] = [
    keys::STORAGE_ID.name(),
    keys::STORAGE_PATH.name(),
    keys::STORAGE_TYPE.name(),
    keys::STORAGE_VERSION.name(),
    keys::STORAGE_MEDIUM.name(),
    keys::STORAGE_ACCESSIBILITY.name(),
    keys::STORAGE_PERSISTENCE.name(),
    keys::STORAGE_ACCESS_TYPE.name(),
];

/// Figures of the use of a system.
const FIGURES: [&str; 10] = [
    keys::STORAGE_CAPACITY_LIMIT.name(),
    keys::STORAGE_CAPACITY_USED.name(),
    keys::STORAGE_OBJECT_LIMIT.name(),
    keys::STORAGE_OBJECTS_USED.name(),
    keys::STORAGE_MINIMAL_XFER_SIZE.name(),
    keys::STORAGE_SUGGESTED_XFER_SIZE.name(),
    keys::STORAGE_BW_MAX.name(),
    keys::STORAGE_BW_CUR.name(),
    keys::STORAGE_IOPS_MAX.name(),
    keys::STORAGE_IOPS_CUR.name(),
];

/// The keys that storage has values of.
pub fn keys() -> impl Iterator<Item = &'static str> {
    let list = [keys::QUERY_STORAGE_LIST.name()];
    list.into_iter().chain(FACTS).chain(FIGURES).chain(FILE_KEYS)
}

/// Whether storage has values of a key.
#[must_use]
pub fn is_key(key: &str) -> bool {
    keys().any(|known| known == key)
}

/// The qualifiers of queries about storage: facts about a system, and those of files.
pub const QUALIFIERS: [&[&str]; 2] = [&FACTS, &files::QUALIFIERS];

/// Whether a key is a qualifier of queries about storage.
#[must_use]
pub fn is_qualifier(key: &str) -> bool {
    QUALIFIERS.iter().any(|list| list.contains(&key))
}

/// Further qualifiers that storage honours. Values are always new and of this node, and the client has the time limit.
const ALSO_HONOURED: [&str; 5] = [
    keys::HOSTNAME.name(),
    keys::NODE_INFO.name(),
    keys::OPTIONAL.name(),
    keys::QUERY_REFRESH_CACHE.name(),
    keys::TIMEOUT.name(),
];

/// Bytes of a megabyte of the standard.
const MEGABYTE: u64 = 1 << 20;

/// The storage systems of all providers.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    pub(super) providers: Vec<Arc<dyn Provider>>,
}

impl Storage {
    /// Adds a provider. Earlier ones come first.
    pub fn add(&mut self, provider: impl Provider + 'static) {
        self.providers.push(Arc::new(provider));
    }

    /// Whether there is no provider.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.providers.is_empty()
    }

    /// Whether an answer may wait for a file system. Lists and fixed facts do not.
    #[must_use]
    pub fn needs_look(queries: &[Query]) -> bool {
        let mut names = queries.iter().flat_map(|query| &query.keys);
        names.any(|name| name.to_str().is_ok_and(|key| key != keys::QUERY_STORAGE_LIST.name() && is_of_use(key)))
    }

    /// The answers to the queries, of found values only, in the order of the keys. It may wait for a file system
    /// ([`Storage::needs_look`]).
    ///
    /// A key about one system has an answer if the qualifiers leave one. A query about another node has none. A value
    /// that makes all together larger than `bytes_max` is left out.
    #[must_use]
    pub fn answer(&self, queries: &[Query], hostname: &str, bytes_max: usize) -> Vec<Info> {
        let known = Known::of(&self.providers);
        let mut looks = BTreeMap::new();
        let (mut infos, mut bytes) = (Vec::new(), 0_usize);
        for Query { keys, qualifiers } in queries {
            let Some(selection) = Selection::read(qualifiers, hostname) else { continue };
            let meant: Vec<&Known<'_>> = known.iter().filter(|known| selection.means(&known.system)).collect();
            for (at, name) in keys.iter().enumerate() {
                let is_repeated = keys.iter().take(at).any(|earlier| earlier == name);
                let Some(key) = Key::from_bytes(name.as_bytes()).ok().filter(|_| !is_repeated) else { continue };
                let rate = |device| rate_of(&known, device);
                let value = match &meant[..] {
                    _ if FILE_KEYS.contains(&key.as_str()) => files::fact(key.as_str(), qualifiers, hostname, rate),
                    [_, ..] if key.as_str() == keys::QUERY_STORAGE_LIST.name() => Some(list(&meant)),
                    [one] => one.fact(key.as_str(), &selection, &mut looks),
                    _ => None,
                };
                let Some(value) = value else { continue };
                let more = footprint(&value).and_then(|size| bytes.checked_add(size)).filter(|more| *more <= bytes_max);
                if let Some(more) = more {
                    bytes = more;
                    infos.push(Info { key, flags: 0, value });
                }
            }
        }
        infos
    }
}

/// The best known rate of reads from the system on a device. Memory has none: nothing is cold there.
fn rate_of(known: &[Known<'_>], device: DeviceNumber) -> Option<f64> {
    let known = known.iter().find(|known| known.system.device == Some(device))?;
    let rate = known.usage().reads.bytes_max?;
    (rate > 0.0).then_some(rate)
}

/// A system, with the parts that providers know.
pub(super) struct Known<'p> {
    pub(super) system: StorageSystem,
    parts: Vec<(&'p dyn Provider, StorageSystem)>,
}

impl<'p> Known<'p> {
    /// The systems of all providers, each id once. A second one of the same provider is left out.
    pub(super) fn of(providers: &'p [Arc<dyn Provider>]) -> Vec<Self> {
        let mut known: Vec<Self> = Vec::new();
        let mut places: BTreeMap<Text, usize> = BTreeMap::new();
        for provider in providers {
            let mut own = BTreeSet::new();
            for system in provider.systems() {
                // Users may choose the name of a system. It must not become a part of another one.
                if !own.insert(system.id.clone()) {
                    continue;
                }
                let place = *places.entry(system.id.clone()).or_insert(known.len());
                let part = (&**provider, system.clone());
                match known.get_mut(place) {
                    Some(earlier) => {
                        earlier.system = std::mem::take(&mut earlier.system).or(system);
                        earlier.parts.push(part);
                    }
                    None => known.push(Self { system, parts: vec![part] }),
                }
            }
        }
        known
    }

    /// A fact about the system. A first look at its use may wait.
    fn fact(&self, key: &str, selection: &Selection<'_>, looks: &mut BTreeMap<Text, Usage>) -> Option<Value> {
        if let Some(value) = fixed(&self.system, key) {
            return Some(value);
        }
        if !is_of_use(key) {
            return None;
        }
        let usage = looks.entry(self.system.id.clone()).or_insert_with(|| self.usage());
        figure(usage, key, selection.access)
    }

    fn usage(&self) -> Usage {
        self.parts.iter().fold(Usage::default(), |usage, (provider, part)| usage.or(provider.usage(part)))
    }
}

/// The ids, with commas between them.
fn list(known: &[&Known<'_>]) -> Value {
    let ids: Vec<String> = known.iter().map(|known| listed(&known.system.id)).collect();
    Value::from(ids.join(","))
}

/// An id without commas.
pub(super) fn listed(id: &Text) -> String {
    let mut text = String::new();
    for character in id.to_string_lossy().chars() {
        if character == ',' || character == '%' || character.is_ascii_control() {
            text.push_str(&format!("%{:02X}", u32::from(character)));
        } else {
            text.push(character);
        }
    }
    text
}

/// A fact that needs no look.
fn fixed(system: &StorageSystem, key: &str) -> Option<Value> {
    let is = |known: &str| key == known;
    if is(keys::STORAGE_ID.name()) {
        return Some(Value::from(listed(&system.id)));
    }
    let text = |text: Option<&Text>| text.cloned().map(Value::String);
    match () {
        () if is(keys::STORAGE_PATH.name()) => text(system.paths.first()),
        () if is(keys::STORAGE_TYPE.name()) => text(system.kind.as_ref()),
        () if is(keys::STORAGE_VERSION.name()) => text(system.version.as_ref()),
        () if is(keys::STORAGE_MEDIUM.name()) => system.medium.map(Value::StorageMedium),
        () if is(keys::STORAGE_ACCESSIBILITY.name()) => system.accessibility.map(Value::StorageAccess),
        () if is(keys::STORAGE_PERSISTENCE.name()) => system.persistence.map(Value::StoragePersistence),
        () if is(keys::STORAGE_ACCESS_TYPE.name()) => system.access.map(Value::StorageAccessType),
        () => None,
    }
}

/// Whether a key is about the use of a system, or about files.
fn is_of_use(key: &str) -> bool {
    FIGURES.contains(&key) || FILE_KEYS.contains(&key)
}

/// A figure of the use.
fn figure(usage: &Usage, key: &str, access: u16) -> Option<Value> {
    let is = |known: &str| key == known;
    let rate = |part: fn(&Rates) -> Option<f64>| sum(access, part(&usage.reads), part(&usage.writes));
    let size = |bytes: Option<u64>| bytes.map(|bytes| Value::Double(float(bytes)));
    match () {
        () if is(keys::STORAGE_CAPACITY_LIMIT.name()) => usage.capacity_bytes.map(|bytes| (bytes / MEGABYTE).into()),
        () if is(keys::STORAGE_CAPACITY_USED.name()) => size(usage.used_bytes),
        () if is(keys::STORAGE_OBJECT_LIMIT.name()) => usage.objects_max.map(Value::from),
        () if is(keys::STORAGE_OBJECTS_USED.name()) => usage.objects_used.map(Value::from),
        () if is(keys::STORAGE_MINIMAL_XFER_SIZE.name()) => size(usage.transfer_bytes_min),
        () if is(keys::STORAGE_SUGGESTED_XFER_SIZE.name()) => size(best(usage, access)),
        () if is(keys::STORAGE_BW_MAX.name()) => rate(|rates| rates.bytes_max),
        () if is(keys::STORAGE_BW_CUR.name()) => rate(|rates| rates.bytes),
        () if is(keys::STORAGE_IOPS_MAX.name()) => rate(|rates| rates.operations_max),
        () if is(keys::STORAGE_IOPS_CUR.name()) => rate(|rates| rates.operations),
        () => None,
    }
}

/// A rate in one direction, or that of both together.
fn sum(access: u16, reads: Option<f64>, writes: Option<f64>) -> Option<Value> {
    let rate = match access {
        STORAGE_ACCESS_RD => reads,
        STORAGE_ACCESS_WR => writes,
        _ => reads.zip(writes).map(|(reads, writes)| reads + writes),
    };
    rate.map(Value::Double)
}

/// The best size of a transfer in one direction, or one that is best in both.
fn best(usage: &Usage, access: u16) -> Option<u64> {
    match access {
        STORAGE_ACCESS_RD => usage.read_bytes_best,
        STORAGE_ACCESS_WR => usage.write_bytes_best,
        _ => usage.read_bytes_best.filter(|_| usage.read_bytes_best == usage.write_bytes_best),
    }
}

/// The qualifiers of a query.
struct Selection<'q> {
    texts: [Option<&'q Text>; 4],
    /// Bits that a system must have.
    bits: [Option<u64>; 3],
    /// The direction of transfers.
    access: u16,
}

impl<'q> Selection<'q> {
    /// Reads them; `None` for a value of another type, an unknown direction, another node, or a required qualifier that
    /// storage does not honour.
    fn read(qualifiers: &'q [Info], hostname: &str) -> Option<Self> {
        let is_honoured = |key: &str| is_qualifier(key) || ALSO_HONOURED.contains(&key);
        if qualifiers.iter().any(|info| keys::is_unmet(info, is_honoured)) {
            return None;
        }
        let (mut texts, mut bits) = ([None; 4], [None; 3]);
        let names = [keys::STORAGE_ID, keys::STORAGE_PATH, keys::STORAGE_TYPE, keys::STORAGE_VERSION];
        for (text, key) in texts.iter_mut().zip(names) {
            *text = match find(qualifiers, key).map(|info| &info.value) {
                None => None,
                Some(Value::String(text)) => Some(text),
                Some(_) => return None,
            };
        }
        let sets = [keys::STORAGE_MEDIUM.name(), keys::STORAGE_ACCESSIBILITY.name(), keys::STORAGE_PERSISTENCE.name()];
        for (set, key) in bits.iter_mut().zip(sets) {
            *set = match qualifiers.iter().find(|info| info.key.as_str() == key).map(|info| &info.value) {
                None => None,
                Some(Value::StorageMedium(bits) | Value::StorageAccess(bits) | Value::StoragePersistence(bits)) => {
                    Some(*bits)
                }
                Some(value) => Some(value.as_u64()?),
            };
        }
        let access = match find(qualifiers, keys::STORAGE_ACCESS_TYPE).map(|info| &info.value) {
            None => STORAGE_ACCESS_RDWR,
            Some(Value::StorageAccessType(access)) => *access,
            Some(value) => u16::try_from(value.as_u64()?).ok()?,
        };
        let is_direction = [STORAGE_ACCESS_RD, STORAGE_ACCESS_WR, STORAGE_ACCESS_RDWR].contains(&access);
        let node = find(qualifiers, keys::HOSTNAME).map(|info| info.value.as_str());
        // The numbers of nodes are those of a job.
        let is_here = node.is_none_or(|node| node == Some(hostname)) && find(qualifiers, keys::NODEID).is_none();
        (is_direction && is_here).then_some(Self { texts, bits, access })
    }

    fn means(&self, system: &StorageSystem) -> bool {
        let [id, path, kind, version] = self.texts;
        let sets = [system.medium, system.accessibility, system.persistence];
        id.is_none_or(|id| *id == system.id || id.as_bytes() == listed(&system.id).as_bytes())
            && path.is_none_or(|path| system.paths.contains(path))
            && kind.is_none_or(|kind| system.kind.as_ref() == Some(kind))
            && version.is_none_or(|version| system.version.as_ref() == Some(version))
            && self
                .bits
                .iter()
                .zip(sets)
                .all(|(asked, set)| asked.is_none_or(|asked| set.is_some_and(|set| set & asked != 0)))
    }
}

fn find<T: ?Sized>(infos: &[Info], key: TypedKey<T>) -> Option<&Info> {
    infos.iter().find(|info| info.key.as_str() == key.name())
}
