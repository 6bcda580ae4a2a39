//! The destinations of the ranks' output: the launcher's own outputs, or a file for each rank and channel (`--output`).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modex::os_error_hint::explain_start;
use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::children::Channel;

/// The destination of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Destination {
    /// The launcher's standard output.
    Out,
    /// The launcher's standard error.
    Error,
    /// The file with this index.
    File(usize),
}

/// A file for the output of a rank.
#[derive(Debug)]
pub(super) struct RankFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
}

/// The files of a job's ranks, or none.
#[derive(Clone, Debug, Default)]
pub(super) struct OutputFiles {
    files: Vec<Arc<RankFile>>,
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
    /// Makes the directory and the files of this number of ranks, empty. `is_merged`: both outputs of a rank share a file.
    pub(super) fn create(directory: &Path, rank_count: usize, is_merged: bool) -> Result<Self, OutputFilesError> {
        let failed = |path: &Path, reason| OutputFilesError { path: path.to_owned(), reason };
        fs::create_dir_all(directory).map_err(|reason| failed(directory, reason))?;
        let channels: &[Channel] = if is_merged { &[Channel::Out] } else { &[Channel::Out, Channel::Error] };
        let mut files = Vec::with_capacity(rank_count * channels.len());
        for rank in 0..rank_count {
            for channel in channels {
                let path = directory.join(file_name(rank, rank_count, *channel));
                // A named pipe without a reader would hold up the launcher.
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(true).custom_flags(OFlag::O_NONBLOCK.bits());
                let file = options.open(&path).map_err(|reason| failed(&path, reason))?;
                files.push(Arc::new(RankFile { path, file }));
            }
        }
        Ok(Self { files, channels })
    }

    /// The destination of a rank's output: a file of its own, or the launcher's output of the same kind.
    pub(super) fn destination(&self, rank: u32, channel: Channel) -> Destination {
        let position = self.channels.iter().position(|known| *known == channel);
        let index = position.zip(usize::try_from(rank).ok()).map(|(at, rank)| rank * self.channels.len() + at);
        match (index.filter(|index| *index < self.files.len()), channel) {
            (Some(index), _) => Destination::File(index),
            (None, Channel::Out) => Destination::Out,
            (None, Channel::Error) => Destination::Error,
        }
    }

    /// The number of files.
    pub(super) fn count(&self) -> usize {
        self.files.len()
    }

    /// The file with this index.
    pub(super) fn get(&self, index: usize) -> Option<&Arc<RankFile>> {
        self.files.get(index)
    }

    /// Hands the files out to be closed.
    pub(super) fn take(&mut self) -> Vec<Arc<RankFile>> {
        std::mem::take(&mut self.files)
    }
}

/// `rank.07.out`: all numbers have as many digits as the highest, so that names sort by rank.
fn file_name(rank: usize, rank_count: usize, channel: Channel) -> String {
    let digits = rank_count.saturating_sub(1).to_string().len();
    let ending = match channel {
        Channel::Out => "out",
        Channel::Error => "err",
    };
    format!("rank.{rank:0digits$}.{ending}")
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

    #[test]
    fn names_sort_by_rank() {
        let names: Vec<_> = (0..120).map(|rank| file_name(rank, 120, Channel::Out)).collect();
        assert!(names.is_sorted() && names[7] == "rank.007.out" && names[119] == "rank.119.out");
        assert_eq!(file_name(9, 10, Channel::Error), "rank.9.err");
        assert_eq!(file_name(9, 11, Channel::Error), "rank.09.err");
    }

    #[test]
    fn each_rank_has_a_file_for_each_output_or_one_for_both() {
        let directory = tempfile::tempdir().unwrap();
        let apart = OutputFiles::create(&directory.path().join("a/b"), 2, false).unwrap();
        let Destination::File(index) = apart.destination(1, Channel::Error) else { panic!("no file") };
        assert!(apart.get(index).unwrap().path.ends_with("a/b/rank.1.err"));
        let merged = OutputFiles::create(directory.path(), 2, true).unwrap();
        let Destination::File(index) = merged.destination(1, Channel::Out) else { panic!("no file") };
        assert!(
            merged.get(index).unwrap().path.ends_with("rank.1.out") && !directory.path().join("rank.1.err").exists()
        );
        for (channel, own) in [(Channel::Out, Destination::Out), (Channel::Error, Destination::Error)] {
            assert_eq!(OutputFiles::default().destination(0, channel), own);
            assert_eq!(apart.destination(2, channel), own, "a rank that nobody expected");
        }
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
