//! The usual destinations of the ranks' output: the launcher's own outputs, or a file for each rank and channel
//! (`--output`).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modex::os_error_hint::explain_start;
use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::children::Channel;
use super::rank_id::{FIRST_JOB, RankId};

/// The destination of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Destination {
    /// The launcher's standard output.
    Out,
    /// The launcher's standard error.
    Error,
    /// The file with this index.
    File(usize),
    /// None: only files that directives name get the output.
    Nowhere,
}

/// A file for output.
#[derive(Debug)]
pub(super) struct OutputFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
}

/// A file for an output of a rank.
#[derive(Clone, Debug)]
struct RankFile {
    output: (RankId, Channel),
    file: Arc<OutputFile>,
}

/// The files of the jobs' ranks, or none.
#[derive(Clone, Debug, Default)]
pub(super) struct OutputFiles {
    place: Option<Place>,
    open: BTreeMap<usize, RankFile>,
    /// The index of the file for each output.
    of_output: BTreeMap<(RankId, Channel), usize>,
    /// The index of the next file.
    next: usize,
}

/// The user's choice.
#[derive(Clone, Debug)]
struct Place {
    directory: PathBuf,
    channels: &'static [Channel],
}

/// Why the ranks' output can't go to files.
#[derive(Debug, thiserror::Error)]
#[error("--output: cannot write {}: {}", .path.display(), explain_open(.reason))]
pub(crate) struct OutputFilesError {
    /// The directory or file.
    path: PathBuf,
    /// The operating system's reason.
    reason: io::Error,
}

impl OutputFiles {
    /// Makes the directory and the files of the first job, empty. `is_merged`: both outputs of a rank share a file.
    pub(super) fn create(directory: &Path, rank_count: u32, is_merged: bool) -> Result<Self, OutputFilesError> {
        let path = || directory.to_owned();
        fs::create_dir_all(directory).map_err(|reason| OutputFilesError { path: path(), reason })?;
        let channels: &[Channel] = if is_merged { &[Channel::Out] } else { &[Channel::Out, Channel::Error] };
        let mut files = Self { place: Some(Place { directory: path(), channels }), ..Self::default() };
        files.open(FIRST_JOB, rank_count)?;
        Ok(files)
    }

    /// Makes the files of a job, if output goes to files. After a failure some are open.
    pub(super) fn open(&mut self, job: u32, rank_count: u32) -> Result<(), OutputFilesError> {
        let Some(Place { directory, channels }) = &self.place else { return Ok(()) };
        for (rank, channel) in (0..rank_count).flat_map(|rank| channels.iter().map(move |channel| (rank, *channel))) {
            let id = RankId { job, rank };
            let path = directory.join(file_name(id, rank_count, channel));
            // A named pipe without a reader would hold up the launcher.
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).custom_flags(OFlag::O_NONBLOCK.bits());
            let file = match options.open(&path) {
                Ok(file) => file,
                Err(reason) => return Err(OutputFilesError { path, reason }),
            };
            let file = Arc::new(OutputFile { path, file });
            self.open.insert(self.next, RankFile { output: (id, channel), file });
            self.of_output.insert((id, channel), self.next);
            self.next += 1;
        }
        Ok(())
    }

    /// The destination of a rank's output: a file of its own, or the launcher's output of the same kind.
    pub(super) fn destination(&self, rank: RankId, channel: Channel) -> Destination {
        match (self.of_output.get(&(rank, channel)), channel) {
            (Some(index), _) => Destination::File(*index),
            (None, Channel::Out) => Destination::Out,
            (None, Channel::Error) => Destination::Error,
        }
    }

    /// The number of files.
    pub(super) fn count(&self) -> usize {
        self.open.len()
    }

    /// The file with this index.
    pub(super) fn get(&self, index: usize) -> Option<&Arc<OutputFile>> {
        self.open.get(&index).map(|open| &open.file)
    }

    /// Hands a file out to be closed.
    pub(super) fn close(&mut self, index: usize) -> Option<Arc<OutputFile>> {
        let RankFile { output, file } = self.open.remove(&index)?;
        self.of_output.remove(&output);
        Some(file)
    }

    /// Hands the files of a job out to be closed.
    pub(super) fn take_job(&mut self, job: u32) -> Vec<Arc<OutputFile>> {
        let of_job: Vec<usize> =
            self.open.iter().filter(|(_, open)| open.output.0.job == job).map(|(index, _)| *index).collect();
        of_job.into_iter().filter_map(|index| self.close(index)).collect()
    }

    /// Hands all files out to be closed.
    pub(super) fn take(&mut self) -> Vec<Arc<OutputFile>> {
        self.of_output.clear();
        std::mem::take(&mut self.open).into_values().map(|open| open.file).collect()
    }
}

