//! The host: a virtual network between the servers.
//!
//! It joins the parts of operations, carries fetches from one server to the other, and answers each upcall once. Faults
//! change this.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use modex::events::Event;
use modex::gds::registration::Description;
use modex::keys;
use modex::proto::{Collective, Group, Request, Service};
use modex::server::{
    DirectModex, DirectModexRequest, FenceUpcall, GroupOperation, HostCall, HostCallId, HostReply, HostResult, Input,
    RegisterNamespace, Upcall, UpcallId,
};
use modex::types::{AsStatus, Info, Key, Kval, ProcId, Status, Time, Value};

use super::departures::asks_for_part;
use crate::faults::{Canary, Faults};
use crate::host::{Arrived, Exchange, Host, Subject};
use crate::invited_groups::group_of;
use crate::local_collectives::{self, CollectiveKind};
use crate::queue::{QueuedEvent, ServerId};
use crate::rule::Rule;
use crate::setup::{EXCHANGE_TIMEOUT, HOST_TIMEOUT};
use crate::value::{Promise, Promised};
use crate::world::World;

/// One server's part of an operation.
struct Part {
    subject: Subject,
    blocks: Vec<(ProcId, Vec<Kval>)>,
    /// Values for other servers, if it asks for theirs.
    promised: Option<Vec<Promised>>,
    is_partial: bool,
}

impl World {
    /// A server asks. Returns the answer if the host answers before the server does anything else.
    pub(crate) fn upcall(&mut self, server: ServerId, id: UpcallId, upcall: Upcall) -> Option<Input> {
        match upcall {
            Upcall::Fence(fence) => {
                let fence = match fence.read() {
                    Ok(fence) => fence,
                    Err(error) => return Some(Input::Completed(id, HostReply::Status(error.status()))),
                };
                let part = self.part_of_fence(server, id, fence);
                self.join(server, id, part)
            }
            Upcall::Connect(connect) => {
                let is_partial = is_partial(&connect.directives);
                self.check_hand_over(server, id, CollectiveKind::Connect, &connect.procs, is_partial);
                let subject = Subject::Set(CollectiveKind::Connect, connect.procs);
                self.tell_before_answer(server, &subject);
                self.join(server, id, Part::bare(subject, is_partial))
            }
            Upcall::Disconnect(connect) => {
                let is_partial = is_partial(&connect.directives);
                self.check_hand_over(server, id, CollectiveKind::Disconnect, &connect.procs, is_partial);
                self.join(server, id, Part::bare(Subject::Set(CollectiveKind::Disconnect, connect.procs), is_partial))
            }
            Upcall::Group(group) => {
                let is_partial = is_partial(&group.directives);
                self.check_jobs_of_group(server, &group.id, &group.procs);
                if is_partial && group.operation == GroupOperation::Destruct {
                    self.check_end_of_group(server, &group.id, &group.procs);
                }
                let subject = Subject::Group(group.operation == GroupOperation::Construct, group.id, group.procs);
                self.join(server, id, Part::bare(subject, is_partial))
            }
            Upcall::DirectModex(DirectModex { proc, directives }) => self.fetch(server, id, proc, &directives),
            Upcall::DeregisterEvents(_) => None,
            Upcall::NotifyEvent(event) => {
                self.carry(server, &event);
                self.answer(server, id, HostReply::Status(Status::SUCCESS))
            }
            Upcall::Service(_, Service::JobControl(_)) => {
                self.host.last += 1;
                let number = Value::Size(self.host.last);
                let info = vec![Info::new(Key::from_static(keys::GROUP_CONTEXT_ID.name()), number)];
                self.answer(server, id, HostReply::Infos { status: Status::SUCCESS, info })
            }
            Upcall::Service(requester, Service::Allocate(request)) => self.allocate(server, id, &requester, &request),
            _ => {
                let status = if self.strikes(Faults::REFUSE) { Status::ERR_UNREACH } else { Status::SUCCESS };
                self.answer(server, id, HostReply::Status(status))
            }
        }
    }

