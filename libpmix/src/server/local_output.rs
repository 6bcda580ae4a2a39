//! Output of jobs that this server writes itself.
//!
//! The last of these decides:
//! - for all jobs, `PMIX_IOF_LOCAL_OUTPUT` at the server's start; without it a server writes unless a tool has started it;
//! - for a job, its description. With any directive there, even a false one, those of the start don't count for its form;
//! - for a piece, the infos of its delivery, which only switch it off.

use std::collections::BTreeMap;
use std::sync::Arc;

use modex::keys;
use modex::types::{Info, InfoFlags, Key, Namespace, ProcId, Value};
use parking_lot::Mutex;

use crate::argument::Counted;
use crate::from_c;
use crate::guard::Failure;
use crate::output::{FindOrigin, JobOutput, OutputStyle, OutputWriter, Stream, UnmetOutput};
use crate::types::pmix_info_t;

/// Styles of jobs, and the writer.
pub(super) struct LocalOutput {
    /// The style of jobs without a style of their own.
    default: Arc<JobOutput>,
    jobs: Mutex<BTreeMap<Namespace, Arc<JobOutput>>>,
    writer: OutputWriter,
}

impl LocalOutput {
    pub(super) fn new(style: OutputStyle, find_origin: FindOrigin) -> Self {
        let is_copied = style.is_local == Some(true) && !style.is_file_only();
        let default = Arc::new(JobOutput { style, is_copied, ..JobOutput::default() });
        Self { default, jobs: Mutex::default(), writer: OutputWriter::new(find_origin) }
    }

    fn is_local_by_default(&self) -> bool {
        self.default.style.is_local == Some(true)
    }

    /// Takes the directives in a job's description. A later description adds to an earlier one.
    ///
    /// # Errors
    /// For a damaged array, and a required directive that can't be honoured.
    pub(super) fn describe(&self, namespace: &Namespace, infos: Counted<'_, pmix_info_t>) -> Result<(), Failure> {
        let mut given: Vec<Info> = Vec::new();
        for info in infos.list("array of infos")?.iter() {
            let name = from_c::key_in_place(&info.get().key)?;
            if concerns_output(name) {
                given.push(from_c::info(info)?);
            } else if name == keys::JOB_INFO_ARRAY.name()
                && let Value::DataArray(array) = from_c::value(info.value())?
            {
                let inner = array.elements.iter().filter_map(|element| match element {
                    Value::Info(info) if concerns_output(info.key.as_str()) => Some(info.as_ref().clone()),
                    _ => None,
                });
                given.extend(inner);
            }
        }
        self.add_directives(namespace, &given)?;
        Ok(())
    }

    /// As [`LocalOutput::describe`], for a job of this process's own.
    pub(super) fn describe_job(
        &self,
        namespace: &Namespace,
        directives: &[Info],
        count: u32,
    ) -> Result<(), UnmetOutput> {
        let is_meant = |info: &&Info| concerns_output(info.key.as_str());
        let size = Info::new(Key::from_static(keys::JOB_SIZE.name()), count);
        let given: Vec<Info> = directives.iter().filter(is_meant).cloned().chain([size]).collect();
        self.add_directives(namespace, &given)
    }

    fn add_directives(&self, namespace: &Namespace, given: &[Info]) -> Result<(), UnmetOutput> {
        if given.is_empty() {
            return Ok(());
        }
        let mut job = self.jobs.lock().get(namespace).map(|job| JobOutput::clone(job)).unwrap_or_default();
        for info in given {
            if info.key.as_str() == keys::JOB_SIZE.name() {
                job.process_count = info.value.as_u32().unwrap_or(job.process_count);
            } else {
                job.style.take(info.key.as_str(), &info.value);
                job.has_directives = true;
            }
        }
        // This looks at directories, so the lock is not held.
        job.style.refuse_unmet(given)?;
        job.refuse_unwritable(namespace, given)?;
        job.is_copied = self.is_local_by_default() && !job.style.is_file_only();
        self.jobs.lock().insert(namespace.clone(), Arc::new(job));
        Ok(())
    }

