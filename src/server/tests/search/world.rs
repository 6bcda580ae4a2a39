//! The core beside the model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::fingerprint::fingerprint;
use super::model::{Model, Replies};
use super::{Pair, RANKS, Step};
use crate::gds::model::MapStore;
use crate::proto::{Reply, Request, Tag, Version};
use crate::server::state::transitions::TransitionTable;
use crate::server::tests::harness::*;
use crate::server::{Answer, HostCallId, RegisterClient, RegisterNamespace, UpcallId};
use crate::server::{Hello, HostCall, HostReply, Input, Output, PeerId, ServerConfig, ServerCore, Upcall};
use crate::types::{Info, Status, Time};

/// The core, with its requests and replies.
pub(super) struct World {
    pair: Pair,
    /// The core uses the real table, so its own invariants hold, too.
    is_sound: bool,
    pub(super) server: ServerCore<MapStore>,
    pub(super) model: Model,
    now: Time,
    peers: [PeerId; RANKS as usize],
    last_peer: u64,
    number: u32,
    open: BTreeMap<Tag, (u32, u32)>,
    upcalls: Vec<UpcallId>,
    seen_upcalls: Vec<i32>,
}

impl World {
    pub(super) fn new(pair: Pair, defective: Option<TransitionTable>) -> Self {
        let config = ServerConfig { capabilities: pair.capabilities(), ..ServerConfig::default() };
        let mut server = ServerCore::new(config, MapStore::new());
        let is_sound = defective.is_none();
        server.collectives.table = defective.unwrap_or_default();
        let mut world = Self {
            pair,
            is_sound,
            server,
            model: Model::new(pair),
            now: Time::ZERO,
            peers: [PeerId(0); 3],
            last_peer: 0,
            number: 0,
            open: BTreeMap::new(),
            upcalls: Vec::new(),
            seen_upcalls: Vec::new(),
        };
        let description = vec![Info::new(JOB_SIZE, pair.job_size())].into();
        let (namespace, local_count) = (namespace("job"), Some(RANKS));
        let job = RegisterNamespace { namespace, local_count, description, nodata: false };
        world.host(HostCall::RegisterNamespace(job));
        for rank in 0..RANKS {
            let client = RegisterClient { proc: proc(rank), uid: OWNER.uid, gid: OWNER.gid, object: 0 };
            world.host(HostCall::RegisterClient(client));
        }
        (0..RANKS).for_each(|rank| world.connect(rank));
        world
    }

    fn host(&mut self, call: HostCall) {
        self.server.handle(self.now, Input::Host(HostCallId(0), call));
        while self.server.poll_output().is_some() {}
    }

    fn connect(&mut self, rank: u32) {
        self.last_peer += 1;
        // In the order of ranks, because the age of a connection makes no difference.
        let id = PeerId(u64::from(rank) * 1_000_000 + self.last_peer);
        self.peers[rank as usize] = id;
        let version = Version::new(5, 0, 0);
        let hello = Hello { proc: proc(rank), credentials: OWNER, store: SOCKET, version, strangers: BTreeSet::new() };
        self.server.handle(self.now, Input::Connected(id, hello));
        while self.server.poll_output().is_some() {}
    }

    /// Does one step with the core and the model. Returns their disagreement.
    pub(super) fn step(&mut self, step: Step) -> Result<(), String> {
        self.number += 1;
        let number = self.number;
        self.perform(step, number);
        let replies = self.replies()?;
        let expected = self.model.apply(step, number);
        if replies != expected {
            return Err(format!("told {replies:?}, expected {expected:?}"));
        }
        if self.seen_upcalls != self.model.upcalls {
            return Err(format!("went up {:?}, expected {:?}", self.seen_upcalls, self.model.upcalls));
        }
        Ok(())
    }

