//! Event handlers of a client.

use std::io;
use std::sync::{Arc, Weak};

use super::Session;
use crate::client::{Call, CallError, CallId};
use crate::events::{Event, HandlerDecision};
use crate::keys;
use crate::proto::{Command, GROUP_VERDICT, Group, Notify, RegisterEvents, Request};
use crate::runtime::client::link::Link;
use crate::runtime::client::results::CallResult;
use crate::runtime::shared::event_error::EventError;
use crate::runtime::shared::events::{EventHub, EventLink, EventLinkId, Job, WantedEvents};
use crate::runtime::shared::handler_calls::{EventAnswer, EventProcess};
use crate::types::codes::range;
use crate::types::{Info, Key, Status, Value};

/// The link of the handlers. It outlives them, except while the session is dropped.
struct ClientEventLink {
    link: Weak<Link>,
    /// Whether the server is one of ours, which wants the decisions of handlers.
    is_ours: bool,
}

/// The handlers of the process, and the number of a client among their links.
pub(super) struct Handlers {
    pub(super) hub: Arc<EventHub>,
    pub(super) link_id: EventLinkId,
}

impl EventLink for ClientEventLink {
    fn defer(&self, job: Job) -> Result<(), Job> {
        let Some(link) = self.link.upgrade() else { return Err(job) };
        link.defer(job);
        Ok(())
    }

    fn deregister(&self, codes: Vec<Status>) {
        if let Some(link) = self.link.upgrade() {
            // This request has no reply.
            link.abandon(link.start(Call::Exchange(Request::DeregisterEvents(codes))));
        }
    }

    fn listen(&self, is_listening: bool) {
        if let Some(link) = self.link.upgrade() {
            link.listen(is_listening);
        }
    }

    fn decided(&self, decision: &HandlerDecision) {
        if let Some(link) = self.link.upgrade().filter(|_| self.is_ours)
            && let Some(verdict) = verdict(decision)
        {
            // The reply is not needed.
            link.abandon(link.start(Call::Exchange(verdict)));
        }
    }
}

/// The decision of a member's handlers after the end of another member: to give the group up, to lead it, or neither.
fn verdict(decision: &HandlerDecision) -> Option<Request> {
    let HandlerDecision { event, results } = decision;
    let find = |key: &str| event.info.iter().find(|info| info.key.as_str() == key);
    let Some(Value::String(id)) = find(keys::GROUP_ID.name()).map(|info| &info.value) else { return None };
    let is_abort = |info: &Info| info.value == Value::Status(Status::GROUP_CONSTRUCT_ABORT.to_raw());
    let leads = |info: &Info| info.key.as_str() == keys::GROUP_LEADER.name() && info.value.as_bool().unwrap_or(true);
    let verdict = match event.status {
        _ if results.iter().any(is_abort) => Status::GROUP_CONSTRUCT_ABORT,
        Status::GROUP_LEADER_FAILED if results.iter().any(leads) => Status::GROUP_LEADER_SELECTED,
        _ => Status::SUCCESS,
    };
    let verdict = Info::new(Key::from_static(GROUP_VERDICT), Value::Status(verdict.to_raw()));
    let directives = [verdict].into_iter().chain(find(keys::EVENT_AFFECTED_PROC.name()).cloned()).collect();
    let command = Command::GroupInvite.to_raw();
    Some(Request::GroupOther(Group { command, id: Some(id.clone()), procs: Vec::new(), directives }))
}

impl EventProcess for Session {
    type Asked = CallId;

    fn events(&self) -> &Arc<EventHub> {
        &self.handlers().hub
    }

    fn event_link_id(&self) -> EventLinkId {
        self.handlers().link_id
    }

    fn begin<R>(&self, _: &[Status], _: bool, begin: impl FnOnce() -> R) -> Result<R, EventError> {
        self.progress.begin(&self.link, |_| begin()).map_err(|error| EventError::Thread(error.kind()))
    }

    fn ask(&self, wanted: WantedEvents) -> Result<Option<Self::Asked>, EventError> {
        Ok((!self.is_alone()).then(|| self.link.start(call_of(wanted))))
    }

    fn wait(&self, asked: Self::Asked) -> Result<(), EventError> {
        answer_of(self.link.wait(asked))
    }

