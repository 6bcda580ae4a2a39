//! Fences whose caller sleeps at the completion table of its namespace. The server writes the verdict there for all
//! sleepers at once.

use super::LinkState;
use crate::client::{Call, CallId, ClientInput};
use crate::gds::REQUESTS_END;
use crate::proto::frame::FutexWaitMark;
use crate::proto::{Reply, Request, Tag};
use crate::types::{Status, Time};

/// A fence whose reply is awaited at a futex.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct FutexWait {
    pub(in crate::runtime) tag: Tag,
    /// The commit that was sent together with the fence and ends with it.
    forerunner: Option<Tag>,
}

impl FutexWait {
    /// Whether a commit ends with the fence.
    pub(in crate::runtime) const fn stands_for_commit(&self) -> bool {
        self.forerunner.is_some()
    }
}

/// The state of sleeping callers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FutexWaits {
    /// The next request is such a fence, or the commit that is sent with it.
    is_wanted: bool,
    /// How many such commits were sent, and the last one.
    forerunner_count: u32,
    forerunner: Option<Tag>,
    /// The current sleep. There is at most one, because a connection has one slot.
    current: Option<FutexWait>,
    /// How many sleeps in a row ended without a verdict.
    vain_count: u32,
    /// How many fences to wait for without sleep, because each may take long.
    skip_count: u32,
}

impl FutexWaits {
    /// Decides before a request is sent whether its reply is awaited at a futex.
    pub(super) fn begins_futex_wait(&mut self, tag: Tag, request: &Request, is_deferred: bool) -> Option<FutexWait> {
        if !self.is_wanted {
            return None;
        }
        if is_deferred {
            self.forerunner_count = self.forerunner_count.saturating_add(1);
            self.forerunner = Some(tag);
            return None;
        }
        let forerunner = self.forerunner.take();
        // The server derives the commit's tag from the fence's tag.
        let is_followed = forerunner.is_none_or(|before| before.0.checked_add(1) == Some(tag.0));
        let is_fence = matches!(request, Request::Fence(_)) && tag.0 < REQUESTS_END;
        if !is_fence || !is_followed || self.forerunner_count > 1 {
            return None;
        }
        self.is_wanted = false;
        self.current = Some(FutexWait { tag, forerunner });
        self.current
    }

    /// Whether the next fence may be slept through.
    fn may_wait(&mut self) -> bool {
        if self.skip_count > 0 {
            self.skip_count -= 1;
            return false;
        }
        self.current.is_none()
    }

    fn was_in_vain(&mut self) {
        self.vain_count = self.vain_count.saturating_add(1).min(VAIN_COUNT_MAX);
        // The first vain sleep skips nothing: processes may start at different times and meet in their first fence.
        self.skip_count = (1 << (self.vain_count - 1)) - 1;
    }
}

/// Largest count of vain sleeps: at most 63 fences are skipped.
const VAIN_COUNT_MAX: u32 = 7;

impl LinkState {
    /// Begins a fence, with or without a commit before it. Its reply is awaited at a futex if possible.
    pub(in crate::runtime) fn begin_with_futex_wait(
        &mut self,
        now: Time,
        commit: Option<Call>,
        fence: Call,
    ) -> (Option<CallId>, CallId, Option<FutexWait>) {
        let may_wait = self.futex_waits.may_wait();
        self.futex_waits =
            FutexWaits { is_wanted: may_wait, forerunner_count: 0, forerunner: None, ..self.futex_waits };
        let commit = commit.map(|commit| self.prepare(now, commit));
        let fence = self.begin(now, fence);
        self.futex_waits.is_wanted = false;
        (commit, fence, self.futex_waits.current.filter(|_| may_wait))
    }

    /// Ends a sleep whose verdict is success: it replaces the message.
    pub(in crate::runtime) fn complete_futex_wait(&mut self, now: Time, wait: FutexWait) {
        self.futex_waits.current = None;
        self.futex_waits.vain_count = 0;
        self.notice_fork(now);
        for tag in wait.forerunner.into_iter().chain([wait.tag]) {
            // The connection may have been lost meanwhile.
            if self.core.command_of(tag).is_some() {
                self.core.handle(now, ClientInput::Reply(tag, Reply::Status(Status::SUCCESS)));
            }
        }
    }

    /// Ends a sleep whose reply comes as a message.
    pub(in crate::runtime) const fn end_futex_wait(&mut self) {
        self.futex_waits.current = None;
        self.futex_waits.vain_count = 0;
    }

    /// Ends a sleep without a verdict. The reply must be a message now, even if the server is about to write the
    /// verdict.
    pub(in crate::runtime) fn abandon_futex_wait(&mut self, now: Time, wait: FutexWait) {
        self.futex_waits.current = None;
        self.futex_waits.was_in_vain();
        self.notice_fork(now);
        if self.loss.is_some() || self.core.command_of(wait.tag).is_none() {
            return;
        }
        if let Ok(message) = self.codec.write_awake(wait.tag) {
            self.queue(now, message);
        }
    }

    /// Marks a request whose reply is awaited at a futex.
    pub(super) fn mark_futex_wait(&self, wait: FutexWait, message: &mut [u8]) {
        FutexWaitMark::new(self.stream.received_bytes(), wait.forerunner.is_some()).mark(message);
    }
}
