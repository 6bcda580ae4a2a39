//! The end of a job's output: no rank runs any more, but the ranks' output may still have to wait for its reader.

use std::collections::BTreeMap;
use std::time::Duration;

use super::clock::Clock;
use super::forward::{ForwardProgress, ForwardedStream, LAST_TURNS_MAX};
use super::output_writer::OutputWriter;
use super::poller::{Poller, Wakeup};
use super::ready_lines::ReadyLines;
use super::suspension::{can_be_continued, stop_this_process};
use super::verdict::{Action, Cause, Verdict};

/// How long a reader may read nothing before it counts as stuck. The limit matters only to a user who wants to end the
/// launcher.
const READER_TIME: Duration = Duration::from_secs(1);

/// The exit status of a job that succeeded, but whose output could not be written.
const OUTPUT_LOST: u8 = 1;

/// The user wants the launcher to end, the reader does not read, or waiting is not possible.
#[derive(Debug)]
pub(super) struct GivenUp;

/// The parts of the launcher that work while it waits for readers.
#[derive(Debug)]
pub(super) struct LastOutput {
    pub(super) poller: Poller,
    pub(super) output_writer: OutputWriter,
    pub(super) verdict: Verdict,
    pub(super) clock: Clock,
}

impl LastOutput {
    /// Passes on the rest of the ranks' pipes and the launcher's own words, and waits until all is written. A signal or
    /// the time limit ends the wait if the reader is stuck. Returns the launcher's exit status.
    pub(super) fn pass_on(mut self, streams: BTreeMap<usize, ForwardedStream>, words: &str) -> u8 {
        for stream in streams.values() {
            // Descriptors that were closed for lack of room need no report. The others are read below, in turn.
            let _ = self.poller.forget(stream.fd());
        }
        let finished = self.empty(streams).and_then(|()| {
            if !words.is_empty() {
                self.output_writer.say(words);
            }
            self.output_writer.close_files();
            self.wait_until(|output_writer| output_writer.is_drained())
        });
        if finished.is_err() {
            // A time limit that passed while nobody read is the cause now, unless there is an earlier one.
            if let Some(Action::Stop { cause, .. }) = self.verdict.tick(self.clock.now()) {
                self.output_writer.say(&format!("modex: {cause}\n"));
            }
            self.output_writer.give_up();
            return self.verdict.shell_status();
        }
        match self.verdict.shell_status() {
            0 if self.output_writer.has_lost() => OUTPUT_LOST,
            status => status,
        }
    }

    /// Reads the pipes until they are empty, an unfinished line included. A process outside the job's process group
    /// that still holds a pipe is not awaited.
    fn empty(&mut self, streams: BTreeMap<usize, ForwardedStream>) -> Result<(), GivenUp> {
        let mut streams: Vec<_> = streams.into_iter().collect();
        // A rank that has begun a long line continues it before another rank writes.
        streams.sort_by_key(|(_, stream)| !stream.is_mid_line());
        for (index, mut stream) in streams {
            for _ in 0..LAST_TURNS_MAX {
                self.wait_until(OutputWriter::has_room)?;
                let mut lines = ReadyLines::default();
                let progress = stream.read(&mut lines);
                // The output is lost as with every earlier line: its reader does not want it.
                let _ = self.output_writer.push_to_file(index, &mut stream);
                let pushed = self.output_writer.push(index, stream.destination(), lines);
                if pushed.is_err()
                    || progress.is_err()
                    || progress.is_ok_and(|progress| progress != ForwardProgress::Open)
                {
                    break;
                }
            }
            let mut lines = ReadyLines::default();
            stream.finish(&mut lines);
            let _ = self.output_writer.push_to_file(index, &mut stream);
            let _ = self.output_writer.push(index, stream.destination(), lines);
            self.output_writer.close_files_of(&mut stream);
        }
        Ok(())
    }

    fn wait_until(&mut self, is_met: impl Fn(&mut OutputWriter) -> bool) -> Result<(), GivenUp> {
        if is_met(&mut self.output_writer) {
            return Ok(());
        }
        self.output_writer.ask_for_ring();
        let mut progress_at = self.clock.now();
        loop {
            let now = self.clock.now();
            if self.output_writer.settle() {
                progress_at = now;
            }
            if is_met(&mut self.output_writer) {
                return Ok(());
            }
            let end = self.verdict.patience_ends().map(|end| end.max(progress_at + READER_TIME));
            if end.is_some_and(|end| now >= end) {
                return Err(GivenUp);
            }
            self.listen(end.map(|end| end.since(now)))?;
        }
    }

    /// Waits for the bell, a signal, or this long.
    fn listen(&mut self, limit: Option<Duration>) -> Result<(), GivenUp> {
        self.output_writer.hand_over();
        for wakeup in self.poller.wait(limit).map_err(|_| GivenUp)? {
            if wakeup == Wakeup::Suspend && can_be_continued() {
                self.output_writer.hand_over();
                stop_this_process();
            }
            let Wakeup::Stop { signal } = wakeup else { continue };
            if let Some(Action::Stop { cause, .. }) = self.verdict.stop(self.clock.now(), Cause::Signal(signal)) {
                self.output_writer.say(&format!("modex: {cause}\n"));
                self.output_writer.ask_for_ring();
            }
        }
        Ok(())
    }
}
