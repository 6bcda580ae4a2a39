use super::*;
use crate::gds::{Datastore, Origin, RecordError, Section, Shared, StoreError, StoreLimits};
use crate::types::{AsStatus, DataType, Info, Kval, Status};

#[test]
fn the_quick_lookup_finds_values_that_were_read_before() {
    let mut store = store(BackingKind::Memfd);
    store.register_record(&namespace(), &block_job(3, 4)).unwrap();
    let reader = attached(&mut store);
    let long = "a text that no cell holds".to_owned();
    for rank in 0..12 {
        let values = [posted(Scope::Global, "n", rank), posted(Scope::Local, "t", long.as_str())];
        store.commit(&namespace(), rank, Origin::Local, &values).unwrap();
    }
    // Keys of later commits make the dictionary grow, so that tables lie between earlier and later data.
    for number in 0..500_u32 {
        let more = [posted(Scope::Global, &format!("more.{number}"), number)];
        store.commit(&namespace(), 5, Origin::Local, &more).unwrap();
    }
    let process = Rank::Process(5);
    let expected: [(Rank, &str, Value); 10] = [
        (process, "n", Value::Uint32(5)),
        (process, "t", Value::from(long.as_str())),
        (process, "more.0", Value::Uint32(0)),
        (process, "more.499", Value::Uint32(499)),
        (process, "pmix.lrank", Value::Uint16(1)),
        (process, "pmix.nodeid", Value::Uint32(1)),
        (process, "pmix.hname", Value::from("node00001")),
        (Rank::Wildcard, "pmix.job.size", Value::Uint32(12)),
        (Rank::Wildcard, "pmix.lpeers", Value::from("0,1,2,3")),
        (Rank::Wildcard, "pmix.local.size", Value::Uint32(4)),
    ];
    for (rank, name, value) in &expected {
        assert_eq!(get(&reader, *rank, name).as_ref(), Ok(value));
        let found = reader.quick(*rank, KeyRef::new(name)).map(|found| found.to_value().unwrap());
        assert_eq!(found.as_ref(), Some(value), "{name} of {rank}");
    }
    for (rank, name) in
        [(process, "nothing"), (Rank::Process(0), "more.0"), (Rank::Process(99), "n"), (Rank::Wildcard, "n")]
    {
        assert!(reader.quick(rank, KeyRef::new(name)).is_none(), "{name} of {rank}");
    }
}

/// Regression: the table of keys was allocated whole when it grew. One commit of a client then took the server's thread
/// for 40 ms while 32 MiB were mapped. The memory of a larger table must be prepared in small steps.
#[test]
fn no_single_commit_of_a_key_allocates_the_larger_table_of_keys() {
    let mut store = store(BackingKind::Memfd);
    // Many processes, so that the blocks of each one stay small.
    let ranks = 4096;
    store.register_record(&namespace(), &block_job(1, ranks)).unwrap();
    let reserved = |store: &Store| store.statistics(&namespace()).unwrap().reserved_bytes.unwrap();
    // The table for more than 32,768 keys has 1 MiB.
    let (mut before, mut step_max) = (u64::MAX, 0);
    for number in 0..33_000_u32 {
        let values = [posted(Scope::Global, &format!("k{number}"), 1)];
        store.commit(&namespace(), number % ranks, Origin::Local, &values).unwrap();
        // The statistics visit every key, so they are not read after each commit.
        if number % 256 == 0 {
            let now = reserved(&store);
            step_max = step_max.max(now.saturating_sub(before));
            before = now;
        }
    }
    assert!(step_max <= 768 << 10, "a few commits reserved {step_max} bytes");
}