    /// Carries an event to the servers of its targets. Without faults, events of one server arrive at another in order.
    fn carry(&mut self, from: ServerId, event: &Event) {
        let targets: Vec<ProcId> = event.targets().into_iter().cloned().collect();
        for node in self.nodes_of(&targets).into_iter().filter(|node| *node != from.node) {
            if self.strikes(Faults::LOSS) {
                // No process of the simulation acts on it.
                if event.status == Status::ERR_PROC_TERM_WO_SYNC {
                    continue;
                }
                self.departures.has_lost_news = true;
                let on_node: BTreeSet<ProcId> = targets
                    .iter()
                    .filter(|proc| self.nodes_of(&[ProcId::clone(proc)]).contains(&node))
                    .cloned()
                    .collect();
                self.invited_groups.lose_news(group_of(&event.info).as_ref(), |proc| on_node.contains(proc));
                continue;
            }
            let Some(to) = self.server_at(node) else { continue };
            if self.setup.canary == Some(Canary::QuestionLost) && asks_for_part(&event.info) {
                continue;
            }
            let at = self.arrival(|host| host.news.entry((from.node, node)).or_default());
            let call = Box::new(HostCall::NotifyEvent(event.clone()));
            self.queue.plan(at, QueuedEvent::Call(to, call, None));
        }
    }

    fn part_of_fence(&mut self, server: ServerId, id: UpcallId, fence: FenceUpcall) -> Part {
        let is_partial = is_partial(&fence.directives);
        let contributed = self.check_hand_over(server, id, CollectiveKind::Fence, &fence.procs, is_partial);
        let promised = fence.data.collect.then(|| self.promised_by(&contributed));
        Part {
            subject: Subject::Set(CollectiveKind::Fence, fence.procs),
            blocks: fence.data.blocks,
            promised,
            is_partial,
        }
    }

    /// A server hands no operation over before every possible participant has come. Returns the participants that have
    /// come.
    fn check_hand_over(
        &mut self,
        server: ServerId,
        id: UpcallId,
        kind: CollectiveKind,
        procs: &[ProcId],
        is_partial: bool,
    ) -> Vec<u32> {
        let signature = local_collectives::signature(kind.clone(), procs);
        let now = self.now;
        let Some(operation) = self.collectives.handed_over(server, &signature, id, now) else {
            self.rules.breaks(Rule::NothingMissing, || {
                format!("{server:?} hands over {kind:?} {procs:?}; no process has joined")
            });
            return Vec::new();
        };
        let missing = operation.missing_known();
        let left_out = operation.left_out_known();
        let is_premature = operation.is_premature(&kind, now);
        let contributed = operation.contributed.iter().copied().collect();
        if is_premature {
            self.rules.breaks(Rule::NothingMissing, || {
                format!("{server:?} hands over {kind:?} {procs:?} before all their jobs are registered")
            });
        }
        if let Some(process) = left_out {
            self.rules.breaks(Rule::NothingMissing, || {
                format!("{server:?} hands over {kind:?} {procs:?} without waiting for process {process}")
            });
        }
        if !missing.is_empty() && !is_partial {
            self.rules.breaks(Rule::NothingMissing, || {
                format!("{server:?} hands over {kind:?} {procs:?} as complete, without {missing:?}")
            });
        }
        contributed
    }

