//! The scheduler's answers to other servers that lack fabric resources for a job, if the host leaves them.
//!
//! An answer may take long for a large job, so it has a thread. Threads are bounded, and each user has a share of them.

use std::sync::Arc;

use super::job_setup::FabricGrants;
use super::loop_messages::LoopSender;
use super::service_desk::ReplyTo;
use super::storage_desk::{Receiver, Threads};
use crate::keys;
use crate::proto::Allocate;
use crate::server::{HostReply, requires_more_than};
use crate::types::codes::alloc_directive::ALLOC_EXTEND;
use crate::types::{AsStatus, Status};

/// Threads for answers.
const THREADS_MAX: usize = 2;

/// Questions that wait for a thread.
const WAITING_MAX: usize = 256;

/// Infos of a question that may be required.
const KNOWN: [&str; 9] = [
    keys::NSPACE.name(),
    keys::ALLOC_FABRIC.name(),
    keys::NODE_MAP.name(),
    keys::PROC_MAP.name(),
    keys::JOB_INFO_ARRAY.name(),
    keys::PROC_INFO_ARRAY.name(),
    keys::USERID.name(),
    keys::GRPID.name(),
    // The client honours it.
    keys::TIMEOUT.name(),
];

/// The service.
pub(super) struct SetupDesk {
    loop_sender: LoopSender,
    grants: Arc<FabricGrants>,
    threads: Arc<Threads>,
}

impl SetupDesk {
    pub(super) fn new(loop_sender: LoopSender, grants: Arc<FabricGrants>) -> Self {
        Self { loop_sender, grants, threads: Threads::new("modex-setup", THREADS_MAX, WAITING_MAX) }
    }

    /// Answers a question of a user's server. Other requests for an allocation are not supported.
    pub(super) fn ask(&self, uid: u32, request: Allocate, reply_to: ReplyTo) {
        let mut receiver = Receiver::new(self.loop_sender.clone(), reply_to);
        let job = FabricGrants::job_of_question(&request.info).filter(|_| request.directive == ALLOC_EXTEND);
        let Some(job) = job.filter(|_| !requires_more_than(&request.info, &KNOWN)) else {
            return receiver.answer(HostReply::Status(Status::ERR_NOT_SUPPORTED));
        };
        let grants = Arc::clone(&self.grants);
        let work = move || {
            let reply = match grants.of_question(uid, &job, &request.info) {
                Ok(info) => HostReply::Infos { status: Status::SUCCESS, info },
                Err(error) => {
                    tracing::info!(namespace = %job, uid, %error, "another server's question for fabric resources is refused");
                    HostReply::Status(error.status())
                }
            };
            receiver.answer(reply);
        };
        self.threads.run(uid, 0, Box::new(work));
    }
}
