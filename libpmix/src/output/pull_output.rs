//! Output that this process has pulled to write it.

use std::sync::{Arc, Weak};

use modex::{IofOutput, keys};
use parking_lot::Mutex;

use super::files::{JobOutput, OpenedPaths};
use super::stream::Stream;
use super::style::OutputStyle;
use super::writer::OutputWriter;

/// The way of pulled output to this process's own output, or to files.
pub(crate) struct PullOutput {
    job: Arc<JobOutput>,
    writer: OutputWriter,
}

impl PullOutput {
    fn new(style: OutputStyle, paths: OpenedPaths) -> Self {
        let is_copied = !style.is_file_only();
        let job = Arc::new(JobOutput { style: style.of_request(), is_copied, ..JobOutput::default() });
        Self { job, writer: OutputWriter::sharing(paths, |_| None) }
    }

    /// Writes output. At the end of a stream its open line is written, too.
    pub(crate) fn write(&self, output: IofOutput) {
        write_to(&self.writer, &self.job, output);
    }
}

/// Writes a piece of output in the style of its job. At the end of a stream its open line is written, too.
pub(super) fn write_to(writer: &OutputWriter, job: &Arc<JobOutput>, output: IofOutput) {
    let IofOutput { source, channel, bytes, info } = output;
    let stream = Stream::of(channel);
    let is_end =
        info.iter().any(|info| info.key.as_str() == keys::IOF_COMPLETE.name() && info.value.as_bool() == Some(true));
    if is_end && !bytes.is_empty() {
        writer.write(Arc::clone(job), source.clone(), stream, bytes);
        writer.write(Arc::clone(job), source, stream, Vec::new());
    } else {
        writer.write(Arc::clone(job), source, stream, bytes);
    }
}

impl Drop for PullOutput {
    fn drop(&mut self) {
        self.writer.finish();
    }
}

/// The pulls of a connection that write. They share their files.
#[derive(Default)]
pub(crate) struct PullOutputs {
    outputs: Mutex<Vec<Weak<PullOutput>>>,
    paths: OpenedPaths,
}

impl PullOutputs {
    pub(crate) fn begin(&self, style: OutputStyle) -> Arc<PullOutput> {
        let output = Arc::new(PullOutput::new(style, Arc::clone(&self.paths)));
        let mut outputs = self.outputs.lock();
        outputs.retain(|output| output.strong_count() > 0);
        outputs.push(Arc::downgrade(&output));
        output
    }

    /// Writes everything, at the end of the connection.
    pub(crate) fn finish(&self) {
        let outputs = std::mem::take(&mut *self.outputs.lock());
        outputs.iter().filter_map(Weak::upgrade).for_each(|output| output.writer.finish());
    }
}

#[cfg(test)]
mod tests {
    use modex::types::{Info, Key, Namespace, ProcId};

    use super::*;

    #[test]
    fn pulled_lines_get_their_form_and_the_end_writes_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let pattern = directory.path().join("%n-of-%r").to_str().unwrap().to_owned();
        let info = |key: &'static str, value: modex::types::Value| Info::new(Key::from_static(key), value);
        let directives = [
            info(keys::IOF_OUTPUT_TO_FILE.name(), pattern.as_str().into()),
            info(keys::IOF_FILE_PATTERN.name(), true.into()),
            info(keys::IOF_FILE_ONLY.name(), true.into()),
            info(keys::IOF_TAG_OUTPUT.name(), true.into()),
        ];
        let outputs = PullOutputs::default();
        let pull = outputs.begin(OutputStyle::of(&directives));
        let send = |rank, bytes: &[u8], info| {
            let source = ProcId::new(Namespace::new("job").unwrap(), rank);
            pull.write(IofOutput { source, channel: 2, bytes: bytes.to_vec(), info });
        };
        send(0, b"one\ntw", Vec::new());
        send(1, b"other", vec![info(keys::IOF_COMPLETE.name(), true.into())]);
        send(0, b"o", Vec::new());
        outputs.finish();
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("job-of-0.out"), "[job,0]<stdout>: one\n[job,0]<stdout>: two\n");
        assert_eq!(read("job-of-1.out"), "[job,1]<stdout>: other\n");
    }

    /// Regression: each pull emptied the files of the ones before.
    #[test]
    fn pulls_of_one_connection_share_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f").to_str().unwrap().to_owned();
        let info = |key: &'static str, value: modex::types::Value| Info::new(Key::from_static(key), value);
        let style = OutputStyle::of(&[
            info(keys::IOF_OUTPUT_TO_FILE.name(), file.as_str().into()),
            info(keys::IOF_FILE_ONLY.name(), true.into()),
            info(keys::IOF_MERGE_STDERR_STDOUT.name(), true.into()),
        ]);
        let outputs = PullOutputs::default();
        let pieces = [(2, "out\n"), (4, "error\n"), (2, "again\n")].map(|(channel, text)| {
            let source = ProcId::new(Namespace::new("job").unwrap(), 0);
            (outputs.begin(style.clone()), IofOutput { source, channel, bytes: text.into(), info: Vec::new() })
        });
        for (pull, output) in pieces {
            pull.write(output);
            drop(pull);
        }
        assert_eq!(std::fs::read_to_string(format!("{file}.job.0.out")).unwrap(), "out\nerror\nagain\n");
    }

    /// Regression: a question without a newline was written with its answer.
    #[test]
    fn without_directives_questions_appear() {
        let pull = PullOutputs::default().begin(OutputStyle::default());
        assert!(pull.job.style.shows_questions);
        let tagged = OutputStyle::of(&[Info::new(Key::from_static(keys::IOF_TAG_OUTPUT.name()), true)]);
        assert!(!PullOutputs::default().begin(tagged).job.style.shows_questions);
    }
}
