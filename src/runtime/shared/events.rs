//! The event handlers of a process: keeps them and calls them. The source of the events is unknown here.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::clock::Clock;
use super::threads::acting_id;
use crate::events::{
    CallToken, DEFAULT_HANDLER, Dispatcher, Event, HandlerCall, HandlerDecision, Registration, RegistrationError,
};
use crate::types::{Info, ProcId, Status};

/// A process's function for an event.
pub type Handler = Arc<dyn Fn(EventCall) + Send + Sync>;

/// One call of an event handler.
///
/// Later handlers of the chain wait until the call is completed with [`EventCall::complete`]. The handler itself may
/// complete it, now or later, and so may another thread. A dropped call counts as one without effect
/// ([`Status::EVENT_NO_ACTION_TAKEN`]).
///
/// Source: PMIx Standard, "Event Notification" (`pmix_notification_fn_t`).
#[derive(Debug)]
pub struct EventCall {
    /// The registration that is called.
    pub handler: usize,
    /// The event's status.
    pub status: Status,
    /// The source of the event; `None`: the host. The C interface shows an empty namespace and the undefined rank.
    pub source: Option<ProcId>,
    /// The event's details, then the handler's own name and object as given at its registration.
    pub info: Vec<Info>,
    /// The answers of the earlier handlers. Each has its status under its name (`pmix.modex.status` if it has no name),
    /// then its results.
    pub results: Vec<Info>,
    /// The duty to complete the call.
    pub completion: Completion,
}

/// The duty to complete one call of an event handler. Spent exactly once; dropping it means that the handler did
/// nothing.
#[must_use = "the handlers after this one wait for the completion"]
pub struct Completion {
    hub: Weak<EventHub>,
    token: Option<CallToken>,
}

impl EventCall {
    /// Completes the call. [`Status::EVENT_ACTION_COMPLETE`] ends the chain; `results` go to the later handlers.
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

/// Codes (none: default handlers) and directives.
pub(crate) type WantedEvents = (Vec<Status>, Vec<Info>);

/// A function for the handler thread.
pub(in crate::runtime) type Job = Box<dyn FnOnce() + Send>;

/// Services of the process for its handlers. The hub calls these functions with its lock held: they queue something and
/// return.
pub(in crate::runtime) trait EventLink: Send + Sync {
    /// Queues a job on the handler thread.
    ///
    /// # Errors
    /// The job: the handler thread has ended.
    fn defer(&self, job: Job) -> Result<(), Job>;
    /// No handler in this process wants these codes any more.
    fn deregister(&self, codes: Vec<Status>);
    /// Says whether there are handlers.
    fn listen(&self, is_listening: bool);
    /// The handlers have decided about an event that demands a decision.
    fn decided(&self, _: &HandlerDecision) {}
}

/// The handlers of a process and the active calls.
pub(crate) struct EventHub {
    state: Mutex<HubState>,
    /// Announces that a handler has returned.
    returned: Condvar,
    clock: Clock,
}

/// The number of one link of the handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventLinkId(usize);

impl EventLinkId {
    /// The link with which the hub was made.
    pub(in crate::runtime) const FIRST: Self = Self(0);
}

struct HubState {
    dispatcher: Dispatcher<Handler>,
    /// The links of the process, the oldest first; never empty. A tool has one with each of its servers.
    links: Vec<(EventLinkId, Box<dyn EventLink>)>,
    next_link: usize,
    /// The codes that the server of a link has confirmed; default handlers by their marker.
    confirmed: BTreeSet<(EventLinkId, Status)>,
    /// Handlers that run now.
    running: Vec<(usize, ThreadId)>,
    /// Jobs that wait until a handler returns.
    waiting: Vec<(usize, Job)>,
    /// The handler thread makes calls and will look for more.
    is_pumping: bool,
    /// Callbacks of registrations that run now. No handler is called before they have returned.
    callbacks: usize,
}

/// A registration under way.
#[derive(Clone, Debug)]
pub(in crate::runtime) struct Begun {
    pub(in crate::runtime) id: usize,
    by: EventLinkId,
    needed: Vec<Status>,
    upward: Vec<Info>,
}

impl Begun {
    /// The codes (none: default handlers) and directives that the server must have before the registration is complete.
    /// `None`: the server has them.
    pub(in crate::runtime) fn request(&self) -> Option<(Vec<Status>, Vec<Info>)> {
        let is_default = self.needed == [DEFAULT_HANDLER];
        let codes = if is_default { Vec::new() } else { self.needed.clone() };
        (!self.needed.is_empty()).then(|| (codes, self.upward.clone()))
    }
}

impl EventHub {
    /// No handlers yet; the first one gets the number `first_id`.
    pub(in crate::runtime) fn new(own: ProcId, first_id: usize, clock: Clock, link: Box<dyn EventLink>) -> Arc<Self> {
        let state = HubState {
            dispatcher: Dispatcher::new(own, first_id),
            links: vec![(EventLinkId::FIRST, link)],
            next_link: 1,
            confirmed: BTreeSet::new(),
            running: Vec::new(),
            waiting: Vec::new(),
            is_pumping: false,
            callbacks: 0,
        };
        Arc::new(Self { state: Mutex::new(state), returned: Condvar::new(), clock })
    }

