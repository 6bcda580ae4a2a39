//! Output from the host to the clients that have pulled it.
//!
//! A pull is granted at once if the same user has been granted all of it already, and nothing in it needs the host. The
//! host must allow any other, and pulls of the same share a question to it. A pull of the server's own process needs no
//! grant. Delivered output without a pull is kept within bounds, and goes to the first matching pull. A spawner can't
//! request output before it knows the job's name. At a bound, newer output is dropped, or older if the settings say so
//! ([`OutputSettings`]).
//!
//! Deliveries may wait for more output. They wait no longer at the end of their channel, their job, their pull or its
//! connection.
//!
//! A host that writes output elsewhere offers it first. Offered output is not kept. The answer says whether a pull
//! wants it in place of the host (`PMIX_IOF_REDIRECT`).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::access::Action;
use super::host_request::is_false_claim;
use crate::gds::Datastore;
use crate::keys;
use crate::proto::{self, Reply};
use crate::server::interface::{
    Capabilities, Delivery, Forwarded, HostResult, IofOutput, Output, OutputSettings, PeerId, Requester, Upcall,
    UpcallId, flag, requires_more_than,
};
use crate::server::state::{
    AskedPull, CallTicket, Collected, Expected, FollowingPull, OutputPull, Peer, PeerStage, Pool, Purpose, ServerCore,
    SpawnedOutput, Ticket, Timer,
};
use crate::types::codes::iof_channel;
use crate::types::{Info, InfoFlags, Key, Namespace, ProcId, Rank, Status, Time};

impl<S: Datastore> ServerCore<S> {
    pub(in crate::server) fn pull_output(
        &mut self,
        now: Time,
        ticket: Ticket,
        requester: Requester,
        mut request: proto::IofPull,
    ) {
        if !self.config.capabilities.contains(Capabilities::IOF_PULL) {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
        }
        let pull = match self.wanted_pull(Some(ticket.peer()), &requester, &mut request) {
            Ok(pull) => pull,
            Err(status) => return self.outputs.reply_status(ticket, status),
        };
        let needs_host = needs_host(&request.directives);
        if !needs_host && self.forwarding.has_granted(&pull) {
            return self.grant_pull(now, ticket, pull);
        }
        let proto::IofPull { directives, channels, .. } = request;
        let (procs, directives) = (pull.procs.iter().cloned().collect(), requester.signed(directives));
        let upcall = Upcall::IofPull(requester, proto::IofPull { procs, directives, channels, local_id: None });
        let deadline = self.config.host_timeout.map(|timeout| now + timeout);
        let id = self.upcalls.insert(Purpose::Passed(ticket, Expected::Pull), deadline);
        self.timers.arm(deadline, Timer::Upcall(id));
        let following = FollowingPull { id, upcall, pull };
        if needs_host { self.ask_for_pull(now, following) } else { self.ask_or_follow(now, following) }
    }

    /// A pull of the server's own process. The host delivers all output, so nobody is asked.
    pub(in crate::server) fn pull_own_output(
        &mut self,
        now: Time,
        call: CallTicket,
        requester: &Requester,
        mut request: proto::IofPull,
    ) {
        let wanted = self.wanted_pull(None, requester, &mut request);
        let is_refused = requires_more_than(&request.directives, &OF_OWN_PULLS)
            || request.directives.iter().any(|info| is_false_claim(requester, info));
        let status = match wanted {
            Ok(_) if is_refused => Status::ERR_NOT_SUPPORTED,
            Ok(pull) => {
                // The process learns the result before it gets output.
                self.outputs.complete(call, HostResult::Status(Status::SUCCESS));
                let reference = self.forwarding.next_reference();
                return self.begin_pull(now, reference, pull);
            }
            Err(status) => status,
        };
        self.outputs.complete(call, HostResult::Status(status));
    }

