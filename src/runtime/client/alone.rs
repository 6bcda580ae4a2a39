//! A process without a launcher: a job of one process, without a server.

use std::io;
use std::os::unix::net::UnixStream;

use super::link::Link;
use super::link_state::LinkState;
use super::received::ReceivedData;
use super::session::Session;
use crate::keys;
use crate::proto::{Dialect, RankData};
use crate::ptl::{Stream, StreamLimits};
use crate::runtime::shared::clock::Clock;
use crate::runtime::shared::local::hostname;
use crate::runtime::shared::peer_profile::PeerProfile;
use crate::types::{Key, Kval, Namespace, ProcId, Rank, Value};

/// Makes a session without a server. Its process is `singleton.HOST.PID`, rank 0. The session knows the few certain
/// facts about a job of one; a Get of anything else fails at once.
///
/// # Errors
/// There are no descriptors left.
pub fn alone() -> io::Result<Session> {
    let host = hostname();
    let pid = std::process::id();
    // The host name may not fit into the namespace. The process id alone makes the name unique.
    let namespace = Namespace::new(&format!("singleton.{host}.{pid}"))
        .or_else(|_| Namespace::new(&format!("singleton.{pid}")))
        .map_err(io::Error::other)?;
    alone_as(ProcId::new(namespace, 0))
}

/// As [`alone`], for a process that has a name already.
///
/// # Errors
/// There are no descriptors left.
pub fn alone_as(proc: ProcId) -> io::Result<Session> {
    let host = hostname();
    // The other end is closed when this returns; nothing is ever sent.
    let (socket, _) = UnixStream::pair()?;
    let stream = Stream::new(socket, StreamLimits::default());
    let mut received = ReceivedData::new(host.clone(), Dialect::OWN);
    received.receive(&job_of_one(&proc, &host));
    let state = LinkState::new(stream, proc.clone(), 0, PeerProfile::ours(), received);
    Ok(Session::new(proc.clone(), proc, Some(host), None, Link::new(state, Clock::start())).into_alone())
}

/// The known values of the job and of its process.
pub(super) fn job_of_one(proc: &ProcId, host: &str) -> [RankData; 2] {
    let everyone = ProcId { namespace: proc.namespace.clone(), rank: Rank::Wildcard };
    let of_job = [
        (keys::JOB_SIZE.name(), Value::Uint32(1)),
        (keys::MAX_PROCS.name(), Value::Uint32(1)),
        (keys::HOSTNAME.name(), Value::from(host)),
    ];
    let of_process = [
        (keys::HOSTNAME.name(), Value::from(host)),
        (keys::LOCAL_RANK.name(), Value::Uint16(0)),
        (keys::APPNUM.name(), Value::Uint32(0)),
    ];
    [data_of(everyone, of_job), data_of(proc.clone(), of_process)]
}

