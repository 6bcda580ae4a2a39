//! Output that the host delivers, and the checker's account of the pulls that get it.
//!
//! Pieces of a source have numbers. Each pull of the source gets each piece that comes while the pull stands, once and
//! in order. Pieces without any pull are kept for the first one. Processes pull the output of their neighbours. Tools
//! come, pull, and are lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use modex::proto::Tag;
use modex::server::PeerId;
use modex::types::{Namespace, ProcId};

use super::faults::Canary;
use super::queue::ServerId;
use super::random::{Random, RandomStream};
use super::setup::Setup;

/// A process whose output its server forwards.
pub(super) type Source = (ServerId, ProcId);

/// A pull: its connection, and the connection's own number for it.
pub(super) type PullId = (PeerId, u64);

/// The output of a cluster's processes.
#[derive(Debug)]
pub(super) struct OutputPulls {
    random: Random,
    last_pull: u64,
    /// Connected tools.
    tools: BTreeMap<PeerId, ServerId>,
    /// Requests without an answer.
    asked: BTreeMap<(PeerId, Tag), (Source, u64)>,
    standing: BTreeMap<PullId, StandingPull>,
    /// The number of pieces of each source.
    pieces: BTreeMap<Source, u64>,
    /// Pieces that no pull has got.
    kept: BTreeMap<Source, VecDeque<u64>>,
    /// Pieces that the present step of a server must forward.
    due: BTreeMap<PullId, VecDeque<u64>>,
    /// Sources that the host was asked to forward, and was not told to stop.
    started: BTreeSet<Source>,
    /// Stops in the present step of a server.
    stops: Vec<Source>,
}

#[derive(Debug)]
struct StandingPull {
    source: Source,
    /// The server's number for it.
    reference: u64,
}

/// The next thing that concerns output.
#[derive(Debug)]
pub(super) enum OutputStep {
    /// A process pulls the output of a neighbour, under this number.
    Pull(ProcId, u64),
    /// The process ends a pull.
    EndPull(u64),
    /// The host has output of the process.
    Output,
    /// A tool connects.
    Tool,
    /// A tool pulls the output of the process, under this number.
    ToolPull(PeerId, u64),
    /// The tool ends a pull.
    EndToolPull(PeerId, u64),
    /// The tool is lost.
    LoseTool(PeerId),
}

impl OutputPulls {
    /// One in eight small worlds has output.
    pub(super) fn of(seed: u64, setup: &Setup) -> Option<Self> {
        let mut random = Random::of(seed, RandomStream::Output);
        let is_wanted = random.one_in(8) || matches!(setup.canary, Some(Canary::OutputLost | Canary::ToolOutputLost));
        (is_wanted && !setup.is_large()).then(|| Self {
            random,
            last_pull: 0,
            tools: BTreeMap::new(),
            asked: BTreeMap::new(),
            standing: BTreeMap::new(),
            pieces: BTreeMap::new(),
            kept: BTreeMap::new(),
            due: BTreeMap::new(),
            started: BTreeSet::new(),
            stops: Vec::new(),
        })
    }

    /// The next step of a process with these neighbours, or of a tool at their server, if there is one.
    pub(super) fn next(&mut self, peer: PeerId, server: ServerId, neighbours: &[ProcId]) -> Option<OutputStep> {
        match self.random.below(6) {
            0 => Some(OutputStep::Pull(self.random.pick(neighbours)?.clone(), self.next_number())),
            1 => self.pick_pull_of(peer).map(OutputStep::EndPull),
            2 | 3 => self.next_of_tool(server),
            _ => Some(OutputStep::Output),
        }
    }

    fn next_of_tool(&mut self, server: ServerId) -> Option<OutputStep> {
        let tools = self.tools_of(server);
        let tool = self.random.pick(&tools).copied();
        match (self.random.below(8), tool) {
            (0, Some(tool)) => Some(OutputStep::LoseTool(tool)),
            (1, Some(tool)) => self.pick_pull_of(tool).map(|reference| OutputStep::EndToolPull(tool, reference)),
            (2, _) | (_, None) => Some(OutputStep::Tool),
            (_, Some(tool)) => Some(OutputStep::ToolPull(tool, self.next_number())),
        }
    }

    /// A number that no pull and no tool has had.
    pub(super) const fn next_number(&mut self) -> u64 {
        self.last_pull += 1;
        self.last_pull
    }

