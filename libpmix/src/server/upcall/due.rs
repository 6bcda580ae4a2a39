//! Answers that the host still owes.

use std::any::Any;

use modex::Credential;
use modex::types::AsStatus;
use modex::types::{Info, Namespace, Pdata, ProcId, Status};
use parking_lot::Mutex;

use super::host_bytes::HostBytes;
use crate::error::CError;
use crate::slots::{Slots, Token};
use crate::turns;
use crate::types::{c_void, pmix_status_t};

/// Receiver of an answer, by the kind of answer.
pub(in crate::server) enum Due {
    /// A status alone.
    Status(Box<dyn FnOnce(Status) + Send>),
    /// Bytes of another server.
    Blob(BlobTaker),
    /// Bytes of all servers.
    Fence(FenceTaker),
    /// Published data.
    Found(Box<dyn FnOnce(Status, Vec<Pdata>) + Send>),
    /// The name of a new job.
    Namespace(Box<dyn FnOnce(Result<Namespace, Status>) + Send>),
    /// Infos.
    Infos(Box<dyn FnOnce(Status, Vec<Info>) + Send>),
    /// The name of a tool, if the host gives it one.
    Tool(Box<dyn FnOnce(Result<Option<ProcId>, Status>) + Send>),
    /// A credential.
    Credential(Box<dyn FnOnce(Result<Credential, Status>) + Send>),
}

/// Takes bytes of the host, without keeping them.
type BlobTaker = Box<dyn FnOnce(Result<&[u8], Status>) + Send>;

/// Takes bytes that go back to the host when they are dropped.
type FenceTaker = Box<dyn FnOnce(Result<HostBytes, Status>) + Send>;

impl Due {
    /// Fails the request: the host refused, or there is no host function to ask.
    pub(in crate::server) fn fail(self, status: Status) {
        match self {
            Self::Status(answer) => answer(status),
            Self::Blob(answer) => answer(Err(status)),
            Self::Fence(answer) => answer(Err(status)),
            Self::Found(answer) => answer(status, Vec::new()),
            Self::Namespace(answer) => answer(Err(status)),
            Self::Infos(answer) => answer(status, Vec::new()),
            Self::Tool(answer) => answer(Err(status)),
            Self::Credential(answer) => answer(Err(status)),
        }
    }

    /// The host succeeded at once, without data.
    fn succeed(self) {
        match self {
            Self::Status(answer) => answer(Status::SUCCESS),
            Self::Blob(answer) => answer(Ok(&[])),
            Self::Fence(answer) => answer(Ok(HostBytes::copied(&[]))),
            Self::Found(answer) => answer(Status::SUCCESS, Vec::new()),
            // A job without a name is an error.
            Self::Namespace(answer) => answer(Err(Status::ERROR)),
            Self::Infos(answer) => answer(Status::SUCCESS, Vec::new()),
            Self::Tool(answer) => answer(Ok(None)),
            Self::Credential(answer) => answer(Ok(Credential { bytes: Vec::new(), info: Vec::new() })),
        }
    }
}

/// The memory that the pointers of an upcall point to.
pub(super) type Held = Box<dyn Any + Send>;

struct Pending {
    /// `None`: answered, but the host's function has not returned yet.
    due: Option<Due>,
    _held: Held,
    is_in_upcall: bool,
}

static PENDING: Mutex<Slots<Pending>> = Mutex::new(Slots::new());

/// Calls a function of the host. `prepare` gives the memory of the arguments, and the call itself, which takes the
/// `cbdata`.
pub(super) fn ask<C>(due: Due, prepare: impl FnOnce() -> Result<(Held, C), CError>)
where
    C: FnOnce(*mut c_void) -> pmix_status_t,
{
    let (held, call) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => {
            tracing::warn!(%error, "a request can't be shown to the host");
            return due.fail(error.status());
        }
    };
    let pending = Pending { due: Some(due), _held: held, is_in_upcall: true };
    let token = PENDING.lock().insert(pending);
    let status = turns::in_turn(|| call(token.to_pointer())).map_or(Status::ERR_UNREACH, Status::from_raw);
    let answered_at_once = returned(token, status);
    match (status, answered_at_once) {
        (Status::SUCCESS, _) => {}
        (Status::OPERATION_SUCCEEDED, Some(due)) => due.succeed(),
        (failure, Some(due)) => due.fail(failure),
        (status, None) => tracing::warn!(%status, "the host has answered a request and refused it as well"),
    }
}

/// Notes that the host's function has returned. Returns the answer that is still owed if the host will not call back.
fn returned(token: Token, status: Status) -> Option<Due> {
    let mut slots = PENDING.lock();
    let pending = slots.get_mut(token)?;
    pending.is_in_upcall = false;
    let due = if status == Status::SUCCESS { None } else { pending.due.take() };
    let is_over = pending.due.is_none();
    let finished = if is_over { slots.take(token) } else { None };
    drop(slots);
    drop(finished);
    due
}

