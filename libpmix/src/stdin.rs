//! Standard input of this process, read by the library and pushed to processes (`PMIX_IOF_PUSH_STDIN`).
//!
//! - A thread reads a piece, pushes it, and waits for the answer before it reads the next. So a slow target slows the
//!   source down.
//! - A process that this tool has started itself gets its input by a pipe, without a server.
//! - The end of the input is pushed once, as no bytes. The end of the reading is not: a target keeps its input then.
//! - Descriptor 0 keeps its flags, because other processes share them. The thread reads when there is input.
//! - The thread blocks all signals. A read from the terminal in the background therefore fails instead of stopping the
//!   process. The thread waits until the process is in the foreground again.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use modex::runtime::spawn_thread;
use modex::types::{Info, ProcId, Rank, Status};
use modex::{IofPush, keys};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{getpgrp, isatty, tcgetpgrp};
use parking_lot::{Condvar, Mutex};

use super::call;
use super::child_input::{ChildInput, Written};
use super::process::{self, Member};
use super::server::HOST_PIECE_BYTES;
use super::server_role::ServerRole;
use super::stdin_reading::{Reading, Shared, State, reading, reading_or_new};

/// The request of a push without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StdinDirective {
    /// Read, and push to the targets.
    Begin,
    /// Push no more to the targets.
    End,
    Nothing,
}

impl StdinDirective {
    /// The request in these directives.
    pub(super) fn of(directives: &[Info]) -> Self {
        let value = |name: &str| {
            let found = directives.iter().find(|info| info.key.as_str() == name);
            found.map(|info| info.value.as_bool() == Some(true))
        };
        match (value(keys::IOF_COMPLETE.name()), value(keys::IOF_PUSH_STDIN.name())) {
            (Some(true), _) | (_, Some(false)) => Self::End,
            (_, Some(true)) => Self::Begin,
            _ => Self::Nothing,
        }
    }
}

/// Adds targets, and begins to read if nothing reads yet.
///
/// # Errors
/// `ERR_UNREACH` without a server, and `ERR_OUT_OF_RESOURCE` without a thread.
pub(super) fn begin(targets: Vec<ProcId>, directives: Vec<Info>) -> Result<(), Status> {
    let is_alone = matches!(process::member()?, Member::Client(client) if client.is_alone());
    if is_alone && take_children(&mut targets.clone()).is_empty() {
        return Err(Status::ERR_UNREACH);
    }
    let mut reading = reading_or_new().lock();
    if let Some(reading) = &*reading {
        let mut state = reading.shared.state.lock();
        if !state.is_closed && !state.targets.is_empty() {
            let new = targets.into_iter().filter(|target| !state.targets.contains(target)).collect::<Vec<_>>();
            state.targets.extend(new);
            return Ok(());
        }
    }
    let (waker, wakened) = UnixStream::pair().map_err(|_| Status::ERR_OUT_OF_RESOURCE)?;
    let state = Mutex::new(State { targets, ..State::default() });
    let shared = Arc::new(Shared { state, changed: Condvar::new(), directives });
    let of_thread = Arc::clone(&shared);
    let started = spawn_thread("modex-stdin", move || {
        read_and_push(&of_thread, &wakened);
        let mut state = of_thread.state.lock();
        (state.is_closed, state.is_over) = (true, true);
        drop(state);
        of_thread.changed.notify_all();
    });
    let thread = started.map_err(|error| {
        tracing::error!(%error, "no thread can be started to read standard input");
        Status::ERR_OUT_OF_RESOURCE
    })?;
    *reading = Some(Reading { shared, waker, thread: thread.thread().id() });
    Ok(())
}

/// Ends the pushing to these targets; to all if none are named. Without targets the reading ends.
pub(super) fn end_for(targets: &[ProcId]) {
    let Some(reading) = reading() else { return };
    let is_last = reading.lock().as_ref().is_some_and(|reading| {
        let mut state = reading.shared.state.lock();
        state.targets.retain(|target| !targets.is_empty() && !targets.contains(target));
        state.targets.is_empty()
    });
    if is_last {
        end();
    }
}

/// Reads no further piece. A running push may go on.
pub(super) fn stop() {
    if let Some(reading) = reading()
        && let Some(reading) = &mut *reading.lock()
    {
        reading.stop();
    }
}

/// Ends the reading. A running push may go on; no further piece is read.
pub(super) fn end() {
    let Some(mut reading) = reading().and_then(|reading| reading.lock().take()) else { return };
    reading.stop();
    if std::thread::current().id() == reading.thread {
        // A function of the host, which the thread itself has called.
        return;
    }
    let mut state = reading.shared.state.lock();
    while !state.is_over {
        if reading.shared.changed.wait_for(&mut state, END_TIME_MAX).timed_out() {
            return;
        }
    }
}

