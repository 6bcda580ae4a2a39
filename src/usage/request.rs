//! A request to monitor resources.

use std::collections::BTreeSet;
use std::time::Duration;

use super::machine::{disk_keys, network_keys, node_keys};
use super::process::PROCESS_KEYS;
use crate::keys;
use crate::types::{Info, InfoFlags, NodePid, ProcId, Status, Value};

/// The object of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageKind {
    /// Processes.
    Processes,
    /// The node.
    Node,
    /// Disks.
    Disks,
    /// Networks.
    Networks,
}

/// A request to monitor resources, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageRequest {
    /// The object.
    pub kind: UsageKind,
    /// The keys of the figures; `None`: all.
    pub(super) figures: Option<BTreeSet<&'static str>>,
    /// The requester's name for it.
    pub name: Option<String>,
    /// The time between two samples; `None`: one sample.
    pub period: Option<Duration>,
    /// The processes, by name and by number; both empty: those of the requester's namespace.
    pub procs: Vec<ProcId>,
    /// The numbers of processes.
    pub pids: Vec<u32>,
    /// The disks or networks; `None`: all.
    pub(super) devices: Option<BTreeSet<String>>,
    /// Whether all of them have to be here.
    needs_all_devices: bool,
    /// Whether other nodes measure the rest. Then what is not here is left out, and is no error.
    pub is_share: bool,
    /// Whether it names other nodes alone.
    pub is_elsewhere: bool,
}

/// The node that measures.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnNode<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its number in the requester's job.
    pub id: Option<u64>,
}

impl OwnNode<'_> {
    /// Whether a node of this number is this one.
    pub(crate) fn has_id(self, id: u32) -> bool {
        self.id == Some(id.into())
    }

    /// Whether a process is here. One without a name and number of its node is.
    pub(crate) fn runs(self, process: &NodePid) -> bool {
        match &process.hostname {
            Some(name) => name.to_str() == Ok(self.name),
            None => process.node_id == NO_NODE || self.has_id(process.node_id),
        }
    }
}

/// The number of no node in a [`NodePid`].
const NO_NODE: u32 = u32::MAX;

/// The kinds of requests.
const KINDS: [(&str, UsageKind); 4] = [
    (keys::MONITOR_PROC_RESOURCE_USAGE.name(), UsageKind::Processes),
    (keys::MONITOR_NODE_RESOURCE_USAGE.name(), UsageKind::Node),
    (keys::MONITOR_DISK_RESOURCE_USAGE.name(), UsageKind::Disks),
    (keys::MONITOR_NET_RESOURCE_USAGE.name(), UsageKind::Networks),
];

/// The keys of requests.
pub const MONITORS: [&str; 4] = [KINDS[0].0, KINDS[1].0, KINDS[2].0, KINDS[3].0];

/// The directives. The last three change nothing.
pub const UNDERSTOOD: [&str; 12] = [
    keys::MONITOR_ID.name(),
    keys::MONITOR_RESOURCE_RATE.name(),
    keys::MONITOR_TARGET_PROCS.name(),
    keys::MONITOR_TARGET_PIDS.name(),
    keys::MONITOR_TARGET_NODES.name(),
    keys::MONITOR_TARGET_NODEIDS.name(),
    keys::MONITOR_TARGET_DISKS.name(),
    keys::MONITOR_TARGET_NETS.name(),
    keys::MONITOR_LOCAL_ONLY.name(),
    keys::MONITOR_APP_CONTROL.name(),
    keys::USERID.name(),
    keys::GRPID.name(),
];

/// The most processes, disks or figures that a request names.
const NAMED_MAX: usize = 4096;

impl UsageRequest {
    /// The request; `None` if it is about something else.
    ///
    /// # Errors
    /// The status for the requester.
    pub fn read(monitor: &Info, directives: &[Info], node: OwnNode<'_>) -> Option<Result<Self, Status>> {
        let (_, kind) = KINDS.into_iter().find(|(key, _)| *key == monitor.key.as_str())?;
        Some(Self::read_kind(kind, &monitor.value, directives, node))
    }

    /// One sample of figures for a query: of the node, or of processes with all figures or their resident memory alone.
    pub(crate) fn of_query(kind: UsageKind, has_all: bool) -> Self {
        let figures = (!has_all).then(|| BTreeSet::from([keys::PROC_RSS.name()]));
        Self { figures, ..Self::of_all(kind) }
    }

