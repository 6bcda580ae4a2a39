//! Processes and the segments they hold, as `/proc` shows them.
//!
//! A process that has mapped a segment also has a descriptor of it, so the search only visits descriptors. It opens
//! only those with the name of a segment, because opening other objects could have effects.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use modex::shmem::{BackingKind, HandleError, ReaderHandle};
use modex::{LongestTurn, TURNS_REPORT};

use super::error::InspectError;

/// The directory of POSIX shared-memory objects.
pub(super) const POSIX_DIRECTORY: &str = "/dev/shm";

/// A segment that was found and opened.
#[derive(Debug)]
pub(super) struct FoundSegment {
    /// The path it was opened by.
    pub(super) path: PathBuf,
    /// The process that holds it, unless it was found by its name.
    pub(super) holder_pid: Option<u32>,
    /// The place of its bytes, by its name.
    pub(super) backing: BackingKind,
    /// The open segment.
    pub(super) handle: ReaderHandle,
}

/// The segments that a process holds, each once, in the order of its descriptors.
pub(super) fn segments(pid: u32) -> Result<Vec<FoundSegment>, InspectError> {
    let mut seen = BTreeSet::new();
    let mut segments = Vec::new();
    for number in descriptors(pid)? {
        let path = PathBuf::from(format!("/proc/{pid}/fd/{number}"));
        let Some(backing) = fs::read_link(&path).ok().and_then(|target| backing_of(&target)) else { continue };
        let handle = match ReaderHandle::open_descriptor_link(&path) {
            Ok(handle) => handle,
            // The descriptor was closed since it was listed.
            Err(HandleError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        // The number may have gone to another object between the check of its name and its opening.
        let opened = handle.descriptor().map(|descriptor| format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
        if opened.and_then(|link| fs::read_link(link).ok()).and_then(|target| backing_of(&target)) != Some(backing) {
            continue;
        }
        // The writer and the reader of a server have a descriptor each.
        if seen.insert(handle.identity()) {
            segments.push(FoundSegment { path, holder_pid: Some(pid), backing, handle });
        }
    }
    Ok(segments)
}

/// The longest turn of a server process, if the process is a server and publishes the number.
pub(super) fn longest_turn(pid: u32) -> Option<LongestTurn> {
    let name = format!("/memfd:{TURNS_REPORT}");
    let is_report =
        |target: PathBuf| target.to_str().is_some_and(|target| target.trim_end_matches(" (deleted)") == name);
    let paths = descriptors(pid).ok()?.into_iter().map(|number| PathBuf::from(format!("/proc/{pid}/fd/{number}")));
    let path = paths.into_iter().find(|path| fs::read_link(path).is_ok_and(is_report))?;
    let mut report = String::new();
    fs::File::open(path).ok()?.take(REPORT_BYTES_MAX).read_to_string(&mut report).ok()?;
    LongestTurn::of_report(&report)
}

/// A bound above the size of any report: it has names of processes and of requests.
const REPORT_BYTES_MAX: u64 = 4096;

/// All processes there are, in the order of their numbers.
pub(super) fn all() -> Result<BTreeSet<u32>, InspectError> {
    let path = PathBuf::from("/proc");
    numbers_in(&path).map_err(|source| InspectError::Proc { path, source })
}

/// The number by which a process knows itself. In a container it differs from the number seen from outside.
pub(super) fn number_in_its_namespace(pid: u32) -> Option<u32> {
    innermost_number(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?).or(Some(pid))
}

/// The last number of the line `NSpid:`, which lists the numbers from the outermost namespace inwards.
fn innermost_number(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

fn descriptors(pid: u32) -> Result<BTreeSet<u32>, InspectError> {
    let path = PathBuf::from(format!("/proc/{pid}/fd"));
    numbers_in(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => InspectError::NoProcess { pid },
        io::ErrorKind::PermissionDenied => InspectError::Forbidden { pid },
        _ => InspectError::Proc { path, source },
    })
}

/// The entries of a directory that are numbers.
fn numbers_in(directory: &Path) -> io::Result<BTreeSet<u32>> {
    let mut numbers = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// The backing of a descriptor's object, if its name is that of a segment; see `shmem` for the names.
fn backing_of(target: &Path) -> Option<BackingKind> {
    let text = target.to_str()?;
    let path = Path::new(text.strip_suffix(" (deleted)").unwrap_or(text));
    if text.starts_with("/memfd:modex:") {
        return Some(BackingKind::Memfd);
    }
    if !path.file_name()?.to_str()?.starts_with("modex-") {
        return None;
    }
    if path.parent() == Some(Path::new(POSIX_DIRECTORY)) {
        return Some(BackingKind::Posix);
    }
    (path.extension() == Some(OsStr::new("segment"))).then_some(BackingKind::File)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_segments_are_told_from_others_by_name() {
        let backing = |name: &str| backing_of(Path::new(name));
        assert_eq!(backing("/memfd:modex:job (deleted)"), Some(BackingKind::Memfd));
        assert_eq!(backing("/dev/shm/modex-7-0-job"), Some(BackingKind::Posix));
        assert_eq!(backing("/scratch/modex-7-0-job.segment (deleted)"), Some(BackingKind::File));
        for other in ["/memfd:other (deleted)", "socket:[7]", "/dev/shm/else", "/scratch/modex-7.log", "/"] {
            assert_eq!(backing(other), None, "{other}");
        }
    }

    #[test]
    fn a_process_in_a_container_is_known_by_the_number_it_has_there() {
        assert_eq!(innermost_number("Name:\tx\nNSpid:\t4711\t12\t1\nNSpgid:\t9\n"), Some(1));
        assert_eq!(innermost_number("Name:\tx\n"), None);
    }
}