    /// A pull as a request describes it, if it is permitted and there is room for it. Without a peer it is the server's
    /// own.
    fn wanted_pull(
        &self,
        peer: Option<PeerId>,
        requester: &Requester,
        request: &mut proto::IofPull,
    ) -> Result<OutputPull, Status> {
        let proto::IofPull { procs, directives, channels, local_id } = request;
        // A client ends its pull by deregistration. To the host `PMIX_IOF_STOP` means that nobody wants this output.
        if *channels & iof_channel::FWD_STDIN_CHANNEL != 0 || flag(directives, keys::IOF_STOP) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        if procs.is_empty() || *channels & OUTPUT_CHANNELS == 0 {
            return Err(Status::ERR_BAD_PARAM);
        }
        let settings = OutputSettings::honoured(directives, self.config.limits.kept_output_bytes_max)?;
        let procs = self.with_members(std::mem::take(procs), &requester.proc)?;
        if peer.is_some() {
            self.permit_all(requester, Action::PullOutput, &procs)?;
        }
        let procs: BTreeSet<ProcId> = procs.into_iter().collect();
        let pull = OutputPull {
            peer,
            requester: requester.clone(),
            procs,
            channels: *channels & OUTPUT_CHANNELS,
            local_id: local_id.unwrap_or(0),
            is_redirect: is_redirect(directives),
            is_of_spawn: false,
            inherited_from: None,
            settings,
            collected: Collected::default(),
        };
        let has_room = self.has_room_for_pull(peer, requester, pull.procs.len())
            && self.forwarding.overlapping(&pull) < OVERLAPPING_PULLS_MAX;
        has_room.then_some(pull).ok_or(Status::ERR_OUT_OF_RESOURCE)
    }

    /// Asks the host, which has its whole time from now on.
    fn ask_for_pull(&mut self, now: Time, FollowingPull { id, upcall, pull }: FollowingPull) {
        let deadline = self.config.host_timeout.map(|timeout| now + timeout);
        self.timers.disarm(self.upcalls.postpone(id, deadline), Timer::Upcall(id));
        self.timers.arm(deadline, Timer::Upcall(id));
        self.forwarding.ask(id, pull);
        self.outputs.push(Output::Upcall(id, upcall));
    }

    /// Waits for an answer that the host owes for the same output, or asks.
    fn ask_or_follow(&mut self, now: Time, following: FollowingPull) {
        if following.pull.procs.is_empty() {
            // Its jobs have ended meanwhile.
            if let Some(Purpose::Passed(ticket, _)) = self.cancel_upcall(following.id) {
                self.outputs.reply_status(ticket, Status::ERR_NOT_FOUND);
            }
            return;
        }
        if let Err(following) = self.forwarding.follow(following) {
            self.ask_for_pull(now, *following);
        }
    }

    /// The host's answer to a pull, or the end of the wait for it.
    pub(in crate::server) fn settle_pull(&mut self, now: Time, id: UpcallId, ticket: Ticket, status: Status) {
        let Some(AskedPull { pull, followers }) = self.forwarding.take_asked(id) else {
            self.forwarding.forget_followers(|following| following.id == id);
            return self.outputs.reply_status(ticket, status);
        };
        if status == Status::SUCCESS {
            let following = followers.into_iter().filter_map(|following| match self.cancel_upcall(following.id) {
                Some(Purpose::Passed(ticket, _)) => Some((ticket, following.pull)),
                _ => None,
            });
            let granted: Vec<(Ticket, OutputPull)> = std::iter::once((ticket, pull)).chain(following).collect();
            return self.grant_pulls(now, granted);
        }
        self.outputs.reply_status(ticket, status);
        followers.into_iter().for_each(|following| self.ask_or_follow(now, following));
        // The host may begin to forward after the deadline.
        if status == Status::ERR_TIMEOUT {
            self.stop(pull);
        }
    }

    /// Nobody waits for the host's answer any more. Others may still want the output.
    pub(super) fn abandon_pull(&mut self, now: Time, id: UpcallId) {
        let Some(AskedPull { pull, followers }) = self.forwarding.take_asked(id) else { return };
        followers.into_iter().for_each(|following| self.ask_or_follow(now, following));
        self.stop(pull);
    }

    /// Pulls that wait for the host count from the start.
    /// The pulls of tools take no room from the server's own process.
    fn has_room_for_pull(&self, peer: Option<PeerId>, requester: &Requester, proc_count: usize) -> bool {
        let (limits, shares) = (&self.config.limits, self.forwarding.shares());
        let (all, of_user) = (shares.all(), shares.of_user(requester.uid));
        let pulls = Pool { max: limits.pulls_max, used: all.pulls };
        let procs = Pool { max: limits.participants_max, used: all.procs };
        shares.of_process(&requester.proc) < limits.pulls_per_process_max
            && (peer.is_none()
                || self.has_share(requester.uid, pulls, 1, || of_user.pulls)
                    && self.has_share(requester.uid, procs, proc_count, || of_user.procs))
    }

