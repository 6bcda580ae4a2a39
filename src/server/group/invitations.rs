//! Invitations that pass by. Leaders and invitees settle them among themselves, by events; a server only helps out where
//! one of them can't speak any more, and where a leader uses a library that never tells how it ended.

use std::collections::{BTreeMap, BTreeSet};

use super::verdicts::take_if_lower;
use crate::types::{Namespace, ProcId, Text};

/// Invitations whose end has not passed by yet, of leaders and invitees here.
#[derive(Debug, Default)]
pub(in crate::server) struct Invitations {
    open: BTreeMap<(ProcId, Text), Invited>,
    /// Leaders here for some of whose invitations there was no place: one that is not here may be open all the same.
    pub(super) incomplete: BTreeSet<ProcId>,
}

/// One invitation.
#[derive(Debug)]
pub(super) struct Invited {
    /// The processes that were asked, in the order of their ranks in the group, and what they said.
    pub(super) answers: Vec<(ProcId, Option<bool>)>,
    /// The leader's library leaves it to the server to tell the members.
    pub(super) is_told_here: bool,
    /// Who has accepted at some time, and waits for what comes of it.
    pub(super) waiting: BTreeSet<ProcId>,
    /// Who is said to lead, before it was heard that the leader has ended.
    foretold: Option<ProcId>,
    /// Who of these has told already how its own invitation ended.
    concluded: Option<ProcId>,
}

impl Invited {
    /// Whether the leader's place is none any more: somebody has taken it, and that is over.
    fn is_succeeded(&self) -> bool {
        self.foretold.is_some() && self.foretold == self.concluded
    }
}

/// Somebody who waits for a process that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bereaved {
    /// The group.
    pub(super) id: Text,
    /// Who must know.
    pub(super) targets: Vec<ProcId>,
    /// It was the leader, and its place is still one; who is said to have taken it.
    pub(super) is_leaderless: bool,
    pub(super) successor: Option<ProcId>,
}

impl Invitations {
    /// A leader asks. Asked again under the same name, earlier answers do not count.
    pub(super) fn open(&mut self, id: Text, leader: ProcId, invited: Vec<ProcId>, is_told_here: bool) {
        let own_answer = |proc: &ProcId| (*proc == leader).then_some(true);
        let answers = invited.into_iter().map(|proc| (proc.clone(), own_answer(&proc))).collect();
        let invited = Invited { answers, is_told_here, waiting: BTreeSet::new(), foretold: None, concluded: None };
        self.open.insert((leader, id), invited);
    }

    pub(in crate::server) fn len(&self) -> usize {
        self.open.len()
    }

    /// How many there are, how many of this leader, and how many processes these ask.
    pub(super) fn counts(&self, leader: &ProcId) -> (usize, usize, usize) {
        let first = (leader.clone(), Text::from(""));
        let own = || self.open.range(first.clone()..).take_while(|((other, _), _)| other == leader);
        let invited = own().map(|(_, invited)| invited.answers.len()).fold(0, usize::saturating_add);
        (self.open.len(), own().count(), invited)
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
                    if accepts {
                        invited.waiting.insert(proc.clone());
                    }
                }
            }
        }
        let is_over = |(asking, _): &(ProcId, Text), invited: &mut Invited| {
            asking == leader && invited.is_told_here && invited.answers.iter().all(|(_, answer)| answer.is_some())
        };
        self.open.extract_if(.., is_over).map(|((_, id), invited)| (id, invited)).collect()
    }

    /// A leader has told how it ended. Gives its invitation, if there was one. It may have taken the place of one whose end is not heard of
    /// yet.
    pub(super) fn close(&mut self, leader: &ProcId, id: &Text) -> Option<Invited> {
        let others =
            self.open.iter_mut().filter(|((_, name), invited)| name == id && invited.foretold.as_ref() == Some(leader));
        others.for_each(|(_, invited)| invited.concluded = Some(leader.clone()));
        self.open.remove(&(leader.clone(), id.clone()))
    }

    /// A process has ended: whom it keeps waiting.
    pub(super) fn bereaved_of(&mut self, proc: &ProcId) -> Vec<Bereaved> {
        let mut bereaved = Vec::new();
        for ((_, id), invited) in self.open.extract_if(.., |(leader, _), _| leader == proc) {
            let is_leaderless = !invited.is_succeeded();
            let successor = invited.foretold;
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

    /// A process has ended elsewhere: its yes waits for nothing any more.
    pub(super) fn end_wait(&mut self, id: &Text, proc: &ProcId) {
        for (_, invited) in self.open.iter_mut().filter(|((_, name), _)| name == id) {
            invited.waiting.remove(proc);
        }
    }

    /// A leader has ended elsewhere: whom it had asked, and who is said to have taken its place. `None`: there is no place to take.
    pub(super) fn lose_leader(&mut self, leader: &ProcId, id: &Text) -> Option<(Vec<ProcId>, Option<ProcId>)> {
        let invited = self.open.remove(&(leader.clone(), id.clone())).filter(|invited| !invited.is_succeeded())?;
        let others = invited.answers.into_iter().map(|(asked, _)| asked).filter(|asked| asked != leader).collect();
        Some((others, invited.foretold))
    }

    pub(super) fn is_open(&self, leader: &ProcId, id: &Text) -> bool {
        self.open.contains_key(&(leader.clone(), id.clone()))
    }

    /// One of those who were asked is said to lead: then the leader has ended.
    pub(super) fn foretell(&mut self, id: &Text, proc: &ProcId) {
        for (_, invited) in
            self.open.iter_mut().filter(|(invitation, invited)| is_led_by_other(invitation, invited, id, proc))
        {
            take_if_lower(&mut invited.foretold, proc);
        }
    }

    /// Whether a lower one is said to lead.
    pub(super) fn is_outdone(&self, id: &Text, proc: &ProcId) -> bool {
        let mut same = self.open.iter().filter(|(invitation, invited)| is_led_by_other(invitation, invited, id, proc));
        same.any(|(_, invited)| invited.foretold.as_ref().is_some_and(|foretold| foretold < proc))
    }

    /// A namespace is forgotten: its leaders' invitations are, and its processes have said no to others' and wait for none. What is
    /// about nobody here any more is dropped.
    pub(in crate::server) fn forget_namespace(&mut self, namespace: &Namespace, is_here: impl Fn(&ProcId) -> bool) {
        self.incomplete.retain(|leader| leader.namespace != *namespace);
        let stays = |proc: &ProcId| proc.namespace != *namespace && is_here(proc);
        self.open.retain(|(leader, _), invited| {
            for (_, answer) in invited.answers.iter_mut().filter(|(proc, _)| proc.namespace == *namespace) {
                *answer = Some(false);
            }
            invited.waiting.retain(|proc| proc.namespace != *namespace);
            let others = invited.answers.iter().filter(|(proc, answer)| proc != leader && *answer != Some(false));
            let concerns_us =
                others.clone().next().is_some() && (stays(leader) || others.clone().any(|(proc, _)| stays(proc)));
            leader.namespace != *namespace && concerns_us
        });
    }
}

/// Whether somebody else has asked a process to a group.
fn is_led_by_other((leader, name): &(ProcId, Text), invited: &Invited, id: &Text, proc: &ProcId) -> bool {
    name == id && leader != proc && invited.answers.iter().any(|(asked, _)| asked == proc)
}
