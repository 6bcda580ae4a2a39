//! Queries about the use of resources, which samples of this node's processes answer.
//!
//! The processes of all queries of a request are measured once, on the thread of [`UsageDesk`]. A process gets samples
//! of the processes that it may monitor.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::connections::Connections;
use super::loop_messages::LoopSender;
use super::service_desk::{ReplyTo, answer};
use super::turns::Share;
use super::usage_desk::UsageDesk;
use crate::gds::Store;
use crate::keys;
use crate::server::{HostReply, MONITORED_MAX, MonitoredProcess, Requester, ServerCore, flag};
use crate::types::{Info, ProcId, Query, Status, Text};
use crate::usage::{self, Subject, UsageKind, UsageQuestion, UsageRequest};

/// The parts of queries with keys of one kind, and the rest.
pub(super) fn divided(queries: Vec<Query>, is_of_kind: impl Fn(&str) -> bool) -> (Vec<Query>, Vec<Query>) {
    let (mut of_kind, mut others) = (Vec::new(), Vec::new());
    for Query { keys, qualifiers } in queries {
        let (wanted, rest): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|key: &Text| key.to_str().is_ok_and(&is_of_kind));
        if !rest.is_empty() {
            others.push(Query { keys: rest, qualifiers: qualifiers.clone() });
        }
        if !wanted.is_empty() {
            of_kind.push(Query { keys: wanted, qualifiers });
        }
    }
    (of_kind, others)
}

/// Receivers for the parts of one answer. The last part completes it.
pub(super) fn parts_of(loop_sender: &LoopSender, reply_to: ReplyTo, count: usize) -> Vec<ReplyTo> {
    let whole = Parts { open: count, found: Vec::new(), refusal: None, reply_to: Some(reply_to) };
    let whole = Arc::new(Mutex::new(whole));
    let part = |_| {
        let (whole, loop_sender) = (Arc::clone(&whole), loop_sender.clone());
        ReplyTo::Caller(Box::new(move |reply| {
            let complete = whole.lock().take(reply);
            if let Some((reply_to, reply)) = complete {
                answer(&loop_sender, reply_to, reply);
            }
        }))
    };
    (0..count).map(part).collect()
}

/// The parts of an answer that have come.
struct Parts {
    open: usize,
    found: Vec<Info>,
    refusal: Option<Status>,
    reply_to: Option<ReplyTo>,
}

impl Parts {
    /// Takes a part. Returns the whole after the last one.
    fn take(&mut self, reply: HostReply) -> Option<(ReplyTo, HostReply)> {
        let (found, refusal) = reply.into_looks();
        self.found.extend(found);
        self.refusal = self.refusal.or(refusal);
        self.open = self.open.saturating_sub(1);
        let reply_to = self.reply_to.take_if(|_| self.open == 0)?;
        let status = self.refusal.unwrap_or(Status::SUCCESS);
        Some((reply_to, HostReply::Infos { status, info: std::mem::take(&mut self.found) }))
    }
}

/// The questions of a request, and the processes to measure.
struct Survey<'a> {
    core: &'a ServerCore<Store>,
    connections: &'a Connections,
    requester: &'a Requester,
    questions: Vec<UsageQuestion>,
    /// The subjects that were looked at: whether their processes are known.
    subjects: BTreeMap<Subject, Result<(), Status>>,
    targets: BTreeSet<(ProcId, u32)>,
    /// The reason for missing values.
    refusal: Option<Status>,
    /// Whether a job has processes on other nodes.
    is_partial: bool,
}

