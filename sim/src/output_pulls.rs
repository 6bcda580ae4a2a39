//! Output that the host delivers, and the checker's account of the pulls that get it.
//!
//! Pieces of a source have numbers. Each pull of the source gets each piece that comes while the pull stands, once and
//! in order. Pieces without any pull are kept for the first one.

use std::collections::{BTreeMap, VecDeque};

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
    /// Requests without an answer.
    asked: BTreeMap<(PeerId, Tag), (Source, u64)>,
    standing: BTreeMap<PullId, StandingPull>,
    /// The number of pieces of each source.
    pieces: BTreeMap<Source, u64>,
    /// Pieces that no pull has got.
    kept: BTreeMap<Source, VecDeque<u64>>,
    /// Pieces that the present step of a server must forward.
    due: BTreeMap<PullId, VecDeque<u64>>,
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
}

impl OutputPulls {
    /// One in eight small worlds has output.
    pub(super) fn of(seed: u64, setup: &Setup) -> Option<Self> {
        let mut random = Random::of(seed, RandomStream::Output);
        let is_wanted = random.one_in(8) || setup.canary == Some(Canary::OutputLost);
        (is_wanted && !setup.is_large()).then(|| Self {
            random,
            last_pull: 0,
            asked: BTreeMap::new(),
            standing: BTreeMap::new(),
            pieces: BTreeMap::new(),
            kept: BTreeMap::new(),
            due: BTreeMap::new(),
        })
    }

    /// The next step of a process with these neighbours, if it has one.
    pub(super) fn next(&mut self, peer: PeerId, neighbours: &[ProcId]) -> Option<OutputStep> {
        match self.random.below(4) {
            0 => {
                self.last_pull += 1;
                Some(OutputStep::Pull(self.random.pick(neighbours)?.clone(), self.last_pull))
            }
            1 => {
                let own = self.standing.range((peer, 0)..=(peer, u64::MAX));
                let references: Vec<u64> = own.map(|(_, pull)| pull.reference).collect();
                self.random.pick(&references).copied().map(OutputStep::EndPull)
            }
            _ => Some(OutputStep::Output),
        }
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

    /// A step of a server has ended. Returns the breach of a rule.
    pub(super) fn step_ended(&mut self) -> Option<String> {
        let due = std::mem::take(&mut self.due);
        let missing = due.into_iter().find(|(_, pieces)| !pieces.is_empty());
        missing.map(|(id, pieces)| format!("pull {id:?} does not get the pieces {pieces:?}"))
    }
}
