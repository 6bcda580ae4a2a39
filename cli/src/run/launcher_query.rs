//! Queries that the launcher answers (`PMIx_Query_info`): what its jobs wait for, and facts that only it knows. The
//! server answers all others.
//!
//! Source: PMIx Standard, chapter on queries.

use std::collections::{BTreeMap, BTreeSet};

use modex::types::{DataArray, DataType, Info, Key, Namespace, Pdata, ProcId, Query, Status, Text, Value};
use modex::{QueryInfo, keys};

/// The key of a query for the texts about the operations that wait.
pub(crate) const OPERATIONS: &str = "modex.operations";

/// The key of a query for the requests of each connected rank: an array of `pmix_pdata_t` with the process and its
/// count.
pub(crate) const REQUEST_COUNTS: &str = "modex.requests";

/// A fact that the launcher knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fact {
    /// The operations that wait, as texts.
    Operations,
    /// The number of requests of each connected rank.
    RequestCounts,
    /// The status of a job that runs: success, or the reason of its end.
    JobStatus,
    /// Seconds until the time limit.
    TimeRemaining,
    /// Each job and its command lines.
    NamespaceInfo,
}

impl Fact {
    const ALL: [Self; 5] =
        [Self::Operations, Self::RequestCounts, Self::JobStatus, Self::TimeRemaining, Self::NamespaceInfo];

    /// The keys of all facts.
    pub(super) fn keys() -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().map(Self::key)
    }

    const fn key(self) -> &'static str {
        match self {
            Self::Operations => OPERATIONS,
            Self::RequestCounts => REQUEST_COUNTS,
            Self::JobStatus => keys::QUERY_JOB_STATUS.name(),
            Self::TimeRemaining => keys::TIME_REMAINING.name(),
            Self::NamespaceInfo => keys::QUERY_NAMESPACE_INFO.name(),
        }
    }

    /// Whether this fact depends on a qualifier, or honours it anyway.
    fn honours(self, qualifier: &str) -> bool {
        const OF_JOB: [&str; 2] = [keys::NSPACE.name(), keys::PROCID.name()];
        // The client honours the time limit, and facts are always new.
        [keys::TIMEOUT.name(), keys::QUERY_REFRESH_CACHE.name()].contains(&qualifier)
            || (self == Self::JobStatus && OF_JOB.contains(&qualifier))
    }

    /// The subject of this fact in a query. `None`: the launcher can't tell it.
    fn subject(self, query: &Query, requester: &ProcId) -> Option<Subject> {
        match self {
            Self::JobStatus => Some(Subject::Job(job(query, requester)?)),
            Self::Operations | Self::RequestCounts | Self::TimeRemaining | Self::NamespaceInfo => {
                Some(Subject::Launcher)
            }
        }
    }

    /// The fact that a key of a query asks for, and its subject. Others are left to the server. It also answers queries
    /// with qualifiers that the launcher does not honour.
    fn of(key: &Text, query: &Query, requester: &ProcId) -> Option<(Self, Subject)> {
        let fact = Self::ALL.into_iter().find(|fact| fact.key().as_bytes() == key.as_bytes())?;
        if query.qualifiers.iter().any(|info| keys::is_unmet(info, |key| fact.honours(key))) {
            return None;
        }
        Some((fact, fact.subject(query, requester)?))
    }

    /// The answer to a query for this fact.
    pub(super) fn info(self, value: Value) -> Info {
        Info::new(Key::from_static(self.key()), value)
    }
}

/// The subject of a fact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// The launcher, or all of its jobs.
    Launcher,
    Job(Namespace),
}

/// A query for facts of the launcher.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LauncherQuery {
    /// Each fact, and its subject.
    pub(super) facts: BTreeSet<(Fact, Subject)>,
    /// Whether it has keys that the server answers.
    has_others: bool,
}

impl LauncherQuery {
    /// Reads a query. `None`: it asks for no fact of the launcher.
    pub(super) fn read(requester: &ProcId, request: &QueryInfo) -> Option<Self> {
        let mut query = Self { facts: BTreeSet::new(), has_others: false };
        for one in &request.queries {
            for key in &one.keys {
                match Fact::of(key, one, requester) {
                    Some(fact) => drop(query.facts.insert(fact)),
                    None => query.has_others = true,
                }
            }
        }
        (!query.facts.is_empty()).then_some(query)
    }

    /// The status of an answer with this number of facts. The server adds the answers to other keys.
    pub(super) fn status(&self, known: usize) -> Status {
        match known {
            _ if !self.has_others && known == self.facts.len() => Status::SUCCESS,
            0 if !self.has_others => Status::ERR_NOT_FOUND,
            _ => Status::ERR_PARTIAL_SUCCESS,
        }
    }
}

fn qualifier<'a>(query: &'a Query, key: &str) -> Option<&'a Value> {
    query.qualifiers.iter().find(|info| info.key.as_str() == key).map(|info| &info.value)
}

/// The job that the qualifiers name, else that of the requester. `None`: the name is not valid.
fn job(query: &Query, requester: &ProcId) -> Option<Namespace> {
    match qualifier(query, keys::PROCID.name()) {
        Some(Value::Proc(proc)) => return Some(proc.namespace.clone()),
        Some(_) => return None,
        None => {}
    }
    match qualifier(query, keys::NSPACE.name()) {
        Some(Value::ProcNamespace(name)) => Some(name.clone()),
        Some(name) => Namespace::new(name.as_str()?).ok(),
        None => Some(requester.namespace.clone()),
    }
}

