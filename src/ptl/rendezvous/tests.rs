use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::search::search_within;
use super::*;
use crate::proto::Version;
use crate::types::Namespace;

fn contents(address: &str) -> Contents {
    Contents {
        address: address.to_owned(),
        version: Some("5.0.0".to_owned()),
        pid: Some(std::process::id()),
        owner: Some((1000, 1001)),
        is_locked: false,
    }
}

fn announcement(paths: &[&Path], address: &str) -> Announcement {
    let paths = paths.iter().map(|path| path.to_path_buf()).collect();
    let (publicity, seconds) = (Publicity::Owner, 1_795_225_471);
    Announcement { paths, roles: Vec::new(), contents: contents(address), publicity, seconds }
}

fn write(path: &Path) -> Result<Files, RendezvousError> {
    Files::write(&announcement(&[path], ADDRESS))
}

fn names(directory: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

/// A pid that no process has: the kernel gives out at most 2^22.
const NOBODY: u32 = 0x7fff_fff0;
const ADDRESS: &str = "srv.0;tcp4://127.0.0.1:4711";

#[test]
fn rendezvous_files_of_releases_4_and_6_are_read() {
    let six = b"srvns.0;tcp4://127.0.0.1:48077\n6.1.1rc2\n27019\n0:0\nSat Nov 21 01:44:31 2026\n\n";
    let read = Contents::parse(six).unwrap();
    assert_eq!(read.address, "srvns.0;tcp4://127.0.0.1:48077");
    assert_eq!((read.pid, read.owner, read.is_locked), (Some(27019), Some((0, 0)), false));
    assert_eq!(read.peer_version(), Some(Version::new(6, 1, 1)));
    let four = Contents::parse(b"a.b.3;tcp4://127.0.0.1:1\nv4.2.2rc2\n").unwrap();
    assert_eq!((four.peer_version(), four.pid), (Some(Version::new(4, 2, 2)), None));
    assert_eq!(Contents::parse(b"s.0;tcp4://127.0.0.1:1").unwrap().peer_version(), None);
}

#[test]
fn a_rendezvous_file_has_the_usual_lines_and_one_more() {
    let text = Contents { is_locked: true, ..contents(ADDRESS) }.render(1_795_225_471);
    let pid = std::process::id();
    assert_eq!(text, format!("{ADDRESS}\n5.0.0\n{pid}\n1000:1001\nSat Nov 21 01:44:31 2026\n\nflock\n"));
    assert!(contents(ADDRESS).render(951_782_400).contains("\nTue Feb 29 00:00:00 2000\n"));
    assert!(contents(ADDRESS).render(0).contains("\nThu Jan  1 00:00:00 1970\n"));
    assert!(contents(ADDRESS).render(4_102_444_799).contains("\nThu Dec 31 23:59:59 2099\n"));
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    for bytes in [&b""[..], b"\n", b"no address\n", b"a;b;c\n", b"\xff\xfe;\n", b"a\x01;b\n"] {
        assert!(Contents::parse(bytes).is_err(), "{bytes:?}");
    }
    let long = format!("s.0;tcp4://{}\n", "1".repeat(Contents::LINE_BYTES_MAX));
    assert!(Contents::parse(long.as_bytes()).is_err());
    assert!(Contents::parse(&vec![b'\n'; Contents::SIZE_BYTES_MAX + 1]).is_err());
    let odd = Contents::parse(b"s.0;x\nlatest\n-4\nroot:root\n").unwrap();
    assert_eq!((odd.version, odd.pid, odd.owner), (None, None, None));
}

#[test]
fn names_are_those_that_tools_look_for() {
    let names = Names::new("node7").unwrap();
    assert_eq!(names.system(), "pmix.sys.node7");
    assert_eq!(names.scheduler(), "pmix.sched.node7");
    assert_eq!(names.controller(), "pmix.sysctrlr.node7");
    assert_eq!(names.session(), "pmix.node7.tool");
    assert_eq!(names.of_pid(12), "pmix.node7.tool.12");
    assert_eq!(names.of_namespace(&Namespace::new("a.b").unwrap()).unwrap(), "pmix.node7.tool.a.b");
    assert!(names.is_tool_file("pmix.node7.tool") && names.is_tool_file("pmix.node7.tool.9"));
    assert!(!names.is_tool_file("pmix.node7.tools") && !names.is_tool_file("pmix.node70.tool"));
    assert!(matches!(Names::new("a/b"), Err(RendezvousError::Name { .. })));
    // Regression: such a server could not be reached, and left its files.
    assert!(matches!(names.of_namespace(&Namespace::new("a;b").unwrap()), Err(RendezvousError::Name { .. })));
    assert!(matches!(names.of_namespace(&Namespace::new("../x").unwrap()), Err(RendezvousError::Name { .. })));
}

#[test]
fn a_servers_files_are_there_as_long_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("pmix.sys.n"), directory.path().join("deep/er/pmix.n.tool"));
    let files = Files::write(&announcement(&[&first, &second], ADDRESS)).unwrap();
    assert_eq!(files.paths().collect::<Vec<_>>(), [&first, &second]);
    let found = read(&first, Belief::OwnAndRoot).unwrap();
    assert_eq!(found.contents, Contents { is_locked: true, ..contents(ADDRESS) });
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&first), mode(second.parent().unwrap())), (0o600, 0o700));
    drop(files);
    assert!(read(&first, Belief::OwnAndRoot).unwrap_err().is_absent());
    assert_eq!(names(directory.path()), [directory.path().join("deep")]);
}

