use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::collection::vec;
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, prop_oneof};

use super::devices::{Limit, Observation, limits_of, path_of_cgroup, work_of_devices};
use super::mounts::{Mount, MountList};
use super::provider::{Provider, Rates, StorageSystem, Usage};
use super::{MountTable, Storage, keys as storage_keys};
use crate::cases::cases;
use crate::keys;
use crate::types::codes::storage_access_type::{STORAGE_ACCESS_RD, STORAGE_ACCESS_RDWR, STORAGE_ACCESS_WR};
use crate::types::codes::{storage_accessibility, storage_medium};
use crate::types::{Info, InfoFlags, Key, Query, Text, Value, footprint};

const TABLE: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
23 27 0:22 / /sys rw,relatime shared:7 - sysfs sysfs rw
27 1 254:1 / / rw,relatime shared:1 master:2 - ext4 /dev/vda1 rw,errors=remount-ro
30 27 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684084k
31 27 0:28 / /run/a\\040b\\134c ro,relatime - tmpfs tmpfs rw
32 27 0:40 / /home rw shared:9 - nfs4 server:/export/home rw,vers=4.2,rsize=1048576
33 27 254:1 /var/etc /etc/hosts ro - ext4 /dev/vda1 rw
34 27 8:17 / /data ro - xfs /dev/sdb1 ro
this line is no mount
35 27 0:50 / /far rw - fuse.sshfs me@far:/x rw,user_id=7
";

fn systems(table: &str) -> Vec<StorageSystem> {
    MountList::read(table.as_bytes()).systems()
}

fn texts(texts: &[&str]) -> Vec<Text> {
    texts.iter().copied().map(Text::from).collect()
}

#[test]
fn a_mount_table_has_a_system_for_each_device() {
    let found = systems(TABLE);
    let ids: Vec<String> = found.iter().map(|system| system.id.to_string_lossy()).collect();
    assert_eq!(
        ids,
        ["/dev/vda1", "tmpfs:/dev/shm", "tmpfs:/run/a b\\c", "server:/export/home", "/dev/sdb1", "fuse.sshfs:/far"]
    );
    let [disk, memory, escaped, network, data, _] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&disk.paths, disk.device), (&texts(&["/", "/etc/hosts"]), Some((254, 1))));
    assert_eq!((&disk.kind, disk.access), (&Some(Text::from("ext4")), Some(STORAGE_ACCESS_RDWR)));
    assert_eq!(disk.accessibility, Some(storage_accessibility::STORAGE_ACCESSIBILITY_NODE));
    assert_eq!((memory.medium, disk.medium), (Some(storage_medium::STORAGE_MEDIUM_RAM), None));
    assert_eq!((&escaped.paths, escaped.access), (&texts(&["/run/a b\\c"]), Some(STORAGE_ACCESS_RD)));
    assert_eq!((&network.version, network.accessibility), (&Some(Text::from("4.2")), None));
    assert_eq!(data.access, Some(STORAGE_ACCESS_RD));
}

/// The way from the root ends at the last mount of a directory, and never goes through a hidden one.
#[test]
fn a_hidden_mount_is_no_storage_of_the_node() {
    let line = |id: u32, parent: u32, point: &str| format!("{id} {parent} 8:{id} / {point} rw - ext4 /dev/d{id} rw\n");
    let visible = |lines: &[String]| {
        let found = systems(&lines.concat());
        found.iter().map(|system| system.device.unwrap().1).collect::<Vec<_>>()
    };
    let root = line(1, 0, "/");
    assert_eq!(visible(&[root.clone(), line(2, 1, "/a"), line(3, 2, "/a")]), [1, 3]);
    assert_eq!(visible(&[root.clone(), line(2, 1, "/a/b"), line(3, 1, "/a")]), [1, 3]);
    assert_eq!(visible(&[root.clone(), line(2, 1, "/a"), line(3, 2, "/a/b"), line(4, 1, "/ab")]), [1, 2, 3, 4]);
    assert_eq!(visible(&[root.clone(), line(2, 1, "/a"), line(3, 2, "/a"), line(4, 2, "/a/b")]), [1, 3]);
    assert_eq!(visible(&[root, line(2, 1, "/")]), [2], "a new root");
    // A part of a table, as in a changed root.
    assert_eq!(visible(&[line(2, 1, "/a"), line(3, 1, "/b")]), [2, 3]);
    // No tree.
    assert_eq!(visible(&[line(1, 1, "/"), line(2, 3, "/a"), line(3, 2, "/a")]), [1]);
}

