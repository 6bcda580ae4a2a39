use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::directives::{Directive, FileOrder, OrderResult};
use super::{FileError, FileTask, MountTable, Provider, Storage, StorageSystem};
use crate::keys;
use crate::types::{DataArray, DataType, Info, Key, Status, Text, Value};

const STAGE: &str = "modex.storage.stage";
const MOVE: &str = "modex.storage.move";
const CACHE: &str = "modex.storage.cache";
const TARGET: &str = "modex.storage.to";

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn text(path: &Path) -> Value {
    Value::String(Text::new(path.as_os_str().as_bytes()).unwrap())
}

fn texts(paths: &[&Path]) -> Value {
    let elements = paths.iter().map(|path| text(path)).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::String, elements }))
}

fn order(directives: &[Info]) -> FileOrder {
    match Directive::read(directives) {
        Ok(Directive::Carry(order)) => order,
        other => panic!("{other:?}"),
    }
}

/// Two directories, and a file in the first.
struct Place {
    _temporary: tempfile::TempDir,
    file: PathBuf,
    target: PathBuf,
    storage: Storage,
}

impl Place {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let [from, target] = ["from", "to"].map(|name| temporary.path().join(name));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&target).unwrap();
        let file = from.join("data");
        fs::write(&file, content()).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let mut storage = Storage::default();
        storage.add(MountTable::new());
        Self { _temporary: temporary, file, target, storage }
    }

    fn run(&self, action: &'static str, files: &[&Path]) -> OrderResult {
        let target = (action != CACHE).then(|| info(TARGET, text(&self.target)));
        let directives: Vec<Info> = [info(action, texts(files))].into_iter().chain(target).collect();
        self.storage.carry_out(&order(&directives), &|| None)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.target)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }
}

/// More than two pieces.
fn content() -> Vec<u8> {
    (0..5_000_000_u32).map(|number| number.to_le_bytes()[1]).collect()
}

fn there(paths: &[&Path]) -> OrderResult {
    OrderResult { status: Status::SUCCESS, info: vec![info("modex.storage.files", texts(paths))] }
}

/// The status, and the file that failed.
fn failure(result: &OrderResult) -> (Status, Option<Value>) {
    let is_named = |info: &&Info| info.key.as_str() == "modex.storage.failed";
    assert!(result.info.iter().any(|info| info.key.as_str() == "modex.storage.reason"), "{result:?}");
    (result.status, result.info.iter().find(is_named).map(|info| info.value.clone()))
}

#[test]
fn a_staged_file_is_there_with_its_facts_and_one_with_the_same_content_stays() {
    let place = Place::new();
    let copy = place.target.join("data");
    assert_eq!(place.run(STAGE, &[&place.file]), there(&[&copy]));
    assert_eq!(fs::read(&copy).unwrap(), content());
    let [own, copied] = [&place.file, &copy].map(|path| fs::metadata(path).unwrap());
    let facts = |found: &fs::Metadata| (found.mode(), found.uid(), found.gid(), found.mtime(), found.mtime_nsec());
    assert_eq!(facts(&own), facts(&copied));
    assert_eq!(place.run(STAGE, &[&place.file]), there(&[&copy]));
    assert_eq!(fs::metadata(&copy).unwrap().ino(), copied.ino(), "the file was left");
    // A file of the same size with other content.
    fs::write(&copy, vec![7; content().len()]).unwrap();
    assert_eq!(place.run(STAGE, &[&place.file]), there(&[&copy]));
    assert_eq!((fs::read(&copy).unwrap(), place.names()), (content(), vec!["data".to_owned()]));
}

/// Another user could put a file with the same bytes there, and change it later.
#[test]
fn a_file_with_the_same_bytes_and_another_mode_or_owner_is_replaced() {
    let place = Place::new();
    let copy = place.target.join("data");
    fs::write(&copy, content()).unwrap();
    fs::set_permissions(&copy, Permissions::from_mode(0o666)).unwrap();
    assert_eq!(place.run(STAGE, &[&place.file]), there(&[&copy]));
    let own = fs::metadata(&place.file).unwrap();
    assert_eq!(fs::metadata(&copy).unwrap().mode(), own.mode());
    // Only root gives files away.
    if own.uid() == 0 {
        std::os::unix::fs::chown(&copy, Some(65534), None).unwrap();
        assert_eq!(place.run(STAGE, &[&place.file]), there(&[&copy]));
        assert_eq!(fs::metadata(&copy).unwrap().uid(), 0);
    }
}

