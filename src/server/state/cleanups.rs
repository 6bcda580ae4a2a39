//! Registered paths, by the process or job whose end they wait for.
//!
//! Paths are counted against the bounds while they are split, before any comparison. Requests for the same process or
//! job share one set of each kind, so time and memory are linear in the paths.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::keys::{self, TypedKey};
use crate::server::interface::{Cleanup, DirectoryRules, Limits};
use crate::types::{Info, Namespace, ProcId, Rank, Status};

/// Registered paths, by the process whose end they wait for; the wildcard rank: the job's end.
#[derive(Debug, Default)]
pub(crate) struct Cleanups {
    jobs: BTreeMap<Namespace, BTreeMap<Rank, CleanupRequest>>,
    usage: PathUsage,
    /// The share of each registering process.
    of_processes: BTreeMap<ProcId, PathUsage>,
}

impl Cleanups {
    pub(crate) fn len(&self) -> usize {
        self.jobs.len().saturating_add(self.of_processes.len())
    }

    /// The bounds left for each of `target_count` targets of a process's request.
    pub(crate) fn room(&self, limits: &Limits, requester: &ProcId, target_count: usize) -> PathUsage {
        let all = PathUsage { paths: limits.cleanup_paths_max, bytes: limits.cleanup_bytes_max };
        let (paths, bytes) = (limits.cleanup_paths_per_process_max, limits.cleanup_bytes_per_process_max);
        let own = self.of_processes.get(requester).copied().unwrap_or_default();
        let (all, own) = (all.without(self.usage), PathUsage { paths, bytes }.without(own));
        let share = |left: usize| left.checked_div(target_count).unwrap_or(0);
        PathUsage { paths: share(all.paths.min(own.paths)), bytes: share(all.bytes.min(own.bytes)) }
    }

    /// Whether a request contradicts the directives of its target, of the target's job, or of that job's processes.
    /// Each comparison takes time by the smaller side.
    pub(crate) fn check(&self, target: &ProcId, asked: &CleanupRequest) -> Result<(), Status> {
        let ranks = self.jobs.get(&target.namespace);
        let mut others: Box<dyn Iterator<Item = &CleanupRequest>> = match (ranks, target.rank) {
            (None, _) => Box::new(std::iter::empty()),
            (Some(ranks), Rank::Wildcard) => Box::new(ranks.values()),
            (Some(ranks), rank) => Box::new([rank, Rank::Wildcard].into_iter().filter_map(|rank| ranks.get(&rank))),
        };
        match others.any(|other| asked.contradicts(other) || other.contradicts(asked)) {
            true => Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES),
            false => Ok(()),
        }
    }

    pub(crate) fn insert(&mut self, target: &ProcId, asked: &CleanupRequest, requester: &ProcId) {
        let entry = self.jobs.entry(target.namespace.clone()).or_default().entry(target.rank).or_default();
        let added = entry.merge(asked.clone());
        self.usage = self.usage.with(added);
        for by_process in [&mut entry.by_process, &mut self.of_processes] {
            let usage = by_process.entry(requester.clone()).or_default();
            *usage = usage.with(added);
        }
    }

    /// The removals of all jobs.
    pub(crate) fn take_all(&mut self, uid: u32) -> Vec<Cleanup> {
        let jobs: Vec<Namespace> = self.jobs.keys().cloned().collect();
        jobs.iter().filter_map(|namespace| self.take_job(namespace, uid)).collect()
    }

    /// Returns an entry's share of the bounds.
    fn release(&mut self, entry: &CleanupRequest) {
        self.usage = self.usage.without(PathUsage::of(entry.sets()));
        for (proc, usage) in &entry.by_process {
            let Some(left) = self.of_processes.get_mut(proc) else { continue };
            *left = left.without(*usage);
            if *left == PathUsage::default() {
                self.of_processes.remove(proc);
            }
        }
    }

    /// The removals at the end of a process. Paths kept for its job stay.
    pub(crate) fn take(&mut self, proc: &ProcId, uid: u32) -> Option<Cleanup> {
        let ranks = self.jobs.get_mut(&proc.namespace)?;
        let entry = ranks.remove(&proc.rank)?;
        let job = ranks.get(&Rank::Wildcard).map(|job| Arc::clone(&job.ignored));
        if ranks.is_empty() {
            self.jobs.remove(&proc.namespace);
        }
        self.release(&entry);
        entry.due(uid, job.unwrap_or_default())
    }

    /// The removals at the end of a job, all at once: no request removes paths that another one keeps.
    pub(crate) fn take_job(&mut self, namespace: &Namespace, uid: u32) -> Option<Cleanup> {
        let mut all = CleanupRequest::default();
        for (_, entry) in self.jobs.remove(namespace)? {
            self.release(&entry);
            all.merge(entry);
        }
        all.due(uid, Arc::default())
    }
}

/// The paths of one process or job, or of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct CleanupRequest {
    files: BTreeSet<String>,
    directories: BTreeMap<DirectoryRules, BTreeSet<String>>,
    /// Shared with the removals for processes of the job.
    ignored: Arc<BTreeSet<String>>,
    /// Share of each registering process.
    by_process: BTreeMap<ProcId, PathUsage>,
}

