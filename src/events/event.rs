use std::cell::OnceCell;

use crate::keys::{self, TypedKey};
use crate::types::codes::range;
use crate::types::{Info, ProcId, Rank, Status, Value};

/// An info of modex's own: a process with a handler for the event's code does not get the event.
pub const FOR_DEFAULT_ALONE: &str = "modex.event.default";

/// Default handlers in a list of codes to deregister.
///
/// Source: OpenPMIx wire protocol (`PMIX_MAX_ERR_CONSTANT`).
pub const DEFAULT_HANDLER: Status = Status::from_raw(i32::MIN);

/// A node's newer inventory lacks a network device or a GPU that its older one had. The infos are `PMIX_HOSTNAME`,
/// `PMIX_DEVICE_ID` and the known details of the device. Without them, there are more such devices than one delivery
/// has events. A code of this library.
pub const DEVICE_LOST: Status = Status::from_raw(Status::EXTERNAL_ERR_BASE.to_raw() - 701);

/// As [`DEVICE_LOST`], for a device that the older inventory lacked: a new one, or one that has returned.
pub const DEVICE_FOUND: Status = Status::from_raw(Status::EXTERNAL_ERR_BASE.to_raw() - 702);

/// Whether a program may choose the code for events of its own: below `PMIX_EXTERNAL_ERR_BASE`, except those of this
/// library.
#[must_use]
pub const fn is_of_programs(code: Status) -> bool {
    code.to_raw() < Status::EXTERNAL_ERR_BASE.to_raw()
        && code.to_raw() != DEVICE_LOST.to_raw()
        && code.to_raw() != DEVICE_FOUND.to_raw()
}

/// An event.
///
/// Source: PMIx Standard, "Event Notification".
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The event's code.
    pub status: Status,
    /// Process that the event is about, or that raised it; `None`: the host, or unknown.
    pub source: Option<ProcId>,
    /// Receivers: a code of [`range`].
    pub range: u8,
    /// Details.
    pub info: Vec<Info>,
}

impl Event {
    /// Whether the range is one of the standard's.
    #[must_use]
    pub const fn has_valid_range(&self) -> bool {
        self.range <= range::RANGE_PROC_LOCAL
    }

    /// Whether it skips default handlers.
    #[must_use]
    pub fn is_non_default(&self) -> bool {
        self.flag(keys::EVENT_NON_DEFAULT)
    }

    /// Whether a process with a handler for its code does not get it.
    #[must_use]
    pub fn is_for_default_alone(&self) -> bool {
        self.info.iter().any(|info| info.key.as_str() == FOR_DEFAULT_ALONE && info.value.as_bool() == Some(true))
    }

    /// Whether it may be kept for later registrations.
    #[must_use]
    pub fn may_be_kept(&self) -> bool {
        !self.flag(keys::EVENT_DO_NOT_CACHE)
    }

    /// Entries that decide which processes get it.
    pub(crate) const UNDERSTOOD: [&str; 6] = [
        keys::EVENT_NON_DEFAULT.name(),
        keys::EVENT_CUSTOM_RANGE.name(),
        keys::EVENT_DO_NOT_CACHE.name(),
        keys::EVENT_STAYS_LOCAL.name(),
        keys::EVENT_AFFECTED_PROC.name(),
        keys::EVENT_AFFECTED_PROCS.name(),
    ];

    /// Whether an entry is required that only a host may honour.
    #[must_use]
    pub fn needs_a_host(&self) -> bool {
        keys::first_unmet(&self.info, &Self::UNDERSTOOD).is_some()
    }

    /// Whether it must not leave the node.
    #[must_use]
    pub fn stays_local(&self) -> bool {
        self.flag(keys::EVENT_STAYS_LOCAL)
    }

    /// Its addressees if its range is the custom one; wildcards are allowed.
    #[must_use]
    pub fn targets(&self) -> Vec<&ProcId> {
        procs(&self.info, keys::EVENT_CUSTOM_RANGE.name()).collect()
    }

    /// The affected processes; empty: it names none.
    #[must_use]
    pub fn affected(&self) -> Vec<&ProcId> {
        let one = procs(&self.info, keys::EVENT_AFFECTED_PROC.name());
        one.chain(procs(&self.info, keys::EVENT_AFFECTED_PROCS.name())).collect()
    }

