//! Groups by invitation: the invited processes, their answers, and the result. Leader and invitees notify each other by
//! events; servers only carry them.
//!
//! Source: PMIx Standard, "Process Sets and Groups"; messages of OpenPMIx clients. Releases up to 6.1 name no group in
//! an answer. So such an answer counts for every invitation that is open to its sender.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::endpoint_exchange::{MemberEndpoints, endpoints_in};
use crate::keys;
use crate::proto::{GROUP_LEADER_TELLS, GROUP_LEFT_OUT, OF_CONNECTION};
use crate::types::{DataArray, DataType, Info, Key, Namespace, ProcId, Status, Text, Value};

/// An invitation on the leader's side.
#[derive(Debug)]
pub struct Invitation {
    id: Text,
    leader: ProcId,
    /// The namespace of the servers.
    servers: Namespace,
    /// In the order of their ranks in the group.
    invited: Vec<ProcId>,
    answers: BTreeMap<ProcId, bool>,
    /// Processes that have accepted at some time, whether that counted or not: they wait for the result.
    waiting: BTreeSet<ProcId>,
    endpoints: MemberEndpoints,
    is_asked: bool,
}

/// Result of an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conclusion {
    /// Members, in the order of their ranks in the group; empty if the construction is aborted.
    pub members: Vec<ProcId>,
    /// Processes that declined, ended, or did not answer.
    pub refused: Vec<ProcId>,
}

impl Invitation {
    /// An invitation without answers. The leader has accepted if it is among the invited processes.
    #[must_use]
    pub fn new(id: Text, leader: ProcId, servers: Namespace, invited: impl IntoIterator<Item = ProcId>) -> Self {
        let mut seen = BTreeSet::new();
        let invited: Vec<ProcId> = invited.into_iter().filter(|proc| seen.insert(proc.clone())).collect();
        let answers = invited.iter().filter(|proc| **proc == leader).map(|proc| (proc.clone(), true)).collect();
        let (waiting, endpoints) = (BTreeSet::new(), MemberEndpoints::default());
        Self { id, leader, servers, invited, answers, waiting, endpoints, is_asked: false }
    }

    /// Takes the leader's own endpoint data. They count if the leader is invited.
    pub fn add_own_endpoints(&mut self, own: &[Info]) {
        self.endpoints.take(&self.leader, own);
    }

    /// The group's name.
    #[must_use]
    pub const fn id(&self) -> &Text {
        &self.id
    }

    /// All invited processes.
    #[must_use]
    pub fn invited(&self) -> &[ProcId] {
        &self.invited
    }

    /// The processes to notify of the invitation.
    #[must_use]
    pub fn others(&self) -> Vec<ProcId> {
        self.invited.iter().filter(|proc| **proc != self.leader).cloned().collect()
    }

    /// The infos of the event that invites them.
    #[must_use]
    pub fn question(&mut self) -> Vec<Info> {
        self.is_asked = true;
        let mut info = addressed(&self.id, &self.others());
        info.push(Info::new(Key::from_static(GROUP_LEADER_TELLS), true));
        info
    }

    /// Handles an event that may be an answer. An answer that names no group counts if it is addressed to the leader by
    /// name. An end of a process counts if that process or a server reports it. The first answer of a process counts,
    /// but a process that has ended is no member, whatever its answer.
    pub fn hear(&mut self, status: Status, source: Option<&ProcId>, info: &[Info]) {
        if named(info).is_some_and(|id| id != &self.id) {
            return;
        }
        let is_for_leader = || named(info).is_some() || targets(info).any(|target| target == &self.leader);
        let (who, accepts) = match status {
            Status::GROUP_INVITE_ACCEPTED if is_for_leader() => (source, true),
            Status::GROUP_INVITE_DECLINED if is_for_leader() => (source, false),
            status if is_end(status, info) => (ended(source, info, &self.servers), false),
            _ => return,
        };
        let Some(who) = who.filter(|who| self.invited.contains(who) && **who != self.leader) else { return };
        if accepts {
            self.waiting.insert(who.clone());
        }
        if is_end(status, info) {
            self.answers.insert(who.clone(), false);
        } else if let Entry::Vacant(answer) = self.answers.entry(who.clone()) {
            answer.insert(accepts);
            if accepts {
                self.endpoints.take(who, info);
            }
        }
    }

