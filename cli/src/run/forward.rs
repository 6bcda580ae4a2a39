//! Reads the ranks' output. It also passes the launcher's input on to the ranks that want it.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use modex::IofOutput;
use modex::types::ProcId;
use nix::sys::signal::{SigSet, Signal};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use super::children::Channel;
use super::destination::{Destination, OutputFile};
use super::io_request;
use super::job_processes::is_in_background;
use super::line_form::{FormedLines, LineForm};
use super::rank_id::RankId;
use super::rank_input::InputPipe;
use super::ready_lines::ReadyLines;

/// Bytes taken from one rank in one turn, so that a rank with much output does not starve the others. By default the GNU C
/// library's `malloc` gives blocks of 128 KiB and more back to the kernel. A tool in C would fault at each of their pages.
const READ_BYTES_MAX: usize = 120 << 10;

/// Bytes of the launcher's input that are passed on at once.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// How often a launcher in the background checks whether it may read the terminal. No signal announces this.
const FOREGROUND_CHECKED_AFTER: Duration = Duration::from_millis(200);

/// Turns given to a pipe after the job's end. A pipe holds one mebibyte or less, unless an administrator has raised the
/// limit.
pub(super) const LAST_TURNS_MAX: usize = 17;

/// One output of one rank.
#[derive(Debug)]
pub(super) struct ForwardedStream {
    source: OwnedFd,
    destination: Destination,
    lines: FormedLines,
    /// The file that directives of the job name.
    file: Option<StreamFile>,
    origin: (RankId, Channel),
    proc: ProcId,
    /// Whether processes may want this output (`PMIx_IOF_pull`).
    pub(super) is_pulled: bool,
    /// Whether it is kept for the process that spawned the rank, until that has pulled it.
    pub(super) is_kept: bool,
    /// The process that spawned the rank, if it wants this output in place of the launcher's user.
    pub(super) redirected_to: Option<ProcId>,
    /// Whether this process has pulled it.
    pub(super) is_redirected: bool,
    last_turns_left: usize,
}

/// A file that gets all of a stream, whatever happens to the stream's lines for the destination.
#[derive(Debug)]
struct StreamFile {
    file: Arc<OutputFile>,
    lines: FormedLines,
    /// The lines that no writer has yet.
    ready: Vec<u8>,
}

/// Whether a stream may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForwardProgress {
    /// It may have more at once.
    Open,
    /// Wait until it is readable again.
    Empty,
    /// It has ended, and all of its output was handed out.
    Ended,
}

impl ForwardedStream {
    /// A rank's output. Each line gets this form.
    pub(super) fn new(
        source: OwnedFd,
        destination: Destination,
        form: LineForm,
        origin: (RankId, Channel),
        proc: ProcId,
    ) -> Self {
        let (lines, last_turns_left) = (FormedLines::new(form, false), LAST_TURNS_MAX);
        Self {
            source,
            destination,
            lines,
            file: None,
            origin,
            proc,
            is_pulled: false,
            is_kept: false,
            redirected_to: None,
            is_redirected: false,
            last_turns_left,
        }
    }

    /// Gives a file all of the output, too. `is_alone`: no other output goes there.
    pub(super) fn copy_to(&mut self, file: Arc<OutputFile>, is_alone: bool) {
        let lines = FormedLines::new(self.lines.form().clone(), is_alone);
        self.file = Some(StreamFile { file, lines, ready: Vec::new() });
    }

    /// Says whether the beginning of a line is passed on before its end comes.
    pub(super) const fn set_raw(&mut self, is_raw: bool) {
        self.lines.set_raw(is_raw);
    }

    /// The rank as a process.
    pub(super) const fn proc(&self) -> &ProcId {
        &self.proc
    }

    /// The number of the rank's job.
    pub(super) const fn job(&self) -> u32 {
        self.origin.0.job
    }

    /// The rank, and its output.
    pub(super) const fn origin(&self) -> (RankId, Channel) {
        self.origin
    }

    /// Counts a turn after the end of its job. Returns false when it has had all of them: the rest is of processes that
    /// the job left behind.
    pub(super) const fn take_last_turn(&mut self) -> bool {
        let is_left = self.last_turns_left > 0;
        self.last_turns_left = self.last_turns_left.saturating_sub(1);
        is_left
    }

