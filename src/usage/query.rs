//! Queries about the use of resources: their keys, and the answers from samples.
//!
//! Source: PMIx Standard, chapter on queries (`PMIX_QUERY_MEMORY_USAGE` and its relatives).

use std::collections::BTreeMap;

use crate::keys;
use crate::types::{Info, Key, ProcId, Rank, Value, footprint};

/// The keys of queries that samples answer.
pub const QUERY_KEYS: [&str; 5] = [
    keys::QUERY_MEMORY_USAGE.name(),
    keys::QUERY_PROC_RESOURCE_USAGE.name(),
    keys::QUERY_NODE_RESOURCE_USAGE.name(),
    keys::CLIENT_AVG_MEMORY.name(),
    keys::DAEMON_MEMORY.name(),
];

/// The qualifiers of such queries alone.
pub const QUERY_QUALIFIERS: [&str; 3] =
    [keys::QUERY_LOCAL_ONLY.name(), keys::QUERY_REPORT_AVG.name(), keys::QUERY_REPORT_MINMAX.name()];

/// Whether samples answer queries for this key.
#[must_use]
pub fn is_query_key(key: &str) -> bool {
    QUERY_KEYS.contains(&key)
}

/// Whether a qualifier is for such queries alone.
#[must_use]
pub fn is_query_qualifier(key: &str) -> bool {
    QUERY_QUALIFIERS.contains(&key)
}

/// The subject of a query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A process, or all of a job.
    Named(ProcId),
    /// All processes of this node.
    Everyone,
    /// The server.
    Server,
    /// The node.
    Node,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// The samples with all figures.
    Samples,
    /// The resident memory of each process.
    Memory,
    /// The mean, and the processes with the least and the most.
    Summary { has_mean: bool, has_extremes: bool },
    /// The mean as a number.
    Mean,
}

/// A key of a query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageQuestion {
    key: &'static str,
    form: Form,
    /// Its subject.
    pub subject: Subject,
}

impl UsageQuestion {
    /// The question of a key; `None` if samples do not answer it. The qualifiers name `target`.
    #[must_use]
    pub fn read(key: &str, qualifiers: &[Info], target: &ProcId) -> Option<Self> {
        let key = QUERY_KEYS.into_iter().find(|known| *known == key)?;
        let has = |key: &str| {
            let info = qualifiers.iter().find(|info| info.key.as_str() == key);
            info.and_then(|info| info.value.as_bool()) == Some(true)
        };
        let has_mean = has(keys::QUERY_REPORT_AVG.name());
        let has_extremes = has(keys::QUERY_REPORT_MINMAX.name());
        let (form, subject) = match key {
            key if key == keys::DAEMON_MEMORY.name() => (Form::Mean, Subject::Server),
            key if key == keys::CLIENT_AVG_MEMORY.name() => (Form::Mean, Subject::Everyone),
            key if key == keys::QUERY_NODE_RESOURCE_USAGE.name() => (Form::Samples, Subject::Node),
            key if key == keys::QUERY_PROC_RESOURCE_USAGE.name() => (Form::Samples, Subject::Named(target.clone())),
            // `PMIX_QUERY_MEMORY_USAGE`
            _ if has_mean || has_extremes => (Form::Summary { has_mean, has_extremes }, Subject::Named(target.clone())),
            _ => (Form::Memory, Subject::Named(target.clone())),
        };
        Some(Self { key, form, subject })
    }

    /// Whether the answer needs the resident memory alone.
    #[must_use]
    pub fn is_of_memory(&self) -> bool {
        self.form != Form::Samples
    }

    fn value(&self, samples: &BTreeMap<ProcId, Sample<'_>>, server: &ProcId, nodes: &[Info]) -> Option<Value> {
        let meant: Vec<&Sample<'_>> = match &self.subject {
            Subject::Named(ProcId { namespace, rank: Rank::Wildcard }) => {
                let of_job = samples.range(ProcId::new(namespace.clone(), 0)..);
                of_job.take_while(|(proc, _)| proc.namespace == *namespace).map(|(_, sample)| sample).collect()
            }
            Subject::Named(proc) => samples.get(proc).into_iter().collect(),
            Subject::Everyone => samples.iter().filter(|(proc, _)| *proc != server).map(|(_, sample)| sample).collect(),
            Subject::Server => samples.get(server).into_iter().collect(),
            Subject::Node => return (!nodes.is_empty()).then(|| Value::info_array(nodes.to_vec())),
        };
        let mean = mean(&meant)?;
        Some(match self.form {
            Form::Samples => Value::info_array(meant.into_iter().map(|sample| sample.info.clone()).collect()),
            Form::Memory => Value::info_array(meant.into_iter().map(Sample::memory).collect()),
            Form::Summary { has_mean, has_extremes } => {
                let extremes = if has_extremes { extremes(&meant) } else { None };
                let mean = has_mean.then(|| info(keys::CLIENT_AVG_MEMORY.name(), Value::Float(mean)));
                Value::info_array(mean.into_iter().chain(extremes.into_iter().flatten()).collect())
            }
            Form::Mean => Value::Float(mean),
        })
    }
}