#[test]
fn a_name_of_two_systems_is_no_id() {
    let found = systems("1 0 0:1 / / rw - btrfs /dev/sda rw\n2 1 0:2 / /x rw - btrfs /dev/sda rw\n");
    let ids: Vec<_> = found.iter().map(|system| system.id.clone()).collect();
    assert_eq!(ids, texts(&["btrfs:/", "btrfs:/x"]));
}

/// The source of a FUSE mount is a text of its user: it took the name of a disk, and one of a cluster's disk was that
/// of a node.
#[test]
fn a_user_names_no_system_like_a_disk() {
    let found = systems(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:2 / /x rw - fuse.x /dev/sda1 rw\n3 1 8:2 / /y rw - gfs2 /dev/sdb rw\n",
    );
    let ids: Vec<_> = found.iter().map(|system| system.id.clone()).collect();
    assert_eq!(ids, texts(&["/dev/sda1", "fuse.x:/x", "/dev/sdb"]));
    let node = Some(storage_accessibility::STORAGE_ACCESSIBILITY_NODE);
    assert_eq!([0, 1, 2].map(|at| found[at].accessibility), [node, None, None]);
}

/// A provider with two systems of one id.
#[derive(Debug)]
struct Double;

impl Provider for Double {
    fn systems(&self) -> Vec<StorageSystem> {
        ["/first", "/second"].map(|path| StorageSystem { paths: texts(&[path]), ..StorageSystem::new("same") }).into()
    }
}

#[test]
fn systems_of_one_provider_do_not_become_one() {
    let mut storage = Storage::default();
    storage.add(Double);
    let id_at = |path| ask(&storage, &[keys::STORAGE_ID.name()], vec![info(keys::STORAGE_PATH.name(), path)]);
    assert_eq!([id_at("/first"), id_at("/second")], [vec![Value::from("same")], Vec::new()]);
}

#[test]
fn rates_are_differences_of_readings_in_time() {
    let table = |reads: u64, sectors: u64| {
        work_of_devices(&format!("   8  0 sda {reads} 0 {sectors} 9 4 0 80 9 0 9 9\n 8 1 sda1 1\njunk\n"))
    };
    let mut observation = Observation::default();
    observation.observe(100.0, table(10, 1000));
    assert_eq!(observation.rates_of((8, 0)), [Rates::default(); 2]);
    observation.observe(102.0, table(20, 3000));
    let fast =
        Rates { bytes: Some(512_000.0), bytes_max: Some(512_000.0), operations: Some(5.0), operations_max: Some(5.0) };
    let rest = Rates { bytes: Some(0.0), operations: Some(0.0), ..Rates::default() };
    assert_eq!(observation.rates_of((8, 0)), [fast, rest]);
    observation.observe(102.5, table(999, 99_999));
    assert_eq!(observation.rates_of((8, 0)), [fast, rest], "too soon");
    observation.observe(112.0, table(20, 3000));
    let now_at_rest = Rates { bytes: Some(0.0), operations: Some(0.0), ..fast };
    assert_eq!(observation.rates_of((8, 0))[0], now_at_rest);
    observation.observe(122.0, table(0, 0));
    let other_disk = Rates { bytes: None, operations: None, ..fast };
    assert_eq!(observation.rates_of((8, 0))[0], other_disk, "counters that go back");
    assert_eq!(observation.rates_of((8, 1)), [Rates::default(); 2]);
}

