//! Writes to the launcher's standard output and standard error, and to the ranks' files, in a separate thread.
//!
//! A reader that does not read, or a slow disk, must not keep the launcher from its job.
//!
//! ```text
//!  loop -- orders: lines, or "ring" --> writer thread --> stdout, stderr, files
//!    ^-------- done: bytes, failures ------|
//!    ^-------- bell: "ring", failures -----|
//! ```
//!
//! One thread serves all, so lines stay whole and in order if both go to the same place. The loop never waits for it.
//! The loop queues lines while there is room. Otherwise the output stays in the ranks' pipes until the bell rings. The
//! orders of one turn go to the thread together, because each message may have to wake it up.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Write};
use std::iter::from_fn;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Builder;

use crossbeam::channel::{Receiver, Sender, unbounded};
use modex::output::write_whole;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};

use super::children::Channel;
use super::destination::{Destination, OutputFile, OutputFiles, OutputFilesError};
use super::forward::ForwardedStream;
use super::poller::Bell;
use super::rank_id::RankId;
use super::ready_lines::ReadyLines;
use super::waking_channel::{WakingSender, wait_for_next};

/// The number of queued bytes at which there is no more room. The output of one rank's turn may exceed it once.
const QUEUED_BYTES_MAX: usize = 4 << 20;

/// The number of bytes of orders that do not wait for the end of the loop's turn.
const TURN_BYTES_MAX: usize = 256 << 10;

/// The bytes of an order besides its lines: many short lines take memory, too.
const ORDER_BYTES: usize = 128;

/// A pipe that is ready for writing takes this number of bytes without blocking (POSIX: `PIPE_BUF` on Linux).
const PIPE_ATOMIC_BYTES: usize = 4096;

/// An order to the thread, which takes the oldest order first.
#[derive(Debug)]
enum Order {
    /// Write these lines.
    Write { target: Target, lines: ReadyLines, source: Source },
    /// Close these files, and report what their file system has not reported before.
    Close(Vec<Arc<OutputFile>>),
    /// Wake the launcher up.
    Ring,
}

/// The destination of the lines, for the thread.
#[derive(Debug)]
enum Target {
    Out,
    Error,
    File(Arc<OutputFile>),
}

/// The source of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The stream with this index.
    Stream(usize),
    /// A process that logs. Its end is not that of an output.
    Log,
    /// The launcher.
    Launcher,
    /// The end of all files.
    Files,
}

/// Lines that the thread has written or given up.
#[derive(Debug)]
struct Done {
    source: Source,
    cost: usize,
    failed: bool,
    /// Whether the user wanted the lines and did not get them: their reader has not gone.
    lost: bool,
}

/// The loop's end.
#[derive(Debug)]
pub(super) struct OutputWriter {
    bell: Bell,
    files: OutputFiles,
    /// The thread's ends of its channels. The thread starts with the first output: most of a job's start has none.
    writer: Option<(WakingSender<Vec<Order>>, Receiver<Done>)>,
    /// Orders of this turn, and their bytes. The thread does not know of them.
    orders: Vec<Order>,
    orders_bytes: usize,
    queued_bytes: usize,
    /// The launcher's own messages in the queue.
    unsaid: VecDeque<Vec<u8>>,
    /// Streams whose lines could not be written.
    failed: Vec<usize>,
    /// Whether output was lost that had a reader, or a file.
    has_lost: bool,
}

impl OutputWriter {
    /// A writer without output. The bell wakes the loop that owns this.
    pub(super) fn new(bell: Bell, files: OutputFiles) -> Self {
        Self {
            bell,
            files,
            writer: None,
            orders: Vec::new(),
            orders_bytes: 0,
            queued_bytes: 0,
            unsaid: VecDeque::new(),
            failed: Vec::new(),
            has_lost: false,
        }
    }

    /// Makes the files of a spawned job, if output goes to files.
    pub(super) fn open_files(&mut self, job: u32, rank_count: u32) -> Result<(), OutputFilesError> {
        self.files.open(job, rank_count)
    }

    /// The number of open files.
    pub(super) fn file_count(&self) -> usize {
        self.files.count()
    }

    /// The destination of a rank's output.
    pub(super) fn destination(&self, rank: RankId, channel: Channel) -> Destination {
        self.files.destination(rank, channel)
    }

    /// Queues whole lines of the stream with this index. Fails if the system refuses a thread that writes them.
    pub(super) fn push(
        &mut self,
        index: usize,
        destination: Destination,
        lines: impl Into<ReadyLines>,
    ) -> io::Result<()> {
        self.push_from(Source::Stream(index), destination, lines.into())
    }

