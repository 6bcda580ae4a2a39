//! A pull of output, and the bytes that its next delivery waits with.

use std::collections::{BTreeMap, BTreeSet};

use crate::server::interface::{IofOutput, OutputSettings, PULL_BUFFER_BYTES_MAX, PeerId, Requester};
use crate::types::{Namespace, ProcId, Rank, Time, footprint};

/// A source and one channel of it.
pub(crate) type SourceChannel = (ProcId, u16);

/// A standing request for output.
#[derive(Debug)]
pub(crate) struct OutputPull {
    /// The connection that gets the output; `None`: the server's own process. The host is not asked about its pulls.
    pub(crate) peer: Option<PeerId>,
    pub(crate) requester: Requester,
    pub(crate) procs: BTreeSet<ProcId>,
    pub(crate) channels: u16,
    /// The client's own number for the request.
    pub(crate) local_id: u64,
    /// Whether the client gets the output in place of its usual destination.
    pub(crate) is_redirect: bool,
    /// Whether a spawn asked for it. The host knows it as part of the spawn.
    pub(crate) is_of_spawn: bool,
    /// The number of the pull that this one comes from, if it is for the output of a job that a watched process has
    /// spawned.
    pub(crate) inherited_from: Option<u64>,
    /// The settings of this pull alone.
    pub(crate) settings: OutputSettings,
    pub(crate) collected: Collected,
}

/// Output that waits for more before it is delivered.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    channels: BTreeMap<SourceChannel, IofOutput>,
    /// Memory of it.
    size_bytes: usize,
    /// The time of the next delivery, if there is output.
    pub(crate) deadline: Option<Time>,
}

impl OutputPull {
    /// User and group of the requester.
    pub(super) const fn owner(&self) -> (u32, u32) {
        (self.requester.uid, self.requester.gid)
    }

    pub(crate) fn is_of_user_of(&self, other: &Self) -> bool {
        self.owner() == other.owner()
    }

    /// The processes by which output finds this pull: those that it names, or their whole jobs if they are many.
    pub(super) fn index_keys(&self) -> BTreeSet<ProcId> {
        if !self.has_long_list() {
            return self.procs.clone();
        }
        self.procs.iter().map(|proc| ProcId { namespace: proc.namespace.clone(), rank: Rank::Wildcard }).collect()
    }

    /// Takes the processes of a job out. The server's own process also pulls the output of a later job of this name.
    pub(super) fn forget_job(&mut self, namespace: &Namespace) {
        if self.peer.is_some() {
            self.procs.retain(|proc| proc.namespace != *namespace);
        }
    }

    /// Whether the processes are too many to be compared one by one.
    pub(super) fn has_long_list(&self) -> bool {
        self.procs.len() > PROCS_COMPARED_MAX
    }

    /// Whether later pulls of the user may count on this one: the host has allowed it, and its processes are few. A
    /// pull whose jobs have all ended has no processes.
    pub(super) fn is_compared(&self) -> bool {
        self.peer.is_some() && !self.is_of_spawn && !self.procs.is_empty() && !self.has_long_list()
    }

    pub(crate) fn wants(&self, source: &ProcId, channel: u16) -> bool {
        let everybody = || ProcId { namespace: source.namespace.clone(), rank: Rank::Wildcard };
        self.channels & channel != 0 && (self.procs.contains(source) || self.procs.contains(&everybody()))
    }

    /// Whether this pull wants the same or more. Long lists are only compared as a whole.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let has_channels = self.channels & other.channels == other.channels;
        let has = |proc: &ProcId| self.wants(proc, other.channels);
        has_channels
            && match other.procs.len() {
                0..=PROCS_COMPARED_MAX => other.procs.iter().all(has),
                _ => self.procs == other.procs,
            }
    }
}

impl Collected {
    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Memory of the output.
    pub(crate) const fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Adds a piece without infos. Returns the bytes of its channel that have come together; `None`: there is no room.
    pub(crate) fn add(&mut self, output: &IofOutput) -> Option<usize> {
        let key = (output.source.clone(), output.channel);
        let added = match self.channels.get(&key) {
            Some(_) => output.bytes.len(),
            None => size_bytes(output),
        };
        let size_bytes = self.size_bytes.saturating_add(added);
        if size_bytes > PULL_BUFFER_BYTES_MAX.saturating_add(RECORDS_BYTES_MAX) {
            return None;
        }
        self.size_bytes = size_bytes;
        let collected = self.channels.entry(key).and_modify(|piece| piece.bytes.extend_from_slice(&output.bytes));
        Some(collected.or_insert_with(|| output.clone()).bytes.len())
    }

    /// Takes the output of one channel.
    pub(crate) fn take(&mut self, source: &ProcId, channel: u16) -> Option<IofOutput> {
        let output = self.channels.remove(&(source.clone(), channel))?;
        self.size_bytes = self.size_bytes.saturating_sub(size_bytes(&output));
        Some(output)
    }

    /// Takes the output of one job.
    pub(crate) fn take_job(&mut self, namespace: &Namespace) -> Vec<IofOutput> {
        let of_job = self.channels.extract_if(.., |(source, _), _| source.namespace == *namespace);
        let taken: Vec<IofOutput> = of_job.map(|(_, output)| output).collect();
        self.size_bytes = self.channels.values().map(size_bytes).fold(0, usize::saturating_add);
        taken
    }

    /// Takes everything.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = IofOutput> + use<> {
        self.size_bytes = 0;
        std::mem::take(&mut self.channels).into_values()
    }
}

/// Memory of a piece of output. It includes the record, so that empty pieces are bounded, too.
pub(super) fn size_bytes(output: &IofOutput) -> usize {
    let info = output.info.iter().map(|info| footprint(&info.value).unwrap_or(usize::MAX));
    info.fold(output.bytes.len(), usize::saturating_add).saturating_add(size_of::<IofOutput>())
}

/// Longest list of processes that is compared one by one.
const PROCS_COMPARED_MAX: usize = 64;

/// Memory of records beside the bytes.
const RECORDS_BYTES_MAX: usize = 1 << 20;
