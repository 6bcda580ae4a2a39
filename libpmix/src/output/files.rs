//! The files that get the output of processes.
//!
//! Names are predictable, and other users may have put something in their place. So only a regular file of this user is
//! written. Links are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use modex::runtime::hostname;
use modex::types::{Namespace, ProcId};
use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::geteuid;
use parking_lot::Mutex;

use super::stream::{Channel, Stream};
use super::style::{Destination, OutputStyle};

/// A job's style, and what names of its files need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobOutput {
    pub(crate) style: OutputStyle,
    /// Whether a directive was given for it, even one that is false.
    pub(crate) is_own: bool,
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
        let streams = [Stream::Stdout, Stream::Stderr].map(|stream| self.stream_of_file(stream));
        streams.into_iter().filter_map(|stream| path_of(self, source, stream)).collect()
    }
}

/// Files that were opened, by name. Processes share a file if its pattern has no rank, and so do writers with one table. A
/// file that is opened again goes on.
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
        let path = path_of(job, source, stream)?;
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
    pub(super) fn give_up(&mut self, source: &ProcId, stream: Stream, error: Errno) {
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
fn open_named(path: &Path, is_again: bool) -> io::Result<File> {
    path.parent().map_or(Ok(()), make_directory)?;
    let mut options = OpenOptions::new();
    // A pipe without a reader gives an error instead of a wait.
    options.append(true).mode(FILE_MODE).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    // A new file is this user's, whatever owner its file system shows.
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created,
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    // The owner may have changed since.
    if is_again && metadata.is_file() {
        return Ok(file);
    }
    check_file(path, &metadata)?;
    file.set_len(0)?;
    Ok(file)
}

/// Checks that a file that this process has not made is a regular one of its user.
pub(super) fn check_file(path: &Path, metadata: &Metadata) -> io::Result<()> {
    if !metadata.is_file() {
        return Err(io::Error::other(format!("{} is no regular file", path.display())));
    }
    if metadata.uid() != geteuid().as_raw() {
        return Err(io::Error::other(format!("{} belongs to user {}", path.display(), metadata.uid())));
    }
    Ok(())
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Names of files are those of OpenPMIx: the rank has as many digits as the job's size.
fn path_of(job: &JobOutput, source: &ProcId, stream: Stream) -> Option<PathBuf> {
    let digits = job.process_count.to_string().len();
    let (namespace, rank) = (as_component(source.namespace.as_str()), source.rank.to_raw());
    let end = if stream == Stream::Stdout { "out" } else { "err" };
    Some(match job.style.destination.as_ref()? {
        Destination::Directory(directory) => {
            let name = if stream == Stream::Stdout { "stdout" } else { "stderr" };
            directory.join(namespace).join(format!("rank.{rank:0digits$}")).join(name)
        }
        Destination::File(file) => {
            let padded = format!("{rank:0digits$}");
            let mut name = match job.style.is_file_pattern {
                true => filled_pattern(file, &namespace, &rank.to_string(), &padded),
                false => OsString::from_iter([file.as_os_str(), format!(".{namespace}.{padded}").as_ref()]),
            };
            name.push(format!(".{end}"));
            name.into()
        }
    })
}

/// A pattern for the name of a file, with the names of a process in it, as OpenPMIx 7 fills it. Other signs `%` stay.
fn filled_pattern(pattern: &Path, namespace: &str, rank: &str, padded_rank: &str) -> OsString {
    let host = as_component(&hostname());
    let mut name = Vec::new();
    let mut rest = pattern.as_os_str().as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let filled = match (byte, after.first()) {
            (b'%', Some(b'n')) => Some(namespace),
            (b'%', Some(b'r')) => Some(rank),
            (b'%', Some(b'R')) => Some(padded_rank),
            (b'%', Some(b'h')) => Some(host.as_str()),
            (b'%', Some(b'%')) => Some("%"),
            _ => None,
        };
        name.extend_from_slice(filled.map_or(std::slice::from_ref(&byte), str::as_bytes));
        rest = after.get(usize::from(filled.is_some())..).unwrap_or_default();
    }
    OsString::from_vec(name)
}

/// A name of a job as one component of a path, which does not leave its directory.
fn as_component(name: &str) -> String {
    match name {
        "." | ".." => name.replace('.', "%2E"),
        name => name.replace('/', "%2F"),
    }
}

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o750;
/// The share of the process's descriptors for open files: the host and its connections need others.
const DESCRIPTORS_PART: u64 = 8;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::output) fn source(rank: u32) -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), rank)
    }

    pub(in crate::output) fn job(destination: Destination) -> JobOutput {
        let style = OutputStyle { destination: Some(destination), ..OutputStyle::default() };
        JobOutput { style, process_count: 16, ..JobOutput::default() }
    }

    fn open(job: &JobOutput) -> Option<Arc<File>> {
        OutputFiles::new(OpenedPaths::default()).open(job, &source(3), Stream::Stdout)
    }

    #[test]
    fn files_have_the_names_of_the_reference() {
        let path = |job: &JobOutput, stream| path_of(job, &source(3), stream).unwrap();
        let directory = job(Destination::Directory("/d".into()));
        assert_eq!(path(&directory, Stream::Stdout), Path::new("/d/job/rank.03/stdout"));
        let mut file = job(Destination::File("/d/f".into()));
        assert_eq!(path(&file, Stream::Stderr), Path::new("/d/f.job.03.err"));
        file.style.is_file_pattern = true;
        assert_eq!(path(&file, Stream::Stdout), Path::new("/d/f.out"));
        for (pattern, expected) in [
            ("/d/%n/100%-%r%", "/d/job/100%-3%.err".to_owned()),
            ("/d/%R%%r", "/d/03%r.err".to_owned()),
            ("/d/%h", format!("/d/{}.err", hostname())),
        ] {
            file.style.destination = Some(Destination::File(pattern.into()));
            assert_eq!(path(&file, Stream::Stderr), Path::new(&expected));
        }
    }

    #[test]
    fn names_of_jobs_do_not_leave_the_directory() {
        let path = |name: &str| {
            let source = ProcId::new(Namespace::new(name).unwrap(), 3);
            path_of(&job(Destination::Directory("/d".into())), &source, Stream::Stdout).unwrap()
        };
        assert_eq!(path("../x/y"), Path::new("/d/..%2Fx%2Fy/rank.03/stdout"));
        assert_eq!(path(".."), Path::new("/d/%2E%2E/rank.03/stdout"));
        assert_eq!(path("."), Path::new("/d/%2E/rank.03/stdout"));
        assert_eq!(path("/etc"), Path::new("/d/%2Fetc/rank.03/stdout"));
    }

    #[test]
    fn links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("other");
        std::os::unix::fs::symlink(&other, directory.path().join("f.job.03.out")).unwrap();
        let job = job(Destination::File(directory.path().join("f")));
        assert!(open(&job).is_none());
        assert!(!other.exists());
    }

    /// Regression: the thread that writes output hung at a pipe in the place of a file.
    #[test]
    fn output_is_written_to_regular_files_only() {
        let directory = tempfile::tempdir().unwrap();
        let job = job(Destination::File(directory.path().join("f")));
        let path = directory.path().join("f.job.03.out");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(open(&job).is_none(), "without a reader");
        let _reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        assert!(open(&job).is_none(), "with a reader");
    }

    /// Regression: each stream took a descriptor until its end.
    #[test]
    fn few_files_are_open_at_a_time_and_each_goes_on() {
        use std::io::Write;
        let directory = tempfile::tempdir().unwrap();
        let job = job(Destination::File(directory.path().join("f")));
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