/// Takes the first answer of the host: the answer owed, to be given outside the lock, and the rest of the slot, to be
/// dropped afterwards. `None` for later answers.
pub(super) fn answered(cbdata: *mut c_void) -> Option<(Due, impl Sized)> {
    let token = Token::from_pointer(cbdata);
    let mut slots = PENDING.lock();
    let pending = token.and_then(|token| slots.get_mut(token));
    let due = pending.and_then(|pending| pending.due.take().map(|due| (due, pending.is_in_upcall)));
    let Some((due, is_in_upcall)) = due else {
        drop(slots);
        tracing::warn!("the host has answered a request twice, or too late; the first answer counts");
        return None;
    };
    let rest = token.filter(|_| !is_in_upcall).and_then(|token| slots.take(token));
    Some((due, rest))
}

/// Fails all pending requests at the server's end. Later answers find nothing.
pub(in crate::server) fn abandon_all() {
    let (dues, over) = abandoned(&mut PENDING.lock());
    drop(over);
    dues.into_iter().for_each(|due| due.fail(Status::ERR_SERVER_NOT_AVAIL));
}

/// All answers owed, and the finished slots. Slots whose host function has not returned stay, and owe nothing any more.
fn abandoned(slots: &mut Slots<Pending>) -> (Vec<Due>, Vec<Pending>) {
    let dues = slots.iter_mut().filter_map(|pending| pending.due.take()).collect();
    (dues, slots.take_if(|pending| !pending.is_in_upcall))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    fn status_due() -> (Due, Receiver<Status>) {
        let (sender, receiver) = channel();
        (Due::Status(Box::new(move |status| sender.send(status).unwrap())), receiver)
    }

    fn answer(cbdata: *mut c_void, status: Status) -> bool {
        match answered(cbdata) {
            Some((due, _rest)) => {
                due.fail(status);
                true
            }
            None => false,
        }
    }

    #[test]
    fn a_host_that_answers_later_is_heard_once() {
        let (due, answers) = status_due();
        let mut cbdata = std::ptr::null_mut();
        ask(due, || {
            let call = |data| {
                cbdata = data;
                Status::SUCCESS.to_raw()
            };
            Ok((Box::new(()) as Held, call))
        });
        assert!(answers.try_recv().is_err());
        assert!(answer(cbdata, Status::ERR_NOT_FOUND));
        assert!(!answer(cbdata, Status::SUCCESS));
        assert_eq!(answers.iter().collect::<Vec<_>>(), [Status::ERR_NOT_FOUND]);
    }

    #[test]
    fn a_host_that_answers_inside_its_function_and_then_refuses_is_heard_once() {
        let (due, answers) = status_due();
        ask(due, || {
            let call = |data| {
                assert!(answer(data, Status::ERR_TIMEOUT));
                Status::ERROR.to_raw()
            };
            Ok((Box::new(()) as Held, call))
        });
        assert_eq!(answers.iter().collect::<Vec<_>>(), [Status::ERR_TIMEOUT]);
    }

    #[test]
    fn a_refusal_and_a_success_at_once_need_no_callback() {
        for (returned, heard) in
            [(Status::OPERATION_SUCCEEDED, Status::SUCCESS), (Status::ERR_NOT_SUPPORTED, Status::ERR_NOT_SUPPORTED)]
        {
            let (due, answers) = status_due();
            let mut cbdata = std::ptr::null_mut();
            ask(due, || {
                let call = |data| {
                    cbdata = data;
                    returned.to_raw()
                };
                Ok((Box::new(()) as Held, call))
            });
            assert_eq!(answers.iter().collect::<Vec<_>>(), [heard]);
            assert!(!answer(cbdata, Status::SUCCESS));
        }
    }

    /// Regression: the request of a running host function was dropped, and a callback of the host's own process never
    /// came.
    #[test]
    fn a_server_that_ends_answers_everybody_once() {
        let mut slots = Slots::new();
        let mut answers = Vec::new();
        for is_in_upcall in [true, false] {
            let (due, answer) = status_due();
            slots.insert(Pending { due: Some(due), _held: Box::new(()), is_in_upcall });
            answers.push(answer);
        }
        for _ in 0..2 {
            let (dues, _over) = abandoned(&mut slots);
            dues.into_iter().for_each(|due| due.fail(Status::ERR_SERVER_NOT_AVAIL));
        }
        assert_eq!(slots.len(), 1);
        let heard: Vec<Status> = answers.iter().flat_map(|answer| answer.try_iter()).collect();
        assert_eq!(heard, [Status::ERR_SERVER_NOT_AVAIL; 2]);
    }

    #[test]
    fn arguments_live_until_the_function_has_returned_even_when_it_was_answered_before() {
        struct Flag(std::sync::Arc<parking_lot::Mutex<bool>>);
        impl Drop for Flag {
            fn drop(&mut self) {
                *self.0.lock() = true;
            }
        }
        let is_dropped = std::sync::Arc::new(parking_lot::Mutex::new(false));
        let (due, _answers) = status_due();
        let held = Flag(std::sync::Arc::clone(&is_dropped));
        ask(due, || {
            let call = |data| {
                assert!(answer(data, Status::SUCCESS));
                assert!(!*is_dropped.lock());
                Status::SUCCESS.to_raw()
            };
            Ok((Box::new(held) as Held, call))
        });
        assert!(*is_dropped.lock());
    }
}