fn read_and_push(shared: &Shared, wakened: &UnixStream) {
    let stdin = std::io::stdin();
    let mut piece = Vec::new();
    let mut has_warned = false;
    loop {
        piece.resize(piece_bytes(), 0);
        let size_bytes = match read(stdin.as_fd(), wakened, &mut piece) {
            Input::Bytes(size_bytes) => size_bytes,
            Input::Over => return,
        };
        let targets = {
            let mut state = shared.state.lock();
            state.is_closed = size_bytes == 0;
            state.targets.clone()
        };
        let bytes = piece.get(..size_bytes).unwrap_or_default();
        let Some((others, reader_count)) = write_to_children(targets.clone(), bytes, wakened) else { return };
        if others.is_empty() {
            if size_bytes > 0 && (reader_count > 0 || has_others(shared, &targets)) {
                continue;
            }
            return;
        }
        let targets = others;
        let is_single = matches!(targets.as_slice(), [target] if target.rank != Rank::Wildcard);
        let pushed = call::run(IofPush::new(targets, shared.directives.clone(), bytes.to_vec()).into()).map(drop);
        if size_bytes == 0 {
            return;
        }
        match after(pushed, is_single, wakened) {
            Next::Read => {}
            Next::ReadAfterLoss(status) => {
                if !std::mem::replace(&mut has_warned, true) {
                    tracing::warn!(%status, "a piece of standard input has not reached all targets");
                }
            }
            Next::End => return,
        }
    }
}

/// Size of the largest piece, in bytes.
fn piece_bytes() -> usize {
    match process::member() {
        Ok(Member::Client(client)) => client.push_bytes_max(),
        _ => HOST_PIECE_BYTES,
    }
}

/// The server in this process, also of a tool whose primary server is another one.
fn own_server() -> Option<Arc<dyn ServerRole>> {
    process::read(|state| state.server.clone())
}

/// Takes the processes that this tool has started itself out of the targets. Returns their inputs that are open.
fn take_children(targets: &mut Vec<ProcId>) -> Vec<(ProcId, Arc<ChildInput>)> {
    own_server().map_or_else(Vec::new, |server| server.take_child_inputs(targets))
}

/// Forgets targets that read no more. Returns whether others have come meanwhile; if not, a later push begins anew.
fn has_others(shared: &Shared, gone: &[ProcId]) -> bool {
    let mut state = shared.state.lock();
    state.targets.retain(|target| !gone.contains(target));
    state.is_closed = state.targets.is_empty();
    !state.is_closed
}

/// Writes to the processes that this tool has started itself. No bytes end their input. Returns the other targets, and
/// the number of processes that have taken the bytes. `None`: nothing more is wanted.
fn write_to_children(mut targets: Vec<ProcId>, bytes: &[u8], wakened: &UnixStream) -> Option<(Vec<ProcId>, usize)> {
    let mut reader_count = 0;
    for (proc, input) in take_children(&mut targets) {
        match input.write(bytes, wakened) {
            Written::Stopped => return None,
            Written::All if !bytes.is_empty() => reader_count += 1,
            Written::All | Written::Gone => {
                if let Some(server) = own_server() {
                    server.close_child_input(&proc);
                }
            }
        }
    }
    Some((targets, reader_count))
}

/// The way on after a push.
enum Next {
    Read,
    /// Input is lost.
    ReadAfterLoss(Status),
    End,
}

fn after(pushed: Result<(), Status>, is_single: bool, wakened: &UnixStream) -> Next {
    let Err(status) = pushed else { return Next::Read };
    // A pause: the host has taken the piece. The next one waits.
    let time = if status == Status::ERR_IOF_XOFF { PAUSE } else { Duration::ZERO };
    if is_wakened(wakened, time) || status == Status::ERR_IOF_COMPLETE {
        return Next::End;
    }
    if status == Status::ERR_IOF_XOFF {
        return Next::Read;
    }
    let member = process::member();
    // The input of other targets goes on: a host answers for all of them together.
    let is_passing = matches!(member, Ok(Member::Server(_)))
        && !is_single
        && ![Status::ERR_NOT_SUPPORTED, Status::ERR_INIT].contains(&status);
    if is_passing {
        return Next::ReadAfterLoss(status);
    }
    tracing::error!(%status, "standard input is no longer forwarded: a push has failed; check that the targets exist");
    if let Ok(Member::Client(client)) = member {
        client.deliver_locally(Status::ERR_IOF_FAILURE, Some(client.proc()), &[]);
    }
    Next::End
}

enum Input {
    /// So many bytes; none at the end of the input.
    Bytes(usize),
    /// Nothing more is wanted.
    Over,
}

