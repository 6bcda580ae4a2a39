//! Standard input of ranks: pipes that the launcher's own input and processes (`PMIx_IOF_push`) fill.
//!
//! A pipe never blocks the launcher's loop. Pushed bytes wait here until the rank reads, up to a bound.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;

use super::children::set_nonblocking;
use super::poller::Poller;
use super::rank_id::RankId;

/// Pushed bytes of one rank that wait. A single push may exceed it once.
const QUEUED_BYTES_MAX: usize = 64 * 1024;

/// The write end of a rank's input. It closes for all of its owners at once.
#[derive(Clone, Debug)]
pub(super) struct InputPipe(Arc<Mutex<SharedPipe>>);

#[derive(Debug)]
struct SharedPipe {
    /// `None`: closed.
    fd: Option<Arc<OwnedFd>>,
    /// Whether pushed bytes wait.
    has_queue: bool,
    /// Whether it closes when no pushed bytes wait any more.
    is_finished: bool,
}

impl InputPipe {
    /// A pipe that does not block.
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
        set_nonblocking(pipe.as_fd())?;
        let shared = SharedPipe { fd: Some(Arc::new(pipe)), has_queue: false, is_finished: false };
        Ok(Self(Arc::new(Mutex::new(shared))))
    }

    /// Writes all bytes and waits for room. Fails if the pipe is closed, or the rank has closed its end.
    pub(super) fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let pipe = self.pipe().ok_or(io::ErrorKind::BrokenPipe)?;
            match nix::unistd::write(&pipe, bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => wait_for_room(pipe.as_fd())?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Ends the rank's input.
    pub(super) fn close(&self) {
        drop(self.0.lock().fd.take());
    }

    /// Ends the rank's input behind the pushed bytes that wait.
    pub(super) fn finish(&self) {
        let mut shared = self.0.lock();
        shared.is_finished = true;
        if !shared.has_queue {
            drop(shared.fd.take());
        }
    }

    /// Notes whether pushed bytes wait. Returns whether the input is finished.
    fn note_queue(&self, has_queue: bool) -> bool {
        let mut shared = self.0.lock();
        shared.has_queue = has_queue;
        shared.is_finished
    }

    fn pipe(&self) -> Option<Arc<OwnedFd>> {
        self.0.lock().fd.clone()
    }

    fn is_ended(&self) -> bool {
        let shared = self.0.lock();
        shared.is_finished || shared.fd.is_none()
    }
}

