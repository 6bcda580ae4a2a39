//! A process's event handlers: keeps them, calls them, and knows nothing of where events come from.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::clock::Clock;
use crate::events::{
    CallToken, DEFAULT_HANDLER, Decision, Dispatcher, Event, HandlerCall, Registration, RegistrationError,
};
use crate::types::{Info, ProcId, Status};

/// What a process does about an event.
pub type Handler = Arc<dyn Fn(EventCall) + Send + Sync>;

/// One call of an event handler.
///
/// The handlers after it in the chain wait until the call is completed: with [`EventCall::complete`], from inside the
/// handler, later, or from another thread. A call that is dropped was one that did nothing
/// ([`Status::EVENT_NO_ACTION_TAKEN`]).
///
/// Source: PMIx Standard, "Event Notification" (`pmix_notification_fn_t`).
#[derive(Debug)]
pub struct EventCall {
    /// The registration that is called.
    pub handler: usize,
    /// What happened.
    pub status: Status,
    /// To or by whom; `None`: the host. The C interface shows an empty namespace and the undefined rank.
    pub source: Option<ProcId>,
    /// Details, then the handler's own name and object as given at its registration.
    pub info: Vec<Info>,
    /// What the handlers before this one said: for each of them its status under its name (`pmix.modex.status` for one
    /// without a name), then its results.
    pub results: Vec<Info>,
    /// The duty to say that the call is over.
    pub completion: Completion,
}

/// The duty to complete one call of an event handler. Spent exactly once; dropping it means that nothing was done.
#[must_use = "the handlers after this one wait for the completion"]
pub struct Completion {
    hub: Weak<EventHub>,
    token: Option<CallToken>,
}

impl EventCall {
    /// The handler is done. `status` [`Status::EVENT_ACTION_COMPLETE`] ends the chain; `results` go to the handlers
    /// after it.
    pub fn complete(self, status: Status, results: Vec<Info>) {
        self.completion.complete(status, results);
    }
}

impl Completion {
    /// As [`EventCall::complete`].
    pub fn complete(mut self, status: Status, results: Vec<Info>) {
        self.spend(status, results);
    }

    fn spend(&mut self, status: Status, results: Vec<Info>) {
        if let Some(token) = self.token.take()
            && let Some(hub) = self.hub.upgrade()
        {
            hub.complete(token, status, results);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.spend(Status::EVENT_NO_ACTION_TAKEN, Vec::new());
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Completion").field(&self.token).finish()
    }
}

/// Something to run on the thread of the handlers.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// What the handlers of a process need of the rest of it. The functions are called with the hub's lock held: they queue
/// something and return.
pub(super) trait Outside: Send + Sync {
    /// Runs something on the thread of the handlers, after what was given before.
    ///
    /// # Errors
    /// The job: nothing will run there any more.
    fn defer(&self, job: Job) -> Result<(), Job>;
    /// Nobody in this process wants these any more.
    fn deregister(&self, codes: Vec<Status>);
    /// Whether there are handlers.
    fn listen(&self, is_listening: bool);
    /// The handlers have decided about an event that asks them to.
    fn decided(&self, _: &Decision) {}
}

/// The handlers of a process, and the calls under way.
pub(crate) struct EventHub {
    state: Mutex<HubState>,
    /// Announces that a handler has returned.
    returned: Condvar,
    outside: Box<dyn Outside>,
    clock: Clock,
}

struct HubState {
    dispatcher: Dispatcher<Handler>,
    /// What the server knows to be wanted; default handlers by their marker.
    confirmed: BTreeSet<Status>,
    /// Handlers that run at the moment.
    running: Vec<(usize, ThreadId)>,
    /// What waits for handlers to return.
    waiting: Vec<(usize, Job)>,
    /// The thread of the handlers makes calls and will look for more.
    is_pumping: bool,
}

/// A registration under way.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) id: usize,
    needed: Vec<Status>,
    upward: Vec<Info>,
}

impl Begun {
    /// What the server must be told before the registration is complete: codes (none: default handlers) and directives.
    /// `None`: it knows.
    pub(super) fn request(&self) -> Option<(Vec<Status>, Vec<Info>)> {
        let is_default = self.needed == [DEFAULT_HANDLER];
        let codes = if is_default { Vec::new() } else { self.needed.clone() };
        (!self.needed.is_empty()).then(|| (codes, self.upward.clone()))
    }
}

