//! Stands between a process and the kernel, and fails some of its system calls.

use std::collections::BTreeMap;
use std::fs::read_link;

use nix::errno::Errno;
use nix::libc::{SYS_getppid, SYS_poll, SYS_readv, SYS_recvmsg, SYS_sendmsg, SYS_writev};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use crate::faults::{Call, Fault, What};

/// The result of a traced run.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    /// Calls that the fault could affect.
    pub(crate) concerned: usize,
    pub(crate) struck: Option<Struck>,
}

/// The affected calls.
#[derive(Debug)]
pub(crate) struct Struck {
    pub(crate) first: Call,
    /// The object of the first call.
    pub(crate) object: String,
    pub(crate) last: Call,
}

/// A traced thread.
#[derive(Debug, Default)]
struct Thread {
    /// Whether its present calls are exempt. The thread switches this itself; other threads never do.
    is_exempt: bool,
    /// It has become another program, but none of that program's own code has run. The dynamic linker can handle
    /// neither interruptions nor failures.
    is_loading: bool,
    is_inside: bool,
    on_return: Option<OnReturn>,
}

/// The action when a call returns.
#[derive(Debug)]
enum OnReturn {
    Fail(Errno),
    /// Restores the words that were there before a transfer was shortened.
    Restore {
        address: u64,
        word: i64,
        count: Option<(u64, i64)>,
    },
}

pub(crate) struct Tracer {
    leader: Pid,
    fault: Fault,
    threads: BTreeMap<Pid, Thread>,
    traced: Traced,
}

impl Tracer {
    /// Takes over a thread that requested tracing and has stopped itself. Call this, like everything else, on the
    /// thread that started the process.
    pub(crate) fn take(leader: Pid, fault: Fault) -> Self {
        assert_eq!(waitpid(leader, Some(WaitPidFlag::__WALL)), Ok(WaitStatus::Stopped(leader, Signal::SIGSTOP)));
        let traced = Traced::default();
        let first = Thread { is_exempt: true, ..Thread::default() };
        Self { leader, fault, threads: BTreeMap::from([(leader, first)]), traced }
    }

    fn begin(&self, further: ptrace::Options) {
        let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_EXITKILL | further;
        ptrace::setoptions(self.leader, options).unwrap();
        self.go_on(self.leader, None);
    }

