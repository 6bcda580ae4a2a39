//! Tests of the client core through its public functions.

mod ending;
mod gets;
mod properties;
mod requests;

use std::time::Duration;

use super::*;
use crate::proto::{self, Abort, Collective, Command, Commit, Get, RankData, Reply, Request, Tag};
use crate::types::{AsStatus, Info, InfoFlags, Key, Kval, Namespace, ProcId, Rank, Status, Text, Time, Value};

fn proc(rank: impl Into<Rank>) -> ProcId {
    ProcId::new(Namespace::new("job").unwrap(), rank)
}

fn client() -> ClientCore {
    ClientCore::new(proc(0), ClientConfig::default())
}

fn at(milliseconds: u64) -> Time {
    Time::ZERO + Duration::from_millis(milliseconds)
}

fn call(client: &mut ClientCore, now: Time, id: u64, call: Call) -> Vec<ClientOutput> {
    client.handle(now, ClientInput::Call(CallId(id), call));
    outputs(client)
}

fn input(client: &mut ClientCore, now: Time, input: ClientInput) -> Vec<ClientOutput> {
    client.handle(now, input);
    outputs(client)
}

fn outputs(client: &mut ClientCore) -> Vec<ClientOutput> {
    std::iter::from_fn(|| client.poll_output()).collect()
}

fn fence(infos: &[Info]) -> Call {
    Call::Fence { procs: Vec::new(), directives: FenceDirectives::parse(infos).unwrap() }
}

fn get(rank: u32, key: &'static str, infos: &[Info]) -> Call {
    let directives = GetDirectives::parse(infos).unwrap();
    Call::Get(GetRequest::new(Some(proc(rank)), Some(Key::from_static(key)), directives, &proc(0)).unwrap())
}

fn timeout(seconds: i32) -> Info {
    Info::new(Key::from_static(attribute::TIMEOUT), seconds)
}

fn rank_data(rank: u32, key: &'static str) -> Vec<RankData> {
    vec![RankData { proc: proc(rank), entries: vec![Kval { key: Key::from_static(key), value: Value::Uint32(rank) }] }]
}

fn sent_tag(outputs: &[ClientOutput]) -> Tag {
    match outputs {
        [ClientOutput::Send(tag, _)] => *tag,
        other => panic!("not one request: {other:?}"),
    }
}

fn done(id: u64, outcome: Outcome) -> ClientOutput {
    ClientOutput::Done(CallId(id), Ok(outcome))
}

fn error_of(outputs: &[ClientOutput], id: u64) -> CallError {
    let of_call = |output: &ClientOutput| match output {
        ClientOutput::Done(call, Err(error)) if *call == CallId(id) => Some(error.clone()),
        _ => None,
    };
    outputs.iter().find_map(of_call).unwrap()
}
