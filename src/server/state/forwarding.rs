//! Pulls of output, and kept output without a pull.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::server::interface::{IofOutput, PeerId, Requester};
use crate::types::{Namespace, ProcId, Rank, footprint};

/// A standing request for output.
#[derive(Debug)]
pub(crate) struct OutputPull {
    pub(crate) peer: PeerId,
    pub(crate) requester: Requester,
    pub(crate) procs: BTreeSet<ProcId>,
    pub(crate) channels: u16,
    /// The client's own number for the request.
    pub(crate) local_id: u64,
    /// Whether the client gets the output in place of its usual destination.
    pub(crate) is_redirect: bool,
}

/// Pulls of output, and kept output without a pull.
#[derive(Debug, Default)]
pub(crate) struct Forwarding {
    granted: BTreeMap<u64, OutputPull>,
    wanted: BTreeMap<Namespace, WantedOutput>,
    /// Total number of processes in all pulls.
    proc_count: usize,
    kept: VecDeque<IofOutput>,
    kept_bytes: usize,
    last: u64,
}

/// Number of pulls for a job's output.
#[derive(Debug, Default)]
struct WantedOutput {
    of_any: Counts,
    of_rank: BTreeMap<Rank, Counts>,
}

/// Number of pulls for each channel, by the number of its bit.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts([usize; u16::BITS as usize]);

impl OutputPull {
    fn is_of_user_of(&self, other: &Self) -> bool {
        let owner = |pull: &Self| (pull.requester.uid, pull.requester.gid);
        owner(self) == owner(other)
    }

    pub(crate) fn wants(&self, source: &ProcId, channel: u16) -> bool {
        let everybody = || ProcId { namespace: source.namespace.clone(), rank: Rank::Wildcard };
        self.channels & channel != 0 && (self.procs.contains(source) || self.procs.contains(&everybody()))
    }
}

impl Forwarding {
    pub(crate) fn len(&self) -> usize {
        self.granted.len().saturating_add(self.wanted.len()).saturating_add(self.kept.len())
    }