    /// Whether all have answered.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.answers.len() == self.invited.len()
    }

    /// The result; a missing answer counts as a refusal. Unless the invitation is optional, a single refusal aborts it.
    #[must_use]
    pub fn conclude(&self, is_optional: bool) -> Conclusion {
        let accepts = |proc: &&ProcId| self.answers.get(*proc) == Some(&true);
        let (members, refused): (Vec<&ProcId>, Vec<&ProcId>) = self.invited.iter().partition(accepts);
        let is_aborted = !is_optional && !refused.is_empty();
        let members = if is_aborted { Vec::new() } else { members };
        Conclusion { members: members.into_iter().cloned().collect(), refused: refused.into_iter().cloned().collect() }
    }

    /// The event that reports the end of the construction, when the leader can't go on. `None` if no process was
    /// invited.
    #[must_use]
    pub fn withdrawal(&self) -> Option<(Status, Vec<Info>)> {
        self.is_asked.then(|| (Status::GROUP_CONSTRUCT_ABORT, addressed(&self.id, &self.others())))
    }

    /// The events that announce the result. A process that accepted but is not in the group (it had ended or declined
    /// before) waits, so it is notified, too. The first event names these processes: a server of this library then
    /// notifies them, as it notifies processes that accept too late for the leader. Other servers do not, so the leader
    /// does it in a second event. Processes that declined or did not answer hear nothing of a formed group.
    #[must_use]
    pub fn announcements(
        &self,
        conclusion: &Conclusion,
        context_id: Option<u64>,
        server_tells: bool,
    ) -> Vec<(Status, Vec<Info>)> {
        let Conclusion { members, refused } = conclusion;
        if members.is_empty() {
            return vec![(Status::GROUP_CONSTRUCT_ABORT, addressed(&self.id, &self.invited))];
        }
        let mut complete = addressed(&self.id, members);
        complete.extend(description(members, context_id));
        complete.extend(self.endpoints.of(members));
        let left_out: Vec<ProcId> = refused.iter().filter(|proc| self.waiting.contains(*proc)).cloned().collect();
        if left_out.is_empty() {
            return vec![(Status::GROUP_CONSTRUCT_COMPLETE, complete)];
        }
        complete.push(Info::new(Key::from_static(GROUP_LEFT_OUT), processes(&left_out)));
        if server_tells {
            return vec![(Status::GROUP_CONSTRUCT_COMPLETE, complete)];
        }
        let aborted = addressed(&self.id, &left_out);
        vec![(Status::GROUP_CONSTRUCT_COMPLETE, complete), (Status::GROUP_CONSTRUCT_ABORT, aborted)]
    }
}

/// The data of a group: its members, and the number that the host has assigned.
#[must_use]
pub fn description(members: &[ProcId], context_id: Option<u64>) -> Vec<Info> {
    let members = Info::new(Key::from_static(keys::GROUP_MEMBERSHIP.name()), processes(members));
    let number = |id: u64| Info::new(Key::from_static(keys::GROUP_CONTEXT_ID.name()), Value::Size(id));
    [members].into_iter().chain(context_id.map(number)).collect()
}

/// An accepted invitation on the invitee's side.
#[derive(Debug)]
pub struct Acceptance {
    /// The group's name.
    pub id: Text,
    /// The accepting process.
    pub own: ProcId,
    /// The namespace of the servers.
    pub servers: Namespace,
    /// The leader; `None`: any source counts.
    pub leader: Option<ProcId>,
}

/// Result of a construction for a participant.
#[derive(Clone, Debug, PartialEq)]
pub enum Construction {
    /// The group is formed.
    Formed {
        /// Members, in the order of their ranks in the group.
        members: Vec<ProcId>,
        /// The number that the host assigned.
        context_id: Option<u64>,
        /// Endpoint data of the members.
        endpoints: Vec<Info>,
    },
    /// The construction is aborted.
    Aborted,
    /// The construction fails: the leader has ended.
    LeaderLost,
}

impl Acceptance {
    /// The result that an event means for this invitee.
    #[must_use]
    pub fn hear(&self, status: Status, source: Option<&ProcId>, info: &[Info]) -> Option<Construction> {
        if named(info).is_some_and(|id| id != &self.id) {
            return None;
        }
        let is_leaders = self.leader.is_none() || self.leader.as_ref() == source;
        match status {
            Status::GROUP_CONSTRUCT_COMPLETE if is_leaders => {
                let context_id = find(info, keys::GROUP_CONTEXT_ID.name()).and_then(Value::as_u64);
                let members = members_in(info)?;
                match members.contains(&self.own) {
                    true => {
                        let endpoints = endpoints_in(info, &members);
                        Some(Construction::Formed { members, context_id, endpoints })
                    }
                    // The leader's group is without this process. Another leader's group of that name has no meaning
                    // here.
                    false => self.leader.is_some().then_some(Construction::Aborted),
                }
            }
            Status::GROUP_CONSTRUCT_ABORT if is_leaders => Some(Construction::Aborted),
            status if is_end(status, info) => {
                let ended = ended(source, info, &self.servers);
                (ended.is_some() && ended == self.leader.as_ref()).then_some(Construction::LeaderLost)
            }
            _ => None,
        }
    }
}

