//! The files that a job's directives name for its output (`PMIX_IOF_OUTPUT_TO_FILE`, `PMIX_IOF_OUTPUT_TO_DIRECTORY`).
//!
//! They get the output beside its usual destination, or alone. All of them are open before the first rank starts, so a
//! job whose output would be lost does not start.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use modex::os_error_hint::explain_start;
use modex::output::{self, NamedStream, remove_made};
use modex::types::ProcId;

use super::children::Channel;
use super::destination::OutputFile;
use super::plan::Plan;
use super::rank_id::RankId;

/// Why a job has no file for its output.
#[derive(Debug, thiserror::Error)]
#[error("the job's output can't be written to {}: {}", .path.display(), explain_start(.reason))]
pub(crate) struct DirectedFilesError {
    path: PathBuf,
    reason: io::Error,
}

/// The files of jobs.
#[derive(Debug, Default)]
pub(super) struct DirectedFiles {
    /// The jobs that start, by number.
    starting: BTreeMap<u32, StartingFiles>,
    /// The open files by name. Ranks and jobs may share one.
    open: BTreeMap<PathBuf, Weak<OutputFile>>,
}

/// The files of a job that starts.
#[derive(Debug, Default)]
struct StartingFiles {
    /// The files of ranks that have not started.
    of_output: BTreeMap<(RankId, Channel), Arc<OutputFile>>,
    /// Files and directories that did not exist before.
    made: Vec<PathBuf>,
    /// Whether ranks have started.
    is_used: bool,
}

impl DirectedFiles {
    /// Opens the files of a job, empty unless another job writes to them. `is_merged`: ranks have one output. After a
    /// failure nothing is left of them.
    pub(super) fn open(&mut self, plan: &Plan, host: &str, is_merged: bool) -> Result<(), DirectedFilesError> {
        if plan.io.files.place.is_none() {
            return Ok(());
        }
        self.open.retain(|_, file| file.strong_count() > 0);
        let mut starting = StartingFiles::default();
        match self.open_all(plan, host, is_merged, &mut starting) {
            Ok(()) => drop(self.starting.insert(plan.job, starting)),
            Err((path, reason)) => {
                remove_made(&starting.made);
                return Err(DirectedFilesError { path, reason });
            }
        }
        Ok(())
    }

    fn open_all(
        &mut self,
        plan: &Plan,
        host: &str,
        is_merged: bool,
        starting: &mut StartingFiles,
    ) -> Result<(), (PathBuf, io::Error)> {
        let process_count = plan.rank_count();
        let channels: &[Channel] = if is_merged { &[Channel::Out] } else { &[Channel::Out, Channel::Error] };
        let mut fresh = Vec::new();
        for (rank, channel) in plan.ranks().flat_map(|(rank, _)| channels.iter().map(move |channel| (rank, *channel))) {
            let proc = &ProcId::new(plan.namespace.clone(), rank.rank);
            let stream = NamedStream { proc, is_stdout: channel == Channel::Out, process_count, host };
            let Some(path) = plan.io.files.path(&stream) else { continue };
            let path = plan.directory.join(path);
            let file = match self.open.get(&path).and_then(Weak::upgrade) {
                Some(file) => file,
                None => {
                    let opened = output::open(&path, false, &mut starting.made);
                    let file = opened.map_err(|reason| (path.clone(), reason))?;
                    let file = Arc::new(OutputFile { path: path.clone(), file });
                    self.open.insert(path, Arc::downgrade(&file));
                    fresh.push(Arc::clone(&file));
                    file
                }
            };
            starting.of_output.insert((rank, channel), file);
        }
        // Files of earlier runs stay as they are if others can't be opened.
        fresh.iter().try_for_each(|file| file.file.set_len(0).map_err(|reason| (file.path.clone(), reason)))
    }

    /// The file for an output of a rank that has started.
    pub(super) fn take(&mut self, rank: RankId, channel: Channel) -> Option<Arc<OutputFile>> {
        let starting = self.starting.get_mut(&rank.job)?;
        starting.is_used = true;
        let file = starting.of_output.remove(&(rank, channel));
        if starting.of_output.is_empty() {
            self.starting.remove(&rank.job);
        }
        file
    }

