//! Checks of groups by invitation: their members, the news of them, and that no process waits for a group that is over.

use std::time::Duration;

use modex::client::{CallError, Conclusion, Outcome};
use modex::keys;
use modex::proto::Reply;
use modex::server::PeerId;
use modex::types::{ProcId, Status, Time};

use super::invitations::procs_in;
use crate::invitations::Outcomes;
use crate::invited_groups::{Group, InvitationId};
use crate::rule::Rule;
use crate::world::World;

impl World {
    /// Members of the group are the processes that have accepted, and no others.
    pub(crate) fn check_conclusion(&mut self, party: &InvitationId, conclusion: &Conclusion) {
        let Some(known) = self.invited_groups.all.get(party) else { return };
        let due = known.due_members(&party.0);
        let is_whole = due.len() == known.invited.len();
        let expected = if known.is_optional || is_whole { due } else { Vec::new() };
        if conclusion.members != expected {
            self.rules.breaks(Rule::Membership, || {
                format!("{party:?} is of {:?}, and {expected:?} have accepted", conclusion.members)
            });
        }
    }

    /// Nobody waits for a group that is over.
    pub(crate) fn check_wait(&mut self, process: u32, party: &InvitationId, since: Time) {
        let stopped = self.process(process).map_or(self.now, |of| of.stopped_until);
        let Some(known) = self.invited_groups.all.get(party) else { return };
        let until = known.over_since.map(|over| over.max(stopped).max(since) + NEWS_TRAVEL);
        if let Some(until) = until.filter(|until| *until < self.now && !known.is_unannounced)
            && !self.invited_groups.is_lossy(party)
        {
            let late = self.now.since(until);
            self.rules.breaks(Rule::NoWaitInVain, || {
                format!("process {process} has waited {late:?} for {party:?}, which was over")
            });
        }
    }

    /// A process that has accepted hears that there is no group: it is over, and the process is not in it. A process
    /// that has accepted in several lives may be a member by an earlier one.
    pub(crate) fn check_abort(&mut self, process: u32, party: &InvitationId) {
        let own = self.own(process);
        let Some(known) = self.invited_groups.all.get(party).filter(|known| !known.accepted_again.contains(&own))
        else {
            return;
        };
        if known.over_since.is_none() || known.has_member(&own) && !known.is_taken_back {
            let what = format!("process {process} learns that {party:?} was aborted, but it is {:?}", known.formed);
            self.rules.breaks(Rule::Membership, || what);
        }
    }

    /// A process that has accepted hears that its leader has ended.
    pub(crate) fn check_loss(&mut self, process: u32, party: &InvitationId) {
        let goes_on = self.invited_groups.all.get(party).is_some_and(|known| !known.has_lost_leader);
        if goes_on && !self.invited_groups.had_left_earlier(party) {
            let what = format!("process {process} learns that {} has ended", party.0);
            self.rules.breaks(Rule::Membership, || what);
        }
    }

    /// A new member was asked and has accepted, and it hears of the group that its leader has formed.
    pub(crate) fn check_entry(&mut self, process: u32, party: &InvitationId, group: &Group) {
        let own = self.own(process);
        let Some(known) = self.invited_groups.all.get(party) else { return };
        if known.formed.as_ref() != Some(group) || !(own == party.0 || known.accepted.contains(&own)) {
            let what = format!("process {process} gets {group:?} of {party:?}, its leader formed {:?}", known.formed);
            self.rules.breaks(Rule::Membership, || what);
        }
    }

    /// A member of a group can leave it.
    pub(crate) fn check_departure(&mut self, process: u32, party: &InvitationId, result: &Outcomes) {
        if let Err(CallError::Refused { status: Status::ERR_NOT_FOUND, .. }) = result
            && !self.invited_groups.is_lossy(party)
        {
            self.rules.breaks(Rule::Membership, || format!("process {process} can't leave {party:?}, which it is in"));
        }
    }

    /// The server knows the members that the group was told of, except those that have left.
    pub(crate) fn compare(&mut self, peer: PeerId, process: u32, party: &InvitationId, result: Outcomes) {
        let Ok(Outcome::Reply(Reply::Infos(infos))) = result else { return };
        let Some(known) = self.invited_groups.all.get(party) else { return };
        // The process may have entered another group of that name meanwhile.
        let inside = self.connections.get(&peer).and_then(|of| of.invitations.inside.get(&party.1));
        let is_inside = inside.is_some_and(|(leader, _)| *leader == party.0);
        let Some(group) = known.formed.as_ref().filter(|_| is_inside && !self.invited_groups.is_lossy(party)) else {
            return;
        };
        let reported = infos.iter().find(|info| info.key.as_str() == keys::QUERY_GROUP_MEMBERSHIP.name());
        let reported = reported.map(|info| procs_in(&info.value)).unwrap_or_default();
        let is_member = |member: &ProcId| group.members.contains(member);
        let stays = |member: &&ProcId| !self.invited_groups.has_left(&party.1, member);
        if !reported.iter().all(is_member)
            || !group.members.iter().filter(stays).all(|member| reported.contains(member))
        {
            let what = format!("process {process} is in {party:?} of {group:?}, and its server reports {reported:?}");
            self.rules.breaks(Rule::Membership, || what);
        }
    }

    /// Without faults, each process that was invited and has accepted is in the group.
    pub(crate) fn check_parties(&mut self) {
        if !self.setup.faults.is_empty() {
            return;
        }
        for (party, known) in &self.invited_groups.all {
            let accepts = |proc: &ProcId| *proc == party.0 || known.accepted.contains(proc);
            let is_due = known.invited.iter().all(accepts) && known.declined.is_empty() && !known.somebody_left;
            if is_due && !known.is_kept(&party.0) {
                self.rules.breaks(Rule::Membership, || format!("all accepted {party:?}, and it came to {known:?}"));
            }
        }
    }
}

/// How long the news of an end may travel, behind an answer that travels as long. Both may take long between nodes.
const NEWS_TRAVEL: Duration = Duration::from_secs(60);
