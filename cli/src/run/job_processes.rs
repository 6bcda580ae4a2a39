//! Finds and kills all processes of a job whose launcher is dead. Finds the processes that a rank has started.
//!
//! A job has these processes: the members of the ranks' group, processes with the job's socket in their environment,
//! and descendants of both. A process that has cleared its environment and lost its parents is not recognised.
//!
//! The system changes during the search. A process that was sent SIGKILL starts no other process. So the search repeats
//! until it finds no new process, and then once more. The last pass finds a process in the part already read, started
//! by a process that ended before its turn. A signal goes through a handle on the process that was inspected, never to
//! a bare number.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Passes in a row that must find no new process.
const EMPTY_LOOKS: u32 = 2;

/// Passes after which the search for the processes of a rank gives up, so that a rank that forks without end does not
/// hold up the launcher.
const LOOKS_MAX: u32 = 32;

/// The traits that tell a job's processes from others.
#[derive(Debug)]
pub(super) struct Traits {
    /// The ranks' process group.
    pub(super) group: i32,
    /// Name of the job's directory, in which its socket lies. No two jobs have the same.
    pub(super) directory_name: Vec<u8>,
}

/// A process, as `/proc` shows it.
#[derive(Clone, Copy, Debug)]
struct Process {
    id: Identity,
    parent: i32,
    group: i32,
    is_marked: bool,
}

/// The identity of a process: its number and its start time, in clock ticks since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    number: i32,
    started: u64,
}

/// Kills every process of the job except this one and the spared ones.
pub(super) fn kill_all(traits: &Traits, is_spared: impl Fn(i32) -> bool) {
    let mut killed = BTreeSet::new();
    let mut empty_looks = 0;
    while empty_looks < EMPTY_LOOKS {
        empty_looks += 1;
        for id in members(&look(traits, &is_spared), traits.group) {
            if killed.insert(id) {
                empty_looks = 0;
                kill(id);
            }
        }
    }
}

/// The processes that belong to the job.
fn members(processes: &[Process], group: i32) -> BTreeSet<Identity> {
    with_descendants(processes, |process| process.is_marked || process.group == group)
}

fn with_descendants(processes: &[Process], is_root: impl Fn(&Process) -> bool) -> BTreeSet<Identity> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut pending: Vec<Process> = processes.iter().copied().filter(is_root).collect();
    let mut members = BTreeSet::new();
    while let Some(process) = pending.pop() {
        if members.insert(process.id) {
            pending.extend(children.get(&process.id.number).into_iter().flatten());
        }
    }
    members
}

/// Sends a signal to processes and to all that they started. The numbers must stand for unreaped children.
///
/// A process may start another one during the search. SIGSTOP and SIGKILL reach that one, too: the search stops each
/// process that it finds, and ends when it finds no other, or after [`LOOKS_MAX`] passes. Returns whether the system
/// permits it, and has the means.
pub(super) fn signal_trees(roots: &BTreeSet<i32>, signal: Signal) -> bool {
    let is_final = signal == Signal::KILL || signal == Signal::STOP;
    let mut found: BTreeSet<Identity> = BTreeSet::new();
    let mut is_permitted = true;
    for _ in 0..LOOKS_MAX {
        let processes = stand();
        // Without descriptors the table can't be read.
        is_permitted &= roots.iter().all(|root| processes.iter().any(|process| process.id.number == *root));
        let new: Vec<Identity> = trees(&processes, roots).into_iter().filter(|id| found.insert(*id)).collect();
        if new.is_empty() {
            break;
        }
        for id in new {
            is_permitted &= send(id, if is_final { Signal::STOP } else { signal });
        }
        if !is_final {
            break;
        }
    }
    if signal == Signal::KILL {
        for id in found {
            is_permitted &= send(id, signal);
        }
    }
    is_permitted
}

/// All processes with their parents and groups.
fn stand() -> Vec<Process> {
    let process = |number: i32| {
        let (parent, group, started) = standing(&PathBuf::from(format!("/proc/{number}")))?;
        Some(Process { id: Identity { number, started }, parent, group, is_marked: false })
    };
    numbers().filter_map(process).collect()
}

/// The roots and all processes that they started.
fn trees(processes: &[Process], roots: &BTreeSet<i32>) -> BTreeSet<Identity> {
    with_descendants(processes, |process| roots.contains(&process.id.number))
}

fn look(traits: &Traits, is_spared: impl Fn(i32) -> bool) -> Vec<Process> {
    let this = i32::try_from(std::process::id());
    numbers().filter(|number| this != Ok(*number)).filter_map(|number| examine(number, traits, &is_spared)).collect()
}