    /// Forgets a job that is over.
    pub(super) fn forget(&self, namespace: &Namespace) {
        if self.jobs.lock().remove(namespace).is_some() || self.is_local_by_default() {
            self.writer.end(namespace.clone());
        }
    }

    /// Writes a piece of output if the directives say so.
    pub(super) fn deliver(&self, source: &ProcId, channel: u16, bytes: &[u8], info: &[Info]) {
        let wishes = |info: &&Info| info.key.as_str() == keys::IOF_LOCAL_OUTPUT.name();
        let wish = info.iter().find(wishes).map(|info| (info.value.as_bool(), info.flags()));
        let is_required = match wish {
            Some((Some(false), _)) => return,
            Some((_, flags)) => flags.contains(InfoFlags::REQUIRED),
            None => false,
        };
        let job = self.job(&source.namespace);
        if is_required || self.is_local(&job) {
            self.writer.write(job, source.clone(), Stream::of(channel), bytes.to_vec());
        }
    }

    fn job(&self, namespace: &Namespace) -> Arc<JobOutput> {
        let job = self.jobs.lock().get(namespace).filter(|job| job.has_directives).map(Arc::clone);
        job.unwrap_or_else(|| Arc::clone(&self.default))
    }

    fn is_local(&self, job: &JobOutput) -> bool {
        job.style.is_local.unwrap_or_else(|| self.is_local_by_default())
    }

    /// Writes a text of this server itself, as it is.
    pub(super) fn log(&self, source: &ProcId, stream: Stream, text: &[u8]) {
        // No bytes would be the end of the stream.
        if !text.is_empty() {
            self.writer.write(raw(), source.clone(), stream, text.to_vec());
        }
    }

    /// As [`LocalOutput::log`], unless this server writes no output, and never waits. Returns false if there is no
    /// room.
    pub(super) fn offer_log(&self, source: &ProcId, stream: Stream, text: &[u8]) -> bool {
        !self.is_local_by_default() || self.writer.offer(raw(), source.clone(), stream, text.to_vec())
    }

    /// Writes everything that waits, at the end of the server.
    pub(super) fn finish(&self) {
        self.writer.finish();
    }
}

/// Texts as they are. Nothing waits for the end of a line.
fn raw() -> Arc<JobOutput> {
    let mut job = JobOutput::default();
    job.style.is_raw = true;
    Arc::new(job)
}

fn concerns_output(name: &str) -> bool {
    name == keys::JOB_SIZE.name() || name == keys::IOF_LOCAL_OUTPUT.name() || OutputStyle::is_directive(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: `PMIX_IOF_TAG_OUTPUT` = false of a job changed nothing.
    #[test]
    fn a_false_directive_of_a_job_counts_more_than_the_servers() {
        let info = |name: &'static str, value: Value| Info::new(Key::from_static(name), value);
        let tag = |is_wanted| info(keys::IOF_TAG_OUTPUT.name(), Value::Bool(is_wanted));
        let output = LocalOutput::new(OutputStyle::of(&[tag(true)]), |_| None);
        let is_tagged = |name: &str, directives: &[Info]| {
            let namespace = Namespace::new(name).unwrap();
            output.describe_job(&namespace, directives, 1).unwrap();
            output.job(&namespace).style.changes_lines()
        };
        assert!(is_tagged("a", &[]) && is_tagged("b", &[tag(true)]));
        assert!(!is_tagged("c", &[tag(false)]));
    }

    /// Regression: with a file among the server's own directives nothing else was written.
    #[test]
    fn the_servers_own_file_gets_a_copy_unless_it_is_to_be_all() {
        let info = |name: &'static str, value: Value| Info::new(Key::from_static(name), value);
        let file = info(keys::IOF_OUTPUT_TO_FILE.name(), Value::String("/d/f".into()));
        let only = info(keys::IOF_FILE_ONLY.name(), Value::Bool(true));
        let is_copied = |infos: &[Info]| LocalOutput::new(OutputStyle::of(infos), |_| None).default.is_copied;
        assert!(is_copied(std::slice::from_ref(&file)));
        assert!(!is_copied(&[file, only]));
        assert!(!is_copied(&[]));
    }
}