    /// Queues whole lines that a process logs.
    pub(super) fn push_log(&mut self, destination: Destination, lines: Vec<u8>) -> io::Result<()> {
        self.push_from(Source::Log, destination, lines.into())
    }

    /// Queues what a stream has for the file that directives name.
    pub(super) fn push_to_file(&mut self, index: usize, stream: &mut ForwardedStream) -> io::Result<()> {
        let Some((file, lines)) = stream.take_for_file() else { return Ok(()) };
        self.queue_lines(Source::Stream(index), Target::File(file), lines.into())
    }

    fn push_from(&mut self, source: Source, destination: Destination, lines: ReadyLines) -> io::Result<()> {
        let target = match destination {
            Destination::Out => Target::Out,
            Destination::Error => Target::Error,
            Destination::File(number) => match self.files.get(number) {
                Some(file) => Target::File(Arc::clone(file)),
                None => return Ok(()),
            },
            Destination::Nowhere => return Ok(()),
        };
        self.queue_lines(source, target, lines)
    }

    fn queue_lines(&mut self, source: Source, target: Target, lines: ReadyLines) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let cost = cost(&lines);
        self.queue(Order::Write { target, lines, source }, cost)
    }

    /// Prints a message for the user on standard error. An absent reader must not change the job's exit status.
    pub(super) fn say(&mut self, text: &str) {
        let lines = ReadyLines::from(text.as_bytes().to_vec());
        let cost = cost(&lines);
        if self.queue(Order::Write { target: Target::Error, lines, source: Source::Launcher }, cost).is_ok() {
            self.unsaid.push_back(text.as_bytes().to_vec());
        } else {
            // Without a thread no other output is being written.
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }

    /// Closes all files.
    pub(super) fn close_files(&mut self) {
        let files = self.files.take();
        self.close(files);
    }

    /// Closes the files of a stream that has ended.
    pub(super) fn close_files_of(&mut self, stream: &mut ForwardedStream) {
        let usual = match stream.destination() {
            Destination::File(index) => self.files.close(index),
            _ => None,
        };
        self.close(usual.into_iter().chain(stream.take_file()).collect());
    }

    /// Closes the files of a job that could not be started.
    pub(super) fn close_job(&mut self, job: u32) {
        let files = self.files.take_job(job);
        self.close(files);
    }

    /// Closes files after everything that is queued. A network file system may report a full disk only then.
    fn close(&mut self, files: Vec<Arc<OutputFile>>) {
        if self.writer.is_some() && !files.is_empty() {
            // The thread lives as long as the channel.
            let _ = self.queue(Order::Close(files), ORDER_BYTES);
        }
    }

    fn queue(&mut self, order: Order, cost: usize) -> io::Result<()> {
        if self.writer.is_none() {
            self.writer = Some(start_writer(self.bell.clone())?);
        }
        self.orders.push(order);
        self.orders_bytes = self.orders_bytes.saturating_add(cost);
        self.queued_bytes = self.queued_bytes.saturating_add(cost);
        if self.orders_bytes >= TURN_BYTES_MAX {
            self.hand_over();
        }
        Ok(())
    }

    /// Gives the thread the orders of this turn. The loop must do this before it waits.
    pub(super) fn hand_over(&mut self) {
        if let Some((sender, _)) = self.writer.as_ref().filter(|_| !self.orders.is_empty()) {
            self.orders_bytes = 0;
            if sender.send(std::mem::take(&mut self.orders)).is_err() {
                // The thread has panicked. Nobody waits for the rest.
                (self.queued_bytes, self.has_lost) = (0, true);
            }
        }
    }

    /// Requests the bell for the time when everything queued so far is written. The bell also rings at each failure.
    pub(super) fn ask_for_ring(&mut self) {
        if self.writer.is_some() {
            self.orders.push(Order::Ring);
        }
    }

    /// Whether the loop may queue more.
    pub(super) fn has_room(&mut self) -> bool {
        if self.queued_bytes >= QUEUED_BYTES_MAX {
            self.settle();
        }
        self.queued_bytes < QUEUED_BYTES_MAX
    }

    /// Whether the thread has finished everything queued.
    pub(super) const fn is_drained(&self) -> bool {
        self.queued_bytes == 0
    }

    /// Whether the ranks' output could not be written, for another reason than a reader that has gone.
    pub(super) const fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// The streams whose lines could not be written since the last call.
    pub(super) fn take_failed(&mut self) -> Vec<usize> {
        self.settle();
        std::mem::take(&mut self.failed)
    }

    /// Counts the written output. Returns whether there was any.
    pub(super) fn settle(&mut self) -> bool {
        let before = self.queued_bytes;
        let Some((_, done)) = &self.writer else { return false };
        for Done { source, cost, failed, lost } in done.try_iter() {
            self.queued_bytes = self.queued_bytes.saturating_sub(cost);
            self.has_lost |= lost;
            match source {
                Source::Launcher => drop(self.unsaid.pop_front()),
                Source::Stream(index) if failed => self.failed.push(index),
                Source::Stream(_) | Source::Log | Source::Files => {}
            }
        }
        self.queued_bytes < before
    }

    /// Gives up the queued output. The launcher's own messages are still printed if standard error takes them at once:
    /// another reader may be stuck.
    pub(super) fn give_up(mut self) {
        self.settle();
        let mut text = self.unsaid.into_iter().collect::<Vec<_>>().concat();
        text.truncate(PIPE_ATOMIC_BYTES);
        let stderr = io::stderr();
        let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        if !text.is_empty() && poll(&mut ready, PollTimeout::ZERO).is_ok_and(|count| count > 0) {
            let _ = nix::unistd::write(&stderr, &text);
        }
    }
}

