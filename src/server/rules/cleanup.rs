//! Files and directories that processes want removed at their end (`PMIX_REGISTER_CLEANUP` and related keys).
//!
//! The server keeps the directives of its own user from a job-control request. The rest of the request goes to the
//! host, and so do complete requests of other users, because this server does nothing in their name. A process whose
//! connection breaks off has ended. A process that finalized may go on living: it has ended when the host deregisters
//! it or its job, or when the server ends. Paths registered for a whole job are removed with the job.
//!
//! Paths are counted against the bounds while they are split, before any comparison. Requests for the same process or
//! job share one set of each kind, so time and memory are linear in the paths.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::access::{Action, Object};
use crate::gds::Datastore;
use crate::keys::{self, TypedKey};
use crate::server::dispatch::core::Server;
use crate::server::interface::config::Limits;
use crate::server::interface::io::Output;
use crate::server::interface::requests::Requester;
use crate::types::{Info, Namespace, ProcId, Rank, Status};

/// Files and directories to remove together, in the name of the server's own user.
///
/// Source: PMIx Standard, "Job Management and Reporting" (cleanup attributes of `PMIx_Job_control`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// The server's own user; files of other users stay.
    pub uid: u32,
    /// Files, by absolute path without repeated slashes.
    pub files: BTreeSet<String>,
    /// Directories, by absolute path, grouped by their rules.
    pub directories: BTreeMap<DirectoryRules, BTreeSet<String>>,
    /// Paths to keep, absolute.
    pub ignored: BTreeSet<String>,
    /// More paths to keep: those registered for the whole job of an ended process.
    pub ignored_by_job: Arc<BTreeSet<String>>,
}

/// How a directory is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryRules {
    /// Whether its subdirectories are removed, too, not only its files.
    pub is_recursive: bool,
    /// Whether only empty directories are removed.
    pub only_empty: bool,
    /// Whether the directory itself stays.
    pub leaves_top: bool,
}

impl Cleanup {
    /// Whether a path must stay.
    #[must_use]
    pub fn keeps(&self, path: &str) -> bool {
        self.ignored.contains(path) || self.ignored_by_job.contains(path)
    }

    /// Approximate memory, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let removed = [&self.files].into_iter().chain(self.directories.values());
        let usage = Usage::of(removed.chain([&self.ignored, &*self.ignored_by_job]));
        usage.bytes.saturating_add(usage.paths.saturating_mul(PATH_OVERHEAD_BYTES))
    }
}

/// Registered paths, by the process whose end they wait for; the wildcard rank: the job's end.
#[derive(Debug, Default)]
pub(in crate::server) struct Cleanups {
    jobs: BTreeMap<Namespace, BTreeMap<Rank, Entry>>,
    usage: Usage,
    /// The share of each registering process.
    of_processes: BTreeMap<ProcId, Usage>,
}

/// The part of a request that was about cleanup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Taken {
    Nothing,
    Part,
    Everything,
}

impl<S: Datastore> Server<S> {
    /// Takes the cleanup directives out of a request for job control of the server's own user.
    ///
    /// # Errors
    /// The directives are invalid, concern other processes, contradict, or are too many; nothing was registered.
    pub(super) fn take_cleanup(
        &mut self,
        requester: &Requester,
        targets: &[ProcId],
        directives: &mut Vec<Info>,
    ) -> Result<Taken, Status> {
        let is_path = |info: &Info| PATHS.contains(&info.key.as_str());
        if requester.uid != self.config.tools.own_uid || !directives.iter().any(is_path) {
            return Ok(Taken::Nothing);
        }
        let limits = &self.config.limits;
        if targets.len() > limits.cleanup_paths_max {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let job = ProcId { namespace: requester.proc.namespace.clone(), rank: Rank::Wildcard };
        let targets: BTreeSet<&ProcId> = if targets.is_empty() { [&job].into() } else { targets.iter().collect() };
        let asked = Entry::read(directives, self.cleanups.room(limits, &requester.proc, targets.len()))?;
        if asked.contradicts(&asked) {
            return Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES);
        }
        for target in &targets {
            self.may_clean_up_after(requester, target)?;
            self.cleanups.check(target, &asked)?;
        }
        targets.into_iter().for_each(|target| self.cleanups.insert(target, &asked, &requester.proc));
        directives.retain(|info| !is_path(info) && !RULES.contains(&info.key.as_str()));
        Ok(if directives.is_empty() { Taken::Everything } else { Taken::Part })
    }

    /// Checks the target. The server sees only the end of local processes.
    fn may_clean_up_after(&self, requester: &Requester, target: &ProcId) -> Result<(), Status> {
        let job = self.registry.registered(&target.namespace).ok_or(Status::ERR_NOT_FOUND)?;
        let object = match target.rank {
            Rank::Process(rank) => {
                let client = job.clients.get(&rank).ok_or(Status::ERR_NOT_FOUND)?;
                Object::Process(target, client.credentials.uid)
            }
            // The owner of a job without local processes is unknown.
            Rank::Wildcard if job.clients.is_empty() => return Err(Status::ERR_NOT_FOUND),
            Rank::Wildcard => Object::WholeJob(&target.namespace),
            _ => return Err(Status::ERR_BAD_PARAM),
        };
        self.permit(requester, Action::CleanUp, object)
    }

    /// Removes the paths of an ended process.
    pub(super) fn clean_up_after(&mut self, proc: &ProcId) {
        if let Some(due) = self.cleanups.take(proc, self.config.tools.own_uid) {
            self.outputs.push(Output::Cleanup(due));
        }
    }

