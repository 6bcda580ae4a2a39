//! Sessions: the job's own and the others that the host describes.

use std::collections::BTreeMap;

use crate::gds::job_record::JobRecord;
use crate::keys;
use crate::types::{Key, Value};

use super::error::{RegisterError, within};
use super::table::{PartFacts, ValueTable};

/// The sessions of a description.
///
/// The job's session is the first of these that exists:
/// - the session whose number stands outside session arrays, for example in the job's array;
/// - the session whose array holds the job's array;
/// - the session of the earlier registration;
/// - the first session described;
/// - the same for the resources, which the server adds to every description.
#[derive(Debug, Default)]
pub(super) struct Sessions<'a> {
    by_id: BTreeMap<u32, PartFacts<'a>>,
    clues: Clues,
    /// Clues of the resources.
    added: Option<Clues>,
}

/// Signs of the job's session, and session values without a number.
#[derive(Debug, Default)]
struct Clues {
    /// Session values outside session arrays: of the own session, which may have no number.
    loose: ValueTable,
    first: Option<u32>,
    around_job: Option<u32>,
}

impl Clues {
    /// The session number outside session arrays.
    fn given(&self) -> Option<u32> {
        self.loose.get(keys::SESSION_ID.name()).and_then(Value::as_u32)
    }
}

/// Sessions, with the job's own one known.
#[derive(Debug)]
pub(super) struct Settled<'a> {
    pub(super) own_id: Option<u32>,
    pub(super) own: PartFacts<'a>,
    pub(super) others: BTreeMap<u32, PartFacts<'a>>,
}

impl<'a> Sessions<'a> {
    /// The values of the own session outside session arrays.
    pub(super) fn loose(&mut self) -> &mut ValueTable {
        &mut self.clues.loose
    }

    /// Ends the resources; the description itself begins.
    pub(super) fn begin_own(&mut self) {
        if self.added.is_none() {
            self.added = Some(std::mem::take(&mut self.clues));
        }
    }

    /// The session of an array.
    pub(super) fn part(&mut self, id: u32) -> &mut PartFacts<'a> {
        self.clues.first.get_or_insert(id);
        self.by_id.entry(id).or_default()
    }

    /// The session of an array, counted.
    pub(super) fn open(&mut self, id: u32, sessions_max: u32) -> Result<(), RegisterError> {
        self.part(id);
        within("sessions", u64::try_from(self.by_id.len()).unwrap_or(u64::MAX), sessions_max.into())
    }

    /// Notes that the array of session `id` holds the job's array.
    pub(super) fn holds_job(&mut self, id: u32) {
        self.clues.around_job.get_or_insert(id);
    }

    /// Separates the own session from the others, and adds values of the earlier registration.
    pub(super) fn settle(mut self, previous: Option<&JobRecord>) -> Settled<'a> {
        let (clues, added) = (self.clues, self.added.unwrap_or_default());
        let before = previous.and_then(|previous| previous.session_id);
        let by_itself = clues.given().or(clues.around_job).or(before).or(clues.first);
        let given_for_added = added.given();
        let own_id = by_itself.or(given_for_added).or(added.around_job).or(added.first);
        let mut own = own_id.and_then(|id| self.by_id.remove(&id)).unwrap_or_default();
        clues.loose.into_entries().into_iter().for_each(|(key, value)| own.table.set(key, value));
        let mut settled = Settled { own_id, own, others: self.by_id };
        let of_added = &mut settled.part(given_for_added.or(own_id)).table;
        added.loose.into_entries().into_iter().for_each(|(key, value)| of_added.fill(key, value));
        if let Some(previous) = previous {
            settled.fill(previous.session_id, &previous.session);
            for session in &previous.other_sessions {
                settled.fill(Some(session.id), &session.entries);
            }
        }
        settled
    }
}

impl<'a> Settled<'a> {
    /// A session; `None` is the own one.
    pub(super) fn part(&mut self, id: Option<u32>) -> &mut PartFacts<'a> {
        match id {
            Some(id) if self.own_id != Some(id) => self.others.entry(id).or_default(),
            _ => &mut self.own,
        }
    }

    /// All of them.
    pub(super) fn parts(&mut self) -> impl Iterator<Item = &mut PartFacts<'a>> {
        std::iter::once(&mut self.own).chain(self.others.values_mut())
    }

    fn fill(&mut self, id: Option<u32>, entries: &[(Key, Value)]) {
        let table = &mut self.part(id).table;
        entries.iter().for_each(|(key, value)| table.fill(key.clone(), value.clone()));
    }
}
