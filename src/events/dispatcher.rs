use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::cache::{EventCache, EventCacheLimits};
use super::event::Event;
use super::registration::{Registration, RegistrationError};
use super::table::{Entry, HandlerTable};
use crate::types::{Info, Key, ProcId, Status, Time, Value};

/// The events of one process: its handlers, its active chains, and recent events.
///
/// It makes no calls. Its driver takes the next call with [`Dispatcher::poll_call`], makes it, and reports the result
/// with [`Dispatcher::complete`].
#[derive(Debug)]
pub struct Dispatcher<H> {
    own: ProcId,
    table: HandlerTable<H>,
    chains: BTreeMap<ChainId, Chain>,
    last_chain: u64,
    /// Chains whose next call is ready.
    ready: VecDeque<ChainId>,
    /// Results of chains that had to decide.
    decisions: VecDeque<HandlerDecision>,
    /// Whether later handlers may get an event, too. Without that, it is kept only while a registration is in progress.
    recent: EventCache<Keeping>,
}

/// Identifies one chain; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChainId(u64);

/// Identifies one call of a handler; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallToken {
    chain: ChainId,
    step: u64,
}

/// A call for the driver to make.
#[derive(Clone, Debug)]
pub struct HandlerCall<H> {
    /// Argument for [`Dispatcher::complete`].
    pub token: CallToken,
    /// The handler to call.
    pub handler: H,
    /// The registration's number.
    pub id: usize,
    /// The event's code.
    pub status: Status,
    /// Process that the event is about, or that raised it; `None`: the host.
    pub source: Option<ProcId>,
    /// Details, then the handler's own name and object.
    pub info: Vec<Info>,
    /// Results of the earlier handlers.
    pub results: Vec<Info>,
    /// The codes of a registration that ended with this call.
    pub ended: Option<Vec<Status>>,
}

/// The joint results of one event's handlers.
#[derive(Clone, Debug)]
pub struct HandlerDecision {
    /// The event.
    pub event: Arc<Event>,
    /// For each handler its status under its name, then its results.
    pub results: Vec<Info>,
}

/// One event on its way through its handlers.
#[derive(Debug)]
struct Chain {
    event: Arc<Event>,
    /// Handlers not called yet.
    rest: VecDeque<usize>,
    /// The active call.
    current: Option<u64>,
    /// Key that the called handler's results get; `None`: it is an observer, which has none.
    signature: Option<Key>,
    last_step: u64,
    results: Vec<Info>,
    /// Driven by a thread of its own.
    is_apart: bool,
}

/// The handlers that an event in the cache is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    Anyone,
    RegistrationsUnderWay,
}

impl<H: Clone> Dispatcher<H> {
    /// A dispatcher without handlers. `first_id` is the number of the first one.
    #[must_use]
    pub fn new(own: ProcId, first_id: usize) -> Self {
        Self {
            own,
            table: HandlerTable::new(first_id),
            chains: BTreeMap::new(),
            last_chain: 0,
            ready: VecDeque::new(),
            decisions: VecDeque::new(),
            recent: EventCache::new(EventCacheLimits::default()),
        }
    }

    /// The process has got its name.
    pub fn rename(&mut self, own: ProcId) {
        self.own = own;
    }

    /// Adds a handler. It gets calls from [`Dispatcher::activate`] on.
    ///
    /// # Errors
    /// [`RegistrationError`]: its place is taken or does not exist.
    pub fn insert(&mut self, registration: Registration, handler: H) -> Result<usize, RegistrationError> {
        self.table.insert(registration, handler)
    }

