//! The scheduler's answers to other servers that lack fabric resources for a job, if the host leaves them.
//!
//! An answer may take long for a large job, so it has a thread. Threads are bounded, and each user has a share of them.

use std::sync::Arc;

use parking_lot::Mutex;

use super::job_setup::{FabricGrants, QueuedSetup, SetupError};
use super::loop_messages::LoopSender;
use super::service_desk::ReplyTo;
use super::storage_desk::{Receiver, Threads};
use super::user_reports::UserReports;
use crate::keys;
use crate::proto::Allocate;
use crate::runtime::shared::clock::Clock;
use crate::server::{HostReply, Requester, requires_more_than};
use crate::types::codes::alloc_directive::ALLOC_EXTEND;
use crate::types::{AsStatus, Info, Namespace, Status};

/// Threads for answers.
const THREADS_MAX: usize = 2;

/// Questions that wait for a thread.
const WAITING_MAX: usize = 256;

/// Infos of a question that may be required.
pub(super) const UNDERSTOOD: [&str; 9] = [
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
    answers: Arc<Answers>,
    threads: Arc<Threads>,
}

/// The resources of the scheduler, and the lines of the log about questions without an answer.
struct Answers {
    grants: Arc<FabricGrants>,
    clock: Clock,
    reports: Mutex<UserReports>,
}

impl SetupDesk {
    pub(super) fn new(loop_sender: LoopSender, clock: Clock, grants: Arc<FabricGrants>) -> Self {
        let answers = Arc::new(Answers { grants, clock, reports: Mutex::default() });
        Self { loop_sender, answers, threads: Threads::new("modex-setup", THREADS_MAX, WAITING_MAX) }
    }

    /// Answers a question of a user's server. Other requests for an allocation are not supported.
    pub(super) fn ask(&self, requester: &Requester, request: Allocate, reply_to: ReplyTo) {
        let mut receiver = Receiver::new(self.loop_sender.clone(), reply_to);
        let job = FabricGrants::job_of_question(&request.info).filter(|_| request.directive == ALLOC_EXTEND);
        let Some(job) = job.filter(|_| !requires_more_than(&request.info, &UNDERSTOOD)) else {
            return receiver.answer(HostReply::Status(Status::ERR_NOT_SUPPORTED));
        };
        let (answers, requester) = (Arc::clone(&self.answers), requester.clone());
        let uid = requester.uid;
        let queued = answers.grants.queue(uid, &job, &request.info);
        let work = move || receiver.answer(answers.to(&requester, &job, &request.info, queued));
        self.threads.run(uid, 0, Box::new(work));
    }
}

impl Answers {
    /// The answer to a question for a job. The requester hears a status, and the log has the reason for a refusal.
    fn to(
        &self,
        requester: &Requester,
        job: &Namespace,
        infos: &[Info],
        queued: Result<QueuedSetup, SetupError>,
    ) -> HostReply {
        let given = queued.and_then(|queued| {
            queued.wait()?;
            Ok(self.grants.of_question(requester.uid, job, infos)?)
        });
        match given {
            Ok(info) => HostReply::Infos { status: Status::SUCCESS, info },
            Err(error) => {
                let (requester, uid) = (&requester.proc, requester.uid);
                if self.reports.lock().is_due(Some(uid), self.clock.now()) {
                    tracing::warn!(namespace = %job, %requester, uid, %error, "a question for fabric resources is refused");
                }
                HostReply::Status(error.status())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_lines::LogLines;
    use crate::topo::inventory::SharedInventories;
    use crate::types::{Key, ProcId, Value};

    /// Regression: the reason was at the level `info`, which most logs leave out.
    #[test]
    fn the_reason_of_a_refusal_is_a_warning_with_the_requester() {
        let grants = FabricGrants::new((None, true), SharedInventories::default(), Default::default());
        let answers = Answers { grants: Arc::new(grants), clock: Clock::start(), reports: Mutex::default() };
        let job = Namespace::new("job").unwrap();
        let requester = ProcId::new(Namespace::new("launcher").unwrap(), 3);
        let requester = Requester { proc: requester, object: 0, uid: 7, gid: 7 };
        let nameless = Value::info_array(Vec::new());
        let wish = Info { flags: 1, ..Info::new(Key::from_static(keys::ALLOC_FABRIC.name()), nameless) };
        let lines = LogLines::default();
        let infos = std::slice::from_ref(&wish);
        let reply = || answers.to(&requester, &job, infos, answers.grants.queue(7, &job, infos));
        tracing::subscriber::with_default(lines.subscriber(), || {
            assert_eq!(reply(), HostReply::Status(Status::ERR_BAD_PARAM));
            (0..1000).for_each(|_| drop(reply()));
        });
        let lines = lines.taken();
        assert!(lines[0].contains("launcher") && lines[0].contains("PMIX_ALLOC_FABRIC_ID"), "{lines:?}");
        assert!(lines.len() < 1000, "anybody may ask");
    }
}
