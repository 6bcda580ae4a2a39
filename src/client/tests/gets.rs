//! Gets share requests, wait for each other, and see data that came meanwhile.

use super::*;

#[test]
fn the_data_of_an_answer_are_received_before_the_call_is_done() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[])));
    let ended = input(&mut client, at(0), ClientInput::Reply(tag, Reply::Data(rank_data(1, "k"))));
    let data = rank_data(1, "k").into();
    assert_eq!(ended, [ClientOutput::Received(std::sync::Arc::clone(&data)), done(1, Outcome::Answered(data))]);
}

/// Regression: two registrations of a name were mixed: a key that the newer one lacks was found with the older value.
#[test]
fn a_refresh_forgets_what_it_shows_to_be_of_the_past() {
    // Regression: a missing key removed all cached data of its job, and a local Get of another key (PMIX_OPTIONAL) then
    // found nothing. The rule: a missing key removes its own value alone; an answer with data may be of another job of
    // that name.
    const KEY: Key = Key::from_static("k");
    let refresh = Info::new(Key::from_static(attribute::REFRESH_CACHE), true);
    let narrowed = Info::new(Key::from_static(attribute::HOSTNAME), "n1");
    let other = Namespace::new("other").unwrap();
    let proc = |name: &str| ProcId::new(Namespace::new(name).unwrap(), 1);
    let data = vec![RankData { proc: proc("other"), ..rank_data(1, "k").remove(0) }];
    let nothing = RankData { proc: proc("other"), entries: vec![Kval { key: KEY, value: Value::Undefined }] };
    let denied = Some(ClientOutput::Received([nothing].into()));
    let forgotten = Some(ClientOutput::Forget(other));
    let missing = Reply::Status(Status::ERR_NOT_FOUND);
    for (name, key, further, reply, expected) in [
        ("other", Some(KEY), None, Reply::Data(data), forgotten.clone()),
        ("other", Some(KEY), None, missing.clone(), denied),
        ("other", Some(KEY), Some(narrowed), missing.clone(), forgotten.clone()),
        ("other", None, None, missing.clone(), forgotten),
        ("other", Some(KEY), None, Reply::Status(Status::ERR_TIMEOUT), None),
        ("job", Some(KEY), None, missing, None),
    ] {
        let mut client = client();
        let infos: Vec<Info> = std::iter::once(refresh.clone()).chain(further).collect();
        let directives = GetDirectives::parse(&infos).unwrap();
        let get = GetRequest::new(Some(proc(name)), key, directives, &super::proc(0)).unwrap();
        let tag = sent_tag(&call(&mut client, at(0), 1, Call::Get(get)));
        let ended = input(&mut client, at(0), ClientInput::Reply(tag, reply.clone()));
        let first = ended.into_iter().next().filter(|output| !matches!(output, ClientOutput::Done(..)));
        assert_eq!(first, expected, "{name} {reply:?}");
    }
}

#[test]
fn data_of_a_narrowed_get_are_not_cached() {
    let mut client = client();
    let hostname = Info::new(Key::from_static(attribute::HOSTNAME), "n1");
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[hostname])));
    let ended = input(&mut client, at(0), ClientInput::Reply(tag, Reply::Data(rank_data(1, "k"))));
    assert_eq!(ended, [done(1, Outcome::Answered(rank_data(1, "k").into()))]);
}

#[test]
fn a_bare_success_to_a_get_says_look_at_the_segment() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[])));
    let ended = input(&mut client, at(0), ClientInput::Reply(tag, Reply::Status(Status::SUCCESS)));
    assert_eq!(ended, [done(1, Outcome::Answered(Vec::new().into()))]);
}

