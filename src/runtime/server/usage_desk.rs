//! The server's own service of resource usage: requests are measured on a thread of its own, some of them again and
//! again.
//!
//! A request with a period ends with the last connection of its process, with its cancellation, or with the processes
//! that it measures. Each sample is an event for its process alone.

use std::collections::BTreeSet;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::loop_messages::{LoopMessage, LoopSender, ResultReceiver};
use super::service_desk::{ReplyTo, answer, may_take_all};
use crate::events::Event;
use crate::keys;
use crate::runtime::shared::clock::Clock;
use crate::runtime::shared::threads::spawn;
use crate::server::{HostCall, HostReply, Requester};
use crate::types::codes::range::RANGE_CUSTOM;
use crate::types::{Info, Key, ProcId, Status, Time};
use crate::usage::{Sampler, Target, UsageRequest, ticks_per_second};

/// The service. The first request starts its thread.
pub(super) struct UsageDesk {
    loop_sender: LoopSender,
    clock: Clock,
    server: ProcId,
    hostname: String,
    orders: Option<Sender<Order>>,
    /// The processes that have asked for samples again and again.
    askers: BTreeSet<ProcId>,
}

/// A task of the thread.
enum Order {
    Sample { asker: Asker, request: UsageRequest, alert: Status, targets: Vec<(ProcId, u32)>, reply_to: ReplyTo },
    Cancel { asker: ProcId, name: Option<String>, reply_to: ReplyTo },
    Ended(ProcId),
}

/// A process that asks for samples.
struct Asker {
    proc: ProcId,
    uid: u32,
}

/// Requests with a period of one process, and of all.
const MONITORS_PER_PROCESS_MAX: usize = 16;
const MONITORS_MAX: usize = 1024;

/// Processes that the requests with a period measure: those of one process, those of one user, and all. Root and the
/// server's user may take all.
const TARGETS_PER_PROCESS_MAX: usize = 4096;
const TARGETS_PER_USER_MAX: usize = TARGETS_MAX / 2;
const TARGETS_MAX: usize = 32_768;

impl UsageDesk {
    pub(super) const fn new(loop_sender: LoopSender, clock: Clock, server: ProcId, hostname: String) -> Self {
        Self { loop_sender, clock, server, hostname, orders: None, askers: BTreeSet::new() }
    }

    pub(super) fn hostname(&self) -> &str {
        &self.hostname
    }

    /// Measures these processes, if the request is about processes.
    pub(super) fn sample(
        &mut self,
        requester: &Requester,
        request: UsageRequest,
        alert: Status,
        targets: Vec<(ProcId, u32)>,
        reply_to: ReplyTo,
    ) {
        let asker = Asker { proc: requester.proc.clone(), uid: requester.uid };
        if request.period.is_some() {
            self.askers.insert(asker.proc.clone());
        }
        self.order(Order::Sample { asker, request, alert, targets, reply_to });
    }

    /// Ends the requests of a process with this name, or all. Others may have had it, so an unknown name is no error.
    pub(super) fn cancel(&mut self, asker: ProcId, name: Option<String>, reply_to: ReplyTo) {
        if self.askers.contains(&asker) {
            self.order(Order::Cancel { asker, name, reply_to });
        } else {
            answer(&self.loop_sender, reply_to, done(Vec::new()));
        }
    }

    /// Whether a process has asked for samples again and again.
    pub(super) fn has_asker(&self, proc: &ProcId) -> bool {
        self.askers.contains(proc)
    }

    /// The last connection of a process has ended.
    pub(super) fn note_end(&mut self, proc: &ProcId) {
        if self.askers.remove(proc) {
            self.order(Order::Ended(proc.clone()));
        }
    }

    fn order(&mut self, order: Order) {
        let orders = match self.orders.take() {
            Some(orders) => orders,
            None => match self.start() {
                Ok(orders) => orders,
                Err(error) => {
                    tracing::warn!(%error, "the server cannot start a thread that measures resources");
                    match order {
                        Order::Sample { reply_to, .. } | Order::Cancel { reply_to, .. } => {
                            let reply = HostReply::Status(Status::ERR_OUT_OF_RESOURCE);
                            answer(&self.loop_sender, reply_to, reply);
                        }
                        Order::Ended(_) => {}
                    }
                    return;
                }
            },
        };
        // The thread outlives its sender.
        let _ = self.orders.insert(orders).send(order);
    }

