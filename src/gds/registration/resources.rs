//! Resources: what a server adds to every job's description, as far as it is about that job.

use std::cell::OnceCell;

use crate::keys;
use crate::regex::{self, RankMap};
use crate::types::{Info, Namespace, Rank, Value, descend};

use super::coerce::text_of;
use super::collect::u32_of;
use super::container::{Container, Infos, unwrapped};
use super::context::{Context, Limits};
use super::derive::map_bytes;
use super::description::Description;
use super::error::RegisterError;
use super::parse::check_added;

/// What of the resources is for a job. Left out is what names another job, processes that the job does not have, and a size or
/// maps where the job has its own. A process is named by `PMIX_RANK` or `PMIX_PROCID`, which may stand anywhere in its array.
///
/// Source: PMIx Standard, chapter on server-specific interfaces, `PMIx_server_register_resources`.
#[must_use]
pub fn resources_for(namespace: &Namespace, description: &Description, resources: &[Info]) -> Vec<Info> {
    let job = Job { namespace, description, id: OnceCell::new(), size: OnceCell::new() };
    resources.iter().filter_map(|resource| job.part_of(resource, true)).collect()
}

/// Confirms that what is added to the resources that are kept already can be part of a description: of a job that
/// none of it names, and of each job that something added names.
///
/// # Errors
/// [`RegisterError`] if something can't be read, contradicts itself or what is kept, or names the one job of all.
pub fn check_resources(kept: &[Info], added: &[Info]) -> Result<(), RegisterError> {
    if let Some(info) = added.iter().map(unwrapped).find(|info| NAMES_OF_JOBS.contains(&info.key.as_str())) {
        return Err(RegisterError::NamesEveryJob.about(info.key.as_str()));
    }
    let mut names = Vec::new();
    added.iter().for_each(|info| jobs_in(info, &mut names));
    names.sort_unstable();
    names.dedup();
    let jobs = names.iter().filter_map(|name| Namespace::new(name.as_str()).ok());
    Namespace::new(NOBODY).into_iter().chain(jobs).try_for_each(|job| {
        let nothing = Description::default();
        let part_of = |resources: &[Info]| -> Vec<Info> {
            let job = Job { namespace: &job, description: &nothing, id: OnceCell::new(), size: OnceCell::new() };
            // What is left out keeps its place, so that others are found at theirs.
            resources.iter().map(|resource| job.part_of(resource, true).unwrap_or_else(nothing_said)).collect()
        };
        let mut description = Description::from(part_of(added));
        check_added(&job, &Context::new(""), &description)?;
        if kept.is_empty() {
            return Ok(());
        }
        description.prepend(part_of(kept));
        check_added(&job, &Context::new(""), &description)
    })
}

/// The name that no job has: arrays that name a job are none of its.
const NOBODY: &str = "\u{1}resources";

/// Keys that outside a registration say of which job an array is.
const NAMES_OF_JOBS: [&str; 2] = [keys::NSPACE.name(), keys::JOBID.name()];

const MAPS: [&str; 4] =
    [keys::NODE_MAP.name(), keys::NODE_MAP_RAW.name(), keys::PROC_MAP.name(), keys::PROC_MAP_RAW.name()];

/// The job that resources are added to, and what its own description says of it.
struct Job<'a> {
    namespace: &'a Namespace,
    description: &'a Description,
    id: OnceCell<Option<String>>,
    size: OnceCell<Option<u32>>,
}