fn cost(lines: &ReadyLines) -> usize {
    lines.len().saturating_add(ORDER_BYTES)
}

/// Starts the thread. It ends when the writer is dropped, or with the process if a reader is stuck.
fn start_writer(bell: Bell) -> io::Result<(WakingSender<Vec<Order>>, Receiver<Done>)> {
    // The channels are unbounded: `OutputWriter::has_room` keeps the bound, and the loop must not block.
    let (orders, receiver) = unbounded();
    let (sender, done) = unbounded();
    let write = move || write_orders(&receiver, &sender, &bell);
    let thread = Builder::new().name("modex-output".to_owned()).spawn(write)?;
    Ok((WakingSender::new(orders, thread.thread().clone()), done))
}

fn write_orders(orders: &Receiver<Vec<Order>>, done: &Sender<Done>, bell: &Bell) {
    // A terminal may stop background processes that write to it (`stty tostop`). A stopped launcher ends nothing.
    let _ = SigSet::from(Signal::SIGTTOU).thread_block();
    let mut losses = Losses::default();
    for order in from_fn(|| wait_for_next(orders)).flatten() {
        let finished = match order {
            Order::Ring => {
                bell.wake();
                continue;
            }
            Order::Write { target, lines, source } => {
                let (failed, lost) = losses.write(&target, &lines);
                Done { source, cost: cost(&lines), failed, lost }
            }
            Order::Close(files) => {
                let lost = files.into_iter().fold(false, |lost, file| losses.close(file) | lost);
                Done { source: Source::Files, cost: ORDER_BYTES, failed: false, lost }
            }
        };
        let failed = finished.failed;
        // A loop that has ended needs no answer.
        let _ = done.send(finished);
        if failed {
            bell.wake();
        }
    }
}

/// The outputs that could not be written. One line is enough for all of them.
#[derive(Debug, Default)]
struct Losses {
    is_reported: bool,
    /// Files that have lost output. Later output is dropped, because a file with gaps misleads its readers.
    files: BTreeSet<PathBuf>,
}

impl Losses {
    /// Writes lines. Returns whether their stream has failed, and whether output was lost that somebody wants.
    ///
    /// A rank whose file is full goes on: its computation is worth more than its output.
    fn write(&mut self, target: &Target, lines: &ReadyLines) -> (bool, bool) {
        let parts = lines.parts();
        // The streams are not locked. Other threads of this process write there only lines of the log.
        let (written, is_out) = match target {
            Target::Out => (write_whole(io::stdout().as_fd(), parts), true),
            Target::Error => (write_whole(io::stderr().as_fd(), parts), false),
            Target::File(file) if self.files.contains(&file.path) => return (false, true),
            Target::File(file) => {
                let Err(error) = write_whole(file.file.as_fd(), parts) else { return (false, false) };
                self.lose(file, &error);
                return (false, true);
            }
        };
        let Err(error) = written else { return (false, false) };
        // A reader that has gone needs no message, but a full disk does.
        let is_lost = is_out && error.kind() != io::ErrorKind::BrokenPipe;
        if is_lost {
            self.report("", &error);
        }
        (true, is_lost)
    }

    /// Closes a file. Returns whether output was lost.
    fn close(&mut self, file: Arc<OutputFile>) -> bool {
        // Other streams may write to it.
        let Some(OutputFile { path, file }) = Arc::into_inner(file) else { return false };
        self.files.remove(&path);
        let Err(error) = nix::unistd::close(file) else { return false };
        self.report(&format!(" to {}", path.display()), &error.into());
        true
    }

    fn lose(&mut self, file: &OutputFile, error: &io::Error) {
        self.report(&format!(" to {}", file.path.display()), error);
        self.files.insert(file.path.clone());
    }