#[test]
fn everybody_may_read_the_files_of_a_server_that_wants_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/pmix.sys.n");
    let announcement = Announcement { publicity: Publicity::Everybody, ..announcement(&[&path], ADDRESS) };
    let files = Files::write(&announcement).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    drop(files);
}

/// Regression: the server of a required role started without it, and no tool found it.
#[test]
fn a_required_role_needs_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let (role, other) = (directory.path().join("pmix.sys.n"), directory.path().join("pmix.n.tool"));
    fs::create_dir(&role).unwrap();
    let of_role =
        |is_required| Announcement { roles: vec![(role.clone(), is_required)], ..announcement(&[&other], ADDRESS) };
    let error = Files::write(&of_role(true)).unwrap_err();
    assert!(error.is_in_the_way(), "{error}");
    assert_eq!(names(directory.path()), std::slice::from_ref(&role));
    let files = Files::write(&of_role(false)).unwrap();
    assert_eq!(files.paths().collect::<Vec<_>>(), [other.as_path()]);
}

#[test]
fn a_name_in_use_stays_its_servers_and_nothing_else_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pmix.sys.n");
    let other = directory.path().join("pmix.n.tool");
    let living = write(&path).unwrap();
    let refused = Files::write(&announcement(&[&other, &path], "other.0;tcp4://127.0.0.1:1")).unwrap_err();
    assert!(matches!(refused, RendezvousError::Occupied { pid, .. } if pid == Some(std::process::id())));
    assert_eq!(read(&path, Belief::OwnAndRoot).unwrap().contents.address, ADDRESS);
    assert_eq!(names(directory.path()), std::slice::from_ref(&path));
    drop(living);
    assert_eq!(names(directory.path()), [] as [PathBuf; 0]);
}

#[test]
fn the_file_of_a_killed_server_is_recognised_and_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pmix.sys.n");
    // A modex file whose lock the kernel took back, and a stock server's file whose process has ended.
    let ours = Contents { is_locked: true, ..contents("dead.0;tcp4://127.0.0.1:1") };
    let stock = Contents { pid: Some(NOBODY), ..contents("dead.0;tcp4://127.0.0.1:1") };
    for left in [ours, stock] {
        fs::write(&path, left.render(0)).unwrap();
        match left.is_locked {
            true => assert!(matches!(read(&path, Belief::OwnAndRoot), Err(RendezvousError::Abandoned { .. }))),
            // It may live where this process can't see it.
            false => assert!(read(&path, Belief::OwnAndRoot).unwrap().is_doubtful),
        }
        let other = write(&directory.path().join("pmix.n.tool")).unwrap();
        let found = search(directory.path(), Belief::OwnAndRoot, |_| true);
        let addresses: Vec<_> = found.into_iter().map(|found| (found.contents.address, found.is_doubtful)).collect();
        let doubtful = (!left.is_locked).then(|| (left.address.clone(), true));
        // A living server comes before what may be dead.
        assert_eq!(addresses, [(ADDRESS.to_owned(), false)].into_iter().chain(doubtful).collect::<Vec<_>>());
        drop(other);
        let files = write(&path).unwrap();
        assert_eq!(read(&path, Belief::OwnAndRoot).unwrap().contents.address, ADDRESS);
        drop(files);
        assert_eq!(names(directory.path()), [] as [PathBuf; 0]);
    }
}