    fn pick_pull_of(&mut self, peer: PeerId) -> Option<u64> {
        let own = self.standing.range((peer, 0)..=(peer, u64::MAX));
        let references: Vec<u64> = own.map(|(_, pull)| pull.reference).collect();
        self.random.pick(&references).copied()
    }

    /// A tool connects to a server.
    pub(super) fn add_tool(&mut self, tool: PeerId, server: ServerId) {
        self.tools.insert(tool, server);
    }

    pub(super) fn is_tool(&self, peer: PeerId) -> bool {
        self.tools.contains_key(&peer)
    }

    /// The tools of a server.
    pub(super) fn tools_of(&self, server: ServerId) -> Vec<PeerId> {
        self.tools.iter().filter(|(_, of)| **of == server).map(|(tool, _)| *tool).collect()
    }

    /// A server has got a request for a pull. Returns the number of open requests for this output, this one included.
    /// Each of them may wait for the host once.
    pub(super) fn ask(&mut self, peer: PeerId, tag: Tag, source: Source, number: u64) -> u32 {
        self.asked.insert((peer, tag), (source.clone(), number));
        let open = self.asked.values().filter(|(of, _)| *of == source).count();
        u32::try_from(open).unwrap_or(u32::MAX)
    }

    /// A server answers a request. A granted pull gets the kept pieces at once.
    pub(super) fn answered(&mut self, peer: PeerId, tag: Tag, reference: Option<u64>) {
        let Some((source, number)) = self.asked.remove(&(peer, tag)) else { return };
        let Some(reference) = reference else { return };
        if let Some(kept) = self.kept.remove(&source) {
            self.due.insert((peer, number), kept);
        }
        self.standing.insert((peer, number), StandingPull { source, reference });
    }

    /// A process ends a pull.
    pub(super) fn end(&mut self, peer: PeerId, reference: u64) {
        self.standing.retain(|(of, _), pull| *of != peer || pull.reference != reference);
    }

    /// A connection has ended for its server.
    pub(super) fn connection_ended(&mut self, peer: PeerId) {
        self.tools.remove(&peer);
        self.asked.retain(|(of, _), _| *of != peer);
        self.standing.retain(|(of, _), _| *of != peer);
    }

    /// A server forgets a job.
    pub(super) fn job_ended(&mut self, server: ServerId, namespace: &Namespace) {
        let is_of_job = |source: &Source| source.0 == server && source.1.namespace == *namespace;
        self.standing.retain(|_, pull| !is_of_job(&pull.source));
        self.kept.retain(|source, _| !is_of_job(source));
    }

    /// The number of the piece that the host delivers next.
    pub(super) fn deliver(&mut self, source: Source) -> u64 {
        let number = self.pieces.entry(source.clone()).or_default();
        *number += 1;
        let number = *number;
        let mut receivers = self.standing.iter().filter(|(_, pull)| pull.source == source).peekable();
        if receivers.peek().is_none() {
            self.kept.entry(source).or_default().push_back(number);
            return number;
        }
        for (id, _) in receivers {
            self.due.entry(*id).or_default().push_back(number);
        }
        number
    }

    /// A server forwards a piece. Returns the breach of a rule.
    pub(super) fn forwarded(&mut self, id: PullId, bytes: &[u8]) -> Option<String> {
        let wanted = self.due.get_mut(&id).and_then(VecDeque::pop_front);
        let wanted = wanted.map(|number| number.to_string());
        let is_wanted = wanted.as_ref().is_some_and(|wanted| wanted.as_bytes() == bytes);
        (!is_wanted).then(|| format!("pull {id:?} gets piece {} in place of {wanted:?}", bytes.escape_ascii()))
    }

    /// The host is asked to forward the output of a source, or told to stop.
    pub(super) fn host_asked(&mut self, source: Source, is_stop: bool) {
        if is_stop {
            self.stops.push(source);
        } else {
            self.started.insert(source);
        }
    }

    /// A step of a server has ended. Returns the breach of a rule.
    pub(super) fn step_ended(&mut self) -> Option<String> {
        for source in std::mem::take(&mut self.stops) {
            let is_wanted = self.standing.values().any(|pull| pull.source == source);
            if is_wanted || !self.started.remove(&source) {
                return Some(format!(
                    "the host is told to stop output of {source:?}, which is wanted, or stopped already"
                ));
            }
        }
        let due = std::mem::take(&mut self.due);
        let missing = due.into_iter().find(|(_, pieces)| !pieces.is_empty());
        missing.map(|(id, pieces)| format!("pull {id:?} does not get the pieces {pieces:?}"))
    }
}