/// Waits a while for room, so that a pipe that is closed meanwhile is noticed.
fn wait_for_room(pipe: BorrowedFd<'_>) -> io::Result<()> {
    match poll(&mut [PollFd::new(pipe, PollFlags::POLLOUT)], PollTimeout::from(CLOSED_NOTICED_MS)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// How long the thread of the launcher's own input waits for room before it looks whether the pipe is closed.
const CLOSED_NOTICED_MS: u16 = 500;

/// The state of a rank's input for pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputState {
    /// The rank has no pipe.
    Missing,
    /// Its input has ended.
    Ended,
    /// Its queue is full.
    Full,
    /// The input takes bytes.
    Open,
}

/// The inputs of all running ranks that have a pipe.
#[derive(Debug, Default)]
pub(super) struct RankInputs(BTreeMap<RankId, RankInput>);

/// One rank's input.
#[derive(Debug)]
struct RankInput {
    pipe: InputPipe,
    queue: VecDeque<Arc<[u8]>>,
    /// Bytes of the first entry that were written.
    written: usize,
    queued_bytes: usize,
    /// Whether the input ends after the queue.
    is_ending: bool,
    /// Whether the loop waits for room in the pipe.
    is_watched: bool,
}

impl RankInputs {
    /// A rank with a pipe has started.
    pub(super) fn insert(&mut self, rank: RankId, pipe: InputPipe) {
        let (queue, written, queued_bytes) = (VecDeque::new(), 0, 0);
        self.0.insert(rank, RankInput { pipe, queue, written, queued_bytes, is_ending: false, is_watched: false });
    }

    /// A rank has ended.
    pub(super) fn remove(&mut self, rank: RankId, poller: &Poller) {
        if let Some(mut input) = self.0.remove(&rank) {
            input.end(poller);
        }
    }

    /// Ends the inputs of a job behind the pushed bytes that wait.
    pub(super) fn finish(&self, job: u32) {
        let of_job = RankId { job, rank: 0 }..=RankId { job, rank: u32::MAX };
        self.0.range(of_job).for_each(|(_, input)| input.pipe.finish());
    }

    pub(super) fn state(&self, rank: RankId) -> InputState {
        match self.0.get(&rank) {
            None => InputState::Missing,
            Some(input) if input.is_ending || input.pipe.is_ended() => InputState::Ended,
            Some(input) if input.queued_bytes >= QUEUED_BYTES_MAX => InputState::Full,
            Some(_) => InputState::Open,
        }
    }

    /// Queues bytes for a rank, and writes those for which its pipe has room. `is_end`: its input ends behind them.
    pub(super) fn push(&mut self, rank: RankId, bytes: &Arc<[u8]>, is_end: bool, poller: &Poller) {
        if let Some(input) = self.0.get_mut(&rank) {
            if !bytes.is_empty() {
                input.queue.push_back(Arc::clone(bytes));
                input.queued_bytes = input.queued_bytes.saturating_add(bytes.len());
            }
            input.is_ending |= is_end;
        }
        self.write(rank, poller);
    }

    /// Writes queued bytes of a rank.
    pub(super) fn write(&mut self, rank: RankId, poller: &Poller) {
        let Some(input) = self.0.get_mut(&rank) else { return };
        let Some(pipe) = input.pipe.pipe() else { return input.end(poller) };
        let written = input.write_some(&pipe);
        input.is_ending |= input.pipe.note_queue(!input.queue.is_empty());
        match written {
            Ok(()) if input.queue.is_empty() && input.is_ending => input.end(poller),
            Ok(()) if input.queue.is_empty() => input.unwatch(&pipe, poller),
            Ok(()) => {
                // Without a place in the poll set the input would stop for ever.
                if !input.is_watched && poller.watch_input(rank, pipe.as_fd()).is_err() {
                    return input.end(poller);
                }
                input.is_watched = true;
            }
            Err(_) => input.end(poller),
        }
    }
}

impl RankInput {
    /// Writes until the pipe is full or the queue is empty.
    fn write_some(&mut self, pipe: &OwnedFd) -> Result<(), Errno> {
        while let Some(bytes) = self.queue.front() {
            match nix::unistd::write(pipe, bytes.get(self.written..).unwrap_or_default()) {
                Ok(count) => {
                    self.written += count;
                    self.queued_bytes = self.queued_bytes.saturating_sub(count);
                    if self.written >= bytes.len() {
                        self.queue.pop_front();
                        self.written = 0;
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn unwatch(&mut self, pipe: &OwnedFd, poller: &Poller) {
        if std::mem::take(&mut self.is_watched) {
            // A closed descriptor leaves the poll set by itself.
            let _ = poller.forget(pipe.as_fd());
        }
    }

    /// Ends the input. Queued bytes have no reader any more.
    fn end(&mut self, poller: &Poller) {
        if let Some(pipe) = self.pipe.pipe() {
            self.unwatch(&pipe, poller);
        }
        self.pipe.close();
        self.queue.clear();
        (self.queued_bytes, self.is_ending) = (0, true);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const RANK: RankId = RankId { job: 0, rank: 3 };

    fn input() -> (RankInputs, io::PipeReader, Poller, InputPipe) {
        let (reader, writer) = io::pipe().unwrap();
        let (poller, _bell) = Poller::new().unwrap();
        let pipe = InputPipe::new(writer.into()).unwrap();
        let mut inputs = RankInputs::default();
        inputs.insert(RANK, pipe.clone());
        (inputs, reader, poller, pipe)
    }

    #[test]
    fn bytes_wait_for_a_rank_that_does_not_read_up_to_a_bound() {
        let (mut inputs, mut reader, mut poller, _) = input();
        let piece: Arc<[u8]> = vec![b'x'; 10_000].into();
        let mut count = 0;
        while inputs.state(RANK) == InputState::Open {
            inputs.push(RANK, &piece, false, &poller);
            count += 1;
        }
        assert_eq!(inputs.state(RANK), InputState::Full);
        inputs.push(RANK, &Arc::from([]), true, &poller);
        assert_eq!(inputs.state(RANK), InputState::Ended);
        let read = std::thread::Builder::new().spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        let read = read.unwrap();
        while !read.is_finished() {
            if !poller.wait(Some(std::time::Duration::from_millis(10))).unwrap().is_empty() {
                inputs.write(RANK, &poller);
            }
        }
        assert_eq!(read.join().unwrap().unwrap().len(), count * piece.len());
    }

    #[test]
    fn the_end_of_one_owner_is_the_end_of_all() {
        let (mut inputs, mut reader, poller, pipe) = input();
        inputs.push(RANK, &Arc::from(*b"a"), false, &poller);
        pipe.write_all(b"b").unwrap();
        pipe.close();
        assert_eq!(inputs.state(RANK), InputState::Ended);
        assert!(pipe.write_all(b"c").is_err());
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), inputs.state(RankId { job: 0, rank: 4 })), ("ab", InputState::Missing));
        inputs.remove(RANK, &poller);
        assert_eq!(inputs.state(RANK), InputState::Missing);
    }

    /// The end of the launcher's own input dropped them.
    #[test]
    fn pushed_bytes_that_wait_are_read_before_the_end_of_another_owner() {
        let (mut inputs, mut reader, mut poller, pipe) = input();
        let piece: Arc<[u8]> = vec![b'x'; 10_000].into();
        let mut count = 0;
        while inputs.state(RANK) == InputState::Open {
            inputs.push(RANK, &piece, false, &poller);
            count += 1;
        }
        pipe.finish();
        assert_eq!(inputs.state(RANK), InputState::Ended);
        let mut read = 0;
        while read < count * piece.len() {
            read += reader.read(&mut [0; 4096]).unwrap();
            if !poller.wait(Some(std::time::Duration::ZERO)).unwrap().is_empty() {
                inputs.write(RANK, &poller);
            }
        }
        assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn a_rank_that_closes_its_input_gets_no_more() {
        let (mut inputs, reader, poller, _) = input();
        drop(reader);
        inputs.push(RANK, &Arc::from(*b"a"), false, &poller);
        assert_eq!(inputs.state(RANK), InputState::Ended);
    }
}
