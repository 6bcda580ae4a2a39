//! The host's state: operations of several servers that it joins, and its calls to servers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use modex::server::{HostCallId, HostReply, UpcallId};
use modex::types::{Kval, ProcId, Status, Text, Time};

use super::local_collectives::CollectiveKind;
use super::queue::ServerId;
use super::value::Promise;

/// The key by which the host matches operations of several servers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Set(CollectiveKind, Vec<ProcId>),
    Group(bool, Text, Vec<ProcId>),
}

/// One operation of several servers.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) number: u64,
    /// Nodes that must come.
    pub(super) expected: BTreeSet<u32>,
    pub(super) arrived: BTreeMap<u32, Arrived>,
    pub(super) blocks: Vec<(ProcId, Vec<Kval>)>,
    pub(super) promise: Promise,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) server: ServerId,
    pub(super) upcall: UpcallId,
    pub(super) is_partial: bool,
    pub(super) is_promised: bool,
}

/// Operations and calls that the host has not finished.
#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) exchanges: BTreeMap<Subject, VecDeque<Exchange>>,
    pub(super) by_number: BTreeMap<u64, Subject>,
    /// The server and upcall that a call was made for.
    pub(super) calls: BTreeMap<(ServerId, HostCallId), (ServerId, UpcallId)>,
    pub(super) last: u64,
    /// When the last answer on its way to a node arrives.
    pub(super) links: BTreeMap<u32, Time>,
    /// The arrival time of the last answer.
    pub(super) answered_at: Time,
    /// The same for events from one node to another.
    pub(super) news: BTreeMap<(u32, u32), Time>,
}

impl Host {
    /// The host finds the end of a group by its name: servers that heard of a leave name fewer members. Several groups
    /// may have one name.
    pub(super) fn end_of_group(&self, server: ServerId, subject: &Subject) -> Option<Subject> {
        let Subject::Group(false, id, procs) = subject else { return None };
        let first = Subject::Group(false, id.clone(), Vec::new());
        let of_name = self
            .exchanges
            .range(first..)
            .take_while(|(of, _)| matches!(of, Subject::Group(false, name, _) if name == id));
        let lacks = |exchange: &Exchange| !exchange.arrived.contains_key(&server.node);
        let mut open =
            of_name.filter(|(of, all)| of.procs().iter().any(|proc| procs.contains(proc)) && all.iter().any(lacks));
        open.next().map(|(of, _)| of.clone())
    }
}

impl Subject {
    pub(super) fn procs(&self) -> &[ProcId] {
        match self {
            Self::Set(_, procs) | Self::Group(_, _, procs) => procs,
        }
    }

    pub(super) const fn is_connect(&self) -> bool {
        matches!(self, Self::Set(CollectiveKind::Connect, _))
    }

    pub(super) const fn failure(&self, status: Status) -> HostReply {
        match self {
            Self::Set(CollectiveKind::Fence, _) => HostReply::Fence { status, blocks: Vec::new() },
            _ => HostReply::Status(status),
        }
    }

    pub(super) fn success(&self, status: Status, blocks: &[(ProcId, Vec<Kval>)]) -> HostReply {
        match self {
            Self::Set(CollectiveKind::Fence, _) => HostReply::Fence { status, blocks: blocks.to_vec() },
            Self::Set(..) => HostReply::Status(status),
            Self::Group(..) => HostReply::Infos { status, info: Vec::new() },
        }
    }
}
