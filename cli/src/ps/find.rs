//! The servers of this user that admit tools, by their rendezvous files.
//!
//! A server writes its file below its temporary directory. Another process of this user may have another one, so the
//! directories of all of this user's processes are searched.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use modex::ptl::rendezvous::{Belief, Found, Names, search};
use nix::unistd::{geteuid, gethostname};

/// Variables that name directories of servers' files.
const VARIABLES: [&str; 5] = ["TMPDIR", "TEMP", "TMP", "PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR"];
/// Limit of the searched directories.
const DIRECTORIES_MAX: usize = 256;

/// The servers of this user, each once.
pub(crate) fn servers() -> Vec<Found> {
    let own = geteuid().as_raw();
    let hostname = gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let Ok(names) = Names::new(&hostname) else { return Vec::new() };
    let mut servers: Vec<Found> = Vec::new();
    for directory in directories(own) {
        for found in search(&directory, Belief::OwnAndRoot, |name| names.is_tool_file(name)) {
            let is_known = servers.iter().any(|server| server.contents.address == found.contents.address);
            if found.owner == own && !is_known && !found.is_doubtful {
                servers.push(found);
            }
        }
    }
    servers.sort_by_key(|server| server.contents.pid);
    servers
}

/// The temporary directories of this user's processes. A directory within another one is searched with it.
fn directories(own: u32) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::from([std::env::temp_dir(), PathBuf::from("/tmp")]);
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let is_own = entry.metadata().is_ok_and(|process| process.uid() == own);
        if is_own && let Ok(environment) = fs::read(entry.path().join("environ")) {
            all.extend(named(&environment));
        }
        if all.len() >= DIRECTORIES_MAX {
            break;
        }
    }
    outermost(all)
}

/// The directories that an environment names, as `/proc` shows it.
fn named(environment: &[u8]) -> impl Iterator<Item = PathBuf> {
    environment.split(|byte| *byte == 0).filter_map(|setting| {
        let (name, value) = setting.split_at_checked(setting.iter().position(|byte| *byte == b'=')?)?;
        let path = PathBuf::from(OsStr::from_bytes(value.get(1..)?));
        (VARIABLES.iter().any(|known| known.as_bytes() == name) && path.is_absolute()).then_some(path)
    })
}

/// Leaves out directories that lie in another one. Paths are in order, so the outer one comes first.
fn outermost(all: BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut outer: BTreeSet<PathBuf> = BTreeSet::new();
    for path in all {
        // A search goes down some levels only.
        let is_near = |parent: &Path| path.strip_prefix(parent).is_ok_and(|rest| rest.components().count() <= 1);
        if !outer.iter().any(|parent| is_near(parent)) {
            outer.insert(path);
        }
    }
    outer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_names_directories_by_absolute_paths() {
        let found: Vec<_> = named(b"A=/a\0TMPDIR=/b=c\0PMIX_SERVER_TMPDIR=/d\0TMPDIR=e\0TMPDIR\0\0").collect();
        assert_eq!(found, [PathBuf::from("/b=c"), PathBuf::from("/d")]);
    }

    #[test]
    fn a_directory_within_another_is_searched_once() {
        let all = ["/tmp", "/tmp/a", "/tmp/b/c", "/tmpx", "/var"].map(PathBuf::from);
        let expected = ["/tmp", "/tmp/b/c", "/tmpx", "/var"].map(PathBuf::from);
        assert_eq!(outermost(all.into()), expected.into());
    }
}
