//! Event handlers in the server's own process.

use std::sync::Arc;

use crossbeam::channel::{Receiver, bounded};

use super::OwnProcess;
use crate::events::is_of_environment;
use crate::runtime::server::loop_messages::{LoopMessage, LoopSender, ResultReceiver};
use crate::runtime::shared::event_error::{EventError, Stopped};
use crate::runtime::shared::events::{EventHub, EventLink, EventLinkId, Job, WantedEvents};
use crate::runtime::shared::handler_calls::{EventAnswer, EventProcess};
use crate::runtime::shared::threads::is_host_thread;
use crate::server::{Capabilities, HostCall, HostData, HostResult, RegisterEvents};
use crate::types::Status;

/// The server, for the handlers in its process. They run on the thread that calls the host.
pub(in crate::runtime::server) struct HostProcess(pub(in crate::runtime::server) LoopSender);

impl EventLink for HostProcess {
    fn defer(&self, job: Job) -> Result<(), Job> {
        match self.0.give(LoopMessage::Run(job)).map_err(|unsent| *unsent) {
            Err(LoopMessage::Run(job)) => Err(job),
            _ => Ok(()),
        }
    }

    fn deregister(&self, codes: Vec<Status>) {
        // The result is not needed.
        let (waiter, _) = bounded(1);
        let _ = self.0.send(LoopMessage::Call(HostCall::DeregisterEvents(codes), ResultReceiver::Waiter(waiter)));
    }

    fn listen(&self, _: bool) {}
}

impl EventProcess for OwnProcess {
    type Asked = Receiver<HostResult<HostData>>;

    fn events(&self) -> &Arc<EventHub> {
        &self.events
    }

    fn event_link_id(&self) -> EventLinkId {
        EventLinkId::FIRST
    }

    fn begin<R>(&self, codes: &[Status], waits: bool, begin: impl FnOnce() -> R) -> Result<R, EventError> {
        // A call to the host for events of its environment needs the thread that would wait here.
        if waits
            && self.capabilities().contains(Capabilities::REGISTER_EVENTS)
            && is_host_thread()
            && codes.iter().any(|code| is_of_environment(*code))
        {
            return Err(EventError::WouldBlock);
        }
        Ok(begin())
    }

    fn ask(&self, wanted: WantedEvents) -> Result<Option<Self::Asked>, EventError> {
        let (waiter, result) = bounded(1);
        self.loop_sender
            .send(LoopMessage::Call(call_of(wanted), ResultReceiver::Waiter(waiter)))
            .map_err(|_| Stopped)?;
        Ok(Some(result))
    }

    fn wait(&self, asked: Self::Asked) -> Result<(), EventError> {
        answer_of(asked.recv().map_err(|_| Stopped)?.read())
    }

    fn ask_with(&self, wanted: WantedEvents, answer: EventAnswer) -> Result<(), EventError> {
        let callback = Box::new(|result| answer(answer_of(result)));
        let call = LoopMessage::Call(call_of(wanted), ResultReceiver::Callback(callback));
        Ok(self.loop_sender.send(call).map_err(|_| Stopped)?)
    }

    fn defer(&self, job: Job) -> Result<(), EventError> {
        Ok(self.run(job)?)
    }
}

fn call_of((codes, directives): WantedEvents) -> HostCall {
    HostCall::RegisterEvents(RegisterEvents { codes, directives })
}

fn answer_of(result: HostResult) -> Result<(), EventError> {
    match result {
        HostResult::Status(Status::SUCCESS) | HostResult::Entries(_) | HostResult::Answers(..) => Ok(()),
        HostResult::Status(status) | HostResult::Failed { status, .. } => Err(EventError::Refused(status)),
    }
}

/// Servers count their handlers from 1, as C programs expect.
pub(in crate::runtime::server) const FIRST_HANDLER: usize = 1;