    /// Adds a link. It asks for the events of later handlers alone, as in OpenPMIx. `own` is the present name
    /// of the process.
    pub(in crate::runtime) fn add_link(&self, own: ProcId, link: Box<dyn EventLink>) -> EventLinkId {
        let mut state = self.state.lock();
        state.dispatcher.rename(own);
        link.listen(state.dispatcher.handler_count() > 0);
        let id = EventLinkId(state.next_link);
        state.next_link += 1;
        state.links.push((id, link));
        id
    }

    /// Ends a link. The last one stays, because its thread still has to run the handlers.
    pub(in crate::runtime) fn remove_link(&self, id: EventLinkId) {
        let mut state = self.state.lock();
        let is_last = state.links.len() == 1;
        let removed: Vec<_> = state.links.extract_if(.., |(other, _)| !is_last && *other == id).collect();
        state.confirmed.retain(|(by, _)| *by != id);
        drop(state);
        drop(removed);
    }

    /// Takes a handler in and lets `ask` send a request to the server of the link `by`. `ask` runs under the
    /// lock, so the server gets registrations and deregistrations in their order. Other links do not ask, as in
    /// OpenPMIx: their servers would send older events that the handler is not for.
    pub(in crate::runtime) fn begin<R>(
        &self,
        by: EventLinkId,
        registration: Registration,
        handler: Handler,
        ask: impl FnOnce(&Begun) -> R,
    ) -> Result<(Begun, R), RegistrationError> {
        let mut state = self.state.lock();
        let upward = registration.upward().to_vec();
        let needed = state.unconfirmed(by, registration.codes());
        let id = state.dispatcher.insert(registration, handler)?;
        if state.dispatcher.handler_count() == 1 {
            state.links().for_each(|link| link.listen(true));
        }
        let begun = Begun { id, by, needed, upward };
        let asked = ask(&begun);
        Ok((begun, asked))
    }

    /// The server has answered, or did not have to. Returns the number of the registration.
    pub(in crate::runtime) fn finish<E>(self: &Arc<Self>, begun: Begun, answer: Result<(), E>) -> Result<usize, E> {
        let id = self.confirm(begun, answer)?;
        self.activate(id);
        Ok(id)
    }

    /// As [`EventHub::finish`]. Calls `done` on the handler thread, before the first event is delivered.
    pub(in crate::runtime) fn finish_with<E>(
        self: &Arc<Self>,
        begun: Begun,
        answer: Result<(), E>,
        done: impl FnOnce(Result<usize, E>),
    ) {
        let confirmed = self.confirm(begun, answer);
        // `done` may let another thread raise an event at once, so the handler must be active before. Its events still
        // come after `done`, on the thread of any link.
        let _callback = RunningCallback::begin(self);
        if let Ok(id) = &confirmed {
            self.activate(*id);
        }
        done(confirmed);
    }

