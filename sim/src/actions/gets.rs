//! Gets of processes, and the values that Gets must find.

use std::time::Duration;

use modex::client::{Call, CallError, Decision, GetDirectives, GetRequest, Outcome, Round, resolve};
use modex::gds::{AsStatus, KeyRef, Lookup, RealmRequest};
use modex::keys;
use modex::proto::{Log, Request};
use modex::server::PeerId;
use modex::types::{Info, Key, Namespace, ProcId, Status, Value};

use crate::invariants::Reading;
use crate::process::{CallPurpose, PendingCall, PendingGet, State};
use crate::rule::Rule;
use crate::value::{KEYS, Promise, Promised, Stamp};
use crate::world::World;

impl World {
    /// Looks for a process's value.
    pub(crate) fn look(&mut self, process: u32, peer: PeerId) {
        let jobs = u64::try_from(self.jobs.len()).unwrap_or(1);
        let Some(of) = self.process_mut(process) else { return };
        let job = if of.random.one_in(8) { usize::try_from(of.random.below(jobs)).unwrap_or(0) } else { of.job };
        let (key, choice, seconds) = (of.random.below(6), of.random.below(8), of.random.between(1, 20));
        let (mut random, own_rank) = (of.random.clone(), of.rank);
        let Some(job) = self.jobs.get(job) else { return };
        // In a large run a process reads neighbours: each distant rank would cost its server a page of memory.
        let rank = match self.setup.is_large() {
            true if job.size > NEAR => (own_rank / NEAR * NEAR + random.below_u32(NEAR)).min(job.size - 1),
            _ => random.below_u32(job.size),
        };
        let (proc, whose) = (job.proc(rank), job.first.saturating_add(rank));
        if let Some(of) = self.process_mut(process) {
            of.random = random;
        }
        let key = u8::try_from(key).unwrap_or(0);
        let timeout =
            Info::new(Key::from_static(keys::TIMEOUT.name()), Value::Int(i32::try_from(seconds).unwrap_or(1)));
        let flag = |name| Info::new(Key::from_static(name), true);
        let (directives, is_awaited) = match choice {
            0 | 1 => (vec![flag(keys::OPTIONAL.name())], true),
            2 => (vec![flag(keys::IMMEDIATE.name())], true),
            3 => (vec![timeout, flag(keys::GET_REFRESH_CACHE.name())], true),
            4 => (Vec::new(), false),
            5 => {
                let log = Request::from(Log::new(Vec::new(), Vec::new()));
                let asked = PendingCall { purpose: CallPurpose::Other, is_awaited: true, deadline: None };
                return self.client_call(peer, asked, Call::Exchange(log));
            }
            6 => (vec![timeout], false),
            _ => (vec![timeout], true),
        };
        self.look_for(process, peer, (proc, whose, key), &directives, is_awaited);
        if !is_awaited {
            self.wake_soon(process);
        }
    }

    fn look_for(
        &mut self,
        process: u32,
        peer: PeerId,
        (proc, whose, key): (ProcId, u32, u8),
        directives: &[Info],
        is_awaited: bool,
    ) {
        let Ok(directives) = GetDirectives::parse(directives) else { return };
        let name = Key::from_static(KEYS.get(usize::from(key)).copied().unwrap_or_default());
        let Some(of) = self.process(process) else { return };
        let Some(connection) = self.connections.get(&peer) else { return };
        let fence = connection.fence_with(&proc);
        let Ok(request) = GetRequest::new(Some(proc), Some(name), directives, &of.proc) else { return };
        let floor = of.floors.get(&(whose, key)).copied().unwrap_or(0);
        let sought = PendingGet { request, begun: self.now, whose, key, floor, fence };
        self.continue_get(peer, process, sought, is_awaited, Ok(Outcome::LookAgain));
    }

    /// The loop of a Get, as in the runtime: look, ask, look again.
    pub(crate) fn continue_get(
        &mut self,
        peer: PeerId,
        process: u32,
        sought: PendingGet,
        is_awaited: bool,
        result: Result<Outcome, CallError>,
    ) {
        let Some(connection) = self.connections.get(&peer) else { return };
        let answered = match result {
            Ok(Outcome::Answered(data)) => Some(data),
            Ok(_) => None,
            Err(error) => return self.found_nothing(process, peer, &sought, is_awaited, error.status()),
        };
        let round = answered.as_deref().map_or(Round::First, Round::Answered);
        let own = connection.client.own().clone();
        match resolve(&sought.request, &own, round, connection) {
            Decision::Found(value) | Decision::Known(value) => self.found(process, &sought, is_awaited, &value),
            Decision::NotFound(status) => self.found_nothing(process, peer, &sought, is_awaited, status),
            Decision::Ask(mut request) => {
                if !request.directives.spend(self.now.since(sought.begun)) {
                    return self.found_nothing(process, peer, &sought, is_awaited, Status::ERR_UNREACH);
                }
                let timeout = request.directives.timeout;
                let deadline = timeout.map(|timeout| self.now + timeout + Duration::from_secs(3));
                let asked = PendingCall { purpose: CallPurpose::Get(Box::new(sought)), is_awaited, deadline };
                self.client_call(peer, asked, Call::Get(request));
            }
        }
    }

