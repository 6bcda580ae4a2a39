//! Files that processes want removed at their end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::harness::*;
use crate::gds::model::MapStore;
use crate::proto::{JobControl, Reply, Request, Service};
use crate::server::{
    Capabilities, Cleanup, DirectoryRules, HostCall, Limits, Output, RegisterClient, ServerConfig, ToolPolicy, Upcall,
};
use crate::types::{Info, ProcId, Rank, Status};

fn control(targets: &[ProcId], directives: &[Info]) -> Request {
    Request::from(JobControl { targets: targets.to_vec(), directives: directives.to_vec() })
}

fn files(list: &str) -> Info {
    Info::new(key("pmix.reg.cleanup"), list)
}

fn directories(list: &str) -> Info {
    Info::new(key("pmix.reg.cleanupdir"), list)
}

fn ignored(list: &str) -> Info {
    Info::new(key("pmix.clnup.ignore"), list)
}

/// A server of the clients' own user.
fn own(capabilities: Capabilities, limits: Limits) -> Rig {
    let tools = ToolPolicy { own_uid: OWNER.uid, ..ToolPolicy::default() };
    Rig::with(ServerConfig { capabilities, tools, limits, ..ServerConfig::default() }, MapStore::new())
}

fn set<const N: usize>(paths: [&str; N]) -> BTreeSet<String> {
    paths.map(str::to_owned).into()
}

/// The removals among the outputs.
fn cleanups(outputs: &[Output]) -> Vec<Cleanup> {
    let cleanup = |output: &Output| match output {
        Output::Cleanup(cleanup) => Some(cleanup.clone()),
        _ => None,
    };
    outputs.iter().filter_map(cleanup).collect()
}

fn removed(outputs: &[Output]) -> Vec<String> {
    let sets = |cleanup: Cleanup| [cleanup.files].into_iter().chain(cleanup.directories.into_values());
    cleanups(outputs).into_iter().flat_map(sets).flatten().collect()
}

/// Cleanup directives went to the host with the rest. A host that did not know them made their registration a false
/// success, and aborted processes left their files.
#[test]
fn the_server_removes_registered_files_of_a_lost_process_without_the_host() {
    let mut rig = own(Capabilities::JOB_CONTROL, Limits::default());
    let peers = rig.job(2, 2);
    let directives = [files("/a/x,/a/y"), directories("/d/"), flag("pmix.clnup.recurse"), ignored("/d/keep")];
    let outputs = rig.request(peers[0], control(&[proc(0)], &directives));
    assert_eq!(replies(&outputs), [(peers[0], Reply::Infos(Vec::new()))]);
    assert_eq!(upcalls(&outputs), []);
    assert_eq!(cleanups(&rig.lose(peers[1])), []);
    let expected = Cleanup {
        uid: OWNER.uid,
        files: set(["/a/x", "/a/y"]),
        directories: [(DirectoryRules { is_recursive: true, ..DirectoryRules::default() }, set(["/d"]))].into(),
        ignored: set(["/d/keep"]),
        ignored_by_job: Arc::default(),
    };
    assert_eq!(cleanups(&rig.lose(peers[0])), [expected]);
    assert_eq!(rig.server.take_cleanups(), []);
}

#[test]
fn one_that_finalized_has_ended_when_the_host_says_so_and_a_job_when_it_goes() {
    let mut rig = own(Capabilities::empty(), Limits::default());
    let peers = rig.job(2, 2);
    rig.request(peers[0], control(&[proc(0)], &[files("/one")]));
    rig.request(peers[0], control(&[], &[files("/all")]));
    rig.request(peers[1], control(&[proc(1)], &[files("/other")]));
    rig.request(peers[0], Request::Finalize);
    assert_eq!(cleanups(&rig.lose(peers[0])), []);
    assert_eq!(removed(&rig.host(HostCall::DeregisterClient(proc(0)))), ["/one"]);
    assert_eq!(removed(&rig.host(HostCall::DeregisterNamespace(namespace("job")))), ["/other", "/all"]);
}

#[test]
fn directives_other_than_cleanups_go_to_the_host() {
    let mut rig = own(Capabilities::JOB_CONTROL, Limits::default());
    let peer = rig.job(1, 1)[0];
    let (_, call) = upcall(&rig.request(peer, control(&[proc(0)], &[files("/f"), flag("pmix.jctrl.kill")])));
    let Upcall::Service(_, Service::JobControl(asked)) = call else { panic!("{call:?}") };
    let names: Vec<&str> = asked.directives.iter().map(|info| info.key.as_str()).collect();
    assert_eq!(names, ["pmix.jctrl.kill", "pmix.euid", "pmix.egid"]);
    assert_eq!(rig.server.take_cleanups().len(), 1);
}