    /// A registration is complete: its handler gets recent and future events.
    pub fn activate(&mut self, now: Time, id: usize) {
        let Some(entry) = self.table.get_mut(id).filter(|entry| !entry.is_active) else { return };
        entry.is_active = true;
        self.recent.expire(now);
        let own = &self.own;
        let Some(entry) = self.table.get(id).filter(|entry| !entry.is_observer()) else { return };
        let missed: Vec<Arc<Event>> = self
            .recent
            .iter()
            .filter(|kept| entry.takes(&kept.event, own))
            .map(|kept| Arc::clone(&kept.event))
            .collect();
        for event in missed {
            self.begin(event, VecDeque::from([id]), false);
        }
        self.forget_brief_events();
    }

    /// Ends a registration; returns its codes and the handler. Active calls go on.
    pub fn remove(&mut self, id: usize) -> Option<(Vec<Status>, H)> {
        let Entry { registration, handler, .. } = self.table.remove(id)?;
        self.forget_brief_events();
        Some((registration.codes, handler))
    }

    /// Whether [`Dispatcher::poll_call`] may return a call.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The given codes that no handler here handles. With `codes` empty: [`DEFAULT_HANDLER`](super::DEFAULT_HANDLER),
    /// if there is no default handler.
    #[must_use]
    pub fn unwanted(&self, codes: &[Status]) -> Vec<Status> {
        if codes.is_empty() {
            return if self.table.wants(None) { Vec::new() } else { vec![super::DEFAULT_HANDLER] };
        }
        codes.iter().copied().filter(|code| !self.table.wants(Some(*code))).collect()
    }

    /// Current registrations, including those in progress.
    #[must_use]
    pub fn handler_count(&self) -> usize {
        self.table.len()
    }

    /// Chains that have not ended.
    #[must_use]
    pub fn chain_count(&self) -> usize {
        self.chains.len()
    }

    /// Begins the chain of handlers for a new event.
    pub fn raise(&mut self, now: Time, event: Event) {
        self.enter(now, event, false);
    }

    /// As [`Dispatcher::raise`], for a chain whose calls come from [`Dispatcher::poll_call_of`] until its release.
    /// `None`: no handler handles the event.
    pub fn raise_apart(&mut self, now: Time, event: Event) -> Option<ChainId> {
        self.enter(now, event, true)
    }

    /// The next call to make, until there is none.
    #[must_use]
    pub fn poll_call(&mut self) -> Option<HandlerCall<H>> {
        loop {
            let chain = self.ready.pop_front()?;
            if let Some(call) = self.next_call(chain) {
                return Some(call);
            }
        }
    }

    /// The next call of a separate chain. `None`: the chain has ended, or its call is still active.
    #[must_use]
    pub fn poll_call_of(&mut self, chain: ChainId) -> Option<HandlerCall<H>> {
        self.next_call(chain)
    }

    /// Moves the rest of a separate chain to the common ones.
    pub fn release(&mut self, id: ChainId) {
        if let Some(chain) = self.chains.get_mut(&id) {
            chain.is_apart = false;
            if chain.current.is_none() {
                self.ready.push_back(id);
            }
        }
    }

    /// A handler has completed its call. A second completion changes nothing. Returns whether a call is ready now.
    pub fn complete(&mut self, token: CallToken, status: Status, results: Vec<Info>) -> bool {
        let CallToken { chain: id, step } = token;
        let Some(chain) = self.chains.get_mut(&id).filter(|chain| chain.current == Some(step)) else { return false };
        chain.current = None;
        if let Some(signature) = chain.signature.take() {
            chain.results.push(Info::new(signature, Value::Status(status.to_raw())));
            chain.results.extend(results);
            if status == Status::EVENT_ACTION_COMPLETE {
                self.end(id);
                return false;
            }
        }
        if chain.rest.is_empty() {
            self.end(id);
            return false;
        }
        if !chain.is_apart {
            self.ready.push_back(id);
        }
        true
    }

    /// The handlers' decisions, each once, about events that need one.
    #[must_use]
    pub fn poll_decision(&mut self) -> Option<HandlerDecision> {
        self.decisions.pop_front()
    }