#[test]
fn a_stock_server_that_lives_keeps_its_name_without_a_lock() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pmix.sys.n");
    fs::write(&path, contents("stock.0;tcp4://127.0.0.1:1").render(0)).unwrap();
    assert!(matches!(write(&path), Err(RendezvousError::Occupied { .. })));
    assert_eq!(read(&path, Belief::OwnAndRoot).unwrap().contents.address, "stock.0;tcp4://127.0.0.1:1");
}

/// Regression: a file of which its killed writer had written a part, or nothing, kept the next server from starting.
#[test]
fn a_file_that_names_no_process_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pmix.sched.n");
    for left in ["", "testns.0", "testns.0;tcp4://127.0.0.1:1\n", "testns.0;tcp4://127.0.0.1:1\n6.1.0\n0\n"] {
        fs::write(&path, left).unwrap();
        let files = write(&path).unwrap();
        assert_eq!(files.paths().collect::<Vec<_>>(), [path.as_path()], "{left:?}");
        assert_eq!(read(&path, Belief::OwnAndRoot).unwrap().contents.address, ADDRESS);
    }
    // A user may have written a file with another name.
    let path = directory.path().join("address");
    fs::write(&path, "testns.0;tcp4://127.0.0.1:1\n").unwrap();
    assert!(matches!(write(&path), Err(RendezvousError::Occupied { pid: None, .. })));
}

#[test]
fn a_forked_copy_removes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pmix.sys.n");
    let mut copy = write(&path).unwrap();
    copy.forget_creator();
    drop(copy);
    assert!(path.exists());
}

#[test]
fn a_file_that_somebody_else_put_there_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pmix.sys.n");
    let files = write(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "theirs").unwrap();
    drop(files);
    assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
}

#[test]
fn a_file_that_a_server_of_release_4_wrote_over_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pmix.sys.n");
    let files = write(&path).unwrap();
    let theirs = contents("stock.0;tcp4://127.0.0.1:1").render(0);
    fs::write(&path, &theirs).unwrap();
    drop(files);
    assert_eq!(fs::read_to_string(&path).unwrap(), theirs);
}

#[test]
fn a_file_that_others_may_write_is_not_believed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pmix.sys.n");
    fs::write(&path, contents(ADDRESS).render(0)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(read(&path, Belief::OwnAndRoot), Err(RendezvousError::Writable { .. })));
}

#[test]
fn odd_files_are_errors_and_hold_nothing_up() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(at("directory")).unwrap();
    fs::write(at("large"), vec![b'x'; 3 * Contents::SIZE_BYTES_MAX]).unwrap();
    fs::write(at("empty"), "").unwrap();
    std::os::unix::fs::symlink(at("loop"), at("loop")).unwrap();
    assert!(matches!(read(&at("pipe"), Belief::OwnAndRoot), Err(RendezvousError::NotAFile { .. })));
    assert!(matches!(read(&at("directory"), Belief::OwnAndRoot), Err(RendezvousError::NotAFile { .. })));
    assert!(matches!(read(&at("large"), Belief::OwnAndRoot), Err(RendezvousError::TooLarge { .. })));
    assert!(matches!(read(&at("empty"), Belief::OwnAndRoot), Err(RendezvousError::Contents { .. })));
    assert!(matches!(read(&at("loop"), Belief::OwnAndRoot), Err(RendezvousError::Io { .. })));
    assert!(read(&at("missing"), Belief::OwnAndRoot).unwrap_err().is_absent());
    assert_eq!(search(directory.path(), Belief::OwnAndRoot, |_| true), []);
}

/// Regression: any user can put a file into `/tmp`. A server whose name was occupied so did not start.
#[test]
fn a_server_starts_beside_unreadable_files_and_leaves_them_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("empty"), "").unwrap();
    fs::write(at("pmix.huge"), vec![b'x'; Contents::SIZE_BYTES_MAX + 1]).unwrap();
    fs::create_dir(at("directory")).unwrap();
    nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink(at("empty"), at("link")).unwrap();
    let paths = ["empty", "pmix.huge", "directory", "pipe", "link", "free", "free"].map(at);
    let files = Files::write(&announcement(&paths.each_ref().map(PathBuf::as_path), ADDRESS)).unwrap();
    assert_eq!(files.paths().collect::<Vec<_>>(), [at("free")]);
    assert_eq!(fs::read(at("empty")).unwrap(), b"");
    let path = at("theirs");
    assert!(RendezvousError::ForeignOwner { path: path.clone(), owner: 1, ours: 2 }.is_in_the_way());
    assert!(!RendezvousError::Occupied { path, pid: None }.is_in_the_way());
}