    fn ask_with(&self, wanted: WantedEvents, answer: EventAnswer) -> Result<(), EventError> {
        match self.is_alone() {
            true => self.link.defer(|| answer(Ok(()))),
            false => {
                self.link.start_with(call_of(wanted), Box::new(|result| answer(answer_of(result))));
            }
        }
        Ok(())
    }

    fn defer(&self, job: Job) -> Result<(), EventError> {
        self.link.defer(job);
        Ok(())
    }
}

impl Session {
    /// Makes the handlers of another session those of this one, too. Both are sessions of this process, and each is
    /// closed on its own. Handlers run on the thread of any of them, one at a time.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn share_handlers(&self, other: &Self) -> io::Result<()> {
        let hub = other.events();
        self.handlers.get_or_init(|| {
            let link_id = hub.add_link(self.proc().clone(), self.event_link());
            self.take_in(hub, link_id)
        });
        [other, self].into_iter().try_for_each(|session| session.progress.begin(&session.link, |_| ()))
    }

    /// The handlers; without others' they are its own.
    fn handlers(&self) -> &Handlers {
        self.handlers.get_or_init(|| {
            let hub = EventHub::new(self.proc().clone(), FIRST_HANDLER, self.link.clock(), self.event_link());
            self.take_in(&hub, EventLinkId::FIRST)
        })
    }

    fn event_link(&self) -> Box<ClientEventLink> {
        Box::new(ClientEventLink { link: Arc::downgrade(&self.link), is_ours: self.peer_profile().is_ours })
    }

    /// Lets events from the server go to these handlers.
    fn take_in(&self, hub: &Arc<EventHub>, link_id: EventLinkId) -> Handlers {
        self.link.with(|state| state.set_events(Arc::downgrade(hub), self.server().clone()));
        Handlers { hub: Arc::clone(hub), link_id }
    }

    /// Sends an event to the processes in its range. This process's handlers are called on the progress thread. If a
    /// required info is for the host, that is after its answer.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn notify_event(&self, event: Event) -> Result<(), CallError> {
        match self.share(event) {
            (Some(notify), held) => {
                self.link.call(Call::Exchange(notify))?;
                held.into_iter().for_each(|event| self.events().raise(event));
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// As [`Session::notify_event`]; `done` runs on the progress thread.
    ///
    /// # Errors
    /// [`EventError::Thread`]: nothing was sent, and `done` will not run.
    pub fn notify_event_with(
        &self,
        event: Event,
        done: impl FnOnce(Result<(), CallError>) + Send + 'static,
    ) -> Result<(), EventError> {
        let begun = self.progress.begin(&self.link, |link| match self.share(event) {
            (Some(notify), held) => {
                let events = Arc::clone(self.events());
                let answered = move |result: CallResult| {
                    held.into_iter().filter(|_| result.is_ok()).for_each(|event| events.raise(event));
                    done(result.map(drop));
                };
                link.start_with(Call::Exchange(notify), Box::new(answered));
            }
            (None, _) => link.defer(|| done(Ok(()))),
        });
        begun.map_err(|error| EventError::Thread(error.kind()))
    }

    /// Calls this process's handlers on this thread, and sends nothing.
    pub fn deliver_locally(&self, event: Event) {
        self.events().deliver_here(event);
    }

    /// Raises an event for this process's handlers. Returns the request for other processes. If the host may refuse the
    /// event, it is returned, too, to be raised after the answer.
    fn share(&self, event: Event) -> (Option<Request>, Option<Event>) {
        let Event { status, range, ref info, .. } = event;
        let notify = (range != range::RANGE_PROC_LOCAL && !self.is_alone())
            .then(|| Request::Notify(Notify { status, range, info: info.clone() }));
        let is_valid = event.has_valid_range();
        if !is_valid || (notify.is_some() && !event.is_meant_for(self.proc())) {
            return (notify, None);
        }
        if notify.is_some() && event.needs_a_host() {
            return (notify, Some(event));
        }
        self.events().raise(event);
        (notify, None)
    }
}

fn call_of((codes, directives): WantedEvents) -> Call {
    Call::Exchange(Request::RegisterEvents(RegisterEvents { codes, directives }))
}

fn answer_of(result: CallResult) -> Result<(), EventError> {
    Ok(result.map(drop)?)
}

/// Clients count their handlers from 0.
const FIRST_HANDLER: usize = 0;