#[test]
fn a_reader_attached_before_growth_sees_later_data() {
    for backing in [BackingKind::Heap, BackingKind::Memfd] {
        let mut store = store(backing);
        store.register_record(&namespace(), &JobRecord::default()).unwrap();
        let reader = attached(&mut store);
        assert_eq!(get(&reader, 0, "a"), Err(ReadError::NotFound));
        for rank in 0..600 {
            let values =
                [posted(Scope::Global, &format!("key.{rank}"), vec![7_u8; 5000]), posted(Scope::Global, "a", rank)];
            assert!(store.commit(&namespace(), rank, Origin::Local, &values).unwrap().is_changed);
        }
        store.register_record(&namespace(), &block_job(10, 100)).unwrap();
        for rank in 0..600 {
            assert_eq!(get(&reader, rank, "a"), Ok(Value::Uint32(rank)));
            assert_eq!(get(&reader, rank, &format!("key.{rank}")), Ok(Value::ByteObject(vec![7; 5000])));
            assert_eq!(get(&reader, rank, "pmix.hname"), Ok(Value::from(format!("node{:05}", rank / 100))));
        }
        assert_eq!(reader.statistics().unwrap().key_count, 601 + 16, "600 keys, one common key, and those of the job");
    }
}

#[test]
fn a_refused_registration_leaves_the_old_data_readable() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(2, 4)).unwrap();
    store.commit(&namespace(), 3, Origin::Local, &[posted(Scope::Global, "a", 1_u32)]).unwrap();
    let reader = attached(&mut store);
    let refused = [
        JobRecord { own_node: Some(2), ..block_job(2, 4) },
        JobRecord { node_columns: vec![column("pmix.hname", ColumnValues::OfNode)], ..block_job(2, 4) },
        JobRecord { proc_columns: vec![column("pmix.nodeid", ColumnValues::OfNode)], ..block_job(2, 4) },
        JobRecord { proc_columns: vec![column("new.key", ColumnValues::Values(vec![None; 3]))], ..block_job(2, 4) },
        JobRecord {
            proc_columns: vec![column("x", ColumnValues::Sparse(vec![(3, 1_u8.into()), (2, 1_u8.into())]))],
            ..block_job(2, 4)
        },
        JobRecord {
            proc_columns: vec![column("x", ColumnValues::Numbers { data_type: DataType::Uint8, values: vec![256; 8] })],
            ..block_job(2, 4)
        },
        JobRecord {
            proc_columns: vec![column("x", ColumnValues::Counting { data_type: DataType::Uint8, first: 249 })],
            ..block_job(2, 4)
        },
        JobRecord {
            // The last number would be a special rank; the others are not ranks.
            proc_columns: vec![column(
                "x",
                ColumnValues::Counting { data_type: DataType::ProcRank, first: u64::from(u32::MAX) - 8 },
            )],
            ..block_job(2, 4)
        },
        JobRecord { rank_count: u32::MAX, ..JobRecord::default() },
    ];
    for record in refused {
        let error = store.register_record(&namespace(), &record).unwrap_err();
        assert!(matches!(error, StoreError::Record(_)), "{error}");
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        assert_eq!(reader.job_record().unwrap(), store.reader(&namespace()).unwrap().job_record().unwrap());
        assert_eq!(get(&reader, 7, "pmix.hname"), Ok(Value::from("node00001")));
        assert_eq!(get(&reader, 3, "a"), Ok(Value::Uint32(1)));
    }
    let unknown = Namespace::new("job-2").unwrap();
    store.register_record(&unknown, &JobRecord { own_node: Some(0), ..JobRecord::default() }).unwrap_err();
    assert!(!store.is_registered(&unknown), "a refused first registration must not leave a namespace behind");
}

