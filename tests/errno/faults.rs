//! The faults: which error, at which system calls, how often.

use std::fmt;
use std::str::FromStr;

use nix::errno::Errno;

/// An error of a system call, a transfer of one byte, or the end of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Error(Errno),
    Short,
    Kill,
}

/// How many calls are affected, from the chosen one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Once,
    /// As many as during a signal or a full buffer, which pass.
    Often,
    ForGood,
}

/// One fault: at the `at`-th of the calls that it could affect, or of those with its aim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) what: What,
    pub(crate) extent: Extent,
    pub(crate) at: usize,
    pub(crate) aim: Option<Aim>,
}

/// Calls that are chosen by their purpose, because their positions change with every library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aim {
    pub(crate) call: nix::libc::c_long,
    /// A part of the text of [`Call::object`].
    pub(crate) object: &'static str,
}

/// A kind of fault, and its extents.
pub(crate) type Kind = (What, &'static [Extent]);

/// All kinds. Interruptions never last for ever. The first kind is about creating files; a role without files leaves it
/// out.
pub(crate) const KINDS: [Kind; 8] = [
    (What::Error(Errno::ENOSPC), &[Extent::Once, Extent::ForGood]),
    (What::Error(Errno::ENOMEM), &[Extent::Once, Extent::ForGood]),
    (What::Error(Errno::EMFILE), &[Extent::Once, Extent::ForGood]),
    (What::Error(Errno::ECONNRESET), &[Extent::Once, Extent::ForGood]),
    (What::Error(Errno::EINTR), &[Extent::Once, Extent::Often]),
    (What::Error(Errno::EAGAIN), &[Extent::Once, Extent::Often]),
    (What::Short, &[Extent::Once, Extent::ForGood]),
    (What::Kill, &[Extent::Once]),
];

impl What {
    /// Whether it must have no effect: nothing is lost, and the call can be repeated.
    pub(crate) const fn is_harmless(self) -> bool {
        matches!(self, Self::Error(Errno::EINTR | Errno::EAGAIN) | Self::Short)
    }

    /// Whether the kernel may give this error for this call. `leads_to`: the object of the call's first argument, a
    /// descriptor.
    pub(crate) fn fits(self, call: &Call, leads_to: impl FnOnce() -> String) -> bool {
        use nix::libc::*;
        let number = call.number;
        let is = |numbers: &[c_long]| numbers.contains(&number);
        let transfers =
            [SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_recvfrom, SYS_sendto, SYS_recvmsg, SYS_sendmsg];
        match self {
            Self::Error(Errno::ENOSPC) => {
                let creates = number == SYS_openat && call.args[2] & 0o100 != 0;
                creates
                    || is(&[SYS_fallocate, SYS_ftruncate, SYS_mkdir, SYS_mkdirat, SYS_symlink, SYS_link, SYS_linkat])
            }
            Self::Error(Errno::ENOMEM) => is(&[
                SYS_mmap,
                SYS_mremap,
                SYS_mprotect,
                SYS_memfd_create,
                SYS_socket,
                SYS_connect,
                SYS_sendmsg,
                SYS_recvmsg,
                SYS_sendto,
                SYS_recvfrom,
                SYS_epoll_create1,
                SYS_epoll_ctl,
                SYS_eventfd2,
                SYS_accept4,
                SYS_clone,
                SYS_clone3,
                SYS_poll,
                SYS_openat,
                SYS_bind,
                SYS_mkdir,
                SYS_fallocate,
                SYS_statx,
                SYS_flock,
            ]),
            Self::Error(Errno::EMFILE) => {
                let copies =
                    number == SYS_fcntl && matches!(c_int::try_from(call.args[1]), Ok(F_DUPFD | F_DUPFD_CLOEXEC));
                copies
                    || is(&[
                        SYS_openat,
                        SYS_memfd_create,
                        SYS_socket,
                        SYS_accept4,
                        SYS_epoll_create1,
                        SYS_eventfd2,
                        SYS_dup,
                        SYS_socketpair,
                        SYS_pipe2,
                    ])
            }
            Self::Error(Errno::EINTR) => {
                let waits = number == SYS_futex && matches!(call.args[1] & 0x7f, 0 | 9);
                waits
                    || is(&transfers)
                    || is(&[SYS_poll, SYS_ppoll, SYS_epoll_wait, SYS_epoll_pwait, SYS_connect, SYS_accept4, SYS_openat])
                    || is(&[SYS_flock, SYS_fallocate, SYS_clock_nanosleep, SYS_ftruncate])
            }
            Self::Error(Errno::EAGAIN) => {
                number == SYS_accept4 || (is(&transfers) && leads_to().starts_with("socket:"))
            }
            Self::Error(_) => is(&transfers) && leads_to().starts_with("socket:"),
            Self::Kill => true,
            // Other descriptors transfer all bytes or none.
            Self::Short => is(&transfers) && leads_to().starts_with("socket:"),
        }
    }
}

/// A system call before its execution.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) number: i64,
    pub(crate) args: [u64; 3],
}

