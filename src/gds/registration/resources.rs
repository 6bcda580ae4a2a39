//! Resources: entries that a server adds to the description of every job that they concern.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::keys;
use crate::regex::{self, RankMap};
use crate::types::{Info, Namespace, Rank, Value, descend};

use super::coerce::text_of;
use super::collect::u32_of;
use super::container::{Container, Infos, unwrapped};
use super::context::{Context, DescriptionLimits};
use super::description::{Description, Part};
use super::error::RegisterError;
use super::maps::{MAPS, map_bytes};
use super::parse::check_added;

/// The resources for a job. Left out: resources that name another job, processes outside the job, and a size or maps if
/// the job has its own. A process is named by `PMIX_RANK` or `PMIX_PROCID` anywhere in its array.
///
/// Source: PMIx Standard, chapter on server-specific interfaces, `PMIx_server_register_resources`.
#[must_use]
pub fn resources_for(namespace: &Namespace, description: &Description, resources: &[Info]) -> Vec<Info> {
    let job = Job { namespace, description: Some(description), id: OnceCell::new(), size: OnceCell::new() };
    resources.iter().filter_map(|resource| job.part_of(resource, true)).collect()
}

/// Confirms that `added` can join the `kept` resources in a description. Checked for a job that no resource names, and
/// for each job that `added` names.
///
/// # Errors
/// [`RegisterError`] if an entry cannot be read, contradicts itself or a kept one, or names a job outside an array.
pub fn check_resources(kept: &[Info], added: &[Info]) -> Result<(), RegisterError> {
    if let Some(info) = added.iter().map(unwrapped).find(|info| NAMES_OF_JOBS.contains(&info.key.as_str())) {
        return Err(RegisterError::NamesEveryJob.about(info.key.as_str()));
    }
    let context = Context::new("");
    check_each(kept, added, |job, kept, added| {
        // Removed entries keep their positions, so that errors show those of the caller.
        let own = || added.iter().map(|(at, info)| Part::Info(*at, info));
        check_added(job, &context, own)?;
        match kept {
            [] => Ok(()),
            kept => check_added(job, &context, || kept.iter().map(|(at, info)| Part::Added(*at, info)).chain(own())),
        }
    })
}

/// Calls `check` for a job that no resource names, and for each job named by `added`. Passes the kept and the added
/// entries for that job, with their positions: those about it and those about all jobs.
fn check_each(
    kept: &[Info],
    added: &[Info],
    mut check: impl FnMut(&Namespace, &[(u64, Info)], &[(u64, Info)]) -> Result<(), RegisterError>,
) -> Result<(), RegisterError> {
    let (kept, added) = (Indexed::of(kept), Indexed::of(added));
    let jobs = added.by_name.keys().filter_map(|name| Namespace::new(name.as_str()).ok());
    let mut all = Namespace::new(NOBODY).into_iter().chain(jobs);
    all.try_for_each(|job| check(&job, &kept.of_job(&job), &added.of_job(&job)))
}

/// Resources by the jobs that they name.
struct Indexed<'a> {
    /// Resources with a part for every job.
    of_all: BTreeSet<usize>,
    by_name: BTreeMap<String, BTreeSet<usize>>,
    resources: &'a [Info],
}

impl<'a> Indexed<'a> {
    fn of(resources: &'a [Info]) -> Self {
        let mut indexed = Self { of_all: BTreeSet::new(), by_name: BTreeMap::new(), resources };
        let nobody = Namespace::new(NOBODY);
        for (at, resource) in resources.iter().enumerate() {
            let mut names = Vec::new();
            jobs_in(resource, &mut names);
            if nobody
                .as_ref()
                .is_ok_and(|nobody| names.is_empty() || Job::unknown(nobody).part_of(resource, true).is_some())
            {
                indexed.of_all.insert(at);
            }
            for name in names {
                indexed.by_name.entry(name).or_default().insert(at);
            }
        }
        indexed
    }

    /// Positions of resources that may have a part for a job.
    fn positions(&self, job: &Namespace) -> BTreeSet<usize> {
        let named = self.by_name.get(job.as_str()).into_iter().flatten();
        self.of_all.iter().chain(named).copied().collect()
    }