/// Regression: a server of OpenPMIx 6.1 said that its values are current, and the Get found nothing.
#[test]
fn a_refreshed_get_that_has_a_bare_success_asks_without_the_directive() {
    let config = ClientConfig { asks_again_after_success: true, ..ClientConfig::default() };
    let mut client = ClientCore::new(proc(0), config);
    let refresh = Info::new(Key::from_static(attribute::REFRESH_CACHE), true);
    let first = sent_tag(&call(&mut client, at(0), 1, get(1, "k", std::slice::from_ref(&refresh))));
    assert_eq!(call(&mut client, at(0), 2, get(1, "k", &[refresh])), []);
    // The codec reads a success without data as no data.
    let succeeded = || Reply::Data(Vec::new());
    let outputs = input(&mut client, at(0), ClientInput::Reply(first, succeeded()));
    let [ClientOutput::Send(second, Request::Get(again))] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(again.directives, []);
    // Both calls have the answer, and a second bare success is the end.
    let ended = input(&mut client, at(0), ClientInput::Reply(*second, succeeded()));
    let nothing = || Outcome::Answered(Vec::new().into());
    assert_eq!(ended, [done(1, nothing()), done(2, nothing())]);
}

#[test]
fn equal_gets_share_one_request_and_its_answer() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[])));
    assert_eq!(call(&mut client, at(0), 2, get(1, "k", &[])), []);
    let ended = input(&mut client, at(0), ClientInput::Reply(tag, Reply::Status(Status::ERR_NOT_FOUND)));
    assert_eq!(error_of(&ended, 1), error_of(&ended, 2));
}

#[test]
fn another_key_of_the_same_process_waits_and_looks_again() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[])));
    assert_eq!(call(&mut client, at(0), 2, get(1, "j", &[])), []);
    let ended = input(&mut client, at(0), ClientInput::Reply(tag, Reply::Status(Status::ERR_NOT_FOUND)));
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_NOT_FOUND);
    assert_eq!(ended[1..], [done(2, Outcome::LookAgain)]);
    assert_eq!(client.poll_timeout(), None);
}

#[test]
fn gets_of_different_processes_do_not_wait_for_each_other() {
    let mut client = client();
    let first = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[])));
    let second = sent_tag(&call(&mut client, at(0), 2, get(2, "k", &[])));
    assert_ne!(first, second);
}

// Without a limit on the wait, a Get for an existing key would hang for ever behind a Get for a missing key. The server
// holds the first request and never learns of the second.
#[test]
fn a_get_does_not_wait_for_ever_behind_one_that_is_never_answered() {
    let mut client = client();
    let held = sent_tag(&call(&mut client, at(0), 1, get(1, "never", &[])));
    assert_eq!(call(&mut client, at(0), 2, get(1, "there", &[])), []);
    let due = client.poll_timeout().unwrap();
    let tag = sent_tag(&input(&mut client, due, ClientInput::Timeout));
    let ended = input(&mut client, due, ClientInput::Reply(tag, Reply::Data(Vec::new())));
    assert_eq!(ended, [done(2, Outcome::Answered(Vec::new().into()))]);
    assert_eq!(client.command_of(held), Some(Command::Get));
}

#[test]
fn a_get_that_joined_later_has_time_left_when_the_first_runs_out() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[timeout(5)])));
    let _ = call(&mut client, at(4000), 2, get(1, "k", &[timeout(5)]));
    let ended = input(&mut client, at(5000), ClientInput::Reply(tag, Reply::Status(Status::ERR_TIMEOUT)));
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_TIMEOUT);
    assert_eq!(ended[1..], [done(2, Outcome::LookAgain)]);
}

#[test]
fn a_get_that_gave_up_leaves_its_request_to_those_who_joined() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[timeout(1)])));
    let _ = call(&mut client, at(1500), 2, get(1, "k", &[timeout(1)]));
    let ended = input(&mut client, at(2000), ClientInput::Timeout);
    assert_eq!(error_of(&ended, 1).status(), Status::ERR_TIMEOUT);
    assert_eq!(ended.len(), 1);
    let ended = input(&mut client, at(2100), ClientInput::Reply(tag, Reply::Data(Vec::new())));
    assert_eq!(ended, [done(2, Outcome::Answered(Vec::new().into()))]);
}

#[test]
fn a_late_answer_to_nobody_is_still_received() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[timeout(1)])));
    let _ = input(&mut client, at(2000), ClientInput::Timeout);
    let late = input(&mut client, at(2100), ClientInput::Reply(tag, Reply::Data(rank_data(1, "k"))));
    assert_eq!(late, [ClientOutput::Received(rank_data(1, "k").into())]);
}

