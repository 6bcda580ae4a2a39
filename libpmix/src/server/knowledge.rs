//! Queries that this library answers itself: process sets, and attributes that the host supports.
//!
//! A key that is repeated in one query is answered once. An answer above the memory limit is refused. Keys without an
//! answer here go to the host. Results are a flat list of the found keys, as the reference's hosts and tools expect.

use std::collections::BTreeSet;

use modex::keys::{self, TypedKey};
use modex::types::{DataArray, DataType, Info, Key, ProcId, Query, Regattr, Status, Text, Value, footprint};
use modex::{QueryInfo, Requester};

use super::state::{self, ServerProcess};
use super::upcall::{Bridge, Due};
use crate::guard::Failure;

/// Answers the queries that this library knows, and passes the rest to the host.
pub(super) fn query(bridge: &Bridge, requester: Requester, request: QueryInfo, due: Due) {
    let QueryInfo { queries } = request;
    let divided = match state::current() {
        Ok(process) => divide(&process, queries),
        Err(Failure(_)) => Ok((Vec::new(), queries)),
    };
    let (found, rest) = match divided {
        Ok(divided) => divided,
        Err(status) => return due.give_infos(status, Vec::new()),
    };
    if rest.is_empty() {
        return due.give_infos(Status::SUCCESS, found);
    }
    let due = if found.is_empty() { due } else { due.with_infos(found) };
    bridge.query(requester, QueryInfo::new(rest), due);
}

/// Splits queries into found answers and queries for the host.
fn divide(process: &ServerProcess, queries: Vec<Query>) -> Result<(Vec<Info>, Vec<Query>), Status> {
    let mut found = Answers::default();
    let mut rest = Vec::new();
    for Query { mut keys, qualifiers } in queries {
        let mut seen = BTreeSet::new();
        keys.retain(|key| seen.insert(key.clone()));
        if keys.first().is_some_and(|key| is(key, keys::QUERY_ATTRIBUTE_SUPPORT)) {
            let before = found.infos.len();
            for function in keys.iter().skip(1) {
                supported(process, function).map_or(Ok(()), |info| found.push(info))?;
            }
            if found.infos.len() == before {
                rest.push(Query { keys, qualifiers });
            }
            continue;
        }
        let mut open = Vec::new();
        for key in keys {
            match about_sets(process, &key, &qualifiers) {
                Some(info) => found.push(info)?,
                None => open.push(key),
            }
        }
        if !open.is_empty() {
            rest.push(Query { keys: open, qualifiers });
        }
    }
    Ok((found.infos, rest))
}

/// Answers so far, and their size in memory.
#[derive(Default)]
struct Answers {
    infos: Vec<Info>,
    size_bytes: usize,
}

impl Answers {
    fn push(&mut self, info: Info) -> Result<(), Status> {
        let size_bytes = footprint(&info.value).and_then(|size_bytes| self.size_bytes.checked_add(size_bytes));
        self.size_bytes = size_bytes.filter(|&sum| sum <= ANSWER_BYTES_MAX).ok_or(Status::ERR_OUT_OF_RESOURCE)?;
        self.infos.push(info);
        Ok(())
    }
}

/// Limit of the answers to one request, in bytes of memory. The core has the same limit.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Facts about process sets. `None` without any set here: the host may know some.
fn about_sets(process: &ServerProcess, key: &Text, qualifiers: &[Info]) -> Option<Info> {
    let sets = process.process_sets.lock();
    if sets.is_empty() {
        return None;
    }
    let info = |key: &'static str, value: Value| Some(Info::new(Key::from_static(key), value));
    if is(key, keys::QUERY_NUM_PSETS) {
        return info(keys::QUERY_NUM_PSETS.name(), Value::Size(u64::try_from(sets.len()).unwrap_or(u64::MAX)));
    }
    if is(key, keys::QUERY_PSET_NAMES) {
        let names: Vec<&str> = sets.keys().map(String::as_str).collect();
        return info(keys::QUERY_PSET_NAMES.name(), Value::from(names.join(",").as_str()));
    }
    if is(key, keys::QUERY_PSET_MEMBERSHIP) {
        let name = qualifiers.iter().find(|info| info.key.as_str() == keys::PSET_NAME.name())?.value.as_str()?;
        return info(keys::QUERY_PSET_MEMBERSHIP.name(), processes(sets.get(name)?));
    }
    None
}

/// An array of processes.
pub(super) fn processes(procs: &[ProcId]) -> Value {
    let elements = procs.iter().cloned().map(Value::from).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }))
}

/// The attributes that the host has registered for a function, under the host's level.
fn supported(process: &ServerProcess, function: &Text) -> Option<Info> {
    let known = process.attributes.lock();
    let name = function.to_str().ok()?;
    let elements = known.get(name)?.iter().map(|attribute| Value::Regattr(Box::new(described(attribute)))).collect();
    let attributes = Value::DataArray(Box::new(DataArray { element_type: DataType::Regattr, elements }));
    let level = Info::new(Key::from_static(keys::HOST_ATTRIBUTES.name()), attributes);
    Some(Info::new(Key::new(name.to_owned()).ok()?, Value::info_array(vec![level])))
}

