//! Files and directories that processes want removed at their end (`PMIX_REGISTER_CLEANUP` and related keys).
//!
//! The server keeps the directives of its own user from a job-control request. The rest of the request goes to the
//! host, and so do complete requests of other users, because this server does nothing in their name. A process whose
//! connection breaks off has ended. A process that finalized may go on living: it has ended when the host deregisters
//! it or its job, or when the server ends. Paths registered for a whole job are removed with the job.

use std::collections::BTreeSet;

use super::access::{Action, Object};
use crate::gds::Datastore;
use crate::server::interface::{Cleanup, Output, Requester};
use crate::server::state::{CLEANUP_PATHS, CLEANUP_RULES, CleanupRequest, ServerCore};
use crate::types::{Info, Namespace, ProcId, Rank, Status};

/// The part of a request that was about cleanup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum CleanupPart {
    Nothing,
    Part,
    Everything,
}

impl<S: Datastore> ServerCore<S> {
    /// Takes the cleanup directives out of a request for job control of the server's own user.
    ///
    /// # Errors
    /// The directives are invalid, concern other processes, contradict, or are too many; nothing was registered.
    pub(super) fn take_cleanup(
        &mut self,
        requester: &Requester,
        targets: &[ProcId],
        directives: &mut Vec<Info>,
    ) -> Result<CleanupPart, Status> {
        let is_path = |info: &Info| CLEANUP_PATHS.contains(&info.key.as_str());
        if requester.uid != self.config.tools.own_uid || !directives.iter().any(is_path) {
            return Ok(CleanupPart::Nothing);
        }
        let limits = &self.config.limits;
        if targets.len() > limits.cleanup_paths_max {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let job = ProcId { namespace: requester.proc.namespace.clone(), rank: Rank::Wildcard };
        let targets: BTreeSet<&ProcId> = if targets.is_empty() { [&job].into() } else { targets.iter().collect() };
        let asked = CleanupRequest::read(directives, self.cleanups.room(limits, &requester.proc, targets.len()))?;
        if asked.contradicts(&asked) {
            return Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES);
        }
        for target in &targets {
            self.may_clean_up_after(requester, target)?;
            self.cleanups.check(target, &asked)?;
        }
        targets.into_iter().for_each(|target| self.cleanups.insert(target, &asked, &requester.proc));
        directives.retain(|info| !is_path(info) && !CLEANUP_RULES.contains(&info.key.as_str()));
        Ok(if directives.is_empty() { CleanupPart::Everything } else { CleanupPart::Part })
    }

    /// Checks the target. The server sees only the end of local processes.
    fn may_clean_up_after(&self, requester: &Requester, target: &ProcId) -> Result<(), Status> {
        let job = self.registry.registered(&target.namespace).ok_or(Status::ERR_NOT_FOUND)?;
        let object = match target.rank {
            Rank::Process(rank) => {
                let client = job.clients().get(&rank).ok_or(Status::ERR_NOT_FOUND)?;
                Object::Process(target, client.credentials().uid)
            }
            // The owner of a job without local processes is unknown.
            Rank::Wildcard if job.clients().is_empty() => return Err(Status::ERR_NOT_FOUND),
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
        self.cleanups.take_all(self.config.tools.own_uid)
    }
}