    fn confirm<E>(&self, begun: Begun, answer: Result<(), E>) -> Result<usize, E> {
        let Begun { id, by, needed, .. } = begun;
        match answer {
            Ok(()) => {
                let mut state = self.state.lock();
                // If the handler is gone already, the server has been asked to drop these codes.
                let unwanted = state.dispatcher.unwanted(&needed);
                let wanted = needed.into_iter().filter(|code| !unwanted.contains(code));
                state.confirmed.extend(wanted.map(|code| (by, code)));
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

    /// Ends a registration; `false`: there is none. Calls of its handler may still run.
    pub(in crate::runtime) fn remove(&self, id: usize) -> bool {
        let mut state = self.state.lock();
        let Some((codes, handler)) = state.dispatcher.remove(id) else { return false };
        self.settle(&mut state, &codes);
        drop(state);
        // The handler's captured values must not be dropped under the lock.
        drop(handler);
        true
    }

    /// Waits until no call of a handler runs. Inside a handler it does not wait, because it may be the same one. It
    /// gives up after a while, because the handler may wait for a lock of the caller.
    pub(in crate::runtime) fn wait_until_returned(&self, id: usize) {
        let mut state = self.state.lock();
        let own = acting_id();
        let deadline = self.clock.now() + RETURN_TIME_MAX;
        while !state.running.iter().any(|(_, thread)| *thread == own) && state.is_running(id) {
            let Some(left) = self.clock.until(Some(deadline)).filter(|left| !left.is_zero()) else {
                tracing::warn!(handler = id, "a deregistered event handler is still running; it is not waited for");
                return;
            };
            self.returned.wait_for(&mut state, left);
        }
    }

    /// As [`EventHub::remove`]. Runs a job on the handler thread once no call of the handler runs. The server is asked
    /// afterwards, because it competes with both threads for the processor.
    ///
    /// # Errors
    /// The job: it will not run, because the process has no handler thread any more.
    pub(in crate::runtime) fn remove_with(self: &Arc<Self>, id: usize, job: Job) -> Result<(), Job> {
        let mut state = self.state.lock();
        let Some((codes, handler)) = state.dispatcher.remove(id) else { return state.defer(job) };
        let hub = Arc::downgrade(self);
        let job = Box::new(move || {
            job();
            if let Some(hub) = hub.upgrade() {
                // Another handler may have been registered for these codes since then.
                hub.settle(&mut hub.state.lock(), &codes);
            }
        });
        let deferred = match state.is_running(id) {
            true => {
                state.waiting.push((id, job));
                Ok(())
            }
            false => state.defer(job),
        };
        drop(state);
        // The handler's captured values must not be dropped under the lock.
        drop(handler);
        deferred
    }

    /// Raises an event. Its handlers are called on their thread.
    pub(in crate::runtime) fn raise(self: &Arc<Self>, event: Event) {
        let mut state = self.state.lock();
        state.dispatcher.raise(self.clock.now(), event);
        self.schedule(&state);
    }

    /// As [`EventHub::raise`], called on the handler thread itself.
    pub(in crate::runtime) fn arrive(self: &Arc<Self>, event: Event) {
        self.state.lock().dispatcher.raise(self.clock.now(), event);
        self.pump();
    }

    /// Raises an event and calls its handlers on this thread. If one completes later, the rest run on the handler
    /// thread.
    pub(in crate::runtime) fn deliver_here(self: &Arc<Self>, event: Event) {
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
        state.tell_decisions();
        self.schedule(&state);
    }

    /// Whether a handler of this process has called this function.
    pub(in crate::runtime) fn is_handling(&self) -> bool {
        let own = acting_id();
        self.state.lock().running.iter().any(|(_, thread)| *thread == own)
    }

    /// Schedules the possible calls on the handler thread, unless it looks for calls anyway.
    fn schedule(self: &Arc<Self>, state: &HubState) {
        if !state.is_pumping && state.callbacks == 0 && state.dispatcher.has_calls() {
            let hub = Arc::downgrade(self);
            // Without a handler thread no handler is called.
            let _ = state.defer(Box::new(move || hub.upgrade().iter().for_each(Self::pump)));
        }
    }

    /// Makes all possible calls, on the handler thread. With several links there are several such threads. One
    /// of them makes all calls, so handlers run one at a time.
    fn pump(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_pumping, true) {
            return;
        }
        while state.callbacks == 0
            && let Some(call) = state.dispatcher.poll_call()
        {
            self.make(&mut state, call);
        }
        state.tell_decisions();
        state.is_pumping = false;
    }

    fn make(self: &Arc<Self>, state: &mut MutexGuard<'_, HubState>, call: HandlerCall<Handler>) {
        let HandlerCall { token, handler, id, status, source, info, results, ended } = call;
        if let Some(codes) = ended {
            self.settle(state, &codes);
        }
        let completion = Completion { hub: Arc::downgrade(self), token: Some(token) };
        let call = EventCall { handler: id, status, source, info, results, completion };
        let running = (id, acting_id());
        state.running.push(running);
        MutexGuard::unlocked(state, || {
            // After a panic the unwinding drops the completion, and the chain continues.
            if catch_unwind(AssertUnwindSafe(|| handler(call))).is_err() {
                tracing::error!(handler = id, %status, "an event handler panicked; the event goes to the next one");
            }
            // The last reference to a handler is dropped on the handler's thread, without the lock.
            drop(handler);
        });
        if let Some(index) = state.running.iter().position(|other| *other == running) {
            state.running.swap_remove(index);
        }
        self.returned.notify_all();
        let orphans = state.release(id);
        if !orphans.is_empty() {
            MutexGuard::unlocked(state, || orphans.into_iter().for_each(run));
        }
    }

    /// Deregisters codes at the server that no handler wants any more, after a handler of these codes has gone.
    fn settle(&self, state: &mut HubState, codes: &[Status]) {
        let unwanted = state.dispatcher.unwanted(codes);
        state.confirmed.retain(|(_, code)| !unwanted.contains(code));
        if !unwanted.is_empty() {
            state.links().for_each(|link| link.deregister(unwanted.clone()));
        }
        if state.dispatcher.handler_count() == 0 {
            state.links().for_each(|link| link.listen(false));
        }
    }
}

/// A callback of a registration that runs. Its end lets handlers be called.
struct RunningCallback<'a>(&'a Arc<EventHub>);

impl<'a> RunningCallback<'a> {
    fn begin(hub: &'a Arc<EventHub>) -> Self {
        hub.state.lock().callbacks += 1;
        Self(hub)
    }
}

impl Drop for RunningCallback<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.callbacks -= 1;
        self.0.schedule(&state);
    }
}