    /// The descriptor to wait on.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// Whether the rank has written bytes that were not read.
    pub(super) fn has_unread(&self) -> bool {
        rustix::io::ioctl_fionread(&self.source).is_ok_and(|count| count > 0)
    }

    /// Says whether no other rank writes to the destination. Then the last line stays as it is.
    pub(super) const fn set_alone(&mut self, is_alone: bool) {
        self.lines.set_alone(is_alone);
    }

    /// Notes that other ranks may write to the launcher's outputs.
    pub(super) const fn note_others(&mut self) {
        if matches!(self.destination, Destination::Out | Destination::Error) {
            self.set_alone(false);
        }
    }

    /// The destination.
    pub(super) const fn destination(&self) -> Destination {
        self.destination
    }

    /// Reads the output that has arrived and appends its whole lines to `ready`. A very long line is appended in
    /// pieces.
    pub(super) fn read(&mut self, ready: &mut ReadyLines) -> io::Result<ForwardProgress> {
        let (piece, progress) = self.read_piece()?;
        self.feed(&piece, ready);
        if progress == ForwardProgress::Ended {
            self.finish(ready);
        }
        Ok(progress)
    }

    /// Reads the output that has arrived. The file gets it. Server and launcher share the piece.
    pub(super) fn read_piece(&mut self) -> io::Result<(Arc<IofOutput>, ForwardProgress)> {
        let mut bytes = Vec::with_capacity(READ_BYTES_MAX);
        let progress = match rustix::io::read(&self.source, spare_capacity(&mut bytes)) {
            Ok(0) => ForwardProgress::Ended,
            Ok(_) | Err(Errno::INTR) => ForwardProgress::Open,
            Err(Errno::AGAIN) => ForwardProgress::Empty,
            Err(error) => return Err(error.into()),
        };
        // A queue may keep the bytes, and counts their number.
        if bytes.len() < READ_BYTES_MAX / 2 {
            bytes.shrink_to_fit();
        }
        if let Some(StreamFile { lines, ready, .. }) = &mut self.file {
            lines.feed(&bytes, ready);
        }
        let (source, channel) = (self.proc.clone(), io_request::number(self.origin.1));
        Ok((Arc::new(IofOutput { source, channel, bytes, info: Vec::new() }), progress))
    }

    /// Appends the whole lines to `ready` that this piece completes.
    pub(super) fn feed(&mut self, piece: &Arc<IofOutput>, ready: &mut ReadyLines) {
        if self.destination != Destination::Nowhere {
            self.lines.feed_piece(piece, ready);
        }
    }

    /// Hands out an unfinished line after the last writer of the job has closed the pipe.
    pub(super) fn finish(&mut self, ready: &mut ReadyLines) {
        self.break_off(ready);
        if let Some(StreamFile { lines, ready, .. }) = &mut self.file {
            lines.finish(ready);
        }
    }

    /// Hands out an unfinished line because the destination does not get its rest.
    pub(super) fn break_off(&mut self, ready: &mut ReadyLines) {
        self.lines.finish(ready.own_mut());
    }

    /// Gives the file whole lines of another source, which stand behind those of the rank.
    pub(super) fn add_to_file(&mut self, text: &[u8]) {
        if let Some(StreamFile { lines, ready, .. }) = &mut self.file {
            ready.extend_from_slice(lines.cut().as_bytes());
            ready.extend_from_slice(text);
        }
    }

    /// The lines for the file since the last call.
    pub(super) fn take_for_file(&mut self) -> Option<(Arc<OutputFile>, Vec<u8>)> {
        let StreamFile { file, ready, .. } = self.file.as_mut()?;
        Some((Arc::clone(file), std::mem::take(ready)))
    }

    /// Hands the file out to be closed.
    pub(super) fn take_file(&mut self) -> Option<Arc<OutputFile>> {
        self.file.take().map(|copy| copy.file)
    }

    /// Lets the file alone get the further output. Returns false if there is none.
    pub(super) fn leave_to_file(&mut self) -> bool {
        let has_file = self.file.is_some();
        if has_file {
            self.destination = Destination::Nowhere;
            let _ = self.cut();
        }
        has_file
    }