/// An attribute, found by its macro's name or its key string, with the data of our table.
fn described(attribute: &str) -> Regattr {
    let known = keys::by_macro(attribute).or_else(|| keys::by_name(attribute));
    let data_type = known.map_or(DataType::Undefined, |known| known.value_type.data_type());
    Regattr {
        name: Some(Text::from(known.map_or(attribute, |known| known.macro_name))),
        key: Text::from(known.map_or(attribute, |known| known.name)),
        data_type: data_type.to_raw(),
        description: known.into_iter().map(|known| Text::from(known.meaning)).collect(),
    }
}

fn is<T: ?Sized>(text: &Text, key: TypedKey<T>) -> bool {
    text.as_bytes() == key.name().as_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use modex::Server;
    use modex::types::Namespace;

    use super::*;
    use crate::server::upcall::ModuleHost;
    use crate::types::pmix_server_module_t;

    fn process(directory: &std::path::Path) -> ServerProcess {
        let bridge = Arc::new(Bridge::new(pmix_server_module_t::default(), Default::default()));
        let server = Server::builder().tmpdir(directory).start(ModuleHost::new(Arc::clone(&bridge))).unwrap();
        ServerProcess::new(server, bridge, Arc::default())
    }

    fn ask(keys: &[&str], qualifiers: Vec<Info>) -> Vec<Query> {
        vec![Query { keys: keys.iter().map(|key| Text::from(*key)).collect(), qualifiers }]
    }

    /// Regression: the host's definitions were noted, but no query was answered from them.
    #[test]
    fn queries_find_process_sets_and_the_hosts_attributes() {
        let directory = tempfile::tempdir().unwrap();
        let process = process(directory.path());
        let names = [keys::QUERY_NUM_PSETS.name(), keys::QUERY_PSET_NAMES.name()];
        assert_eq!(
            divide(&process, ask(&names, Vec::new())).unwrap(),
            (Vec::new(), ask(&names, Vec::new())),
            "the host may know"
        );
        let members = vec![ProcId::new(Namespace::new("job").unwrap(), 3)];
        process.process_sets.lock().insert("odd".into(), members.clone());
        process.process_sets.lock().insert("even".into(), Vec::new());
        let (found, rest) = divide(&process, ask(&[names[0], "pmix.qry.ns", names[1]], Vec::new())).unwrap();
        let values: Vec<Value> = found.into_iter().map(|info| info.value).collect();
        assert_eq!(values, [Value::Size(2), Value::from("even,odd")]);
        assert_eq!(rest, ask(&["pmix.qry.ns"], Vec::new()));
        let named = |name: &str| vec![Info::new(Key::from_static(keys::PSET_NAME.name()), name)];
        let (found, _) = divide(&process, ask(&[keys::QUERY_PSET_MEMBERSHIP.name()], named("odd"))).unwrap();
        assert_eq!(found[0].value, processes(&members));
        let (found, rest) = divide(&process, ask(&[keys::QUERY_PSET_MEMBERSHIP.name()], named("none"))).unwrap();
        assert_eq!((found.len(), rest.len()), (0, 1));
        process.attributes.lock().insert("PMIx_Spawn".into(), vec!["PMIX_TIMEOUT".into(), "host.own".into()]);
        let (found, rest) =
            divide(&process, ask(&[keys::QUERY_ATTRIBUTE_SUPPORT.name(), "PMIx_Spawn"], Vec::new())).unwrap();
        let regattrs = [described("pmix.timeout"), described("host.own")];
        assert_eq!((regattrs[0].data_type, regattrs[1].data_type), (DataType::Int.to_raw(), 0));
        let elements = regattrs.map(|attribute| Value::Regattr(Box::new(attribute))).to_vec();
        let attributes = Value::DataArray(Box::new(DataArray { element_type: DataType::Regattr, elements }));
        let level = Info::new(Key::from_static(keys::HOST_ATTRIBUTES.name()), attributes);
        assert_eq!(found, [Info::new(Key::from_static("PMIx_Spawn"), Value::info_array(vec![level]))]);
        assert_eq!(rest, []);
    }

    /// Regression: every repetition of a key was answered, and the size was measured only afterwards.
    #[test]
    fn repeated_questions_are_answered_once_and_answers_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let process = process(directory.path());
        process.process_sets.lock().insert("odd".into(), Vec::new());
        let (found, rest) = divide(&process, ask(&[keys::QUERY_NUM_PSETS.name(); 3], Vec::new())).unwrap();
        assert_eq!((found.len(), rest.len()), (1, 0));
        let info = || Info::new(Key::from_static("a"), vec![0_u8; 20]);
        let size_bytes = footprint(&info().value).unwrap();
        let mut answers = Answers { infos: Vec::new(), size_bytes: ANSWER_BYTES_MAX - size_bytes };
        assert_eq!(answers.push(info()), Ok(()));
        assert_eq!((answers.push(info()), answers.infos.len()), (Err(Status::ERR_OUT_OF_RESOURCE), 1));
    }

    #[test]
    fn what_the_host_does_not_know_makes_an_answer_partial() {
        let known = vec![Info::new(Key::from_static("a"), 1_u32)];
        for (said, expected) in
            [(Status::SUCCESS, Status::SUCCESS), (Status::ERR_NOT_SUPPORTED, Status::ERR_PARTIAL_SUCCESS)]
        {
            let (send, receive) = mpsc::channel();
            let due = Due::Infos(Box::new(move |status, infos| send.send((status, infos)).unwrap()));
            due.with_infos(known.clone()).give_infos(said, Vec::new());
            assert_eq!(receive.recv().unwrap(), (expected, known.clone()));
        }
    }
}
