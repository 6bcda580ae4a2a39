//! Gets by a group's name: the members' values by their ranks in it, and their contributions, between real sockets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/groups.rs"]
mod common;
mod support;

use std::sync::{Arc, mpsc};
use std::thread;

use common::{everybody, hearing, info, job};
use modex::types::AsStatus;
use modex::types::{Info, ProcId, Query, Rank, Scope, Status, Text, Value};
use modex::{Client, GetError, GetOptions, keys};
use support::{namespace, proc};

/// Without a fence; the group distinguishes the values.
#[test]
fn members_read_each_others_own_numbers_and_the_groups_by_its_name() {
    let (_node, clients) = job(2);
    for (group, first) in [("g", 10), ("h", 20)] {
        thread::scope(|scope| {
            for (number, client) in (first..).zip(&clients) {
                let own = info(keys::GROUP_LOCAL_CID.name(), Value::Size(number));
                let wish = info(keys::GROUP_ASSIGN_CONTEXT_ID.name(), true);
                scope.spawn(move || client.group_construct(group, everybody(2), vec![own, wish]).wait().unwrap());
            }
        });
    }
    for client in &clients {
        for (group, first) in [("g", 10), ("h", 20)] {
            let named = || GetOptions::new().info(info(keys::GROUP_ID.name(), group));
            for rank in 0..2 {
                let number = client.get_value(&proc("job", rank), keys::GROUP_LOCAL_CID.name(), &named()).unwrap();
                assert_eq!(number.as_u64(), Some(first + u64::from(rank)), "{group}");
            }
            let number = client.get_value(client.proc(), keys::GROUP_CONTEXT_ID.name(), &named()).unwrap();
            assert_eq!(number.as_u64(), Some(if group == "g" { 1 } else { 2 }));
        }
        let names = client.get_value(&proc("job", 1), keys::GROUP_NAMES.name(), &GetOptions::new()).unwrap();
        assert_eq!(names.into_value().unwrap(), texts(&["g", "h"]));
    }
    clients[1].group_leave("h", Vec::new()).wait().unwrap();
    let names = clients[0].get_value(&proc("job", 1), keys::GROUP_NAMES.name(), &GetOptions::new()).unwrap();
    assert_eq!(names.into_value().unwrap(), texts(&["g"]), "asked again, not remembered");
}

/// Each process puts its own `port`, 70 and up. All of them form "g", in another order than that of their ranks.
fn form_with_ports(clients: &[Arc<Client>]) {
    let order = [2, 0, 1].map(|rank| proc("job", rank)).to_vec();
    thread::scope(|scope| {
        for (port, client) in (70_u32..).zip(clients) {
            let order = order.clone();
            scope.spawn(move || {
                client.put(Scope::Global, "port", port).unwrap();
                client.commit().unwrap();
                client.group_construct("g", order, Vec::new()).wait().unwrap();
            });
        }
    });
}

/// The server resolves the member each time; the found value is the member's own.
#[test]
fn a_member_is_read_by_its_rank_in_the_group() {
    let (_node, clients) = job(3);
    form_with_ports(&clients);
    let in_group = |rank: Rank| ProcId { namespace: namespace("g"), rank };
    let client = &clients[0];
    let members = client.group_construct("alone", vec![proc("job", 0)], Vec::new()).wait().unwrap().results.members;
    let read = |proc: &ProcId, key: &str| {
        let waits = client.get_value(proc, key, &GetOptions::new()).map(|value| value.as_u64());
        let (tell, told) = mpsc::channel();
        let callback = move |result: Result<Value, GetError>| tell.send(result).unwrap();
        client.pending_get(proc, key, &GetOptions::new()).then(callback).unwrap();
        let told = told.recv().unwrap().map(|value| value.as_u64());
        assert_eq!(waits.clone().map_err(|error| error.status()), told.map_err(|error| error.status()));
        waits.map_err(|error| error.status())
    };
    assert_eq!(members, [proc("job", 0)]);
    let alone = ProcId { namespace: namespace("alone"), rank: Rank::Wildcard };
    assert_eq!(read(&alone, "port"), Ok(Some(70)), "all of it is one process");
    let ranks = formed_order(client);
    for (rank, member) in (0_u32..).zip(&ranks) {
        let port = 70 + u64::from(member.rank.process().unwrap());
        assert_eq!(read(&in_group(Rank::from(rank)), "port"), Ok(Some(port)));
        let rank_in_job = read(&in_group(Rank::from(rank)), keys::RANK.name());
        assert_eq!(rank_in_job, Ok(Some(port - 70)), "what the job's description says of it");
    }
    assert_eq!(read(&in_group(Rank::Wildcard), "port"), Err(Status::ERR_BAD_PARAM), "three processes");
    assert_eq!(read(&in_group(Rank::from(3)), "port"), Err(Status::ERR_NOT_FOUND));

    let heard = hearing(client, &[Status::GROUP_LEFT]);
    clients[1].group_leave("g", Vec::new()).wait().unwrap();
    heard.recv().unwrap();
    let left: Vec<_> = ranks.iter().filter(|member| **member != proc("job", 1)).collect();
    for (rank, member) in (0_u32..).zip(left) {
        let port = 70 + u64::from(member.rank.process().unwrap());
        assert_eq!(read(&in_group(Rank::from(rank)), "port"), Ok(Some(port)), "those who are left");
    }
}