    /// The resources for a job without a description, with their positions.
    fn of_job(&self, job: &Namespace) -> Vec<(u64, Info)> {
        let known = Job::unknown(job);
        let part = |at: usize| Some((u64::try_from(at).ok()?, known.part_of(self.resources.get(at)?, true)?));
        self.positions(job).into_iter().filter_map(part).collect()
    }
}

/// A name that no job has.
const NOBODY: &str = "\u{1}resources";

/// Keys that name the job of an array outside a registration.
const NAMES_OF_JOBS: [&str; 2] = [keys::NSPACE.name(), keys::JOBID.name()];

/// The job that resources are added to, with its own description.
struct Job<'a> {
    namespace: &'a Namespace,
    description: Option<&'a Description>,
    id: OnceCell<Option<String>>,
    size: OnceCell<Option<u32>>,
}

impl<'a> Job<'a> {
    /// A job without a description.
    fn unknown(namespace: &'a Namespace) -> Self {
        Self { namespace, description: None, id: OnceCell::new(), size: OnceCell::new() }
    }

    /// The part of a resource for this job. `is_loose`: not in a session, application, process or node array.
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

    /// Whether a resource may set this value of the whole job, because the job has no such value.
    fn leaves_open(&self, key: &str) -> bool {
        match key {
            _ if key == keys::JOB_SIZE.name() => self.size().is_none(),
            _ if MAPS.contains(&key) => MAPS.iter().all(|map| self.own(map).is_none()),
            _ => true,
        }
    }

    /// Whether an entry names another job as the subject of its array.
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

    /// Number of processes according to the job's own description.
    fn size(&self) -> Option<u32> {
        *self.size.get_or_init(|| {
            let declared = self.own_info(keys::JOB_SIZE.name()).and_then(|info| u32_of(info).ok());
            let map = || [keys::PROC_MAP.name(), keys::PROC_MAP_RAW.name()].iter().find_map(|key| self.own(key));
            let limits = DescriptionLimits::default().of_maps();
            declared.or_else(|| regex::expand_ranks(map_bytes(map()?)?, &limits).as_ref().ok().map(RankMap::rank_count))
        })
    }

    fn own(&self, key: &str) -> Option<&Value> {
        self.own_info(key).map(|info| &info.value)
    }

    fn own_info(&self, key: &str) -> Option<&Info> {
        self.description?.infos().iter().rev().find_map(|info| job_entry(info, key))
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

/// The rank in an entry of a process array.
pub(super) fn rank_of(entry: &Info) -> Option<u32> {
    match &entry.value {
        Value::Proc(proc) if entry.key.as_str() == keys::PROCID.name() => proc.rank.process(),
        Value::ProcRank(rank) if entry.key.as_str() == keys::RANK.name() => rank.process(),
        value if entry.key.as_str() == keys::RANK.name() => value.as_u32().filter(|rank| *rank <= Rank::PROCESS_MAX),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Key;

    fn of_job(key: &'static str, job: usize) -> Info {
        let name = Info::new(Key::from_static(keys::NSPACE.name()), format!("job{job}"));
        Info::new(Key::from_static(key), Value::info_array(vec![name, Info::new(Key::from_static("a"), 1_u8)]))
    }

    /// Regression: each job was checked twice with the entries of every other job.
    #[test]
    fn a_job_is_checked_with_what_is_about_it_and_what_is_about_all() {
        let count = 100;
        let mut resources: Vec<Info> = (0..count).map(|job| of_job(keys::JOB_INFO_ARRAY.name(), job)).collect();
        resources.insert(7, Info::new(Key::from_static("b"), 1_u8));
        let (mut jobs, mut shown, mut looked_at) = (0, 0, 0);
        let checked = check_each(&resources, &resources, |job, kept, added| {
            jobs += 1;
            shown += kept.len() + added.len();
            looked_at += Indexed::of(&resources).positions(job).len();
            let is_about = |(at, info): &(u64, Info)| {
                *at == 7 || {
                    let mut names = Vec::new();
                    jobs_in(info, &mut names);
                    names == [job.as_str()]
                }
            };
            assert_eq!(kept, added);
            assert_eq!(added.len(), if job.as_str() == NOBODY { 1 } else { 2 });
            assert!(added.iter().all(is_about), "{added:?}");
            Ok(())
        });
        assert_eq!((checked, jobs), (Ok(()), count + 1));
        assert_eq!((shown, looked_at), (2 * (2 * count + 1), 2 * count + 1));
    }
}