#[test]
fn invalid_cleanups_and_cleanups_for_other_users_are_refused() {
    let mut rig = own(Capabilities::JOB_CONTROL, Limits::default());
    let peer = rig.job(2, 2)[0];
    let root = ProcId::new(namespace("root"), 0);
    rig.register("root", Some(1), Some(1));
    rig.host(HostCall::RegisterClient(RegisterClient { proc: root.clone(), uid: 0, gid: 0, object: 0 }));
    rig.register("nobody", Some(1), Some(1));
    let unknown = ProcId { namespace: namespace("nobody"), rank: Rank::Wildcard };
    rig.request(peer, control(&[proc(0)], &[ignored("/kept")]));
    let [everything, nobody] = [Rank::Wildcard, Rank::Undefined].map(|rank| ProcId { rank, ..root.clone() });
    let cases = [
        (proc(0), files("relative"), Status::ERR_BAD_PARAM),
        (proc(0), files("/a/../etc"), Status::ERR_BAD_PARAM),
        (proc(0), directories("/"), Status::ERR_BAD_PARAM),
        (proc(0), directories(","), Status::ERR_BAD_PARAM),
        (proc(0), ignored(""), Status::ERR_BAD_PARAM),
        (proc(0), Info::new(key("pmix.reg.cleanup"), 7u32), Status::ERR_BAD_PARAM),
        (proc(0), files("/kept"), Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES),
        (root, files("/f"), Status::ERR_NO_PERMISSIONS),
        (everything, files("/f"), Status::ERR_NO_PERMISSIONS),
        (nobody, files("/f"), Status::ERR_BAD_PARAM),
        (proc(9), files("/f"), Status::ERR_NOT_FOUND),
        (unknown, files("/f"), Status::ERR_NOT_FOUND),
        (ProcId::new(namespace("elsewhere"), 0), files("/f"), Status::ERR_NOT_FOUND),
    ];
    for (target, directive, expected) in cases {
        let outputs = rig.request(peer, control(&[target], std::slice::from_ref(&directive)));
        assert_eq!(statuses(&outputs), [(peer, expected)], "{directive:?}");
    }
    assert_eq!(rig.server.take_cleanups(), []);
}

/// A server of root removed files in the name of any user. Only the file permissions of that user limited it.
#[test]
fn cleanups_of_another_user_go_to_the_host() {
    let capabilities = Capabilities::JOB_CONTROL;
    let mut rig = Rig::of_root(capabilities);
    let peer = rig.job(1, 1)[0];
    let directives = [files("/f"), directories("relative"), flag("pmix.clnup.recurse")];
    let (_, call) = upcall(&rig.request(peer, control(&[proc(0)], &directives)));
    let Upcall::Service(_, Service::JobControl(asked)) = call else { panic!("{call:?}") };
    assert_eq!(asked.directives[..3], directives);
    assert_eq!(cleanups(&rig.lose(peer)), []);
    assert_eq!(rig.server.take_cleanups(), []);
    let mut rig = Rig::of_root(Capabilities::empty());
    let peer = rig.job(1, 1)[0];
    let outputs = rig.request(peer, control(&[proc(0)], &[files("/f")]));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_NOT_SUPPORTED)]);
}

/// Only the first directive of each kind was read, and all were removed from the request.
#[test]
fn every_directive_of_a_kind_is_read_and_slashes_are_not_counted() {
    let mut rig = own(Capabilities::empty(), Limits::default());
    let peer = rig.job(1, 1)[0];
    let directives =
        [files("/b"), files("//a//"), directories("/d"), directories("/e"), ignored("/d//x"), ignored("/y")];
    assert_eq!(replies(&rig.request(peer, control(&[proc(0)], &directives))), [(peer, Reply::Infos(Vec::new()))]);
    let expected = Cleanup {
        uid: OWNER.uid,
        files: set(["/a", "/b"]),
        directories: [(DirectoryRules::default(), set(["/d", "/e"]))].into(),
        ignored: set(["/d/x", "/y"]),
        ignored_by_job: Arc::default(),
    };
    assert_eq!(cleanups(&rig.lose(peer)), [expected]);
}

/// Contradictions were searched only among requests for the same target.
#[test]
fn files_kept_for_a_job_are_kept_for_its_processes_and_vice_versa() {
    let mut rig = own(Capabilities::empty(), Limits::default());
    let peers = rig.job(2, 2);
    rig.request(peers[0], control(&[], &[ignored("/d/keep")]));
    rig.request(peers[0], control(&[proc(0)], &[ignored("/mine"), directories("/d")]));
    let refused = [
        (vec![proc(0)], files("/d/keep")),
        (Vec::new(), files("/mine")),
        (Vec::new(), ignored("/d")),
        (vec![proc(1), proc(0)], files("/mine")),
    ];
    for (targets, directive) in refused {
        let outputs = rig.request(peers[1], control(&targets, std::slice::from_ref(&directive)));
        assert_eq!(statuses(&outputs), [(peers[1], Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES)], "{directive:?}");
    }
    // Ranks do not stand for each other.
    let outputs = rig.request(peers[1], control(&[proc(1)], &[files("/mine")]));
    assert_eq!(replies(&outputs), [(peers[1], Reply::Infos(Vec::new()))]);
    let left = cleanups(&rig.lose(peers[0]));
    assert!(left[0].keeps("/d/keep") && left[0].keeps("/mine") && !left[0].keeps("/d"));
    assert_eq!(removed(&rig.lose(peers[1])), ["/mine"]);
}

