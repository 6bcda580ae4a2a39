//! The processors on which this process may run. The kernel knows them, so no topology is needed.

use modex::topo::{CpuSet, PROCESSORS_MAX, TopologyError};
use nix::libc;

const FAILED: TopologyError = TopologyError::Failed { doing: "read the processors this process may run on" };

/// The set of the calling thread, or of all threads of the process together.
pub(super) fn binding(of_thread: bool) -> Result<CpuSet, TopologyError> {
    if of_thread {
        return of_task(0).ok_or(FAILED);
    }
    // Without /proc the calling thread stands for all.
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return of_task(0).ok_or(FAILED) };
    let numbers = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let mut all = Vec::new();
    // A thread that has ended meanwhile is left out.
    for set in numbers.filter_map(of_task) {
        all.resize(all.len().max(set.words().len()), 0);
        all.iter_mut().zip(set.words()).for_each(|(word, more)| *word |= more);
    }
    if all.is_empty() { Err(FAILED) } else { Ok(CpuSet::of_words(&all)) }
}

/// The set of one thread; 0 is the calling thread.
fn of_task(number: libc::pid_t) -> Option<CpuSet> {
    let mut words = vec![0_u64; PROCESSORS_MAX as usize / 64];
    let size_bytes = size_of_val(words.as_slice());
    // SAFETY: the buffer is as large as announced; the kernel takes any size that is enough, and its words are those of
    // the machine, the lowest processors in the first.
    let outcome = unsafe { libc::sched_getaffinity(number, size_bytes, words.as_mut_ptr().cast()) };
    (outcome == 0).then(|| CpuSet::of_words(&words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_run_where_its_process_may() {
        let (thread, process) = (binding(true).unwrap(), binding(false).unwrap());
        assert!(!thread.is_empty());
        assert!(thread.iter().all(|processor| process.contains(processor)));
        assert_eq!(of_task(libc::pid_t::MAX), None);
    }
}
