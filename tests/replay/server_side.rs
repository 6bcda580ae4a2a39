//! Captured clients, our server.

use std::thread;

use modex::bfrops::DecodeLimits;
use modex::proto::notification::{RELAYED, decode_event};
use modex::proto::{Command, Dialect, Request, Version};
use modex::types::{Info, Key, Value};

use crate::host::CapturedHost;
use crate::meaning::{Meaning, meaning};
use crate::player::{Player, is_for_two};
use crate::support::{TestServer, description, namespace, proc};
use crate::vectors::{Session, Step, V3_2, V4_2, V5_0, V6_1, read_answer};

const JOB: &str = "testns";

/// A server with the job of the captures: two processes on `node0`.
fn server() -> TestServer {
    let server = TestServer::start("node0", CapturedHost::default());
    let mut facts = description(2, &[("node0", "0,1")]);
    facts.push(Info::new(Key::from_static("pmix.jobid"), Value::from(JOB)));
    facts.push(Info::new(Key::from_static("pmix.univ.size"), 2_u32));
    facts.push(Info::new(Key::from_static("pmix.max.size"), 2_u32));
    for rank in 0..2_u32 {
        let info = |key, rank: u32| Info::new(Key::from_static(key), Value::ProcRank(rank.into()));
        let numbers = vec![info("pmix.rank", rank), info("pmix.grank", rank)];
        facts.push(Info::new(Key::from_static("pmix.pdata"), Value::info_array(numbers)));
    }
    server.server.register_namespace(&namespace(JOB), 2, facts).wait().unwrap();
    (0..2).for_each(|rank| server.register_client(JOB, rank));
    server
}

/// Plays a captured session on our server, with the same session as the job's other process, and compares the answers.
fn replay(name: &str, release: Version) {
    replay_beside(name, release, (name, release));
}

/// The same with another session beside it: only its messages for two, and only those that the captured session has,
/// too.
fn replay_beside(name: &str, release: Version, (beside, release_of_beside): (&str, Version)) {
    let session = Session::read(name, release);
    let beside = Session::read(beside, release_of_beside);
    let server = server();
    let environments = [0, 1].map(|rank| server.server.setup_fork(&proc(JOB, rank)).unwrap());
    let command = |step: &Step| step.request.as_ref().map(Request::command);
    let is_said = |step: &Step| is_for_two(step) && session.steps.iter().any(|own| command(own) == command(step));
    thread::scope(|scope| {
        let beside = scope.spawn(|| Player::connect(&beside, &proc(JOB, 1), &environments[1]).play(is_said).len());
        let answers = Player::connect(&session, &proc(JOB, 0), &environments[0]).play(|_| true);
        compare(name, &session, release, &answers);
        assert!(beside.join().unwrap() >= 4, "{name}");
    });
}

/// Every answer has the same meaning as the captured one. If there is only one form of it, it also has the same bytes.
pub(crate) fn compare(name: &str, session: &Session, release: Version, answers: &[(&Step, Vec<u8>)]) {
    let asked = session.steps.iter().filter_map(|step| step.request.as_ref());
    assert_eq!(answers.len(), asked.filter(|request| request.command().expects_reply()).count(), "{name}");
    for (step, answer) in answers {
        let command = step.request.as_ref().unwrap().command();
        // 3.2 closed the connection instead of answering the last request.
        let Some(captured) = &step.answer else {
            assert_eq!((command, release), (Command::Finalize, V3_2), "{name}");
            continue;
        };
        let read =
            |payload| meaning(read_answer(payload, command, release, session.dialect()), session.dialect().codec);
        match (read(captured), read(answer)) {
            (Meaning::Facts(expected), Meaning::Facts(found)) => {
                let differs = |(of, value): &(&(String, String), &Value)| {
                    let is_of_tool = of.1 == UNIVERSE && **value == OF_ONE && !found.contains_key(*of);
                    found.get(*of) != Some(value) && of.1 != REPEATED && **value != NO_SESSION && !is_of_tool
                };
                let differences: Vec<_> =
                    expected.iter().filter(differs).map(|(of, value)| (of, value, found.get(of))).collect();
                assert!(differences.is_empty(), "{name}: {command:?}: expected and found: {differences:#?}");
            }
            (expected, found) => {
                assert_eq!(expected, found, "{name}: {command:?}");
                assert_eq!(captured, answer, "{name}: {command:?} in other bytes");
            }
        }
    }
}