/// Events for a leader: answers, and ends of processes.
pub const ANSWERS: [Status; 6] = [
    Status::GROUP_INVITE_ACCEPTED,
    Status::GROUP_INVITE_DECLINED,
    Status::PROC_TERMINATED,
    Status::EVENT_PROC_TERMINATED,
    Status::ERR_PROC_ABORTED,
    Status::ERR_PROC_TERM_WO_SYNC,
];

/// Events for an invitee.
pub const ENDINGS: [Status; 6] = [
    Status::GROUP_CONSTRUCT_COMPLETE,
    Status::GROUP_CONSTRUCT_ABORT,
    Status::PROC_TERMINATED,
    Status::EVENT_PROC_TERMINATED,
    Status::ERR_PROC_ABORTED,
    Status::ERR_PROC_TERM_WO_SYNC,
];

/// A list of processes as a value.
#[must_use]
pub fn processes(procs: &[ProcId]) -> Value {
    let elements = procs.iter().cloned().map(Value::from).collect();
    Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements }))
}

/// The infos that address an event about a group to its targets alone.
#[must_use]
pub fn addressed(id: &Text, targets: &[ProcId]) -> Vec<Info> {
    vec![
        Info::new(Key::from_static(keys::EVENT_CUSTOM_RANGE.name()), processes(targets)),
        Info::new(Key::from_static(keys::EVENT_NON_DEFAULT.name()), true),
        Info::new(Key::from_static(keys::GROUP_ID.name()), Value::String(id.clone())),
    ]
}

/// Whether an event is about the end of a process. The end of a connection may be that of an earlier life.
fn is_end(status: Status, info: &[Info]) -> bool {
    let is_known = matches!(
        status,
        Status::PROC_TERMINATED
            | Status::EVENT_PROC_TERMINATED
            | Status::ERR_PROC_ABORTED
            | Status::ERR_PROC_TERM_WO_SYNC
    );
    is_known && find(info, OF_CONNECTION).is_none()
}

fn find<'a>(info: &'a [Info], key: &str) -> Option<&'a Value> {
    info.iter().find(|info| info.key.as_str() == key).map(|info| &info.value)
}

fn named(info: &[Info]) -> Option<&Text> {
    match find(info, keys::GROUP_ID.name()) {
        Some(Value::String(id)) => Some(id),
        _ => None,
    }
}

/// The process that has ended, if the process itself, a server, or the environment reports it.
fn ended<'a>(source: Option<&ProcId>, info: &'a [Info], servers: &Namespace) -> Option<&'a ProcId> {
    match find(info, keys::EVENT_AFFECTED_PROC.name()) {
        Some(Value::Proc(proc)) => {
            let is_credible = |source: &ProcId| *source == **proc || source.namespace == *servers;
            source.is_none_or(is_credible).then_some(&**proc)
        }
        _ => None,
    }
}

