//! What processes want removed from the file system when they end (`PMIX_REGISTER_CLEANUP` and its kin).
//!
//! The directives are taken out of a job-control request and kept here; what remains of the request goes to the host. A
//! process that breaks off has ended. One that finalized may go on living: it has ended when the host deregisters it, its
//! job, or the server. What was registered for a whole job is removed with the job.

use std::collections::BTreeMap;

use super::core::Server;
use super::directives::{find, flag};
use super::io::{Credentials, Output};
use super::requests::Requester;
use crate::gds::Publish;
use crate::keys::{self, TypedKey};
use crate::types::{Info, Namespace, ProcId, Rank, Status};

/// Files and directories to be removed with the rights of one user.
///
/// Source: PMIx Standard, "Job Management and Reporting" (cleanup attributes of `PMIx_Job_control`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleanup {
    /// In whose name; nothing that belongs to others is touched.
    pub owner: Credentials,
    /// Files, by absolute path.
    pub files: Vec<String>,
    /// Directories, by absolute path.
    pub directories: Vec<String>,
    /// What is to stay, by absolute path.
    pub ignored: Vec<String>,
    /// Whether directories are removed with all that they hold, not only with their files.
    pub is_recursive: bool,
    /// Whether only directories that hold nothing are removed.
    pub only_empty: bool,
    /// Whether the directories themselves stay.
    pub leaves_top: bool,
}

/// What is registered, by the process it waits for; the wildcard rank: by job.
#[derive(Debug, Default)]
pub(super) struct Cleanups {
    registered: BTreeMap<ProcId, Vec<Cleanup>>,
    path_count: usize,
}

impl<S: Publish> Server<S> {
    /// Takes the cleanup directives out of a request for job control.
    ///
    /// # Errors
    /// They make no sense, concern others, or are too many; nothing was registered.
    pub(super) fn take_cleanup(
        &mut self,
        requester: &Requester,
        targets: &[ProcId],
        directives: &mut Vec<Info>,
    ) -> Result<Taken, Status> {
        let owner = Credentials { uid: requester.uid, gid: requester.gid };
        let Some(cleanup) = Cleanup::read(owner, directives)? else { return Ok(Taken::Nothing) };
        let job = || ProcId { namespace: requester.proc.namespace.clone(), rank: Rank::Wildcard };
        let waits_for = if targets.is_empty() { vec![job()] } else { targets.to_vec() };
        for target in &waits_for {
            self.may_clean_up_after(target, owner)?;
            self.cleanups.check(target, &cleanup)?;
        }
        let path_count = cleanup.path_count().saturating_mul(waits_for.len());
        if self.cleanups.path_count.saturating_add(path_count) > self.config.limits.cleanup_paths_max {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        directives.retain(|info| !DIRECTIVES.contains(&info.key.as_str()));
        for target in waits_for {
            self.cleanups.registered.entry(target).or_default().push(cleanup.clone());
        }
        self.cleanups.path_count = self.cleanups.path_count.saturating_add(path_count);
        Ok(if directives.is_empty() { Taken::Everything } else { Taken::Part })
    }

    /// Only the end of local processes is seen here, and only that of the same user's is anybody's business.
    fn may_clean_up_after(&self, target: &ProcId, owner: Credentials) -> Result<(), Status> {
        let job = self.registry.registered(&target.namespace).ok_or(Status::ERR_NOT_FOUND)?;
        let mut clients = match target.rank {
            Rank::Process(rank) => vec![job.clients.get(&rank).ok_or(Status::ERR_NOT_FOUND)?].into_iter(),
            Rank::Wildcard => job.clients.values().collect::<Vec<_>>().into_iter(),
            _ => return Err(Status::ERR_BAD_PARAM),
        };
        let is_own = clients.all(|client| client.credentials.uid == owner.uid);
        if is_own { Ok(()) } else { Err(Status::ERR_NO_PERMISSIONS) }
    }

    /// A process has ended.
    pub(super) fn clean_up_after(&mut self, proc: &ProcId) {
        for cleanup in self.cleanups.take(|target| target == proc) {
            self.outputs.push(Output::Cleanup(cleanup));
        }
    }

    /// A job is over.
    pub(super) fn clean_up_after_job(&mut self, namespace: &Namespace) {
        for cleanup in self.cleanups.take(|target| target.namespace == *namespace) {
            self.outputs.push(Output::Cleanup(cleanup));
        }
    }

    /// What is registered and not due yet, when the server ends and with it all of its jobs.
    #[must_use]
    pub fn take_cleanups(&mut self) -> Vec<Cleanup> {
        self.cleanups.take(|_| true)
    }
}

/// What of a request was about cleanup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Nothing,
    Part,
    Everything,
}