#[test]
fn the_smallest_limit_of_the_groups_counts() {
    let texts =
        ["8:16 rbps=2097152 wiops=120\n8:0 rbps=max wbps=max riops=9 wiops=max\n", "8:16 rbps=1048576 wiops=max\n"];
    let limits = limits_of((8, 16), &texts.map(str::to_owned));
    let reads = Limit { bytes: Some(1_048_576.0), operations: None };
    assert_eq!(limits, [reads, Limit { bytes: None, operations: Some(120.0) }]);
    assert_eq!(limits_of((8, 1), &texts.map(str::to_owned)), [Limit::default(); 2]);
    let seen = Rates { bytes_max: Some(7.0), operations_max: Some(7.0), ..Rates::default() };
    assert_eq!(seen.within(reads), Rates { bytes_max: Some(1_048_576.0), ..seen });
    assert_eq!(path_of_cgroup("9:name=systemd:/\n0::/user.slice/a b\n"), Some("/user.slice/a b"));
}

/// Two systems, and the number of looks at them.
#[derive(Debug, Default)]
struct Site {
    looks: Arc<AtomicUsize>,
}

impl Provider for Site {
    fn systems(&self) -> Vec<StorageSystem> {
        let mut fast = StorageSystem::new("fast,one");
        (fast.kind, fast.medium) = (Some(Text::from("lustre")), Some(storage_medium::STORAGE_MEDIUM_NVME));
        fast.paths = texts(&["/fast"]);
        let mut slow = StorageSystem::new("tape");
        slow.medium = Some(storage_medium::STORAGE_MEDIUM_TAPE | storage_medium::STORAGE_MEDIUM_HDD);
        vec![fast, slow]
    }

    fn usage(&self, system: &StorageSystem) -> Usage {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let is_fast = system.id == Text::from("fast,one");
        let rates = |bytes: f64| Rates { bytes: Some(bytes), ..Rates::default() };
        Usage {
            capacity_bytes: is_fast.then_some(10 << 20),
            read_bytes_best: Some(4096),
            write_bytes_best: Some(8192),
            reads: rates(2.0),
            writes: rates(3.0),
            ..Usage::default()
        }
    }
}

/// Another provider that knows more about one of them.
#[derive(Debug)]
struct More;

impl Provider for More {
    fn systems(&self) -> Vec<StorageSystem> {
        let mut tape = StorageSystem::new("tape");
        (tape.version, tape.medium) = (Some(Text::from("7")), Some(storage_medium::STORAGE_MEDIUM_RAM));
        vec![StorageSystem::new("own"), tape]
    }

    fn usage(&self, _: &StorageSystem) -> Usage {
        Usage { capacity_bytes: Some(5 << 20), objects_max: Some(9), ..Usage::default() }
    }
}

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn ask(storage: &Storage, keys: &[&str], qualifiers: Vec<Info>) -> Vec<Value> {
    let queries = [Query { keys: texts(keys), qualifiers }];
    storage.answer(&queries, "here", usize::MAX).into_iter().map(|info| info.value).collect()
}

fn site() -> (Storage, Arc<AtomicUsize>) {
    let (site, mut storage) = (Site::default(), Storage::default());
    let looks = Arc::clone(&site.looks);
    storage.add(site);
    storage.add(More);
    (storage, looks)
}