/// The processes that an event is addressed to by name.
fn targets(info: &[Info]) -> impl Iterator<Item = &ProcId> {
    let elements = match find(info, keys::EVENT_CUSTOM_RANGE.name()) {
        Some(Value::DataArray(array)) => array.elements.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    elements.iter().filter_map(|value| if let Value::Proc(proc) = value { Some(&**proc) } else { None })
}

fn members_in(info: &[Info]) -> Option<Vec<ProcId>> {
    let Some(Value::DataArray(array)) = find(info, keys::GROUP_MEMBERSHIP.name()) else { return None };
    let member = |value: &Value| match value {
        Value::Proc(proc) if !proc.namespace.is_nobodys() => Some((**proc).clone()),
        _ => None,
    };
    array.elements.iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(rank: u32) -> ProcId {
        ProcId::new(Namespace::new("job").unwrap(), rank)
    }

    fn invitation() -> Invitation {
        Invitation::new(Text::from("g"), proc(0), servers(), [0, 1, 2, 1].map(proc))
    }

    fn servers() -> Namespace {
        Namespace::new("server").unwrap()
    }

    fn to(rank: u32) -> [Info; 1] {
        [Info::new(Key::from_static(keys::EVENT_CUSTOM_RANGE.name()), proc(rank))]
    }

    fn about(rank: u32) -> [Info; 1] {
        [Info::new(Key::from_static(keys::EVENT_AFFECTED_PROC.name()), proc(rank))]
    }

    fn of(id: &str) -> [Info; 1] {
        [Info::new(Key::from_static(keys::GROUP_ID.name()), id)]
    }

    #[test]
    fn an_event_with_an_unnamed_member_forms_no_group() {
        // Regression: a list with an unfilled entry was a group with a process of a job without a name.
        let acceptance = Acceptance { id: Text::from("g"), own: proc(1), servers: servers(), leader: Some(proc(0)) };
        let nobody = ProcId { namespace: Namespace::in_value(b"").unwrap(), ..proc(2) };
        let hear = |members: &[ProcId]| {
            let info = description(members, None);
            acceptance.hear(Status::GROUP_CONSTRUCT_COMPLETE, Some(&proc(0)), &info)
        };
        assert!(matches!(hear(&[proc(0), proc(1)]), Some(Construction::Formed { .. })));
        assert_eq!(hear(&[proc(0), proc(1), nobody]), None, "no word about a group");
    }

    #[test]
    fn a_group_forms_when_everybody_has_accepted_and_its_ranks_are_the_leaders_order() {
        let mut invitation = Invitation::new(Text::from("g"), proc(1), servers(), [2, 1, 0].map(proc));
        assert_eq!(invitation.others(), [2, 0].map(proc));
        invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(0)), &of("g"));
        assert!(!invitation.is_answered());
        invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(2)), &to(1));
        assert!(invitation.is_answered());
        assert_eq!(invitation.conclude(false), Conclusion { members: [2, 1, 0].map(proc).into(), refused: vec![] });
    }

    #[test]
    fn a_no_a_death_and_silence_abort_it_unless_it_is_optional() {
        for (status, source, info) in [
            (Status::GROUP_INVITE_DECLINED, Some(proc(1)), to(0).to_vec()),
            (Status::PROC_TERMINATED, None, about(1).to_vec()),
            (Status::SUCCESS, None, vec![]),
        ] {
            let mut invitation = invitation();
            invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(2)), &of("g"));
            invitation.hear(status, source.as_ref(), &info);
            assert_eq!(invitation.is_answered(), status != Status::SUCCESS);
            assert_eq!(invitation.conclude(false), Conclusion { members: vec![], refused: vec![proc(1)] });
            assert_eq!(invitation.conclude(true).members, [0, 2].map(proc));
        }
    }

    /// Regression: a process ended, came again and accepted again. It was left out and not notified, so it waited for
    /// ever.
    #[test]
    fn an_accepting_process_that_is_left_out_hears_of_an_abort() {
        let mut invitation = invitation();
        invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(1)), &of("g"));
        invitation.hear(Status::PROC_TERMINATED, None, &about(1));
        invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(1)), &of("g"));
        invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(2)), &of("g"));
        let conclusion = invitation.conclude(true);
        let told = |(status, info): &(Status, Vec<Info>)| (*status, targets(info).cloned().collect::<Vec<_>>());
        let announced: Vec<_> = invitation.announcements(&conclusion, None, false).iter().map(told).collect();
        let complete = (Status::GROUP_CONSTRUCT_COMPLETE, [0, 2].map(proc).to_vec());
        assert_eq!(announced, [complete, (Status::GROUP_CONSTRUCT_ABORT, vec![proc(1)])]);
        let announced: Vec<_> =
            invitation.announcements(&invitation.conclude(false), None, false).iter().map(told).collect();
        assert_eq!(announced, [(Status::GROUP_CONSTRUCT_ABORT, [0, 1, 2].map(proc).to_vec())]);
    }

    /// Regression: a process that had declined was notified of the abort of a formed group. In the reference's
    /// releases, which compare only the name, that ended its join of another leader's group of that name.
    #[test]
    fn a_process_that_declined_or_is_silent_hears_nothing_of_the_group() {
        let mut invitation = Invitation::new(Text::from("g"), proc(0), servers(), (0..5).map(proc));
        invitation.hear(Status::GROUP_INVITE_DECLINED, Some(&proc(1)), &of("g"));
        invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(2)), &of("g"));
        invitation.hear(Status::GROUP_INVITE_DECLINED, Some(&proc(4)), &of("g"));
        let aborted = |invitation: &Invitation| {
            let announced = invitation.announcements(&invitation.conclude(true), None, false);
            let mut aborted = announced.into_iter().filter(|(status, _)| *status == Status::GROUP_CONSTRUCT_ABORT);
            aborted.next().map(|(_, info)| targets(&info).cloned().collect::<Vec<_>>())
        };
        assert_eq!(aborted(&invitation), None, "two have declined, and one is silent");
        invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(4)), &of("g"));
        assert_eq!(aborted(&invitation), Some(vec![proc(4)]), "its second life waits");
    }

    #[test]
    fn strangers_other_groups_and_second_thoughts_change_nothing_but_a_death_does() {
        let mut invitation = invitation();
        invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(7)), &of("g"));
        invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(1)), &of("other"));
        invitation.hear(Status::GROUP_INVITE_DECLINED, Some(&proc(0)), &of("g"));
        // Answers without an address, or to another leader's invitation, do not count; and one process can't end
        // another.
        invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(1)), &[]);
        invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(1)), &to(2));
        invitation.hear(Status::PROC_TERMINATED, Some(&proc(2)), &about(1));
        assert_eq!(invitation.answers, BTreeMap::from([(proc(0), true)]));
        invitation.hear(Status::GROUP_INVITE_ACCEPTED, Some(&proc(1)), &of("g"));
        invitation.hear(Status::GROUP_INVITE_DECLINED, Some(&proc(1)), &of("g"));
        assert!(invitation.answers[&proc(1)]);
        invitation.hear(Status::ERR_PROC_ABORTED, Some(&ProcId::new(servers(), 0)), &about(1));
        assert!(!invitation.answers[&proc(1)]);
    }

    #[test]
    fn an_invitee_hears_its_leader_and_of_its_leader() {
        let acceptance = Acceptance { id: Text::from("g"), own: proc(1), servers: servers(), leader: Some(proc(0)) };
        let complete = |id: &str| {
            let mut info = addressed(&Text::from(id), &[proc(1)]);
            info.push(Info::new(Key::from_static(keys::GROUP_MEMBERSHIP.name()), processes(&[proc(0), proc(1)])));
            info.push(Info::new(Key::from_static(keys::GROUP_CONTEXT_ID.name()), Value::Size(9)));
            info
        };
        let formed =
            Construction::Formed { members: vec![proc(0), proc(1)], context_id: Some(9), endpoints: Vec::new() };
        let done = Status::GROUP_CONSTRUCT_COMPLETE;
        assert_eq!(acceptance.hear(done, Some(&proc(0)), &complete("g")), Some(formed.clone()));
        assert_eq!(acceptance.hear(done, Some(&proc(2)), &complete("g")), None);
        assert_eq!(acceptance.hear(done, Some(&proc(0)), &complete("h")), None);
        let aborted = acceptance.hear(Status::GROUP_CONSTRUCT_ABORT, Some(&proc(0)), &of("g"));
        assert_eq!(aborted, Some(Construction::Aborted));
        // The leader ended without a disconnect in an earlier life, and the event came late.
        let of_connection = [&about(0)[..], &[Info::new(Key::from_static(OF_CONNECTION), true)]].concat();
        assert_eq!(acceptance.hear(Status::ERR_PROC_TERM_WO_SYNC, None, &of_connection), None);
        assert_eq!(acceptance.hear(Status::PROC_TERMINATED, None, &about(0)), Some(Construction::LeaderLost));
        assert_eq!(acceptance.hear(Status::PROC_TERMINATED, None, &about(2)), None);
        assert_eq!(acceptance.hear(Status::PROC_TERMINATED, Some(&proc(2)), &about(0)), None, "a forged end");
        let left_out = Acceptance { own: proc(5), ..acceptance };
        // The leader sends the result to all processes, so left-out ones learn it from the same event.
        assert_eq!(left_out.hear(done, Some(&proc(0)), &complete("g")), Some(Construction::Aborted));
        assert_eq!(left_out.hear(done, Some(&proc(2)), &complete("g")), None, "another's group");
        let strangers = Acceptance { leader: None, ..left_out };
        assert_eq!(strangers.hear(done, Some(&proc(0)), &complete("g")), None, "perhaps another's");
        let anybodys = Acceptance { own: proc(1), ..strangers };
        assert_eq!(anybodys.hear(done, Some(&proc(2)), &complete("g")), Some(formed));
        assert_eq!(anybodys.hear(Status::PROC_TERMINATED, None, &[]), None);
    }
}
