//! Events for members of groups when one of them ends here.
//!
//! A process may be in thousands of groups, and end together with many others. Each step informs a bounded number of
//! groups, and the next step comes in another turn. A construction does not go on before its members know.

use super::directives::wants_notice_of_deaths;
use crate::gds::Datastore;
use crate::server::interface::GroupOperation;
use crate::server::state::{
    Collective, CollectiveKind, Loss, NEXT_STEP_IN, OperationId, OperationStage, ServerCore, Timer,
};
use crate::types::{ProcId, Status, Time};

impl<S: Datastore> ServerCore<S> {
    /// A local process has ended without a finalization. Called once in its life, before operations go on without it.
    pub(in crate::server::rules) fn mourn(&mut self, now: Time, proc: &ProcId) {
        let groups = self.groups.of_process(proc).filter(|(_, group)| group.survives_deaths);
        let groups = groups.map(|(id, _)| (proc.clone(), Loss::Group(id.clone())));
        self.mourning.extend(groups);
        for id in self.collectives.gathering_with(&proc.namespace) {
            let Some(operation) = self.collectives.get_mut(id) else { continue };
            if matches!(operation.signature().kind, CollectiveKind::Group(GroupOperation::Construct, _)) {
                operation.group_mut().into_iter().for_each(|group| group.begin_mourning(proc));
                self.mourning.extend([(proc.clone(), Loss::Operation(id))]);
            }
        }
        if self.mourning.due().is_none() {
            self.mourn_some(now);
        }
        self.end_invitations_of(now, proc);
    }

    /// Informs the members of some groups. The others follow in a later turn.
    pub(in crate::server) fn mourn_some(&mut self, now: Time) {
        let is_late = self.mourning.take_due().is_some();
        for _ in 0..LOSSES_PER_STEP {
            // A group's event may go to thousands of connections.
            if self.outputs.len() > OUTPUTS_PER_STEP {
                break;
            }
            let Some((proc, loss)) = self.mourning.pop() else { return };
            match loss {
                Loss::Group(id) => {
                    let members = self.groups.of_member(&id, &proc).map(|group| group.members.iter());
                    let others = members.into_iter().flatten().filter(|member| **member != proc).cloned().collect();
                    self.tell_of(now, Status::GROUP_MEMBER_FAILED, &proc, &id, others, &[]);
                }
                Loss::Operation(id) => {
                    self.mourn_in_operation(now, id, &proc);
                    if let Some(group) = self.collectives.get_mut(id).and_then(Collective::group_mut) {
                        group.end_mourning(&proc);
                    }
                    // In the turn of the end itself, all operations are advanced afterwards.
                    if is_late {
                        self.advance_operation(now, id);
                    }
                }
            }
        }
        if self.mourning.len() > 0 {
            self.mourning.set_due(now + NEXT_STEP_IN);
            self.timers.arm(self.mourning.due(), Timer::Mourning);
        }
    }

    /// Informs the processes that form a group about the end of another one. These are the declared leaders, if there
    /// are any, or all processes if it was a leader itself.
    fn mourn_in_operation(&mut self, now: Time, id: OperationId, proc: &ProcId) {
        let Some(operation) = self.collectives.get(id) else { return };
        let CollectiveKind::Group(GroupOperation::Construct, name) = &operation.signature().kind else { return };
        if operation.stage() != OperationStage::Gathering || !operation.signature().covers(proc) {
            return;
        }
        let name = name.clone();
        let Some(group) = operation.group() else { return };
        let was_leader = group.leaders().contains(proc);
        let leaders: Vec<ProcId> = group.leaders().iter().filter(|leader| *leader != proc).cloned().collect();
        if !was_leader && !wants_notice_of_deaths(operation.directives()) {
            return;
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
        if let Some(event) = self.tell_of(now, status, proc, &name, targets, &[]) {
            self.await_verdicts(now, id, &event);
        }
    }
}

/// Number of groups informed in one step.
const LOSSES_PER_STEP: usize = 32;
/// Number of events after which a step informs no other group.
const OUTPUTS_PER_STEP: usize = 256;
