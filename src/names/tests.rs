//! One test for each rule, and random histories against a plain model.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::keys;
use crate::proto::{Lookup, Publish, Unpublish};
use crate::server::{HostReply, Requester};
use crate::types::codes::{persistence, range};
use crate::types::{DataArray, DataType, Info, InfoFlags, Key, Namespace, Pdata, ProcId, Rank, Status, Time, Value};

/// A service with a clock and numbered requests.
struct Rig {
    names: Names,
    now: Time,
    last: u64,
}

fn proc(job: &str, rank: u32) -> ProcId {
    ProcId::new(Namespace::new(job).unwrap(), rank)
}

fn asker(job: &str, rank: u32, uid: u32) -> Asker {
    Asker { requester: Requester { proc: proc(job, rank), object: 0, uid, gid: uid }, is_tool: false }
}

fn tool(name: &str, uid: u32) -> Asker {
    Asker { is_tool: true, ..asker(name, 0, uid) }
}

fn key(name: &str) -> Key {
    Key::new(name.to_owned()).unwrap()
}

fn info(name: &str, value: impl Into<Value>) -> Info {
    Info::new(key(name), value)
}

fn in_range(code: u8) -> Info {
    Info::new(Key::from_static(keys::RANGE.name()), Value::DataRange(code))
}

fn lasting(code: u8) -> Info {
    Info::new(Key::from_static(keys::PERSISTENCE.name()), Value::Persistence(code))
}

fn array(element_type: DataType, elements: Vec<Value>) -> Value {
    Value::DataArray(Box::new(DataArray { element_type, elements }))
}

fn permit(key: &'static str, ids: &[u32]) -> Info {
    let ids = array(DataType::Uint32, ids.iter().map(|id| Value::Uint32(*id)).collect());
    let list = Value::info_array(vec![Info::new(Key::from_static(key), ids)]);
    Info::new(Key::from_static(keys::ACCESS_PERMISSIONS.name()), list)
}

fn waiting(count: impl Into<Value>, seconds: i32) -> Vec<Info> {
    let limit = Info::new(Key::from_static(keys::TIMEOUT.name()), seconds);
    vec![Info::new(Key::from_static(keys::WAIT.name()), count), limit]
}

/// Processes of one user reach each other. The rule of the server is `ServerCore::may_read`.
fn reaches(asker: &Asker, publisher: &ProcId, uid: u32) -> bool {
    asker.requester.uid == uid || asker.requester.proc.namespace == publisher.namespace
}

impl Rig {
    fn new() -> Self {
        Self::with(NameLimits::default())
    }

    fn with(limits: NameLimits) -> Self {
        Self { names: Names::new(limits, proc("host", 0), 500), now: Time::ZERO, last: 0 }
    }

    fn tell(&mut self, input: NameInput) -> Vec<(RequestId, HostReply)> {
        self.names.handle(self.now, input, &reaches);
        std::iter::from_fn(|| self.names.poll_answer()).collect()
    }

    fn ask(&mut self, asker: &Asker, request: NameRequest) -> (RequestId, Vec<(RequestId, HostReply)>) {
        self.last += 1;
        let id = RequestId(self.last);
        (id, self.tell(NameInput::Request(id, asker.clone(), request)))
    }

    /// Publishes, and returns the status and the answers to others.
    fn publish_and_wake(&mut self, asker: &Asker, infos: &[Info]) -> (Status, Vec<(RequestId, HostReply)>) {
        let (id, mut answers) = self.ask(asker, NameRequest::Publish(Publish::new(infos.to_vec())));
        let (first, reply) = answers.remove(0);
        assert_eq!(first, id);
        let HostReply::Status(status) = reply else { panic!("{reply:?}") };
        (status, answers)
    }

    fn publish(&mut self, asker: &Asker, infos: &[Info]) -> Status {
        self.publish_and_wake(asker, infos).0
    }

    fn begin_lookup(&mut self, asker: &Asker, names: &[&str], directives: &[Info]) -> (RequestId, Option<HostReply>) {
        let keys = names.iter().map(|name| key(name)).collect();
        let (id, answers) = self.ask(asker, NameRequest::Lookup(Lookup::new(keys, directives.to_vec())));
        let mut replies = answers.into_iter().map(|(of, reply)| {
            assert_eq!(of, id);
            reply
        });
        (id, replies.next())
    }

    /// Looks up without a wait: the status, and the found keys with their numbers.
    fn lookup(&mut self, asker: &Asker, names: &[&str], directives: &[Info]) -> (Status, Vec<(String, u64)>) {
        found(self.begin_lookup(asker, names, directives).1.expect("an answer at once"))
    }

    fn unpublish(&mut self, asker: &Asker, names: &[&str], directives: &[Info]) -> Status {
        let keys = names.iter().map(|name| key(name)).collect();
        let (_, answers) = self.ask(asker, NameRequest::Unpublish(Unpublish::new(keys, directives.to_vec())));
        match &answers[..] {
            [(_, HostReply::Status(status))] => *status,
            other => panic!("{other:?}"),
        }
    }
}

