//! Output from the host to the clients that have pulled it.
//!
//! A pull is granted at once if the same user has been granted all of it already; the host must allow any other. Output
//! without a pull is kept within a bound, and goes to the first matching pull: a spawner can't request output before it
//! knows the job's name. At the bound, newer output without a pull is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::access::Action;
use crate::gds::Datastore;
use crate::keys;
use crate::proto::{self, Reply};
use crate::server::dispatch::core::Server;
use crate::server::interface::config::Capabilities;
use crate::server::interface::host::Upcall;
use crate::server::interface::io::{Forwarded, Output, PeerId};
use crate::server::interface::requests::{IofOutput, Requester};
use crate::server::state::outputs::Ticket;
use crate::server::state::pending::{Expected, Purpose};
use crate::server::state::shares::Pool;
use crate::types::codes::iof_channel;
use crate::types::{Info, Key, Namespace, ProcId, Rank, Status, Time, footprint};

/// A standing request for output.
#[derive(Debug)]
pub(in crate::server) struct Pull {
    peer: PeerId,
    requester: Requester,
    procs: Vec<ProcId>,
    channels: u16,
    /// The client's own number for the request.
    local_id: u64,
}

/// Pulls of output, and kept output without a pull.
#[derive(Debug, Default)]
pub(in crate::server) struct Forwarding {
    granted: BTreeMap<u64, Pull>,
    wanted: BTreeMap<Namespace, Wanted>,
    /// Total number of processes in all pulls.
    proc_count: usize,
    kept: VecDeque<IofOutput>,
    kept_bytes: usize,
    last: u64,
}

/// Number of pulls for a job's output.
#[derive(Debug, Default)]
struct Wanted {
    of_any: Counts,
    of_rank: BTreeMap<Rank, Counts>,
}

/// Number of pulls for each channel, by the number of its bit.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts([usize; u16::BITS as usize]);

impl<S: Datastore> Server<S> {
    pub(super) fn pull_output(&mut self, now: Time, ticket: Ticket, requester: Requester, pull: proto::IofPull) {
        let proto::IofPull { procs, directives, channels, local_id } = pull;
        if !self.config.capabilities.contains(Capabilities::IOF_PULL) || channels & iof_channel::FWD_STDIN_CHANNEL != 0
        {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
        }
        if procs.is_empty() || channels & OUTPUT_CHANNELS == 0 {
            return self.outputs.reply_status(ticket, Status::ERR_BAD_PARAM);
        }
        let procs = match self.with_members(procs, &requester.proc) {
            Ok(procs) => procs,
            Err(status) => return self.outputs.reply_status(ticket, status),
        };
        if let Err(status) = self.permit_all(&requester, Action::PullOutput, &procs) {
            return self.outputs.reply_status(ticket, status);
        }
        if !self.has_room_for_pull(&requester, procs.len()) {
            return self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
        }
        let pull = Pull {
            peer: ticket.peer(),
            requester: requester.clone(),
            procs: procs.clone(),
            channels: channels & OUTPUT_CHANNELS,
            local_id: local_id.unwrap_or(0),
        };
        if self.forwarding.has_granted(&pull) {
            return self.grant_pull(ticket, pull);
        }
        let directives = requester.signed(directives);
        let upcall = Upcall::IofPull(requester, proto::IofPull { procs, directives, channels, local_id: None });
        self.ask_host(now, Purpose::Passed(ticket, Expected::Pull(Box::new(pull))), upcall);
    }

    fn has_room_for_pull(&self, requester: &Requester, proc_count: usize) -> bool {
        let limits = &self.config.limits;
        let Forwarding { granted, proc_count: used, .. } = &self.forwarding;
        let own = granted.values().filter(|pull| pull.requester.proc == requester.proc).count();
        let of_user = || granted.values().filter(|pull| pull.requester.uid == requester.uid);
        let procs_of_user = || of_user().map(|pull| pull.procs.len()).fold(0, usize::saturating_add);
        let pulls = Pool { max: limits.pulls_max, used: granted.len() };
        let procs = Pool { max: limits.participants_max, used: *used };
        own < limits.pulls_per_process_max
            && self.has_share(requester.uid, pulls, 1, || of_user().count())
            && self.has_share(requester.uid, procs, proc_count, procs_of_user)
    }

    /// The host forwards the output: from now on it goes to the client, after the kept part. If the bound has been
    /// reached since, the host gets a notice to stop.
    pub(super) fn grant_pull(&mut self, ticket: Ticket, pull: Pull) {
        if !self.has_room_for_pull(&pull.requester, pull.procs.len()) {
            self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
            return self.stop(pull);
        }
        self.forwarding.last = self.forwarding.last.saturating_add(1);
        let reference = self.forwarding.last;
        self.outputs.reply(ticket, Reply::IofPulled(reference));
        for output in self.forwarding.take_kept(&pull) {
            self.outputs.push(forward(&pull, &Arc::new(output)));
        }
        self.forwarding.insert(reference, pull);
    }

    pub(super) fn end_pull(&mut self, ticket: Ticket, reference: u64) {
        let is_own = self.forwarding.granted.get(&reference).is_some_and(|pull| pull.peer == ticket.peer());
        if is_own {
            self.drop_pulls(|id, _| id == reference);
        }
        self.outputs.reply_status(ticket, if is_own { Status::SUCCESS } else { Status::ERR_NOT_FOUND });
    }

    /// Ends the pulls of a connection.
    pub(super) fn forget_puller(&mut self, peer: PeerId) {
        self.drop_pulls(|_, pull| pull.peer == peer);
    }

    /// Ends pulls. The host gets a notice about output without any pull left; its answer has no effect.
    fn drop_pulls(&mut self, is_over: impl Fn(u64, &Pull) -> bool) {
        for pull in self.forwarding.extract(is_over) {
            self.stop(pull);
        }
    }

