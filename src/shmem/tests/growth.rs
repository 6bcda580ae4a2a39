//! Remapping of a growing segment, and the cost of growth.

use super::*;

#[test]
fn a_small_reservation_is_mapped_again_as_the_segment_grows() {
    for kind in [BackingKind::Memfd, BackingKind::File] {
        let (mut writer, _directory) = writer(kind);
        let first = writer.append(&[1; 100], Align::Eight).unwrap();
        writer.publish();
        let options = ReaderOptions { reservation_bytes_max: HEADER_BYTES };
        let handle = writer.handle().unwrap();
        let reader = SegmentReader::attach(handle, LayoutId::of(LAYOUT), &options).unwrap();
        let kept = reader.slice(first, 100).unwrap();
        let mut last = first;
        for fill in 0..100_u8 {
            last = writer.append(&vec![fill; 100_000], Align::Eight).unwrap();
            writer.publish();
            assert!(reader.slice(last, 100_000).unwrap().iter().all(|&byte| byte == fill));
        }
        let across = reader.slice(first, last.get() + 100_000 - first.get()).unwrap();
        assert_eq!((kept, across.last()), ([1; 100].as_slice(), Some(&99)));
        let (count, bytes) = reader.mapped();
        assert!((2..=16).contains(&count), "{count} mappings for 10 MB");
        assert!(bytes <= 4 * writer.allocated_bytes(), "{bytes} bytes of address space");
    }
}

#[test]
fn threads_that_map_again_at_once_agree() {
    let (mut writer, _directory) = writer(BackingKind::Memfd);
    let options = ReaderOptions { reservation_bytes_max: HEADER_BYTES };
    let handle = writer.handle().unwrap();
    let reader = SegmentReader::attach(handle, LayoutId::of(LAYOUT), &options).unwrap();
    let offset = writer.append(&[3; 1 << 20], Align::Eight).unwrap();
    writer.publish();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for len in (0..1 << 20).step_by(4096) {
                    assert!(reader.slice(offset, len).unwrap().iter().all(|&byte| byte == 3));
                }
            });
        }
    });
}

#[test]
fn memory_is_reserved_in_steps_and_never_far_ahead() {
    let (mut writer, _directory) = writer(BackingKind::Memfd);
    let mut steps = 0;
    let mut reserved = writer.reserved_bytes();
    while writer.allocated_bytes() < 32 << 20 {
        writer.append(&[1; 1000], Align::Eight).unwrap();
        assert!(writer.reserved_bytes() >= writer.allocated_bytes());
        let ahead = writer.reserved_bytes() - writer.allocated_bytes();
        assert!(ahead <= (64 << 10) + writer.allocated_bytes() / 8, "{ahead} bytes ahead");
        if writer.reserved_bytes() != reserved {
            reserved = writer.reserved_bytes();
            steps += 1;
        }
    }
    assert!(steps < 64, "{steps} system calls for 32 MiB");
}

#[test]
fn options_that_cannot_be_met_are_refused() {
    let create = |change: &dyn Fn(&mut SegmentOptions)| {
        let (mut options, _directory) = options(BackingKind::Heap);
        change(&mut options);
        SegmentWriter::create(&options, LAYOUT).unwrap_err()
    };
    let too_long = create(&|options| options.label = "x".repeat(LABEL_BYTES_MAX + 1));
    assert!(matches!(too_long, CreateError::TextTooLong { what: "label", found: 321, max: 320 }));
    let too_long = create(&|options| options.owner = "x".repeat(OWNER_BYTES_MAX + 1));
    assert!(matches!(too_long, CreateError::TextTooLong { what: "owner", .. }));
    assert!(matches!(create(&|options| options.span_bytes = 0), CreateError::Span { found: 0, .. }));
    assert!(matches!(create(&|options| options.span_bytes = u64::MAX), CreateError::Span { .. }));
    let nowhere = create(&|options| {
        options.backing = BackingKind::File;
        options.directory = None;
    });
    assert!(matches!(nowhere, CreateError::NoDirectory));
    let missing = create(&|options| {
        options.backing = BackingKind::File;
        options.directory = Some("/nonexistent".into());
    });
    assert!(matches!(missing, CreateError::Object { step: "open", .. }), "{missing}");
}

#[test]
fn labels_of_any_kind_fit_into_names() {
    for kind in [BackingKind::Memfd, BackingKind::File, BackingKind::Posix] {
        if kind == BackingKind::Posix && !cfg!(feature = "posix-shm") {
            continue;
        }
        let (mut options, _directory) = options(kind);
        for label in ["", "../../etc", "a/b\n\u{7f}", "\u{e4}\u{20ac}", &"n".repeat(LABEL_BYTES_MAX)] {
            options.label = label.to_owned();
            let writer = SegmentWriter::create(&options, LAYOUT).unwrap();
            assert_eq!(reader(&writer).label(), label);
            if let Location::Path(path) = writer.location() {
                assert_eq!(path.parent(), options.directory.as_deref());
            }
        }
    }
}