/// The value of [`Fact::Operations`].
pub(super) fn operations(texts: &[String]) -> Value {
    array(DataType::String, texts.iter().map(|text| Value::from(text.as_str())).collect())
}

/// The value of [`Fact::RequestCounts`].
pub(super) fn request_counts(counts: BTreeMap<ProcId, u64>) -> Value {
    let key = Key::from_static(REQUEST_COUNTS);
    let pdata = |(proc, count): (ProcId, u64)| Pdata { proc, key: key.clone(), value: Value::Uint64(count) };
    array(DataType::Pdata, counts.into_iter().map(pdata).map(|pdata| Value::Pdata(Box::new(pdata))).collect())
}

/// The value of [`Fact::NamespaceInfo`]: for each job its name and the command line of each program.
pub(super) fn namespaces(jobs: impl Iterator<Item = (Namespace, Vec<String>)>) -> Value {
    let element = |(namespace, commands): (Namespace, Vec<String>)| {
        let name = Info::new(Key::from_static(keys::NSPACE.name()), namespace.as_str());
        let command = |line: String| Info::new(Key::from_static(keys::CMD_LINE.name()), line.as_str());
        let infos = std::iter::once(name).chain(commands.into_iter().map(command)).collect();
        Info::new(Key::from_static(keys::JOB_INFO_ARRAY.name()), Value::info_array(infos))
    };
    Value::info_array(jobs.map(element).collect())
}

fn array(element_type: DataType, elements: Vec<Value>) -> Value {
    Value::DataArray(Box::new(DataArray { element_type, elements }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use modex::types::InfoFlags;

    fn requester() -> ProcId {
        ProcId::new(Namespace::new("own").unwrap(), 0)
    }

    fn read(keys: &[&str], qualifiers: Vec<Info>) -> Option<LauncherQuery> {
        let keys = keys.iter().map(|key| Text::from(*key)).collect();
        LauncherQuery::read(&requester(), &QueryInfo::new(vec![Query { keys, qualifiers }]))
    }

    #[test]
    fn a_fact_is_about_the_named_job_or_that_of_the_requester() {
        let (status, namespaces) = (keys::QUERY_JOB_STATUS.name(), keys::QUERY_NAMESPACES.name());
        let qualifier = |key: &'static str, value: Value| vec![Info::new(Key::from_static(key), value)];
        let proc = Value::from(ProcId::new(Namespace::new("b").unwrap(), 3));
        for (qualifiers, job) in [
            (Vec::new(), "own"),
            (qualifier(keys::NSPACE.name(), Value::from("a")), "a"),
            (qualifier(keys::PROCID.name(), proc), "b"),
        ] {
            let query = read(&[status, status], qualifiers).unwrap();
            let job = Namespace::new(job).unwrap();
            assert_eq!(query.facts.into_iter().collect::<Vec<_>>(), [(Fact::JobStatus, Subject::Job(job))]);
        }
        assert_eq!(read(&[namespaces], Vec::new()), None);
    }

    /// 4,096 queries with other names of jobs made the launcher collect the same fact as often.
    #[test]
    fn a_fact_without_a_job_is_asked_for_once() {
        let one = |job: &str| Query {
            keys: vec![Text::from(REQUEST_COUNTS)],
            qualifiers: vec![Info::new(Key::from_static(keys::NSPACE.name()), job)],
        };
        let query = LauncherQuery::read(&requester(), &QueryInfo::new(vec![one("a"), one("b")])).unwrap();
        assert_eq!(query.facts.into_iter().collect::<Vec<_>>(), [(Fact::RequestCounts, Subject::Launcher)]);
    }

    /// Regression: the launcher answered without a look at required qualifiers.
    #[test]
    fn a_required_qualifier_is_honoured_or_left_to_the_server() {
        let with = |wanted, key: &'static str, flags| {
            // A flag that is a text counted as false.
            let value = if key == keys::QUERY_REFRESH_CACHE.name() { Value::Bool(true) } else { Value::from("a") };
            read(&[wanted], vec![Info { flags, ..Info::new(Key::from_static(key), value) }]).is_some()
        };
        let (required, time) = (InfoFlags::REQUIRED.bits(), keys::TIME_REMAINING.name());
        assert!(with(time, keys::GROUP_ID.name(), 0));
        assert!(!with(time, keys::GROUP_ID.name(), required));
        assert!(!with(time, keys::HOSTNAME.name(), required));
        assert!(with(time, keys::QUERY_REFRESH_CACHE.name(), required));
        assert!(with(keys::QUERY_JOB_STATUS.name(), keys::NSPACE.name(), required));
    }

    #[test]
    fn an_answer_is_partial_if_a_fact_or_another_key_is_missing() {
        let (job_status, time) = (keys::QUERY_JOB_STATUS.name(), keys::TIME_REMAINING.name());
        let both = read(&[job_status, time], Vec::new()).unwrap();
        let expected = [Status::ERR_NOT_FOUND, Status::ERR_PARTIAL_SUCCESS, Status::SUCCESS];
        assert_eq!([0, 1, 2].map(|known| both.status(known)), expected);
        let mixed = read(&[time, keys::QUERY_NAMESPACES.name()], Vec::new()).unwrap();
        assert_eq!([0, 1].map(|known| mixed.status(known)), [Status::ERR_PARTIAL_SUCCESS; 2]);
    }
}
