//! Refusals of the kernel to holders of a reader's descriptor, and leftovers.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use memmap2::MmapOptions;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::unistd::ftruncate;

use super::*;

/// The kinds that other processes can attach to.
fn shared_kinds() -> Vec<BackingKind> {
    let mut kinds = vec![BackingKind::Memfd, BackingKind::File];
    if cfg!(feature = "posix-shm") {
        kinds.push(BackingKind::Posix);
    }
    kinds
}

fn descriptor(writer: &SegmentWriter) -> OwnedFd {
    writer.handle().unwrap().into_descriptor().unwrap()
}

#[test]
fn a_readers_descriptor_cannot_be_mapped_writable_resized_or_written() {
    for kind in shared_kinds() {
        let (writer, _directory) = writer(kind);
        let descriptor = descriptor(&writer);
        let mut map = MmapOptions::new();
        let refused = map.len(4096).map_raw(&descriptor).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::EACCES as i32), "{kind}");
        assert!(ftruncate(&descriptor, 0).is_err(), "{kind}: shrinking");
        assert!(ftruncate(&descriptor, 1 << 30).is_err(), "{kind}: growing");
        assert_eq!(nix::unistd::write(&descriptor, b"x"), Err(Errno::EBADF), "{kind}");
        let status = fcntl(&descriptor, FcntlArg::F_GETFD).unwrap();
        assert_ne!(status & nix::libc::FD_CLOEXEC, 0, "{kind}: inherited by programs");
    }
}

#[test]
fn a_memfd_is_protected_even_from_a_writable_descriptor() {
    let (writer, _directory) = writer(BackingKind::Memfd);
    if writer.protection() != Protection::SealedFutureWrite {
        return; // Linux before 5.1.
    }
    let reader = descriptor(&writer);
    let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
    // Only a privileged user gets this far; the mode excludes all others.
    let Ok(writable) = fs::OpenOptions::new().read(true).write(true).open(path) else {
        return;
    };
    let refused = MmapOptions::new().len(4096).map_raw(&writable).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::EPERM as i32));
    assert_eq!(nix::unistd::write(&writable, b"x"), Err(Errno::EPERM));
    assert_eq!(ftruncate(&writable, 0), Err(Errno::EPERM));
    assert_eq!(fcntl(&writable, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_GROW)), Err(Errno::EPERM));
}

#[test]
fn segments_stay_out_of_core_files() {
    let (mut options, _directory) = options(BackingKind::Memfd);
    options.label = "kept-out-of-cores".to_owned();
    let writer = SegmentWriter::create(&options, LAYOUT).unwrap();
    let _reader = reader(&writer);
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines();
    let mut found = 0;
    while lines.any(|line| line.contains("/memfd:modex:kept-out-of-cores")) {
        let flags = lines.find(|line| line.starts_with("VmFlags:")).unwrap();
        assert!(flags.split(' ').any(|flag| flag == "dd"), "{flags}");
        found += 1;
    }
    assert_eq!(found, 2, "one mapping each");
}

#[test]
fn a_memfd_grows_in_spite_of_its_seals() {
    let (mut writer, _directory) = writer(BackingKind::Memfd);
    let reader = reader(&writer);
    let offset = writer.append(&vec![1; 10 << 20], Align::Eight).unwrap();
    writer.publish();
    assert_eq!(reader.slice(offset, 10 << 20).unwrap().len(), 10 << 20);
    assert_eq!(reader.protection(), writer.protection());
}

#[test]
fn a_file_is_for_its_owner_alone_and_a_link_to_it_is_not_followed() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let (writer, directory) = writer(BackingKind::File);
    let Location::Path(path) = writer.location() else { panic!("a file has a path") };
    assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o7777, 0o600);
    assert!(attach(ReaderHandle::open_path(&path).unwrap()).is_ok());
    let link = directory.path().join("link");
    symlink(&path, &link).unwrap();
    assert!(matches!(ReaderHandle::open_path(&link), Err(HandleError::Open { .. })));
    assert!(attach(ReaderHandle::open_descriptor_link(&link).unwrap()).is_ok());
}

#[test]
fn a_descriptor_is_reached_through_proc() {
    let (writer, _directory) = writer(BackingKind::Memfd);
    let descriptor = descriptor(&writer);
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), descriptor.as_raw_fd()));
    assert!(ReaderHandle::open_path(&path).is_err(), "the kernel presents it as a link");
    let reader = attach(ReaderHandle::open_descriptor_link(&path).unwrap()).unwrap();
    assert_eq!(reader.label(), "job-7@host");
}

#[cfg(feature = "posix-shm")]
#[test]
fn a_posix_object_is_opened_by_name() {
    let (mut writer, _directory) = writer(BackingKind::Posix);
    let Location::Name(name) = writer.location() else { panic!("an object has a name") };
    let offset = writer.append(b"named", Align::Eight).unwrap();
    writer.publish();
    let reader = attach(ReaderHandle::open_name(&name).unwrap()).unwrap();
    assert_eq!(reader.slice(offset, 5), Ok(b"named".as_slice()));
    assert_eq!(reader.protection(), Protection::ReadOnlyDescriptor);
    drop(writer);
    assert!(ReaderHandle::open_name(&name).is_err(), "the name goes with the writer");
}

#[test]
fn a_file_that_took_the_name_is_left_alone() {
    let (writer, _directory) = writer(BackingKind::File);
    let Location::Path(path) = writer.location() else { panic!("a file has a path") };
    fs::remove_file(&path).unwrap();
    fs::write(&path, "somebody else's").unwrap();
    drop(writer);
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody else's");
}

#[test]
fn dropping_everything_leaves_nothing_behind() {
    if !alone("shmem::tests::protection::dropping_everything_leaves_nothing_behind") {
        return;
    }
    let entries = |path: &Path| fs::read_dir(path).unwrap().count();
    let maps = || {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains("modex") && !line.contains("/deps/")).count()
    };
    let names = || {
        let own = format!("modex-{}-", std::process::id());
        let named = fs::read_dir("/dev/shm").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        named.filter(|name| name.starts_with(&own)).count()
    };
    let descriptors = Path::new("/proc/self/fd");
    let before = entries(descriptors);
    for kind in [BackingKind::Heap].into_iter().chain(shared_kinds()) {
        let (options, directory) = options(kind);
        let mut writer = SegmentWriter::create(&options, LAYOUT).unwrap();
        let readers: Vec<_> = (0..10).map(|_| reader(&writer)).collect();
        writer.append(&vec![1; 1 << 20], Align::Eight).unwrap();
        writer.publish();
        let shared = kind != BackingKind::Heap;
        assert_eq!(entries(descriptors) > before, shared, "{kind}");
        assert_eq!(maps() > 0, shared, "{kind}");
        assert_eq!(names(), usize::from(kind == BackingKind::Posix), "{kind}");
        drop(writer);
        assert_eq!(entries(directory.path()), 0, "{kind}");
        drop(readers);
        assert_eq!((entries(descriptors), maps(), names()), (before, 0, 0), "{kind}");
    }
    // A failed attempt leaves nothing either.
    let (mut options, directory) = options(BackingKind::File);
    options.directory = Some(directory.path().join("missing"));
    assert!(SegmentWriter::create(&options, LAYOUT).is_err());
    assert_eq!(entries(descriptors), before);
}
