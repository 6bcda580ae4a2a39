//! The server's own service of resource usage: requests are measured on a thread of its own, some of them again and
//! again.
//!
//! The thread measures a few processes at a time, in the order of [`MeasuringLine`]. Between them it takes all orders
//! that have come. A request with a period ends with the last connection of its process, with its job, with its
//! cancellation, or with the processes that it measures. Each sample is an event for its process alone.

use std::collections::BTreeSet;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};
use std::vec::IntoIter;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::loop_messages::{LoopMessage, LoopSender, ResultReceiver};
use super::measuring_line::{After, MeasuringLine};
use super::service_desk::{ReplyTo, answer};
use super::turns::Share;
use crate::events::Event;
use crate::keys;
use crate::runtime::shared::clock::Clock;
use crate::runtime::shared::threads::spawn;
use crate::server::{HostCall, HostReply};
use crate::types::codes::range::RANGE_CUSTOM;
use crate::types::{Info, Key, Namespace, ProcId, Status, Time};
use crate::usage::{Sampler, Target, UsageRequest, ticks_per_second};

/// The service. The first request starts its thread.
pub(super) struct UsageDesk {
    loop_sender: LoopSender,
    clock: Clock,
    server: ProcId,
    hostname: String,
    orders: Option<Sender<Order>>,
    /// The processes that have asked for samples.
    askers: BTreeSet<ProcId>,
}

/// A task of the thread.
enum Order {
    Sample { asker: ProcId, share: Share, measurement: Box<Measurement> },
    Cancel { asker: ProcId, name: Option<String>, reply_to: ReplyTo },
    Ended(ProcId),
}

/// Processes that are measured at a time.
const PIECE_MAX: usize = 8;

impl UsageDesk {
    pub(super) const fn new(loop_sender: LoopSender, clock: Clock, server: ProcId, hostname: String) -> Self {
        Self { loop_sender, clock, server, hostname, orders: None, askers: BTreeSet::new() }
    }

    pub(super) fn hostname(&self) -> &str {
        &self.hostname
    }

    pub(super) const fn server(&self) -> &ProcId {
        &self.server
    }

    pub(super) const fn loop_sender(&self) -> &LoopSender {
        &self.loop_sender
    }

    /// Measures these processes, if the request is about processes.
    pub(super) fn sample(
        &mut self,
        (asker, share): (ProcId, Share),
        request: UsageRequest,
        alert: Status,
        targets: Vec<(ProcId, u32)>,
        reply_to: ReplyTo,
    ) {
        self.askers.insert(asker.clone());
        let measurement = Measurement::new(request, alert, targets, reply_to);
        self.order(Order::Sample { asker, share, measurement: Box::new(measurement) });
    }

    /// Ends the requests of a process with this name, or all. Others may have had it, so an unknown name is no error.
    pub(super) fn cancel(&mut self, asker: ProcId, name: Option<String>, reply_to: ReplyTo) {
        if self.askers.contains(&asker) {
            self.order(Order::Cancel { asker, name, reply_to });
        } else {
            answer(&self.loop_sender, reply_to, done(Vec::new()));
        }
    }

    /// Whether a process has asked for samples.
    pub(super) fn has_asker(&self, proc: &ProcId) -> bool {
        self.askers.contains(proc)
    }

    /// The last connection of a process has ended.
    pub(super) fn note_end(&mut self, proc: &ProcId) {
        if self.askers.remove(proc) {
            self.order(Order::Ended(proc.clone()));
        }
    }

    /// A job has ended. Its processes may have been on other nodes.
    pub(super) fn note_end_of_job(&mut self, namespace: &Namespace) {
        let ended: Vec<ProcId> = self.askers.iter().filter(|asker| asker.namespace == *namespace).cloned().collect();
        ended.iter().for_each(|asker| self.note_end(asker));
    }

