use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;

static NEVER: AtomicBool = AtomicBool::new(false);
const PLAIN: DirectoryRules = DirectoryRules { is_recursive: false, only_empty: false, leaves_top: false };
const RECURSIVE: DirectoryRules = DirectoryRules { is_recursive: true, ..PLAIN };

fn set(path: &Path) -> BTreeSet<String> {
    [path.to_str().unwrap().to_owned()].into()
}

fn file(path: &Path) -> Cleanup {
    Cleanup { uid: geteuid().as_raw(), files: set(path), ..Cleanup::default() }
}

fn directory(path: &Path, rules: DirectoryRules) -> Cleanup {
    let directories = [(rules, set(path))].into();
    Cleanup { uid: geteuid().as_raw(), directories, ..Cleanup::default() }
}

/// `top/{file, keep, link -> ../outside, inner/{file, deeper/}}` beside `outside/precious`.
fn tree() -> (tempfile::TempDir, PathBuf) {
    // The directory for temporary files may be a link.
    let directory = tempfile::tempdir_in(std::env::temp_dir().canonicalize().unwrap()).unwrap();
    let top = directory.path().join("top");
    fs::create_dir_all(top.join("inner/deeper")).unwrap();
    fs::create_dir(directory.path().join("outside")).unwrap();
    for file in ["top/file", "top/keep", "top/inner/file", "outside/precious"] {
        fs::write(directory.path().join(file), "").unwrap();
    }
    symlink(directory.path().join("outside"), top.join("link")).unwrap();
    (directory, top)
}

/// Runs a cleanup and returns its failures.
fn clean(cleanup: &Cleanup) -> Vec<Errno> {
    let failures = perform(cleanup, &NEVER);
    failures.first.into_iter().map(|(_, errno)| errno).collect()
}

#[test]
fn a_tree_vanishes_and_what_its_links_point_to_stays() {
    let (place, top) = tree();
    let mut cleaner = Cleaner::default();
    cleaner.order(directory(&top, RECURSIVE)).unwrap();
    cleaner.finish(FINISH_TIME_MAX);
    assert!(!top.exists());
    assert!(place.path().join("outside/precious").exists());
}

#[test]
fn without_recursion_only_files_go_and_what_is_ignored_stays() {
    let (_place, top) = tree();
    clean(&Cleanup { ignored: set(&top.join("keep")), ..directory(&top, PLAIN) });
    assert!(top.join("keep").exists() && top.join("inner/file").exists());
    assert!(!top.join("file").exists() && !top.join("link").is_symlink());
    clean(&Cleanup { ignored_by_job: set(&top.join("inner")).into(), ..directory(&top, RECURSIVE) });
    assert!(!top.join("keep").exists() && top.join("inner/file").exists());
}

#[test]
fn the_top_stays_if_asked_for_and_only_empty_directories_go_if_asked_for() {
    let (_place, top) = tree();
    clean(&directory(&top, DirectoryRules { only_empty: true, ..RECURSIVE }));
    assert!(!top.join("inner/deeper").exists() && top.join("inner/file").exists() && top.join("file").exists());
    clean(&directory(&top, DirectoryRules { leaves_top: true, ..RECURSIVE }));
    assert!(fs::read_dir(&top).unwrap().next().is_none());
}

#[test]
fn directories_that_hold_each_other_go_from_within() {
    let (_place, top) = tree();
    fs::remove_dir(top.join("inner/deeper")).unwrap();
    let paths = set(&top).into_iter().chain(set(&top.join("inner"))).collect();
    assert_eq!(clean(&Cleanup { directories: [(PLAIN, paths)].into(), ..directory(&top, PLAIN) }), []);
    assert!(!top.exists());
}

/// Entries vanish while they are read.
#[test]
fn a_directory_that_takes_more_than_one_reading_is_emptied() {
    let (_place, top) = tree();
    for number in 0..5000 {
        fs::write(top.join(format!("a file with a name that takes some room {number}")), "").unwrap();
    }
    assert_eq!(clean(&directory(&top, RECURSIVE)), []);
    assert!(!top.exists());
}