    fn found(&mut self, process: u32, sought: &PendingGet, is_awaited: bool, value: &Value) {
        let Some(reading) = self.reading(process, sought.whose, sought.key, sought.floor) else { return };
        self.rules.value_read(&reading, value);
        // A process may see its own puts earlier and longer than its server does. A server keeps no values of a job
        // that it does not know, so the process may see them only until its next fence.
        if sought.whose != process
            && self.is_known_at(process, &sought.request.proc.namespace)
            && let Some(stamp) = Stamp::of(value)
            && let Some(of) = self.process_mut(process)
        {
            of.expect(sought.whose, sought.key, stamp.version);
        }
        if is_awaited {
            self.wake_soon(process);
        }
    }

    fn found_nothing(&mut self, process: u32, peer: PeerId, sought: &PendingGet, is_awaited: bool, status: Status) {
        if self.is_certain(peer, sought, status)
            && let Some(reading) = self.reading(process, sought.whose, sought.key, sought.floor)
        {
            self.rules.value_not_found(&reading, status);
        }
        if self.is_early(peer, sought, status) {
            let PendingGet { whose, key, .. } = sought;
            self.rules.breaks(Rule::NoEarlyMiss, || {
                format!("process {process} got {status} for k{key} of {whose}, and a fence with {whose} goes on")
            });
        }
        if is_awaited {
            self.wake_soon(process);
        }
    }

    /// Whether a Get that may wait has found nothing although a fence may still bring the value.
    fn is_early(&self, peer: PeerId, sought: &PendingGet, status: Status) -> bool {
        let Some(connection) = self.connections.get(&peer).filter(|of| !of.is_client_gone) else { return false };
        let GetDirectives { optional, immediate, refresh, timeout, .. } = &sought.request.directives;
        let may_wait = !optional && !immediate && !refresh && timeout.is_none();
        let fence = sought.fence.and_then(|tag| self.collectives.of_request(peer, tag));
        let goes_on = fence.is_some_and(|(_, fence)| fence.collects && !fence.contributed.contains(&sought.whose));
        // A process reads values of another job only once the jobs are tied.
        let own = self.process(connection.process).map(|of| of.job);
        // A process between two lives has left, as far as its server knows.
        let is_admitted = |node: u32| {
            let admitted = self.node(node).and_then(|node| node.admitted.get(&sought.whose));
            admitted.is_some_and(|connections| !connections.is_empty())
        };
        let may_come = self
            .process(sought.whose)
            .is_some_and(|of| of.state == State::Running && Some(of.job) == own && is_admitted(of.node));
        let is_miss = matches!(status, Status::ERR_NOT_FOUND | Status::ERR_TIMEOUT);
        may_wait && goes_on && may_come && is_miss && !self.is_ending
    }

    /// Whether "nothing" proves that there is no value: the reader has it mapped, or its server holds it.
    fn is_certain(&self, peer: PeerId, sought: &PendingGet, status: Status) -> bool {
        let Some(connection) = self.connections.get(&peer) else { return false };
        let directives = &sought.request.directives;
        let is_word = matches!(status, Status::ERR_NOT_FOUND | Status::ERR_EXISTS_OUTSIDE_SCOPE)
            || (status == Status::ERR_TIMEOUT && !directives.refresh);
        let namespace = &sought.request.proc.namespace;
        let is_held = self.is_registered(connection.server, namespace);
        // A refresh asks for the server's answer. A server has no answer after the job was deregistered there.
        if connection.reader.as_ref().is_some_and(|reader| reader.namespace() == namespace.as_str()) {
            return is_word && (is_held || !directives.refresh);
        }
        // The time of the Get may have run out before it could ask.
        let was_stopped = self.process(connection.process).is_some_and(|of| of.stopped_until > sought.begun);
        let is_late = status == Status::ERR_TIMEOUT && was_stopped;
        is_word && is_held && !is_late && !directives.optional && !connection.is_client_gone && !self.is_ending
    }

    /// Whether the server of a process's node knows a job.
    fn is_known_at(&self, process: u32, namespace: &Namespace) -> bool {
        let server = self.process(process).and_then(|of| self.server_at(of.node));
        server.is_some_and(|server| self.is_registered(server, namespace))
    }

    pub(crate) fn reading(&self, reader: u32, whose: u32, key: u8, floor: u32) -> Option<Reading> {
        let (by, of) = (self.process(reader)?, self.process(whose)?);
        Some(Reading { reader, whose, same_node: by.node == of.node, key, floor, newest: of.version })
    }