    /// Tells the host to stop the output of a pull that no other pull wants.
    fn stop(&mut self, pull: Pull) {
        let Pull { requester, procs, channels, .. } = self.forwarding.without_wanted(pull);
        if procs.is_empty() {
            return;
        }
        let stop = Info::new(Key::from_static(keys::IOF_STOP.name()), true);
        let directives = requester.signed(vec![stop]);
        let upcall = Upcall::IofPull(requester, proto::IofPull { procs, directives, channels, local_id: None });
        let id = self.upcalls.unawaited();
        self.outputs.push(Output::Upcall(id, upcall));
    }

    /// Forwards the host's output, or keeps it.
    pub(in crate::server) fn deliver_output(&mut self, output: IofOutput) -> Status {
        if !output.channel.is_power_of_two() || output.channel & OUTPUT_CHANNELS == 0 {
            return Status::ERR_BAD_PARAM;
        }
        let mut is_wanted = false;
        let output = Arc::new(output);
        for pull in self.forwarding.granted.values().filter(|pull| pull.wants(&output.source, output.channel)) {
            self.outputs.push(forward(pull, &output));
            is_wanted = true;
        }
        if !is_wanted {
            self.forwarding.keep(Arc::unwrap_or_clone(output), self.config.limits.kept_output_bytes_max);
        }
        Status::SUCCESS
    }
}

impl Pull {
    fn is_of_user_of(&self, other: &Self) -> bool {
        let owner = |pull: &Self| (pull.requester.uid, pull.requester.gid);
        owner(self) == owner(other)
    }

    fn wants(&self, source: &ProcId, channel: u16) -> bool {
        let is_source = |proc: &ProcId| {
            proc.namespace == source.namespace && (proc.rank == source.rank || proc.rank == Rank::Wildcard)
        };
        self.channels & channel != 0 && self.procs.iter().any(is_source)
    }
}

impl Forwarding {
    pub(in crate::server) fn len(&self) -> usize {
        self.granted.len().saturating_add(self.wanted.len()).saturating_add(self.kept.len())
    }

    /// Drops kept output of a deregistered job.
    pub(super) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.kept.retain(|output| output.source.namespace != *namespace);
        self.kept_bytes = self.kept.iter().map(size_bytes).fold(0, usize::saturating_add);
    }

    fn insert(&mut self, reference: u64, pull: Pull) {
        self.proc_count = self.proc_count.saturating_add(pull.procs.len());
        for (namespace, procs) in ProcId::by_namespace(&pull.procs) {
            let wanted = self.wanted.entry(namespace.clone()).or_default();
            for proc in procs {
                wanted.of_any.change(pull.channels, 1);
                wanted.of_rank.entry(proc.rank).or_default().change(pull.channels, 1);
            }
        }
        self.granted.insert(reference, pull);
    }

    fn extract(&mut self, is_over: impl Fn(u64, &Pull) -> bool) -> Vec<Pull> {
        let over: Vec<Pull> =
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
    fn without_wanted(&self, mut pull: Pull) -> Pull {
        pull.procs.retain(|proc| !self.is_wanted(proc, pull.channels));
        pull
    }

    /// Whether any pull wants one of these channels of a process. A wildcard rank means any process of the job.
    fn is_wanted(&self, proc: &ProcId, channels: u16) -> bool {
        let Some(Wanted { of_any, of_rank }) = self.wanted.get(&proc.namespace) else { return false };
        let has = |rank: Rank| of_rank.get(&rank).is_some_and(|counts| counts.has(channels));
        if proc.rank == Rank::Wildcard { of_any.has(channels) } else { has(proc.rank) || has(Rank::Wildcard) }
    }

    /// Whether the host already forwards all of this for the same user. Long lists are not compared: the host is asked.
    fn has_granted(&self, wanted: &Pull) -> bool {
        if wanted.procs.len() > PROCS_COMPARED_MAX {
            return false;
        }
        let channels = (0..u16::BITS).map(|bit| 1 << bit).filter(|channel| wanted.channels & channel != 0);
        let pulls: Vec<&Pull> = self.granted.values().filter(|pull| pull.is_of_user_of(wanted)).collect();
        channels
            .into_iter()
            .all(|channel| wanted.procs.iter().all(|proc| pulls.iter().any(|pull| pull.wants(proc, channel))))
    }

    fn keep(&mut self, output: IofOutput, kept_bytes_max: usize) {
        let kept_bytes = self.kept_bytes.saturating_add(size_bytes(&output));
        if kept_bytes <= kept_bytes_max {
            self.kept_bytes = kept_bytes;
            self.kept.push_back(output);
        }
    }

    fn take_kept(&mut self, pull: &Pull) -> Vec<IofOutput> {
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

fn forward(pull: &Pull, output: &Arc<IofOutput>) -> Output {
    Output::Forward(pull.peer, Forwarded { reference: pull.local_id, output: Arc::clone(output) })
}

/// Memory of a piece of output. It includes the record, so that empty pieces are bounded, too.
fn size_bytes(output: &IofOutput) -> usize {
    let info = output.info.iter().map(|info| footprint(&info.value).unwrap_or(usize::MAX));
    info.fold(output.bytes.len(), usize::saturating_add).saturating_add(size_of::<IofOutput>())
}

/// Longest list of processes that is compared with the granted pulls.
const PROCS_COMPARED_MAX: usize = 64;

/// Channels of a process's output.
const OUTPUT_CHANNELS: u16 =
    iof_channel::FWD_STDOUT_CHANNEL | iof_channel::FWD_STDERR_CHANNEL | iof_channel::FWD_STDDIAG_CHANNEL;
