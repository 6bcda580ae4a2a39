//! Moves of files between directories that show the same file. Only root may make the mounts for that.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use modex::storage::{Directive, MountTable, Storage};
use modex::types::{Info, Key, Status};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

const NONE: Option<&str> = None;

/// Two directories, and a file in the first.
struct Place {
    _temporary: tempfile::TempDir,
    file: PathBuf,
    target: PathBuf,
}

impl Place {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let [from, target] = ["from", "to"].map(|name| temporary.path().join(name));
        [&from, &target].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
        let file = from.join("data");
        fs::write(&file, "content").unwrap();
        Self { _temporary: temporary, file, target }
    }

    /// Moves the file to the target.
    fn move_file(&self) -> Status {
        let info = |key: &'static str, path: &Path| Info::new(Key::from_static(key), path.to_str().unwrap());
        let directives = [info("modex.storage.move", &self.file), info("modex.storage.to", &self.target)];
        let Ok(Directive::Carry(order)) = Directive::read(&directives) else { panic!("{directives:?}") };
        let mut storage = Storage::default();
        storage.add(MountTable::new());
        storage.carry_out(&order, &|| None).status
    }
}

/// Runs in a thread with mounts of its own, which end with it.
fn with_own_mounts(work: impl FnOnce(&Place) + Send) {
    let place = Place::new();
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("not applicable: only root can mount file systems");
    }
    std::thread::scope(|threads| {
        threads.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).unwrap();
            work(&place);
        });
    });
}

/// The file was lost: the target had an equal one, so the old name was removed. Both names were one.
#[test]
fn a_directory_that_another_file_system_shows_keeps_its_files() {
    with_own_mounts(|place| {
        let [lower, work] = ["lower", "work"].map(|name| place.target.with_file_name(name));
        [&lower, &work].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        let upper = place.file.parent().unwrap();
        let options = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        let overlay = Some("overlay");
        if let Err(error) = mount(overlay, &place.target, overlay, MsFlags::empty(), Some(options.as_str())) {
            return eprintln!("not applicable: no overlay here ({error})");
        }
        let shown = place.target.join("data");
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        assert_ne!(device(&place.file), device(&shown));
        assert_eq!(place.move_file(), Status::SUCCESS);
        assert_eq!(
            (fs::read(&place.file).unwrap(), fs::read_dir(&place.target).unwrap().count()),
            (b"content".into(), 1)
        );
    });
}

/// The file was lost: its only name was removed.
#[test]
fn a_file_that_is_mounted_at_the_target_keeps_its_name() {
    with_own_mounts(|place| {
        let shown = place.target.join("data");
        fs::write(&shown, "").unwrap();
        mount(Some(&place.file), &shown, NONE, MsFlags::MS_BIND, NONE).unwrap();
        assert_eq!(place.move_file(), Status::ERR_NOT_SUPPORTED);
        assert_eq!(fs::read(&place.file).unwrap(), b"content");
    });
}