/// The answers to questions from samples of processes and of the node, as far as there are some. Answers beyond
/// `bytes_max` in all are left out; then the second result is true.
#[must_use]
pub fn answers(questions: &[UsageQuestion], samples: &[Info], server: &ProcId, bytes_max: usize) -> (Vec<Info>, bool) {
    let of_processes = samples.iter().filter_map(Sample::read).collect();
    let is_of_node = |info: &&Info| info.key.as_str() == keys::NODE_RESOURCE_USAGE.name();
    let of_node: Vec<Info> = samples.iter().filter(is_of_node).cloned().collect();
    // Many queries may ask for the same.
    let mut known = BTreeMap::new();
    let (mut infos, mut bytes, mut is_cut) = (Vec::new(), 0_usize, false);
    for question in questions {
        let value = known.entry(question).or_insert_with(|| question.value(&of_processes, server, &of_node));
        let Some(value) = value.as_ref() else { continue };
        let more = footprint(value).and_then(|size| bytes.checked_add(size));
        let Some(more) = more.filter(|more| *more <= bytes_max) else {
            is_cut = true;
            continue;
        };
        bytes = more;
        infos.push(info(question.key, value.clone()));
    }
    (infos, is_cut)
}

/// A sample of a process.
struct Sample<'a> {
    info: &'a Info,
    megabytes: f32,
}

impl<'a> Sample<'a> {
    fn read(info: &'a Info) -> Option<(ProcId, Self)> {
        let figure = |key: &str| figures(info).find(|figure| figure.key.as_str() == key).map(|figure| &figure.value);
        match (figure(keys::PROCID.name()), figure(keys::PROC_RSS.name())) {
            (Some(Value::Proc(proc)), Some(Value::Float(megabytes))) => {
                Some((ProcId::clone(proc), Self { info, megabytes: *megabytes }))
            }
            _ => None,
        }
    }

    /// The sample without other figures.
    fn memory(&self) -> Info {
        const WANTED: [&str; 4] =
            [keys::PROCID.name(), keys::PROC_PID.name(), keys::PROC_SAMPLE_TIME.name(), keys::PROC_RSS.name()];
        let wanted = figures(self.info).filter(|figure| WANTED.contains(&figure.key.as_str()));
        Info { value: Value::info_array(wanted.cloned().collect()), ..self.info.clone() }
    }
}

/// The elements of a sample.
fn figures(sample: &Info) -> impl Iterator<Item = &Info> {
    let elements = match &sample.value {
        Value::DataArray(array) => &array.elements[..],
        _ => &[],
    };
    elements.iter().filter_map(|element| match element {
        Value::Info(info) => Some(&**info),
        _ => None,
    })
}