    /// The host forwards the output for these pulls. A process that has finalized meanwhile gets nothing of it.
    fn grant_pulls(&mut self, now: Time, granted: Vec<(Ticket, OutputPull)>) {
        let has_finalized =
            |peer: PeerId| self.peers.get(peer).is_some_and(|peer| peer.stage() == PeerStage::Finalized);
        let (over, granted): (Vec<_>, Vec<_>) =
            granted.into_iter().partition(|(ticket, _)| has_finalized(ticket.peer()));
        for (ticket, pull) in granted {
            self.grant_pull(now, ticket, pull);
        }
        for (ticket, pull) in over {
            self.outputs.reply_status(ticket, Status::ERR_INIT);
            self.stop(pull);
        }
    }

    /// The host forwards the output: from now on it goes to the client, after the kept part.
    fn grant_pull(&mut self, now: Time, ticket: Ticket, pull: OutputPull) {
        let reference = self.forwarding.next_reference();
        self.outputs.reply(ticket, Reply::IofPulled(reference));
        self.begin_pull(now, reference, pull);
    }

    /// Lets output go to a pull from now on, after the kept part and the ends of channels.
    pub(super) fn begin_pull(&mut self, now: Time, reference: u64, pull: OutputPull) {
        let mut outputs = self.forwarding.take_kept(&pull, self.config.output);
        let mut ended = self.forwarding.ended(&pull);
        for output in outputs.iter().filter(|output| output.is_end()) {
            ended.remove(&(output.source.clone(), output.channel));
        }
        outputs.extend(ended.into_iter().map(|(source, channel)| IofOutput::end(source, channel)));
        self.forwarding.insert(reference, pull);
        for output in outputs {
            self.pass_to(now, reference, &Arc::new(output));
        }
    }

    /// The output that a spawner gets without a pull. Tools count on this. Other processes get none.
    pub(super) fn output_of_spawn(&self, spawner: PeerId, spawn: &proto::Spawn) -> SpawnedOutput {
        let inherits = spawn.inherits_output();
        if !self.peers.get(spawner).is_some_and(Peer::is_tool) {
            return SpawnedOutput { inherits, ..SpawnedOutput::default() };
        }
        let (channels, is_redirect) = (spawn.channels_for_tool(), is_redirect(&spawn.job));
        SpawnedOutput { channels, is_redirect, inherits, ..SpawnedOutput::default() }
    }

    /// Forwards the output of a job to its spawner, with the number that stands for no pull of the spawner.
    pub(super) fn forward_to_spawner(&mut self, now: Time, peer: PeerId, job: Namespace, wanted: SpawnedOutput) {
        let Some(proc) = self.peers.get(peer).map(|peer| peer.proc().clone()) else { return };
        let SpawnedOutput { channels, is_redirect, .. } = wanted;
        let Some(requester) = (channels != 0).then(|| self.requester(peer, proc)).flatten() else { return };
        self.make_room_for_job(peer, requester.uid);
        let pull = OutputPull {
            peer: Some(peer),
            requester,
            procs: BTreeSet::from([ProcId { namespace: job, rank: Rank::Wildcard }]),
            channels,
            local_id: 0,
            is_redirect,
            is_of_spawn: true,
            inherited_from: None,
            settings: OutputSettings::default(),
            collected: Collected::default(),
        };
        let reference = self.forwarding.next_reference();
        self.begin_pull(now, reference, pull);
    }

    /// Forwards the output of a job to a tool for which this process has started the job.
    pub(in crate::server) fn forward_to_tool(
        &mut self,
        now: Time,
        tool: &ProcId,
        job: Namespace,
        channels: u16,
    ) -> Status {
        let is_tool = |peer: &PeerId| self.peers.get(*peer).is_some_and(|peer| peer.is_tool() && peer.is_admitted());
        let Some(peer) = self.peers.of_process(tool).find(is_tool) else { return Status::ERR_NOT_FOUND };
        self.forward_to_spawner(now, peer, job, SpawnedOutput { channels, ..SpawnedOutput::default() });
        Status::SUCCESS
    }