#[test]
fn each_limit_is_enforced_and_names_itself() {
    let limits = StoreLimits {
        segment_bytes_max: 64 << 10,
        keys_max: 3,
        value_bytes_max: 1000,
        commit_entries_max: 2,
        ranks_max: 4,
        nodes_max: 2,
    };
    let mut store = Store::new(StoreOptions { limits, ..options(BackingKind::Heap) });
    store.register_record(&namespace(), &JobRecord::default()).unwrap();
    let mut commit = |rank, values: &[Posted]| store.commit(&namespace(), rank, Origin::Local, values);
    let many = |count: usize| vec![posted(Scope::Global, "a", 1_u32); count];
    assert!(commit(3, &many(2)).unwrap().is_changed);
    assert!(matches!(commit(4, &many(1)), Err(StoreError::RankOutOfRange { rank: 4, ranks_max: 4 })));
    assert!(matches!(commit(0, &many(3)), Err(StoreError::TooManyEntries { found: 3, entries_max: 2 })));
    assert!(matches!(commit(0, &[posted(Scope::Internal, "a", 1_u32)]), Err(StoreError::InternalScope { .. })));
    assert!(commit(0, &[posted(Scope::Global, "b", vec![0; 1000])]).unwrap().is_changed);
    assert!(matches!(commit(0, &[posted(Scope::Global, "b", vec![0; 1001])]), Err(StoreError::Value { .. })));
    assert!(commit(0, &[posted(Scope::Global, "c", 1_u32)]).unwrap().is_changed);
    assert!(matches!(
        commit(0, &[posted(Scope::Global, "d", 1_u32)]),
        Err(StoreError::TooManyKeys { keys_max: 3, .. })
    ));
    let full = (0_u8..=255).find_map(|byte| commit(0, &[posted(Scope::Global, "b", vec![byte; 1000])]).err());
    let full = full.expect("64 KiB don't hold 256 values of 1000 bytes");
    assert!(matches!(full, StoreError::SegmentFull { bytes_max: 65536, .. }), "{full}");
    assert_eq!(full.status(), Status::ERR_OUT_OF_RESOURCE);
    let too_large = JobRecord { node_count: 3, ..JobRecord::default() };
    let error = store.register_record(&namespace(), &too_large).unwrap_err();
    assert!(matches!(error, StoreError::Record(RecordError::TooLarge { what: "nodes", found: 3, max: 2 })), "{error}");
}

/// A store with a namespace shared by four local processes.
fn shared(limits: StoreLimits) -> Store {
    let mut store = Store::new(StoreOptions { limits, ..options(BackingKind::Heap) });
    store.register_record(&namespace(), &JobRecord::default()).unwrap();
    store.share_among(&namespace(), 4);
    store
}

/// Regression: one process could use up all keys of its namespace, and then new keys of the others were refused. Now
/// each process has a share.
#[test]
fn a_process_that_puts_ever_new_keys_leaves_the_others_their_share() {
    let mut store = shared(StoreLimits { keys_max: 80, ..StoreLimits::default() });
    let mut put = |rank: u32, number: u32| {
        let value = posted(Scope::Global, &format!("key.{rank}.{number}"), number);
        let origin = if rank < 4 { Origin::Local } else { Origin::Remote };
        store.commit(&namespace(), rank, origin, &[value])
    };
    let error = (0..80).find_map(|number| put(0, number).err()).unwrap();
    assert!(
        matches!(error, StoreError::Share { shared: Shared::Keys, rank: 0, held: 30, needed: 1, left: 0 }),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "rank 0 has 30 keys of its namespace and may have 0 more, but needs 1; put values under fewer keys, \
         or raise StoreLimits::keys_max"
    );
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
    // Remote values do not take the guaranteed part of local processes either.
    let error = (0..80).find_map(|number| put(9, number).err()).unwrap();
    assert!(matches!(error, StoreError::TooManyKeys { keys_max: 80, .. }), "{error}");
    for rank in 1..4 {
        (0..10).for_each(|number| assert!(put(rank, number).unwrap().is_changed, "key {number} of rank {rank}"));
    }
    let reader = store.reader(&namespace()).unwrap();
    assert_eq!(get(reader, 0, "key.0.29"), Ok(Value::Uint32(29)));
    assert_eq!(get(reader, 3, "key.3.9"), Ok(Value::Uint32(9)));
}