impl Cleanup {
    /// Reads the directives; `None`: nothing is to be removed.
    fn read(owner: Credentials, directives: &[Info]) -> Result<Option<Self>, Status> {
        let cleanup = Self {
            owner,
            files: paths(directives, keys::REGISTER_CLEANUP)?,
            directories: paths(directives, keys::REGISTER_CLEANUP_DIR)?,
            ignored: paths(directives, keys::CLEANUP_IGNORE)?,
            is_recursive: flag(directives, keys::CLEANUP_RECURSIVE),
            only_empty: flag(directives, keys::CLEANUP_EMPTY),
            leaves_top: flag(directives, keys::CLEANUP_LEAVE_TOPDIR),
        };
        let is_asked_for = !cleanup.files.is_empty() || !cleanup.directories.is_empty() || !cleanup.ignored.is_empty();
        Ok(is_asked_for.then_some(cleanup))
    }

    fn removed(&self) -> impl Iterator<Item = &String> {
        self.files.iter().chain(&self.directories)
    }

    fn path_count(&self) -> usize {
        self.files.len().saturating_add(self.directories.len()).saturating_add(self.ignored.len())
    }

    fn contradicts(&self, other: &Self) -> bool {
        self.removed().any(|path| other.ignored.contains(path))
    }
}

impl Cleanups {
    /// Whether it contradicts itself or what is registered.
    fn check(&self, target: &ProcId, new: &Cleanup) -> Result<(), Status> {
        let mut others = self.registered.get(target).into_iter().flatten().chain([new]);
        match others.any(|other| new.contradicts(other) || other.contradicts(new)) {
            true => Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES),
            false => Ok(()),
        }
    }

    /// What is to be done for these. What one request wants to keep, no other removes.
    fn take(&mut self, is_over: impl Fn(&ProcId) -> bool) -> Vec<Cleanup> {
        let mut due = Vec::new();
        for (_, mut cleanups) in self.registered.extract_if(.., |target, _| is_over(target)) {
            let ignored: Vec<String> = cleanups.iter().flat_map(|cleanup| cleanup.ignored.iter().cloned()).collect();
            cleanups.iter_mut().for_each(|cleanup| cleanup.ignored.clone_from(&ignored));
            due.extend(cleanups.into_iter().filter(|cleanup| cleanup.removed().next().is_some()));
        }
        let count = |cleanups: &Vec<Cleanup>| cleanups.iter().map(Cleanup::path_count).fold(0, usize::saturating_add);
        self.path_count = self.registered.values().map(count).fold(0, usize::saturating_add);
        due
    }
}

/// The paths that a directive lists. One that does not lead from the root down means nothing to a server.
fn paths(directives: &[Info], key: TypedKey<str>) -> Result<Vec<String>, Status> {
    let Some(info) = find(directives, key) else { return Ok(Vec::new()) };
    let list = info.value.as_str().ok_or(Status::ERR_BAD_PARAM)?;
    let path = |path: &str| {
        let path = path.trim_end_matches('/');
        let is_plain = path.starts_with('/') && !path.split('/').any(|part| part == ".." || part == ".");
        if is_plain && path.len() <= PATH_BYTES_MAX { Ok(path.to_owned()) } else { Err(Status::ERR_BAD_PARAM) }
    };
    list.split(',').filter(|path| !path.is_empty()).map(path).collect()
}

/// The directives that are about cleanup.
const DIRECTIVES: [&str; 6] = [
    keys::REGISTER_CLEANUP.name(),
    keys::REGISTER_CLEANUP_DIR.name(),
    keys::CLEANUP_IGNORE.name(),
    keys::CLEANUP_RECURSIVE.name(),
    keys::CLEANUP_EMPTY.name(),
    keys::CLEANUP_LEAVE_TOPDIR.name(),
];

/// The kernel takes no longer ones.
const PATH_BYTES_MAX: usize = 4095;