    /// Ends the forwarding of a job if its receiver or the receiver's user has too many: of the oldest that has ended,
    /// else of the oldest that was inherited, else of the oldest.
    pub(super) fn make_room_for_job(&mut self, peer: PeerId, uid: u32) {
        let limits = &self.config.limits;
        let own = self.forwarding.numbers_of(|_, pull| pull.is_of_spawn && pull.peer == Some(peer));
        let of_user = self.forwarding.numbers_of(|_, pull| pull.is_of_spawn && pull.requester.uid == uid);
        let too_many = match (own.len() >= limits.pulls_per_process_max, of_user.len() >= limits.pulls_max / 2) {
            (true, _) => own,
            (_, true) => of_user,
            _ => return,
        };
        let is_here = |reference: &u64| {
            let pull = self.forwarding.pull(*reference);
            pull.is_some_and(|pull| pull.procs.iter().any(|job| self.registry.registered(&job.namespace).is_some()))
        };
        let is_of_own_spawn =
            |reference: &u64| self.forwarding.pull(*reference).is_some_and(|pull| pull.inherited_from.is_none());
        let order =
            |reference: &u64| (is_of_own_spawn(reference) && is_here(reference), is_here(reference), *reference);
        let Some(oldest) = too_many.into_iter().min_by_key(order) else { return };
        if is_here(&oldest) {
            let proc = self.peers.get(peer).map(|peer| peer.proc().to_string());
            tracing::warn!(tool = proc, uid, "too much output is forwarded; that of the oldest job ends");
        }
        self.deliver_collected(oldest);
        self.drop_pulls(|reference, _| reference == oldest);
    }

    pub(in crate::server) fn end_pull(&mut self, ticket: Ticket, end: &proto::IofDeregister) {
        // The client honours its time limit.
        if requires_more_than(&end.directives, &[keys::TIMEOUT.name()]) {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
        }
        let reference = end.reference;
        let is_own = self.forwarding.is_of(reference, ticket.peer());
        if is_own {
            self.finish_pull(reference);
        }
        self.outputs.reply_status(ticket, if is_own { Status::SUCCESS } else { Status::ERR_NOT_FOUND });
    }

    /// Ends the pull of the server's own process with this number.
    pub(in crate::server) fn end_own_pull(&mut self, number: u64) -> Status {
        let own = self.forwarding.numbers_of(|_, pull| pull.peer.is_none() && pull.local_id == number);
        own.iter().for_each(|&reference| self.finish_pull(reference));
        if own.is_empty() { Status::ERR_NOT_FOUND } else { Status::SUCCESS }
    }

    /// Delivers the output that a pull and the pulls from it wait with, and ends them.
    fn finish_pull(&mut self, reference: u64) {
        let is_meant = |id: u64, pull: &OutputPull| id == reference || pull.inherited_from == Some(reference);
        for id in self.forwarding.numbers_of(is_meant) {
            self.deliver_collected(id);
        }
        self.drop_pulls(is_meant);
    }

    /// Ends the pulls of a connection.
    pub(super) fn forget_puller(&mut self, peer: PeerId) {
        self.drop_pulls(|_, pull| pull.peer == Some(peer));
    }

    /// Ends pulls. The host gets a notice about output without any pull left; its answer has no effect.
    pub(super) fn drop_pulls(&mut self, is_over: impl Fn(u64, &OutputPull) -> bool) {
        // One after the other: only the last pull of some output stops it.
        for reference in self.forwarding.numbers_of(is_over) {
            let Some(pull) = self.forwarding.remove(reference) else { continue };
            self.timers.disarm(pull.collected.deadline, Timer::Output(reference));
            self.stop(pull);
        }
    }