    fn report(&mut self, to: &str, error: &io::Error) {
        if !std::mem::replace(&mut self.is_reported, true) {
            let news = format!("modex: the ranks' output can't be written{to}: {error}; the rest of it is lost\n");
            let _ = write_whole(io::stderr().as_fd(), [news.as_bytes(), &[]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::poller::Poller;
    use super::*;

    /// A writer whose thread is the test.
    fn output_writer() -> (OutputWriter, Receiver<Vec<Order>>, Sender<Done>) {
        let (_poller, bell) = Poller::new().unwrap();
        let (orders, receiver) = unbounded();
        let (sender, done) = unbounded();
        (
            OutputWriter {
                writer: Some((WakingSender::new(orders, std::thread::current()), done)),
                ..OutputWriter::new(bell, OutputFiles::default())
            },
            receiver,
            sender,
        )
    }

    /// Carries out the next order.
    fn write_next(mut orders: impl Iterator<Item = Order>, done: &Sender<Done>, failed: bool) {
        let Some(Order::Write { lines, source, .. }) = orders.next() else { panic!("nothing to write") };
        done.send(Done { source, cost: cost(&lines), failed, lost: failed }).unwrap();
    }

    #[test]
    fn there_is_room_up_to_the_bound_and_again_when_lines_were_written() {
        let (mut output_writer, orders, done) = output_writer();
        output_writer.push(0, Destination::Out, vec![b'x'; QUEUED_BYTES_MAX - 2 * ORDER_BYTES - 2]).unwrap();
        output_writer.push(1, Destination::Out, b"y".to_vec()).unwrap();
        assert!(output_writer.has_room(), "one byte is missing");
        output_writer.say("z");
        assert!(!output_writer.has_room());
        output_writer.hand_over();
        let mut orders = orders.try_iter().flatten();
        write_next(&mut orders, &done, false);
        assert!(output_writer.has_room() && !output_writer.is_drained());
        write_next(&mut orders, &done, false);
        write_next(&mut orders, &done, false);
        assert!(output_writer.settle() && output_writer.is_drained());
        assert!(!output_writer.settle());
    }

    #[test]
    fn many_short_lines_fill_it_too() {
        let (mut output_writer, orders, _done) = output_writer();
        while output_writer.has_room() {
            output_writer.push(0, Destination::Out, b"\n".to_vec()).unwrap();
        }
        output_writer.hand_over();
        assert_eq!(orders.try_iter().flatten().count(), QUEUED_BYTES_MAX.div_ceil(ORDER_BYTES + 1));
    }

    /// The thread has work while the loop still reads other ranks, but it is not woken for each line.
    #[test]
    fn much_output_goes_to_the_thread_at_once_and_little_at_the_end_of_the_turn() {
        let (mut output_writer, orders, _done) = output_writer();
        output_writer.push(0, Destination::Out, vec![b'x'; TURN_BYTES_MAX]).unwrap();
        assert_eq!(orders.try_iter().map(|orders| orders.len()).sum::<usize>(), 1);
        output_writer.push(0, Destination::Out, b"little\n".to_vec()).unwrap();
        output_writer.say("little, too\n");
        assert!(orders.is_empty());
        output_writer.hand_over();
        assert_eq!(orders.try_iter().map(|orders| orders.len()).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_failure_names_the_stream_once() {
        let (mut output_writer, orders, done) = output_writer();
        output_writer.push(5, Destination::Out, b"lost\n".to_vec()).unwrap();
        output_writer.say("lost, too\n");
        output_writer.hand_over();
        let mut orders = orders.try_iter().flatten();
        write_next(&mut orders, &done, true);
        write_next(&mut orders, &done, true);
        assert_eq!((output_writer.take_failed(), output_writer.take_failed()), (vec![5], vec![]));
        assert!(output_writer.is_drained() && output_writer.unsaid.is_empty());
    }

    /// The launcher waited for ever for a thread that had panicked.
    #[test]
    fn output_for_a_thread_that_has_ended_is_lost_and_not_awaited() {
        let (mut output_writer, orders, _done) = output_writer();
        drop(orders);
        output_writer.push(0, Destination::Out, b"lost\n".to_vec()).unwrap();
        output_writer.hand_over();
        assert!(output_writer.is_drained() && output_writer.has_lost());
    }

    #[test]
    fn no_thread_is_started_for_nothing() {
        let (_poller, bell) = Poller::new().unwrap();
        let mut output_writer = OutputWriter::new(bell, OutputFiles::default());
        output_writer.push(0, Destination::Out, Vec::new()).unwrap();
        output_writer.ask_for_ring();
        assert!(output_writer.writer.is_none() && output_writer.is_drained());
    }
}