    const fn of_all(kind: UsageKind) -> Self {
        Self {
            kind,
            figures: None,
            name: None,
            period: None,
            procs: Vec::new(),
            pids: Vec::new(),
            devices: None,
            needs_all_devices: false,
            is_share: false,
            is_elsewhere: false,
        }
    }

    fn read_kind(kind: UsageKind, value: &Value, directives: &[Info], node: OwnNode<'_>) -> Result<Self, Status> {
        let mut request = Self { figures: figures(kind, value)?, is_share: is_share(directives), ..Self::of_all(kind) };
        for directive in directives {
            request.take(directive, node)?;
        }
        Ok(request)
    }

    fn take(&mut self, directive: &Info, node: OwnNode<'_>) -> Result<(), Status> {
        let (key, value) = (directive.key.as_str(), &directive.value);
        if key == keys::MONITOR_ID.name() {
            self.name = Some(value.as_str().ok_or(Status::ERR_BAD_PARAM)?.to_owned());
        } else if key == keys::MONITOR_RESOURCE_RATE.name() {
            let seconds = value.as_u32().filter(|seconds| *seconds > 0).ok_or(Status::ERR_BAD_PARAM)?;
            self.period = Some(Duration::from_secs(seconds.into()));
        } else if key == keys::MONITOR_TARGET_PROCS.name() && self.kind == UsageKind::Processes {
            self.procs = elements(value, |element| match element {
                Value::Proc(proc) => Some(proc.as_ref().clone()),
                _ => None,
            })?;
        } else if key == keys::MONITOR_TARGET_PIDS.name() && self.kind == UsageKind::Processes {
            let pids = elements(value, |element| match element {
                Value::NodePid(process) => Some((node.runs(process), process.pid)),
                // Releases before 6.1 have no type for a process on a node.
                number => number.as_u32().map(|pid| (true, pid)),
            })?;
            self.note_nodes(pids.iter().map(|(is_here, _)| *is_here))?;
            self.pids = pids.into_iter().filter(|(is_here, _)| *is_here).map(|(_, pid)| pid).collect();
        } else if key == keys::MONITOR_TARGET_NODES.name() {
            self.note_nodes(texts(value)?.iter().map(|name| name == node.name))?;
        } else if key == keys::MONITOR_TARGET_NODEIDS.name() {
            self.note_nodes(elements(value, Value::as_u32)?.into_iter().map(|id| node.has_id(id)))?;
        } else if (key == keys::MONITOR_TARGET_DISKS.name() && self.kind == UsageKind::Disks)
            || (key == keys::MONITOR_TARGET_NETS.name() && self.kind == UsageKind::Networks)
        {
            let devices = texts(value)?;
            self.devices = Some(devices.into_iter().collect());
            self.needs_all_devices = directive.flags().contains(InfoFlags::REQUIRED);
        } else if key.starts_with("pmix.monitor.tgt") {
            // Other targets would be left out silently.
            return Err(Status::ERR_NOT_SUPPORTED);
        } else if keys::is_unmet(directive, |key| UNDERSTOOD.contains(&key)) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        Ok(())
    }

    /// Takes the nodes that a directive names. Another one than this is an error if nobody else measures it.
    fn note_nodes(&mut self, are_here: impl Iterator<Item = bool>) -> Result<(), Status> {
        let (here, elsewhere): (Vec<bool>, Vec<bool>) = are_here.partition(|is_here| *is_here);
        if !self.is_share && !elsewhere.is_empty() {
            return Err(Status::ERR_NOT_FOUND);
        }
        self.is_elsewhere |= here.is_empty();
        Ok(())
    }

    /// Whether a figure is asked for.
    pub(super) fn wants(&self, key: &str) -> bool {
        self.figures.as_ref().is_none_or(|figures| figures.contains(key))
    }

    /// Whether this number of samples is an answer: one of a running process, or of a disk or network that is named. A
    /// share may be empty.
    #[must_use]
    pub fn is_answered_by(&self, sample_count: usize) -> bool {
        let needed = match (self.kind, &self.devices) {
            _ if self.is_share => 0,
            (UsageKind::Disks | UsageKind::Networks, None) => 0,
            (_, Some(devices)) if self.needs_all_devices => devices.len(),
            _ => 1,
        };
        sample_count >= needed
    }

