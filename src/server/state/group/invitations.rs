//! Observed invitations. Leaders and invitees settle them by events. The server only helps if one of them has ended, or
//! if a leader's library never reports the result.

use std::collections::{BTreeMap, BTreeSet};

use super::vacancies::take_if_lower;
use crate::types::{Namespace, ProcId, Text};

/// Open invitations of local leaders and invitees.
#[derive(Debug, Default)]
pub(crate) struct Invitations {
    open: BTreeMap<(ProcId, Text), Invited>,
    /// Local leaders with invitations that did not fit: an unknown invitation of these may still be open.
    incomplete: BTreeSet<ProcId>,
}

/// One invitation.
#[derive(Debug)]
pub(crate) struct Invited {
    /// The invited processes, in the order of their ranks in the group, with their answers.
    pub(crate) answers: Vec<(ProcId, Option<bool>)>,
    /// The leader's library leaves it to the server to inform the members.
    pub(crate) is_announced_by_server: bool,
    /// Processes that have accepted at some time, and wait for the result.
    pub(crate) waiting: BTreeSet<ProcId>,
    /// The announced new leader, before the end of the leader is known.
    announced_leader: Option<ProcId>,
    /// A new leader that has already reported the result of its own invitation.
    concluded: Option<ProcId>,
}

impl Invited {
    /// Whether the leader's role is settled: a successor has taken it and concluded.
    fn is_succeeded(&self) -> bool {
        self.announced_leader.is_some() && self.announced_leader == self.concluded
    }
}

/// Processes that wait for an ended process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bereaved {
    /// The group.
    pub(crate) id: Text,
    /// The processes to inform.
    pub(crate) targets: Vec<ProcId>,
    /// The ended process was the leader, and its role is open; the announced successor.
    pub(crate) is_leaderless: bool,
    pub(crate) successor: Option<ProcId>,
}

impl Invitations {
    /// A leader invites. A repeated invitation under the same name drops earlier answers.
    pub(crate) fn open(&mut self, id: Text, leader: ProcId, invited: Vec<ProcId>, is_announced_by_server: bool) {
        let own_answer = |proc: &ProcId| (*proc == leader).then_some(true);
        let answers = invited.into_iter().map(|proc| (proc.clone(), own_answer(&proc))).collect();
        let invited = Invited {
            answers,
            is_announced_by_server,
            waiting: BTreeSet::new(),
            announced_leader: None,
            concluded: None,
        };
        self.open.insert((leader, id), invited);
    }

    /// An invitation of a local leader did not fit.
    pub(crate) fn note_incomplete(&mut self, leader: &ProcId) {
        self.incomplete.insert(leader.clone());
    }