/// A repeated put takes its size again. Regression: a process that overwrote 1 MiB 3,357 times used up the segment. No
/// other process could put a value until the job ended.
#[test]
fn a_process_that_overwrites_a_large_value_leaves_the_others_their_share() {
    let limits = StoreLimits { segment_bytes_max: 16 << 20, ..StoreLimits::default() };
    let mut store = shared(limits);
    let mut put = |rank: u32, byte: u8, size: usize| {
        let origin = if rank < 4 { Origin::Local } else { Origin::Remote };
        store.commit(&namespace(), rank, origin, &[posted(Scope::Global, "a", vec![byte; size])])
    };
    let (times, error) = (1..=u8::MAX).find_map(|byte| Some((byte, put(0, byte, 64 << 10).err()?))).unwrap();
    assert!(matches!(error, StoreError::Share { shared: Shared::Bytes, rank: 0, .. }), "{error}");
    // Its own eighth of 8 MiB, and half of the common part.
    assert!((46..=48).contains(&times), "{times} times");
    assert!(matches!(put(0, 0, 64 << 10), Err(StoreError::Share { .. })));
    let error = (1..=u8::MAX).find_map(|byte| put(9, byte, 64 << 10).err()).unwrap();
    assert!(matches!(error, StoreError::SegmentFull { .. }), "{error}");
    for rank in 1..4 {
        (0..15).for_each(|byte| assert!(put(rank, byte, 64 << 10).unwrap().is_changed, "time {byte} of rank {rank}"));
    }
    let reader = store.reader(&namespace()).unwrap();
    assert_eq!(get(reader, 0, "a"), Ok(Value::from(vec![times - 1; 64 << 10])), "what was there is still there");
}

#[test]
fn a_rank_outside_the_job_is_refused_and_costs_nothing() {
    // A fence names ranks of other nodes. Regression: one absurd number grew the modex table up to the limits.
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(2, 4)).unwrap();
    let before = store.statistics(&namespace()).unwrap().published_bytes;
    let values = [posted(Scope::Remote, "a", 1_u32)];
    for rank in [8, StoreLimits::default().ranks_max - 1] {
        let error = store.commit(&namespace(), rank, Origin::Remote, &values).unwrap_err();
        assert!(matches!(error, StoreError::RankOutsideJob { job_size: 8, .. }), "{error}");
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    }
    assert_eq!(store.statistics(&namespace()).unwrap().published_bytes, before);
    store.register_record(&namespace(), &block_job(2, 5)).unwrap();
    assert!(store.commit(&namespace(), 8, Origin::Remote, &values).unwrap().is_changed, "the job has grown");
}

#[test]
fn running_out_of_memory_leaves_what_was_stored_and_room_for_less() {
    for backing in [BackingKind::Heap, BackingKind::Memfd] {
        let mut store = Store::new(StoreOptions { span_bytes: 1 << 20, ..options(backing) });
        store.register_record(&namespace(), &block_job(2, 4)).unwrap();
        let mut commit = |rank: u8, bytes| {
            store.commit(&namespace(), rank.into(), Origin::Local, &[posted(Scope::Global, "a", vec![rank; bytes])])
        };
        let stored = (0..8).take_while(|&rank| commit(rank, 300_000).is_ok()).count();
        assert!((1..8).contains(&stored), "{stored}");
        let failed = u8::try_from(stored).unwrap();
        let error = commit(failed, 300_000).unwrap_err();
        assert!(matches!(error, StoreError::Grow(_)) && error.status() == Status::ERR_OUT_OF_RESOURCE, "{error}");
        assert!(commit(failed, 1000).unwrap().is_changed, "what fits is still taken");
        let before = store.statistics(&namespace()).unwrap();
        store.register_record(&namespace(), &block_job(2, 200_000)).unwrap_err();
        assert_eq!(store.statistics(&namespace()).unwrap().published_bytes, before.published_bytes);
        let reader = attached(&mut store);
        for rank in 0..failed {
            assert_eq!(get(&reader, u32::from(rank), "a"), Ok(Value::ByteObject(vec![rank; 300_000])));
        }
        assert_eq!(get(&reader, u32::from(failed), "a"), Ok(Value::ByteObject(vec![failed; 1000])));
        assert_eq!(get(&reader, Rank::Wildcard, "pmix.job.size"), Ok(Value::Uint32(8)));
    }
}

#[test]
fn a_commit_that_changes_nothing_publishes_nothing() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(1, 2)).unwrap();
    let nested = Value::info_array(vec![Info::new(key("x"), 1_u32)]);
    let values = [posted(Scope::Global, "a", "text that is long"), posted(Scope::Remote, "b", nested)];
    assert!(store.commit(&namespace(), 0, Origin::Local, &values).unwrap().is_changed);
    let before = store.statistics(&namespace()).unwrap();
    assert!(!store.commit(&namespace(), 0, Origin::Local, &values).unwrap().is_changed);
    assert!(
        !store
            .commit(&namespace(), 0, Origin::Local, &[posted(Scope::Local, "a", "text that is long")])
            .unwrap()
            .is_changed
    );
    assert_eq!(store.statistics(&namespace()).unwrap(), before);
    assert!(store.commit(&namespace(), 0, Origin::Local, &[posted(Scope::Local, "a", "other")]).unwrap().is_changed);
    let reader = attached(&mut store);
    let seen_by = |audience| read(&reader, 0, "a", RealmRequest::Default, Some(audience));
    assert_eq!(seen_by(Audience::SameNode), Ok("other".into()));
    assert_eq!(seen_by(Audience::OtherNodes), Ok("text that is long".into()));
}

