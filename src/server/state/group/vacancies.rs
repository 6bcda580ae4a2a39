//! Invitations whose leader has ended, and the successors of these leaders.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::types::{Namespace, ProcId, Text, Time};

/// Invitations whose leader has ended: the leader's role is vacant.
#[derive(Debug, Default)]
pub(crate) struct Vacancies {
    places: BTreeMap<(ProcId, Text), Vacancy>,
    /// Total number of candidates of all vacancies.
    candidate_count: usize,
}

/// The candidates for a leader's role, and the successor.
#[derive(Debug)]
struct Vacancy {
    candidates: Vec<ProcId>,
    successor: Option<ProcId>,
    /// Time by which the successor must invite again. `None`: it has, perhaps before the end of the leader was known,
    /// or there is no successor.
    invites_until: Option<Time>,
}

impl Vacancy {
    /// The current successor: it loses the role if it does not invite in time.
    fn holder(&self, now: Time) -> Option<&ProcId> {
        self.successor.as_ref().filter(|_| self.invites_until.is_none_or(|until| now < until))
    }

    fn take(&mut self, now: Time, proc: &ProcId) {
        self.successor = Some(proc.clone());
        self.invites_until = Some(now + SUCCESSOR_INVITES_WITHIN);
    }
}

impl Vacancies {
    /// A leader has ended, and its role is vacant. If the table is full, a vacancy with a successor makes room.
    ///
    /// The successor, if there is one, may have invited again already.
    pub(crate) fn open(
        &mut self,
        now: Time,
        (leader, id): (&ProcId, &Text),
        candidates: Vec<ProcId>,
        (successor, has_invited): (Option<ProcId>, bool),
        vacancies_max: usize,
    ) {
        let invites_until = (successor.is_some() && !has_invited).then(|| now + SUCCESSOR_INVITES_WITHIN);
        let vacancy = Vacancy { candidates, successor, invites_until };
        if self.places.len() >= vacancies_max {
            let taken = self.places.iter().find(|(_, vacancy)| vacancy.successor.is_some());
            let Some(taken) = taken.map(|(vacancy, _)| vacancy.clone()) else { return };
            self.places.remove(&taken);
            self.count();
        }
        let candidate_count = self.candidate_count.saturating_add(vacancy.candidates.len());
        if candidate_count <= CANDIDATES_MAX {
            self.candidate_count = candidate_count;
            if let Some(earlier) = self.places.insert((leader.clone(), id.clone()), vacancy) {
                self.candidate_count = self.candidate_count.saturating_sub(earlier.candidates.len());
            }
        }
    }

    /// Whether this leader ended before it concluded its invitation, and no successor has concluded one since.
    pub(crate) fn contains(&self, leader: &ProcId, id: &Text) -> bool {
        self.places.contains_key(&(leader.clone(), id.clone()))
    }

    /// A process has ended: the roles that it had taken are vacant again.
    pub(crate) fn reopen(&mut self, successor: &ProcId) {
        for vacancy in self.places.values_mut().filter(|vacancy| vacancy.successor.as_ref() == Some(successor)) {
            vacancy.successor = None;
            vacancy.invites_until = None;
        }
    }

    /// A successor invites again, and so keeps its role.
    pub(crate) fn keep(&mut self, id: &Text, successor: &ProcId) {
        for vacancy in self.of(id, successor).filter(|vacancy| vacancy.successor.as_ref() == Some(successor)) {
            vacancy.invites_until = None;
        }
    }

    /// The first volunteer becomes the successor. Returns the candidates, who must know.
    pub(crate) fn fill(&mut self, now: Time, leader: &ProcId, id: &Text, volunteer: &ProcId) -> Option<Vec<ProcId>> {
        let vacancy = self.places.get_mut(&(leader.clone(), id.clone()))?;
        if vacancy.holder(now).is_some() || !vacancy.candidates.contains(volunteer) {
            return None;
        }
        vacancy.take(now, volunteer);
        Some(vacancy.candidates.clone())
    }

    /// A process has taken a leader's role: of several the lowest one wins.
    pub(crate) fn note(&mut self, now: Time, id: &Text, successor: &ProcId) {
        for vacancy in self.of(id, successor) {
            if vacancy.holder(now).is_none_or(|holder| successor < holder) {
                vacancy.take(now, successor);
            }
        }
    }

    /// Whether a lower process already has the role.
    pub(crate) fn is_outdone(&self, now: Time, id: &Text, proc: &ProcId) -> bool {
        let mut same =
            self.places.iter().filter(|((_, name), vacancy)| name == id && vacancy.candidates.contains(proc));
        same.any(|(_, vacancy)| vacancy.holder(now).is_some_and(|holder| holder < proc))
    }

    /// A successor has reported the result of its own invitation: the vacancy is closed.
    pub(crate) fn close(&mut self, id: &Text, successor: &ProcId) {
        self.places.retain(|(_, name), vacancy| name != id || vacancy.successor.as_ref() != Some(successor));
        self.count();
    }

    fn of(&mut self, id: &Text, proc: &ProcId) -> impl Iterator<Item = &mut Vacancy> {
        let same =
            self.places.iter_mut().filter(move |((_, name), vacancy)| name == id && vacancy.candidates.contains(proc));
        same.map(|(_, vacancy)| vacancy)
    }

    pub(crate) fn forget_namespace(&mut self, namespace: &Namespace) {
        self.places.retain(|(leader, _), vacancy| {
            leader.namespace != *namespace && vacancy.candidates.iter().all(|proc| proc.namespace != *namespace)
        });
        self.count();
    }

    fn count(&mut self) {
        let counts = self.places.values().map(|vacancy| vacancy.candidates.len());
        self.candidate_count = counts.fold(0, usize::saturating_add);
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}

/// Bound on the candidates of all vacancies: a leader may invite a million processes, and end, many times over.
const CANDIDATES_MAX: usize = 1 << 20;

/// Time that a successor keeps the role without inviting again.
const SUCCESSOR_INVITES_WITHIN: Duration = Duration::from_secs(60);

/// The lowest of several leaders leads.
pub(crate) fn take_if_lower(place: &mut Option<ProcId>, proc: &ProcId) {
    if place.as_ref().is_none_or(|old| proc < old) {
        *place = Some(proc.clone());
    }
}