    fn start(&self) -> io::Result<Sender<Order>> {
        let (orders, receiver) = unbounded();
        let mut thread = UsageThread {
            loop_sender: self.loop_sender.clone(),
            clock: self.clock,
            server: self.server.clone(),
            hostname: self.hostname.clone(),
            ticks_per_second: ticks_per_second(),
            monitors: Vec::new(),
        };
        spawn("modex-usage", move || thread.run(&receiver))?;
        Ok(orders)
    }
}

/// A request with a period.
struct Monitor {
    asker: Asker,
    request: UsageRequest,
    alert: Status,
    targets: Vec<Target>,
    sampler: Sampler,
    due: Time,
}

struct UsageThread {
    loop_sender: LoopSender,
    clock: Clock,
    server: ProcId,
    hostname: String,
    ticks_per_second: u64,
    monitors: Vec<Monitor>,
}

impl UsageThread {
    /// Ends with the sender of orders.
    fn run(&mut self, orders: &Receiver<Order>) {
        loop {
            let due = self.monitors.iter().map(|monitor| monitor.due).min();
            let order = match self.clock.until(due) {
                Some(time) => orders.recv_timeout(time),
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match order {
                Ok(order) => {
                    self.take(order);
                    // A round takes a while, so the orders before it come first. Later ones can't hold it up.
                    orders.try_iter().take(orders.len()).for_each(|order| self.take(order));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.sample_due();
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Sample { asker, request, alert, targets, reply_to } => {
                let target = |(proc, pid)| Sampler::target(proc, pid);
                let targets: Vec<Target> = targets.into_iter().filter_map(target).collect();
                let reply = self.begin(asker, request, alert, targets);
                answer(&self.loop_sender, reply_to, reply.map_or_else(HostReply::Status, done));
            }
            Order::Cancel { asker, name, reply_to } => {
                let is_meant =
                    |monitor: &Monitor| monitor.asker.proc == asker && (name.is_none() || monitor.request.name == name);
                self.monitors.retain(|monitor| !is_meant(monitor));
                answer(&self.loop_sender, reply_to, done(Vec::new()));
            }
            Order::Ended(proc) => self.monitors.retain(|monitor| monitor.asker.proc != proc),
        }
    }

    fn begin(
        &mut self,
        asker: Asker,
        request: UsageRequest,
        alert: Status,
        targets: Vec<Target>,
    ) -> Result<Vec<Info>, Status> {
        if request.period.is_some() && !self.has_room(&asker, targets.len()) {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let mut sampler = Sampler::new(self.ticks_per_second);
        let samples = sampler.sample(&request, &targets, &self.hostname, self.clock.now(), seconds_since_1970());
        if !request.is_answered_by(samples.len()) {
            return Err(Status::ERR_NOT_FOUND);
        }
        if let Some(period) = request.period {
            let due = self.clock.now() + period;
            self.monitors.push(Monitor { asker, request, alert, targets, sampler, due });
        }
        Ok(samples)
    }

    /// Whether a process may have another request with a period that measures so many processes.
    fn has_room(&self, asker: &Asker, added: usize) -> bool {
        let of_process = |monitor: &&Monitor| monitor.asker.proc == asker.proc;
        let of_user = |monitor: &&Monitor| monitor.asker.uid == asker.uid;
        let count = |monitors: &mut dyn Iterator<Item = &Monitor>| {
            monitors.map(|monitor| monitor.targets.len()).sum::<usize>().saturating_add(added)
        };
        let all = || self.monitors.iter();
        all().filter(of_process).count() < MONITORS_PER_PROCESS_MAX
            && all().count() < MONITORS_MAX
            && count(&mut all().filter(of_process)) <= TARGETS_PER_PROCESS_MAX
            && (may_take_all(asker.uid) || count(&mut all().filter(of_user)) <= TARGETS_PER_USER_MAX)
            && count(&mut all()) <= TARGETS_MAX
    }

    fn sample_due(&mut self) {
        let now = self.clock.now();
        let Self { loop_sender, clock, server, hostname, monitors, .. } = self;
        monitors.retain_mut(|monitor| {
            if monitor.due > now {
                return true;
            }
            let Monitor { request, targets, sampler, .. } = monitor;
            let samples = sampler.sample(request, targets, hostname, clock.now(), seconds_since_1970());
            if samples.is_empty() {
                // Processes have ended. A disk or a network may come back.
                return targets.is_empty();
            }
            let ignored = ResultReceiver::Callback(Box::new(|_| {}));
            let event = HostCall::NotifyEvent(update(server, monitor, samples));
            let _ = loop_sender.send(LoopMessage::Call(event, ignored));
            true
        });
        // The periods count from the end of the round, so that a long one leaves time for orders.
        let end = clock.now();
        for monitor in monitors.iter_mut().filter(|monitor| monitor.due <= now) {
            if let Some(period) = monitor.request.period {
                monitor.due = end + period;
            }
        }
    }
}

/// The event with a sample.
fn update(server: &ProcId, monitor: &Monitor, samples: Vec<Info>) -> Event {
    let info = |key: &'static str, value: crate::types::Value| Info::new(Key::from_static(key), value);
    let mut infos = samples;
    infos.extend(monitor.request.name.as_deref().map(|name| info(keys::MONITOR_ID.name(), name.into())));
    infos.push(info(keys::EVENT_NON_DEFAULT.name(), true.into()));
    infos.push(info(keys::EVENT_DO_NOT_CACHE.name(), true.into()));
    infos.push(info(keys::EVENT_CUSTOM_RANGE.name(), monitor.asker.proc.clone().into()));
    Event { status: monitor.alert, source: Some(server.clone()), range: RANGE_CUSTOM, info: infos }
}

fn done(info: Vec<Info>) -> HostReply {
    HostReply::Infos { status: Status::SUCCESS, info }
}

#[expect(clippy::disallowed_methods, reason = "a sample has the time of the day")]
fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::server::poller::{Poller, Token, Waker};
    use crate::types::{Namespace, Value};

    fn thread() -> UsageThread {
        let (loop_sender, _) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        let server = ProcId::new(Namespace::new("server").unwrap(), 0);
        let (clock, hostname) = (Clock::start(), "here".to_owned());
        UsageThread { loop_sender, clock, server, hostname, ticks_per_second: 100, monitors: Vec::new() }
    }

    fn request(directives: &[Info]) -> UsageRequest {
        let key = Key::from_static(keys::MONITOR_PROC_RESOURCE_USAGE.name());
        UsageRequest::read(&Info::new(key, Value::Undefined), directives, "here").unwrap().unwrap()
    }

    fn asker(rank: u32, uid: u32) -> Asker {
        Asker { proc: ProcId::new(Namespace::new("job").unwrap(), rank), uid }
    }

    fn again() -> [Info; 1] {
        [Info::new(Key::from_static(keys::MONITOR_RESOURCE_RATE.name()), 1_u32)]
    }

    #[test]
    fn a_request_without_a_running_process_is_refused() {
        let mut thread = thread();
        for directives in [&[][..], &again()] {
            let begun = thread.begin(asker(0, 7), request(directives), Status::SUCCESS, Vec::new());
            assert_eq!(begun, Err(Status::ERR_NOT_FOUND));
        }
        assert!(thread.monitors.is_empty());
    }

    #[test]
    fn processes_users_and_all_have_their_bounds() {
        let mut thread = thread();
        let target = Sampler::target(asker(0, 7).proc, std::process::id()).unwrap();
        let mut add = |rank, uid| {
            let has_room = thread.has_room(&asker(rank, uid), TARGETS_PER_PROCESS_MAX);
            if has_room {
                let targets = vec![target.clone(); TARGETS_PER_PROCESS_MAX];
                let (sampler, due) = (Sampler::new(100), Time::ZERO);
                let (request, alert) = (request(&again()), Status::SUCCESS);
                thread.monitors.push(Monitor { asker: asker(rank, uid), request, alert, targets, sampler, due });
            }
            has_room
        };
        let own = nix::unistd::geteuid().as_raw();
        assert_eq!([add(0, own + 1), add(0, own + 1)], [true, false]);
        assert_eq!([1, 2, 3, 4].map(|rank| add(rank, own + 1)), [true, true, true, false]);
        assert_eq!([5, 6, 7, 8, 9].map(|rank| add(rank, own)), [true, true, true, true, false]);
    }
}