/// Regression: a second registration turned a column of flags into 64-bit numbers, because every compact column was
/// read back as counts.
#[test]
fn flags_and_signed_numbers_survive_an_update() {
    let mut store = store(BackingKind::Heap);
    let of = |rank: u32, spawned: bool, number: i32| {
        let infos = [
            ("pmix.rank", Value::from(Rank::from(rank))),
            ("pmix.spawned", spawned.into()),
            ("own.number", number.into()),
        ];
        Info::new(key("pmix.pdata"), Value::info_array(infos.map(|(name, value)| Info::new(key(name), value)).into()))
    };
    store.register(&namespace(), &[of(0, true, 5), of(1, false, 7)]).unwrap();
    store.register(&namespace(), &[Info::new(key("own.key"), 1_u32)]).unwrap();
    let reader = attached(&mut store);
    let seen = |rank: u32, name| read(&reader, rank, name, RealmRequest::Default, None).unwrap();
    assert_eq!([seen(0, "pmix.spawned"), seen(1, "pmix.spawned")], [Value::Bool(true), Value::Bool(false)]);
    assert_eq!([seen(0, "own.number"), seen(1, "own.number")], [Value::Int32(5), Value::Int32(7)]);
}

/// Regression: a reader that the scope of a process's value excludes did not see the host's value either.
#[test]
fn a_value_for_others_does_not_hide_what_the_host_registered() {
    let mut store = store(BackingKind::Heap);
    let infos = vec![Info::new(key("pmix.rank"), Value::from(Rank::from(0))), Info::new(key("own.key"), 1_u32)];
    store.register(&namespace(), &[Info::new(key("pmix.pdata"), Value::info_array(infos))]).unwrap();
    store.commit(&namespace(), 0, Origin::Local, &[posted(Scope::Remote, "own.key", 2_u32)]).unwrap();
    let reader = attached(&mut store);
    let seen = |audience| read(&reader, 0, "own.key", RealmRequest::Default, audience).unwrap();
    assert_eq!(seen(None), Value::Uint32(1));
    assert_eq!(seen(Some(Audience::OtherNodes)), Value::Uint32(2));
    assert_eq!(seen(Some(Audience::Nobody)), Value::Uint32(1), "what is registered has no scope");
}

/// Deeply nested values are stored and found with any stack of the reader.
#[test]
fn deep_values_are_stored_and_read_on_a_small_stack() {
    let test = || {
        let nested = (0..1024).fold(Value::Bool(true), |inner, _| Value::info_array(vec![Info::new(key("k"), inner)]));
        let mut store = store(BackingKind::Heap);
        store
            .register(
                &namespace(),
                &[Info::new(key("pmix.job.size"), 1_u32), Info::new(key("own.key"), nested.clone())],
            )
            .unwrap();
        store.commit(&namespace(), 0, Origin::Local, &[posted(Scope::Global, "deep", nested.clone())]).unwrap();
        let reader = attached(&mut store);
        let seen = |rank, name| read(&reader, rank, name, RealmRequest::Default, None).unwrap();
        assert!(seen(Rank::from(0), "deep") == nested && seen(Rank::Wildcard, "own.key") == nested);
        let deeper = Value::info_array(vec![Info::new(key("k"), nested)]);
        let refused = store.commit(&namespace(), 0, Origin::Local, &[posted(Scope::Global, "deeper", deeper)]);
        assert!(refused.unwrap_err().to_string().contains("nested"));
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(test);
    thread.unwrap().join().unwrap();
}

#[test]
fn of_a_key_given_twice_in_a_commit_the_later_value_counts() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(1, 2)).unwrap();
    let values = [
        posted(Scope::Global, "a", 1_u32),
        posted(Scope::Local, "a", 2_u32),
        // The wire form of a commit in two scopes.
        posted(Scope::Local, "b", 3_u32),
        posted(Scope::Remote, "b", 3_u32),
    ];
    assert!(store.commit(&namespace(), 0, Origin::Local, &values).unwrap().is_changed);
    let expect = |audience, a: u32| {
        let kvals = store.posted(&namespace(), 0, audience).unwrap();
        let expected = [("a", Value::Uint32(a)), ("b", Value::Uint32(3))];
        let expected = expected.map(|(name, value)| Kval { key: key(name), value });
        let mut sorted = kvals;
        sorted.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(sorted, expected);
    };
    expect(Audience::SameNode, 2);
    expect(Audience::OtherNodes, 1);
    let blocks = attached(&mut store);
    assert_eq!(blocks.blocks(0).unwrap()[0].entries.len(), 3, "equal values of two scopes share an entry");
}