#[test]
fn qualifiers_select_a_system_and_a_direction() {
    let (storage, looks) = site();
    let list = |qualifiers| ask(&storage, &[keys::QUERY_STORAGE_LIST.name()], qualifiers);
    assert_eq!(list(Vec::new()), [Value::from("fast%2Cone,tape,own")]);
    let medium = |bits| info(keys::STORAGE_MEDIUM.name(), Value::StorageMedium(bits));
    assert_eq!(list(vec![medium(storage_medium::STORAGE_MEDIUM_TAPE)]), [Value::from("tape")]);
    assert_eq!(list(vec![medium(storage_medium::STORAGE_MEDIUM_RAM)]), [], "the first provider decides");
    assert_eq!(list(vec![info(keys::STORAGE_TYPE.name(), "lustre")]), [Value::from("fast%2Cone")]);
    assert_eq!(list(vec![info(keys::STORAGE_PATH.name(), "/fast")]), [Value::from("fast%2Cone")]);
    assert_eq!(list(vec![info(keys::HOSTNAME.name(), "there")]), []);
    assert_eq!(list(vec![info(keys::STORAGE_TYPE.name(), 7_u32)]), []);
    assert_eq!(looks.load(Ordering::Relaxed), 0, "a list needs no look");
    let id = |id: &str| info(keys::STORAGE_ID.name(), id);
    let direction = |bits| info(keys::STORAGE_ACCESS_TYPE.name(), Value::StorageAccessType(bits));
    let names = [keys::STORAGE_BW_CUR.name(), keys::STORAGE_SUGGESTED_XFER_SIZE.name()];
    let of = |bits| ask(&storage, &names, vec![id("tape"), direction(bits)]);
    assert_eq!(of(STORAGE_ACCESS_RD), [Value::Double(2.0), Value::Double(4096.0)]);
    assert_eq!(of(STORAGE_ACCESS_WR), [Value::Double(3.0), Value::Double(8192.0)]);
    assert_eq!(of(STORAGE_ACCESS_RDWR), [Value::Double(5.0)], "no size is best for both");
    assert_eq!(of(9), []);
    assert_eq!(ask(&storage, &[names[0]], Vec::new()), [], "which one?");
    for name in ["fast%2Cone", "fast,one"] {
        assert_eq!(ask(&storage, &[keys::STORAGE_CAPACITY_LIMIT.name()], vec![id(name)]), [Value::Uint64(10)]);
    }
}

/// Storage has no numbers of nodes: that of another node got the storage of this one.
#[test]
fn a_qualifier_that_storage_does_not_honour_is_not_ignored() {
    let (storage, _) = site();
    let list = |qualifier| ask(&storage, &[keys::QUERY_STORAGE_LIST.name()], vec![qualifier]);
    let required = |info: Info| Info { flags: InfoFlags::REQUIRED.bits(), ..info };
    assert_eq!(list(info(keys::NODEID.name(), 5_u32)), []);
    assert_eq!(list(required(info(keys::DEVICE_ID.name(), "hfi0"))), []);
    let all = [Value::from("fast%2Cone,tape,own")];
    assert_eq!(list(info(keys::DEVICE_ID.name(), "hfi0")), all);
    assert_eq!(list(required(info(keys::HOSTNAME.name(), "here"))), all);
}

#[test]
fn the_bytes_of_an_answer_are_bounded() {
    let (storage, _) = site();
    let list = Query { keys: texts(&[keys::QUERY_STORAGE_LIST.name()]), qualifiers: Vec::new() };
    let size = footprint(&Value::from("fast%2Cone,tape,own")).unwrap();
    let count = |bytes_max| storage.answer(&[list.clone(), list.clone()], "here", bytes_max).len();
    assert_eq!([2 * size, 2 * size - 1, size - 1].map(count), [2, 1, 0]);
}

#[test]
fn a_later_provider_adds_what_the_first_does_not_know() {
    let (storage, looks) = site();
    let names: Vec<&str> = storage_keys().chain(storage_keys()).collect();
    let found = ask(&storage, &names, vec![info(keys::STORAGE_ID.name(), "tape")]);
    let expected = [
        Value::from("tape"),
        Value::from("tape"),
        Value::from("7"),
        Value::StorageMedium(6),
        Value::Uint64(5),
        Value::Uint64(9),
        Value::Double(5.0),
    ];
    assert_eq!(found, expected);
    assert_eq!(looks.load(Ordering::Relaxed), 1);
}