    /// A server's part arrives at the host.
    fn join(&mut self, server: ServerId, upcall: UpcallId, part: Part) -> Option<Input> {
        let Part { subject, blocks, promised, is_partial } = part;
        let subject = self.host.end_of_group(server, &subject).unwrap_or(subject);
        let expected = self.nodes_of(subject.procs());
        if expected.iter().any(|node| self.is_dead(*node)) {
            return self.answer(server, upcall, subject.failure(Status::ERR_UNREACH));
        }
        let exchanges = self.host.exchanges.entry(subject.clone()).or_default();
        let place = exchanges.iter().position(|exchange| !exchange.arrived.contains_key(&server.node));
        let place = place.unwrap_or(exchanges.len());
        if place == exchanges.len() {
            self.host.last += 1;
            let number = self.host.last;
            let (arrived, blocks, promise) = (BTreeMap::new(), Vec::new(), Promise::default());
            exchanges.push_back(Exchange { number, expected, arrived, blocks, promise });
            self.host.by_number.insert(number, subject.clone());
            self.queue.plan(self.now + EXCHANGE_TIMEOUT, QueuedEvent::ExchangeTimer(number));
        }
        let exchange = exchanges.get_mut(place)?;
        exchange.arrived.insert(server.node, Arrived { server, upcall, is_partial, is_promised: promised.is_some() });
        exchange.blocks.extend(blocks);
        exchange.promise.values.extend(promised.into_iter().flatten());
        if exchange.arrived.len() < exchange.expected.len() {
            return None;
        }
        let exchange = exchanges.remove(place)?;
        self.host.by_number.remove(&exchange.number);
        self.end_exchange(&subject, exchange, server)
    }

    /// All have come. Returns the answer to the last one, if it is immediate.
    fn end_exchange(&mut self, subject: &Subject, mut exchange: Exchange, last: ServerId) -> Option<Input> {
        let status = match exchange.arrived.values().any(|arrived| arrived.is_partial) {
            _ if self.strikes(Faults::REFUSE) => Status::ERR_UNREACH,
            true => Status::ERR_PARTIAL_SUCCESS,
            false => Status::SUCCESS,
        };
        if self.setup.canary == Some(Canary::FenceData) && exchange.arrived.len() > 1 {
            exchange.blocks.pop();
        }
        let promise = Rc::new(exchange.promise);
        let mut at_once = None;
        for Arrived { server, upcall, is_promised, .. } in exchange.arrived.into_values() {
            if let Subject::Group(false, name, _) = subject {
                self.note_end_of_group(server, name);
            }
            if status == Status::SUCCESS {
                // A server is promised values only if its own processes asked for some.
                let promise = if is_promised { Rc::clone(&promise) } else { Rc::default() };
                self.collectives.promised(server, upcall, promise);
            }
            let reply = subject.success(status, &exchange.blocks);
            let answer = self.answer(server, upcall, reply);
            let at = self.host.answered_at;
            if matches!(status, Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS) {
                self.tell_with_answer(server, subject, at);
            }
            match answer {
                Some(answer) if server == last => at_once = Some(answer),
                // The others hear of it as soon as anything can arrive.
                Some(Input::Completed(upcall, reply)) => {
                    self.queue.plan(self.now, QueuedEvent::Answer(server, upcall, Box::new(reply)));
                }
                _ => {}
            }
            if self.was_lost(upcall) {
                self.note_missed(server.node, &promise);
            }
        }
        at_once
    }

    /// Not all have come in time.
    pub(crate) fn give_up_exchange(&mut self, number: u64) {
        let Some(subject) = self.host.by_number.remove(&number) else { return };
        let mut exchanges = self.host.exchanges.get(&subject).into_iter().flatten();
        if let Some(exchange) = exchanges.find(|exchange| exchange.number == number) {
            let arrived: Vec<_> = exchange.arrived.values().map(|part| (part.server, part.upcall)).collect();
            let missing = exchange.expected.iter().filter(|node| !exchange.arrived.contains_key(node));
            let missing: Vec<u32> = missing.copied().collect();
            self.check_departures(&subject, &arrived, &missing);
        }
        self.fail_exchanges(&subject, Status::ERR_TIMEOUT, |exchange| exchange.number == number);
    }

