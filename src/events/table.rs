use std::collections::BTreeMap;

use super::event::Event;
use super::registration::{Category, HandlerPlacement, Registration, RegistrationError, Sources};
use crate::types::codes::range;
use crate::types::{ProcId, Status};

/// The handlers of a process, in call order.
#[derive(Debug)]
pub(super) struct HandlerTable<H> {
    next_id: usize,
    entries: BTreeMap<usize, Entry<H>>,
    observers: Vec<usize>,
    first: Option<usize>,
    categories: [List; 3],
    last: Option<usize>,
}

/// One registration.
#[derive(Debug)]
pub(super) struct Entry<H> {
    pub(super) registration: Registration,
    pub(super) handler: H,
    /// Its registration is complete. Before that it has its place, but gets no calls.
    pub(super) is_active: bool,
}

/// The handlers of one category.
#[derive(Debug, Default)]
struct List {
    first: Option<usize>,
    middle: Vec<usize>,
    last: Option<usize>,
}

impl<H> HandlerTable<H> {
    pub(super) fn new(first_id: usize) -> Self {
        Self {
            next_id: first_id,
            entries: BTreeMap::new(),
            observers: Vec::new(),
            first: None,
            categories: Default::default(),
            last: None,
        }
    }

    /// Puts a handler into its place. Its number is never used again.
    pub(super) fn insert(&mut self, registration: Registration, handler: H) -> Result<usize, RegistrationError> {
        if self.entries.len() >= HANDLERS_MAX {
            return Err(RegistrationError::TooMany { limit: HANDLERS_MAX });
        }
        let id = self.next_id;
        self.place(id, &registration)?;
        self.next_id = self.next_id.saturating_add(1);
        self.entries.insert(id, Entry { registration, handler, is_active: false });
        Ok(id)
    }

    pub(super) fn remove(&mut self, id: usize) -> Option<Entry<H>> {
        let entry = self.entries.remove(&id)?;
        let lists = &mut self.categories;
        let slots = lists.iter_mut().flat_map(|list| [&mut list.first, &mut list.last]);
        for slot in slots.chain([&mut self.first, &mut self.last]) {
            if *slot == Some(id) {
                *slot = None;
            }
        }
        lists.iter_mut().for_each(|list| list.middle.retain(|other| *other != id));
        self.observers.retain(|other| *other != id);
        Some(entry)
    }