    /// Tells the host to stop the output of a pull that no other pull wants. Output of a spawn began without a pull,
    /// and so does that for the server's own process.
    fn stop(&mut self, pull: OutputPull) {
        if pull.is_of_spawn || pull.peer.is_none() {
            return;
        }
        let OutputPull { requester, procs, channels, .. } = self.forwarding.without_wanted(pull);
        if procs.is_empty() {
            return;
        }
        let stop = Info::new(Key::from_static(keys::IOF_STOP.name()), true);
        let directives = requester.signed(vec![stop]);
        let procs = procs.into_iter().collect();
        let upcall = Upcall::IofPull(requester, proto::IofPull { procs, directives, channels, local_id: None });
        let id = self.upcalls.unawaited();
        self.outputs.push(Output::Upcall(id, upcall));
    }

    /// Forwards the host's output, or keeps it.
    pub(in crate::server) fn deliver_output(&mut self, now: Time, output: Arc<IofOutput>) -> Status {
        if let Err(refusal) = check_output(&output) {
            return refusal;
        }
        self.forward_or_keep(now, output);
        Status::SUCCESS
    }

    /// Forwards the host's output, or keeps it. The status tells the host which of them.
    pub(in crate::server) fn offer_or_keep_output(&mut self, now: Time, output: Arc<IofOutput>) -> Status {
        match check_output(&output) {
            Ok(()) => self.forward_or_keep(now, output).status(),
            Err(refusal) => refusal,
        }
    }

    fn forward_or_keep(&mut self, now: Time, output: Arc<IofOutput>) -> Delivery {
        if self.forwarding.repeats_end(&self.registry, &output) {
            return Delivery::Unwanted;
        }
        let output = output.with_end();
        let delivery = self.forward_to_all(now, &output);
        if delivery != Delivery::Unwanted {
            return delivery;
        }
        let kept_bytes_max = self.config.limits.kept_output_bytes_max;
        let is_kept =
            self.forwarding.keep(&self.registry, Arc::unwrap_or_clone(output), self.config.output, kept_bytes_max);
        if is_kept { Delivery::Kept } else { delivery }
    }

    /// Forwards the host's output, if anybody has pulled it.
    pub(in crate::server) fn offer_output(&mut self, now: Time, output: Arc<IofOutput>) -> Status {
        if let Err(refusal) = check_output(&output) {
            return refusal;
        }
        if self.forwarding.repeats_end(&self.registry, &output) {
            return Delivery::Unwanted.status();
        }
        self.forward_to_all(now, &output.with_end()).status()
    }

    fn forward_to_all(&mut self, now: Time, output: &Arc<IofOutput>) -> Delivery {
        let mut delivery = Delivery::Unwanted;
        for reference in self.forwarding.takers_of(&output.source, output.channel) {
            let is_redirect = self.forwarding.pull(reference).is_some_and(|pull| pull.is_redirect);
            let is_redirected = is_redirect || delivery == Delivery::Redirected;
            delivery = if is_redirected { Delivery::Redirected } else { Delivery::Copied };
            self.pass_to(now, reference, output);
        }
        delivery
    }

    /// Gives output to a pull, at once or together with later output.
    fn pass_to(&mut self, now: Time, reference: u64, output: &Arc<IofOutput>) {
        let Some(pull) = self.forwarding.pull(reference) else { return };
        let settings = self.forwarding.settings(&output.source.namespace, pull.settings, self.config.output);
        if settings.collects() && output.info.is_empty() && self.collect(now, reference, output, settings) {
            return;
        }
        self.deliver_channel(reference, output);
        if let Some(pull) = self.forwarding.pull(reference) {
            self.outputs.push(forward(pull, output));
        }
    }

    /// Lets output wait for more, or delivers it if that is enough. Returns whether there was room.
    fn collect(&mut self, now: Time, reference: u64, output: &IofOutput, settings: OutputSettings) -> bool {
        if self.forwarding.collected_bytes() >= self.config.limits.collected_output_bytes_max {
            return false;
        }
        let deadline = settings.buffering_time.map(|time| now + time);
        let added = self.forwarding.change_collected(reference, |collected| {
            let gathered_bytes = collected.add(output)?;
            let (previous, wanted) = (collected.deadline, deadline);
            collected.deadline = previous.into_iter().chain(wanted).min();
            Some((gathered_bytes, previous, collected.deadline))
        });
        let Some((gathered_bytes, previous, next)) = added.flatten() else { return false };
        self.timers.disarm(previous, Timer::Output(reference));
        self.timers.arm(next, Timer::Output(reference));
        if settings.buffered_bytes.is_some_and(|size| gathered_bytes >= size) {
            self.deliver_channel(reference, output);
        }
        true
    }