/// The kernel follows a link before a slash.
#[test]
fn a_link_is_no_target_directory_with_a_slash_either() {
    let place = Place::new();
    let link = place.target.with_file_name("link");
    std::os::unix::fs::symlink(&place.target, &link).unwrap();
    for end in ["", "/", "/."] {
        let target = info(TARGET, text(Path::new(&format!("{}{end}", link.display()))));
        let result = place.storage.carry_out(&order(&[info(STAGE, text(&place.file)), target]), &|| None);
        assert_ne!(failure(&result).0, Status::SUCCESS, "{end:?}");
    }
    assert_eq!(place.names(), [""; 0]);
}

/// Regression: the answer named the file and not the missing directory. An unknown storage, and an end by the time
/// limit, had no reason.
#[test]
fn a_failure_has_its_path_and_advice_as_its_reason() {
    let reason = |result: &OrderResult| {
        let found = result.info.iter().find(|info| info.key.as_str() == "modex.storage.reason");
        found.map(|info| info.value.as_str().unwrap().to_owned()).unwrap_or_default()
    };
    let place = Place::new();
    let carry_out = |infos: &[Info], end| place.storage.carry_out(&order(infos), &|| end);
    let missing = place.target.join("missing");
    for action in [STAGE, MOVE] {
        let result = carry_out(&[info(action, text(&place.file)), info(TARGET, text(&missing))], None);
        assert_eq!(failure(&result), (Status::ERR_NOT_FOUND, Some(text(&place.file))));
        let expected = format!("the target directory {missing:?} ");
        assert!(reason(&result).contains(&expected) && reason(&result).contains("create it"), "{}", reason(&result));
    }
    let file = info(STAGE, text(&missing));
    // Root may write it.
    fs::set_permissions(&place.target, Permissions::from_mode(0o500)).unwrap();
    let unwritable = carry_out(&[info(STAGE, text(&place.file)), info(TARGET, text(&place.target))], None);
    let is_named = || reason(&unwritable).contains(&format!("the target directory {:?} ", place.target));
    assert!(unwritable.status == Status::SUCCESS || is_named(), "{}", reason(&unwritable));
    let result = carry_out(&[file.clone(), info(TARGET, text(&place.target))], None);
    assert!(reason(&result).contains(&format!("the file {missing:?} ")), "{}", reason(&result));
    let result = carry_out(&[file.clone(), info(keys::STORAGE_ID.name(), "tape")], None);
    assert_eq!(result.status, Status::ERR_NOT_FOUND);
    assert!(reason(&result).contains("\"tape\"") && reason(&result).contains("PMIX_STORAGE_ID"), "{}", reason(&result));
    let result = carry_out(&[file, info(TARGET, text(&place.target))], Some(Status::ERR_TIMEOUT));
    assert!(reason(&result).contains("PMIX_TIMEOUT"), "{}", reason(&result));
}

#[test]
fn a_moved_file_has_left_its_old_place() {
    let place = Place::new();
    let moved = place.target.join("data");
    assert_eq!(place.run(MOVE, &[&place.file]), there(&[&moved]));
    assert_eq!((fs::read(&moved).unwrap(), place.file.exists()), (content(), false));
    // The file is there already: nothing is to do, and nothing must be removed.
    assert_eq!(place.run(MOVE, &[&moved]), there(&[&moved]));
    assert_eq!(fs::read(&moved).unwrap(), content());
    // Another name of the same file, and a copy of it.
    fs::hard_link(&moved, &place.file).unwrap();
    assert_eq!(place.run(MOVE, &[&place.file]), there(&[&moved]));
    fs::write(&place.file, content()).unwrap();
    assert_eq!(place.run(MOVE, &[&place.file]), there(&[&moved]));
    assert_eq!((fs::read(&moved).unwrap(), place.file.exists()), (content(), false));
}

/// `/dev/shm` is another file system than that of the temporary directory, on most machines.
#[test]
fn a_file_moves_to_another_file_system_and_a_storage_is_a_target() {
    let place = Place::new();
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let name = memory.path().file_name().unwrap();
    let far = memory.path().join("data");
    let to = |action, file: &Path, key, target: Value| {
        place.storage.carry_out(&order(&[info(action, text(file)), info(key, target)]), &|| None)
    };
    assert_eq!(to(MOVE, &place.file, TARGET, text(memory.path())), there(&[&far]));
    assert_eq!((fs::read(&far).unwrap(), place.file.exists()), (content(), false));
    #[derive(Debug)]
    struct Tier(Text);
    impl Provider for Tier {
        fn systems(&self) -> Vec<StorageSystem> {
            let mut system = StorageSystem::new("tier");
            system.paths = vec![self.0.clone()];
            vec![system]
        }
    }
    let mut storage = Storage::default();
    storage.add(Tier(Text::new(place.target.as_os_str().as_bytes()).unwrap()));
    let by_id = |storage: &Storage, id: &str| {
        storage.carry_out(&order(&[info(STAGE, text(&far)), info(keys::STORAGE_ID.name(), id)]), &|| None)
    };
    let unsupported = (Status::ERR_NOT_SUPPORTED, Some(text(&far)));
    assert_eq!(failure(&by_id(&storage, "tier")), unsupported, "no provider can");
    storage.add(MountTable::new());
    assert_eq!(by_id(&storage, "tier"), there(&[&place.target.join("data")]));
    assert_eq!(by_id(&storage, "none").status, Status::ERR_NOT_FOUND);
    assert!(!place.file.parent().unwrap().join(name).exists());
}