/// How long the end of a registration waits for an active call.
const RETURN_TIME_MAX: Duration = Duration::from_secs(1);

/// Runs a job here, on the handler thread, because that thread takes no more jobs.
fn run(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a function that waited for an event handler to return panicked");
    }
}

impl HubState {
    /// The codes that the server of a link has not confirmed; no codes mean default handlers.
    fn unconfirmed(&self, by: EventLinkId, codes: &[Status]) -> Vec<Status> {
        let codes = if codes.is_empty() { &[DEFAULT_HANDLER] } else { codes };
        codes.iter().copied().filter(|code| !self.confirmed.contains(&(by, *code))).collect()
    }

    fn is_running(&self, id: usize) -> bool {
        self.running.iter().any(|(running, _)| *running == id)
    }

    fn links(&self) -> impl Iterator<Item = &dyn EventLink> {
        self.links.iter().map(|(_, link)| &**link)
    }

    /// Queues a job on a handler thread.
    fn defer(&self, job: Job) -> Result<(), Job> {
        self.links()
            .try_fold(job, |job, link| match link.defer(job) {
                Ok(()) => Err(()),
                Err(job) => Ok(job),
            })
            .map_or(Ok(()), Err)
    }

    /// A call has returned: queues the jobs that waited for it. Returns those that no handler thread can run any more.
    fn release(&mut self, id: usize) -> Vec<Job> {
        if self.is_running(id) {
            return Vec::new();
        }
        let ended: Vec<_> = self.waiting.extract_if(.., |(of, _)| *of == id).collect();
        ended.into_iter().filter_map(|(_, job)| self.defer(job).err()).collect()
    }