/// `PMIX_OPTIONAL` asks no server. But a Get of a member with it asked the server for the members, and failed without
/// one.
#[test]
fn a_member_is_read_by_its_rank_from_what_is_here() {
    let (node, clients) = job(3);
    form_with_ports(&clients);
    let client = &clients[0];
    let member = |rank: u32| ProcId::new(namespace("g"), rank);
    let read = |rank: u32| {
        let optional = GetOptions::new().optional();
        let found = client.get_value(&member(rank), "port", &optional).map(|value| value.as_u64());
        let (tell, told) = mpsc::channel();
        let callback = move |result: Result<Value, GetError>| tell.send(result.map(|value| value.as_u64())).unwrap();
        client.pending_get(&member(rank), "port", &optional).then(callback).unwrap();
        assert_eq!(found, told.recv().unwrap());
        found
    };
    let port = |member: &ProcId| Ok(Some(70 + u64::from(member.rank.process().unwrap())));
    let formed = formed_order(client);
    for (rank, member) in (0..).zip(&formed) {
        assert_eq!(read(rank), port(member));
    }
    // The members of the server's last answer count: it was asked since.
    let heard = hearing(client, &[Status::GROUP_LEFT]);
    clients[1].group_leave("g", Vec::new()).wait().unwrap();
    heard.recv().unwrap();
    assert_eq!(read(2), port(&formed[2]), "nobody has told this process otherwise");
    assert_eq!(client.get_value(&member(2), "port", &GetOptions::new()).unwrap_err().status(), Status::ERR_NOT_FOUND);
    assert_eq!(read(2).unwrap_err().status(), Status::ERR_NOT_FOUND);
    drop(clients.iter().skip(1).map(Arc::clone).collect::<Vec<_>>());
    drop(node);
    let (left, first) =
        (formed_without(&formed, 1), client.get_value(&member(0), "port", &GetOptions::new().optional()));
    assert_eq!(first.map(|value| value.as_u64()), port(&left[0]), "there is no server any more");
}

fn formed_without(formed: &[ProcId], rank: u32) -> Vec<ProcId> {
    formed.iter().filter(|member| **member != proc("job", rank)).cloned().collect()
}

/// A group has taken the name of a job that its members do not know. The name means the job, in a Get as in the
/// server's collectives, whether the job has the value or not.
#[test]
fn a_groups_name_that_a_job_has_means_the_job() {
    let (node, clients) = job(2);
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(move || {
                client.put(Scope::Global, "port", 70_u32).unwrap();
                client.commit().unwrap();
                let everybody = vec![ProcId { namespace: namespace("job"), rank: Rank::Wildcard }];
                client.group_construct("late", everybody, Vec::new()).wait().unwrap();
            });
        }
    });
    let read = |key: &str| {
        let (asked, options) = (proc("late", 0), GetOptions::new().immediate());
        let found = clients[0].get_value(&asked, key, &options).map(|value| value.as_u64());
        let (tell, told) = mpsc::channel();
        let callback = move |result: Result<Value, GetError>| tell.send(result.map(|value| value.as_u64())).unwrap();
        clients[0].pending_get(&asked, key, &options).then(callback).unwrap();
        let told = told.recv().unwrap();
        assert_eq!(found.clone().map_err(|error| error.status()), told.map_err(|error| error.status()));
        found.map_err(|error| error.status())
    };
    assert_eq!(read("port"), Ok(Some(70)), "the member's");
    node.register_local_job("late", 1);
    let process = node.connect("late", 0);
    process.put(Scope::Global, "door", 9_u32).unwrap();
    process.commit().unwrap();
    assert_eq!(read("door"), Ok(Some(9)), "the process's of that job");
    assert_eq!(read("port"), Err(Status::ERR_NOT_FOUND), "not the member's");
    process.group_construct("alone", vec![proc("late", 0)], Vec::new()).wait().unwrap();
    node.server.deregister_namespace(&namespace("late")).wait().unwrap();
    assert_eq!(read("port"), Ok(Some(70)), "the job is gone");
}

/// The members of `g` in the order of their ranks in it.
fn formed_order(client: &Client) -> Vec<ProcId> {
    let of_group = vec![info(keys::GROUP_ID.name(), "g")];
    let query = Query { keys: vec![Text::from(keys::QUERY_GROUP_MEMBERSHIP.name())], qualifiers: of_group };
    let answer = client.query(vec![query]).wait().unwrap().results;
    let [Info { value: Value::DataArray(members), .. }] = answer.as_slice() else { panic!("{answer:?}") };
    let proc = |value: &Value| if let Value::Proc(proc) = value { (**proc).clone() } else { panic!("{value:?}") };
    members.elements.iter().map(proc).collect()
}

fn texts(texts: &[&str]) -> Value {
    let elements = texts.iter().map(|text| Value::from(*text)).collect();
    Value::DataArray(Box::new(modex::types::DataArray { element_type: modex::types::DataType::String, elements }))
}
