//! What a person can do about a refusal of the operating system, for the texts of errors.

use std::io;

use nix::errno::Errno;

/// The system's reason, and what to do about it where that is the same whatever was tried.
pub(crate) fn explain(reason: &io::Error) -> String {
    match reason.raw_os_error().map(Errno::from_raw).and_then(remedy) {
        Some(remedy) => format!("{reason}; {remedy}"),
        None => reason.to_string(),
    }
}

const fn remedy(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::EMFILE => Some("raise the limit on open files (ulimit -n)"),
        Errno::ENFILE => {
            Some("the whole system has too many open files: end some process, or raise fs.file-max (sysctl)")
        }
        Errno::ENOSPC | Errno::EDQUOT => Some("make room there, or set TMPDIR to a directory that has room"),
        Errno::ENOMEM => Some("free memory, or raise the limit on address space (ulimit -v)"),
        Errno::EAGAIN => Some("raise the limit on processes and threads (ulimit -u)"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_limit_has_caused_is_said_with_the_limit() {
        let explained = |errno: Errno| explain(&io::Error::from(errno));
        for (errno, limit) in [
            (Errno::EMFILE, "(ulimit -n)"),
            (Errno::ENOSPC, "TMPDIR"),
            (Errno::EDQUOT, "TMPDIR"),
            (Errno::EAGAIN, "(ulimit -u)"),
        ] {
            let text = explained(errno);
            assert!(text.starts_with(&io::Error::from(errno).to_string()) && text.contains(limit), "{text}");
        }
    }

    #[test]
    fn other_reasons_stand_alone() {
        for reason in [io::Error::from(Errno::EACCES), io::Error::other("made up"), io::ErrorKind::WouldBlock.into()] {
            assert_eq!(explain(&reason), reason.to_string());
        }
    }
}