    /// Whether the last output was the beginning of a line that is too long to keep.
    pub(super) const fn is_mid_line(&self) -> bool {
        self.lines.is_mid_line()
    }

    /// The end of such a line, if there is one.
    #[must_use]
    pub(super) fn cut(&mut self) -> &'static str {
        self.lines.cut()
    }
}

/// Copies the launcher's standard input to these ranks until it ends. A rank that has closed its end is left out.
pub(super) fn copy_input(mut inputs: Vec<InputPipe>) {
    let all = inputs.clone();
    pass_input_on(INPUT_BYTES_MAX, |bytes| {
        inputs.retain(|input| input.write_all(bytes).inspect_err(|_| input.close()).is_ok());
        !inputs.is_empty()
    });
    all.iter().for_each(InputPipe::finish);
}

/// Hands out this process's standard input in pieces until it ends, or `take` returns false.
///
/// Blocks, so it has a thread of its own: a terminal's descriptor is shared with the shell and must not be made
/// non-blocking. The thread ends with the process.
///
/// A terminal stops background processes that read it, and a stopped process passes no output on. With the signal
/// blocked in this thread, the read fails instead, and the thread waits until the process is in the foreground.
pub(crate) fn pass_input_on(piece_bytes_max: usize, mut take: impl FnMut(&[u8]) -> bool) {
    let is_blocked = SigSet::from(Signal::SIGTTIN).thread_block().is_ok();
    let mut chunk = vec![0u8; piece_bytes_max];
    let mut source = io::stdin().lock();
    loop {
        match source.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) if take(chunk.get(..count).unwrap_or_default()) => {}
            Ok(_) => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if is_blocked && is_in_background() => sleep(FOREGROUND_CHECKED_AFTER),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use modex::types::Namespace;

    use super::*;
    use crate::run::line_form::LineMarks;

    fn stream() -> (ForwardedStream, io::PipeWriter) {
        let origin = (RankId { job: 0, rank: 0 }, Channel::Out);
        let (source, rank_output) = io::pipe().unwrap();
        let proc = ProcId::new(Namespace::new("job").unwrap(), 0);
        let form = LineForm::new(LineMarks::default(), &proc, "0", Channel::Out);
        (ForwardedStream::new(source.into(), Destination::Out, form, origin, proc), rank_output)
    }

    /// A queue of many small pieces took hundreds of times the memory that it counted.
    #[test]
    fn a_small_piece_takes_little_memory() {
        let (mut stream, mut rank_output) = stream();
        rank_output.write_all(b"a line\n").unwrap();
        let (piece, _) = stream.read_piece().unwrap();
        assert_eq!(piece.bytes, b"a line\n");
        assert!(piece.bytes.capacity() < 2 * 16, "{}", piece.bytes.capacity());
    }

    #[test]
    fn a_file_gets_whole_lines_also_of_output_that_its_destination_does_not_get() {
        let (mut stream, mut rank_output) = stream();
        assert!(!stream.leave_to_file(), "it has none");
        stream.copy_to(Arc::new(OutputFile { path: "f".into(), file: tempfile::tempfile().unwrap() }), true);
        let mut shown = ReadyLines::default();
        rank_output.write_all(b"one\ntw").unwrap();
        stream.read(&mut shown).unwrap();
        rank_output.write_all(b"o\n").unwrap();
        let (_redirected, _) = stream.read_piece().unwrap();
        stream.break_off(&mut shown);
        assert_eq!(stream.take_for_file().unwrap().1, b"one\ntwo\n");
        assert!(stream.leave_to_file() && stream.destination() == Destination::Nowhere);
        rank_output.write_all(b"three\nfour").unwrap();
        drop(rank_output);
        stream.read(&mut shown).unwrap();
        stream.add_to_file(b"logged\n");
        assert_eq!(stream.read(&mut shown).unwrap(), ForwardProgress::Ended);
        assert_eq!(String::from_utf8(std::mem::take(shown.own_mut())).unwrap(), "one\ntw\n");
        assert_eq!(stream.take_for_file().unwrap().1, b"three\nlogged\nfour");
    }
}