#[test]
fn a_new_segment_wakes_the_gets_held_back_for_its_namespace() {
    let mut client = client();
    let _ = call(&mut client, at(0), 1, get(1, "k", &[]));
    let _ = call(&mut client, at(0), 2, get(1, "j", &[]));
    let other = Namespace::new("other").unwrap();
    assert_eq!(input(&mut client, at(0), ClientInput::SegmentAvailable(other)), []);
    let woken = input(&mut client, at(0), ClientInput::SegmentAvailable(proc(0).namespace));
    assert_eq!(woken, [done(2, Outcome::LookAgain)]);
    assert_eq!((client.calls_in_flight(), client.poll_timeout()), (1, None));
}

#[test]
fn gets_alike_that_were_held_back_are_sent_as_one() {
    let mut client = client();
    let _ = call(&mut client, at(0), 1, get(1, "never", &[]));
    let _ = call(&mut client, at(0), 2, get(1, "k", &[]));
    let _ = call(&mut client, at(0), 3, get(1, "k", &[]));
    let due = client.poll_timeout().unwrap();
    let tag = sent_tag(&input(&mut client, due, ClientInput::Timeout));
    let ended = input(&mut client, due, ClientInput::Reply(tag, Reply::Data(Vec::new())));
    assert_eq!(ended, [2, 3].map(|id| done(id, Outcome::Answered(Vec::new().into()))));
}

#[test]
fn gets_with_other_directives_are_not_alike() {
    let mut client = client();
    let qualifier = |value: u32| Info { flags: InfoFlags::QUALIFIER.bits(), ..Info::new(Key::from_static("q"), value) };
    let _ = call(&mut client, at(0), 1, get(1, "k", &[qualifier(1)]));
    let _ = call(&mut client, at(0), 2, get(1, "k", &[qualifier(2)]));
    let _ = call(&mut client, at(0), 3, get(1, "k", &[]));
    let due = client.poll_timeout().unwrap();
    assert_eq!(input(&mut client, due, ClientInput::Timeout).len(), 2);
}

/// Regression: a server that stops waiting for a committed process reports a timeout of its own. Only one of the calls
/// that share the request got it, and the others asked again in turn.
#[test]
fn the_servers_own_time_limit_is_everybodys_answer() {
    let mut client = client();
    let tag = sent_tag(&call(&mut client, at(0), 1, get(1, "k", &[])));
    let _ = call(&mut client, at(1000), 2, get(1, "k", &[]));
    let ended = input(&mut client, at(2000), ClientInput::Reply(tag, Reply::Status(Status::ERR_TIMEOUT)));
    assert_eq!([1, 2].map(|id| error_of(&ended, id).status()), [Status::ERR_TIMEOUT; 2]);
}

fn sent_tags(outputs: &[ClientOutput]) -> Vec<Tag> {
    let tag = |output: &ClientOutput| match output {
        ClientOutput::Send(tag, _) => Some(*tag),
        _ => None,
    };
    outputs.iter().filter_map(tag).collect()
}