impl Call {
    /// The object of the call. `leads_to`: the object of its first argument, a descriptor; `text_at`: the text at an
    /// address of its process.
    pub(crate) fn object(&self, leads_to: impl FnOnce() -> String, text_at: impl FnOnce(u64) -> String) -> String {
        use nix::libc::*;
        let [first, second, third] = self.args;
        let is = |numbers: &[c_long]| numbers.contains(&self.number);
        let path = match () {
            () if is(&[SYS_openat, SYS_mkdirat, SYS_statx]) => text_at(second),
            () if is(&[SYS_mkdir, SYS_memfd_create]) => text_at(first),
            () if is(&[SYS_poll]) => format!("for {third} ms"),
            () if is(&[SYS_read, SYS_write, SYS_recvfrom, SYS_sendto]) => format!("{third} bytes of "),
            () => String::new(),
        };
        // A path relative to a descriptor may be empty.
        if path.is_empty() || path.ends_with(" of ") { path + &leads_to() } else { path }
    }

    /// Whether its failure may end the process: the allocator needs memory, and no code can go on without.
    pub(crate) fn is_for_the_heap(&self) -> bool {
        matches!(self.number, nix::libc::SYS_mmap | nix::libc::SYS_mremap | nix::libc::SYS_mprotect)
    }
}

impl Extent {
    pub(crate) const fn times(self) -> usize {
        match self {
            Self::Once => 1,
            Self::Often => 20,
            Self::ForGood => usize::MAX,
        }
    }
}

/// The form of `MODEX_FAULT`: `EMFILE:once:17`; the aim stands behind that.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::Error(errno) => write!(f, "{errno:?}")?,
            What::Short => f.write_str("SHORT")?,
            What::Kill => f.write_str("KILL")?,
        }
        let extent = match self.extent {
            Extent::Once => "once",
            Extent::Often => "often",
            Extent::ForGood => "forgood",
        };
        write!(f, ":{extent}:{}", self.at)?;
        self.aim.map_or(Ok(()), |Aim { call, object }| write!(f, " of the calls {call} about {object:?}"))
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let of_kind = |(what, extents): &Kind| {
            let what = *what;
            extents.iter().map(move |extent| Self { what, extent: *extent, at: 0, aim: None })
        };
        let all = KINDS.iter().flat_map(of_kind);
        let (kind, at) = text.rsplit_once(':').ok_or("KIND:EXTENT:AT")?;
        let at = at.parse().map_err(|_| format!("{at:?} is not a number"))?;
        let mut named = all.filter(|fault| fault.to_string().rsplit_once(':').is_some_and(|(name, _)| name == kind));
        named.next().map(|fault| Self { at, ..fault }).ok_or_else(|| format!("{kind:?} is not a kind of fault"))
    }
}
