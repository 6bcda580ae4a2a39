//! The files that get the output of processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use modex::output::{self, NamedStream};
use modex::runtime::hostname;
use modex::types::{Namespace, ProcId};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use parking_lot::Mutex;

use super::stream::{Channel, Stream};
use super::style::OutputStyle;

/// A job's style, and what names of its files need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobOutput {
    pub(crate) style: OutputStyle,
    /// Whether a directive was given for it, even one that is false.
    pub(crate) has_directives: bool,
    /// Number of processes of the job, or 0.
    pub(crate) process_count: u32,
    /// Whether output for a file is written to this process's own streams as well.
    pub(crate) is_copied: bool,
}

impl JobOutput {
    /// The stream whose file gets the output of a stream.
    pub(super) const fn stream_of_file(&self, stream: Stream) -> Stream {
        if self.style.is_merged { Stream::Stdout } else { stream }
    }

    /// The files of a process.
    pub(super) fn paths(&self, source: &ProcId) -> Vec<PathBuf> {
        let streams: &[Stream] =
            if self.style.is_merged { &[Stream::Stdout] } else { &[Stream::Stdout, Stream::Stderr] };
        streams.iter().filter_map(|stream| self.path(source, *stream)).collect()
    }

    /// The file for a stream of a process.
    fn path(&self, source: &ProcId, stream: Stream) -> Option<PathBuf> {
        let is_stdout = stream == Stream::Stdout;
        let (process_count, host) = (self.process_count, &hostname());
        self.style.files.path(&NamedStream { proc: source, is_stdout, process_count, host })
    }
}

/// Files that were opened, by name. Processes share a file if its pattern has no rank, and so do writers with one
/// table. A file that is opened again goes on.
pub(crate) type OpenedPaths = Arc<Mutex<BTreeMap<PathBuf, OpenedFile>>>;

/// A file, and the jobs that opened it.
#[derive(Debug, Default)]
pub(crate) struct OpenedFile {
    jobs: BTreeSet<Namespace>,
    file: Weak<File>,
}

/// The files of one writer.
pub(super) struct OutputFiles {
    open: BTreeMap<Channel, OpenFile>,
    /// Streams whose file can't be made.
    failed: BTreeSet<Channel>,
    /// Open files of all writers with the same table of names.
    open_max: usize,
    /// Number of uses.
    uses: u64,
    paths: OpenedPaths,
    /// Whether the process had no descriptor left at the last attempt.
    is_short: bool,
}

/// The file of a stream.
struct OpenFile {
    file: Arc<File>,
    /// The number of its last use.
    used: u64,
}

impl OutputFiles {
    pub(super) fn new(paths: OpenedPaths) -> Self {
        let (descriptors_max, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or_default();
        let share = usize::try_from(descriptors_max / DESCRIPTORS_PART).unwrap_or(usize::MAX);
        let (open, failed) = (BTreeMap::new(), BTreeSet::new());
        Self { open, failed, open_max: share.max(1), uses: 0, paths, is_short: false }
    }

    /// The file for a stream. `None`: the output is lost.
    pub(super) fn open(&mut self, job: &JobOutput, source: &ProcId, stream: Stream) -> Option<Arc<File>> {
        self.uses = self.uses.saturating_add(1);
        let channel = (source.clone(), stream);
        if let Some(open) = self.open.get_mut(&channel) {
            open.used = self.uses;
            return Some(Arc::clone(&open.file));
        }
        if self.failed.contains(&channel) {
            return None;
        }
        let path = job.path(source, stream)?;
        self.make_room();
        match shared(&self.paths, &path, source) {
            Ok(file) => {
                self.is_short = false;
                self.open.insert(channel, OpenFile { file: Arc::clone(&file), used: self.uses });
                Some(file)
            }
            // Descriptors may be free again later.
            Err(error) if is_shortage(&error) => {
                if !std::mem::replace(&mut self.is_short, true) {
                    tracing::error!(%error, path = %path.display(), "no file for output can be opened; output is lost");
                }
                None
            }
            Err(error) => {
                let path = path.display();
                tracing::error!(%error, %source, %path, "the file for output can't be opened; the output is lost");
                self.failed.insert(channel);
                None
            }
        }
    }

    /// Loses the further output of a stream whose file can't be written, as on a full disk.
    pub(super) fn give_up(&mut self, source: &ProcId, stream: Stream, error: &io::Error) {
        tracing::error!(%error, %source, "the file for output can't be written; the rest of the output is lost");
        let channel = (source.clone(), stream);
        self.open.remove(&channel);
        self.failed.insert(channel);
    }

    /// Closes files that were not used for long, if too many are open. They go on if they are opened again.
    fn make_room(&mut self) {
        let is_full =
            || self.paths.lock().values().filter(|opened| opened.file.strong_count() > 0).count() >= self.open_max;
        while is_full()
            && let Some((channel, _)) = self.open.iter().min_by_key(|(_, open)| open.used)
        {
            let channel = channel.clone();
            self.open.remove(&channel);
        }
    }

    /// Closes the file of a stream that has ended.
    pub(super) fn close(&mut self, channel: &Channel) {
        self.open.remove(channel);
        self.failed.remove(channel);
    }

    /// Closes the files of a job that has ended, and forgets the names that neither writers nor living jobs use.
    pub(super) fn end(&mut self, namespace: &Namespace, lives: impl Fn(&Namespace) -> bool) {
        self.open.retain(|(source, _), _| source.namespace != *namespace);
        self.failed.retain(|(source, _)| source.namespace != *namespace);
        self.paths.lock().retain(|_, opened| opened.file.strong_count() > 0 || opened.jobs.iter().any(&lives));
    }

    #[cfg(test)]
    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }
}

