//! Shortages: address space, file size, memory. Each test has a process of its own.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::*;

/// Sets a soft limit of this process.
fn limit(resource: Resource, bytes: u64) {
    let (_, hard) = getrlimit(resource).unwrap();
    setrlimit(resource, bytes, hard).unwrap();
}

/// Address space of this process, in bytes.
fn address_space() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    pages * u64::try_from(nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).unwrap().unwrap()).unwrap()
}

#[test]
fn a_writer_takes_a_smaller_span_where_address_space_is_short() {
    if !alone("shmem::tests::limits::a_writer_takes_a_smaller_span_where_address_space_is_short") {
        return;
    }
    limit(Resource::RLIMIT_AS, address_space() + (96 << 20));
    for kind in [BackingKind::Memfd, BackingKind::Heap, BackingKind::File, BackingKind::Posix] {
        if kind == BackingKind::Posix && !cfg!(feature = "posix-shm") {
            continue;
        }
        let (mut options, _directory) = options(kind);
        options.span_bytes = SegmentOptions::SPAN_BYTES_DEFAULT;
        let mut writer = SegmentWriter::create(&options, LAYOUT).unwrap();
        if kind != BackingKind::Memfd {
            assert!((1 << 20..96 << 20).contains(&writer.span_bytes()), "{kind}: {}", writer.span_bytes());
        }
        let offset = writer.append(b"works", Align::Eight).unwrap();
        writer.publish();
        assert_eq!(reader(&writer).slice(offset, 5).unwrap(), b"works", "{kind}");
    }
    limit(Resource::RLIMIT_AS, address_space());
    let (options, _directory) = options(BackingKind::Memfd);
    let error = SegmentWriter::create(&options, LAYOUT).unwrap_err();
    assert!(matches!(error, CreateError::Map { span_bytes: 0x10_0000, .. }), "{error}");
}

/// Regression: a server reserved 8 GiB of addresses for each namespace, twice. It could have only 8,214 namespaces, and
/// none under a limit on address space. Now a memfd takes addresses in proportion.
#[test]
fn a_memfd_takes_address_space_as_it_grows() {
    if !alone("shmem::tests::limits::a_memfd_takes_address_space_as_it_grows") {
        return;
    }
    let (mut options, _directory) = options(BackingKind::Memfd);
    options.span_bytes = SegmentOptions::SPAN_BYTES_DEFAULT;
    let before = address_space();
    let mut writer = SegmentWriter::create(&options, LAYOUT).unwrap();
    let reader = reader(&writer);
    assert_eq!(reader.info().span_bytes, SegmentOptions::SPAN_BYTES_DEFAULT);
    assert!(address_space() - before < 128 << 20, "{} bytes", address_space() - before);
    let kept = writer.append(b"kept", Align::Eight).unwrap();
    let mut last = kept;
    for _ in 0..100 {
        last = writer.append(&[7; 1 << 20], Align::Eight).unwrap();
    }
    writer.publish();
    assert_eq!(reader.slice(kept, 4).unwrap(), b"kept");
    assert_eq!(reader.slice(last, 1 << 20).unwrap(), [7; 1 << 20]);
    limit(Resource::RLIMIT_AS, address_space());
    let error = writer.alloc(1 << 30, Align::Eight).unwrap_err();
    assert!(matches!(error, GrowError::Mapping { .. }), "{error}");
    assert!(error.to_string().contains("ulimit -v") && error.to_string().contains("vm.max_map_count"), "{error}");
    assert_eq!(writer.slice(kept, 4).unwrap(), b"kept");
}