/// Regression: the server refused requests beyond its limit, and a process with many Gets of one process had no room
/// for a fence.
#[test]
fn the_server_gets_as_many_gets_as_it_has_room_for_and_the_others_in_their_order() {
    let mut client = ClientCore::new(proc(0), ClientConfig { gets_sent_max: 8, ..ClientConfig::default() });
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let mut tags = Vec::new();
    for (id, key) in (0..).zip(keys) {
        tags.extend(sent_tags(&call(&mut client, at(id), id, get(1, key, &[]))));
    }
    tags.extend(sent_tags(&input(&mut client, at(100), ClientInput::Timeout)));
    assert_eq!((tags.len(), client.poll_timeout()), (7, None), "one place is for other processes");
    tags.extend(sent_tags(&call(&mut client, at(100), 20, get(2, "a", &[]))));
    assert_eq!(tags.len(), 8);
    assert_eq!(call(&mut client, at(100), 21, get(3, "a", &[])), []);
    let _ = sent_tag(&call(&mut client, at(100), 22, fence(&[])));
    // The room for one request is reserved for a process without a request in flight.
    let not_found = || Reply::Status(Status::ERR_NOT_FOUND);
    let ended = input(&mut client, at(110), ClientInput::Reply(tags[7], not_found()));
    assert_eq!(error_of(&ended, 20).status(), Status::ERR_NOT_FOUND);
    assert!(client.poll_timeout().is_some_and(|due| due <= at(110)));
    let third = sent_tag(&input(&mut client, at(110), ClientInput::Timeout));
    assert_eq!(client.poll_timeout(), None);
    // Held-back Gets look again with the answer, and are sent in the next round.
    let ended = input(&mut client, at(120), ClientInput::Reply(tags[0], not_found()));
    assert_eq!(ended[1..], [done(7, Outcome::LookAgain), done(8, Outcome::LookAgain)]);
    let _ = input(&mut client, at(120), ClientInput::Reply(third, not_found()));
    for (id, key) in [(30, "h"), (31, "i")] {
        assert_eq!(call(&mut client, at(121), id, get(1, key, &[])), []);
    }
    assert_eq!(sent_tags(&input(&mut client, at(200), ClientInput::Timeout)).len(), 1, "the oldest");
    let _ = input(&mut client, at(201), ClientInput::Reply(tags[1], not_found()));
}

#[test]
fn a_get_without_room_keeps_its_time_limit() {
    let mut client = ClientCore::new(proc(0), ClientConfig { gets_sent_max: 1, ..ClientConfig::default() });
    let _ = call(&mut client, at(0), 1, get(1, "a", &[]));
    assert_eq!(call(&mut client, at(0), 2, get(2, "a", &[timeout(1)])), []);
    assert_eq!(client.poll_timeout(), Some(at(2000)));
    assert_eq!(error_of(&input(&mut client, at(2000), ClientInput::Timeout), 2).status(), Status::ERR_TIMEOUT);
    assert_eq!(client.poll_timeout(), None);
}

/// Gets of `get_count` missing keys, each answered by itself, with a client that looks again whenever an outcome says
/// so. If `is_held`, the server holds many requests at a time. Returns the number of calls and comparisons.
fn work_of(get_count: u32, is_held: bool) -> usize {
    let mut client = client();
    let ask = |number: u32, looks: u32| {
        let key = Some(Key::new(format!("k{number}")).unwrap());
        let request = GetRequest::new(Some(proc(1)), key, GetDirectives::default(), &proc(0)).unwrap();
        Call::Get(GetRequest { looks, ..request })
    };
    let (mut calls, mut rounds, mut asked) = (Vec::new(), std::collections::VecDeque::new(), Vec::new());
    rounds.extend((0..get_count).map(|number| (number, 0)));
    let (mut now, mut ended) = (0, 0);
    while ended < get_count {
        if let Some((number, looks)) = rounds.pop_front() {
            client.handle(at(now), ClientInput::Call(CallId(calls.len() as u64), ask(number, looks)));
            calls.push((number, looks));
        } else if let Some(tag) = (now > 0 || !is_held).then(|| asked.pop()).flatten() {
            client.handle(at(now), ClientInput::Reply(tag, Reply::Status(Status::ERR_NOT_FOUND)));
        } else {
            now = 50;
            client.handle(at(now), ClientInput::Timeout);
        }
        for output in outputs(&mut client) {
            match output {
                ClientOutput::Send(tag, _) => asked.push(tag),
                ClientOutput::Done(CallId(id), Ok(Outcome::LookAgain)) => {
                    let (number, looks) = calls[usize::try_from(id).unwrap()];
                    rounds.push_back((number, looks + 1));
                }
                ClientOutput::Done(..) => ended += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    calls.len() + client.gets_compared()
}

/// Regression: forty thousand Gets of one process kept a client's thread busy without end. Each was compared with all
/// sent ones, and each answer made all others look again.
#[test]
fn twice_as_many_gets_of_one_process_are_twice_the_work() {
    for is_held in [false, true] {
        let work = [250, 500, 1000, 2000].map(|get_count| work_of(get_count, is_held));
        assert!(work.windows(2).all(|pair| pair[1] <= pair[0] * 5 / 2), "{is_held}: {work:?}");
    }
}