/// A value of the client's connect message; OpenPMIx returns it with the job's information.
const REPEATED: &str = "pmix.bfrops.mod";
/// OpenPMIx gives a number to a missing session; our server leaves it out.
const NO_SESSION: Value = Value::Uint32(u32::MAX);
/// OpenPMIx gives a tool a universe of its own, and its tools take the size for that of any job. Our server leaves it
/// out.
const UNIVERSE: &str = "pmix.univ.size";
const OF_ONE: Value = Value::Uint32(1);

/// Whole lives, with the release of the server they were captured on.
const LIVES: [(&str, Version); 8] = [
    ("v3.2_full_init_to_finalize", V3_2),
    ("v4.2.2_full_init_to_finalize", V4_2),
    ("v4.2.2_fully_described", V4_2),
    ("v6.1_full_init_to_finalize", V6_1),
    ("srv4.2.2_cli6.1", V4_2),
    ("srv5.0_cli6.1", V5_0),
    ("srv6.1_cli3.2", V6_1),
    ("srv6.1_cli4.2.2", V6_1),
];

#[test]
fn clients_of_every_release_live_their_lives_on_our_server() {
    for (name, release) in LIVES {
        replay(name, release);
    }
}

/// A process of a little-endian client reads its values, too.
#[test]
fn a_big_endian_client_lives_its_life_on_our_server() {
    replay("v4.2.2_big_endian", V4_2);
    replay_beside("v4.2.2_full_init_to_finalize", V4_2, ("v4.2.2_big_endian", V4_2));
}

/// Stock servers keep one encoding for a whole namespace; ours keeps one for each connection.
#[test]
fn clients_of_different_releases_and_encodings_share_a_job() {
    for (name, release) in LIVES {
        for (other, release_of_other) in LIVES {
            let (session, beside) = (Session::read(name, release), Session::read(other, release_of_other));
            let server = server();
            let environments = [0, 1].map(|rank| server.server.setup_fork(&proc(JOB, rank)).unwrap());
            thread::scope(|scope| {
                let other = scope.spawn(|| {
                    let answers = Player::connect(&beside, &proc(JOB, 1), &environments[1]).play(|_| true);
                    compare(other, &beside, release_of_other, &answers);
                });
                let answers = Player::connect(&session, &proc(JOB, 0), &environments[0]).play(|_| true);
                compare(name, &session, release, &answers);
                other.join().unwrap();
            });
        }
    }
}

/// A group, a connection and fences of two processes. (The client of 4.2 dissolved its group, the one of 5.0 did not.)
#[test]
fn commands_of_clients_of_5_0_and_4_2_meet_in_one_job() {
    replay_beside("v5.0_commands", V5_0, ("v4.2.2_commands", V4_2));
}

#[test]
fn every_captured_command_is_answered_as_the_release_answered_it() {
    for (name, release) in [("v4.2.2_commands", V4_2), ("v5.0_commands", V5_0), ("v6.1_commands", V6_1)] {
        replay(name, release);
    }
}

/// Two captured processes side by side: one raises an event that the other waits for. The one of 6.1 also gets an event
/// from one of 4.2.
#[test]
fn an_event_reaches_clients_of_every_release_as_it_did() {
    for (name, release) in [("v4.2.2_event_delivery", V4_2), ("v6.1_event_delivery", V6_1)] {
        let (raising, hearing) = (Session::read("v4.2.2_types_and_misc", V4_2), Session::read(name, release));
        let server = server();
        let environments = [0, 1].map(|rank| server.server.setup_fork(&proc(JOB, rank)).unwrap());
        thread::scope(|scope| {
            let heard = scope.spawn(|| {
                let mut player = Player::connect(&hearing, &proc(JOB, 1), &environments[1]);
                compare(name, &hearing, release, &player.play(|_| true));
                player.events
            });
            let answers = Player::connect(&raising, &proc(JOB, 0), &environments[0]).play(|_| true);
            compare("v4.2.2_types_and_misc", &raising, V4_2, &answers);
            let seen = Dialect { peer: release, ..hearing.dialect() };
            let read = |payload: &Vec<u8>| decode_event(payload, seen, &DecodeLimits::default()).unwrap();
            let events: Vec<_> = heard.join().unwrap().iter().map(read).collect();
            // Servers of OpenPMIx also send their internal mark, which clients do not need.
            let mut expected = hearing.events.clone();
            let infos = expected.iter_mut().map(|event| &mut event.info);
            infos.for_each(|infos| infos.retain(|info| info.key.as_str() != RELAYED));
            assert_eq!(events, expected, "{name}");
        });
    }
}
