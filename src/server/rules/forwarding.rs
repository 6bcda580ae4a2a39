//! Output from the host to the clients that have pulled it.
//!
//! A pull is granted at once if the same user has been granted all of it already, and nothing in it needs the host. The
//! host must allow any other. Delivered output without a pull is kept within a bound, and goes to the first matching
//! pull. A spawner can't request output before it knows the job's name. At the bound, newer output without a pull is
//! dropped.
//!
//! A host that writes output elsewhere offers it first. Offered output is not kept. The answer says whether a pull wants
//! it in place of the host (`PMIX_IOF_REDIRECT`).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::access::Action;
use crate::gds::Datastore;
use crate::keys;
use crate::proto::{self, Reply};
use crate::server::interface::{Capabilities, Delivery, Forwarded, IofOutput, Output, PeerId, Requester, Upcall, flag};
use crate::server::state::{Expected, OutputPull, Pool, Purpose, ServerCore, Ticket};
use crate::types::codes::iof_channel;
use crate::types::{Info, InfoFlags, Key, ProcId, Status, Time};

impl<S: Datastore> ServerCore<S> {
    pub(in crate::server) fn pull_output(
        &mut self,
        now: Time,
        ticket: Ticket,
        requester: Requester,
        pull: proto::IofPull,
    ) {
        let proto::IofPull { procs, directives, channels, local_id } = pull;
        if !self.config.capabilities.contains(Capabilities::IOF_PULL) || channels & iof_channel::FWD_STDIN_CHANNEL != 0
        {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
        }
        // A client ends its pull by deregistration. To the host the directive means that nobody wants this output.
        if flag(&directives, keys::IOF_STOP) {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
        }
        if procs.is_empty() || channels & OUTPUT_CHANNELS == 0 {
            return self.outputs.reply_status(ticket, Status::ERR_BAD_PARAM);
        }
        let procs: BTreeSet<ProcId> = match self.with_members(procs, &requester.proc) {
            Ok(procs) => procs.into_iter().collect(),
            Err(status) => return self.outputs.reply_status(ticket, status),
        };
        let listed: Vec<ProcId> = procs.iter().cloned().collect();
        if let Err(status) = self.permit_all(&requester, Action::PullOutput, &listed) {
            return self.outputs.reply_status(ticket, status);
        }
        if !self.has_room_for_pull(&requester, procs.len()) {
            return self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
        }
        let pull = OutputPull {
            peer: ticket.peer(),
            requester: requester.clone(),
            procs,
            channels: channels & OUTPUT_CHANNELS,
            local_id: local_id.unwrap_or(0),
            is_redirect: flag(&directives, keys::IOF_REDIRECT) && !flag(&directives, keys::IOF_COPY),
        };
        if !needs_host(&directives) && self.forwarding.has_granted(&pull) {
            return self.grant_pull(ticket, pull);
        }
        let directives = requester.signed(directives);
        let upcall = Upcall::IofPull(requester, proto::IofPull { procs: listed, directives, channels, local_id: None });
        self.ask_host(now, Purpose::Passed(ticket, Expected::Pull(Box::new(pull))), upcall);
    }

    fn has_room_for_pull(&self, requester: &Requester, proc_count: usize) -> bool {
        let limits = &self.config.limits;
        let (pull_count, procs_pulled) = self.forwarding.counts();
        let own = self.forwarding.granted().filter(|pull| pull.requester.proc == requester.proc).count();
        let of_user = || self.forwarding.granted().filter(|pull| pull.requester.uid == requester.uid);
        let procs_of_user = || of_user().map(|pull| pull.procs.len()).fold(0, usize::saturating_add);
        let pulls = Pool { max: limits.pulls_max, used: pull_count };
        let procs = Pool { max: limits.participants_max, used: procs_pulled };
        own < limits.pulls_per_process_max
            && self.has_share(requester.uid, pulls, 1, || of_user().count())
            && self.has_share(requester.uid, procs, proc_count, procs_of_user)
    }