/// `None` without a sample.
#[expect(clippy::cast_precision_loss, reason = "a mean of fewer processes than 2^24")]
fn mean(samples: &[&Sample<'_>]) -> Option<f32> {
    let sum: f32 = samples.iter().map(|sample| sample.megabytes).sum();
    (!samples.is_empty()).then(|| sum / samples.len() as f32)
}

/// The samples with the least memory and the most.
fn extremes(samples: &[&Sample<'_>]) -> Option<[Info; 2]> {
    let by_memory = |a: &&&Sample<'_>, b: &&&Sample<'_>| a.megabytes.total_cmp(&b.megabytes);
    Some([samples.iter().min_by(by_memory)?.memory(), samples.iter().max_by(by_memory)?.memory()])
}

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Namespace;

    fn proc(rank: impl Into<Rank>) -> ProcId {
        ProcId { namespace: Namespace::new("job").unwrap(), rank: rank.into() }
    }

    fn server() -> ProcId {
        ProcId::new(Namespace::new("server").unwrap(), 0)
    }

    fn sample(proc: ProcId, megabytes: f32) -> Info {
        let figures = vec![
            info(keys::PROCID.name(), proc),
            info(keys::PROC_OS_STATE.name(), "R"),
            info(keys::PROC_RSS.name(), Value::Float(megabytes)),
        ];
        info(keys::PROC_RESOURCE_USAGE.name(), Value::info_array(figures))
    }

    fn samples() -> Vec<Info> {
        let of_node = info(keys::NODE_RESOURCE_USAGE.name(), Value::info_array(vec![info("figure", 1_u32)]));
        vec![sample(proc(0), 1.0), sample(proc(1), 3.0), sample(proc(2), 8.0), sample(server(), 50.0), of_node]
    }

    fn question(key: &str, switches: &[&'static str], rank: impl Into<Rank>) -> UsageQuestion {
        let qualifiers: Vec<Info> = switches.iter().map(|key| info(key, true)).collect();
        UsageQuestion::read(key, &qualifiers, &proc(rank)).unwrap()
    }

    fn answer(key: &str, switches: &[&'static str], rank: impl Into<Rank>) -> Option<Value> {
        let (found, _) = answers(&[question(key, switches, rank)], &samples(), &server(), usize::MAX);
        found.into_iter().next().map(|info| info.value)
    }

    fn memory(proc: ProcId, megabytes: f32) -> Info {
        let figures = vec![info(keys::PROCID.name(), proc), info(keys::PROC_RSS.name(), Value::Float(megabytes))];
        info(keys::PROC_RESOURCE_USAGE.name(), Value::info_array(figures))
    }

    const MEMORY: &str = keys::QUERY_MEMORY_USAGE.name();
    const MEAN: &str = keys::QUERY_REPORT_AVG.name();
    const EXTREMES: &str = keys::QUERY_REPORT_MINMAX.name();

    #[test]
    fn memory_is_that_of_the_named_processes_or_a_summary() {
        let array = |infos| Some(Value::info_array(infos));
        let mean = |megabytes| info(keys::CLIENT_AVG_MEMORY.name(), Value::Float(megabytes));
        assert_eq!(answer(MEMORY, &[], 1), array(vec![memory(proc(1), 3.0)]));
        assert_eq!(answer(MEMORY, &[MEAN], Rank::Wildcard), array(vec![mean(4.0)]));
        let both = vec![mean(4.0), memory(proc(0), 1.0), memory(proc(2), 8.0)];
        assert_eq!(answer(MEMORY, &[EXTREMES], Rank::Wildcard), array(both[1..].to_vec()));
        assert_eq!(answer(MEMORY, &[MEAN, EXTREMES], Rank::Wildcard), array(both));
        assert_eq!((answer(MEMORY, &[], 7), answer(MEMORY, &[MEAN], 7)), (None, None));
        assert!(UsageQuestion::read(keys::JOB_SIZE.name(), &[], &proc(0)).is_none());
    }

    #[test]
    fn server_and_node_have_samples_of_their_own() {
        assert_eq!(answer(keys::CLIENT_AVG_MEMORY.name(), &[], 0), Some(Value::Float(4.0)));
        assert_eq!(answer(keys::DAEMON_MEMORY.name(), &[], 0), Some(Value::Float(50.0)));
        let [everything, node] = [keys::QUERY_PROC_RESOURCE_USAGE.name(), keys::QUERY_NODE_RESOURCE_USAGE.name()];
        assert_eq!(answer(everything, &[], 1), Some(Value::info_array(vec![sample(proc(1), 3.0)])));
        assert_eq!(answer(node, &[], 1), Some(Value::info_array(samples().split_off(4))));
    }

    #[test]
    fn answers_have_a_bound_in_bytes() {
        let all = [(); 3].map(|()| question(MEMORY, &[], Rank::Wildcard));
        let found = |bytes_max| {
            let (found, is_cut) = answers(&all, &samples(), &server(), bytes_max);
            (found.len(), is_cut)
        };
        let size = footprint(&answer(MEMORY, &[], Rank::Wildcard).unwrap()).unwrap();
        assert_eq!([size - 1, size, 3 * size - 1, 3 * size].map(found), [(0, true), (1, true), (2, true), (3, false)]);
        let small_last = [question(MEMORY, &[], Rank::Wildcard), question(keys::DAEMON_MEMORY.name(), &[], 0)];
        let (found, is_cut) = answers(&small_last, &samples(), &server(), size - 1);
        assert_eq!((found[0].key.as_str(), is_cut), (keys::DAEMON_MEMORY.name(), true));
    }
}