    /// Forgets the files of a job that can't start. If no rank has started, they are removed.
    pub(super) fn discard(&mut self, job: u32) {
        if let Some(starting) = self.starting.remove(&job)
            && !starting.is_used
        {
            remove_made(&starting.made);
        }
    }

    /// The number of open files.
    pub(super) fn count(&self) -> usize {
        self.open.values().filter(|file| file.strong_count() > 0).count()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use modex::output::{FileDirectives, Place};

    use super::super::apps::App;
    use super::*;

    fn plan(place: Place, is_pattern: bool) -> Plan {
        let app = App { count: 2, program: "true".into(), ..App::default() };
        let mut plan = Plan::new(vec![app], false).unwrap();
        plan.io.files = FileDirectives { place: Some(place), is_pattern, is_alone: None };
        plan
    }

    fn taken(files: &mut DirectedFiles, plan: &Plan, channel: Channel) -> Vec<Arc<OutputFile>> {
        plan.ranks().filter_map(|(rank, _)| files.take(rank, channel)).collect()
    }

    #[test]
    fn a_relative_name_is_relative_to_the_launchers_directory() {
        let directory = tempfile::tempdir().unwrap();
        let directed = Plan { directory: directory.path().to_owned(), ..plan(Place::Directory("d".into()), false) };
        DirectedFiles::default().open(&directed, "n0", false).unwrap();
        let path = format!("d/{}/rank.1/stderr", directed.namespace);
        assert!(directory.path().join(path).exists());
    }

    #[test]
    fn each_output_has_a_file_or_shares_one() {
        let directory = tempfile::tempdir().unwrap();
        let [each, shared] = [("each", false), ("shared", true)]
            .map(|(name, is_pattern)| plan(Place::File(directory.path().join(name)), is_pattern));
        let mut files = DirectedFiles::default();
        files.open(&each, "n0", true).unwrap();
        assert_eq!((files.count(), taken(&mut files, &each, Channel::Error).len()), (2, 0), "merged");
        let names = taken(&mut files, &each, Channel::Out).into_iter().map(|file| file.path.clone());
        let expected = [0, 1].map(|rank| directory.path().join(format!("each.{}.{rank}.out", each.namespace)));
        assert_eq!(names.collect::<Vec<_>>(), expected);
        files.open(&shared, "n0", false).unwrap();
        let [first, second] = &taken(&mut files, &shared, Channel::Out)[..] else { panic!("two ranks") };
        assert!(Arc::ptr_eq(first, second));
        fs::write(directory.path().join("shared.out"), "of the first job").unwrap();
        files.open(&shared, "n0", false).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("shared.out")).unwrap(), "of the first job");
    }

    #[test]
    fn without_all_files_nothing_is_left_and_old_ones_keep_their_text() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("new/f");
        let plan = plan(Place::File(place.clone()), false);
        let mut files = DirectedFiles::default();
        files.open(&plan, "n0", true).unwrap();
        files.discard(plan.job);
        assert!(!directory.path().join("new").exists() && files.count() == 0);
        let name = |rank: u32| directory.path().join(format!("new/f.{}.{rank}.out", plan.namespace));
        fs::create_dir_all(name(1)).unwrap();
        fs::write(name(0), "old").unwrap();
        let error = files.open(&plan, "n0", false).unwrap_err().to_string();
        assert!(error.starts_with(&format!("the job's output can't be written to {}: ", name(1).display())), "{error}");
        assert_eq!(fs::read_to_string(name(0)).unwrap(), "old");
        assert_eq!(fs::read_dir(directory.path().join("new")).unwrap().count(), 2, "no file for standard error");
        fs::remove_dir(name(1)).unwrap();
        files.open(&plan, "n0", true).unwrap();
        assert_eq!(fs::read_to_string(name(0)).unwrap(), "");
        files.take(RankId { job: plan.job, rank: 0 }, Channel::Out);
        files.discard(plan.job);
        assert!(name(1).exists(), "ranks have started");
    }
}