    /// Removes the targets that `is_kept` rejects. Returns the number of remaining targets.
    pub fn retain_targets(&mut self, mut is_kept: impl FnMut(&ProcId) -> bool) -> usize {
        let mut is_kept = |value: &Value| match value {
            Value::Proc(proc) => is_kept(proc),
            _ => true,
        };
        self.info.retain_mut(|info| {
            if info.key.as_str() != keys::EVENT_CUSTOM_RANGE.name() {
                return true;
            }
            match &mut info.value {
                Value::DataArray(array) => {
                    array.elements.retain(&mut is_kept);
                    !array.elements.is_empty()
                }
                one => is_kept(one),
            }
        });
        procs(&self.info, keys::EVENT_CUSTOM_RANGE.name()).count()
    }

    /// The members of the process set that the event is about.
    pub fn set_members(&self) -> impl Iterator<Item = &ProcId> {
        procs(&self.info, keys::PSET_MEMBERS.name())
    }

    /// Whether a process is in range, by the event alone. A range that only the host can resolve contains all
    /// processes. A range that ends at the source or above the processes contains no other process.
    #[must_use]
    pub fn is_meant_for(&self, proc: &ProcId) -> bool {
        match self.range {
            range::RANGE_RM | range::RANGE_PROC_LOCAL => false,
            range::RANGE_NAMESPACE => self.concerns_namespace_of(proc),
            range::RANGE_CUSTOM => self.targets().into_iter().any(|target| target.covers(proc)),
            _ => true,
        }
    }

    /// The same for many processes. It sorts a list of targets once.
    #[must_use]
    pub const fn reach(&self) -> Reach<'_> {
        Reach { event: self, targets: OnceCell::new() }
    }

    /// Whether a process belongs to the namespace that limits the event. It is the source's namespace. If the source is
    /// not a process of a job, it is that of the affected processes.
    fn concerns_namespace_of(&self, proc: &ProcId) -> bool {
        if let Some(source) = &self.source {
            return source.namespace == proc.namespace;
        }
        let named = self.info.iter().find(|info| info.key.as_str() == keys::NSPACE.name());
        match named.map(|info| &info.value) {
            Some(Value::ProcNamespace(namespace)) => *namespace == proc.namespace,
            Some(Value::String(text)) => text.to_str().is_ok_and(|name| name == proc.namespace.as_str()),
            _ => {
                let affected = self.affected();
                affected.is_empty() || affected.into_iter().any(|other| other.namespace == proc.namespace)
            }
        }
    }

    fn flag(&self, key: TypedKey<bool>) -> bool {
        let info = self.info.iter().find(|info| info.key.as_str() == key.name());
        info.is_some_and(|info| info.value.as_bool().unwrap_or(false))
    }
}

/// The processes in range of an event.
#[derive(Debug)]
pub struct Reach<'a> {
    event: &'a Event,
    /// Sorted.
    targets: OnceCell<Vec<&'a ProcId>>,
}

impl Reach<'_> {
    /// As [`Event::is_meant_for`].
    #[must_use]
    pub fn contains(&self, proc: &ProcId) -> bool {
        if self.event.range != range::RANGE_CUSTOM || proc.rank.process().is_none() {
            return self.event.is_meant_for(proc);
        }
        let targets = self.targets.get_or_init(|| {
            let mut targets = self.event.targets();
            targets.sort_unstable();
            targets
        });
        let is_target = |rank: Rank| {
            let wanted = (&proc.namespace, rank);
            targets.binary_search_by(|target| (&target.namespace, target.rank).cmp(&wanted)).is_ok()
        };
        is_target(proc.rank) || is_target(Rank::Wildcard)
    }
}

/// The processes in entries with this key, whether one or an array of them.
pub(super) fn procs<'a>(infos: &'a [Info], key: &'static str) -> impl Iterator<Item = &'a ProcId> {
    infos.iter().filter(move |info| info.key.as_str() == key).flat_map(|info| {
        let elements = match &info.value {
            Value::DataArray(array) => array.elements.as_slice(),
            one => std::slice::from_ref(one),
        };
        elements.iter().filter_map(|value| match value {
            Value::Proc(proc) => Some(&**proc),
            _ => None,
        })
    })
}
