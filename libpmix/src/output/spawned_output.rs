//! Output of the jobs that a tool has spawned. Its server sends it without a pull.

use std::collections::VecDeque;
use std::sync::Arc;

use modex::IofOutput;
use modex::types::Namespace;
use parking_lot::Mutex;

use super::files::JobOutput;
use super::pull_output::write_to;
use super::style::OutputStyle;
use super::writer::OutputWriter;

/// The way of spawned jobs' output to this process's own.
pub(crate) struct SpawnedOutput {
    writer: OutputWriter,
    jobs: Mutex<SpawnedJobs>,
}

#[derive(Default)]
struct SpawnedJobs {
    last: u64,
    /// Spawns without an answer, by number, the oldest first.
    asked: VecDeque<(u64, ShownJob)>,
    /// Jobs by name, the oldest first.
    named: VecDeque<(Namespace, ShownJob)>,
}

/// The channels of a job that this process shows, and their form.
#[derive(Clone)]
struct ShownJob {
    channels: u16,
    output: Arc<JobOutput>,
}

impl Default for SpawnedOutput {
    fn default() -> Self {
        Self { writer: OutputWriter::new(|_| None), jobs: Mutex::default() }
    }
}

impl SpawnedOutput {
    /// A spawn is about to be asked for. Returns its number.
    pub(crate) fn begin(&self, channels: u16, style: OutputStyle) -> u64 {
        let mut jobs = self.jobs.lock();
        jobs.last += 1;
        let number = jobs.last;
        jobs.asked.push_back((number, ShownJob::new(channels, style)));
        number
    }

    /// A spawn has its answer: the job's name, or none after a failure.
    pub(crate) fn settle(&self, number: u64, job: Option<Namespace>) {
        let mut jobs = self.jobs.lock();
        let Some(place) = jobs.asked.iter().position(|(asked, _)| *asked == number) else { return };
        let Some(((_, shown), job)) = jobs.asked.remove(place).zip(job) else { return };
        if jobs.named.len() >= NAMED_JOBS_MAX
            && let Some((oldest, _)) = jobs.named.pop_front()
        {
            self.writer.end(oldest);
        }
        jobs.named.push_back((job, shown));
    }

    /// Writes output. Servers of OpenPMIx send the first of it before a job's name. It gets the form of the oldest
    /// spawn without an answer, and is shown if any of these shows its channel.
    pub(crate) fn write(&self, output: IofOutput) {
        let shown = self.shown(&output.source.namespace);
        let shown = shown.unwrap_or_else(|| ShownJob::new(u16::MAX, OutputStyle::default()));
        if shown.channels & output.channel != 0 {
            write_to(&self.writer, &shown.output, output);
        }
    }

    fn shown(&self, job: &Namespace) -> Option<ShownJob> {
        let jobs = self.jobs.lock();
        if let Some((_, shown)) = jobs.named.iter().rev().find(|(name, _)| name == job) {
            return Some(shown.clone());
        }
        let (_, oldest) = jobs.asked.front()?;
        let channels = jobs.asked.iter().fold(0, |all, (_, shown)| all | shown.channels);
        Some(ShownJob { channels, output: Arc::clone(&oldest.output) })
    }

    /// Writes everything, at the end of the connection.
    pub(crate) fn finish(&self) {
        self.writer.finish();
    }
}

impl Drop for SpawnedOutput {
    fn drop(&mut self) {
        self.writer.finish();
    }
}

impl ShownJob {
    fn new(channels: u16, style: OutputStyle) -> Self {
        let (style, is_copied) = (style.for_own_output(), true);
        Self { channels, output: Arc::new(JobOutput { style, is_copied, ..JobOutput::default() }) }
    }
}

/// Jobs whose form is remembered. An older job's output is written without a form.
const NAMED_JOBS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use modex::keys;
    use modex::types::{Info, Key, ProcId};

    use super::*;

    fn tagged() -> OutputStyle {
        OutputStyle::of(&[Info::new(Key::from_static(keys::IOF_TAG_OUTPUT.name()), true)])
    }

    fn form_of(outputs: &SpawnedOutput, name: &str) -> Option<(u16, bool)> {
        let namespace = Namespace::new(name).unwrap();
        outputs.shown(&namespace).map(|shown| (shown.channels, shown.output.style == tagged().for_own_output()))
    }

    #[test]
    fn a_job_keeps_the_form_of_its_spawn_and_early_output_counts_to_the_oldest() {
        let outputs = SpawnedOutput::default();
        assert_eq!(form_of(&outputs, "first"), None);
        let [first, second, failed] = [(2, tagged()), (4, OutputStyle::default()), (2, OutputStyle::default())]
            .map(|(channels, style)| outputs.begin(channels, style));
        assert_eq!(form_of(&outputs, "first"), Some((6, true)), "its name is not yet known");
        outputs.settle(first, Namespace::new("first").ok());
        assert_eq!(form_of(&outputs, "second"), Some((6, false)));
        outputs.settle(failed, None);
        assert_eq!(form_of(&outputs, "second"), Some((4, false)));
        outputs.settle(second, Namespace::new("second").ok());
        assert_eq!([form_of(&outputs, "first"), form_of(&outputs, "other")], [Some((2, true)), None]);
        outputs.write(IofOutput {
            source: ProcId::new(Namespace::new("first").unwrap(), 0),
            channel: 4,
            bytes: b"not shown".to_vec(),
            info: Vec::new(),
        });
        outputs.finish();
    }

    #[test]
    fn the_form_of_old_jobs_is_forgotten() {
        let outputs = SpawnedOutput::default();
        for number in 0..=NAMED_JOBS_MAX {
            let spawn = outputs.begin(2, tagged());
            outputs.settle(spawn, Namespace::new(&format!("job{number}")).ok());
        }
        assert_eq!([form_of(&outputs, "job0"), form_of(&outputs, "job1")], [None, Some((2, true))]);
    }
}