    /// The host forwards the output: from now on it goes to the client, after the kept part. If the bound has been
    /// reached since, the host gets a notice to stop.
    pub(super) fn grant_pull(&mut self, ticket: Ticket, pull: OutputPull) {
        if !self.has_room_for_pull(&pull.requester, pull.procs.len()) {
            self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE);
            return self.stop(pull);
        }
        let reference = self.forwarding.next_reference();
        self.outputs.reply(ticket, Reply::IofPulled(reference));
        for output in self.forwarding.take_kept(&pull) {
            self.outputs.push(forward(&pull, &Arc::new(output)));
        }
        self.forwarding.insert(reference, pull);
    }

    pub(in crate::server) fn end_pull(&mut self, ticket: Ticket, reference: u64) {
        let is_own = self.forwarding.is_of(reference, ticket.peer());
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
    fn drop_pulls(&mut self, is_over: impl Fn(u64, &OutputPull) -> bool) {
        for pull in self.forwarding.extract(is_over) {
            self.stop(pull);
        }
    }

    /// Tells the host to stop the output of a pull that no other pull wants.
    fn stop(&mut self, pull: OutputPull) {
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
    pub(in crate::server) fn deliver_output(&mut self, output: IofOutput) -> Status {
        if !is_of_one_channel(&output) {
            return Status::ERR_BAD_PARAM;
        }
        self.forward_or_keep(output);
        Status::SUCCESS
    }

    /// As above. Tells the host the fate of the output.
    pub(in crate::server) fn offer_or_keep_output(&mut self, output: IofOutput) -> Status {
        if is_of_one_channel(&output) { self.forward_or_keep(output).status() } else { Status::ERR_BAD_PARAM }
    }

    fn forward_or_keep(&mut self, output: IofOutput) -> Delivery {
        let output = Arc::new(output);
        let delivery = self.forward_to_all(&output);
        let kept_bytes_max = self.config.limits.kept_output_bytes_max;
        if delivery == Delivery::Unwanted && self.forwarding.keep(Arc::unwrap_or_clone(output), kept_bytes_max) {
            return Delivery::Kept;
        }
        delivery
    }

    /// Forwards the host's output, if anybody has pulled it.
    pub(in crate::server) fn offer_output(&mut self, output: IofOutput) -> Status {
        if !is_of_one_channel(&output) {
            return Status::ERR_BAD_PARAM;
        }
        self.forward_to_all(&Arc::new(output)).status()
    }

    fn forward_to_all(&mut self, output: &Arc<IofOutput>) -> Delivery {
        let mut delivery = Delivery::Unwanted;
        for pull in self.forwarding.granted().filter(|pull| pull.wants(&output.source, output.channel)) {
            self.outputs.push(forward(pull, output));
            let is_redirected = pull.is_redirect || delivery == Delivery::Redirected;
            delivery = if is_redirected { Delivery::Redirected } else { Delivery::Copied };
        }
        delivery
    }
}

/// Whether a host that was asked about such output before may decide otherwise for this request.
fn needs_host(directives: &[Info]) -> bool {
    let chooses = [keys::IOF_COPY.name(), keys::IOF_REDIRECT.name()];
    directives.iter().any(|info| info.flags().contains(InfoFlags::REQUIRED) || chooses.contains(&info.key.as_str()))
}

const fn is_of_one_channel(output: &IofOutput) -> bool {
    output.channel.is_power_of_two() && output.channel & OUTPUT_CHANNELS != 0
}

fn forward(pull: &OutputPull, output: &Arc<IofOutput>) -> Output {
    Output::Forward(pull.peer, Forwarded { reference: pull.local_id, output: Arc::clone(output) })
}

/// Channels of a process's output.
const OUTPUT_CHANNELS: u16 =
    iof_channel::FWD_STDOUT_CHANNEL | iof_channel::FWD_STDERR_CHANNEL | iof_channel::FWD_STDDIAG_CHANNEL;