    /// Removes the paths of an ended job.
    pub(super) fn clean_up_after_job(&mut self, namespace: &Namespace) {
        if let Some(due) = self.cleanups.take_job(namespace, self.config.tools.own_uid) {
            self.outputs.push(Output::Cleanup(due));
        }
    }

    /// Registered paths that are not due yet, by job. For the end of the server, which ends all its jobs.
    #[must_use]
    pub fn take_cleanups(&mut self) -> Vec<Cleanup> {
        let jobs: Vec<Namespace> = self.cleanups.jobs.keys().cloned().collect();
        let uid = self.config.tools.own_uid;
        jobs.iter().filter_map(|namespace| self.cleanups.take_job(namespace, uid)).collect()
    }
}

impl Cleanups {
    pub(in crate::server) fn len(&self) -> usize {
        self.jobs.len().saturating_add(self.of_processes.len())
    }

    /// The bounds left for each of `target_count` targets of a process's request.
    fn room(&self, limits: &Limits, requester: &ProcId, target_count: usize) -> Usage {
        let all = Usage { paths: limits.cleanup_paths_max, bytes: limits.cleanup_bytes_max };
        let (paths, bytes) = (limits.cleanup_paths_per_process_max, limits.cleanup_bytes_per_process_max);
        let own = self.of_processes.get(requester).copied().unwrap_or_default();
        let (all, own) = (all.without(self.usage), Usage { paths, bytes }.without(own));
        let share = |left: usize| left.checked_div(target_count).unwrap_or(0);
        Usage { paths: share(all.paths.min(own.paths)), bytes: share(all.bytes.min(own.bytes)) }
    }

    /// Whether a request contradicts the directives of its target, of the target's job, or of that job's processes.
    /// Each comparison takes time by the smaller side.
    fn check(&self, target: &ProcId, asked: &Entry) -> Result<(), Status> {
        let ranks = self.jobs.get(&target.namespace);
        let mut others: Box<dyn Iterator<Item = &Entry>> = match (ranks, target.rank) {
            (None, _) => Box::new(std::iter::empty()),
            (Some(ranks), Rank::Wildcard) => Box::new(ranks.values()),
            (Some(ranks), rank) => Box::new([rank, Rank::Wildcard].into_iter().filter_map(|rank| ranks.get(&rank))),
        };
        match others.any(|other| asked.contradicts(other) || other.contradicts(asked)) {
            true => Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES),
            false => Ok(()),
        }
    }

    fn insert(&mut self, target: &ProcId, asked: &Entry, requester: &ProcId) {
        let entry = self.jobs.entry(target.namespace.clone()).or_default().entry(target.rank).or_default();
        let added = entry.merge(asked.clone());
        self.usage = self.usage.with(added);
        for by_process in [&mut entry.by_process, &mut self.of_processes] {
            let usage = by_process.entry(requester.clone()).or_default();
            *usage = usage.with(added);
        }
    }

    /// Returns an entry's share of the bounds.
    fn release(&mut self, entry: &Entry) {
        self.usage = self.usage.without(Usage::of(entry.sets()));
        for (proc, usage) in &entry.by_process {
            let Some(left) = self.of_processes.get_mut(proc) else { continue };
            *left = left.without(*usage);
            if *left == Usage::default() {
                self.of_processes.remove(proc);
            }
        }
    }

    /// The removals at the end of a process. Paths kept for its job stay.
    fn take(&mut self, proc: &ProcId, uid: u32) -> Option<Cleanup> {
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
    fn take_job(&mut self, namespace: &Namespace, uid: u32) -> Option<Cleanup> {
        let mut all = Entry::default();
        for (_, entry) in self.jobs.remove(namespace)? {
            self.release(&entry);
            all.merge(entry);
        }
        all.due(uid, Arc::default())
    }
}

/// The paths of one process or job, or of one request.
#[derive(Clone, Debug, Default)]
struct Entry {
    files: BTreeSet<String>,
    directories: BTreeMap<DirectoryRules, BTreeSet<String>>,
    /// Shared with the removals for processes of the job.
    ignored: Arc<BTreeSet<String>>,
    /// Share of each registering process.
    by_process: BTreeMap<ProcId, Usage>,
}

impl Entry {
    /// Reads all directives of each kind.
    fn read(directives: &[Info], room: Usage) -> Result<Self, Status> {
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

    fn contradicts(&self, other: &Self) -> bool {
        self.removed().any(|removed| !removed.is_disjoint(&other.ignored))
    }

    /// Merges another entry into this one. Returns the usage of the new paths.
    fn merge(&mut self, other: Self) -> Usage {
        let mut added = Usage::default();
        let mut add = |paths: &mut BTreeSet<String>, others: BTreeSet<String>| {
            for path in others {
                let one = Usage { paths: 1, bytes: path.len() };
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
struct Usage {
    paths: usize,
    bytes: usize,
}

impl Usage {
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
fn paths(directives: &[Info], key: TypedKey<str>, left: &mut Usage) -> Result<BTreeSet<String>, Status> {
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
const PATHS: [&str; 3] =
    [keys::REGISTER_CLEANUP.name(), keys::REGISTER_CLEANUP_DIR.name(), keys::CLEANUP_IGNORE.name()];

/// The directives with rules for directories.
const RULES: [&str; 3] =
    [keys::CLEANUP_RECURSIVE.name(), keys::CLEANUP_EMPTY.name(), keys::CLEANUP_LEAVE_TOPDIR.name()];

/// Longest path that the kernel accepts.
const PATH_BYTES_MAX: usize = 4095;

/// Approximate memory of a path in a set besides its text.
const PATH_OVERHEAD_BYTES: usize = 64;