#[test]
fn a_reader_maps_what_is_there_where_address_space_is_short() {
    if !alone("shmem::tests::limits::a_reader_maps_what_is_there_where_address_space_is_short") {
        return;
    }
    let (mut options, _directory) = options(BackingKind::Memfd);
    options.span_bytes = 1 << 30;
    let mut writer = SegmentWriter::create(&options, LAYOUT).unwrap();
    let first = writer.append(&[1; 1000], Align::Eight).unwrap();
    writer.publish();
    limit(Resource::RLIMIT_AS, address_space() + (24 << 20));
    let reader = reader(&writer);
    assert!(reader.mapped().1 < 24 << 20, "{:?}", reader.mapped());
    let kept = reader.slice(first, 1000).unwrap();
    let mut read = 0;
    let refused = loop {
        let offset = writer.append(&[2; 1 << 20], Align::Eight).unwrap();
        writer.publish();
        match reader.slice(offset, 1 << 20) {
            Ok(bytes) => assert!(bytes.iter().all(|&byte| byte == 2)),
            Err(refused) => break refused,
        }
        read += 1;
    };
    assert!(matches!(refused, Corrupt::Unmapped { .. }), "{refused}");
    assert!(read >= 4, "only {read} MiB were readable");
    assert_eq!(kept, [1; 1000]);
    assert_eq!(reader.slice(first, 1000).unwrap(), [1; 1000]);
    // With room again, the refused bytes are readable.
    limit(Resource::RLIMIT_AS, address_space() + (1 << 30));
    let last = at(writer.published_bytes() - 8);
    assert_eq!(reader.slice(last, 8).unwrap(), [2; 8]);
}

#[test]
fn the_file_size_limit_is_an_error_and_no_signal() {
    if !alone("shmem::tests::limits::the_file_size_limit_is_an_error_and_no_signal") {
        return;
    }
    limit(Resource::RLIMIT_FSIZE, 256 << 10);
    for kind in [BackingKind::Memfd, BackingKind::File] {
        let (options, _directory) = options(kind);
        let mut writer = SegmentWriter::create(&options, LAYOUT).unwrap();
        let before = (writer.mark(), writer.reserved_bytes());
        let error = writer.alloc(1 << 20, Align::Eight).unwrap_err();
        assert!(matches!(error, GrowError::FileSizeLimit { limit_bytes: 0x4_0000, .. }), "{kind}: {error}");
        assert_eq!((writer.mark(), writer.reserved_bytes()), before);
        // The last page below the limit is granted, although a whole step no longer fits.
        let rest = (256 << 10) - writer.allocated_bytes();
        writer.alloc(rest - 100, Align::Eight).unwrap();
        writer.alloc(90, Align::Eight).unwrap();
        assert_eq!(writer.reserved_bytes(), 256 << 10);
        writer.publish();
        assert_eq!(reader(&writer).published_bytes(), Ok(writer.allocated_bytes()));
    }
    #[cfg(feature = "posix-shm")]
    {
        let (options, _directory) = options(BackingKind::Posix);
        let error = SegmentWriter::create(&options, LAYOUT).unwrap_err();
        assert!(matches!(error, CreateError::Grow(GrowError::FileSizeLimit { .. })), "{error}");
    }
}

/// Regression: a full `/dev/shm` ended daemons with SIGBUS at the first touch of a page that could not be allocated.
#[cfg(feature = "posix-shm")]
#[test]
fn a_full_dev_shm_is_an_error_that_names_it() {
    let found = nix::sys::statvfs::statvfs("/dev/shm").unwrap();
    let size = found.blocks() * found.fragment_size();
    if !(1..1 << 43).contains(&size) {
        return; // Mounted without a limit.
    }
    let (mut options, _directory) = options(BackingKind::Posix);
    options.span_bytes = 4 * size;
    let mut writer = SegmentWriter::create(&options, LAYOUT).unwrap();
    let kept = writer.append(b"kept", Align::Eight).unwrap();
    writer.publish();
    let before = (writer.mark(), writer.reserved_bytes());
    let error = writer.alloc(2 * size, Align::Eight).unwrap_err();
    assert!(matches!(&error, GrowError::OutOfMemory { location: Location::Name(_), .. }), "{error}");
    assert!(error.to_string().contains("/dev/shm"), "{error}");
    assert_eq!((writer.mark(), writer.reserved_bytes()), before);
    assert_eq!(reader(&writer).slice(kept, 4).unwrap(), b"kept");
    writer.append(b"more", Align::Eight).unwrap();
}
