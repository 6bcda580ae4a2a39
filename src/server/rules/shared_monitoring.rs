//! Monitoring that the server shares with its host: the runtime measures on this node, the host asks other nodes.
//!
//! The targets of a request say where it is about. A request about this node alone never reaches the host: some launchers
//! count the other nodes, and never answer if there are none. A request about both goes to the runtime, then to the host,
//! and the requester gets both answers in one.
//!
//! Source: PMIx Standard, `PMIx_Process_monitor` and `PMIX_SERVER_ENABLE_MONITORING`.

use std::sync::Arc;

use crate::events::Event;
use crate::gds::Datastore;
use crate::keys;
use crate::proto::{AnswerForm, Monitor, Service};
use crate::server::interface::{Capabilities, HostReply, Output, Requester, Upcall};
use crate::server::state::{Expected, Purpose, Remote, ServerCore, Ticket};
use crate::types::{Info, Key, ProcId, Rank, Status, Time, Value};
use crate::usage::{OwnNode, elements};

/// Whether the targets of a request are on this node, and on others. Both false: it names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reach {
    is_here: bool,
    is_elsewhere: bool,
}

impl<S: Datastore> ServerCore<S> {
    /// Gives a request to the runtime, to the host, or to both in turn.
    pub(super) fn share_monitoring(&mut self, now: Time, ticket: Ticket, requester: Requester, request: Monitor) {
        let whole = Expected::Answer(AnswerForm::Infos);
        let has_host = self.config.capabilities.contains(Capabilities::MONITOR);
        match self.reach(&requester, &request.directives) {
            Ok(Reach { is_here: true, is_elsewhere: true }) => {
                let mut share = request.clone();
                share.directives.push(Info::new(Key::from_static(keys::MONITOR_LOCAL_ONLY.name()), true));
                self.measure(ticket, Expected::Share(Box::new((requester.clone(), request))), requester, share);
            }
            Ok(Reach { is_elsewhere: true, .. }) if !has_host => {
                self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
            }
            Ok(Reach { is_elsewhere: true, .. }) => {
                self.pass_up(now, (ticket, whole), requester, Service::Monitor(request));
            }
            Ok(_) => self.measure(ticket, whole, requester, request),
            Err(status) => self.outputs.reply_status(ticket, status),
        }
    }

    /// Gives a request to the runtime. Its measurements have no time limit of the host.
    fn measure(&mut self, ticket: Ticket, expected: Expected, requester: Requester, request: Monitor) {
        let id = self.upcalls.insert(Purpose::Passed(ticket, expected), None);
        self.outputs.push(Output::Measure(id, requester, Box::new(request)));
    }

    /// Asks the host for the rest of a request, after the answer of this node.
    pub(super) fn ask_other_nodes(
        &mut self,
        now: Time,
        ticket: Ticket,
        (requester, request): (Requester, Monitor),
        share: HostReply,
    ) {
        match share.into_looks() {
            (_, Some(status)) => self.outputs.reply_status(ticket, status),
            (found, None) if self.config.capabilities.contains(Capabilities::MONITOR) => {
                let purpose = Purpose::Passed(ticket, Expected::Rest(found));
                self.ask_host(now, purpose, Upcall::Service(requester, Service::Monitor(request)));
            }
            (found, None) => {
                let answer = with_share(found, HostReply::Status(Status::ERR_NOT_SUPPORTED));
                self.outputs.reply(ticket, AnswerForm::Infos.reply(answer));
            }
        }
    }

    /// Hands on a sample of this node. The host takes it to a process that is not here.
    pub(in crate::server) fn notify_requester(&mut self, now: Time, requester: &ProcId, event: Event) -> Status {
        let is_own = self.config.contact.as_ref().is_some_and(|own| own.proc == *requester);
        let is_here = is_own || self.is_local(requester) || self.peers.of_process(requester).next().is_some();
        if is_here {
            return self.notify_of_host(now, &Arc::new(event));
        }
        if self.config.capabilities.contains(Capabilities::NOTIFY_EVENT) {
            let upcall = self.upcalls.unawaited();
            self.outputs.push(Output::Upcall(upcall, Upcall::NotifyEvent(event)));
        }
        Status::SUCCESS
    }

    /// The places of the targets that directives name.
    fn reach(&self, requester: &Requester, directives: &[Info]) -> Result<Reach, Status> {
        let node = self.own_node(requester);
        let mut reach = Reach::default();
        for Info { key, value, .. } in directives {
            let key = key.as_str();
            if key == keys::MONITOR_LOCAL_ONLY.name() && value.as_bool() == Some(true) {
                return Ok(Reach { is_here: true, is_elsewhere: false });
            } else if key == keys::MONITOR_TARGET_PROCS.name() {
                elements(value, as_proc)?.iter().for_each(|proc| reach.note_process(self, proc));
            } else if key == keys::MONITOR_TARGET_NODES.name() {
                let is_here = |name: &Value| Some(name.as_str()? == node.name);
                elements(value, is_here)?.into_iter().for_each(|is_here| reach.note(is_here));
            } else if key == keys::MONITOR_TARGET_NODEIDS.name() {
                let is_here = |id: &Value| Some(node.has_id(id.as_u32()?));
                elements(value, is_here)?.into_iter().for_each(|is_here| reach.note(is_here));
            } else if key == keys::MONITOR_TARGET_PIDS.name() {
                let is_here = |process: &Value| match process {
                    Value::NodePid(process) => Some(node.runs(process)),
                    number => number.as_u32().map(|_| true),
                };
                elements(value, is_here)?.into_iter().for_each(|is_here| reach.note(is_here));
            }
        }
        Ok(reach)
    }

    /// This node, as a process names it.
    pub(crate) fn own_node(&self, requester: &Requester) -> OwnNode<'_> {
        let name = self.config.kernel_inventory.as_ref().map_or("", |own| own.inventory().node.as_str());
        OwnNode { name, id: self.own_node_id(&requester.proc.namespace) }
    }

    /// Whether processes of this name are here.
    pub(crate) fn is_local(&self, proc: &ProcId) -> bool {
        match proc.rank {
            Rank::Wildcard => self.registry.job(&proc.namespace).is_some_and(|job| !job.clients().is_empty()),
            _ => self.registry.client(proc).is_some(),
        }
    }
}

impl Reach {
    fn note(&mut self, is_here: bool) {
        self.is_here |= is_here;
        self.is_elsewhere |= !is_here;
    }

    /// Only the host knows where all processes of a job are, if its size is unknown.
    fn note_process<S: Datastore>(&mut self, server: &ServerCore<S>, proc: &ProcId) {
        self.note(server.is_local(proc));
        let job = server.registry.job(&proc.namespace).filter(|_| proc.rank == Rank::Wildcard);
        self.is_elsewhere |= job.is_some_and(|job| job.remote() != Remote::None);
    }
}

fn as_proc(value: &Value) -> Option<ProcId> {
    match value {
        Value::Proc(proc) => Some(proc.as_ref().clone()),
        _ => None,
    }
}

/// The host's answer beside what this node has found.
pub(super) fn with_share(found: Vec<Info>, rest: HostReply) -> HostReply {
    let (others, refusal) = rest.into_looks();
    let info: Vec<Info> = found.into_iter().chain(others).collect();
    match refusal {
        None | Some(Status::SUCCESS) => HostReply::Infos { status: Status::SUCCESS, info },
        Some(status) if info.is_empty() => HostReply::Status(status),
        Some(_) => HostReply::Infos { status: Status::ERR_PARTIAL_SUCCESS, info },
    }
}