#[test]
fn a_value_outside_the_scope_is_told_from_one_that_is_missing() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(2, 1)).unwrap();
    store.commit(&namespace(), 0, Origin::Local, &[posted(Scope::Remote, "a", 1_u32)]).unwrap();
    store.commit(&namespace(), 1, Origin::Remote, &[posted(Scope::Remote, "b", 2_u32)]).unwrap();
    let reader = attached(&mut store);
    assert_eq!(get(&reader, 0, "a"), Err(ReadError::OutsideScope));
    assert_eq!(get(&reader, 1, "a"), Err(ReadError::NotFound));
    assert_eq!(get(&reader, 1, "b"), Ok(Value::Uint32(2)));
    assert_eq!(get(&reader, Rank::Undefined, "b"), Ok(Value::Uint32(2)));
    assert_eq!(get(&reader, Rank::Undefined, "a"), Err(ReadError::OutsideScope));
}

/// No process's key is mistaken for the stored name of a qualified value. Regression: keys with the prefix of such
/// names were sent as one qualified value, and no lookup found them.
#[test]
fn no_key_of_a_process_or_of_the_host_is_taken_for_a_name_of_the_store() {
    let mut store = store(BackingKind::Heap);
    let names = ["\u{1}qualified.a", "\u{1}qualified.b", "qualified.c"];
    let described = Info::new(key("\u{1}qualified.d"), 9_u32);
    store.register(&namespace(), &[Info::new(key("pmix.job.size"), 2_u32), described]).unwrap();
    let values: Vec<Posted> = names.iter().map(|name| posted(Scope::Global, name, *name)).collect();
    store.commit(&namespace(), 0, Origin::Local, &values).unwrap();
    store.commit(&namespace(), 1, Origin::Remote, &values).unwrap();
    for rank in [0, 1] {
        let told = store.posted(&namespace(), rank, Audience::SameNode).unwrap();
        let told: Vec<&str> = told.iter().map(|entry| entry.key.as_str()).collect();
        let is_posted = |name: &&str| told.contains(name);
        assert!(told.len() == 3 && names.iter().all(is_posted), "{told:?}");
    }
    let told = store.job_entries(&namespace()).unwrap();
    assert!(told.iter().any(|entry| entry.key.as_str() == "\u{1}qualified.d"), "{told:?}");
}

#[test]
fn everything_posted_elsewhere_is_seen_here_and_agrees_with_single_gets() {
    // Values from other nodes are stored with the scope "remote". Regression: a local process that requested all of
    // them got those visible to neighbours of their owner, which are none.
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(2, 2)).unwrap();
    let mut commit = |origin, scope, name: &str, value: u32| {
        store.commit(&namespace(), 3, origin, &[posted(scope, name, value)]).unwrap();
    };
    commit(Origin::Remote, Scope::Remote, "a", 1);
    commit(Origin::Remote, Scope::Remote, "b", 2);
    commit(Origin::Local, Scope::Local, "c", 3);
    commit(Origin::Local, Scope::Remote, "b", 4);
    let reader = attached(&mut store);
    let all: Vec<_> = reader.posted(3, None).unwrap().into_iter().map(|(name, value)| (name, value.as_u32())).collect();
    assert_eq!(all, [("a", Some(1)), ("c", Some(3))]);
    assert_eq!(get(&reader, 3, "b"), Err(ReadError::OutsideScope), "replaced by a value for others");
}

