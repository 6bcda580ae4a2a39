//! Registration and retrieval against a model of the standard's rules (`model.rs`): random jobs in random shapes. A
//! client with a segment, and one without, gets every key of every rank under every qualifier.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with the test of the C library, which uses the rest")]
mod cases;
#[path = "../support/cases.rs"]
mod how_many;
mod infos;
mod model;
#[path = "../support/mod.rs"]
mod support;
#[expect(dead_code, reason = "shared with the test of the C library, which uses the rest")]
mod words;

use std::collections::BTreeMap;
use std::ops::Range;

use cases::{Case, Dice, Put};
use infos::Question;
use model::Model;
use modex::types::{Key, ProcId, Value};
use modex::{AsStatus, Client};
use support::{TestServer, namespace, proc};

/// Usual numbers of cases, and of questions for each. All keys, ranks and qualifiers occur in a hundred cases: some for
/// clients with segments, the others for clients without.
const CASES: u32 = 60;
const CASES_OVER_TCP: u32 = 40;
const CASES_IN_SESSIONS: u32 = 6;
const QUESTIONS: usize = 700;

fn answer(client: &Client, question: &Question) -> String {
    let proc = question.proc.as_ref().map(|(name, rank)| ProcId { namespace: namespace(name), rank: *rank });
    let key = (question.key != "-").then(|| Key::new(question.key.clone()).unwrap());
    match client.find(proc, key, &question.qualifiers) {
        Ok(found) => words::value(&sorted(found.into_value().unwrap())),
        Err(error) => error.status().to_raw().to_string(),
    }
}

/// Everything of a process, sorted by key.
fn sorted(mut found: Value) -> Value {
    if let Value::DataArray(array) = &mut found {
        array.elements.sort_by_key(words::element);
    }
    found
}

/// Makes the puts of the processes. The other process stays, because Gets may wait for it.
fn put(node: &TestServer, client: &Client, puts: &[Put], model: &mut Model) -> Option<Client> {
    let neighbour = puts.iter().map(|put| put.rank).find(|rank| *rank != 0);
    let neighbour = neighbour.map(|rank| {
        node.register_client("job", rank);
        node.connect("job", rank)
    });
    for put in puts {
        let of = if put.rank == 0 { client } else { neighbour.as_ref().unwrap() };
        of.put(put.scope, put.key, put.value.clone()).unwrap();
        model.puts.push((proc("job", put.rank), put.scope, put.key.to_owned(), put.value.clone()));
    }
    client.commit().unwrap();
    neighbour.inspect(|neighbour| neighbour.commit().unwrap())
}

#[test]
fn a_client_answers_as_the_standard_says() {
    answers_as_the_standard_says(0..number(CASES), |node| {
        let client = node.connect("job", 0);
        assert!(client.reads_segment());
        client
    });
}

#[test]
fn a_client_without_a_segment_answers_as_the_standard_says() {
    let first = number(CASES);
    answers_as_the_standard_says(first..first + number(CASES_OVER_TCP), |node| node.connect_over_tcp("job", 0));
}

/// This many cases, scaled by the requested number.
fn number(cases: u32) -> u64 {
    how_many::cases(cases).cases.into()
}

/// A process without a segment had no values of other sessions than its job's. It found such a value only if it could
/// ask. With nothing but another session's number, it found its own session's value.
#[test]
fn a_client_without_a_segment_knows_of_sessions_what_one_with_a_segment_does() {
    let mut found_in_others = 0;
    // This many cases find more than a hundred values; fewer cases may not.
    let cases = number(CASES_IN_SESSIONS).max(CASES_IN_SESSIONS.into());
    for case in (0..cases).map(Case::random) {
        let node = TestServer::start("n0", modex::LocalHost);
        for register in &case.registrations {
            let infos = register.infos.clone();
            node.server.register_namespace(&namespace(register.namespace), register.local_count, infos).wait().unwrap();
        }
        node.register_client("job", 0);
        let (near, far) = (node.connect("job", 0), node.connect_over_tcp("job", 0));
        let is_of_session =
            |question: &&Question| question.qualifiers.iter().any(|info| info.key.as_str() == "pmix.ssn.info");
        for question in case.questions.iter().filter(is_of_session) {
            let mut unasked = question.clone();
            unasked.qualifiers.push(cases::info("pmix.optional", true));
            let mut by_number = question.clone();
            by_number.qualifiers.retain(|info| info.key.as_str() != "pmix.ssn.info");
            for question in [unasked, by_number] {
                let (one, other) = (answer(&near, &question), answer(&far, &question));
                assert_eq!(one, other, "{}\n{}", words::question(&question), cases::description(&case));
                let is_of_other = question.qualifiers.iter().any(|info| info.value == Value::Uint32(8));
                found_in_others += usize::from(is_of_other && one.parse::<i32>().is_err());
            }
        }
    }
    assert!(found_in_others > 100, "{found_in_others}");
}

fn answers_as_the_standard_says(seeds: Range<u64>, connect: impl Fn(&TestServer) -> Client) {
    let mut differences: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let one = std::option_env!("MODEX_CASE").map(|case| case.parse().unwrap());
    for seed in one.map_or(seeds, |seed| seed..seed + 1) {
        let case = Case::random(seed);
        let node = TestServer::start("n0", modex::LocalHost);
        let mut model = Model { hostname: "n0", ..Model::default() };
        for register in &case.registrations {
            let name = namespace(register.namespace);
            let registered = node.server.register_namespace(&name, register.local_count, register.infos.clone()).wait();
            registered.unwrap_or_else(|error| panic!("case {seed}: {error}\n{}", cases::description(&case)));
            model.register(register.namespace, &register.infos);
        }
        node.register_client("job", 0);
        let client = connect(&node);
        let neighbour = put(&node, &client, &case.puts, &mut model);
        let mut questions = case.questions.clone();
        Dice::new(seed).shuffle(&mut questions);
        for question in questions.iter().take(QUESTIONS) {
            let expected = model.get(&proc("job", 0), question);
            let expected =
                expected.map_or_else(|status| status.to_raw().to_string(), |value| words::value(&sorted(value)));
            let found = answer(&client, question);
            if found != expected {
                let keys: Vec<&str> = question.qualifiers.iter().map(|info| info.key.as_str()).collect();
                let whose = question.proc.as_ref().map(|(name, rank)| {
                    format!("{name}:{}", if rank.process().is_some() { "r".to_owned() } else { rank.to_string() })
                });
                let class = format!("{} of {whose:?} {keys:?}", question.key);
                let text = format!(
                    "case {seed}: {}: expected {expected}, found {found}",
                    words::question(question).trim_end()
                );
                differences.entry(class).or_insert((0, text)).0 += 1;
            }
        }
        neighbour.into_iter().for_each(|neighbour| neighbour.finalize().unwrap());
        client.finalize().unwrap();
    }
    let list: Vec<String> = differences.values().map(|(count, text)| format!("{count} x {text}")).collect();
    assert!(list.is_empty(), "{} kinds of differences:\n{}", list.len(), list.join("\n"));
}

/// The rules must fit on a few pages, so that readers can compare them with the standard.
#[test]
fn the_model_is_small() {
    let lines = include_str!("model.rs").lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 450, "{lines} lines");
}