    fn perform(&mut self, step: Step, number: u32) {
        let peer = |rank: u32| self.peers[rank as usize];
        let inputs = match step {
            Step::Arrive(rank, operation) => {
                self.open.insert(Tag(number), (rank, number));
                vec![Input::Request(peer(rank), Tag(number), self.pair.request(operation))]
            }
            Step::Finalize(rank) => {
                let peer = peer(rank);
                self.open.retain(|_, (who, _)| *who != rank);
                self.server.handle(self.now, Input::Request(peer, Tag(1_000_000 + number), Request::Finalize));
                vec![Input::Lost(peer)]
            }
            Step::Die(rank) => {
                self.open.retain(|_, (who, _)| *who != rank);
                vec![Input::Lost(peer(rank))]
            }
            Step::Return(rank) => return self.connect(rank),
            Step::Deregister(rank) => vec![Input::Host(HostCallId(0), HostCall::DeregisterClient(proc(rank)))],
            Step::TimeOut => {
                self.now = self.now + Duration::from_secs(5);
                vec![Input::Timeout]
            }
            Step::Answer { oldest, well } => {
                let upcall = if oldest { self.upcalls.remove(0) } else { self.upcalls.pop().unwrap() };
                let status = if well { Status::SUCCESS } else { Status::ERR_UNREACH };
                vec![Input::Completed(upcall, HostReply::Fence { status, blocks: Vec::new() })]
            }
        };
        inputs.into_iter().for_each(|input| self.server.handle(self.now, input));
    }

    /// The replies since the last call.
    fn replies(&mut self) -> Result<Replies, String> {
        let mut replies = Replies::new();
        while let Some(output) = self.server.poll_output() {
            match output {
                Output::Answer(_, tag, answer) if tag.0 < 1_000_000 => {
                    let Some((rank, number)) = self.open.remove(&tag) else {
                        return Err(format!("{tag:?} is answered twice, or nobody asked: {answer:?}"));
                    };
                    let status = match answer {
                        Answer::Reply(Reply::Status(status) | Reply::Partial { status, .. }) => status,
                        _ => Status::SUCCESS,
                    };
                    replies.insert((rank, number, status.to_raw()));
                }
                Output::Upcall(id, Upcall::Fence(fence)) => {
                    self.upcalls.push(id);
                    let missing = fence.directives.iter().find(|info| info.key.as_str() == "pmix.loc.col.st");
                    let missing = missing.and_then(|info| match info.value {
                        crate::types::Value::Status(status) => Some(status),
                        _ => None,
                    });
                    self.seen_upcalls.push(missing.unwrap_or(0));
                }
                _ => {}
            }
        }
        Ok(replies)
    }

    /// Checks the core's invariants, if it uses the real table.
    pub(super) fn check(&self) {
        if self.is_sound {
            self.server.assert_consistent();
        }
    }

    /// The identity of this state.
    pub(super) fn fingerprint(&self) -> (u64, u64) {
        // No step here changes the configuration, delivers inventories or publishes data.
        let ServerCore { config: _, store: _, registry, peers, held_gets, collectives, groups, invitations, .. } =
            &self.server;
        let ServerCore { bootstraps, vacancies, exchanges, missed_fences, process_sets, forwarding, .. } = &self.server;
        let ServerCore { events, cleanups, upcalls, tools, ties, timers, outputs, .. } = &self.server;
        let first = (registry, peers, held_gets, collectives, groups, invitations, bootstraps, vacancies, exchanges);
        let second = (missed_fences, process_sets, forwarding, events, cleanups, upcalls, tools, ties);
        (self.model.fingerprint(), fingerprint(&(first, second, timers, outputs)))
    }

    /// No process waits.
    pub(super) fn is_quiet(&self) -> bool {
        self.open.is_empty() && self.server.open_request_count() == 0
    }

    /// No operation has left any state.
    pub(super) fn is_empty(&self) -> bool {
        let left = (self.server.collective_count(), self.server.upcall_count(), self.server.poll_timeout());
        self.is_quiet() && left == (0, 0, None)
    }
}