    fn tell_decisions(&mut self) {
        while let Some(decision) = self.dispatcher.poll_decision() {
            self.links().for_each(|link| link.decided(&decision));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Namespace;
    use crate::types::codes::range;

    const CODE: Status = Status::from_raw(-9000);

    /// The jobs of the handler thread, and the codes that the server was asked to drop.
    #[derive(Default)]
    struct Recorded {
        jobs: Mutex<Vec<Job>>,
        dropped: Mutex<Vec<Status>>,
    }

    struct Recorder(Arc<Recorded>);

    impl EventLink for Recorder {
        fn defer(&self, job: Job) -> Result<(), Job> {
            self.0.jobs.lock().push(job);
            Ok(())
        }

        fn deregister(&self, codes: Vec<Status>) {
            self.0.dropped.lock().extend(codes);
        }

        fn listen(&self, _: bool) {}
    }

    /// The number of a new handler, and whether the server is asked for its code.
    fn register_by(hub: &Arc<EventHub>, by: EventLinkId) -> (usize, bool) {
        let registration = Registration::parse(&[CODE], &[]).unwrap();
        let (begun, request) = hub.begin(by, registration, Arc::new(|_| {}), Begun::request).unwrap();
        (hub.finish(begun, Ok::<(), Status>(())).unwrap(), request.is_some())
    }

    fn register(hub: &Arc<EventHub>) -> (usize, bool) {
        register_by(hub, EventLinkId::FIRST)
    }

    #[test]
    fn the_server_drops_a_code_after_the_callback_unless_it_is_registered_again() {
        let recorded = Arc::new(Recorded::default());
        let own = ProcId::new(Namespace::new("job").unwrap(), 0);
        let hub = EventHub::new(own, 1, Clock::start(), Box::new(Recorder(Arc::clone(&recorded))));
        let end = |id: usize| {
            let (at_callback, called) = (Arc::clone(&recorded), Arc::clone(&recorded));
            let callback = move || assert_eq!(at_callback.dropped.lock().as_slice(), []);
            assert!(hub.remove_with(id, Box::new(callback)).is_ok());
            move || std::mem::take(&mut *called.jobs.lock()).into_iter().for_each(|job| job())
        };
        let (first, is_asked) = register(&hub);
        assert!(is_asked);
        let run_jobs = end(first);
        let (second, is_asked) = register(&hub);
        assert!(!is_asked, "the server still has the code");
        run_jobs();
        assert_eq!(recorded.dropped.lock().as_slice(), []);
        end(second)();
        assert_eq!(recorded.dropped.lock().as_slice(), [CODE]);
    }

    /// Regression: a code that a lost server had confirmed was not requested from the next one.
    #[test]
    fn a_server_is_asked_for_a_code_that_another_one_has_confirmed() {
        let own = ProcId::new(Namespace::new("job").unwrap(), 0);
        let recorder = || Box::new(Recorder(Arc::default()));
        let hub = EventHub::new(own.clone(), 1, Clock::start(), recorder());
        assert_eq!([register(&hub).1, register(&hub).1], [true, false]);
        let second = hub.add_link(own, recorder());
        assert_eq!([register(&hub).1, register_by(&hub, second).1], [false, true]);
        // OpenPMIx's servers send their kept events again with each request.
        assert!(!register_by(&hub, second).1, "the second server is asked once");
        hub.remove_link(EventLinkId::FIRST);
        assert_eq!([register(&hub).1, register_by(&hub, second).1], [true, false]);
    }

    /// Regression: a handler on the thread of another link could begin a wait that only its own end would end.
    #[test]
    fn a_handler_is_known_by_its_thread() {
        let recorded = Arc::new(Recorded::default());
        let own = ProcId::new(Namespace::new("job").unwrap(), 0);
        let hub = EventHub::new(own.clone(), 1, Clock::start(), Box::new(Recorder(Arc::clone(&recorded))));
        let (of_handler, seen) = (Arc::downgrade(&hub), Arc::new(Mutex::new(None)));
        let noted = Arc::clone(&seen);
        let handler: Handler = Arc::new(move |_| *noted.lock() = of_handler.upgrade().map(|hub| hub.is_handling()));
        let registration = Registration::parse(&[CODE], &[]).unwrap();
        let (begun, _) = hub.begin(EventLinkId::FIRST, registration, handler, |_| ()).unwrap();
        hub.finish(begun, Ok::<(), Status>(())).unwrap();
        hub.raise(Event { status: CODE, source: Some(own), range: range::RANGE_PROC_LOCAL, info: Vec::new() });
        std::mem::take(&mut *recorded.jobs.lock()).into_iter().for_each(|job| job());
        assert_eq!((*seen.lock(), hub.is_handling()), (Some(true), false));
    }

    /// Regression: a handler could run on the thread of another link before its caller had its number.
    #[test]
    fn no_handler_runs_before_the_callback_of_its_registration_has_returned() {
        let recorded = Arc::new(Recorded::default());
        let own = ProcId::new(Namespace::new("job").unwrap(), 0);
        let hub = EventHub::new(own.clone(), 1, Clock::start(), Box::new(Recorder(Arc::clone(&recorded))));
        let calls = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&calls);
        let registration = Registration::parse(&[CODE], &[]).unwrap();
        let handler: Handler = Arc::new(move |_| *counted.lock() += 1);
        let (begun, _) = hub.begin(EventLinkId::FIRST, registration, handler, |_| ()).unwrap();
        let run_jobs = || std::mem::take(&mut *recorded.jobs.lock()).into_iter().for_each(|job| job());
        let event = Event { status: CODE, source: Some(own), range: range::RANGE_PROC_LOCAL, info: Vec::new() };
        hub.finish_with(begun, Ok::<(), Status>(()), |_| {
            hub.raise(event);
            run_jobs();
            assert_eq!(*calls.lock(), 0);
        });
        run_jobs();
        assert_eq!(*calls.lock(), 1);
    }
}