impl EventHub {
    /// No handlers yet; the first one gets the number `first_id`.
    pub(super) fn new(own: ProcId, first_id: usize, clock: Clock, outside: Box<dyn Outside>) -> Arc<Self> {
        let state = HubState {
            dispatcher: Dispatcher::new(own, first_id),
            confirmed: BTreeSet::new(),
            running: Vec::new(),
            waiting: Vec::new(),
            is_pumping: false,
        };
        Arc::new(Self { state: Mutex::new(state), returned: Condvar::new(), outside, clock })
    }

    /// Takes a handler in and lets `ask` tell the server. That happens under the lock, so that the server hears of
    /// registrations and their ends in the order in which they were made.
    pub(super) fn begin<R>(
        &self,
        registration: Registration,
        handler: Handler,
        ask: impl FnOnce(&Begun) -> R,
    ) -> Result<(Begun, R), RegistrationError> {
        let mut state = self.state.lock();
        let upward = registration.upward().to_vec();
        let needed = state.unconfirmed(registration.codes());
        let id = state.dispatcher.insert(registration, handler)?;
        if state.dispatcher.handler_count() == 1 {
            self.outside.listen(true);
        }
        let begun = Begun { id, needed, upward };
        let asked = ask(&begun);
        Ok((begun, asked))
    }

    /// The server has answered, or need not be asked. The number is the registration's.
    pub(super) fn finish<E>(self: &Arc<Self>, begun: Begun, answer: Result<(), E>) -> Result<usize, E> {
        let id = self.confirm(begun, answer)?;
        self.activate(id);
        Ok(id)
    }

    /// As [`EventHub::finish`]; `done` learns of it before the first event comes. On the thread of the handlers.
    pub(super) fn finish_with<E>(
        self: &Arc<Self>,
        begun: Begun,
        answer: Result<(), E>,
        done: impl FnOnce(Result<usize, E>),
    ) {
        let confirmed = self.confirm(begun, answer);
        // Who learns of the registration may raise an event at once, from another thread. What the server has kept is for
        // the thread of the handlers, which is this one: it comes after `done`.
        if let Ok(id) = &confirmed {
            self.activate(*id);
        }
        done(confirmed);
    }

    fn confirm<E>(&self, begun: Begun, answer: Result<(), E>) -> Result<usize, E> {
        let Begun { id, needed, .. } = begun;
        match answer {
            Ok(()) => {
                let mut state = self.state.lock();
                // Unless its handler is gone already, and the server has been told so.
                let unwanted = state.dispatcher.unwanted(&needed);
                state.confirmed.extend(needed.into_iter().filter(|code| !unwanted.contains(code)));
                Ok(id)
            }
            Err(error) => {
                self.remove(id);
                Err(error)
            }
        }
    }

    fn activate(self: &Arc<Self>, id: usize) {
        let mut state = self.state.lock();
        state.dispatcher.activate(self.clock.now(), id);
        self.schedule(&state);
    }

    /// Ends a registration; `false`: there is none. Calls of it may still be under way.
    pub(super) fn remove(&self, id: usize) -> bool {
        let mut state = self.state.lock();
        let Some((codes, handler)) = state.dispatcher.remove(id) else { return false };
        self.settle(&mut state, &codes);
        drop(state);
        // Whatever a handler holds is not dropped under the lock.
        drop(handler);
        true
    }

    /// Waits until a handler runs nowhere. A handler does not wait: it may be the one. Gives up after a while: the handler
    /// may wait for what the caller holds.
    pub(super) fn wait_until_returned(&self, id: usize) {
        let mut state = self.state.lock();
        let own = thread::current().id();
        let deadline = self.clock.now() + RETURN_TIME_MAX;
        while !state.running.iter().any(|(_, thread)| *thread == own) && state.is_running(id) {
            let Some(left) = self.clock.until(Some(deadline)).filter(|left| !left.is_zero()) else {
                tracing::warn!(handler = id, "a deregistered event handler is still running; it is not waited for");
                return;
            };
            self.returned.wait_for(&mut state, left);
        }
    }

    /// Runs something on the thread of the handlers once a handler runs nowhere.
    ///
    /// # Errors
    /// The job: it will not run, the process's conversation has ended.
    pub(super) fn when_returned(&self, id: usize, job: Job) -> Result<(), Job> {
        let mut state = self.state.lock();
        if !state.is_running(id) {
            return self.outside.defer(job);
        }
        state.waiting.push((id, job));
        Ok(())
    }

    /// Something has happened; its handlers are called on their thread.
    pub(super) fn raise(self: &Arc<Self>, event: Event) {
        let mut state = self.state.lock();
        state.dispatcher.raise(self.clock.now(), event);
        self.schedule(&state);
    }