/// The numbers of all processes.
fn numbers() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process in its present state. `None` if it has ended, or leads its group and is spared.
fn examine(number: i32, traits: &Traits, is_spared: impl Fn(i32) -> bool) -> Option<Process> {
    let folder = PathBuf::from(format!("/proc/{number}"));
    let (parent, group, started) = standing(&folder)?;
    if group == number && is_spared(number) {
        return None;
    }
    // The environment of another user's process, or of an ended one, can't be read.
    let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
    let is_marked = names_socket_in(&environment, &traits.directory_name);
    Some(Process { id: Identity { number, started }, parent, group, is_marked })
}

/// A process's parent.
pub(super) fn parent_of(process: i32) -> Option<i32> {
    standing(&PathBuf::from(format!("/proc/{process}"))).map(|(parent, ..)| parent)
}

/// Whether another process group is in the foreground of this process's terminal.
pub(super) fn is_in_background() -> bool {
    let line = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let Some((_, fields)) = line.rsplit_once(") ") else { return false };
    let fields: Vec<i32> = fields.split(' ').skip(1).map_while(|field| field.parse().ok()).collect();
    // The third and fourth of them are the session and the terminal.
    matches!(fields[..], [_, group, _, _, foreground, ..] if foreground > 0 && foreground != group)
}

/// A process's parent, its group, and its start time.
fn standing(folder: &Path) -> Option<(i32, i32, u64)> {
    let line = std::fs::read(folder.join("stat")).ok()?;
    // The second field is the program's name, which may hold anything, in brackets; the state follows.
    let end_of_name = line.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(line.get(end_of_name + 1..)?).ok()?;
    let mut fields = fields.split_whitespace().skip(1);
    let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((parent, group, fields.nth(FIELDS_TO_START)?.parse().ok()?))
}

/// Fields between a process's group and its start (proc(5): fields 5 and 22).
const FIELDS_TO_START: usize = 16;

fn names_socket_in(environment: &[u8], directory_name: &[u8]) -> bool {
    let address = environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(b"MODEX_SERVER_URI="));
    address.is_some_and(|address| address.split(|byte| *byte == b'/').any(|part| part == directory_name))
}

fn kill(id: Identity) {
    // A process that may not be signalled stays.
    let _ = send(id, Signal::KILL);
}

/// Returns whether this process may send the signal. An ended process needs none.
fn send(id: Identity, signal: Signal) -> bool {
    let Some(number) = Pid::from_raw(id.number) else { return true };
    let handle = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(error) => return error == Errno::SRCH,
    };
    // The handle stands for the process that has the number now.
    let is_same = standing(&PathBuf::from(format!("/proc/{}", id.number))).is_some_and(|(_, _, s)| s == id.started);
    !is_same || pidfd_send_signal(&handle, signal) != Err(Errno::PERM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(number: i32, parent: i32, group: i32, is_marked: bool) -> Process {
        Process { id: Identity { number, started: 0 }, parent, group, is_marked }
    }

    #[test]
    fn a_job_is_its_group_whoever_carries_its_mark_and_all_they_started() {
        let processes = [
            process(1, 0, 1, false),
            process(10, 1, 7, false),   // a rank
            process(11, 10, 11, false), // left the group and has no mark, but a parent
            process(12, 11, 11, false),
            process(20, 1, 20, true),  // left the group, its parent is gone
            process(30, 1, 30, false), // somebody else's
        ];
        let numbers: Vec<i32> = members(&processes, 7).into_iter().map(|id| id.number).collect();
        assert_eq!(numbers, [10, 11, 12, 20]);
    }

    #[test]
    fn a_tree_is_a_process_and_all_that_it_started() {
        let processes = [
            process(1, 0, 1, false),
            process(10, 1, 7, false),
            process(11, 10, 11, false),
            process(12, 11, 11, true),
            process(20, 1, 7, true), // another rank
        ];
        let numbers = |roots: &[i32]| -> Vec<i32> {
            trees(&processes, &roots.iter().copied().collect()).into_iter().map(|id| id.number).collect()
        };
        assert_eq!((numbers(&[10]), numbers(&[12, 20]), numbers(&[99])), (vec![10, 11, 12], vec![12, 20], vec![]));
    }

    #[test]
    fn a_mark_is_the_whole_name_of_the_jobs_directory_in_the_servers_address() {
        let environment = b"A=/tmp/modex-run-1-a/x\0MODEX_SERVER_URI=s.0;unix:/tmp/modex-run-12-b/modex-0/s\0";
        assert!(names_socket_in(environment, b"modex-run-12-b"));
        for other in [&b"modex-run-1-a"[..], b"modex-run-12", b"modex-run", b""] {
            assert!(!names_socket_in(environment, other), "{other:?}");
        }
    }

    #[test]
    fn this_process_is_seen_as_the_system_calls_tell() {
        let (parent, group, started) = standing(Path::new("/proc/self")).unwrap();
        assert_eq!(parent, nix::unistd::getppid().as_raw());
        assert_eq!(group, nix::unistd::getpgrp().as_raw());
        assert!(started > 0);
    }
}
