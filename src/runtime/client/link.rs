//! A client's conversation with its server.
//!
//! It needs no separate thread: the threads that wait for replies share the work. One of them, the leader, waits for
//! the socket; the others wait for the leader. When the leader has its reply it leaves, and another thread leads. The
//! lock is never held during a wait.

use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::link_state::{Beside, FutexWait, LinkState};
use super::results::{CallResult, CallResultCallback};
use super::watchers::Watchers;
use crate::client::{Call, CallError, CallId, LossReason, Outcome};
use crate::gds::{CompletionSlot, CompletionStatus, NamespaceReader};
use crate::ptl::Arrival;
use crate::runtime::shared::clock::{Clock, wait_ms};
use crate::shmem::ForkMark;
use crate::types::Time;

/// The conversation; shared by the threads of the process.
pub(super) struct Link {
    state: Mutex<LinkState>,
    /// Signals that a call is done, or that a leader is needed.
    turn: Condvar,
    /// Signals work to an idle progress thread. Separate from `turn`, so that calls of other threads do not wake it.
    work: Condvar,
    socket: Arc<OwnedFd>,
    /// Marks the process that has the conversation.
    fork_mark: Arc<ForkMark>,
    clock: Clock,
    /// Wait objects of the leader and the progress thread; made with that thread. Without them the leader polls the
    /// socket itself.
    watchers: OnceLock<Watchers>,
    /// How long a thread sleeps in a fence.
    sleep_time_max: Duration,
}

impl Link {
    pub(super) fn new(state: LinkState, clock: Clock) -> Self {
        let (socket, fork_mark) = (state.socket(), state.fork_mark());
        let (turn, work) = (Condvar::new(), Condvar::new());
        let (state, watchers) = (Mutex::new(state), OnceLock::new());
        Self { state, turn, work, socket, fork_mark, clock, watchers, sleep_time_max: SLEEP_TIME_MAX }
    }

    /// Whether this process has the conversation. A forked copy has not. Takes no lock: in a copy the lock may be taken
    /// for ever.
    pub(super) fn is_of_this_process(&self) -> bool {
        self.fork_mark.is_of_this_process()
    }

    /// Whether the server has closed the connection. Its last messages are read then. A forked copy does not know.
    pub(super) fn is_lost(&self) -> bool {
        if !self.is_of_this_process() {
            return false;
        }
        if self.state.lock().is_lost() {
            return true;
        }
        // Nothing but the end is watched, so any result is the end. nix does not know the bit.
        let end = PollFlags::from_bits_retain(nix::libc::POLLRDHUP);
        let mut watched = [PollFd::new(self.socket.as_fd(), end)];
        let is_closed = poll(&mut watched, PollTimeout::ZERO).is_ok_and(|count| count > 0);
        // The loss raises an event, so it is noticed before the caller drops the connection.
        is_closed && {
            self.wait_until(self.clock.now() + LAST_READ_TIME_MAX, LinkState::is_lost);
            true
        }
    }

    /// The error of every call in a forked copy. Another thread may have held the lock at the fork, and a fork does not
    /// copy that thread. So a copy must not take the lock.
    fn forked(&self, call: &Call) -> Option<CallError> {
        let lost = || CallError::Lost { command: call.command(), reason: LossReason::Forked };
        (!self.is_of_this_process()).then(lost)
    }