    fn order(&mut self, order: Order) {
        let orders = match self.orders.take() {
            Some(orders) => orders,
            None => match self.start() {
                Ok(orders) => orders,
                Err(error) => {
                    tracing::warn!(%error, "the server cannot start a thread that measures resources");
                    let refused = HostReply::Status(Status::ERR_OUT_OF_RESOURCE);
                    match order {
                        Order::Sample { mut measurement, .. } => measurement.answer(&self.loop_sender, refused),
                        Order::Cancel { reply_to, .. } => answer(&self.loop_sender, reply_to, refused),
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
            line: MeasuringLine::new(),
        };
        spawn("modex-usage", move || thread.run(&receiver))?;
        Ok(orders)
    }
}

/// A request and its samples.
struct Measurement {
    request: UsageRequest,
    alert: Status,
    /// Processes before their first sample.
    named: IntoIter<(ProcId, u32)>,
    /// The other ones, without those that had ended.
    targets: Vec<Target>,
    sampler: Sampler,
    /// The number of targets that this round has measured, and their samples.
    measured: usize,
    samples: Vec<Info>,
    /// The receiver of the first round.
    reply_to: Option<ReplyTo>,
    is_cancelled: bool,
}

impl Measurement {
    fn new(request: UsageRequest, alert: Status, named: Vec<(ProcId, u32)>, reply_to: ReplyTo) -> Self {
        Self {
            request,
            alert,
            named: named.into_iter(),
            targets: Vec::new(),
            sampler: Sampler::new(ticks_per_second()),
            measured: 0,
            samples: Vec::new(),
            reply_to: Some(reply_to),
            is_cancelled: false,
        }
    }

    /// Measures a few processes, or a machine. Returns whether the round has ended.
    fn measure_piece(&mut self, hostname: &str, now: Time) -> bool {
        let target = |(proc, pid)| Sampler::target(proc, pid);
        self.targets.extend(self.named.by_ref().take(PIECE_MAX).filter_map(target));
        let left = self.targets.get(self.measured..).unwrap_or_default();
        let piece = left.get(..PIECE_MAX).unwrap_or(left);
        self.samples.extend(self.sampler.sample(&self.request, piece, hostname, now, seconds_since_1970()));
        self.measured = self.measured.saturating_add(piece.len());
        self.named.len() == 0 && self.measured >= self.targets.len()
    }

    /// Gives the samples of a round to its process. Returns the time of the next round, if there is one.
    fn finish_round(&mut self, asker: &ProcId, server: &ProcId, loop_sender: &LoopSender, now: Time) -> After {
        let samples = std::mem::take(&mut self.samples);
        self.measured = 0;
        let goes_on = if self.reply_to.is_some() {
            let is_answered = self.request.is_answered_by(samples.len());
            let reply = if is_answered { done(samples) } else { HostReply::Status(Status::ERR_NOT_FOUND) };
            self.answer(loop_sender, reply);
            is_answered
        } else if samples.is_empty() {
            // Processes have ended. A disk or a network may come back.
            self.targets.is_empty()
        } else {
            let ignored = ResultReceiver::Callback(Box::new(|_| {}));
            let event = HostCall::NotifyRequester(asker.clone(), self.update(asker, server, samples));
            let _ = loop_sender.send(LoopMessage::Call(event, ignored));
            true
        };
        match self.request.period {
            Some(period) if goes_on && !self.is_cancelled => After::Again(now + period),
            _ => After::Done,
        }
    }

    /// Answers the request, once.
    fn answer(&mut self, loop_sender: &LoopSender, reply: HostReply) {
        if let Some(reply_to) = self.reply_to.take() {
            answer(loop_sender, reply_to, reply);
        }
    }

    /// The event with a sample.
    fn update(&self, asker: &ProcId, server: &ProcId, samples: Vec<Info>) -> Event {
        let info = |key: &'static str, value: crate::types::Value| Info::new(Key::from_static(key), value);
        let mut infos = samples;
        infos.extend(self.request.name.as_deref().map(|name| info(keys::MONITOR_ID.name(), name.into())));
        infos.push(info(keys::EVENT_NON_DEFAULT.name(), true.into()));
        infos.push(info(keys::EVENT_DO_NOT_CACHE.name(), true.into()));
        infos.push(info(keys::EVENT_CUSTOM_RANGE.name(), asker.clone().into()));
        Event { status: self.alert, source: Some(server.clone()), range: RANGE_CUSTOM, info: infos }
    }
}

struct UsageThread {
    loop_sender: LoopSender,
    clock: Clock,
    server: ProcId,
    hostname: String,
    line: MeasuringLine<Box<Measurement>>,
}

impl UsageThread {
    /// Ends with the sender of orders.
    fn run(&mut self, orders: &Receiver<Order>) {
        loop {
            let order = match self.clock.until(self.line.next_time()) {
                Some(time) => orders.recv_timeout(time),
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match order {
                Ok(order) => {
                    self.take(order);
                    // Later orders can't hold the next piece up.
                    orders.try_iter().take(orders.len()).for_each(|order| self.take(order));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.measure_next();
        }
    }

    fn take(&mut self, order: Order) {
        let Self { loop_sender, line, .. } = self;
        match order {
            Order::Sample { asker, share, measurement } => {
                let size = (measurement.named.len(), measurement.request.period.is_some());
                if let Err(mut refused) = line.add(asker, share, size, measurement) {
                    refused.answer(loop_sender, HostReply::Status(Status::ERR_OUT_OF_RESOURCE));
                }
            }
            Order::Cancel { asker, name, reply_to } => {
                // A request whose first sample is on its way ends with its answer.
                line.retain(&asker, |measurement| {
                    measurement.is_cancelled |= name.is_none() || measurement.request.name == name;
                    !measurement.is_cancelled || measurement.reply_to.is_some()
                });
                answer(loop_sender, reply_to, done(Vec::new()));
            }
            Order::Ended(proc) => line.retain(&proc, |measurement| {
                measurement.answer(loop_sender, HostReply::Status(Status::ERR_LOST_CONNECTION));
                false
            }),
        }
    }

    fn measure_next(&mut self) {
        let Self { loop_sender, clock, server, hostname, line } = self;
        let begun = clock.now();
        let Some((id, measurement)) = line.next(begun) else { return };
        let is_over = measurement.measure_piece(hostname, begun);
        let end = clock.now();
        // The periods count from the end of the round, so that a long one leaves time for others.
        let after = if is_over { measurement.finish_round(&id.0, server, loop_sender, end) } else { After::Resume };
        line.settle(id, end.since(begun), after);
    }
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
    use std::sync::mpsc;

    use super::*;
    use crate::runtime::server::poller::{Poller, Token, Waker};
    use crate::runtime::server::request_quota::Account;
    use crate::types::Value;
    use crate::usage::OwnNode;

    fn thread() -> UsageThread {
        let (loop_sender, _) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        let server = ProcId::new(Namespace::new("server").unwrap(), 0);
        let (clock, hostname) = (Clock::start(), "here".to_owned());
        UsageThread { loop_sender, clock, server, hostname, line: MeasuringLine::new() }
    }

    fn request(directives: &[Info]) -> UsageRequest {
        let key = Key::from_static(keys::MONITOR_PROC_RESOURCE_USAGE.name());
        UsageRequest::read(&Info::new(key, Value::Undefined), directives, OwnNode::default()).unwrap().unwrap()
    }

    fn asker(rank: u32) -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), rank)
    }

    fn again() -> [Info; 1] {
        [Info::new(Key::from_static(keys::MONITOR_RESOURCE_RATE.name()), 1_u32)]
    }

    fn reply_to() -> (ReplyTo, mpsc::Receiver<HostReply>) {
        let (sender, replies) = mpsc::channel();
        (ReplyTo::Caller(Box::new(move |reply| drop(sender.send(reply)))), replies)
    }

    /// Orders a sample of processes with this number.
    fn sample(thread: &mut UsageThread, rank: u32, directives: &[Info], pids: Vec<u32>) -> mpsc::Receiver<HostReply> {
        let (reply_to, replies) = reply_to();
        let named = pids.into_iter().map(|pid| (asker(0), pid)).collect();
        let measurement = Measurement::new(request(directives), Status::SUCCESS, named, reply_to);
        let share = Share { uid: 7, account: Account::Process(asker(rank)) };
        thread.take(Order::Sample { asker: asker(rank), share, measurement: Box::new(measurement) });
        replies
    }

    fn cancel(thread: &mut UsageThread, rank: u32) {
        let (reply_to, replies) = reply_to();
        thread.take(Order::Cancel { asker: asker(rank), name: None, reply_to });
        assert_eq!(replies.try_recv(), Ok(done(Vec::new())));
    }

    fn samples_of(reply: HostReply) -> usize {
        let HostReply::Infos { status: Status::SUCCESS, info } = reply else { panic!("{reply:?}") };
        info.len()
    }

    #[test]
    fn a_request_without_a_running_process_is_refused() {
        let mut thread = thread();
        for directives in [&[][..], &again()] {
            let replies = sample(&mut thread, 0, directives, vec![u32::MAX]);
            thread.measure_next();
            assert_eq!(replies.try_recv(), Ok(HostReply::Status(Status::ERR_NOT_FOUND)));
            assert_eq!(thread.line.next_time(), None);
        }
    }

    /// Each request was measured at once, in the order of arrival.
    #[test]
    fn a_large_request_is_measured_in_pieces_and_a_small_one_comes_between() {
        let mut thread = thread();
        let this = std::process::id();
        let size = 10 * PIECE_MAX + 1;
        let large = [(); 3].map(|()| sample(&mut thread, 1, &[], vec![this; size]));
        thread.measure_next();
        let small = sample(&mut thread, 2, &[], vec![this]);
        thread.measure_next();
        assert_eq!(small.try_recv().map(samples_of), Ok(1));
        let mut pieces = 1;
        for replies in large {
            let reply = std::iter::from_fn(|| {
                let reply = replies.try_recv();
                if reply.is_err() {
                    thread.measure_next();
                    pieces += 1;
                }
                Some(reply)
            });
            assert_eq!(reply.flatten().next().map(samples_of), Some(size));
        }
        assert_eq!((pieces, thread.line.next_time()), (3 * 11, None));
    }

    #[test]
    fn too_many_requests_of_a_process_are_refused() {
        let mut thread = thread();
        let replies = [(); 100].map(|()| sample(&mut thread, 0, &[], vec![std::process::id()]));
        let refused = HostReply::Status(Status::ERR_OUT_OF_RESOURCE);
        assert!(replies[0].try_recv().is_err() && replies[99].try_recv() == Ok(refused));
    }

    #[test]
    fn a_cancellation_waits_for_no_measurement_and_leaves_no_request_without_an_answer() {
        let mut thread = thread();
        let this = std::process::id();
        let others = sample(&mut thread, 1, &[], vec![this; 1000]);
        let replies = sample(&mut thread, 2, &again(), vec![this]);
        cancel(&mut thread, 2);
        (0..2).for_each(|_| thread.measure_next());
        assert_eq!(replies.try_recv().map(samples_of), Ok(1));
        sample(&mut thread, 3, &again(), vec![this]);
        thread.take(Order::Ended(asker(1)));
        assert_eq!(others.try_recv(), Ok(HostReply::Status(Status::ERR_LOST_CONNECTION)));
        thread.measure_next();
        assert!(thread.line.next_time() > Some(Time::ZERO), "it waits for its period");
        cancel(&mut thread, 3);
        assert_eq!(thread.line.next_time(), None);
    }
}