#[test]
fn a_link_in_the_place_of_a_directory_or_file_is_not_followed() {
    let (place, top) = tree();
    let link = top.join("link");
    assert_eq!(clean(&directory(&link, RECURSIVE)), [Errno::ENOTDIR]);
    assert!(place.path().join("outside/precious").exists());
    assert_eq!(clean(&file(&link)), []);
    assert!(!link.is_symlink() && place.path().join("outside/precious").exists());
}

/// Only the last component was checked. A user who could replace a parent directory by a link chose the removed file.
#[test]
fn a_link_among_the_parents_is_not_followed() {
    let (place, top) = tree();
    let precious = top.join("link/precious");
    assert!(precious.exists());
    assert_eq!(clean(&file(&precious)), [Errno::ENOTDIR]);
    fs::create_dir(place.path().join("outside/inner")).unwrap();
    assert_eq!(clean(&directory(&top.join("link/inner"), RECURSIVE)), [Errno::ENOTDIR]);
    assert_eq!(clean(&file(&top.join("inner/../file"))), [Errno::EINVAL]);
    assert!(precious.exists() && place.path().join("outside/inner").exists() && top.join("file").exists());
}

/// Root took on the ids of other users for it.
#[test]
fn nothing_is_done_in_the_name_of_others() {
    let (_place, top) = tree();
    let uid = geteuid().as_raw() + 1;
    assert_eq!(clean(&Cleanup { uid, ..file(&top.join("file")) }), [Errno::EPERM]);
    assert!(top.join("file").exists());
}

/// Only root can make such files. Other users test with files that always belong to root.
#[test]
fn files_of_other_users_stay() {
    if !geteuid().is_root() {
        assert_eq!(clean(&directory(Path::new("/proc/sys"), RECURSIVE)), [Errno::EPERM]);
        assert_eq!(clean(&file(Path::new("/proc/version"))), [Errno::EPERM]);
        return;
    }
    let (_place, top) = tree();
    for path in [top.join("file"), top.join("inner")] {
        std::os::unix::fs::chown(path, Some(12_345), None).unwrap();
    }
    assert_eq!(clean(&file(&top.join("file"))), [Errno::EPERM]);
    assert_eq!(clean(&directory(&top.join("inner"), RECURSIVE)), [Errno::EPERM]);
    assert_eq!(clean(&directory(&top, RECURSIVE)), [Errno::EPERM; 2]);
    assert!(top.join("inner/file").exists() && top.join("file").exists());
}

/// Each entry caused a warning of its own.
#[test]
fn failures_are_told_one_by_one_up_to_a_bound() {
    let files = (0..=FAILURES_MAX).map(|number| format!("/proc/{number}/..")).collect();
    let failures = perform(&Cleanup { files, ..file(Path::new("/")) }, &NEVER);
    assert_eq!((failures.first.len(), failures.are_more), (FAILURES_MAX, true));
}

#[test]
fn nothing_more_is_removed_when_time_is_up() {
    let (_place, top) = tree();
    let failures = perform(&directory(&top, RECURSIVE), &AtomicBool::new(true));
    assert_eq!(failures.first[0].1, Errno::ECANCELED);
    assert!(top.join("file").exists());
}

/// The end of a server waited for the whole removal, and the queue had no limit.
#[test]
fn a_removal_that_does_not_end_holds_neither_the_end_nor_memory() {
    let (release, held) = bounded::<()>(0);
    let stuck = move |_: &Cleanup, _: &AtomicBool| {
        let _ = held.recv();
        Failures::default()
    };
    let mut cleaner = Cleaner(Some(start(stuck).unwrap()));
    let path = "/".repeat(QUEUED_BYTES_MAX / 2);
    let mut taken = 0;
    while cleaner.order(Cleanup { files: [path.clone()].into(), ..Cleanup::default() }).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, 2);
    let shared = Arc::clone(&cleaner.0.as_ref().unwrap().shared);
    cleaner.finish(Duration::ZERO);
    assert!(shared.is_given_up.load(Ordering::Relaxed) && cleaner.0.is_none());
    drop(release);
}