#[test]
fn a_cached_file_was_read() {
    let place = Place::new();
    assert_eq!(place.run(CACHE, &[&place.file]), there(&[&place.file]));
    let missing = place.target.join("missing");
    let result = place.run(CACHE, &[&place.file, &missing, &place.file]);
    assert_eq!(failure(&result), (Status::ERR_NOT_FOUND, Some(text(&missing))));
    assert_eq!(result.info[0], info("modex.storage.files", texts(&[&place.file])), "the first one was read");
}

#[test]
fn links_and_other_kinds_of_files_are_not_touched() {
    let place = Place::new();
    let outside = place.file.with_file_name("outside");
    fs::write(&outside, "kept").unwrap();
    let copy = place.target.join("data");
    symlink(&outside, &copy).unwrap();
    for action in [STAGE, MOVE] {
        assert_eq!(failure(&place.run(action, &[&place.file])), (Status::ERR_EXISTS, Some(text(&place.file))));
    }
    assert_eq!((fs::read(&outside).unwrap(), fs::read(&place.file).unwrap()), (b"kept".to_vec(), content()));
    fs::remove_file(&copy).unwrap();
    // A link to the target's directory may be another one's.
    let link = place.file.with_file_name("link");
    symlink(&place.target, &link).unwrap();
    let by_link = order(&[info(STAGE, text(&place.file)), info(TARGET, text(&link))]);
    assert_eq!(failure(&place.storage.carry_out(&by_link, &|| None)).0, Status::ERR_BAD_PARAM);
    // The link would be removed in place of the file.
    let named = place.file.with_file_name("named");
    symlink(&place.file, &named).unwrap();
    assert_eq!(failure(&place.run(MOVE, &[&named])).0, Status::ERR_BAD_PARAM);
    assert_eq!(place.run(STAGE, &[&named]), there(&[&place.target.join("named")]));
    let fifo = place.file.with_file_name("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for action in [STAGE, MOVE, CACHE] {
        assert_eq!(failure(&place.run(action, &[&fifo])), (Status::ERR_BAD_PARAM, Some(text(&fifo))));
    }
    assert_eq!(place.names(), ["named"]);
    // A file of the kernel tells no size.
    let result = place.run(STAGE, &[Path::new("/proc/self/status")]);
    assert_eq!((failure(&result).0, place.names()), (Status::ERR_RESOURCE_BUSY, vec!["named".to_owned()]));
}

#[test]
fn a_request_that_ends_leaves_no_part_of_a_file() {
    let place = Place::new();
    let stage = order(&[info(STAGE, text(&place.file)), info(TARGET, text(&place.target))]);
    let whole = AtomicUsize::new(0);
    let _ = place.storage.carry_out(&stage, &|| {
        whole.fetch_add(1, Ordering::Relaxed);
        None
    });
    fs::remove_file(place.target.join("data")).unwrap();
    let whole = whole.into_inner();
    assert!(whole > 4, "{whole}");
    for looks in 0..whole {
        let left = AtomicUsize::new(looks);
        let next = |left| if left > 0 { Some(left - 1) } else { None };
        let end = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).err().map(|_| Status::ERR_TIMEOUT);
        let result = place.storage.carry_out(&stage, &end);
        assert_eq!(failure(&result), (Status::ERR_TIMEOUT, Some(text(&place.file))), "{looks}");
        assert_eq!(place.names(), [""; 0], "{looks}");
    }
}

/// A provider changes the file after the first look, as another process may.
#[test]
fn a_file_that_changes_meanwhile_is_not_taken() {
    let place = Place::new();
    let looks = AtomicUsize::new(0);
    let change = || {
        if looks.fetch_add(1, Ordering::Relaxed) == 3 {
            fs::write(&place.file, "short").unwrap();
        }
        None
    };
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let moved = order(&[info(MOVE, text(&place.file)), info(TARGET, text(memory.path()))]);
    let result = place.storage.carry_out(&moved, &change);
    let is_far = fs::metadata(memory.path()).unwrap().dev() != fs::metadata(&place.target).unwrap().dev();
    if is_far {
        assert_eq!(failure(&result).0, Status::ERR_RESOURCE_BUSY);
        assert_eq!(fs::read(&place.file).unwrap(), b"short");
        assert_eq!(fs::read_dir(memory.path()).unwrap().count(), 0);
    }
}