    /// Drops kept output of a deregistered job.
    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.kept.retain(|output| output.source.namespace != *namespace);
        self.kept_bytes = self.kept.iter().map(size_bytes).fold(0, usize::saturating_add);
    }

    /// A number for the next granted pull.
    pub(crate) const fn next_reference(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }

    /// The granted pulls.
    pub(crate) fn granted(&self) -> impl Iterator<Item = &OutputPull> {
        self.granted.values()
    }

    /// Whether a granted pull is of this connection.
    pub(crate) fn is_of(&self, reference: u64, peer: PeerId) -> bool {
        self.granted.get(&reference).is_some_and(|pull| pull.peer == peer)
    }

    /// Number of granted pulls, and of the processes in all of them.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.granted.len(), self.proc_count)
    }

    pub(crate) fn insert(&mut self, reference: u64, pull: OutputPull) {
        self.proc_count = self.proc_count.saturating_add(pull.procs.len());
        for proc in &pull.procs {
            let wanted = self.wanted.entry(proc.namespace.clone()).or_default();
            wanted.of_any.change(pull.channels, 1);
            wanted.of_rank.entry(proc.rank).or_default().change(pull.channels, 1);
        }
        self.granted.insert(reference, pull);
    }

    pub(crate) fn extract(&mut self, is_over: impl Fn(u64, &OutputPull) -> bool) -> Vec<OutputPull> {
        let over: Vec<OutputPull> =
            self.granted.extract_if(.., |&id, pull| is_over(id, pull)).map(|(_, pull)| pull).collect();
        for pull in &over {
            self.proc_count = self.proc_count.saturating_sub(pull.procs.len());
            pull.procs.iter().for_each(|proc| self.want_less(proc, pull.channels));
        }
        over
    }

    fn want_less(&mut self, proc: &ProcId, channels: u16) {
        let Some(wanted) = self.wanted.get_mut(&proc.namespace) else { return };
        wanted.of_any.change(channels, -1);
        if let Some(counts) = wanted.of_rank.get_mut(&proc.rank) {
            counts.change(channels, -1);
            if *counts == Counts::default() {
                wanted.of_rank.remove(&proc.rank);
            }
        }
        if wanted.of_rank.is_empty() {
            self.wanted.remove(&proc.namespace);
        }
    }

    /// The part of an ended pull that no other pull wants.
    pub(crate) fn without_wanted(&self, mut pull: OutputPull) -> OutputPull {
        pull.procs.retain(|proc| !self.is_wanted(proc, pull.channels));
        pull
    }

    /// Whether any pull wants one of these channels of a process. A wildcard rank means any process of the job.
    fn is_wanted(&self, proc: &ProcId, channels: u16) -> bool {
        let Some(WantedOutput { of_any, of_rank }) = self.wanted.get(&proc.namespace) else { return false };
        let has = |rank: Rank| of_rank.get(&rank).is_some_and(|counts| counts.has(channels));
        if proc.rank == Rank::Wildcard { of_any.has(channels) } else { has(proc.rank) || has(Rank::Wildcard) }
    }

    /// Whether the host already forwards all of this for the same user. Long lists are not compared: the host is asked.
    pub(crate) fn has_granted(&self, wanted: &OutputPull) -> bool {
        if wanted.procs.len() > PROCS_COMPARED_MAX {
            return false;
        }
        let channels = (0..u16::BITS).map(|bit| 1 << bit).filter(|channel| wanted.channels & channel != 0);
        let pulls: Vec<&OutputPull> = self.granted.values().filter(|pull| pull.is_of_user_of(wanted)).collect();
        channels
            .into_iter()
            .all(|channel| wanted.procs.iter().all(|proc| pulls.iter().any(|pull| pull.wants(proc, channel))))
    }

    /// Keeps output if there is room. Returns whether there was.
    pub(crate) fn keep(&mut self, output: IofOutput, kept_bytes_max: usize) -> bool {
        let kept_bytes = self.kept_bytes.saturating_add(size_bytes(&output));
        let has_room = kept_bytes <= kept_bytes_max;
        if has_room {
            self.kept_bytes = kept_bytes;
            self.kept.push_back(output);
        }
        has_room
    }

    pub(crate) fn take_kept(&mut self, pull: &OutputPull) -> Vec<IofOutput> {
        let is_wanted = |output: &IofOutput| pull.wants(&output.source, output.channel);
        let (wanted, kept) = std::mem::take(&mut self.kept).into_iter().partition::<Vec<_>, _>(is_wanted);
        self.kept = kept.into();
        self.kept_bytes = self.kept.iter().map(size_bytes).fold(0, usize::saturating_add);
        wanted
    }
}

impl Counts {
    fn change(&mut self, channels: u16, by: isize) {
        for count in self.of(channels) {
            *count = count.saturating_add_signed(by);
        }
    }

    fn of(&mut self, channels: u16) -> impl Iterator<Item = &mut usize> {
        self.0.iter_mut().enumerate().filter(move |(bit, _)| channels & (1 << bit) != 0).map(|(_, count)| count)
    }

    fn has(&self, channels: u16) -> bool {
        self.0.iter().enumerate().any(|(bit, &count)| channels & (1 << bit) != 0 && count > 0)
    }
}

/// Memory of a piece of output. It includes the record, so that empty pieces are bounded, too.
fn size_bytes(output: &IofOutput) -> usize {
    let info = output.info.iter().map(|info| footprint(&info.value).unwrap_or(usize::MAX));
    info.fold(output.bytes.len(), usize::saturating_add).saturating_add(size_of::<IofOutput>())
}

/// Longest list of processes that is compared with the granted pulls.
const PROCS_COMPARED_MAX: usize = 64;
