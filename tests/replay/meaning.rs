//! The meaning of replies, because different bytes may mean the same.

use std::collections::BTreeMap;

use modex::bfrops::{Codec, DecodeLimits, Reader, wire};
use modex::proto::Reply;
use modex::types::{Info, Kval, Value};

/// A reply in a normal form: replies with the same meaning are equal.
#[derive(Debug, PartialEq)]
pub(crate) enum Meaning {
    /// Facts by their subject and key.
    Facts(BTreeMap<(String, String), Value>),
    /// The reply itself, because there is only one form of it.
    Exactly(Reply),
}

pub(crate) fn meaning(reply: Reply, codec: Codec) -> Meaning {
    match reply {
        Reply::JobInfo { entries, .. } => Meaning::Facts(job_facts(&entries, codec)),
        Reply::Data(data) => {
            let facts = data.into_iter().flat_map(|of| {
                let about = of.proc.to_string();
                of.entries.into_iter().map(move |Kval { key, value }| ((about.clone(), key.to_string()), value))
            });
            Meaning::Facts(facts.collect())
        }
        // The captured host sent no members, so its server sent none. Clients of 5.0 and 6.1 can't dissolve a group
        // without members, so our server sends the participants.
        Reply::Group { context_id, .. } => Meaning::Facts(BTreeMap::from([(
            ("group".to_owned(), "context".to_owned()),
            Value::Size(context_id.unwrap_or(u64::MAX)),
        )])),
        other => Meaning::Exactly(other),
    }
}

/// Job information by realm.
fn job_facts(entries: &[Kval], codec: Codec) -> BTreeMap<(String, String), Value> {
    let mut facts = BTreeMap::new();
    for Kval { key, value } in entries {
        match (key.as_str(), value) {
            ("pmix.ssn.arr", value) => insert(&mut facts, "session", infos(value)),
            ("pmix.node.arr", value) => {
                let infos = infos(value);
                let name = infos.iter().find(|info| info.key.as_str() == "pmix.hname").unwrap().value.as_str().unwrap();
                insert(&mut facts, &format!("node {name}"), infos);
            }
            ("pmix.app.arr", value) => {
                let infos = infos(value);
                let number = infos[0].value.as_u32().unwrap();
                insert(&mut facts, &format!("app {number}"), infos);
            }
            ("pmix.pblob", Value::ByteObject(bytes)) => {
                let mut reader = Reader::new(bytes, codec, &DecodeLimits::default()).unwrap();
                let rank = reader.unpack::<modex::types::Rank>("rank").unwrap();
                for entry in reader.unpack_rest::<wire::Kval>("entries").unwrap() {
                    facts.insert((format!("rank {rank}"), entry.key.to_string()), entry.value);
                }
            }
            ("pmix.pdata", value) => {
                let infos = infos(value);
                let Value::ProcRank(rank) = infos[0].value else { panic!("{infos:?} is of no process") };
                insert(&mut facts, &format!("rank {rank}"), infos);
            }
            (key, value) => {
                facts.insert((realm_of(key).to_owned(), key.to_owned()), value.clone());
            }
        }
    }
    facts
}

/// The realm of a value without a subject.
fn realm_of(key: &str) -> &'static str {
    match key {
        "pmix.hname" | "pmix.nodeid" | "pmix.lpeers" | "pmix.local.size" | "pmix.node.size" | "pmix.lldr" => {
            "node node0"
        }
        "pmix.app.size" | "pmix.aldr" => "app 0",
        "pmix.session.id" | "pmix.univ.size" => "session",
        _ => "job",
    }
}

fn infos(value: &Value) -> Vec<&Info> {
    let Value::DataArray(array) = value else { panic!("{value:?} is no array") };
    array.elements.iter().map(info).collect()
}

fn info(element: &Value) -> &Info {
    let Value::Info(info) = element else { panic!("{element:?} is no info") };
    info
}

fn insert(facts: &mut BTreeMap<(String, String), Value>, about: &str, infos: Vec<&Info>) {
    facts.extend(infos.into_iter().map(|info| ((about.to_owned(), info.key.to_string()), info.value.clone())));
}