impl Survey<'_> {
    fn add(&mut self, query: &Query, hostname: &str, server: &ProcId) {
        let own_node = self.core.own_node_of(self.requester, query);
        let is_elsewhere = |info: &Info| match info.key.as_str() {
            key if key == keys::NODEID.name() => own_node.is_none() || info.value.as_u64() != own_node,
            key if key == keys::HOSTNAME.name() => info.value.as_str() != Some(hostname),
            _ => false,
        };
        if query.qualifiers.iter().any(is_elsewhere) {
            return;
        }
        let target = match self.core.measured_target(self.requester, query) {
            Ok(target) => target,
            Err(status) => return self.refuse(status),
        };
        let is_local_only = flag(&query.qualifiers, keys::QUERY_LOCAL_ONLY);
        for key in &query.keys {
            let question = key.to_str().ok().and_then(|key| UsageQuestion::read(key, &query.qualifiers, &target));
            let Some(question) = question else { continue };
            if let Err(status) = self.look_at(&question.subject, server) {
                self.refuse(status);
                continue;
            }
            self.is_partial |=
                !is_local_only && matches!(&question.subject, Subject::Named(proc) if self.core.runs_elsewhere(proc));
            self.questions.push(question);
        }
    }

    /// Notes the reason for missing values. The first one counts.
    fn refuse(&mut self, status: Status) {
        self.refusal.get_or_insert(status);
    }

    /// Adds the processes of a subject, once.
    fn look_at(&mut self, subject: &Subject, server: &ProcId) -> Result<(), Status> {
        if let Some(known) = self.subjects.get(subject) {
            return *known;
        }
        // A request about too many processes is refused, so further ones are not looked at.
        if self.has_too_many() {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let found = match subject {
            Subject::Named(proc) => self.core.monitored(self.requester, std::slice::from_ref(proc)),
            Subject::Everyone => Ok(self.core.all_monitored(self.requester)),
            Subject::Server => {
                self.targets.insert((server.clone(), std::process::id()));
                Ok(Vec::new())
            }
            Subject::Node => Ok(Vec::new()),
        };
        let result = found.map(|found| {
            self.targets.extend(found.into_iter().filter_map(|process| numbered(self.connections, process)));
        });
        self.subjects.insert(subject.clone(), result);
        result
    }

    fn has_too_many(&self) -> bool {
        self.targets.len() > MONITORED_MAX
    }
}

/// A process with its number, if that is known.
pub(super) fn numbered(connections: &Connections, process: MonitoredProcess) -> Option<(ProcId, u32)> {
    let of_connection = || process.peer.and_then(|peer| connections.pid_of(peer));
    Some((process.proc, process.pid.or_else(of_connection)?))
}

/// Answers queries about the use of resources from samples, in at most `bytes_max`.
pub(super) fn answer_from_samples(
    desk: &mut UsageDesk,
    (core, connections): (&ServerCore<Store>, &Connections),
    (requester, share): (&Requester, Share),
    queries: &[Query],
    bytes_max: usize,
    reply_to: ReplyTo,
) {
    let mut survey = Survey {
        core,
        connections,
        requester,
        questions: Vec::new(),
        subjects: BTreeMap::new(),
        targets: BTreeSet::new(),
        refusal: None,
        is_partial: false,
    };
    let (hostname, server) = (desk.hostname().to_owned(), desk.server().clone());
    queries.iter().for_each(|query| survey.add(query, &hostname, &server));
    if survey.has_too_many() {
        let refused = HostReply::Status(Status::ERR_OUT_OF_RESOURCE);
        return answer(desk.loop_sender(), reply_to, refused);
    }
    let Survey { questions, targets, refusal, is_partial, .. } = survey;
    let has_node = questions.iter().any(|question| question.subject == Subject::Node);
    let has_all = questions.iter().any(|question| !question.is_of_memory());
    let loop_sender = desk.loop_sender().clone();
    let take = {
        let loop_sender = loop_sender.clone();
        move |reply: HostReply| {
            let (samples, unmeasured) = reply.into_looks();
            let (info, is_cut) = usage::answers(&questions, &samples, &server, bytes_max);
            let is_partial = is_partial || unmeasured == Some(Status::ERR_PARTIAL_SUCCESS);
            let unmeasured = unmeasured.filter(|status| *status != Status::ERR_PARTIAL_SUCCESS);
            let refusal = refusal.or(unmeasured).or(is_cut.then_some(Status::ERR_OUT_OF_RESOURCE));
            let status = match refusal {
                _ if !info.is_empty() && (is_partial || refusal.is_some()) => Status::ERR_PARTIAL_SUCCESS,
                Some(status) => status,
                None if is_partial => Status::ERR_NOT_FOUND,
                None => Status::SUCCESS,
            };
            answer(&loop_sender, reply_to, HostReply::Infos { status, info });
        }
    };
    let measured = [(UsageKind::Processes, !targets.is_empty()), (UsageKind::Node, has_node)];
    let kinds: Vec<UsageKind> = measured.into_iter().filter_map(|(kind, is_asked)| is_asked.then_some(kind)).collect();
    if kinds.is_empty() {
        return take(HostReply::Status(Status::ERR_NOT_FOUND));
    }
    let parts = parts_of(&loop_sender, ReplyTo::Caller(Box::new(take)), kinds.len());
    let mut targets: Vec<_> = targets.into_iter().collect();
    for (kind, part) in kinds.into_iter().zip(parts) {
        let request = UsageRequest::of_query(kind, has_all);
        let targets = if kind == UsageKind::Processes { std::mem::take(&mut targets) } else { Vec::new() };
        desk.sample((requester.proc.clone(), share.clone()), request, Status::SUCCESS, targets, part);
    }
}
