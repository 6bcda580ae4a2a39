//! Proofs of identity by another service: credentials of munge.
//!
//! This library does not call munge itself: its user passes in a [`Prover`], as the C library does, which loads
//! libmunge. A hanging service must not stop the server's loop, so a separate thread checks the proofs one by one. A
//! peer waits for its proof no longer than the limit of its introduction.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{Sender, TrySendError, bounded};

use super::loop_messages::{LoopMessage, LoopSender};
use crate::proto::handshake::Ids;
use crate::runtime::shared::clock::Clock;
use crate::runtime::shared::prover::{ProofError, Prover};
use crate::runtime::shared::threads::spawn;
use crate::server::PeerId;
use crate::types::Time;

/// The thread that checks proofs.
#[derive(Debug)]
pub(super) struct Proofs {
    jobs: Sender<Job>,
    clock: Clock,
}

#[derive(Debug)]
struct Job {
    peer: PeerId,
    credential: Vec<u8>,
    /// The end of the peer's patience.
    deadline: Time,
}

impl Proofs {
    /// Starts the thread, which first proves its own process. So a server never offers a service that does not work.
    pub(super) fn start(
        prover: Arc<dyn Prover>,
        loop_sender: LoopSender,
        clock: Clock,
        time_max: Duration,
    ) -> Result<Self, ProofError> {
        let (jobs, receiver) = bounded::<Job>(WAITING_MAX);
        let (trial, tried) = bounded(1);
        let body = move || {
            let outcome = try_out(&*prover);
            let works = outcome.is_ok();
            if trial.send(outcome).is_err() || !works {
                return;
            }
            for Job { peer, credential, deadline } in receiver {
                if clock.now() < deadline {
                    // A panic fails this one proof and leaves the thread running.
                    let checked = catch_unwind(AssertUnwindSafe(|| prover.check(&credential)));
                    let proven = checked.unwrap_or(Err(ProofError::Panicked)).map(|(uid, gid)| Ids { uid, gid });
                    // A server that has ended needs no result.
                    let _ = loop_sender.send(LoopMessage::Proven(peer, proven));
                }
            }
        };
        spawn("modex-proofs", body).map_err(|error| ProofError::Thread(error.kind()))?;
        tried.recv_timeout(time_max).unwrap_or(Err(ProofError::TimedOut(time_max)))?;
        Ok(Self { jobs, clock })
    }

    /// Queues the check of a credential; the result is a message to the loop.
    pub(super) fn check(&self, peer: PeerId, credential: Vec<u8>, time_max: Duration) -> Result<(), ProofError> {
        let job = Job { peer, credential, deadline: self.clock.now() + time_max };
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => ProofError::Busy(WAITING_MAX),
            TrySendError::Disconnected(_) => ProofError::Thread(io::ErrorKind::BrokenPipe),
        })
    }
}

fn try_out(prover: &dyn Prover) -> Result<(), ProofError> {
    let (uid, gid) = prover.check(&prover.credential()?)?;
    let is_own = (uid, gid) == (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    if is_own { Ok(()) } else { Err(ProofError::OtherUser { uid, gid }) }
}

/// Credentials that may wait; each is no larger than a connect message.
const WAITING_MAX: usize = 512;
/// How long the trial at a server's start may take.
pub(super) const TRIAL_TIME_MAX: Duration = Duration::from_secs(5);
