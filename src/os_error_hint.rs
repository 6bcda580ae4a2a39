//! Advice for a person about a refusal of the operating system, for the texts of errors.

use std::io;

use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

/// The system's reason, and the remedy if that does not depend on the attempted call.
pub(crate) fn explain(reason: &io::Error) -> String {
    match reason.raw_os_error().map(Errno::from_raw).and_then(remedy) {
        Some(remedy) => format!("{reason}; {remedy}"),
        None => reason.to_string(),
    }
}

/// As `explain`, after a failed start of a process or thread. There `EAGAIN` means a limit, not a request to try again.
/// A thread needs address space for its stack. Without it, the C library gives the same reason as for too many threads.
pub fn explain_start(reason: &io::Error) -> String {
    match reason.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => {
            format!("{reason}; raise the limit on processes and threads (ulimit -u), or {}", on_address_space())
        }
        _ => explain(reason),
    }
}

/// As `explain`, after a failed mapping of memory: the system gives one reason for three limits.
pub(crate) fn explain_mapping(reason: &io::Error) -> String {
    match reason.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOMEM) => format!(
            "{reason}; raise {}, or the number of mappings of a process (vm.max_map_count, sysctl), or free memory",
            on_address_space()
        ),
        _ => explain(reason),
    }
}

/// Whether the system lacks a resource that a person can free or raise: memory, descriptors, space.
pub(crate) fn is_shortage(reason: &io::Error) -> bool {
    reason.raw_os_error().map(Errno::from_raw).and_then(remedy).is_some()
}

fn remedy(errno: Errno) -> Option<String> {
    match errno {
        Errno::EMFILE => {
            let limit = limit(Resource::RLIMIT_NOFILE);
            let now = limit.map_or_else(String::new, |limit| format!(", which is {limit} (usually 1024 or more)"));
            Some(format!("raise the limit on open files (ulimit -n){now}"))
        }
        Errno::ENFILE => {
            Some("the whole system has too many open files: end some process, or raise fs.file-max (sysctl)".to_owned())
        }
        Errno::ENOSPC | Errno::EDQUOT => Some("make room there, or set TMPDIR to a directory that has room".to_owned()),
        Errno::ENOMEM => Some(format!("free memory, or raise {}", on_address_space())),
        _ => None,
    }
}

/// The limit on address space in words, with its value if there is one.
fn on_address_space() -> String {
    // The shell counts in KiB.
    let limit = limit(Resource::RLIMIT_AS).map(|bytes| bytes / 1024);
    let now = limit.map_or_else(String::new, |limit| format!(", which is {limit} (usually unlimited)"));
    format!("the limit on address space (ulimit -v){now}")
}

/// The value of a limit of this process. `None` if it is unlimited.
fn limit(resource: Resource) -> Option<u64> {
    getrlimit(resource).ok().map(|(soft, _)| soft).filter(|soft| *soft != RLIM_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_caused_by_a_limit_names_the_limit() {
        let explained = |errno: Errno| explain(&io::Error::from(errno));
        for (errno, limit) in [
            (Errno::EMFILE, "(ulimit -n)"),
            (Errno::ENFILE, "fs.file-max"),
            (Errno::ENOSPC, "TMPDIR"),
            (Errno::EDQUOT, "TMPDIR"),
            (Errno::ENOMEM, "(ulimit -v)"),
        ] {
            let text = explained(errno);
            assert!(text.starts_with(&io::Error::from(errno).to_string()) && text.contains(limit), "{text}");
            assert_eq!(explain_start(&io::Error::from(errno)), text);
        }
    }

    #[test]
    fn only_what_can_be_started_is_limited_in_number() {
        let again = io::Error::from(Errno::EAGAIN);
        let text = explain_start(&again);
        assert!(text.contains("(ulimit -u)") && text.contains("(ulimit -v)"), "{text}");
        assert_eq!(explain(&again), again.to_string());
    }

    #[test]
    fn a_mapping_that_fails_names_every_limit_that_may_be_the_cause() {
        let text = explain_mapping(&io::Error::from(Errno::ENOMEM));
        assert!(text.contains("ulimit -v") && text.contains("vm.max_map_count"), "{text}");
        assert_eq!(explain_mapping(&io::Error::from(Errno::EACCES)), explain(&io::Error::from(Errno::EACCES)));
    }

    #[test]
    fn other_reasons_stand_alone() {
        for reason in [io::Error::from(Errno::EACCES), io::Error::other("made up"), io::ErrorKind::WouldBlock.into()] {
            assert_eq!(explain(&reason), reason.to_string());
        }
    }
}