    fn enter(&mut self, now: Time, event: Event, is_apart: bool) -> Option<ChainId> {
        let event = Arc::new(event);
        let keeping = match event.may_be_kept() {
            true => Some(Keeping::Anyone),
            false => self.is_registering().then_some(Keeping::RegistrationsUnderWay),
        };
        if let Some(keeping) = keeping {
            self.recent.push(now, Arc::clone(&event), keeping, None);
        }
        let rest = VecDeque::from(self.table.chain(&event, &self.own));
        if rest.is_empty() && asks(event.status) {
            // The server waits for a decision of each process with a handler for the code, and this event is for none
            // of ours.
            self.decisions.push_back(HandlerDecision { event, results: Vec::new() });
            return None;
        }
        self.begin(event, rest, is_apart)
    }

    fn begin(&mut self, event: Arc<Event>, rest: VecDeque<usize>, is_apart: bool) -> Option<ChainId> {
        if rest.is_empty() {
            return None;
        }
        if self.chains.len() >= CHAINS_MAX {
            tracing::warn!(status = %event.status, chains = CHAINS_MAX, "an event is dropped: too many earlier events \
             still run through their handlers");
            return None;
        }
        self.last_chain = self.last_chain.saturating_add(1);
        let id = ChainId(self.last_chain);
        let chain = Chain { event, rest, current: None, signature: None, last_step: 0, results: Vec::new(), is_apart };
        self.chains.insert(id, chain);
        if !is_apart {
            self.ready.push_back(id);
        }
        Some(id)
    }

    /// The chain's next handler that is still registered. A chain without further handlers ends.
    fn next_call(&mut self, id: ChainId) -> Option<HandlerCall<H>> {
        let chain = self.chains.get_mut(&id).filter(|chain| chain.current.is_none())?;
        while let Some(handler) = chain.rest.pop_front() {
            let Some(entry) = self.table.get(handler) else { continue };
            let mut call = chain.call(id, handler, entry);
            if entry.registration.is_oneshot {
                call.ended = self.remove(handler).map(|(codes, _)| codes);
            }
            return Some(call);
        }
        self.end(id);
        None
    }

    /// A chain has ended.
    fn end(&mut self, id: ChainId) {
        if let Some(Chain { event, results, .. }) = self.chains.remove(&id).filter(|chain| asks(chain.event.status)) {
            self.decisions.push_back(HandlerDecision { event, results });
        }
    }

    fn is_registering(&self) -> bool {
        self.table.entries().any(|entry| !entry.is_active)
    }

    fn forget_brief_events(&mut self) {
        if !self.is_registering() {
            self.recent.retain(|kept| kept.origin == Keeping::Anyone);
        }
    }
}

/// Whether the handlers decide about this event: the end of a process while a group with it is formed.
const fn asks(status: Status) -> bool {
    matches!(status, Status::GROUP_MEMBER_FAILED | Status::GROUP_LEADER_FAILED)
}

impl Chain {
    fn call<H: Clone>(&mut self, chain: ChainId, id: usize, entry: &Entry<H>) -> HandlerCall<H> {
        let Entry { registration, handler, .. } = entry;
        self.last_step = self.last_step.saturating_add(1);
        self.current = Some(self.last_step);
        let name = registration.name.as_ref().and_then(|name| Key::new(name.clone()).ok());
        self.signature = (!entry.is_observer()).then(|| name.unwrap_or(UNNAMED));
        HandlerCall {
            token: CallToken { chain, step: self.last_step },
            handler: handler.clone(),
            id,
            status: self.event.status,
            source: self.event.source.clone(),
            info: self.event.info.iter().chain(&registration.shown).cloned().collect(),
            results: self.results.clone(),
            ended: None,
        }
    }
}

/// Key for the status of an unnamed handler among the results for later handlers.
const UNNAMED: Key = Key::from_static("pmix.modex.status");
/// Bound on chains that wait for a handler. Beyond it the process loses events rather than memory.
const CHAINS_MAX: usize = 1 << 16;