fn found(reply: HostReply) -> (Status, Vec<(String, u64)>) {
    match reply {
        HostReply::Status(status) => (status, Vec::new()),
        HostReply::Lookup { status, found } => {
            let pair = |Pdata { key, value, .. }: Pdata| (key.as_str().to_owned(), value.as_u64().unwrap());
            (status, found.into_iter().map(pair).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn some(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
    pairs.iter().map(|(key, number)| ((*key).to_owned(), *number)).collect()
}

const OK: Status = Status::SUCCESS;

#[test]
fn a_lookup_finds_all_some_or_nothing() {
    let mut rig = Rig::new();
    let [one, other] = [asker("a", 0, 7), asker("b", 3, 7)];
    assert_eq!(rig.publish(&one, &[info("x", 1_u32), info("y", 2_u32)]), OK);
    assert_eq!(rig.lookup(&other, &["y", "x", "y"], &[]), (OK, some(&[("y", 2), ("x", 1)])));
    assert_eq!(rig.lookup(&other, &["x", "z"], &[]), (Status::ERR_PARTIAL_SUCCESS, some(&[("x", 1)])));
    assert_eq!(rig.lookup(&other, &["z"], &[]).0, Status::ERR_NOT_FOUND);
    assert_eq!(rig.lookup(&other, &[], &[]).0, Status::ERR_BAD_PARAM);
    let HostReply::Lookup { found, .. } = rig.begin_lookup(&other, &["x"], &[]).1.unwrap() else { panic!() };
    assert_eq!(found[0].proc, one.requester.proc);
}

#[test]
fn a_key_is_published_once_in_a_range_and_a_request_as_a_whole() {
    let mut rig = Rig::new();
    let [one, other] = [asker("a", 0, 7), asker("b", 0, 7)];
    assert_eq!(rig.publish(&one, &[info("x", 1_u32)]), OK);
    assert_eq!(rig.publish(&other, &[info("y", 1_u32), info("x", 2_u32)]), Status::ERR_DUPLICATE_KEY);
    assert_eq!(rig.lookup(&one, &["y"], &[]).0, Status::ERR_NOT_FOUND);
    assert_eq!(rig.publish(&one, &[info("z", 1_u32), info("z", 2_u32)]), Status::ERR_DUPLICATE_KEY);
    // Another range, and the same range of another job.
    for publisher in [&one, &other] {
        assert_eq!(rig.publish(publisher, &[info("x", 3_u32), in_range(range::RANGE_NAMESPACE)]), OK);
        let again = rig.publish(
            &Asker { ..asker(publisher.requester.proc.namespace.as_str(), 5, 7) },
            &[info("x", 3_u32), in_range(range::RANGE_NAMESPACE)],
        );
        assert_eq!(again, Status::ERR_DUPLICATE_KEY);
        assert_eq!(rig.publish(publisher, &[info("x", 4_u32), in_range(range::RANGE_PROC_LOCAL)]), OK);
    }
    assert_eq!(rig.publish(&one, &[in_range(range::RANGE_LOCAL)]), Status::ERR_BAD_PARAM, "no data");
}

#[test]
fn both_ranges_decide() {
    let mut rig = Rig::new();
    let [one, mate, other, host] = [asker("a", 0, 7), asker("a", 1, 7), asker("b", 0, 7), asker("host", 0, 500)];
    let mate_alone = array(DataType::Proc, vec![Value::from(mate.requester.proc.clone())]);
    let job_b = ProcId { namespace: Namespace::new("b").unwrap(), rank: Rank::Wildcard };
    let of_b = array(DataType::Proc, vec![Value::from(job_b)]);
    let custom = |list: &Value| Info::new(Key::from_static(keys::EVENT_CUSTOM_RANGE.name()), list.clone());
    // Range, list, and the readers: the publisher, its mate, another job, the host.
    for (name, code, list, readers) in [
        ("rm", range::RANGE_RM, None, [false, false, false, true]),
        ("local", range::RANGE_LOCAL, None, [true; 4]),
        ("namespace", range::RANGE_NAMESPACE, None, [true, true, false, false]),
        ("session", range::RANGE_SESSION, None, [true; 4]),
        ("global", range::RANGE_GLOBAL, None, [true; 4]),
        ("process", range::RANGE_PROC_LOCAL, None, [true, false, false, false]),
        ("mate", range::RANGE_CUSTOM, Some(&mate_alone), [false, true, false, false]),
        ("job", range::RANGE_CUSTOM, Some(&of_b), [false, false, true, false]),
        ("undefined", range::RANGE_UNDEF, None, [true; 4]),
    ] {
        let mut infos = vec![info(name, 1_u32), in_range(code), permit(keys::ACCESS_USERIDS.name(), &[7, 500])];
        infos.extend(list.map(custom));
        assert_eq!(rig.publish(&one, &infos), OK, "{name}");
        for (reader, is_reader) in [&one, &mate, &other, &host].into_iter().zip(readers) {
            let status = rig.lookup(reader, &[name], &[]).0;
            assert_eq!(status == OK, is_reader, "{name} for {}", reader.requester.proc);
        }
    }
    // The range of a lookup names the publishers.
    for (reader, directives, is_found) in [
        (&mate, vec![in_range(range::RANGE_NAMESPACE)], true),
        (&other, vec![in_range(range::RANGE_NAMESPACE)], false),
        (&one, vec![in_range(range::RANGE_PROC_LOCAL)], true),
        (&mate, vec![in_range(range::RANGE_PROC_LOCAL)], false),
        (&mate, vec![in_range(range::RANGE_RM)], false),
        (&other, vec![in_range(range::RANGE_CUSTOM), custom(&mate_alone)], false),
    ] {
        assert_eq!(rig.lookup(reader, &["session"], &directives).0 == OK, is_found, "{directives:?}");
    }
}

#[test]
fn directives_that_say_nothing_sensible_are_refused() {
    let mut rig = Rig::new();
    let one = asker("a", 0, 7);
    for wrong in [
        in_range(9),
        in_range(range::RANGE_INVALID),
        in_range(range::RANGE_CUSTOM),
        lasting(persistence::PERSIST_INVALID),
        Info::new(Key::from_static(keys::PERSISTENCE.name()), "long"),
        Info::new(Key::from_static(keys::ACCESS_PERMISSIONS.name()), 7_u32),
        Info::new(Key::from_static(keys::ACCESS_PERMISSIONS.name()), Value::info_array(Vec::new())),
    ] {
        assert_eq!(rig.publish(&one, &[info("x", 1_u32), wrong.clone()]), Status::ERR_BAD_PARAM, "{wrong:?}");
    }
    let required = |info: Info| Info { flags: InfoFlags::REQUIRED.bits(), ..info };
    let unknown = required(Info::new(Key::from_static(keys::WAIT.name()), true));
    assert_eq!(rig.publish(&one, &[info("x", 1_u32), unknown.clone()]), Status::ERR_NOT_SUPPORTED);
    let known = [required(info("x", 1_u32)), required(in_range(range::RANGE_LOCAL))];
    assert_eq!(rig.publish(&one, &known), OK);
    let unknown_too = required(info("no.such", 1_u32));
    assert_eq!(rig.lookup(&one, &["x"], std::slice::from_ref(&unknown_too)).0, Status::ERR_NOT_SUPPORTED);
    assert_eq!(rig.unpublish(&one, &["x"], &[unknown]), Status::ERR_NOT_SUPPORTED);
    assert_eq!(rig.lookup(&one, &["x"], &waiting("x", 1)).0, Status::ERR_BAD_PARAM);
    assert_eq!(rig.unpublish(&one, &["x"], &[]), OK);
    assert!(rig.names.is_empty());
}

#[test]
fn data_of_another_user_counts_as_absent_unless_its_permissions_name_the_reader() {
    let mut rig = Rig::new();
    let [alice, bob, carol] = [asker("a", 0, 1), asker("b", 0, 2), asker("c", 0, 3)];
    assert_eq!(rig.publish(&alice, &[info("x", 1_u32)]), OK);
    assert_eq!(rig.lookup(&bob, &["x"], &[]).0, Status::ERR_NOT_FOUND);
    // So another user can't block a name, either.
    assert_eq!(rig.publish(&bob, &[info("x", 2_u32)]), OK);
    assert_eq!(rig.lookup(&bob, &["x"], &[]), (OK, some(&[("x", 2)])));
    assert_eq!(rig.lookup(&alice, &["x"], &[]), (OK, some(&[("x", 1)])));
    assert_eq!(rig.publish(&alice, &[info("y", 1_u32), permit(keys::ACCESS_USERIDS.name(), &[2])]), OK);
    assert_eq!(rig.publish(&alice, &[info("z", 1_u32), permit(keys::ACCESS_GRPIDS.name(), &[3])]), OK);
    let status = |rig: &mut Rig, reader: &Asker| ["y", "z"].map(|key| rig.lookup(reader, &[key], &[]).0);
    assert_eq!(status(&mut rig, &bob), [OK, Status::ERR_NOT_FOUND]);
    assert_eq!(status(&mut rig, &carol), [Status::ERR_NOT_FOUND, OK]);
    // A process of the same user knows of the data, and the publisher may read it.
    assert_eq!(status(&mut rig, &asker("d", 0, 1)), [Status::ERR_NO_PERMISSIONS; 2]);
    assert_eq!(status(&mut rig, &alice), [OK, OK]);
}

#[test]
fn data_ends_as_its_persistence_says() {
    let all = [
        persistence::PERSIST_INDEF,
        persistence::PERSIST_SESSION,
        persistence::PERSIST_APP,
        persistence::PERSIST_FIRST_READ,
        persistence::PERSIST_PROC,
    ];
    let left = |publisher: &Asker, ends: &[NameInput]| {
        let mut rig = Rig::new();
        for code in all {
            assert_eq!(rig.publish(publisher, &[info(&format!("k{code}"), 1_u32), lasting(code)]), OK);
        }
        ends.iter().for_each(|end| assert_eq!(rig.tell(end.clone()), []));
        all.map(|code| rig.lookup(&asker("reader", 0, 7), &[&format!("k{code}")], &[]).0 == OK)
    };
    let end = NameInput::ProcessEnded(proc("a", 0));
    let job_end = NameInput::JobEnded(Namespace::new("a").unwrap());
    let one = asker("a", 0, 7);
    assert_eq!(left(&one, &[]), [true; 5]);
    assert_eq!(
        left(&one, &[NameInput::ProcessEnded(proc("a", 1)), NameInput::JobEnded(proc("b", 0).namespace)]),
        [true; 5]
    );
    assert_eq!(left(&one, std::slice::from_ref(&end)), [true, true, true, true, false]);
    assert_eq!(left(&one, &[job_end]), [true, true, false, false, false]);
    // The connection of a tool is all of its job. Data that is read once waits for its reader.
    assert_eq!(left(&tool("a", 7), &[end]), [true, true, false, true, false]);
    // Without a persistence it lasts as long as the job.
    let mut rig = Rig::new();
    assert_eq!(rig.publish(&one, &[info("x", 1_u32)]), OK);
    rig.tell(NameInput::ProcessEnded(proc("a", 0)));
    assert_eq!(rig.names.entry_count(), 1);
    rig.tell(NameInput::JobEnded(proc("a", 0).namespace));
    assert!(rig.names.is_empty());
}

#[test]
fn data_that_is_read_once_goes_with_its_first_reader() {
    let mut rig = Rig::new();
    let [one, other] = [asker("a", 0, 7), asker("a", 1, 7)];
    let once = [info("x", 1_u32), lasting(persistence::PERSIST_FIRST_READ)];
    assert_eq!(rig.publish(&one, &once), OK);
    // A lookup that gets nothing yet reads nothing.
    let (waits, none) = rig.begin_lookup(&other, &["x", "y"], &waiting(0, 0));
    assert_eq!(none, None);
    assert_eq!(rig.lookup(&other, &["x"], &[]).0, OK);
    assert_eq!(rig.lookup(&other, &["x"], &[]).0, Status::ERR_NOT_FOUND);
    // The oldest lookup that waits gets it; the next one goes on waiting.
    let (next, none) = rig.begin_lookup(&other, &["x"], &waiting(1, 0));
    assert_eq!((rig.publish_and_wake(&one, &[info("y", 2_u32)]), none), ((OK, vec![]), None));
    let (status, woken) = rig.publish_and_wake(&one, &once);
    assert_eq!((status, woken.len(), woken[0].0), (OK, 1, waits));
    assert_eq!(rig.publish_and_wake(&one, &once).1[0].0, next);
    assert_eq!(rig.unpublish(&one, &["y"], &[]), OK);
    assert!(rig.names.is_empty());
}

#[test]
fn a_lookup_waits_for_all_keys_or_for_a_number_of_them() {
    for (count, needed) in [
        (Value::Int(0), 3),
        (Value::Bool(true), 3),
        (Value::Int(9), 3),
        (Value::Uint32(2), 2),
        (Value::Size(1), 1),
        (Value::Bool(false), 0),
    ] {
        let mut rig = Rig::new();
        let [one, other] = [asker("a", 0, 7), asker("a", 1, 7)];
        let (id, mut answer) = rig.begin_lookup(&other, &["x", "y", "z"], &waiting(count.clone(), 0));
        for (number, name) in (1_u32..).zip(["z", "x", "y"]) {
            if answer.is_some() {
                break;
            }
            assert!(number <= needed, "{count:?}");
            let woken = rig.publish_and_wake(&one, &[info(name, number)]).1;
            answer = woken.into_iter().find(|(of, _)| *of == id).map(|(_, reply)| reply);
            assert_eq!(answer.is_some(), number == needed, "{count:?}");
        }
        let (status, values) = found(answer.unwrap());
        let expected = [Status::ERR_NOT_FOUND, Status::ERR_PARTIAL_SUCCESS, Status::ERR_PARTIAL_SUCCESS, OK];
        assert_eq!((status, values.len()), (expected[needed as usize], needed as usize), "{count:?}");
        assert_eq!(rig.names.waiting().count(), 0);
    }
}

#[test]
fn a_wait_ends_with_its_time_or_with_its_asker() {
    let mut rig = Rig::new();
    let one = asker("a", 0, 7);
    let (late, _) = rig.begin_lookup(&one, &["x"], &waiting(0, 5));
    let (gone, _) = rig.begin_lookup(&one, &["x", "y"], &waiting(1, 9));
    assert_eq!(rig.names.poll_timeout(), Some(Time::ZERO + Duration::from_secs(5)));
    rig.now = Time::ZERO + Duration::from_secs(5);
    assert_eq!(rig.tell(NameInput::Timeout), [(late, HostReply::Status(Status::ERR_TIMEOUT))]);
    assert_eq!(rig.tell(NameInput::Cancelled(gone)), []);
    assert!(rig.names.is_empty());
    assert_eq!(rig.publish_and_wake(&one, &[info("x", 1_u32)]), (OK, vec![]));
}

#[test]
fn a_process_withdraws_its_own_data_alone() {
    let mut rig = Rig::new();
    let [one, mate] = [asker("a", 0, 7), asker("a", 1, 7)];
    assert_eq!(rig.publish(&one, &[info("x", 1_u32), info("y", 2_u32)]), OK);
    assert_eq!(rig.publish(&one, &[info("x", 3_u32), in_range(range::RANGE_NAMESPACE)]), OK);
    assert_eq!(rig.publish(&mate, &[info("z", 4_u32)]), OK);
    assert_eq!(rig.unpublish(&mate, &["x"], &[]), Status::ERR_NOT_FOUND);
    assert_eq!(rig.unpublish(&one, &["x"], &[in_range(range::RANGE_SESSION)]), OK);
    assert_eq!(rig.lookup(&mate, &["x"], &[]), (OK, some(&[("x", 3)])));
    assert_eq!(rig.publish(&one, &[info("x", 5_u32)]), OK, "the key is free again");
    assert_eq!(rig.unpublish(&one, &["x", "other"], &[]), OK, "of every range");
    assert_eq!(rig.lookup(&mate, &["x", "y"], &[]), (Status::ERR_PARTIAL_SUCCESS, some(&[("y", 2)])));
    assert_eq!([rig.unpublish(&one, &[], &[]), rig.unpublish(&one, &[], &[])], [OK, OK]);
    assert_eq!(rig.lookup(&one, &["y", "z"], &[]), (Status::ERR_PARTIAL_SUCCESS, some(&[("z", 4)])));
}

/// Each `modex publish` is a tool of its own, so nobody could withdraw its data.
#[test]
fn tools_of_one_user_withdraw_each_others_data() {
    let mut rig = Rig::new();
    let [one, next, other] = [tool("one", 7), tool("next", 7), tool("other", 8)];
    assert_eq!(rig.publish(&one, &[info("x", 1_u32), info("y", 2_u32)]), OK);
    assert_eq!(rig.publish(&asker("a", 0, 7), &[info("z", 3_u32)]), OK);
    let refused = Status::ERR_NOT_FOUND;
    assert_eq!((rig.unpublish(&other, &["x"], &[]), rig.unpublish(&asker("a", 0, 7), &["x"], &[])), (refused, refused));
    assert_eq!((rig.unpublish(&next, &["z"], &[]), rig.unpublish(&next, &["x"], &[])), (refused, OK));
    // Without keys a tool means its own data.
    assert_eq!(rig.unpublish(&next, &[], &[]), OK);
    assert_eq!(rig.lookup(&next, &["x", "y"], &[]), (Status::ERR_PARTIAL_SUCCESS, some(&[("y", 2)])));
}

/// A lookup slept on after its job had connected with that of the publisher, until somebody published again.
#[test]
fn a_lookup_that_waits_notices_a_new_connection() {
    let mut rig = Rig::new();
    assert_eq!(rig.publish(&asker("a", 0, 7), &[info("x", 1_u32)]), OK);
    let (id, answer) = rig.begin_lookup(&asker("b", 0, 8), &["x"], &waiting(0, 0));
    assert_eq!((answer, rig.tell(NameInput::TiesChanged)), (None, Vec::new()));
    rig.names.handle(rig.now, NameInput::TiesChanged, &|_, _, _| true);
    let (answered, reply) = rig.names.poll_answer().unwrap();
    assert_eq!((answered, found(reply)), (id, (OK, some(&[("x", 1)]))));
}

#[test]
fn own_data_comes_before_data_of_others() {
    let mut rig = Rig::new();
    let [far, mate, own] = [asker("b", 0, 7), asker("a", 1, 7), asker("a", 0, 7)];
    assert_eq!(rig.publish(&far, &[info("x", 1_u32)]), OK);
    assert_eq!(rig.lookup(&own, &["x"], &[]), (OK, some(&[("x", 1)])));
    assert_eq!(rig.publish(&mate, &[info("x", 2_u32), in_range(range::RANGE_NAMESPACE)]), OK);
    assert_eq!(rig.lookup(&own, &["x"], &[]), (OK, some(&[("x", 2)])));
    assert_eq!(rig.publish(&own, &[info("x", 3_u32), in_range(range::RANGE_PROC_LOCAL)]), OK);
    assert_eq!(rig.lookup(&own, &["x"], &[]), (OK, some(&[("x", 3)])));
}

/// One publication answered all lookups that waited for it in one step, and copied its value for each.
#[test]
fn many_waiting_lookups_are_answered_in_steps() {
    let mut rig = Rig::new();
    let askers: Vec<Asker> = (0..150).map(|rank| asker("a", rank, 7)).collect();
    askers.iter().for_each(|asker| assert_eq!(rig.begin_lookup(asker, &["x"], &waiting(0, 0)).1, None));
    let (status, first) = rig.publish_and_wake(&askers[0], &[info("x", 1_u32)]);
    assert_eq!((status, first.len(), rig.names.poll_timeout()), (OK, 64, Some(Time::ZERO)));
    let next = rig.tell(NameInput::Timeout);
    assert_eq!((next.len(), rig.names.poll_timeout()), (64, Some(Time::ZERO)));
    // A lookup that ends meanwhile gets no answer.
    let left = rig.names.waiting().next().unwrap();
    assert_eq!(rig.tell(NameInput::Cancelled(left)), []);
    assert_eq!((rig.tell(NameInput::Timeout).len(), rig.names.poll_timeout()), (21, None));
    assert_eq!(rig.unpublish(&askers[0], &[], &[]), OK);
    assert!(rig.names.is_empty());
}

/// Each read of an entry walks through these lists.
#[test]
fn lists_of_processes_and_users_and_values_have_a_bound() {
    const FULL: Status = Status::ERR_OUT_OF_RESOURCE;
    let mut rig = Rig::new();
    let own = asker("a", 0, 7);
    let many = |element: Value| {
        let element_type = element.data_type();
        Value::DataArray(Box::new(DataArray { element_type, elements: vec![element; 257] }))
    };
    let listed = Info::new(Key::from_static(keys::EVENT_CUSTOM_RANGE.name()), many(Value::from(proc("b", 0))));
    let in_custom = [in_range(range::RANGE_CUSTOM), listed];
    assert_eq!(rig.lookup(&own, &["x"], &in_custom).0, FULL);
    assert_eq!(rig.publish(&own, &[&[info("x", 1_u32)], &in_custom[..]].concat()), FULL);
    let users = Info::new(Key::from_static(keys::ACCESS_USERIDS.name()), many(Value::from(7_u32)));
    assert_eq!(rig.publish(&own, &[info("x", 1_u32), users]), FULL);
    assert_eq!(rig.publish(&own, &[info("x", vec![0; 257 << 10])]), FULL);
    for rank in 0..65 {
        let only = Info::new(Key::from_static(keys::EVENT_CUSTOM_RANGE.name()), proc("b", rank));
        let status = rig.publish(&own, &[info("crowded", 1_u32), in_range(range::RANGE_CUSTOM), only]);
        assert_eq!(status, if rank < 64 { OK } else { FULL });
    }
    assert_eq!(rig.unpublish(&own, &[], &[]), OK);
    let names = vec!["x"; 4097];
    assert_eq!((rig.unpublish(&own, &names, &[]), rig.lookup(&own, &names, &[]).0), (FULL, FULL));
    assert!(rig.names.is_empty());
}

/// A host may give the name of an ended job to a job of another user.
#[test]
fn data_of_a_process_is_not_that_of_a_later_process_of_its_name() {
    let mut rig = Rig::new();
    let [old, new] = [asker("a", 0, 7), asker("a", 0, 8)];
    let only = Info::new(Key::from_static(keys::ACCESS_USERIDS.name()), 7_u32);
    assert_eq!(rig.publish(&old, &[info("x", 1_u32), only, lasting(persistence::PERSIST_SESSION)]), OK);
    rig.tell(NameInput::JobEnded(proc("a", 0).namespace));
    assert_eq!(rig.lookup(&new, &["x"], &[]).0, Status::ERR_NO_PERMISSIONS);
    assert_eq!(rig.unpublish(&new, &["x"], &[]), Status::ERR_NOT_FOUND);
    assert_eq!(rig.lookup(&old, &["x"], &[]), (OK, some(&[("x", 1)])));
}

#[test]
fn every_bound_refuses_with_a_status_and_frees_with_the_data() {
    let limits = NameLimits {
        entries_max: 8,
        entries_per_process_max: 3,
        bytes_max: 64 << 10,
        bytes_per_process_max: 40 << 10,
        value_bytes_max: 64 << 10,
        waiting_keys_max: 8,
        waiting_keys_per_process_max: 3,
        keys_per_request_max: 3,
        answer_bytes_max: 4 << 10,
    };
    const FULL: Status = Status::ERR_OUT_OF_RESOURCE;
    let mut rig = Rig::with(limits);
    let own = asker("a", 0, 500);
    let four = [info("a", 1_u32), info("b", 1_u32), info("c", 1_u32), info("d", 1_u32)];
    assert_eq!(
        [rig.publish(&own, &four), rig.publish(&own, &four[..3]), rig.publish(&own, &four[3..])],
        [FULL, OK, FULL]
    );
    assert_eq!(rig.unpublish(&own, &["a"], &[]), OK);
    assert_eq!(rig.publish(&own, &four[3..]), OK);
    assert_eq!(rig.unpublish(&own, &[], &[]), OK);
    // Bytes: of a process, and of an answer.
    let large = |name: &str| info(name, vec![0; 5 << 10]);
    let huge = info("huge", vec![0; 41 << 10]);
    assert_eq!([rig.publish(&own, &[huge]), rig.publish(&own, &[large("x")])], [FULL, OK]);
    assert_eq!(rig.begin_lookup(&own, &["x"], &[]).1, Some(HostReply::Status(FULL)));
    assert_eq!(rig.unpublish(&own, &["x"], &[]), OK);
    // Lookups: of a request, and of a process.
    assert_eq!(rig.lookup(&own, &["1", "2", "3", "4"], &[]).0, FULL);
    let (first, _) = rig.begin_lookup(&own, &["1", "2"], &waiting(0, 0));
    assert_eq!(rig.lookup(&own, &["3", "4"], &waiting(0, 0)).0, FULL);
    rig.tell(NameInput::Cancelled(first));
    assert!(rig.names.is_empty());
    // One user leaves something for the next. All tools of a user have one share.
    let published = |rig: &mut Rig, askers: &[Asker]| {
        let mut number = 0;
        askers
            .iter()
            .filter(|asker| {
                number += 1;
                rig.publish(asker, &[info(&format!("{}{number}", asker.requester.uid), 1_u32)]) == OK
            })
            .count()
    };
    let procs = |uid| (0..8).map(|rank| asker("a", rank, uid)).collect::<Vec<_>>();
    assert_eq!(published(&mut rig, &procs(1)), 4);
    assert!(published(&mut rig, &procs(2)) >= 1);
    let mut rig = Rig::with(limits);
    let tools: Vec<Asker> = (0..8).map(|number| tool(&format!("tool{number}"), 500)).collect();
    assert_eq!(published(&mut rig, &tools), 3);
}

/// The rules once more, as a list and in the simplest form: one user, lookups that do not wait.
#[derive(Default)]
struct Model(Vec<Published>);

struct Published {
    key: u8,
    value: u32,
    publisher: (u8, u32),
    range: u8,
    persistence: u8,
}

#[derive(Clone, Debug)]
enum Step {
    Publish { by: (u8, u32), key: u8, range: u8, persistence: u8 },
    Lookup { by: (u8, u32), keys: Vec<u8>, range: u8 },
    Unpublish { by: (u8, u32), key: u8 },
    EndProcess((u8, u32)),
    EndJob(u8),
}

/// Whether `other` is in a range of `of`.
fn is_in(range: u8, of: (u8, u32), other: (u8, u32)) -> bool {
    match range {
        range::RANGE_NAMESPACE => of.0 == other.0,
        range::RANGE_PROC_LOCAL => of == other,
        _ => true,
    }
}

impl Model {
    fn publish(&mut self, by: (u8, u32), key: u8, value: u32, range: u8, persistence: u8) -> Status {
        let is_same = |other: &Published| other.key == key && other.range == range && is_in(range, other.publisher, by);
        if self.0.iter().any(is_same) {
            return Status::ERR_DUPLICATE_KEY;
        }
        self.0.push(Published { key, value, publisher: by, range, persistence });
        OK
    }

    fn lookup(&mut self, by: (u8, u32), keys: &[u8], range: u8) -> (Status, Vec<(String, u64)>) {
        let mut seen = Vec::new();
        let mut places = Vec::new();
        for key in keys {
            if seen.contains(key) {
                continue;
            }
            seen.push(*key);
            let visible = self.0.iter().enumerate().filter(|(_, data)| {
                data.key == *key && is_in(range, by, data.publisher) && is_in(data.range, data.publisher, by)
            });
            let best = visible.min_by_key(|(place, data)| (data.publisher != by, data.publisher.0 != by.0, *place));
            places.extend(best.map(|(place, _)| place));
        }
        let found: Vec<_> =
            places.iter().map(|place| (format!("k{}", self.0[*place].key), u64::from(self.0[*place].value))).collect();
        places.sort_unstable();
        for place in places.into_iter().rev() {
            if self.0[place].persistence == persistence::PERSIST_FIRST_READ {
                self.0.remove(place);
            }
        }
        let status = match found.len() {
            0 => Status::ERR_NOT_FOUND,
            count if count == seen.len() => OK,
            _ => Status::ERR_PARTIAL_SUCCESS,
        };
        (status, found)
    }

    fn unpublish(&mut self, by: (u8, u32), key: u8) -> Status {
        let before = self.0.len();
        self.0.retain(|data| data.publisher != by || data.key != key);
        if self.0.len() < before { OK } else { Status::ERR_NOT_FOUND }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let by = || (0_u8..2, 0_u32..3);
    let keys = || 0_u8..4;
    let of_range = || {
        prop::sample::select(vec![
            range::RANGE_LOCAL,
            range::RANGE_NAMESPACE,
            range::RANGE_SESSION,
            range::RANGE_PROC_LOCAL,
        ])
    };
    prop_oneof![
        4 => (by(), keys(), of_range(), 0_u8..5)
            .prop_map(|(by, key, range, persistence)| Step::Publish { by, key, range, persistence }),
        4 => (by(), prop::collection::vec(keys(), 1..4), of_range())
            .prop_map(|(by, keys, range)| Step::Lookup { by, keys, range }),
        2 => (by(), keys()).prop_map(|(by, key)| Step::Unpublish { by, key }),
        1 => by().prop_map(Step::EndProcess),
        1 => (0_u8..2).prop_map(Step::EndJob),
    ]
}

proptest! {
    #[test]
    fn random_histories_agree_with_the_model(steps in prop::collection::vec(step(), 0..60)) {
        let mut rig = Rig::new();
        let mut model = Model::default();
        let job = |number: u8| format!("job{number}");
        let asker_of = |(number, rank): (u8, u32)| asker(&job(number), rank, 7);
        for (value, step) in (0_u32..).zip(steps) {
            match step {
                Step::Publish { by, key, range, persistence } => {
                    let infos = [info(&format!("k{key}"), value), in_range(range), lasting(persistence)];
                    let expected = model.publish(by, key, value, range, persistence);
                    prop_assert_eq!(rig.publish(&asker_of(by), &infos), expected);
                }
                Step::Lookup { by, keys, range } => {
                    let names: Vec<String> = keys.iter().map(|key| format!("k{key}")).collect();
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let answer = rig.lookup(&asker_of(by), &names, &[in_range(range)]);
                    prop_assert_eq!(answer, model.lookup(by, &keys, range));
                }
                Step::Unpublish { by, key } => {
                    let status = rig.unpublish(&asker_of(by), &[&format!("k{key}")], &[]);
                    prop_assert_eq!(status, model.unpublish(by, key));
                }
                Step::EndProcess(by) => {
                    rig.tell(NameInput::ProcessEnded(asker_of(by).requester.proc));
                    model.0.retain(|data| data.publisher != by || data.persistence != persistence::PERSIST_PROC);
                }
                Step::EndJob(number) => {
                    rig.tell(NameInput::JobEnded(Namespace::new(&job(number)).unwrap()));
                    let lasts = [persistence::PERSIST_INDEF, persistence::PERSIST_SESSION];
                    model.0.retain(|data| data.publisher.0 != number || lasts.contains(&data.persistence));
                }
            }
            prop_assert_eq!(rig.names.entry_count(), model.0.len());
        }
        for rank in 0..3 {
            rig.unpublish(&asker_of((0, rank)), &[], &[]);
            rig.unpublish(&asker_of((1, rank)), &[], &[]);
        }
        prop_assert!(rig.names.is_empty());
    }

    /// Each lookup that waits gets one answer, in time, and leaves nothing behind.
    #[test]
    fn every_lookup_that_waits_gets_one_answer(
        lookups in prop::collection::vec((prop::collection::vec(0_u8..4, 1..4), 0_i32..4, 1_i32..9), 1..12),
        published in prop::collection::vec((0_u8..4, any::<bool>()), 0..20),
    ) {
        let mut rig = Rig::new();
        let [reader, publisher] = [asker("a", 0, 7), asker("a", 1, 7)];
        let mut open: Vec<RequestId> = Vec::new();
        for (keys, count, seconds) in &lookups {
            let names: Vec<String> = keys.iter().map(|key| format!("k{key}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (id, answer) = rig.begin_lookup(&reader, &names, &waiting(*count, *seconds));
            prop_assert_eq!(answer, None);
            open.push(id);
        }
        let mut close = |answers: Vec<(RequestId, HostReply)>| {
            for (id, _) in answers {
                let place = open.iter().position(|other| *other == id).expect("an open lookup");
                open.remove(place);
            }
            open.len()
        };
        for (key, is_once) in published {
            let code = if is_once { persistence::PERSIST_FIRST_READ } else { persistence::PERSIST_SESSION };
            let (_, woken) = rig.publish_and_wake(&publisher, &[info(&format!("k{key}"), 1_u32), lasting(code)]);
            let left = close(woken);
            prop_assert_eq!(rig.names.waiting().count(), left);
        }
        while let Some(deadline) = rig.names.poll_timeout() {
            rig.now = deadline;
            let answers = rig.tell(NameInput::Timeout);
            prop_assert!(!answers.is_empty());
            close(answers);
        }
        prop_assert_eq!(close(Vec::new()), 0);
        rig.unpublish(&publisher, &[], &[]);
        prop_assert!(rig.names.is_empty());
    }
}