/// `rank.07.out`, or `job.1.rank.07.out` for a spawned job. All numbers have as many digits as the highest rank, so
/// that names sort by rank.
fn file_name(RankId { job, rank }: RankId, rank_count: u32, channel: Channel) -> String {
    let digits = rank_count.saturating_sub(1).to_string().len();
    let ending = match channel {
        Channel::Out => "out",
        Channel::Error => "err",
    };
    let job = if job == FIRST_JOB { String::new() } else { format!("job.{job}.") };
    format!("{job}rank.{rank:0digits$}.{ending}")
}

/// The system's reason. The advice for a full disk is about the temporary directory, so it does not fit here.
fn explain_open(reason: &io::Error) -> String {
    match reason.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOSPC | Errno::EDQUOT) => format!("{reason}; make room there, or choose another directory"),
        _ => explain_start(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(rank: u32) -> RankId {
        RankId { job: FIRST_JOB, rank }
    }

    #[test]
    fn names_sort_by_rank() {
        let names: Vec<_> = (0..120).map(|rank| file_name(first(rank), 120, Channel::Out)).collect();
        assert!(names.is_sorted() && names[7] == "rank.007.out" && names[119] == "rank.119.out");
        assert_eq!(file_name(first(9), 10, Channel::Error), "rank.9.err");
        assert_eq!(file_name(first(9), 11, Channel::Error), "rank.09.err");
    }

    #[test]
    fn each_rank_has_a_file_for_each_output_or_one_for_both() {
        let directory = tempfile::tempdir().unwrap();
        let apart = OutputFiles::create(&directory.path().join("a/b"), 2, false).unwrap();
        let Destination::File(index) = apart.destination(first(1), Channel::Error) else { panic!("no file") };
        assert!(apart.get(index).unwrap().path.ends_with("a/b/rank.1.err"));
        let merged = OutputFiles::create(directory.path(), 2, true).unwrap();
        let Destination::File(index) = merged.destination(first(1), Channel::Out) else { panic!("no file") };
        assert!(
            merged.get(index).unwrap().path.ends_with("rank.1.out") && !directory.path().join("rank.1.err").exists()
        );
        for (channel, own) in [(Channel::Out, Destination::Out), (Channel::Error, Destination::Error)] {
            assert_eq!(OutputFiles::default().destination(first(0), channel), own);
            assert_eq!(apart.destination(first(2), channel), own, "a rank that nobody expected");
        }
    }

    #[test]
    fn a_spawned_job_has_files_of_its_own_which_are_closed_alone() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = OutputFiles::create(directory.path(), 1, true).unwrap();
        files.open(2, 11).unwrap();
        let rank = RankId { job: 2, rank: 3 };
        let Destination::File(index) = files.destination(rank, Channel::Out) else { panic!("no file") };
        assert!(files.get(index).unwrap().path.ends_with("job.2.rank.03.out"));
        assert!(files.close(index).is_some() && files.close(index).is_none());
        assert_eq!((files.destination(rank, Channel::Out), files.count()), (Destination::Out, 11));
        assert_eq!((files.take_job(2).len(), files.count()), (10, 1));
        assert!(OutputFiles::default().open(1, 2).is_ok());
    }

    #[test]
    fn a_file_that_can_not_be_written_is_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("rank.1.out")).unwrap();
        let error = OutputFiles::create(directory.path(), 2, false).unwrap_err().to_string();
        assert!(error.contains("/rank.1.out: Is a directory"), "{error}");
        let file = directory.path().join("rank.0.out");
        let error = OutputFiles::create(&file, 2, false).unwrap_err().to_string();
        assert!(error.starts_with(&format!("--output: cannot write {}: ", file.display())), "{error}");
    }
}
