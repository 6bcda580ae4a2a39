//! The descriptors 0 to 2 of the program.
//!
//! A program may start without standard input or output. The kernel then gives one of these numbers to the next file or
//! socket, and the program's prints go there.

use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, IntoRawFd};

/// Puts `/dev/null` in the place of each closed descriptor, before the library opens any. It is open for the other
/// direction only, so that reads and writes fail as before. Other programs that this one becomes do not inherit it.
pub(super) fn occupy_closed() {
    for (number, is_input) in [(0, true), (1, false), (2, false)] {
        // SAFETY: the call takes any number, and asks for the flags of the descriptor.
        if unsafe { nix::libc::fcntl(number, nix::libc::F_GETFD) } != -1 {
            continue;
        }
        let opened = OpenOptions::new().write(is_input).read(!is_input).open("/dev/null");
        match opened {
            // The program owns it from now on.
            Ok(file) if file.as_raw_fd() == number => drop(file.into_raw_fd()),
            // Another thread was faster.
            Ok(_) => {}
            Err(error) => tracing::warn!(number, %error, "a closed standard descriptor can't be occupied by /dev/null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    use super::*;

    /// Regression: the socket to the server became descriptor 1, and the program printed into it.
    #[test]
    fn the_next_descriptor_of_a_process_without_output_is_above_2() {
        // SAFETY: the child closes and opens descriptors, and ends.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                // SAFETY: the descriptors belong to this process, and nothing is printed.
                let closed = [0, 1].map(|number| unsafe { nix::libc::close(number) });
                occupy_closed();
                let next = OpenOptions::new().read(true).open("/dev/null").map(IntoRawFd::into_raw_fd);
                // SAFETY: the descriptor is open, and so is the byte.
                let written = unsafe { nix::libc::write(1, c"x".as_ptr().cast(), 1) };
                let is_right = closed == [0, 0] && next.is_ok_and(|next| next > 2) && written == -1;
                // SAFETY: takes any number.
                unsafe { nix::libc::_exit(i32::from(!is_right)) }
            }
            ForkResult::Parent { child } => assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0)),
        }
    }
}
