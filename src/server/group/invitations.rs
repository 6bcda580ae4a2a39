//! Invitations that pass by. Leaders and invitees settle them among themselves, by events; a server only helps out where
//! one of them can't speak any more, and where a leader uses a library that never tells how it ended.

use std::collections::BTreeMap;

use crate::types::{Namespace, ProcId, Text};

/// Invitations whose end has not passed by yet, of leaders and invitees here.
#[derive(Debug, Default)]
pub(in crate::server) struct Invitations {
    open: BTreeMap<(ProcId, Text), Invited>,
}

/// One invitation.
#[derive(Debug)]
pub(super) struct Invited {
    /// The processes that were asked, in the order of their ranks in the group, and what they said.
    pub(super) answers: Vec<(ProcId, Option<bool>)>,
    /// The leader's library leaves it to the server to tell the members.
    pub(super) is_told_here: bool,
}

/// Somebody who waits for a process that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bereaved {
    /// The group.
    pub(super) id: Text,
    /// Who must know.
    pub(super) targets: Vec<ProcId>,
    /// It was the leader.
    pub(super) is_leaderless: bool,
}

impl Invitations {
    /// A leader asks. Asked again under the same name, earlier answers do not count.
    pub(super) fn open(&mut self, id: Text, leader: ProcId, invited: Vec<ProcId>, is_told_here: bool) {
        let own_answer = |proc: &ProcId| (*proc == leader).then_some(true);
        let answers = invited.into_iter().map(|proc| (proc.clone(), own_answer(&proc))).collect();
        self.open.insert((leader, id), Invited { answers, is_told_here });
    }

    pub(in crate::server) fn len(&self) -> usize {
        self.open.len()
    }

    /// How many there are, and how many of this leader.
    pub(super) fn counts(&self, leader: &ProcId) -> (usize, usize) {
        let first = (leader.clone(), Text::from(""));
        let own = self.open.range(first..).take_while(|((other, _), _)| other == leader);
        (self.open.len(), own.count())
    }

    /// A process answers a leader; without a name all that is open between the two. Gives the invitations that are
    /// answered now and whose members this server has to tell.
    pub(super) fn answer(
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
                }
            }
        }
        let is_over = |(asking, _): &(ProcId, Text), invited: &mut Invited| {
            asking == leader && invited.is_told_here && invited.answers.iter().all(|(_, answer)| answer.is_some())
        };
        self.open.extract_if(.., is_over).map(|((_, id), invited)| (id, invited)).collect()
    }

    /// A leader has told how it ended.
    pub(super) fn close(&mut self, leader: &ProcId, id: &Text) {
        self.open.remove(&(leader.clone(), id.clone()));
    }

    /// A process has ended: whom it keeps waiting.
    pub(super) fn bereaved_of(&mut self, proc: &ProcId) -> Vec<Bereaved> {
        let mut bereaved = Vec::new();
        for ((_, id), invited) in self.open.extract_if(.., |(leader, _), _| leader == proc) {
            let targets = invited.answers.into_iter().map(|(asked, _)| asked).filter(|asked| asked != proc).collect();
            bereaved.push(Bereaved { id, targets, is_leaderless: true });
        }
        for ((leader, id), invited) in &mut self.open {
            let mut answers = invited.answers.iter_mut();
            if let Some((_, answer)) = answers.find(|(asked, answer)| asked == proc && *answer != Some(false)) {
                *answer = Some(false);
                bereaved.push(Bereaved { id: id.clone(), targets: vec![leader.clone()], is_leaderless: false });
            }
        }
        bereaved
    }

    /// A leader has ended elsewhere: whom it had asked.
    pub(super) fn lose_leader(&mut self, leader: &ProcId, id: &Text) -> Option<Vec<ProcId>> {
        let invited = self.open.remove(&(leader.clone(), id.clone()))?;
        Some(invited.answers.into_iter().map(|(asked, _)| asked).filter(|asked| asked != leader).collect())
    }

    pub(in crate::server) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.open.retain(|(leader, _), invited| {
            leader.namespace != *namespace && invited.answers.iter().all(|(proc, _)| proc.namespace != *namespace)
        });
    }
}