/// Regression: a killed server's files stayed until a server with the same name came. The next server removes a file
/// only if this user owns it, and it claims a lock it does not have.
#[test]
fn only_files_that_lost_their_lock_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let names_here = Names::new("n").unwrap();
    let left = |is_locked| Contents { is_locked, pid: Some(NOBODY), ..contents("dead.0;tcp4://127.0.0.1:1") }.render(0);
    for name in ["pmix.n.tool.dead", "pmix.m.tool.dead", "victim"] {
        fs::write(at(name), left(true)).unwrap();
    }
    fs::write(at("pmix.n.tool.unlocked"), left(false)).unwrap();
    fs::write(at("pmix.n.tool.noise"), "noise").unwrap();
    std::os::unix::fs::symlink(at("victim"), at("pmix.n.tool.link")).unwrap();
    nix::unistd::mkfifo(&at("pmix.n.tool.pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let alive = write(&at("pmix.n.tool.alive")).unwrap();
    fs::write(at("pmix.n.tool.read"), left(true)).unwrap();
    let reader = fs::File::open(at("pmix.n.tool.read")).unwrap();
    reader.lock_shared().unwrap();
    let before = names(directory.path());
    Files::remove_abandoned(directory.path(), |name| names_here.is_tool_file(name));
    let after = names(directory.path());
    let removed: Vec<_> = before.into_iter().filter(|path| !after.contains(path)).collect();
    assert_eq!(removed, [at("pmix.n.tool.dead")]);
    drop(alive);
}

/// Any reader of a dead server's file can lock it.
#[test]
fn a_readers_lock_on_a_dead_servers_file_keeps_no_server_from_starting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pmix.sys.n");
    let left = Contents { is_locked: true, pid: Some(NOBODY), ..contents("dead.0;tcp4://127.0.0.1:1") };
    fs::write(&path, left.render(0)).unwrap();
    let reader = fs::File::open(&path).unwrap();
    reader.lock().unwrap();
    // A server in another pid namespace would look the same: its name stays its own.
    assert_eq!(write(&path).unwrap().paths().count(), 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), left.render(0));
    reader.unlock().unwrap();
    reader.lock_shared().unwrap();
    let files = write(&path).unwrap();
    assert_eq!(
        (files.paths().count(), read(&path, Belief::OwnAndRoot).unwrap().contents.address),
        (1, ADDRESS.to_owned())
    );
}

#[test]
fn a_search_finds_each_server_once_wherever_its_files_are() {
    let directory = tempfile::tempdir().unwrap();
    let names = Names::new("n").unwrap();
    let at = |name: &str| directory.path().join(name);
    let (shallow, deep, other) = (at("s/pmix.n.tool.7"), at("s/t/pmix.n.tool"), at("u/pmix.n.tool.8"));
    let one = Files::write(&announcement(&[&deep, &shallow], "one.0;tcp4://127.0.0.1:1")).unwrap();
    let two = Files::write(&announcement(&[&other], "two.0;tcp4://127.0.0.1:2")).unwrap();
    fs::write(at("pmix.m.tool"), contents("elsewhere.0;tcp4://127.0.0.1:3").render(0)).unwrap();
    let paths = |found: Vec<Found>| found.into_iter().map(|found| found.path).collect::<Vec<_>>();
    assert_eq!(
        paths(search(directory.path(), Belief::OwnAndRoot, |name| names.is_tool_file(name))),
        [shallow.clone(), other]
    );
    assert_eq!(paths(search(directory.path(), Belief::OwnAndRoot, |name| name == names.of_pid(7))), [shallow]);
    assert_eq!(paths(search(&at("nowhere"), Belief::OwnAndRoot, |_| true)), [] as [PathBuf; 0]);
    drop((one, two));
}