    pub(super) fn get(&self, id: usize) -> Option<&Entry<H>> {
        self.entries.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: usize) -> Option<&mut Entry<H>> {
        self.entries.get_mut(&id)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry<H>> {
        self.entries.values()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether a handler is registered for this code; `None`: a default handler.
    pub(super) fn wants(&self, code: Option<Status>) -> bool {
        self.entries.values().any(|entry| match code {
            Some(code) => entry.registration.codes.binary_search(&code).is_ok(),
            None => entry.registration.codes.is_empty(),
        })
    }

    /// The handlers for an event, in call order.
    pub(super) fn chain(&self, event: &Event, own: &ProcId) -> Vec<usize> {
        let is_called = |id: &usize| self.entries.get(id).is_some_and(|entry| entry.is_called(event, own));
        self.order().filter(is_called).collect()
    }

    fn order(&self) -> impl Iterator<Item = usize> {
        let middle = self.categories.iter().flat_map(List::order);
        self.observers.iter().copied().chain(self.first).chain(middle).chain(self.last)
    }

    fn place(&mut self, id: usize, registration: &Registration) -> Result<(), RegistrationError> {
        let category = registration.category();
        let position = match &registration.placement {
            HandlerPlacement::Observer => {
                self.observers.push(id);
                return Ok(());
            }
            HandlerPlacement::First => return take(&mut self.first, id, "the first of all"),
            HandlerPlacement::Last => return take(&mut self.last, id, "the last of all"),
            HandlerPlacement::FirstInCategory => {
                return take(&mut self.list_mut(category).first, id, "the first of its category");
            }
            HandlerPlacement::LastInCategory => {
                return take(&mut self.list_mut(category).last, id, "the last of its category");
            }
            HandlerPlacement::Before(name) => self.next_to(name, category, Side::Before)?,
            HandlerPlacement::After(name) => self.next_to(name, category, Side::After)?,
            HandlerPlacement::Front => 0,
            HandlerPlacement::Back => usize::MAX,
        };
        let middle = &mut self.list_mut(category).middle;
        middle.insert(position.min(middle.len()), id);
        Ok(())
    }

    /// Position in the middle of its category for a handler before or after another one. It is right beside a handler
    /// of the same category, or anywhere if the order of categories alone satisfies the request.
    fn next_to(&self, name: &str, category: Category, side: Side) -> Result<usize, RegistrationError> {
        let is_named = |id: &usize| self.entries.get(id).is_some_and(|entry| entry.is_named(name));
        let Some(other) = self.order().find(is_named) else {
            return Err(RegistrationError::UnknownName { name: name.to_owned() });
        };
        let wish = match self.standing(other, category) {
            Standing::Earlier => (side == Side::After).then_some(0),
            Standing::Later => (side == Side::Before).then_some(usize::MAX),
            Standing::Beside(position) => Some(position + usize::from(side == Side::After)),
        };
        wish.ok_or_else(|| RegistrationError::Order { wanted: side.word(), name: name.to_owned() })
    }

    /// Position of a handler, seen from the middle of a category.
    fn standing(&self, id: usize, category: Category) -> Standing {
        if self.first == Some(id) {
            return Standing::Earlier;
        }
        for (of, list) in CATEGORIES.into_iter().zip(&self.categories) {
            if list.order().any(|other| other == id) {
                return match list.middle.iter().position(|other| *other == id) {
                    _ if of < category => Standing::Earlier,
                    _ if of > category => Standing::Later,
                    Some(position) => Standing::Beside(position),
                    None if list.first == Some(id) => Standing::Earlier,
                    None => Standing::Later,
                };
            }
        }
        Standing::Later
    }

    fn list_mut(&mut self, category: Category) -> &mut List {
        let [single, multi, default] = &mut self.categories;
        match category {
            Category::Single => single,
            Category::Multi => multi,
            Category::Default => default,
        }
    }
}

impl<H> Entry<H> {
    fn is_called(&self, event: &Event, own: &ProcId) -> bool {
        self.is_active && self.takes(event, own)
    }

    /// Whether the handler takes an event: by its code, its source, and its affected processes.
    pub(super) fn takes(&self, event: &Event, own: &ProcId) -> bool {
        let Registration { codes, affected, sources, .. } = &self.registration;
        let by_code =
            if codes.is_empty() { !event.is_non_default() } else { codes.binary_search(&event.status).is_ok() };
        // An event without a range was kept for later registrations, by this process's server.
        let is_late = event.range == range::RANGE_UNDEF && self.is_observer();
        by_code && !is_late && sources.include(event.source.as_ref(), own) && concerns(affected, event)
    }

    /// Whether it only observes.
    pub(super) fn is_observer(&self) -> bool {
        self.registration.placement == HandlerPlacement::Observer
    }

    fn is_named(&self, name: &str) -> bool {
        self.registration.name.as_deref() == Some(name)
    }
}

impl Sources {
    /// An unknown source matches every filter.
    fn include(&self, source: Option<&ProcId>, own: &ProcId) -> bool {
        let Some(source) = source else { return true };
        match self {
            Self::Anyone => true,
            Self::Namespace => source.namespace == own.namespace,
            Self::Own => source == own,
            Self::Listed(listed) => listed.iter().any(|entry| entry.covers(source)),
        }
    }
}

impl List {
    fn order(&self) -> impl Iterator<Item = usize> {
        self.first.into_iter().chain(self.middle.iter().copied()).chain(self.last)
    }
}

/// Whether an event is about one of the wanted processes, or about none.
fn concerns(wanted: &[ProcId], event: &Event) -> bool {
    let affected = event.affected();
    wanted.is_empty()
        || affected.is_empty()
        || affected.into_iter().any(|proc| wanted.iter().any(|entry| entry.covers(proc)))
}

fn take(slot: &mut Option<usize>, id: usize, place: &'static str) -> Result<(), RegistrationError> {
    match slot {
        Some(_) => Err(RegistrationError::Taken { place }),
        None => {
            *slot = Some(id);
            Ok(())
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

impl Side {
    const fn word(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

enum Standing {
    Earlier,
    Beside(usize),
    Later,
}

const CATEGORIES: [Category; 3] = [Category::Single, Category::Multi, Category::Default];
/// Bound on the simultaneous registrations of one process.
pub(super) const HANDLERS_MAX: usize = 1 << 16;