    /// Whether a disk or network is asked for, if some are named.
    pub(super) fn device_filter(&self) -> Option<impl Fn(&str) -> bool + '_> {
        self.devices.as_ref().map(|devices| move |name: &str| devices.contains(name))
    }
}

/// Whether a request is about this node alone, as its directives say: they name no target, or exclude other nodes.
pub(crate) fn is_of_this_node(directives: &[Info]) -> bool {
    let names_targets = |info: &Info| TARGETS.contains(&info.key.as_str());
    is_share(directives) || !directives.iter().any(names_targets)
}

/// The directives that name processes or nodes.
const TARGETS: [&str; 4] = [
    keys::MONITOR_TARGET_PROCS.name(),
    keys::MONITOR_TARGET_PIDS.name(),
    keys::MONITOR_TARGET_NODES.name(),
    keys::MONITOR_TARGET_NODEIDS.name(),
];

fn is_share(directives: &[Info]) -> bool {
    let is_flag = |info: &Info| info.key.as_str() == keys::MONITOR_LOCAL_ONLY.name();
    directives.iter().find(|info| is_flag(info)).is_some_and(|info| info.value.as_bool() == Some(true))
}

/// The figures that a value names; `None`: all.
fn figures(kind: UsageKind, value: &Value) -> Result<Option<BTreeSet<&'static str>>, Status> {
    let array = match value {
        Value::Undefined | Value::Bool(true) => return Ok(None),
        Value::DataArray(array) => array,
        _ => return Err(Status::ERR_BAD_PARAM),
    };
    let known: Vec<&'static str> = match kind {
        UsageKind::Processes => PROCESS_KEYS.to_vec(),
        UsageKind::Node => node_keys().collect(),
        UsageKind::Disks => disk_keys().collect(),
        UsageKind::Networks => network_keys().collect(),
    };
    let mut wanted = BTreeSet::new();
    for element in &array.elements {
        let (name, is_required) = match element {
            Value::Info(info) => (info.key.as_str(), info.flags().contains(InfoFlags::REQUIRED)),
            other => (other.as_str().ok_or(Status::ERR_BAD_PARAM)?, false),
        };
        match known.iter().find(|known| **known == name) {
            Some(known) => {
                wanted.insert(*known);
            }
            None if is_required => return Err(Status::ERR_NOT_SUPPORTED),
            None => {}
        }
    }
    match (wanted.is_empty(), array.elements.is_empty()) {
        (true, true) => Ok(None),
        (true, false) => Err(Status::ERR_NOT_SUPPORTED),
        (false, _) => Ok(Some(wanted)),
    }
}

fn texts(value: &Value) -> Result<Vec<String>, Status> {
    elements(value, |element| element.as_str().map(str::to_owned))
}