/// Waits for input and reads it.
fn read(stdin: BorrowedFd<'_>, wakened: &UnixStream, piece: &mut [u8]) -> Input {
    loop {
        let mut wanted = [PollFd::new(wakened.as_fd(), PollFlags::POLLIN), PollFd::new(stdin, PollFlags::POLLIN)];
        if must_wait(stdin) {
            if is_wakened(wakened, WAITING_LOOK) {
                return Input::Over;
            }
            continue;
        }
        if poll(&mut wanted, PollTimeout::NONE).is_err() {
            continue;
        }
        let [wake, input] = wanted.map(|wanted| wanted.revents().unwrap_or(PollFlags::empty()));
        if !wake.is_empty() {
            return Input::Over;
        }
        if input.is_empty() || must_wait(stdin) {
            continue;
        }
        match nix::unistd::read(stdin, piece) {
            Ok(size_bytes) => return Input::Bytes(size_bytes),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            // The process went to the background meanwhile.
            Err(Errno::EIO) if is_in_background(stdin) => {}
            // A closed or broken input is at its end.
            Err(_) => return Input::Bytes(0),
        }
    }
}

fn is_wakened(wakened: &UnixStream, time: Duration) -> bool {
    let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
    poll(&mut [PollFd::new(wakened.as_fd(), PollFlags::POLLIN)], time).is_ok_and(|count| count > 0)
}

/// Whether nothing may be read now: the process is in the background, or its host has asked for a pause.
fn must_wait(stdin: BorrowedFd<'_>) -> bool {
    let is_paused = || own_server().is_some_and(|server| server.pauses_own_input());
    is_in_background(stdin) || is_paused()
}

/// Whether descriptor 0 is the terminal of another process group.
fn is_in_background(stdin: BorrowedFd<'_>) -> bool {
    isatty(stdin) == Ok(true) && tcgetpgrp(stdin).is_ok_and(|foreground| foreground != getpgrp())
}

/// Time between two looks whether the input may be read.
const WAITING_LOOK: Duration = Duration::from_millis(250);
/// Time until the next push after the host asked for a pause.
const PAUSE: Duration = Duration::from_millis(250);
/// Time that a finalize waits for the thread, which may wait for the host's answer.
const END_TIME_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use modex::types::Key;

    use super::*;

    /// Regression: a forked child waited for the lock of a parent's thread, and its end ended the parent's reading.
    #[test]
    fn a_forked_child_leaves_its_parents_reading_alone() {
        // The first look at the state watches forks.
        let _ = process::member();
        let (waker, wakened) = UnixStream::pair().unwrap();
        let state = Mutex::new(State {
            targets: vec![ProcId::new(modex::types::Namespace::new("job").unwrap(), 0)],
            ..State::default()
        });
        let shared = Arc::new(Shared { state, changed: Condvar::new(), directives: Vec::new() });
        let mut reading = reading_or_new().lock();
        *reading = Some(Reading { shared, waker, thread: std::thread::current().id() });
        // SAFETY: the child ends the reading that it has, and itself.
        match unsafe { nix::unistd::fork() }.unwrap() {
            nix::unistd::ForkResult::Child => {
                stop();
                end_for(&[]);
                end();
                // SAFETY: takes any number.
                unsafe { nix::libc::_exit(0) }
            }
            nix::unistd::ForkResult::Parent { child } => {
                let ended = || nix::sys::wait::waitpid(child, Some(nix::sys::wait::WaitPidFlag::WNOHANG)).unwrap();
                let mut looks = 0..1000;
                while ended() == nix::sys::wait::WaitStatus::StillAlive {
                    assert!(looks.next().is_some(), "the child hangs");
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
        assert!(!is_wakened(&wakened, Duration::ZERO));
        *reading = None;
    }

    /// Regression: the reading ended with the last target of its beginning. Targets that came meanwhile got nothing.
    #[test]
    fn the_reading_goes_on_for_targets_that_have_come_meanwhile() {
        let [first, second] =
            ["first", "second"].map(|name| ProcId::new(modex::types::Namespace::new(name).unwrap(), 0));
        let state = Mutex::new(State { targets: vec![first.clone(), second.clone()], ..State::default() });
        let shared = Shared { state, changed: Condvar::new(), directives: Vec::new() };
        assert!(has_others(&shared, &[first]));
        assert!(!shared.state.lock().is_closed);
        assert!(!has_others(&shared, &[second]));
        assert!(shared.state.lock().is_closed, "a later push begins anew");
    }

    #[test]
    fn directives_begin_and_end_the_reading() {
        let of = |given: &[(&'static str, bool)]| {
            let infos: Vec<Info> = given.iter().map(|&(key, value)| Info::new(Key::from_static(key), value)).collect();
            StdinDirective::of(&infos)
        };
        let (push, complete) = (keys::IOF_PUSH_STDIN.name(), keys::IOF_COMPLETE.name());
        assert_eq!(of(&[(push, true)]), StdinDirective::Begin);
        assert_eq!(of(&[(push, false)]), StdinDirective::End);
        assert_eq!(of(&[(complete, true)]), StdinDirective::End);
        assert_eq!(of(&[(push, true), (complete, true)]), StdinDirective::End);
        assert_eq!(of(&[(complete, false)]), StdinDirective::Nothing);
        assert_eq!(of(&[]), StdinDirective::Nothing);
    }
}
