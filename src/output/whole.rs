//! Whole lines, and the write of all bytes.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::uio::writev;

/// Writes everything, even if another process has made the descriptor non-blocking. The descriptor is shared with the
/// shell, and a full pipe must not be taken for a broken one.
///
/// All bytes go in one write, so other writers to the same terminal can't come between.
///
/// # Errors
/// The kernel's.
///
/// ```
/// use std::os::fd::AsFd;
///
/// modex::output::write_whole(std::io::stdout().as_fd(), [b"two ", b"parts\n"])?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_whole(out: BorrowedFd<'_>, parts: [&[u8]; 2]) -> io::Result<()> {
    let mut slices = parts.map(IoSlice::new);
    let mut left = slices.as_mut_slice();
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match writev(out, left) {
            Ok(count) => IoSlice::advance_slices(&mut left, count),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => match poll(&mut [PollFd::new(out, PollFlags::POLLOUT)], PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The whole lines, and the beginning of the next one.
///
/// ```
/// assert_eq!(modex::output::split_after_last_line(b"one\ntwo\nth"), (b"one\ntwo\n".as_slice(), b"th".as_slice()));
/// ```
#[must_use]
pub fn split_after_last_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last.saturating_add(1));
    bytes.split_at_checked(end).unwrap_or((bytes, &[]))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn all_bytes_are_written_in_order_though_a_pipe_takes_few_at_once() {
        let (mut reader, writer) = pipe().unwrap();
        let (first, second) = (vec![b'a'; 100_000], vec![b'b'; 200_000]);
        let expected = [first.as_slice(), &second].concat();
        let read = move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map(|_| bytes)
        };
        let reader = std::thread::Builder::new().spawn(read).unwrap();
        write_whole(writer.as_fd(), [&first, &second]).unwrap();
        write_whole(writer.as_fd(), [&[], &[]]).unwrap();
        drop(writer);
        assert_eq!(reader.join().unwrap().unwrap(), expected);
    }
}