impl Job<'_> {
    /// What of a resource is for this job. `is_loose`: not in a session, application, process or node array.
    fn part_of(&self, resource: &Info, is_loose: bool) -> Option<Info> {
        let resource = unwrapped(resource);
        let key = resource.key.as_str();
        let Some(container) = Container::of(key) else {
            return (!is_loose || self.leaves_open(key)).then(|| resource.clone());
        };
        let Ok(infos) = Infos::of(key, &resource.value) else { return Some(resource.clone()) };
        if infos.iter().any(|entry| self.is_other(entry)) {
            return None;
        }
        let is_loose = container == Container::Job;
        let is_name = |entry: &Info| !is_loose && NAMES_OF_JOBS.contains(&entry.key.as_str());
        let kept = infos.iter().filter(|entry| !is_name(entry));
        let mut entries: Vec<Info> = kept.filter_map(|entry| descend(|| self.part_of(entry, is_loose))).collect();
        if container == Container::Proc {
            let at = entries.iter().position(|entry| rank_of(entry).is_some());
            if let Some(rank) = at.and_then(|at| entries.get(at)).and_then(rank_of)
                && self.size().is_some_and(|size| rank >= size)
            {
                return None;
            }
            entries.get_mut(..=at.unwrap_or_default()).unwrap_or_default().rotate_right(usize::from(at.is_some()));
        }
        Some(Info { key: resource.key.clone(), flags: resource.flags, value: Value::info_array(entries) })
    }

    /// Whether the job's own description leaves to others what a value of the whole job says.
    fn leaves_open(&self, key: &str) -> bool {
        match key {
            _ if key == keys::JOB_SIZE.name() => self.size().is_none(),
            _ if MAPS.contains(&key) => MAPS.iter().all(|map| self.own(map).is_none()),
            _ => true,
        }
    }

    /// Whether an entry says that the array around it is of another job.
    fn is_other(&self, entry: &Info) -> bool {
        match (entry.key.as_str(), &entry.value) {
            (key, Value::Proc(proc)) if key == keys::PROCID.name() => proc.namespace != *self.namespace,
            (key, value) if key == keys::NSPACE.name() => {
                text_of(value).is_some_and(|name| name != self.namespace.as_str())
            }
            (key, value) if key == keys::JOBID.name() => {
                let id = self.id.get_or_init(|| text_of(self.own(key)?)).as_deref();
                text_of(value).is_some_and(|name| name != id.unwrap_or(self.namespace.as_str()))
            }
            _ => false,
        }
    }

    /// How many processes the job has, by its own word.
    fn size(&self) -> Option<u32> {
        *self.size.get_or_init(|| {
            let told = self.own_info(keys::JOB_SIZE.name()).and_then(|info| u32_of(info).ok());
            let map = || [keys::PROC_MAP.name(), keys::PROC_MAP_RAW.name()].iter().find_map(|key| self.own(key));
            let limits = Limits::default().of_maps();
            told.or_else(|| regex::expand_ranks(map_bytes(map()?)?, &limits).as_ref().ok().map(RankMap::rank_count))
        })
    }

    fn own(&self, key: &str) -> Option<&Value> {
        self.own_info(key).map(|info| &info.value)
    }

    fn own_info(&self, key: &str) -> Option<&Info> {
        self.description.infos().iter().rev().find_map(|info| job_entry(info, key))
    }
}

/// The last entry of this key that is a value of the whole job.
fn job_entry<'i>(info: &'i Info, key: &str) -> Option<&'i Info> {
    let info = unwrapped(info);
    if info.key.as_str() == key {
        return Some(info);
    }
    let infos = match Container::of(info.key.as_str())? {
        Container::Job | Container::Session => Infos::of(info.key.as_str(), &info.value).ok()?,
        _ => return None,
    };
    let is_job = info.key.as_str() == keys::JOB_INFO_ARRAY.name();
    let of_job = infos.iter().filter(|entry| is_job || Container::of(entry.key.as_str()).is_some());
    descend(|| of_job.filter_map(|entry| job_entry(entry, key)).last())
}

/// All jobs that arrays name, by namespace or by number.
fn jobs_in(info: &Info, names: &mut Vec<String>) {
    let info = unwrapped(info);
    let Ok(infos) = Infos::of(info.key.as_str(), &info.value) else { return };
    if Container::of(info.key.as_str()).is_none() {
        return;
    }
    for entry in infos.iter() {
        match &entry.value {
            Value::Proc(proc) if entry.key.as_str() == keys::PROCID.name() => {
                names.push(proc.namespace.as_str().to_owned());
            }
            value if NAMES_OF_JOBS.contains(&entry.key.as_str()) => names.extend(text_of(value)),
            _ => descend(|| jobs_in(entry, names)),
        }
    }
}

/// The rank that an entry of a process array names.
fn rank_of(entry: &Info) -> Option<u32> {
    match &entry.value {
        Value::Proc(proc) if entry.key.as_str() == keys::PROCID.name() => proc.rank.process(),
        Value::ProcRank(rank) if entry.key.as_str() == keys::RANK.name() => rank.process(),
        value if entry.key.as_str() == keys::RANK.name() => value.as_u32().filter(|rank| *rank <= Rank::PROCESS_MAX),
        _ => None,
    }
}

fn nothing_said() -> Info {
    Info::new(crate::types::Key::from_static(keys::JOB_INFO_ARRAY.name()), Value::info_array(Vec::new()))
}