    /// Commits of processes that a collecting fence must bring to others.
    pub(crate) fn promised_by(&self, processes: &[u32]) -> Vec<Promised> {
        let of = |process: &u32| {
            let of = self.process(*process).filter(|of| !of.committed.is_empty())?;
            Some(Promised { process: *process, node: of.node, committed: of.committed.clone() })
        };
        processes.iter().filter_map(of).collect()
    }

    /// A collecting fence is over: everything that its participants had committed must be in the mapping.
    pub(crate) fn check_promise(&mut self, peer: PeerId, process: u32, promise: &Promise) {
        let Some((node, job)) = self.process(process).map(|of| (of.node, of.job)) else { return };
        let is_mapped = self.connections.get(&peer).is_some_and(|of| of.reader.is_some());
        let count = promise.values.len();
        let first = if count > SAMPLE {
            usize::try_from(self.sample.below(u64::try_from(count).unwrap_or(1))).unwrap_or(0)
        } else {
            0
        };
        for promised in promise.values.iter().cycle().skip(first).take(count.min(SAMPLE)) {
            for put in &promised.committed {
                let version = put.version_for(promised.node == node);
                let missed = self.node(node).and_then(|of| of.missed.get(&(promised.process, put.key)));
                // Values of other jobs are in mappings of those jobs.
                let is_own_job = self.process(promised.process).is_some_and(|of| of.job == job);
                if version == 0 || promised.process == process || !is_own_job {
                    continue;
                }
                let value = is_mapped.then(|| self.look_up(process, promised.process, put.key)).flatten();
                // The values of a lost answer may be missing here; a Get then asks for them. Older values never come
                // back.
                if value.is_none() && missed.is_some_and(|missed| *missed >= version) {
                    continue;
                }
                if is_mapped && let Some(reading) = self.reading(process, promised.process, put.key, version) {
                    self.rules.contribution_read(&reading, value.as_ref());
                }
                // A child has a cache of its own.
                if let Some(of) = self.process_mut(process).filter(|of| of.main == Some(peer)) {
                    of.expect(promised.process, put.key, version);
                }
            }
        }
    }

    /// Published values stay readable: a process still sees every value that it has seen.
    pub(crate) fn read_again(&mut self, process: u32) {
        let Some(of) = self.process(process).filter(|of| of.mapped.is_some()) else { return };
        let own = of.job;
        let floors: Vec<((u32, u8), u32)> = of.floors.iter().map(|(of, version)| (*of, *version)).collect();
        for ((whose, key), version) in floors {
            if self.process(whose).is_none_or(|of| of.job != own) {
                continue;
            }
            let Some(reading) = self.reading(process, whose, key, version) else { continue };
            match self.look_up(process, whose, key) {
                Some(value) => self.rules.value_read(&reading, &value),
                None => self.rules.value_not_found(&reading, Status::ERR_NOT_FOUND),
            }
        }
    }

    /// A value straight from the mapping.
    fn look_up(&self, process: u32, whose: u32, key: u8) -> Option<Value> {
        let reader = self.process(process)?.mapped.as_ref()?;
        let rank = self.process(whose)?.proc.rank;
        let key = KeyRef::new(KEYS.get(usize::from(key))?);
        let lookup = Lookup { rank, key, realm: RealmRequest::Default, audience: None };
        reader.get(&lookup).ok()?.to_value().ok()
    }

    /// A process asks for more than a server grants one process.
    pub(crate) fn flood(&mut self, process: u32) {
        let Some(of) = self.process(process).filter(|of| of.state == State::Running) else { return };
        let (Some(peer), job) = (of.main, of.job) else { return };
        let timeout = Info::new(Key::from_static(keys::TIMEOUT.name()), Value::Int(2));
        let refresh = Info::new(Key::from_static(keys::GET_REFRESH_CACHE.name()), true);
        for number in 0..FLOOD {
            let Some(job) = self.jobs.get(job) else { return };
            let rank = number % job.size;
            let (proc, whose) = (job.proc(rank), job.first.saturating_add(rank));
            let key = u8::try_from(number % 6).unwrap_or(0);
            let directives = [timeout.clone(), refresh.clone()];
            self.look_for(process, peer, (proc, whose, key), &directives, false);
            let log = Request::from(Log::new(Vec::new(), Vec::new()));
            let asked = PendingCall { purpose: CallPurpose::Other, is_awaited: false, deadline: None };
            self.client_call(peer, asked, Call::Exchange(log));
        }
    }
}

/// The largest distance of a rank whose value is read in a large run. On two nodes and more, it usually crosses a
/// node's border.
const NEAR: u32 = 512;
/// Participants whose values are looked up at the end of a fence.
const SAMPLE: usize = 64;
/// Rounds of a flood, each of two requests.
const FLOOD: u32 = 40;