fn is_shortage(error: &io::Error) -> bool {
    [Errno::EMFILE, Errno::ENFILE].map(|errno| Some(errno as i32)).contains(&error.raw_os_error())
}

/// The file of this name for a source. It may be open for another.
fn shared(paths: &OpenedPaths, path: &Path, source: &ProcId) -> io::Result<Arc<File>> {
    let mut paths = paths.lock();
    let known = paths.get(path);
    let file = match known.and_then(|opened| opened.file.upgrade()) {
        Some(file) => file,
        None => Arc::new(open_named(path, known.is_some())?),
    };
    let opened = paths.entry(path.to_owned()).or_default();
    opened.jobs.insert(source.namespace.clone());
    opened.file = Arc::downgrade(&file);
    Ok(file)
}

/// Opens a file, which is emptied unless this process has written it before.
fn open_named(path: &Path, is_known: bool) -> io::Result<File> {
    let file = output::open(path, is_known, &mut Vec::new())?;
    if !is_known {
        file.set_len(0)?;
    }
    Ok(file)
}

/// The share of the process's descriptors for open files: the host and its connections need others.
const DESCRIPTORS_PART: u64 = 8;

#[cfg(test)]
pub(super) mod tests {
    use modex::output::{FileDirectives, Place};

    use super::*;

    pub(in crate::output) fn source(rank: u32) -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), rank)
    }

    pub(in crate::output) fn job(place: Place) -> JobOutput {
        let files = FileDirectives { place: Some(place), ..FileDirectives::default() };
        let style = OutputStyle { files, ..OutputStyle::default() };
        JobOutput { style, process_count: 16, ..JobOutput::default() }
    }

    #[test]
    fn an_output_has_the_file_of_its_stream() {
        let mut job = job(Place::File("/d/f".into()));
        assert_eq!(job.paths(&source(3)), ["/d/f.job.03.out", "/d/f.job.03.err"].map(PathBuf::from));
        job.style.is_merged = true;
        assert_eq!(job.paths(&source(3)), [PathBuf::from("/d/f.job.03.out")]);
        assert_eq!(job.path(&source(3), Stream::Stddiag).unwrap(), Path::new("/d/f.job.03.err"));
    }

    /// Regression: the thread that writes output hung at a pipe in the place of a file.
    #[test]
    fn a_file_that_can_not_be_opened_gets_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let job = job(Place::File(directory.path().join("f")));
        nix::unistd::mkfifo(&directory.path().join("f.job.03.out"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut files = OutputFiles::new(OpenedPaths::default());
        assert!(files.open(&job, &source(3), Stream::Stdout).is_none());
        assert!(files.open(&job, &source(3), Stream::Stderr).is_some());
    }

    /// Regression: each stream took a descriptor until its end.
    #[test]
    fn few_files_are_open_at_a_time_and_each_goes_on() {
        use std::io::Write;
        let directory = tempfile::tempdir().unwrap();
        let job = job(Place::File(directory.path().join("f")));
        let mut files = OutputFiles { open_max: 2, ..OutputFiles::new(OpenedPaths::default()) };
        for round in 0..2 {
            for rank in 0..5 {
                let file = files.open(&job, &source(rank), Stream::Stdout).unwrap();
                writeln!(&*file, "{round}").unwrap();
            }
            assert_eq!(files.open_count(), 2);
        }
        for rank in 0..5 {
            let path = directory.path().join(format!("f.job.0{rank}.out"));
            assert_eq!(std::fs::read_to_string(path).unwrap(), "0\n1\n");
        }
    }
}