#[test]
fn deregistering_leaves_mappings_valid_and_the_namespace_unknown() {
    let mut store = store(BackingKind::Memfd);
    store.register_record(&namespace(), &block_job(1, 2)).unwrap();
    let reader = attached(&mut store);
    assert!(store.deregister(&namespace()));
    assert!(!store.deregister(&namespace()));
    assert_eq!(get(&reader, 1, "pmix.hname"), Ok(Value::from("node00000")));
    let error = store.commit(&namespace(), 0, Origin::Local, &[]).unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_FOUND);
    assert!(store.handle(&namespace()).is_err());
}

#[test]
fn statistics_account_for_all_that_is_published() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(4, 4)).unwrap();
    for rank in 0..16 {
        store.commit(&namespace(), rank, Origin::Local, &[posted(Scope::Global, "ep", vec![1_u8; 100])]).unwrap();
    }
    store.take_slot(&namespace(), 1, 16).unwrap();
    let statistics = store.statistics(&namespace()).unwrap();
    for section in Section::ALL {
        assert!(statistics.section(section) > 0, "{section:?}");
    }
    let counted = statistics.header_bytes + statistics.sections.iter().sum::<u64>();
    let (low, high) = (statistics.published_bytes * 8 / 10, statistics.published_bytes);
    assert!((low..=high).contains(&counted), "{counted} of {high}");
}

#[test]
fn a_rank_that_commits_a_thousand_times_stays_a_few_blocks_deep() {
    let mut store = store(BackingKind::Heap);
    store.register_record(&namespace(), &block_job(1, 1)).unwrap();
    for round in 0..1000_u32 {
        let values =
            [posted(Scope::Global, "same", round), posted(Scope::Global, &format!("key.{}", round % 300), round)];
        store.commit(&namespace(), 0, Origin::Local, &values).unwrap();
    }
    let reader = attached(&mut store);
    assert!(reader.blocks(0).unwrap().len() <= 10);
    assert_eq!(get(&reader, 0, "same"), Ok(Value::Uint32(999)));
    assert_eq!(get(&reader, 0, "key.5"), Ok(Value::Uint32(905)));
}

/// Regression: a job on one node returned the node's name for every rank, even one outside the job. A program that
/// tested the existence of a rank got a wrong answer.
#[test]
fn a_rank_outside_the_job_has_nothing() {
    let mut store = store(BackingKind::Heap);
    let record = JobRecord { proc_columns: Vec::new(), own_node: Some(0), ..block_job(1, 2) };
    store.register_record(&namespace(), &record).unwrap();
    let reader = attached(&mut store);
    assert_eq!(get(&reader, 1, "pmix.hname"), Ok(Value::from("node00000")));
    assert_eq!(get(&reader, 77, "pmix.hname"), Err(ReadError::NotFound));
}

/// The table of posted values is made with the first post. A job too large for it is refused at once.
#[test]
fn a_job_whose_processes_could_post_nothing_is_refused() {
    let limits = StoreLimits { segment_bytes_max: 1 << 20, ..StoreLimits::default() };
    let mut store = Store::new(StoreOptions { limits, ..options(BackingKind::Heap) });
    let job = |rank_count| JobRecord { rank_count, ..JobRecord::default() };
    let error = store.register_record(&namespace(), &job(200_000)).unwrap_err();
    assert!(matches!(error, StoreError::SegmentFull { bytes_max: 0x10_0000, .. }), "{error}");
    store.register_record(&namespace(), &job(100_000)).unwrap();
    let before = store.statistics(&namespace()).unwrap();
    assert!(before.published_bytes < 64 << 10, "{before:?}");
    store.commit(&namespace(), 99_999, Origin::Local, &[posted(Scope::Global, "a", 1_u32)]).unwrap();
    // A larger job needs a larger table, for which there is no room beside the present one.
    let error = store.register_record(&namespace(), &job(120_000)).unwrap_err();
    assert!(matches!(error, StoreError::SegmentFull { .. }), "{error}");
    let reader = attached(&mut store);
    assert_eq!(get(&reader, 99_999, "a"), Ok(Value::Uint32(1)));
}