/// Paths were compared before they were counted, each with each.
#[test]
fn too_many_paths_or_bytes_are_refused_before_anything_is_compared() {
    let limits = Limits { cleanup_paths_max: 3, cleanup_bytes_max: 12, ..Limits::default() };
    let mut rig = own(Capabilities::empty(), limits);
    let peer = rig.job(4, 1)[0];
    let cases = [
        // These also contradict themselves, or have an error further on.
        (vec![proc(0)], vec![files("/a,/b"), ignored("/a,/b")]),
        (vec![proc(0)], vec![files("/a,/b,/c,/d,relative")]),
        (vec![proc(0)], vec![files("/a"), files("/a"), files("/a"), files("/a")]),
        (vec![proc(0)], vec![files("/123456789abc")]),
        (vec![proc(0), proc(1)], vec![files("/a,/b")]),
        (vec![proc(0); 4], vec![files("/a")]),
    ];
    for (targets, directives) in cases {
        let outputs = rig.request(peer, control(&targets, &directives));
        assert_eq!(statuses(&outputs), [(peer, Status::ERR_OUT_OF_RESOURCE)], "{directives:?}");
    }
    rig.request(peer, control(&[proc(0), proc(0)], &[files("/a,/b,/c")]));
    assert_eq!(removed(&rig.lose(peer)), ["/a", "/b", "/c"]);
}

/// One process could use up the bound; the files of the others stayed.
#[test]
fn one_process_has_a_share_of_the_paths_until_they_are_due() {
    let limits = Limits { cleanup_paths_per_process_max: 2, cleanup_bytes_per_process_max: 6, ..Limits::default() };
    let mut rig = own(Capabilities::empty(), limits);
    let peers = rig.job(4, 2);
    let register = |rig: &mut Rig, peer, target, list: &str| {
        matches!(
            replies(&rig.request(peer, control(&[proc(target)], &[files(list)]))).as_slice(),
            [(_, Reply::Infos(_))]
        )
    };
    assert!(!register(&mut rig, peers[0], 0, "/a,/b,/c"), "paths");
    assert!(!register(&mut rig, peers[0], 0, "/a,/4567"), "bytes");
    assert!(register(&mut rig, peers[0], 0, "/a") && register(&mut rig, peers[0], 1, "/b"));
    assert!(!register(&mut rig, peers[0], 1, "/c"));
    assert!(register(&mut rig, peers[1], 1, "/c,/d"), "another's share is its own");
    assert_eq!(removed(&rig.lose(peers[1])), ["/b", "/c", "/d"]);
    assert!(register(&mut rig, peers[0], 0, "/e") && !register(&mut rig, peers[0], 0, "/f"));
}

/// Each request that waited for a process was a separate removal with a copy of all kept paths, so memory grew with the
/// square of their number.
#[test]
fn many_requests_are_one_order_and_make_room_when_it_is_given() {
    let limits = Limits { cleanup_paths_max: 42, ..Limits::default() };
    let mut rig = own(Capabilities::empty(), limits);
    let peer = rig.job(1, 1)[0];
    for number in 0..20 {
        // Repeated paths count once.
        for _ in 0..2 {
            let directives = [files(&format!("/f{number}")), ignored(&format!("/i{number}"))];
            let outputs = rig.request(peer, control(&[proc(0)], &directives));
            assert_eq!(replies(&outputs), [(peer, Reply::Infos(Vec::new()))]);
        }
    }
    let outputs = rig.request(peer, control(&[], &[files("/g,/h,/i")]));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_OUT_OF_RESOURCE)]);
    let job = cleanups(&rig.lose(peer));
    assert_eq!(job.iter().map(|order| (order.files.len(), order.ignored.len())).collect::<Vec<_>>(), [(20, 20)]);
    let peer = rig.join(&proc(0), SOCKET);
    let many: Vec<String> = (0..42).map(|number| format!("/n{number}")).collect();
    let outputs = rig.request(peer, control(&[proc(0)], &[files(&many.join(","))]));
    assert_eq!(replies(&outputs), [(peer, Reply::Infos(Vec::new()))]);
}

#[test]
fn all_of_a_job_is_one_order_and_what_one_request_keeps_another_does_not_remove() {
    let mut rig = own(Capabilities::empty(), Limits::default());
    let peers = rig.job(2, 2);
    let rules = |is_recursive| DirectoryRules { is_recursive, ..DirectoryRules::default() };
    rig.request(peers[0], control(&[proc(0)], &[directories("/d")]));
    rig.request(peers[0], control(&[proc(0)], &[directories("/e"), flag("pmix.clnup.recurse")]));
    rig.request(peers[1], control(&[proc(1)], &[ignored("/d/keep")]));
    let expected = Cleanup {
        uid: OWNER.uid,
        files: set([]),
        directories: BTreeMap::from([(rules(false), set(["/d"])), (rules(true), set(["/e"]))]),
        ignored: set(["/d/keep"]),
        ignored_by_job: Arc::default(),
    };
    assert_eq!(rig.server.take_cleanups(), [expected]);
    assert_eq!(rig.server.take_cleanups(), []);
}
