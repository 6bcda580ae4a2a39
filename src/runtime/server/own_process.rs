//! Services for the server's own process. No message is made: the host's function runs on the caller's thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam::channel::bounded;
use nix::unistd::{getegid, geteuid};

use super::commands::{Command, CommandSender};
use super::host::{Host, Taker, call_service};
use crate::client::CallError;
use crate::proto::{Reply, Request};
use crate::server::Requester;
use crate::types::{ProcId, Status};

/// The server's own process, as a requester at its host.
pub struct OwnProcess {
    pub(super) host: Arc<dyn Host>,
    pub(super) proc: ProcId,
    pub(super) commands: CommandSender,
}

impl OwnProcess {
    /// Asks the host and waits for its answer.
    ///
    /// # Errors
    /// [`CallError`]: the host's status, or "not supported" for a request that is no service.
    pub fn exchange(self, request: Request) -> Result<Reply, CallError> {
        let (sender, answer) = bounded(1);
        let command = request.command();
        let take = move |reply| {
            // If no thread waits any more, the answer is dropped.
            let _ = sender.send(reply);
        };
        self.ask(request, take);
        // The host's answer is never lost: a dropped responder answers with an error.
        answer.recv().unwrap_or(Err(CallError::Refused { command, status: Status::ERROR }))
    }

    /// Asks the host. The answer goes to `callback`, on the thread of the host's functions. If the server has ended
    /// meanwhile, that thread is gone, and the thread with the answer calls.
    pub fn exchange_with(self, request: Request, callback: impl FnOnce(Result<Reply, CallError>) + Send + 'static) {
        let commands = self.commands.clone();
        self.ask(request, move |reply| {
            if let Err(late) = commands.give(Command::Run(Box::new(move || callback(reply))))
                && let Command::Run(job) = *late
            {
                job();
            }
        });
    }

    fn ask(self, request: Request, take: impl FnOnce(Result<Reply, CallError>) + Send + 'static) {
        let command = request.command();
        let Request::Service(service) = request else {
            return take(Err(CallError::Refused { command, status: Status::ERR_NOT_SUPPORTED }));
        };
        let requester = Requester { proc: self.proc, object: 0, uid: geteuid().as_raw(), gid: getegid().as_raw() };
        let form = service.form();
        let taker = Taker::Caller(Box::new(move |reply| {
            take(match form.reply(reply) {
                Reply::Status(status) if status != Status::SUCCESS => Err(CallError::Refused { command, status }),
                reply => Ok(reply),
            });
        }));
        let service = service.of_server(&requester);
        let host = self.host;
        // A panic fails this one request: its responder is dropped and answers with an error. The panic hook reports it.
        let _ = catch_unwind(AssertUnwindSafe(|| call_service(&*host, requester, service, taker)));
    }
}