    /// Delivers the output of the same channel that a pull waits with.
    fn deliver_channel(&mut self, reference: u64, like: &IofOutput) {
        self.deliver_taken(reference, |collected| collected.take(&like.source, like.channel));
    }

    /// Delivers all output that a pull waits with.
    pub(in crate::server) fn deliver_collected(&mut self, reference: u64) {
        self.deliver_taken(reference, Collected::take_all);
    }

    /// Delivers all output that waits for a connection, before its end.
    pub(super) fn deliver_all_to(&mut self, peer: PeerId) {
        for reference in self.forwarding.numbers_of(|_, pull| pull.peer == Some(peer) && !pull.collected.is_empty()) {
            self.deliver_collected(reference);
        }
    }

    /// Delivers all output that waits, at the end of the server.
    pub(in crate::server) fn deliver_all_output(&mut self) {
        for reference in self.forwarding.numbers_of(|_, pull| !pull.collected.is_empty()) {
            self.deliver_collected(reference);
        }
    }

    /// Delivers all output of a job that waits, at the end of the job.
    pub(super) fn deliver_all_of_job(&mut self, namespace: &Namespace) {
        for reference in self.forwarding.numbers_of(|_, pull| !pull.collected.is_empty()) {
            self.deliver_taken(reference, |collected| collected.take_job(namespace));
        }
    }

    /// Delivers a part of the output that a pull waits with. The wait ends with the last part.
    fn deliver_taken<T: IntoIterator<Item = IofOutput>>(
        &mut self,
        reference: u64,
        take: impl FnOnce(&mut Collected) -> T,
    ) {
        let taken = self.forwarding.change_collected(reference, |collected| {
            let taken = take(collected);
            (collected.is_empty().then(|| collected.deadline.take()).flatten(), taken)
        });
        let Some((ended, outputs)) = taken else { return };
        self.timers.disarm(ended, Timer::Output(reference));
        let Some(pull) = self.forwarding.pull(reference) else { return };
        for output in outputs {
            self.outputs.push(forward(pull, &Arc::new(output)));
        }
    }
}

/// Whether a host that was asked about such output before may decide otherwise for this request.
fn needs_host(directives: &[Info]) -> bool {
    let chooses = [keys::IOF_COPY.name(), keys::IOF_REDIRECT.name()];
    directives.iter().any(|info| info.flags().contains(InfoFlags::REQUIRED) || chooses.contains(&info.key.as_str()))
}

/// Directives of a pull of the server's own process, beside those of [`OutputSettings`]. It never waits.
const OF_OWN_PULLS: [&str; 3] = [keys::TIMEOUT.name(), keys::USERID.name(), keys::GRPID.name()];

fn is_redirect(directives: &[Info]) -> bool {
    flag(directives, keys::IOF_REDIRECT) && !flag(directives, keys::IOF_COPY)
}

/// Refuses output of no single channel, and output with a required info that has no effect here.
fn check_output(output: &IofOutput) -> Result<(), Status> {
    if !output.channel.is_power_of_two() || output.channel & OUTPUT_CHANNELS == 0 {
        return Err(Status::ERR_BAD_PARAM);
    }
    if requires_more_than(&output.info, &UNDERSTOOD_OF_OUTPUT) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(()) }
}

/// Infos about a piece of output.
pub(crate) const UNDERSTOOD_OF_OUTPUT: [&str; 1] = [keys::IOF_COMPLETE.name()];

fn forward(pull: &OutputPull, output: &Arc<IofOutput>) -> Output {
    let forwarded = Forwarded { reference: pull.local_id, output: Arc::clone(output) };
    match pull.peer {
        Some(peer) => Output::Forward(peer, forwarded),
        None => Output::HandOver(forwarded),
    }
}

/// Pulls of one connection that get the same piece of output. Each gets its copy.
const OVERLAPPING_PULLS_MAX: usize = 16;

/// Channels of a process's output.
pub(crate) const OUTPUT_CHANNELS: u16 =
    iof_channel::FWD_STDOUT_CHANNEL | iof_channel::FWD_STDERR_CHANNEL | iof_channel::FWD_STDDIAG_CHANNEL;
