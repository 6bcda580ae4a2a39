//! The checker's account of requests: participants and deadlines.

use std::time::Duration;

use modex::keys;
use modex::proto::{Collective, Get, Request, Tag};
use modex::server::PeerId;
use modex::types::{Info, ProcId, Rank, Time};

use crate::faults::Canary;
use crate::local_collectives::{self, CollectiveKind, Local};
use crate::queue::ServerId;
use crate::setup::HOST_TIMEOUT;
use crate::value::KEYS;
use crate::world::World;

impl World {
    /// Notes a request before the server sees it.
    pub(crate) fn accept(&mut self, server: ServerId, peer: PeerId, tag: Tag, process: u32, request: &Request) {
        self.requests += 1;
        match request {
            Request::RegisterEvents(wish) => {
                let proc = self.process(process).map(|of| of.proc.clone());
                proc.into_iter().for_each(|proc| self.invited_groups.asks(peer, tag, &proc, &wish.codes));
            }
            Request::Notify(event) => {
                let proc = self.process(process).map(|of| of.proc.clone());
                let (status, info) = (event.status, &event.info);
                proc.into_iter().for_each(|proc| self.invited_groups.tells(peer, tag, &proc, status, info));
                if self.setup.canary == Some(Canary::GivenUp) {
                    self.give_up_on(peer, process, event);
                }
            }
            // This request has no answer.
            Request::DeregisterEvents(codes) => return self.invited_groups.deregisters(peer, codes),
            _ => {}
        }
        let questions = self.note_pull(server, peer, tag, request);
        let deadline = match request {
            Request::IofPull(_) => Some(self.now + HOST_TIMEOUT * questions.unwrap_or(1)),
            Request::Fence(fence) => self.arrive(server, (peer, tag, process), CollectiveKind::Fence, fence),
            Request::Connect(connect) => self.arrive(server, (peer, tag, process), CollectiveKind::Connect, connect),
            Request::Disconnect(connect) => {
                self.arrive(server, (peer, tag, process), CollectiveKind::Disconnect, connect)
            }
            Request::GroupConstruct(_) | Request::GroupDestruct(_) if !self.has_group_host => {
                self.assemble(server, (peer, tag, process), request);
                None
            }
            _ => self.deadline_of(server, peer, request),
        };
        self.rules.accepted(peer, tag, deadline);
        match request {
            Request::Fence(_) if self.collects(peer, tag) => self.rules.fence_begins(peer, tag),
            Request::Get(get) if timeout_of(&get.directives).is_none() && self.is_elsewhere(server, &get.proc) => {
                self.rules.gets_from_afar(peer, tag);
            }
            _ => {}
        }
        self.note_forming(server, peer, tag, request);
        if let Request::Get(get) = request
            && let Some((whose, key)) = self.value_wanted(server, get)
        {
            self.rules.wants_value(peer, tag, server, whose, key);
        }
        if let Request::Finalize = request {
            self.invited_groups.hears_no_more(peer);
            self.leave(server, process, peer);
        }
    }

    /// Whether a fence collects. A process that came first, perhaps in an earlier phase, decides that.
    fn collects(&self, peer: PeerId, tag: Tag) -> bool {
        self.collectives.of_request(peer, tag).is_some_and(|(_, operation)| operation.collects)
    }

    /// Notes an arrival at a collective operation. Returns the deadline, from the operation's clock and the host's.
    fn arrive(
        &mut self,
        server: ServerId,
        request: (PeerId, Tag, u32),
        kind: CollectiveKind,
        Collective { procs, directives }: &Collective,
    ) -> Option<Time> {
        let own = self.process(request.2).map(|of| of.proc.namespace.clone());
        let everybody = own.map(|namespace| vec![ProcId::new(namespace, Rank::Wildcard)]);
        let procs = if procs.is_empty() { everybody.unwrap_or_default() } else { procs.clone() };
        // A server waits for jobs that are not registered yet.
        let meant = self.lasting(server, &kind, &procs);
        let hosts = if kind == CollectiveKind::Fence && !self.setup.faults.is_empty() { 2 } else { 1 };
        let deadline = timeout_of(directives).map(|timeout| self.now + timeout);
        let local = Local {
            expected: self.processes_on(server.node, &meant),
            gone: self.node(server.node).map(|node| node.gone.clone()).unwrap_or_default(),
            knowledge: self.knowledge(server, &kind, &procs),
            is_impossible: false,
            collects: collects(directives),
        };
        let signature = local_collectives::signature(kind, &procs);
        let clock = self.collectives.arrive(server, signature, request, (self.now, deadline), || local);
        // A fence after a missed one also fetches the values that the missed fence brought to others. This fetch takes
        // the host's time once more.
        clock.map(|clock| clock + HOST_TIMEOUT * hosts)
    }

    /// The value that a Get requests, if its process is on the same server.
    fn value_wanted(&self, server: ServerId, get: &Get) -> Option<(u32, u8)> {
        if !self.is_registered(server, &get.proc.namespace) {
            return None;
        }
        let (_, job) = self.job_named(&get.proc.namespace)?;
        let rank = get.proc.rank.process().filter(|rank| job.ranks_on(server.node).contains(rank))?;
        let key = KEYS.iter().position(|key| get.key.as_ref().is_some_and(|wanted| wanted.as_str() == *key))?;
        Some((job.first.saturating_add(rank), u8::try_from(key).ok()?))
    }

    /// The deadline of a request. `None`: it ends when the awaited thing happens, or with the job.
    fn deadline_of(&self, server: ServerId, peer: PeerId, request: &Request) -> Option<Time> {
        let now = self.now;
        match request {
            Request::Commit(_) | Request::JobInfo => Some(now),
            Request::GroupConstruct(group) | Request::GroupDestruct(group) => {
                timeout_of(&group.directives).map(|timeout| now + timeout + HOST_TIMEOUT)
            }
            Request::Get(get) => {
                let has = |key: &str| get.directives.iter().any(|info| info.key.as_str() == key);
                match timeout_of(&get.directives) {
                    _ if has(keys::IMMEDIATE.name()) => Some(now),
                    Some(timeout) => Some(now + timeout),
                    None if self.is_elsewhere(server, &get.proc) && !self.rules.is_at_fence(peer) => {
                        Some(now + HOST_TIMEOUT)
                    }
                    None => None,
                }
            }
            _ => Some(now + HOST_TIMEOUT),
        }
    }

    /// Whether a server knows that a process is on another node, so that it asks its host at once.
    fn is_elsewhere(&self, server: ServerId, proc: &ProcId) -> bool {
        let Some((number, job)) = self.job_named(&proc.namespace) else { return false };
        let is_registered = self.node(server.node).is_some_and(|node| node.registered.contains(&number));
        is_registered && proc.rank.process().is_some_and(|rank| job.node_of(rank) != server.node)
    }
}

/// Whether a participant of a fence asks for the values of all.
pub(crate) fn collects(directives: &[Info]) -> bool {
    directives.iter().any(|info| info.key.as_str() == keys::COLLECT_DATA.name() && info.value.as_bool() == Some(true))
}

/// The timeout that a requester sets, in seconds.
pub(crate) fn timeout_of(directives: &[Info]) -> Option<Duration> {
    let info = directives.iter().find(|info| info.key.as_str() == keys::TIMEOUT.name())?;
    let seconds = info.value.as_u64()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}
