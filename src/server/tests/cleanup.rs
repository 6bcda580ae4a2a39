//! What processes want removed when they end.

use super::harness::*;
use crate::gds::model::MapStore;
use crate::proto::{JobControl, Reply, Request};
use crate::server::{Capabilities, Cleanup, Config, Credentials, HostCall, Limits, Output, RegisterClient, Upcall};
use crate::types::{Info, ProcId, Rank, Status};

fn control(targets: &[ProcId], directives: &[Info]) -> Request {
    Request::JobControl(JobControl { targets: targets.to_vec(), directives: directives.to_vec() })
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

/// What is to be removed, by the outputs.
fn cleanups(outputs: &[Output]) -> Vec<Cleanup> {
    let cleanup = |output: &Output| match output {
        Output::Cleanup(cleanup) => Some(cleanup.clone()),
        _ => None,
    };
    outputs.iter().filter_map(cleanup).collect()
}

fn removed(outputs: &[Output]) -> Vec<String> {
    cleanups(outputs).into_iter().flat_map(|cleanup| [cleanup.files, cleanup.directories].concat()).collect()
}

/// Cleanup directives were passed up with the rest: a host that did not know them made their registration a false
/// success, and aborted processes left their files.
#[test]
fn what_a_process_registers_is_removed_when_it_breaks_off_without_asking_the_host() {
    let mut rig = Rig::new(Capabilities::JOB_CONTROL);
    let peers = rig.job(2, 2);
    let directives = [files("/a/x,/a/y"), directories("/d/"), flag("pmix.clnup.recurse"), ignored("/d/keep")];
    let outputs = rig.request(peers[0], control(&[proc(0)], &directives));
    assert_eq!(replies(&outputs), [(peers[0], Reply::Infos(Vec::new()))]);
    assert_eq!(upcalls(&outputs), []);
    assert_eq!(cleanups(&rig.lose(peers[1])), []);
    let expected = Cleanup {
        owner: OWNER,
        files: vec!["/a/x".into(), "/a/y".into()],
        directories: vec!["/d".into()],
        ignored: vec!["/d/keep".into()],
        is_recursive: true,
        only_empty: false,
        leaves_top: false,
    };
    assert_eq!(cleanups(&rig.lose(peers[0])), [expected]);
    assert_eq!(rig.server.take_cleanups(), []);
}

#[test]
fn one_that_finalized_has_ended_when_the_host_says_so_and_a_job_when_it_goes() {
    let mut rig = Rig::new(Capabilities::empty());
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
fn what_else_was_asked_for_goes_to_the_host() {
    let mut rig = Rig::new(Capabilities::JOB_CONTROL);
    let peer = rig.job(1, 1)[0];
    let (_, call) = upcall(&rig.request(peer, control(&[proc(0)], &[files("/f"), flag("pmix.jctrl.kill")])));
    let Upcall::JobControl(asked) = call else { panic!("{call:?}") };
    let names: Vec<&str> = asked.directives.iter().map(|info| info.key.as_str()).collect();
    assert_eq!(names, ["pmix.jctrl.kill", "pmix.euid", "pmix.egid"]);
    assert_eq!(rig.server.take_cleanups().len(), 1);
}

#[test]
fn what_makes_no_sense_or_concerns_others_is_refused() {
    let mut rig = Rig::new(Capabilities::JOB_CONTROL);
    let peer = rig.job(2, 2)[0];
    let root = ProcId::new(namespace("root"), 0);
    rig.register("root", Some(1), Some(1));
    rig.host(HostCall::RegisterClient(RegisterClient { proc: root.clone(), uid: 0, gid: 0, object: 0 }));
    rig.request(peer, control(&[proc(0)], &[ignored("/kept")]));
    let [everything, nobody] = [Rank::Wildcard, Rank::Undefined].map(|rank| ProcId { rank, ..root.clone() });
    let cases = [
        (proc(0), files("relative"), Status::ERR_BAD_PARAM),
        (proc(0), files("/a/../etc"), Status::ERR_BAD_PARAM),
        (proc(0), directories("/"), Status::ERR_BAD_PARAM),
        (proc(0), Info::new(key("pmix.reg.cleanup"), 7u32), Status::ERR_BAD_PARAM),
        (proc(0), files("/kept"), Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES),
        (root, files("/f"), Status::ERR_NO_PERMISSIONS),
        (everything, files("/f"), Status::ERR_NO_PERMISSIONS),
        (nobody, files("/f"), Status::ERR_BAD_PARAM),
        (proc(9), files("/f"), Status::ERR_NOT_FOUND),
        (ProcId::new(namespace("elsewhere"), 0), files("/f"), Status::ERR_NOT_FOUND),
    ];
    for (target, directive, expected) in cases {
        let outputs = rig.request(peer, control(&[target], std::slice::from_ref(&directive)));
        assert_eq!(statuses(&outputs), [(peer, expected)], "{directive:?}");
    }
    assert_eq!(rig.server.take_cleanups(), []);
}

#[test]
fn what_is_registered_is_bounded_and_what_one_request_keeps_another_does_not_remove() {
    let limits = Limits { cleanup_paths_max: 3, ..Limits::default() };
    let mut rig = Rig::with(Config { limits, ..Config::default() }, MapStore::new());
    let peer = rig.job(1, 1)[0];
    rig.request(peer, control(&[proc(0)], &[directories("/d")]));
    rig.request(peer, control(&[proc(0)], &[ignored("/d/keep")]));
    let outputs = rig.request(peer, control(&[proc(0)], &[files("/a,/b")]));
    assert_eq!(statuses(&outputs), [(peer, Status::ERR_OUT_OF_RESOURCE)]);
    let left = cleanups(&rig.lose(peer));
    assert_eq!(left.iter().map(|cleanup| cleanup.ignored.clone()).collect::<Vec<_>>(), [["/d/keep"]]);
    assert_eq!(left[0].owner, Credentials { ..OWNER });
}
