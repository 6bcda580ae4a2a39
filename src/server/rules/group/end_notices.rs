//! Events for members of groups when one of them ends here.
//!
//! A process may be in thousands of groups, and end together with many others. Each step informs a bounded number of
//! groups, and the next step comes in another turn. A construction does not go on before its members know.

use super::directives::wants_notice_of_deaths;
use crate::gds::Datastore;
use crate::server::interface::GroupOperation;
use crate::server::state::{
    Collective, CollectiveKind, EndedProcess, LOOKS_PER_STEP, NEXT_STEP_IN, NoticeProgress, OUTPUTS_PER_STEP,
    OperationId, OperationStage, ServerCore, Timer,
};
use crate::types::{ProcId, Status, Text, Time};

impl<S: Datastore> ServerCore<S> {
    /// A local process has ended without a finalization. Called once in its life, before operations go on without it.
    pub(in crate::server::rules) fn announce_end(&mut self, now: Time, proc: &ProcId) {
        let (groups_until, operations_until) = (self.groups.last_entry(), self.collectives.last());
        let has_groups = self.groups.next_of(proc, None, groups_until).is_some();
        if has_groups || self.collectives.next_with(&proc.namespace, None, operations_until).is_some() {
            let progress = NoticeProgress::Groups(None);
            self.end_notices.push(EndedProcess { proc: proc.clone(), groups_until, operations_until, progress });
        }
        if self.end_notices.due().is_none() {
            let left = self.pace.left(now);
            let looks = self.announce_ends_up_to(now, left, false);
            self.pace.spend(looks);
            self.set_next_end_notice(now);
        }
        self.end_invitations_of(now, proc);
    }

    /// Informs the members of some groups. The others follow in a later turn.
    pub(in crate::server) fn announce_some_ends(&mut self, now: Time) {
        self.end_notices.take_due();
        self.announce_ends_up_to(now, LOOKS_PER_STEP, true);
        self.set_next_end_notice(now);
    }

    fn set_next_end_notice(&mut self, now: Time) {
        if self.end_notices.len() > 0 {
            self.end_notices.set_due(now + NEXT_STEP_IN);
            self.timers.arm(self.end_notices.due(), Timer::EndNotices);
        }
    }

    /// Informs members up to a number of looks at operations and processes. Returns the number. If it is not late, the
    /// caller advances all operations of the job afterwards.
    fn announce_ends_up_to(&mut self, now: Time, looks_max: usize, is_late: bool) -> usize {
        let mut looks: usize = 0;
        // A group's event may go to thousands of connections.
        while looks < looks_max
            && self.outputs.len() <= OUTPUTS_PER_STEP
            && let Some(ended) = self.end_notices.first()
        {
            let proc = ended.proc.clone();
            let more = match &ended.progress {
                NoticeProgress::Groups(after) => {
                    match self.groups.next_of(&proc, after.as_ref(), ended.groups_until).cloned() {
                        Some(id) => {
                            self.end_notices.advance(NoticeProgress::Groups(Some(id.clone())));
                            self.announce_end_in_group(now, &id, &proc)
                        }
                        None => {
                            self.end_notices.advance(NoticeProgress::Operations(None));
                            1
                        }
                    }
                }
                NoticeProgress::Operations(after) => {
                    match self.collectives.next_with(&proc.namespace, *after, ended.operations_until) {
                        Some(id) => {
                            self.end_notices.advance(NoticeProgress::Operations(Some(id)));
                            let looks = self.announce_end_in_operation(now, id, &proc);
                            looks.saturating_add(if is_late { self.go_on_after_end_notice(now, id) } else { 0 })
                        }
                        None => {
                            self.end_notices.finish();
                            1
                        }
                    }
                }
            };
            looks = looks.saturating_add(more);
        }
        looks
    }

    /// Advances a construction that has waited for the news. Returns the work as a number of looks.
    fn go_on_after_end_notice(&mut self, now: Time, id: OperationId) -> usize {
        let kind = self.collectives.get(id).map(|operation| &operation.signature().kind);
        if !matches!(kind, Some(CollectiveKind::Group(GroupOperation::Construct, _))) {
            return 0;
        }
        let looks = self.looks_to_advance(id, usize::MAX);
        self.advance_operation(now, id);
        looks
    }

    /// Informs the members of a group about the end of one of them. Returns the work as a number of looks.
    fn announce_end_in_group(&mut self, now: Time, id: &Text, proc: &ProcId) -> usize {
        let group = self.groups.of_member(id, proc).filter(|group| group.survives_deaths);
        let Some(group) = group else { return LOOKS_AT_GROUP };
        let others: Vec<ProcId> = group.members.iter().filter(|member| *member != proc).cloned().collect();
        let looks = LOOKS_FOR_EVENT.saturating_add(others.len());
        self.tell_of(now, Status::GROUP_MEMBER_FAILED, proc, id, others, &[]);
        looks
    }

    /// Informs the processes that form a group about the end of another one. These are the declared leaders, if there
    /// are any, or all processes if it was a leader itself. Returns the work as a number of looks.
    fn announce_end_in_operation(&mut self, now: Time, id: OperationId, proc: &ProcId) -> usize {
        let looks = LOOKS_AT_GROUP;
        let Some(operation) = self.collectives.get(id) else { return looks };
        let CollectiveKind::Group(GroupOperation::Construct, name) = &operation.signature().kind else { return looks };
        if operation.stage() != OperationStage::Gathering || !operation.signature().covers(proc) {
            return looks;
        }
        let name = name.clone();
        let Some(group) = operation.group() else { return looks };
        let was_leader = group.leaders().contains(proc);
        let leaders: Vec<ProcId> = group.leaders().iter().filter(|leader| *leader != proc).cloned().collect();
        if !was_leader && !wants_notice_of_deaths(operation.directives()) {
            return looks;
        }
        let others = || self.all_who_form(id).into_iter().filter(|member| member != proc).collect();
        let (status, targets) = match was_leader {
            true => (Status::GROUP_LEADER_FAILED, others()),
            false if leaders.is_empty() => (Status::GROUP_MEMBER_FAILED, others()),
            false => (Status::GROUP_MEMBER_FAILED, leaders),
        };
        if let Some(group) = self.collectives.get_mut(id).and_then(Collective::group_mut).filter(|_| was_leader) {
            group.lose_leader(proc);
        }
        let looks = LOOKS_FOR_EVENT.saturating_add(targets.len());
        if let Some(event) = self.tell_of(now, status, proc, &name, targets, &[]) {
            self.await_verdicts(now, id, &event);
        }
        looks
    }
}

/// A look at a group or operation without an event costs as much as some looks at processes.
const LOOKS_AT_GROUP: usize = 2;
/// An event costs as much as many looks.
const LOOKS_FOR_EVENT: usize = 256;