/// The elements of a list, or one that stands alone.
pub(crate) fn elements<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>, Status> {
    let found = match value {
        Value::DataArray(array) if array.elements.len() > NAMED_MAX => return Err(Status::ERR_OUT_OF_RESOURCE),
        Value::DataArray(array) => array.elements.iter().map(read).collect::<Option<Vec<T>>>(),
        one => read(one).map(|one| vec![one]),
    };
    found.filter(|found| !found.is_empty()).ok_or(Status::ERR_BAD_PARAM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{DataArray, DataType, Key};

    const HERE: OwnNode<'static> = OwnNode { name: "here", id: Some(7) };

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    fn array(element_type: DataType, elements: Vec<Value>) -> Value {
        Value::DataArray(Box::new(DataArray { element_type, elements }))
    }

    fn read(key: &'static str, value: Value, directives: Vec<Info>) -> Result<UsageRequest, Status> {
        UsageRequest::read(&info(key, value), &directives, HERE).unwrap()
    }

    #[test]
    fn figures_are_all_or_some_that_are_known() {
        let node = |value| read(keys::MONITOR_NODE_RESOURCE_USAGE.name(), value, vec![]).map(|request| request.figures);
        let figure = |key| Value::Info(Box::new(info(key, true)));
        let known = keys::NODE_MEM_FREE.name();
        assert_eq!((node(Value::Undefined), node(true.into())), (Ok(None), Ok(None)));
        assert_eq!(node(array(DataType::Info, vec![figure(known), figure("else")])), Ok(Some([known].into())));
        assert_eq!(node(array(DataType::Info, vec![figure("else")])), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(node(false.into()), Err(Status::ERR_BAD_PARAM));
        let required = Info { flags: InfoFlags::REQUIRED.bits(), ..info("else", true) };
        let both = array(DataType::Info, vec![figure(known), Value::Info(Box::new(required))]);
        assert_eq!(node(both), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(UsageRequest::read(&info(keys::MONITOR_FILE.name(), "a"), &[], HERE), None);
    }

    #[test]
    fn targets_and_directives_are_honoured_or_refused() {
        let node = |directive: Info| {
            read(keys::MONITOR_NODE_RESOURCE_USAGE.name(), Value::Undefined, vec![directive]).map(|_| ())
        };
        let names = |name: &str| array(DataType::String, vec![name.into()]);
        assert_eq!(node(info(keys::MONITOR_TARGET_NODES.name(), names("here"))), Ok(()));
        assert_eq!(node(info(keys::MONITOR_TARGET_NODES.name(), names("there"))), Err(Status::ERR_NOT_FOUND));
        assert_eq!(node(info(keys::MONITOR_TARGET_NODES.name(), 1_u32)), Err(Status::ERR_BAD_PARAM));
        assert_eq!(node(info(keys::MONITOR_TARGET_NODEIDS.name(), 7_u32)), Ok(()));
        assert_eq!(node(info(keys::MONITOR_TARGET_NODEIDS.name(), 8_u32)), Err(Status::ERR_NOT_FOUND));
        assert_eq!(node(info(keys::MONITOR_TARGET_DISKS.name(), names("sda"))), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(node(info(keys::MONITOR_RESOURCE_RATE.name(), 0_u32)), Err(Status::ERR_BAD_PARAM));
        assert_eq!(node(info("own.key", true)), Ok(()));
        let required = |key| Info { flags: InfoFlags::REQUIRED.bits(), ..info(key, true) };
        assert_eq!(node(required("own.key")), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(node(required(keys::MONITOR_LOCAL_ONLY.name())), Ok(()));
        let unread = Info { value: "yes".into(), ..required(keys::MONITOR_LOCAL_ONLY.name()) };
        assert_eq!(node(unread), Err(Status::ERR_NOT_SUPPORTED));
    }

    /// Other nodes get the same directives.
    #[test]
    fn a_share_leaves_out_what_is_on_other_nodes() {
        let share = |directive: Info| {
            let directives = vec![directive, info(keys::MONITOR_LOCAL_ONLY.name(), true)];
            read(keys::MONITOR_PROC_RESOURCE_USAGE.name(), Value::Undefined, directives).unwrap()
        };
        let process = |hostname: Option<&str>, node_id, pid| {
            Value::NodePid(Box::new(NodePid { hostname: hostname.map(Into::into), node_id, pid }))
        };
        let processes = [
            process(Some("here"), NO_NODE, 1),
            process(Some("there"), 7, 2),
            process(None, 7, 3),
            process(None, 8, 4),
            process(None, NO_NODE, 5),
        ];
        let named = share(info(keys::MONITOR_TARGET_PIDS.name(), array(DataType::NodePid, processes.to_vec())));
        assert_eq!((named.pids, named.is_elsewhere), (vec![1, 3, 5], false));
        let other = share(info(keys::MONITOR_TARGET_NODES.name(), "there"));
        assert!(other.is_elsewhere && other.is_answered_by(0));
        assert!(share(info(keys::MONITOR_TARGET_NODEIDS.name(), 8_u32)).is_elsewhere);
        let both = array(DataType::String, vec!["there".into(), "here".into()]);
        assert!(!share(info(keys::MONITOR_TARGET_NODES.name(), both)).is_elsewhere);
    }

    #[test]
    fn one_named_disk_has_to_be_here_and_required_ones_all() {
        let key = keys::MONITOR_DISK_RESOURCE_USAGE.name();
        let named = info(keys::MONITOR_TARGET_DISKS.name(), array(DataType::String, vec!["a".into(), "b".into()]));
        let required = Info { flags: InfoFlags::REQUIRED.bits(), ..named.clone() };
        let answered = |directives| {
            let request = read(key, Value::Undefined, directives).unwrap();
            [0, 1, 2].map(|count| request.is_answered_by(count))
        };
        assert_eq!(answered(Vec::new()), [true, true, true]);
        assert_eq!(answered(vec![named]), [false, true, true]);
        assert_eq!(answered(vec![required]), [false, false, true]);
    }
}