    /// As [`EventHub::raise`], on the thread of the handlers itself.
    pub(super) fn arrive(self: &Arc<Self>, event: Event) {
        self.state.lock().dispatcher.raise(self.clock.now(), event);
        self.pump();
    }

    /// Something has happened; its handlers are called on this thread, except those after one that takes its time.
    pub(super) fn deliver_here(self: &Arc<Self>, event: Event) {
        let mut state = self.state.lock();
        let Some(chain) = state.dispatcher.raise_apart(self.clock.now(), event) else { return };
        while let Some(call) = state.dispatcher.poll_call_of(chain) {
            self.make(&mut state, call);
        }
        state.dispatcher.release(chain);
        self.schedule(&state);
    }

    fn complete(self: &Arc<Self>, token: CallToken, status: Status, results: Vec<Info>) {
        let mut state = self.state.lock();
        state.dispatcher.complete(token, status, results);
        self.tell_decisions(&mut state);
        self.schedule(&state);
    }

    fn tell_decisions(&self, state: &mut HubState) {
        while let Some(decision) = state.dispatcher.poll_decision() {
            self.outside.decided(&decision);
        }
    }

    /// Has the calls that can be made be made on the thread of the handlers, unless it is about to.
    fn schedule(self: &Arc<Self>, state: &HubState) {
        if !state.is_pumping && state.dispatcher.has_calls() {
            let hub = Arc::downgrade(self);
            // Where nothing runs any more no handler is called.
            let _ = self.outside.defer(Box::new(move || hub.upgrade().iter().for_each(Self::pump)));
        }
    }

    /// Makes all calls that can be made. Only on the thread of the handlers, so that they run one at a time.
    fn pump(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.is_pumping = true;
        while let Some(call) = state.dispatcher.poll_call() {
            self.make(&mut state, call);
        }
        self.tell_decisions(&mut state);
        state.is_pumping = false;
    }

    fn make(self: &Arc<Self>, state: &mut MutexGuard<'_, HubState>, call: HandlerCall<Handler>) {
        let HandlerCall { token, handler, id, status, source, info, results, ended } = call;
        if let Some(codes) = ended {
            self.settle(state, &codes);
        }
        let completion = Completion { hub: Arc::downgrade(self), token: Some(token) };
        let call = EventCall { handler: id, status, source, info, results, completion };
        let running = (id, thread::current().id());
        state.running.push(running);
        MutexGuard::unlocked(state, || {
            // What a panic leaves behind drops the completion, and the chain goes on.
            if catch_unwind(AssertUnwindSafe(|| handler(call))).is_err() {
                tracing::error!(handler = id, %status, "an event handler panicked; the event goes to the next one");
            }
            // The last reference to a handler is dropped where it ran, without the lock.
            drop(handler);
        });
        if let Some(index) = state.running.iter().position(|other| *other == running) {
            state.running.swap_remove(index);
        }
        self.returned.notify_all();
        let orphans = self.release(state, id);
        if !orphans.is_empty() {
            MutexGuard::unlocked(state, || orphans.into_iter().for_each(run));
        }
    }

    /// A call has returned: what waited for that is queued, or given back where nothing will run any more.
    fn release(&self, state: &mut HubState, id: usize) -> Vec<Job> {
        if state.is_running(id) {
            return Vec::new();
        }
        let waiting = state.waiting.extract_if(.., |(of, _)| *of == id);
        waiting.filter_map(|(_, job)| self.outside.defer(job).err()).collect()
    }

    /// Tells the server what nobody here wants any more, now that a handler of these codes has gone.
    fn settle(&self, state: &mut HubState, codes: &[Status]) {
        let unwanted = state.dispatcher.unwanted(codes);
        state.confirmed.retain(|code| !unwanted.contains(code));
        if !unwanted.is_empty() {
            self.outside.deregister(unwanted);
        }
        if state.dispatcher.handler_count() == 0 {
            self.outside.listen(false);
        }
    }
}

/// How long the end of a registration waits for a call that is under way.
const RETURN_TIME_MAX: Duration = Duration::from_secs(1);

/// Runs what was promised to run on the thread of the handlers, when this is it and nobody else will.
fn run(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a function that waited for an event handler to return panicked");
    }
}

impl HubState {
    /// Which of these codes the server has not confirmed; none means default handlers.
    fn unconfirmed(&self, codes: &[Status]) -> Vec<Status> {
        let codes = if codes.is_empty() { &[DEFAULT_HANDLER] } else { codes };
        codes.iter().copied().filter(|code| !self.confirmed.contains(code)).collect()
    }

    fn is_running(&self, id: usize) -> bool {
        self.running.iter().any(|(running, _)| *running == id)
    }
}