impl CleanupRequest {
    /// Reads all directives of each kind.
    pub(crate) fn read(directives: &[Info], room: PathUsage) -> Result<Self, Status> {
        let mut left = room;
        let rules = DirectoryRules {
            is_recursive: is_said(directives, keys::CLEANUP_RECURSIVE),
            only_empty: is_said(directives, keys::CLEANUP_EMPTY),
            leaves_top: is_said(directives, keys::CLEANUP_LEAVE_TOPDIR),
        };
        let files = paths(directives, keys::REGISTER_CLEANUP, &mut left)?;
        let directory_paths = paths(directives, keys::REGISTER_CLEANUP_DIR, &mut left)?;
        let directories = if directory_paths.is_empty() { BTreeMap::new() } else { [(rules, directory_paths)].into() };
        let ignored = Arc::new(paths(directives, keys::CLEANUP_IGNORE, &mut left)?);
        Ok(Self { files, directories, ignored, by_process: BTreeMap::new() })
    }

    fn removed(&self) -> impl Iterator<Item = &BTreeSet<String>> {
        [&self.files].into_iter().chain(self.directories.values())
    }

    fn sets(&self) -> impl Iterator<Item = &BTreeSet<String>> {
        self.removed().chain([&*self.ignored])
    }

    pub(crate) fn contradicts(&self, other: &Self) -> bool {
        self.removed().any(|removed| !removed.is_disjoint(&other.ignored))
    }

    /// Merges another entry into this one. Returns the usage of the new paths.
    fn merge(&mut self, other: Self) -> PathUsage {
        let mut added = PathUsage::default();
        let mut add = |paths: &mut BTreeSet<String>, others: BTreeSet<String>| {
            for path in others {
                let one = PathUsage { paths: 1, bytes: path.len() };
                if paths.insert(path) {
                    added = added.with(one);
                }
            }
        };
        add(&mut self.files, other.files);
        for (rules, paths) in other.directories {
            add(self.directories.entry(rules).or_default(), paths);
        }
        if !other.ignored.is_empty() {
            add(Arc::make_mut(&mut self.ignored), Arc::unwrap_or_clone(other.ignored));
        }
        added
    }

    /// The removals of this entry; `None`: there is nothing to remove.
    fn due(self, uid: u32, ignored_by_job: Arc<BTreeSet<String>>) -> Option<Cleanup> {
        let is_due = self.removed().any(|removed| !removed.is_empty());
        let Self { files, directories, ignored, .. } = self;
        let ignored = Arc::unwrap_or_clone(ignored);
        is_due.then_some(Cleanup { uid, files, directories, ignored, ignored_by_job })
    }
}

/// Number of paths and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathUsage {
    paths: usize,
    bytes: usize,
}

impl PathUsage {
    fn of<'a>(sets: impl Iterator<Item = &'a BTreeSet<String>>) -> Self {
        let one = |path: &String| Self { paths: 1, bytes: path.len() };
        sets.flatten().map(one).fold(Self::default(), Self::with)
    }

    const fn with(self, other: Self) -> Self {
        Self { paths: self.paths.saturating_add(other.paths), bytes: self.bytes.saturating_add(other.bytes) }
    }

    const fn without(self, other: Self) -> Self {
        Self { paths: self.paths.saturating_sub(other.paths), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    /// Takes one path from the bounds; `None`: they are exhausted.
    fn spend(&mut self, path: &str) -> Option<()> {
        let (paths, bytes) = (self.paths.checked_sub(1)?, self.bytes.checked_sub(path.len())?);
        *self = Self { paths, bytes };
        Some(())
    }
}

/// The paths in all directives of a key; each directive lists at least one.
fn paths(directives: &[Info], key: TypedKey<str>, left: &mut PathUsage) -> Result<BTreeSet<String>, Status> {
    let mut paths = BTreeSet::new();
    for info in directives.iter().filter(|info| info.key.as_str() == key.name()) {
        let list = info.value.as_str().ok_or(Status::ERR_BAD_PARAM)?;
        let mut is_empty = true;
        for path in list.split(',').filter(|path| !path.is_empty()) {
            left.spend(path).ok_or(Status::ERR_OUT_OF_RESOURCE)?;
            paths.insert(plain(path).ok_or(Status::ERR_BAD_PARAM)?);
            is_empty = false;
        }
        if is_empty {
            return Err(Status::ERR_BAD_PARAM);
        }
    }
    Ok(paths)
}

/// A path without repeated slashes. `None` for a relative path, or one with `.` or `..`: a server can't use it.
fn plain(path: &str) -> Option<String> {
    if !path.starts_with('/') || path.len() > PATH_BYTES_MAX {
        return None;
    }
    let mut plain = String::with_capacity(path.len());
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if part == "." || part == ".." {
            return None;
        }
        plain.push('/');
        plain.push_str(part);
    }
    (!plain.is_empty()).then_some(plain)
}

/// Whether a boolean directive is present and not false; the last one counts.
fn is_said(directives: &[Info], key: TypedKey<bool>) -> bool {
    let info = directives.iter().rfind(|info| info.key.as_str() == key.name());
    info.is_some_and(|info| info.value.as_bool().unwrap_or(false))
}

/// The directives that list paths.
pub(crate) const CLEANUP_PATHS: [&str; 3] =
    [keys::REGISTER_CLEANUP.name(), keys::REGISTER_CLEANUP_DIR.name(), keys::CLEANUP_IGNORE.name()];

/// The directives with rules for directories.
pub(crate) const CLEANUP_RULES: [&str; 3] =
    [keys::CLEANUP_RECURSIVE.name(), keys::CLEANUP_EMPTY.name(), keys::CLEANUP_LEAVE_TOPDIR.name()];

/// Longest path that the kernel accepts.
const PATH_BYTES_MAX: usize = 4095;