#[test]
fn this_machine_has_storage_with_a_capacity() {
    let mut storage = Storage::default();
    storage.add(MountTable::new());
    let list = ask(&storage, &[keys::QUERY_STORAGE_LIST.name()], Vec::new());
    let ids: Vec<&str> = list[0].as_str().unwrap().split(',').collect();
    let capacity = |id: &&&str| {
        let qualifiers = vec![info(keys::STORAGE_ID.name(), **id)];
        matches!(ask(&storage, &[keys::STORAGE_CAPACITY_LIMIT.name()], qualifiers)[..], [Value::Uint64(1..)])
    };
    assert!(ids.iter().find(capacity).is_some(), "{ids:?}");
}

proptest::proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn an_arbitrary_table_is_read_without_a_panic(table in vec(any::<u8>(), 0..400)) {
        prop_assert!(MountList::read(&table).systems().len() <= table.len());
        let text = String::from_utf8_lossy(&table);
        Observation::default().observe(1.0, work_of_devices(&text));
        let _ = limits_of((8, 0), &[text.into_owned()]);
    }

    /// Any tree, and any text that is none.
    #[test]
    fn each_system_is_at_a_mount_that_was_read(
        lines in vec((0..9_u32, 0..9_u32, 0..4_u32, prop_oneof!["/", "/a", "/a/b", "/a/\\\\057", "/b"]), 0..20)
    ) {
        let line = |(id, parent, minor, point): &(u32, u32, u32, String)| {
            format!("{id} {parent} 8:{minor} / {point} rw - ext4 /dev/x{minor} rw\n")
        };
        let table: String = lines.iter().map(line).collect();
        let list = MountList::read(table.as_bytes());
        prop_assert_eq!(list.mounts().len(), lines.len());
        let systems = list.systems();
        prop_assert!(systems.len() <= 4);
        for system in &systems {
            prop_assert!(system.paths.iter().all(|path| list.mounts().iter().any(|mount| mount.point() == path.as_bytes())));
        }
    }

    /// The rule of the kernel, by a walk from the root for each mount.
    #[test]
    fn mounts_are_visible_as_a_walk_from_the_root_finds_them(
        steps in vec((any::<prop::sample::Index>(), prop_oneof!["", "/a", "/b", "/a/b", "/ab"]), 0..12)
    ) {
        let mut mounts = vec![(1, 0, "/".to_owned())];
        for (parent, below) in &steps {
            let (parent, _, point) = parent.get(&mounts).clone();
            let point = format!("{}{below}", point.trim_end_matches('/'));
            let point = if point.is_empty() { "/".to_owned() } else { point };
            mounts.push((u32::try_from(mounts.len()).unwrap() + 1, parent, point));
        }
        let on = |mount: u32, place: &str| {
            mounts.iter().rev().find(|(_, parent, point)| *parent == mount && point == place).map(|(id, ..)| *id)
        };
        let reached = |point: &str| {
            let ends = (1..point.len()).filter(|end| point[*end..].starts_with('/')).chain([point.len()]);
            std::iter::once(1).chain(ends).fold(1, |mut mount, end| {
                while let Some(above) = on(mount, &point[..end]) {
                    mount = above;
                }
                mount
            })
        };
        let expected: Vec<u32> = mounts.iter().filter(|(id, _, point)| reached(point) == *id).map(|(id, ..)| *id).collect();
        let line = |(id, parent, point): &(u32, u32, String)| format!("{id} {parent} 8:{id} / {point} rw - ext4 /dev/d{id} rw\n");
        let found = systems(&mounts.iter().map(line).collect::<String>());
        let found: Vec<u32> = found.iter().map(|system| system.device.unwrap().1).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn each_name_comes_through_the_kernels_escapes(name in prop::collection::vec(1..=255_u8, 1..40)) {
        // The kernel escapes spaces, tabs, newlines, backslashes and number signs.
        let escaped: Vec<u8> = name.iter().flat_map(|byte| match byte {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' => format!("\\{byte:03o}").into_bytes(),
            other => vec![*other],
        }).collect();
        let line = [b"1 0 0:1 / /", &*escaped, b" rw - tmpfs tmpfs rw"].concat();
        let mount = Mount::read(&line).unwrap();
        prop_assert_eq!(mount.point(), [b"/", &*name].concat());
    }
}