    /// A node has gone: nobody waits for it any more.
    pub(crate) fn fail_exchanges_with(&mut self, node: u32) {
        let subjects: Vec<Subject> = self.host.exchanges.keys().cloned().collect();
        for subject in subjects {
            self.fail_exchanges(&subject, Status::ERR_UNREACH, |exchange| exchange.expected.contains(&node));
        }
        let of_node: Vec<_> = self.host.calls.keys().filter(|(server, _)| server.node == node).copied().collect();
        for call in of_node {
            if let Some((asker, upcall)) = self.host.calls.remove(&call) {
                self.answer_later(asker, upcall, HostReply::Status(Status::ERR_UNREACH));
            }
        }
    }

    fn fail_exchanges(&mut self, subject: &Subject, status: Status, is_meant: impl Fn(&Exchange) -> bool) {
        let Some(exchanges) = self.host.exchanges.get_mut(subject) else { return };
        let (failed, kept): (VecDeque<_>, VecDeque<_>) = std::mem::take(exchanges).into_iter().partition(is_meant);
        *exchanges = kept;
        for exchange in failed {
            self.host.by_number.remove(&exchange.number);
            for arrived in exchange.arrived.into_values() {
                self.answer_later(arrived.server, arrived.upcall, subject.failure(status));
            }
        }
    }

    /// Asks the server of the process.
    fn fetch(&mut self, server: ServerId, upcall: UpcallId, proc: ProcId, directives: &[Info]) -> Option<Input> {
        let key = directives.iter().find(|info| info.key.as_str() == keys::REQUIRED_KEY.name());
        let key = key.and_then(|info| Key::new(info.value.as_str()?.to_owned()).ok());
        self.note_fetches_awaited(server);
        self.rules.fetching(server, &proc, key.as_ref(), upcall);
        if self.setup.canary == Some(Canary::FetchTwice) {
            self.rules.fetching(server, &proc, key.as_ref(), upcall);
        }
        let owner = self.server_of(&proc).filter(|owner| *owner != server && !self.is_dead(owner.node));
        let Some(owner) = owner.filter(|_| !self.strikes(Faults::REFUSE)) else {
            return self.answer(server, upcall, HostReply::Status(Status::ERR_UNREACH));
        };
        let request = DirectModexRequest { proc, key, timeout: Some(FETCH_TIMEOUT) };
        let call = Box::new(HostCall::DirectModexRequest(request));
        let at = self.now + self.latency();
        self.queue.plan(at, QueuedEvent::Call(owner, call, Some((server, upcall))));
        None
    }

    /// The host calls a server.
    pub(crate) fn call(&mut self, server: ServerId, call: HostCall, asker: Option<(ServerId, UpcallId)>) {
        if !self.is_serving(server) {
            if let Some((asker, upcall)) = asker {
                self.answer_later(asker, upcall, HostReply::Status(Status::ERR_UNREACH));
            }
            return;
        }
        // The host does not start a job that is about to end.
        let is_beginning = matches!(call, HostCall::RegisterNamespace(_) | HostCall::RegisterClient(_));
        if self.is_ending && is_beginning || self.is_registered_already(server, &call) {
            return;
        }
        self.host.last += 1;
        let id = HostCallId(self.host.last);
        if let Some(asker) = asker {
            self.host.calls.insert((server, id), asker);
        }
        self.rules.host_called(server, id);
        self.serve(server, Input::Host(id, call));
    }