fn data_of<const N: usize>(proc: ProcId, entries: [(&'static str, Value); N]) -> RankData {
    let entries = entries.into_iter().map(|(key, value)| Kval { key: Key::from_static(key), value }).collect();
    RankData { proc, entries }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::client::{CallError, FenceDirectives, GetDirectives, GetRequest, LossReason};
    use crate::events::Event;
    use crate::runtime::{EventCall, EventError};
    use crate::types::codes::range::RANGE_PROC_LOCAL;
    use crate::types::{Scope, Status};

    fn get(session: &Session, rank: Rank, key: &'static str) -> Option<Value> {
        let proc = ProcId { namespace: session.proc().namespace.clone(), rank };
        let request =
            GetRequest::new(Some(proc), Some(Key::from_static(key)), GetDirectives::default(), session.proc());
        match session.get(&request.unwrap()) {
            Ok(value) => Some(value.into_value().unwrap()),
            Err(error) => {
                assert!(error.is_not_found(), "{key}: {error}");
                None
            }
        }
    }

    #[test]
    fn a_process_alone_finds_what_is_sure_and_misses_the_rest_at_once() {
        let session = alone().unwrap();
        assert_eq!(get(&session, Rank::Wildcard, "pmix.job.size"), Some(Value::Uint32(1)));
        assert_eq!(get(&session, Rank::Process(0), "pmix.lrank"), Some(Value::Uint16(0)));
        assert_eq!(get(&session, Rank::Process(0), "pmix.appnum"), Some(Value::Uint32(0)));
        assert_eq!(get(&session, Rank::Process(0), "pmix.hname"), Some(Value::from(hostname())));
        assert_eq!(get(&session, Rank::Wildcard, "pmix.univ.size"), None);
        assert_eq!(get(&session, Rank::Process(1), "never.put"), None);
    }

    #[test]
    fn a_process_alone_commits_and_fences_with_itself_and_reaches_nobody_else() {
        let session = alone().unwrap();
        session.put(Scope::Global, "k", Value::Uint32(7)).unwrap();
        session.commit().unwrap();
        assert_eq!(get(&session, Rank::Process(0), "k"), Some(Value::Uint32(7)));
        session.fence(Vec::new(), FenceDirectives::default()).unwrap();
        session.fence(vec![session.proc().clone()], FenceDirectives::default()).unwrap();
        let other = ProcId::new(Namespace::new("other").unwrap(), 0);
        let error = session.fence(vec![other], FenceDirectives::default()).unwrap_err();
        assert!(matches!(error, CallError::Lost { reason: LossReason::Alone, .. }), "{error}");
        assert_eq!(crate::types::AsStatus::status(&error), Status::ERR_UNREACH);
        session.finalize().unwrap();
    }

    /// The callback thread took the program's signals. Signal handlers then ran beside the thread that they were meant
    /// for, or inside a callback. The library's other threads block all signals.
    #[test]
    fn callbacks_run_where_no_signal_is_handled() {
        let session = alone().unwrap();
        let (sender, receiver) = mpsc::channel();
        let job = move || sender.send(nix::sys::signal::SigSet::thread_get_mask().unwrap()).unwrap();
        session.later(job).unwrap();
        let mask = receiver.recv().unwrap();
        assert!(mask.contains(nix::sys::signal::Signal::SIGCHLD) && mask.contains(nix::sys::signal::Signal::SIGALRM));
    }

    /// Python holds its lock while it finalizes, and its callbacks want that lock: a deadlock.
    #[test]
    fn a_callback_that_waits_for_who_closes_the_session_does_not_keep_it() {
        let session = alone().unwrap();
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let job = move || {
            begun.send(()).unwrap();
            end.send(released.recv()).unwrap();
        };
        session.later(job).unwrap();
        has_begun.recv().unwrap();
        session.close();
        release.send(()).unwrap();
        assert_eq!(ended.recv().unwrap(), Ok(()));
    }

    /// Calls begun while another thread closed the session were accepted, but no thread was left to run them.
    #[test]
    fn a_closed_session_refuses_new_calls() {
        let session = alone().unwrap();
        session.close();
        assert!(session.later(|| ()).is_err());
        assert!(session.fence_with(Vec::new(), FenceDirectives::default(), drop).is_err());
        let event = Event { status: Status::MODEL_DECLARED, source: None, range: RANGE_PROC_LOCAL, info: Vec::new() };
        assert!(session.notify_event_with(event, drop).is_err());
    }

    /// Open MPI registers a handler, waits for the callback and declares its model. The event was missed because the
    /// other thread called back before it marked the handler as ready.
    #[test]
    fn a_handler_is_ready_when_its_registration_calls_back() {
        let session = Arc::new(alone().unwrap());
        let (seen, heard) = mpsc::channel();
        let (finished, ended) = mpsc::channel();
        let handler = move |call: EventCall| seen.send(call.status).unwrap();
        let in_callback = Arc::downgrade(&session);
        let done = move |registered: Result<usize, EventError>| {
            registered.unwrap();
            let session = in_callback.upgrade().unwrap();
            let event =
                Event { status: Status::MODEL_DECLARED, source: None, range: RANGE_PROC_LOCAL, info: Vec::new() };
            session.deliver_locally(event);
            finished.send(heard.try_recv()).unwrap();
        };
        crate::runtime::shared::handler_calls::register_with(
            &*session,
            &[Status::MODEL_DECLARED],
            &[],
            Arc::new(handler),
            done,
        )
        .unwrap();
        assert_eq!(ended.recv().unwrap(), Ok(Status::MODEL_DECLARED));
    }
}