/// Only the size and the time of the content were compared.
#[test]
fn a_file_that_changes_meanwhile_is_not_taken_although_its_time_is_set_again() {
    let place = Place::new();
    let looks = AtomicUsize::new(0);
    let change = || {
        if looks.fetch_add(1, Ordering::Relaxed) == 3 {
            let before = fs::metadata(&place.file).unwrap();
            let inode_time = |found: &fs::Metadata| (found.ctime(), found.ctime_nsec());
            // The kernel's clock has ticks.
            while inode_time(&fs::metadata(&place.file).unwrap()) == inode_time(&before) {
                fs::write(&place.file, vec![0; content().len()]).unwrap();
                let file = fs::File::options().write(true).open(&place.file).unwrap();
                file.set_modified(before.modified().unwrap()).unwrap();
            }
        }
        None
    };
    let staged = order(&[info(STAGE, text(&place.file)), info(TARGET, text(&place.target))]);
    let result = place.storage.carry_out(&staged, &change);
    assert_eq!(failure(&result).0, Status::ERR_RESOURCE_BUSY);
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_request_is_one_action_with_one_target_and_one_name_for_each_file() {
    let [file, same, other] = ["/a/file", "/b/file", "/c/other"].map(Path::new);
    let to = || info(TARGET, "/to");
    let read = |directives: Vec<Info>| Directive::read(&directives).err();
    assert_eq!(read(vec![info(STAGE, texts(&[file, other])), to()]), None);
    let full = |value| vec![info(CACHE, text(file)), info("modex.storage.event", value)];
    assert_eq!([read(full(Value::Status(-3001))), read(full(Value::Int(-3001)))], [None, None]);
    let many = [file; 1025];
    for wrong in [
        vec![info(STAGE, texts(&[file, same])), to()],
        vec![info(STAGE, texts(&[])), to()],
        vec![info(CACHE, texts(&many))],
        vec![info(STAGE, "relative"), to()],
        vec![info(STAGE, text(Path::new("/"))), to()],
        vec![info(STAGE, text(Path::new("/a/.."))), to()],
        vec![info(STAGE, 7_u32), to()],
        vec![info(STAGE, text(file))],
        vec![info(STAGE, text(file)), to(), info(keys::STORAGE_ID.name(), "x")],
        vec![info(CACHE, text(file)), to()],
        vec![info(STAGE, text(file)), to(), to()],
        vec![info(STAGE, text(file)), info(TARGET, "relative")],
        full(7_u64.into()),
        vec![info(CACHE, text(file)), info(keys::TIMEOUT.name(), "soon")],
        vec![info("modex.storage.cancel", 7_u32)],
        vec![info("modex.storage.cancel", "one"), info(keys::JOB_CTRL_ID.name(), "other")],
        vec![info("modex.storage.cancel", true), to()],
    ] {
        assert_eq!(read(wrong.clone()), Some(Status::ERR_BAD_PARAM), "{wrong:?}");
    }
    for strange in [
        vec![info(STAGE, text(file)), to(), info(MOVE, text(other))],
        vec![info(CACHE, text(file)), info("pmix.jctrl.kill", true)],
        vec![info(CACHE, text(file)), info("modex.storage.cancel", true)],
    ] {
        assert_eq!(read(strange.clone()), Some(Status::ERR_NOT_SUPPORTED), "{strange:?}");
    }
    let cancel = |value: Value| Directive::read(&[info("modex.storage.cancel", value)]);
    assert_eq!(cancel(Value::Undefined), Ok(Directive::Cancel(None)));
    let of_a = Ok(Directive::Cancel(Some(Text::from("a"))));
    assert_eq!(cancel("a".into()), of_a);
    // All requests were ended.
    let beside = [info("modex.storage.cancel", true), info(keys::JOB_CTRL_ID.name(), "a")];
    assert_eq!(Directive::read(&beside), of_a);
}

/// The first provider that knows how decides.
#[test]
fn a_provider_of_a_site_comes_first() {
    #[derive(Debug)]
    struct Site;
    impl Provider for Site {
        fn systems(&self) -> Vec<StorageSystem> {
            Vec::new()
        }
        fn carry_out(&self, task: &FileTask<'_>) -> Option<Result<PathBuf, FileError>> {
            let is_own = task.file.starts_with("/tape");
            is_own.then(|| Err(FileError::new(Status::ERR_NOT_AVAILABLE, "the tape is away")))
        }
    }
    let place = Place::new();
    let mut storage = Storage::default();
    storage.add(Site);
    storage.add(MountTable::new());
    let tape = Path::new("/tape/1");
    let result = storage.carry_out(&order(&[info(CACHE, texts(&[&place.file, tape]))]), &|| None);
    assert_eq!(failure(&result), (Status::ERR_NOT_AVAILABLE, Some(text(tape))));
}