    /// Reads or changes the state of the conversation.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut LinkState) -> R) -> R {
        look(&mut self.state.lock())
    }

    /// As [`Link::with`]. Afterwards the progress thread may have to read the socket for unrequested messages.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut LinkState) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        self.rouse(state);
        result
    }

    /// The conversation's clock.
    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    /// The time on the conversation's clock.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Makes a call and waits for its result.
    pub(super) fn call(&self, call: Call) -> CallResult {
        if let Some(lost) = self.forked(&call) {
            return Err(lost);
        }
        let mut state = self.state.lock();
        let id = state.begin(self.clock.now(), call);
        self.wait_locked(&mut state, id)
    }

    /// Makes two calls at once, and waits for both results. They are sent together, and the server handles them in this
    /// order.
    pub(super) fn call_both(&self, first: Call, second: Call) -> (CallResult, CallResult) {
        if let Some((first, second)) = self.forked(&first).zip(self.forked(&second)) {
            return (Err(first), Err(second));
        }
        let mut state = self.state.lock();
        let now = self.clock.now();
        let first = state.prepare(now, first);
        let second = state.begin(now, second);
        (self.wait_locked(&mut state, first), self.wait_locked(&mut state, second))
    }

    /// Makes a call for a fence, and one for a commit before it if there is one. Waits for the results. If there is a
    /// slot at the namespace's completion table, this thread sleeps there: the server wakes all sleepers at once,
    /// without a message to each.
    pub(super) fn fence(
        &self,
        commit: Option<Call>,
        fence: Call,
        segment: Option<&NamespaceReader>,
    ) -> (Option<CallResult>, CallResult) {
        if let Some(lost) = self.forked(&fence) {
            return (commit.and_then(|commit| self.forked(&commit)).map(Err), Err(lost));
        }
        let mut state = self.state.lock();
        let now = self.clock.now();
        let Some(slot) = segment.and_then(|segment| segment.slot(state.index)) else {
            let (commit, fence) = (commit.map(|commit| state.prepare(now, commit)), state.begin(now, fence));
            return self.wait_for_both(&mut state, commit, fence);
        };
        let (commit, fence, sleep) = state.begin_with_futex_wait(now, commit, fence);
        let Some(sleep) = sleep else { return self.wait_for_both(&mut state, commit, fence) };
        self.sleep(&mut state, sleep, slot);
        let results = self.wait_for_both(&mut state, commit, fence);
        // The server may have written the verdict just before it ended.
        let is_completed = || slot.look(sleep.tag.0) == Some(CompletionStatus::Succeeded) && self.is_of_this_process();
        if results.1.is_err() && is_completed() {
            let committed = if sleep.stands_for_commit() { Some(Ok(Outcome::Complete)) } else { results.0 };
            return (committed, Ok(Outcome::Complete));
        }
        results
    }

    /// Sleeps until the fence is over, or until a limit. The server may have ended, and only a read shows that.
    fn sleep(&self, state: &mut MutexGuard<'_, LinkState>, sleep: FutexWait, slot: CompletionSlot<'_>) {
        self.advance(state);
        let end = self.clock.now() + self.sleep_time_max;
        // The handler of a signal may have forked.
        let left = || self.clock.until(Some(end)).filter(|_| self.is_of_this_process()).unwrap_or_default();
        let is_sent = !state.has_queued() && !state.is_lost();
        let verdict = if is_sent { MutexGuard::unlocked(state, || slot.sleep(sleep.tag.0, left)) } else { None };
        match verdict {
            Some(CompletionStatus::Succeeded) => state.complete_futex_wait(self.clock.now(), sleep),
            Some(CompletionStatus::InMessage) => state.end_futex_wait(),
            None => state.abandon_futex_wait(self.clock.now(), sleep),
        }
    }

    fn wait_for_both(
        &self,
        state: &mut MutexGuard<'_, LinkState>,
        first: Option<CallId>,
        second: CallId,
    ) -> (Option<CallResult>, CallResult) {
        (first.map(|first| self.wait_locked(state, first)), self.wait_locked(state, second))
    }

    /// Makes a call whose result is taken later, with [`Link::wait`] or [`Link::try_take`].
    pub(super) fn start(&self, call: Call) -> CallId {
        let mut state = self.state.lock();
        let id = state.begin(self.clock.now(), call);
        self.rouse(state);
        id
    }

    /// Makes a call whose result goes to a callback. A thread must run [`Link::run_callbacks`].
    pub(super) fn start_with(&self, call: Call, callback: CallResultCallback) -> CallId {
        let mut state = self.state.lock();
        let id = state.begin(self.clock.now(), call);
        state.results.give_to(id, callback);
        self.rouse(state);
        id
    }

    /// Ends a call that sends nothing, because the awaited events have come.
    pub(super) fn settle(&self, id: CallId) {
        let mut state = self.state.lock();
        state.settle(self.clock.now(), id);
        self.rouse(state);
    }

    /// Runs a job on the progress thread, after the callbacks that are ready.
    pub(super) fn defer(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.results.ready.push_back(Box::new(job));
        self.rouse(state);
    }

    /// Sets whether the progress thread waits for events when it has nothing else to do.
    pub(super) fn listen(&self, is_listening: bool) {
        let mut state = self.state.lock();
        state.is_listening = is_listening;
        // An end of listening wakes no thread. A handler's end woke the progress thread twice, and the program, which
        // waits for the callback, lost its turn on the processor in between.
        if is_listening {
            self.rouse(state);
        }
    }

    /// Makes the wait objects of the progress thread, before it starts.
    pub(super) fn prepare_progress(&self) -> nix::Result<()> {
        if self.watchers.get().is_none() {
            // Another thread may have been faster; one set is enough.
            let _ = self.watchers.set(Watchers::new(self.socket.as_fd())?);
        }
        Ok(())
    }

    /// Waits for the result of a call made with [`Link::start`].
    pub(super) fn wait(&self, id: CallId) -> CallResult {
        self.wait_locked(&mut self.state.lock(), id)
    }

    /// The result of a call made with [`Link::start`], if it is there. Reads the bytes that have arrived, but never
    /// waits.
    pub(super) fn try_take(&self, id: CallId) -> Option<CallResult> {
        let mut state = self.state.lock();
        if !state.is_led {
            state.receive(self.clock.now());
            self.leave(&state);
        }
        self.advance(&mut state);
        state.results.kept.remove(&id)
    }

    /// Drops the result of a call made with [`Link::start`] as soon as it comes.
    pub(super) fn abandon(&self, id: CallId) {
        let mut state = self.state.lock();
        if state.results.kept.remove(&id).is_none() {
            state.results.abandoned.insert(id);
        }
    }

    /// Waits until `is_reached`, the loss of the connection, or the deadline. Returns whether `is_reached` holds.
    pub(super) fn wait_until(&self, deadline: Time, is_reached: impl Fn(&LinkState) -> bool) -> bool {
        let mut state = self.state.lock();
        // The socket does not announce bytes that came with the handshake.
        state.digest(self.clock.now());
        loop {
            if is_reached(&state) {
                self.leave(&state);
                return true;
            }
            if state.is_lost() || self.clock.now() >= deadline {
                self.leave(&state);
                return false;
            }
            self.step(&mut state, Some(deadline));
        }
    }

    /// The body of the progress thread: waits for results and runs their callbacks, until the link is shut. Waits for
    /// the socket only while a callback is due, or while there are event handlers or pulls of output. A panic in a
    /// callback does not affect the others.
    pub(super) fn run_callbacks(&self) {
        let mut state = self.state.lock();
        loop {
            self.advance(&mut state);
            if let Some(job) = state.results.ready.pop_front() {
                state.is_in_callback = true;
                // The panic hook has reported it. Without the catch, later callbacks would never run.
                let _ = MutexGuard::unlocked(&mut state, || catch_unwind(AssertUnwindSafe(job)));
                state.is_in_callback = false;
            } else if state.is_shut && state.results.callbacks.is_empty() {
                return;
            } else if state.has_business() {
                self.step_beside(&mut state);
            } else {
                self.work.wait(&mut state);
            }
        }
    }

    /// Closes the connection; pending calls end with an error, also those with callbacks. Returns whether a callback
    /// still runs or has to run.
    pub(super) fn shut(&self) -> bool {
        let mut state = self.state.lock();
        if !state.is_shut {
            state.shut(self.clock.now());
            // The leader waits on this socket and must see its end.
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
        self.turn.notify_all();
        self.work.notify_all();
        state.is_in_callback || !state.results.ready.is_empty() || !state.results.callbacks.is_empty()
    }

    fn wait_locked(&self, state: &mut MutexGuard<'_, LinkState>, id: CallId) -> CallResult {
        loop {
            self.advance(state);
            if let Some(result) = state.results.kept.remove(&id) {
                self.leave(state);
                return result;
            }
            self.step(state, None);
        }
    }

    /// A thread that has its result leaves. If it led, another thread must lead. A progress thread asleep beside it
    /// does not know of bytes that it left unread, so it is woken.
    fn leave(&self, state: &LinkState) {
        if !state.is_led {
            self.turn.notify_all();
            if let Some(watchers) = self.watchers.get().filter(|_| state.has_unread && state.beside.is_some()) {
                watchers.wake();
            }
        }
    }

    /// Waits once, for the socket or for the leader, and handles the input.
    fn step(&self, state: &mut MutexGuard<'_, LinkState>, deadline: Option<Time>) {
        let deadline = deadline.into_iter().chain(state.poll_timeout()).min();
        let has_queued = state.has_queued();
        if !state.is_led {
            state.is_led = true;
            self.lead(state, deadline, has_queued);
        } else if has_queued {
            // The leader may not know of the queued bytes, so this thread waits for room itself. It also waits for
            // input, because the leader may have left. The leader may read this thread's reply first, so the wait has a
            // limit.
            let deadline = Some(deadline.into_iter().fold(self.clock.now() + LOOK_AGAIN_TIME, Time::min));
            MutexGuard::unlocked(state, || self.poll(PollFlags::POLLIN | PollFlags::POLLOUT, deadline, None));
        } else {
            self.wait_for_turn(state, deadline);
        }
        self.advance(state);
    }

    /// Waits once for the socket and reads; no other thread reads meanwhile. If only the socket can end the wait, the
    /// read itself waits: one system call for a reply instead of two.
    fn lead(&self, state: &mut MutexGuard<'_, LinkState>, deadline: Option<Time>, has_queued: bool) {
        let watchers = self.watchers.get();
        if watchers.is_none() && !has_queued && deadline.is_none() && state.is_blocking {
            let mut buffer = state.lend_buffer();
            let waited = MutexGuard::unlocked(state, || Arrival::wait(&*self.socket, &mut buffer));
            state.is_led = false;
            return state.receive_on(self.clock.now(), buffer, waited);
        }
        MutexGuard::unlocked(state, || match watchers {
            Some(watchers) if !has_queued => watchers.wait_as_leader(self.limit_ms(deadline)),
            _ => self.poll(PollFlags::POLLIN | room(has_queued), deadline, None),
        });
        state.is_led = false;
        state.receive(self.clock.now());
    }

    fn wait_for_turn(&self, state: &mut MutexGuard<'_, LinkState>, deadline: Option<Time>) {
        match deadline.and_then(|deadline| self.clock.instant_of(deadline)) {
            Some(deadline) => drop(self.turn.wait_until(state, deadline)),
            None => self.turn.wait(state),
        }
    }

    /// As [`Link::step`], for the progress thread, which is never in a hurry. It watches the socket too, but leaves
    /// input to a leader: a leader waits for a reply, and should not depend on this thread. Only this thread sends the
    /// bytes that calls without a wait could not send at once.
    fn step_beside(&self, state: &mut MutexGuard<'_, LinkState>) {
        let deadline = state.poll_timeout();
        let has_queued = state.has_queued();
        if state.is_led && !has_queued {
            self.wait_for_turn(state, deadline);
        } else {
            if let Some(watchers) = self.watchers.get().filter(|_| state.is_led || !state.has_unread) {
                state.beside = Some(Beside { deadline, watches_room: has_queued });
                MutexGuard::unlocked(state, || match has_queued {
                    true => self.poll(PollFlags::POLLIN | PollFlags::POLLOUT, deadline, Some(watchers)),
                    false => watchers.wait_beside(self.limit_ms(deadline)),
                });
                state.beside = None;
                watchers.calm();
            }
            if !state.is_led {
                state.receive(self.clock.now());
            }
        }
        self.advance(state);
    }

    /// Announces new work. A woken thread takes the lock first, so the lock is released before.
    fn rouse(&self, state: MutexGuard<'_, LinkState>) {
        let asleep = self.announce(&state);
        drop(state);
        if let Some(watchers) = asleep {
            watchers.wake();
        }
    }

    /// Notifies the waiting threads. Returns the wait object of the progress thread if it waits for the socket and must
    /// look again.
    fn announce(&self, state: &LinkState) -> Option<&Watchers> {
        self.turn.notify_all();
        if !state.results.ready.is_empty() || state.is_shut || state.has_business() {
            self.work.notify_all();
        }
        let beside = state.beside.as_ref()?;
        self.watchers.get().filter(|_| state.concerns(beside))
    }

    fn limit_ms(&self, deadline: Option<Time>) -> i32 {
        wait_ms(self.clock.until(deadline))
    }

    fn poll(&self, flags: PollFlags, deadline: Option<Time>, watchers: Option<&Watchers>) {
        let timeout = PollTimeout::try_from(self.limit_ms(deadline)).unwrap_or(PollTimeout::MAX);
        let wake = watchers.map(Watchers::wake_descriptor);
        let mut watched = [
            PollFd::new(self.socket.as_fd(), flags),
            PollFd::new(wake.map_or(self.socket.as_fd(), AsFd::as_fd), PollFlags::POLLIN),
        ];
        let watched = watched.get_mut(..1 + usize::from(wake.is_some())).unwrap_or_default();
        // An interrupted or failed wait is a short one: the caller reads the socket anyway.
        let _ = poll(watched, timeout);
    }

    fn advance(&self, state: &mut LinkState) {
        if state.advance(self.clock.now())
            && let Some(watchers) = self.announce(state)
        {
            watchers.wake();
        }
    }
}

/// How long a thread that waits for room may miss the input that the leader has read.
const LOOK_AGAIN_TIME: Duration = Duration::from_millis(20);

/// How long the reading of a closed connection may take.
const LAST_READ_TIME_MAX: Duration = Duration::from_secs(1);

/// How long a thread sleeps in a fence. A server's end is noticed this much later.
const SLEEP_TIME_MAX: Duration = Duration::from_millis(10);

/// The extra condition of a thread with queued bytes.
const fn room(has_queued: bool) -> PollFlags {
    if has_queued { PollFlags::POLLOUT } else { PollFlags::empty() }
}

#[cfg(test)]
mod tests;