    /// A planted defect: before a server looks at a request, it hears that its unregistered jobs have no processes
    /// there.
    pub(crate) fn hide_late_jobs(&mut self, server: ServerId, request: &Request) {
        let (Request::Fence(Collective { procs, .. })
        | Request::Connect(Collective { procs, .. })
        | Request::Disconnect(Collective { procs, .. })
        | Request::GroupConstruct(Group { procs, .. })
        | Request::GroupDestruct(Group { procs, .. })) = request
        else {
            return;
        };
        for entry in procs {
            let core = self.core(server).filter(|core| core.job_size(&entry.namespace).is_none());
            if core.is_none() || self.is_registered(server, &entry.namespace) {
                continue;
            }
            self.host.last += 1;
            let (id, now) = (HostCallId(self.host.last), self.now);
            let size = Info::new(Key::from_static(keys::JOB_SIZE.name()), 64_u32);
            let registration = RegisterNamespace {
                namespace: entry.namespace.clone(),
                local_count: Some(0),
                description: Description::from(vec![size]),
                nodata: false,
            };
            self.rules.host_called(server, id);
            if let Some(core) = self.core_mut(server) {
                core.handle(now, Input::Host(id, HostCall::RegisterNamespace(registration)));
            }
        }
    }

    /// A server has finished a call of the host.
    pub(crate) fn completed(&mut self, server: ServerId, call: HostCallId, result: HostResult) {
        self.rules.host_call_completed(server, call);
        let Some((asker, upcall)) = self.host.calls.remove(&(server, call)) else { return };
        let reply = match result {
            HostResult::Entries(entries) => HostReply::DirectModex(entries),
            HostResult::Status(status) | HostResult::Failed { status, .. } | HostResult::Answers(status, _) => {
                HostReply::Status(status)
            }
        };
        self.answer_later(asker, upcall, reply);
    }

    fn answer_later(&mut self, server: ServerId, upcall: UpcallId, reply: HostReply) {
        if let Some(Input::Completed(upcall, reply)) = self.answer(server, upcall, reply) {
            self.queue.plan(self.now, QueuedEvent::Answer(server, upcall, Box::new(reply)));
        }
    }

    /// The arrival time of a message on a link: much later, ahead of others, or after the last message of that link.
    fn arrival<'h>(&'h mut self, last: impl FnOnce(&'h mut Host) -> &'h mut Time) -> Time {
        let at = self.now + self.latency();
        if self.strikes(Faults::DELAY) {
            return at + Duration::from_millis(self.network.between(1, 15_000));
        }
        if self.strikes(Faults::REORDER) {
            return at + Duration::from_micros(self.network.between(100, 5_000));
        }
        let last = last(&mut self.host);
        *last = at.max(*last);
        *last
    }

    /// Answers an upcall as the faults demand: at once (the result), later, twice, or never.
    pub(crate) fn answer(&mut self, server: ServerId, upcall: UpcallId, reply: HostReply) -> Option<Input> {
        self.lost_upcall = None;
        self.host.answered_at = self.now;
        if self.strikes(Faults::LOSS) {
            self.lost_upcall = Some(upcall);
            return None;
        }
        if self.strikes(Faults::INLINE) {
            return Some(Input::Completed(upcall, reply));
        }
        let mut at = self.arrival(|host| host.links.entry(server.node).or_default());
        if self.strikes(Faults::LATE) {
            at = at + HOST_TIMEOUT + Duration::from_millis(self.network.between(0, 2_000));
            self.lost_upcall = Some(upcall);
        }
        self.host.answered_at = at;
        if self.strikes(Faults::DUPLICATE) {
            let again = at + Duration::from_micros(self.network.between(0, 3_000));
            self.queue.plan(again, QueuedEvent::Answer(server, upcall, Box::new(reply.clone())));
        }
        self.queue.plan(at, QueuedEvent::Answer(server, upcall, Box::new(reply)));
        None
    }

    /// Whether the last answer will come too late or never.
    fn was_lost(&self, upcall: UpcallId) -> bool {
        self.lost_upcall == Some(upcall)
    }
}

impl Part {
    const fn bare(subject: Subject, is_partial: bool) -> Self {
        Self { subject, blocks: Vec::new(), promised: None, is_partial }
    }
}

fn is_partial(directives: &[Info]) -> bool {
    directives.iter().any(|info| info.key.as_str() == keys::LOCAL_COLLECTIVE_STATUS.name())
}

/// How long the server of a process may hold a fetch for the process.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