    pub(crate) fn is_incomplete(&self, leader: &ProcId) -> bool {
        self.incomplete.contains(leader)
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Number of all invitations, of this leader's, and of the processes that these invite.
    pub(crate) fn counts(&self, leader: &ProcId) -> (usize, usize, usize) {
        let first = (leader.clone(), Text::from(""));
        let own = || self.open.range(first.clone()..).take_while(|((other, _), _)| other == leader);
        let invited = own().map(|(_, invited)| invited.answers.len()).fold(0, usize::saturating_add);
        (self.open.len(), own().count(), invited)
    }

    /// Number of processes that the invitations of these leaders name.
    pub(crate) fn invited_count(&self, is_meant: impl Fn(&ProcId) -> bool) -> usize {
        let meant = self.open.iter().filter(|((leader, _), _)| is_meant(leader));
        meant.map(|(_, invited)| invited.answers.len()).fold(0, usize::saturating_add)
    }

    /// A process answers a leader; without a name, for all open invitations between the two. Returns the completed
    /// invitations whose members this server must inform.
    pub(crate) fn answer(
        &mut self,
        leader: &ProcId,
        id: Option<&Text>,
        proc: &ProcId,
        accepts: bool,
    ) -> Vec<(Text, Invited)> {
        for ((asking, name), invited) in &mut self.open {
            if asking == leader && id.is_none_or(|id| id == name) {
                for (_, answer) in invited.answers.iter_mut().filter(|(asked, _)| asked == proc) {
                    answer.get_or_insert(accepts);
                    if accepts {
                        invited.waiting.insert(proc.clone());
                    }
                }
            }
        }
        let is_over = |(asking, _): &(ProcId, Text), invited: &mut Invited| {
            asking == leader
                && invited.is_announced_by_server
                && invited.answers.iter().all(|(_, answer)| answer.is_some())
        };
        self.open.extract_if(.., is_over).map(|((_, id), invited)| (id, invited)).collect()
    }

    /// A leader has reported the result. Returns its invitation, if there was one. The leader may have succeeded one
    /// whose end is not known yet.
    pub(crate) fn close(&mut self, leader: &ProcId, id: &Text) -> Option<Invited> {
        let others = self
            .open
            .iter_mut()
            .filter(|((_, name), invited)| name == id && invited.announced_leader.as_ref() == Some(leader));
        others.for_each(|(_, invited)| invited.concluded = Some(leader.clone()));
        self.open.remove(&(leader.clone(), id.clone()))
    }

    /// A process has ended: returns the processes that wait for it.
    pub(crate) fn bereaved_of(&mut self, proc: &ProcId) -> Vec<Bereaved> {
        let mut bereaved = Vec::new();
        for ((_, id), invited) in self.open.extract_if(.., |(leader, _), _| leader == proc) {
            let is_leaderless = !invited.is_succeeded();
            let successor = invited.announced_leader;
            let targets = invited.answers.into_iter().map(|(asked, _)| asked).filter(|asked| asked != proc).collect();
            bereaved.push(Bereaved { id, targets, is_leaderless, successor });
        }
        for ((leader, id), invited) in &mut self.open {
            let mut answers = invited.answers.iter_mut();
            if let Some((_, answer)) = answers.find(|(asked, answer)| asked == proc && *answer != Some(false)) {
                *answer = Some(false);
                invited.waiting.remove(proc);
                let (id, targets) = (id.clone(), vec![leader.clone()]);
                bereaved.push(Bereaved { id, targets, is_leaderless: false, successor: None });
            }
        }
        bereaved
    }

    /// A remote process has ended: it waits no longer.
    pub(crate) fn end_wait(&mut self, id: &Text, proc: &ProcId) {
        for (_, invited) in self.open.iter_mut().filter(|((_, name), _)| name == id) {
            invited.waiting.remove(proc);
        }
    }

    /// A remote leader has ended: returns its invitees, and the announced successor. `None`: its role is not open.
    pub(crate) fn lose_leader(&mut self, leader: &ProcId, id: &Text) -> Option<(Vec<ProcId>, Option<ProcId>)> {
        let invited = self.open.remove(&(leader.clone(), id.clone())).filter(|invited| !invited.is_succeeded())?;
        let others = invited.answers.into_iter().map(|(asked, _)| asked).filter(|asked| asked != leader).collect();
        Some((others, invited.announced_leader))
    }

    pub(crate) fn is_open(&self, leader: &ProcId, id: &Text) -> bool {
        self.open.contains_key(&(leader.clone(), id.clone()))
    }

    /// An invitee is announced as the new leader, so the leader has ended.
    pub(crate) fn note_announced_leader(&mut self, id: &Text, proc: &ProcId) {
        for (_, invited) in
            self.open.iter_mut().filter(|(invitation, invited)| is_led_by_other(invitation, invited, id, proc))
        {
            take_if_lower(&mut invited.announced_leader, proc);
        }
    }

    /// Whether a lower process is announced as the leader.
    pub(crate) fn is_outdone(&self, id: &Text, proc: &ProcId) -> bool {
        let mut same = self.open.iter().filter(|(invitation, invited)| is_led_by_other(invitation, invited, id, proc));
        same.any(|(_, invited)| {
            invited.announced_leader.as_ref().is_some_and(|announced_leader| announced_leader < proc)
        })
    }

    /// A namespace is removed, with its leaders' invitations. For other invitations its processes count as declined,
    /// and wait no longer. Invitations without local processes are dropped.
    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace, is_here: impl Fn(&ProcId) -> bool) {
        self.incomplete.retain(|leader| leader.namespace != *namespace);
        let stays = |proc: &ProcId| proc.namespace != *namespace && is_here(proc);
        self.open.retain(|(leader, _), invited| {
            for (_, answer) in invited.answers.iter_mut().filter(|(proc, _)| proc.namespace == *namespace) {
                *answer = Some(false);
            }
            invited.waiting.retain(|proc| proc.namespace != *namespace);
            let is_left = |proc: &ProcId| proc != leader && proc.namespace != *namespace;
            let others: Vec<&ProcId> =
                invited.answers.iter().map(|(proc, _)| proc).filter(|proc| is_left(proc)).collect();
            let concerns_us = !others.is_empty() && (stays(leader) || others.iter().any(|proc| stays(proc)));
            leader.namespace != *namespace && concerns_us
        });
    }
}

/// Whether another process has invited this one to a group.
fn is_led_by_other((leader, name): &(ProcId, Text), invited: &Invited, id: &Text, proc: &ProcId) -> bool {
    name == id && leader != proc && invited.answers.iter().any(|(asked, _)| asked == proc)
}