/// Regression: another user's full directories ended the search before this user's file. A link of another user,
/// perhaps to a device, was opened.
#[test]
fn a_search_follows_no_link_and_leaves_directories_of_others_for_later() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let files = Files::write(&announcement(&[&at("own/pmix.n.tool")], ADDRESS)).unwrap();
    fs::create_dir(at("links")).unwrap();
    std::os::unix::fs::symlink(at("own/pmix.n.tool"), at("links/pmix.n.tool")).unwrap();
    let found = |path: PathBuf, belief| search(&path, belief, |name| name == "pmix.n.tool").len();
    assert_eq!([at("own"), at("links")].map(|path| found(path, Belief::Everybody)), [1, 0]);
    if !nix::unistd::geteuid().is_root() {
        eprintln!("only root can give a directory to another user");
        return;
    }
    fs::create_dir(at("theirs")).unwrap();
    (0..9).for_each(|number| fs::write(at("theirs").join(number.to_string()), "").unwrap());
    (0..99).for_each(|number| fs::write(at(&number.to_string()), "").unwrap());
    nix::unistd::chown(&at("theirs"), Some(nix::unistd::Uid::from_raw(12_345)), None).unwrap();
    let found_within = |entries_max| {
        search_within(directory.path(), Belief::OwnAndRoot, |name| name == "pmix.n.tool", entries_max).len()
    };
    // Three directories, a link and a file are this user's.
    assert_eq!([[3, 4], [5, 4]].map(found_within), [0, 1]);
    let files_of_root = Files::write(&announcement(&[&at("theirs/pmix.n.tool")], "two.0;tcp4://127.0.0.1:2")).unwrap();
    assert_eq!([[5, 4], [5, 10]].map(found_within)[1], 2);
    drop((files, files_of_root));
}

#[test]
fn servers_that_start_side_by_side_share_a_name_one_after_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pmix.sys.n");
    fs::write(&path, Contents { is_locked: true, ..contents("dead.0;x") }.render(0)).unwrap();
    let written: Vec<bool> = std::thread::scope(|scope| {
        let start = || (0..50).map(|_| write(&path)).map(|written| written.is_ok()).collect::<Vec<bool>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(written.iter().any(|&is_written| is_written));
    assert_eq!(names(directory.path()), [] as [PathBuf; 0]);
}

proptest! {
    #[test]
    fn no_bytes_panic_and_what_is_read_is_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(contents) = Contents::parse(&bytes) {
            prop_assert!(contents.address.len() <= Contents::LINE_BYTES_MAX);
            prop_assert!(!contents.address.contains(char::is_control));
        }
    }

    #[test]
    fn lines_of_all_kinds_are_read(lines in proptest::collection::vec("[ -~]{0,40}", 0..12)) {
        let _ = Contents::parse(lines.join("\n").as_bytes());
    }

    #[test]
    fn written_contents_are_read_back(
        namespace in "[a-z.@-]{1,40}", port in 1_u16.., pid in 1..u32::MAX, owner in any::<(u32, u32)>(),
        is_locked in any::<bool>(), seconds in 0_u64..1 << 40,
    ) {
        let contents = Contents {
            address: format!("{namespace}.0;tcp4://127.0.0.1:{port}"),
            version: Some("5.0.0".to_owned()),
            pid: Some(pid),
            owner: Some(owner),
            is_locked,
        };
        prop_assert_eq!(Contents::parse(contents.render(seconds).as_bytes()), Ok(contents));
    }
}

/// Regression: the report was opened and truncated through any link. A user with a link in a shared directory chose the
/// overwritten file of the server's user. A report is a new file that takes the name.
#[test]
fn a_report_follows_no_link_and_writes_into_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let [victim, link, plain, read] = ["victim", "link", "plain", "hard"].map(|name| directory.path().join(name));
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    fs::write(&plain, "an older report").unwrap();
    fs::hard_link(&plain, &read).unwrap();
    for path in [&link, &plain] {
        AddressReport::File(path.clone()).write(&contents(ADDRESS)).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), format!("{ADDRESS}\nv5.0.0\n"));
        assert!(path.symlink_metadata().unwrap().is_file());
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(fs::read_to_string(&read).unwrap(), "an older report", "another file has its name");
    assert_eq!(names(directory.path()).len(), 4, "nothing else is left");
    let error = AddressReport::File(directory.path().to_owned()).write(&contents(ADDRESS)).unwrap_err();
    assert!(matches!(error, RendezvousError::Io { .. }), "{error}");
    AddressReport::File("/dev/null".into()).write(&contents(ADDRESS)).unwrap();
    assert!(!Path::new("/dev/null").symlink_metadata().unwrap().is_file(), "devices are written to");
    assert_eq!(["-", "/dev/stderr"].map(AddressReport::parse), [AddressReport::Output, AddressReport::Error]);
}