    /// Runs until the thread has ended. It starts no other threads.
    pub(crate) fn run_alone(mut self) -> Traced {
        self.begin(ptrace::Options::empty());
        while let Ok(status) = waitpid(self.leader, Some(WaitPidFlag::__WALL)) {
            if matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)) {
                break;
            }
            self.step(status);
        }
        self.traced
    }

    /// Runs until the process has ended, with all threads that it starts, and all programs that it becomes. The caller
    /// waits for the process, which is the only child of this thread.
    pub(crate) fn run(mut self, process: Pid) -> Traced {
        self.begin(ptrace::Options::PTRACE_O_TRACECLONE | ptrace::Options::PTRACE_O_TRACEEXEC);
        let any = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        let looks = any | WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT;
        while let Ok(status) = waitid(Id::All, looks) {
            let pid = status.pid().unwrap();
            if pid == process && matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)) {
                break;
            }
            // A killed thread may not be ready: its leader can be waited for only after all its threads.
            let status = waitpid(pid, Some(any | WaitPidFlag::WNOHANG)).unwrap();
            self.step(status);
        }
        self.traced
    }

    fn step(&mut self, status: WaitStatus) {
        match status {
            WaitStatus::PtraceSyscall(thread) => {
                self.at_the_border(thread);
                self.go_on(thread, None);
            }
            // Another program. The call that started it has not returned yet.
            WaitStatus::PtraceEvent(thread, _, event) if event == ptrace::Event::PTRACE_EVENT_EXEC as i32 => {
                self.threads =
                    BTreeMap::from([(thread, Thread { is_inside: true, is_loading: true, ..Thread::default() })]);
                self.go_on(thread, None);
            }
            WaitStatus::PtraceEvent(thread, ..) => self.go_on(thread, None),
            // The first stop of a new thread; its parent's event may come later.
            WaitStatus::Stopped(thread, Signal::SIGSTOP) if !self.threads.contains_key(&thread) => {
                self.threads.insert(thread, Thread::default());
                self.go_on(thread, None);
            }
            WaitStatus::Stopped(thread, signal) => self.go_on(thread, Some(signal)),
            _ => {}
        }
    }

    /// Fails for a thread that was killed meanwhile.
    fn go_on(&self, thread: Pid, signal: Option<Signal>) {
        unless_killed(ptrace::syscall(thread, signal));
    }

    fn at_the_border(&mut self, id: Pid) {
        let Ok(mut registers) = ptrace::getregs(id) else { return };
        let thread = self.threads.entry(id).or_default();
        thread.is_inside = !thread.is_inside;
        if !thread.is_inside {
            match thread.on_return.take() {
                Some(OnReturn::Fail(errno)) => {
                    registers.rax = (-i64::from(errno as i32)).cast_unsigned();
                    unless_killed(ptrace::setregs(id, registers));
                }
                Some(OnReturn::Restore { address, word, count }) => {
                    for (address, word) in [(address, word)].into_iter().chain(count) {
                        unless_killed(ptrace::write(id, address as ptrace::AddressType, word));
                    }
                }
                None => {}
            }
            return;
        }
        let number = registers.orig_rax.cast_signed();
        if number == SYS_getppid {
            thread.is_exempt = !thread.is_exempt;
            return;
        }
        // The first call of the standard library.
        thread.is_loading &= number != SYS_poll;
        let call = Call { number, args: [registers.rdi, registers.rsi, registers.rdx] };
        let descriptor = format!("/proc/{id}/fd/{}", call.args[0]);
        let leads_to = || read_link(&descriptor).map_or_else(|_| String::new(), |to| to.display().to_string());
        if thread.is_exempt || thread.is_loading || !self.fault.what.fits(&call, leads_to) {
            return;
        }
        let object = || call.object(leads_to, |address| text_at(id, address));
        if self.fault.aim.is_some_and(|aim| aim.call != number || !object().contains(aim.object)) {
            return;
        }
        let place = self.traced.concerned;
        self.traced.concerned += 1;
        if place < self.fault.at || place - self.fault.at >= self.fault.extent.times() {
            return;
        }
        let about = if self.traced.struck.is_none() { object() } else { String::new() };
        match self.fault.what {
            What::Error(errno) => {
                thread.on_return = Some(OnReturn::Fail(errno));
                registers.orig_rax = u64::MAX;
                unless_killed(ptrace::setregs(id, registers));
            }
            What::Short => thread.on_return = shorten(id, &call, registers),
            // Kills all its threads; the call is not made.
            What::Kill => drop(kill(id, Signal::SIGKILL)),
        }
        match &mut self.traced.struck {
            Some(struck) => struck.last = call,
            none => *none = Some(Struck { object: about, first: call.clone(), last: call }),
        }
    }
}

/// The text at an address of a traced process, as far as it is readable.
fn text_at(id: Pid, address: u64) -> String {
    let word_at = |address: u64| ptrace::read(id, address as ptrace::AddressType).ok();
    let words = (0..PATH_WORDS_MAX).map_while(|word| word_at(address.checked_add(word * 8)?));
    let bytes = words.flat_map(i64::to_ne_bytes).take_while(|&byte| byte != 0).collect::<Vec<_>>();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The longest path that the kernel takes.
const PATH_WORDS_MAX: u64 = 4096 / 8;

/// A thread can be killed at any moment by a fault in another thread, or by the end of its group. This can happen even
/// between its stop and the action.
fn unless_killed<T>(result: nix::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Errno::ESRCH) => None,
        Err(error) => panic!("a traced thread: {error}"),
    }
}

/// Shortens a transfer to one byte.
fn shorten(id: Pid, call: &Call, mut registers: nix::libc::user_regs_struct) -> Option<OnReturn> {
    let read = |address: u64| unless_killed(ptrace::read(id, address as ptrace::AddressType));
    let write = |address: u64, word: i64| unless_killed(ptrace::write(id, address as ptrace::AddressType, word));
    let length_of = |vector: u64| vector + 8;
    let is = |numbers: &[i64]| numbers.contains(&call.number);
    let (vector, count) = if is(&[SYS_recvmsg, SYS_sendmsg]) {
        let (vector, count) = (read(call.args[1] + 16)?.cast_unsigned(), read(call.args[1] + 24)?);
        write(call.args[1] + 24, count.min(1))?;
        (vector, Some((call.args[1] + 24, count)))
    } else {
        registers.rdx = registers.rdx.min(1);
        unless_killed(ptrace::setregs(id, registers))?;
        if !is(&[SYS_readv, SYS_writev]) {
            return None;
        }
        (call.args[1], None)
    };
    let word = read(length_of(vector))?;
    write(length_of(vector), word.min(1))?;
    Some(OnReturn::Restore { address: length_of(vector), word, count })
}