/// More ranks than the table has cells: the next post of any of them makes a larger table with the earlier data.
#[test]
fn a_job_that_grows_after_the_first_post_keeps_what_was_posted() {
    let mut store = store(BackingKind::Memfd);
    let job = |rank_count| JobRecord { rank_count, ..JobRecord::default() };
    let post = |store: &mut Store, rank| {
        store.commit(&namespace(), rank, Origin::Local, &[posted(Scope::Global, "a", rank)]).unwrap();
    };
    store.register_record(&namespace(), &job(1000)).unwrap();
    post(&mut store, 999);
    let reader = attached(&mut store);
    store.register_record(&namespace(), &job(100_000)).unwrap();
    assert_eq!(store.statistics(&namespace()).unwrap().rank_count, 1000);
    post(&mut store, 5);
    assert_eq!(store.statistics(&namespace()).unwrap().rank_count, 1000, "it has a place already");
    post(&mut store, 70_000);
    assert_eq!(store.statistics(&namespace()).unwrap().rank_count, 100_000);
    for rank in [5, 999, 70_000] {
        assert_eq!(get(&reader, rank, "a"), Ok(Value::Uint32(rank)));
    }
}

/// Regression: a server took two descriptors and 16 GiB of addresses for each namespace, so it could have only 8,214. A
/// namespace that no process reads needs neither.
#[test]
fn a_namespace_that_nobody_reads_takes_no_descriptor_and_moves_when_somebody_does() {
    let mut store = Store::new(StoreOptions::new("server.0", "n0"));
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let namespaces: Vec<Namespace> = (0..300).map(|job| Namespace::new(&format!("job-{job}")).unwrap()).collect();
    let before = descriptors();
    for namespace in &namespaces {
        store.register_record(namespace, &block_job(2, 2)).unwrap();
    }
    // Other tests of this process open and close some in the meantime.
    assert!(descriptors() < before + 200, "{} descriptors for 300 namespaces", descriptors() - before);
    let [first, second] = [&namespaces[0], &namespaces[1]];
    let size = |reader: &NamespaceReader| get(reader, Rank::Wildcard, "pmix.job.size");
    assert_eq!(size(store.reader(first).unwrap()), Ok(Value::Uint32(4)));
    let handle = store.handle(first).unwrap();
    assert!(handle.descriptor().is_some(), "another process can map it");
    let reader = NamespaceReader::attach(handle).unwrap();
    assert_eq!((reader.namespace(), size(&reader)), ("job-0", Ok(Value::Uint32(4))));
    for namespace in [first, second] {
        let values = [posted(Scope::Global, "endpoint", 7_u32)];
        assert!(store.commit(namespace, 3, Origin::Local, &values).unwrap().is_changed);
        assert_eq!(get(store.reader(namespace).unwrap(), 3, "endpoint"), Ok(Value::Uint32(7)));
    }
    assert_eq!(get(&reader, 3, "endpoint"), Ok(Value::Uint32(7)), "readers see what comes later");
}

#[test]
fn a_description_that_outgrows_its_first_memory_moves() {
    let mut store = Store::new(StoreOptions::new("server.0", "n0"));
    store.register_record(&namespace(), &block_job(2, 2)).unwrap();
    store.register_record(&namespace(), &block_job(200, 400)).unwrap();
    let large = Info::new(key("vendor.text"), "x".repeat(1 << 20));
    let other = Namespace::new("large").unwrap();
    store.register(&other, std::slice::from_ref(&large)).unwrap();
    store.register(&namespace(), &[large]).unwrap();
    for namespace in [&namespace(), &other] {
        let found = get(store.reader(namespace).unwrap(), Rank::Wildcard, "vendor.text").unwrap();
        assert_eq!(found.as_str().map(str::len), Some(1 << 20));
    }
    assert_eq!(get(store.reader(&namespace()).unwrap(), Rank::Wildcard, "pmix.job.size"), Ok(Value::Uint32(80_000)));
}
