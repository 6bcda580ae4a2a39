//! The codes that listeners want.

use crate::events::{DEFAULT_HANDLER, Event};
use crate::server::interface::PeerId;
use crate::types::Status;

/// A receiver of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listener {
    /// The server's own process.
    Host,
    Peer(PeerId),
}

/// Codes that a listener wants, or no longer wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Codes {
    /// Every event that default handlers may get.
    pub(crate) default: bool,
    pub(crate) listed: Vec<Status>,
}

/// The registrations of one listener, and the last event delivered for each: one standing for each code, and one for
/// default handlers.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    default: Standing,
    /// Sorted by code. They are few enough to move, and a list of thousands is merged in one pass.
    codes: Vec<(Status, Standing)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Never,
    /// It has got all past events, and gets all future ones.
    Wanted,
    /// It has got all events up to this number of the cache.
    Until(u64),
}

impl Codes {
    /// The codes of a registration; an empty list means default handlers.
    pub(crate) fn registered(codes: Vec<Status>) -> Self {
        let default = codes.is_empty();
        Self { default, ..Self::listed(codes) }
    }

    /// Codes as listed, perhaps with the marker of default handlers.
    pub(crate) fn listed(mut codes: Vec<Status>) -> Self {
        let default = codes.contains(&DEFAULT_HANDLER);
        codes.retain(|code| *code != DEFAULT_HANDLER);
        codes.sort_unstable();
        codes.dedup();
        Self { default, listed: codes }
    }

    pub(crate) fn matches(&self, event: &Event) -> bool {
        let is_listed = self.listed.binary_search(&event.status).is_ok();
        if event.is_for_default_alone() {
            return self.default && !is_listed;
        }
        is_listed || (self.default && !event.is_non_default())
    }

    pub(crate) fn remove(&mut self, other: &Self) {
        self.default &= !other.default;
        self.listed.retain(|code| other.listed.binary_search(code).is_err());
    }
}

impl Interest {
    pub(crate) fn wants(&self, event: &Event) -> bool {
        let has_code = self.wants_code(event.status);
        if event.is_for_default_alone() {
            return self.default == Standing::Wanted && !has_code;
        }
        has_code || (self.default == Standing::Wanted && !event.is_non_default())
    }

    pub(crate) fn wants_code(&self, code: Status) -> bool {
        self.standing(code) == Standing::Wanted
    }

    fn standing(&self, code: Status) -> Standing {
        let place = self.place(code).ok().and_then(|place| self.codes.get(place));
        place.map_or(Standing::Never, |(_, standing)| *standing)
    }

    fn place(&self, code: Status) -> Result<usize, usize> {
        self.codes.binary_search_by_key(&code, |(code, _)| *code)
    }

    pub(crate) fn wanted_codes(&self) -> impl Iterator<Item = Status> {
        self.codes.iter().filter(|(_, standing)| *standing == Standing::Wanted).map(|(code, _)| *code)
    }

    /// Whether an event of the cache was delivered, live or afterwards.
    pub(crate) fn has_got(&self, number: u64, event: &Event) -> bool {
        self.standing(event.status).includes(number) || (self.default.includes(number) && !event.is_non_default())
    }

    pub(crate) fn add(&mut self, codes: &Codes) {
        if codes.default {
            self.default = Standing::Wanted;
        }
        let mut known = self.codes.iter_mut().peekable();
        let mut new = Vec::new();
        for code in &codes.listed {
            while known.next_if(|(known, _)| known < code).is_some() {}
            match known.next_if(|(known, _)| known == code) {
                Some((_, standing)) => *standing = Standing::Wanted,
                None => new.push((*code, Standing::Wanted)),
            }
        }
        if !new.is_empty() {
            self.codes.append(&mut new);
            // This merges two sorted lists.
            self.codes.sort_by_key(|(code, _)| *code);
        }
    }

    /// Ends the registration of these codes. `last` is the number of the newest event.
    pub(crate) fn remove(&mut self, codes: &Codes, last: u64) {
        for code in &codes.listed {
            if let Ok(place) = self.place(*code)
                && let Some((_, standing)) = self.codes.get_mut(place)
            {
                standing.end(last);
            }
        }
        if codes.default {
            self.default.end(last);
        }
    }

    /// Number of codes after adding these. Drops ended codes that no cached event needs.
    pub(crate) fn size_with(&mut self, codes: &Codes, oldest: u64) -> usize {
        self.codes.retain(|(_, standing)| !matches!(standing, Standing::Until(last) if *last < oldest));
        let mut known = self.codes.iter().map(|(code, _)| code).peekable();
        let is_new = |code: &&Status| {
            while known.next_if(|known| known < code).is_some() {}
            known.peek() != Some(code)
        };
        let added = codes.listed.iter().filter(is_new).count();
        self.codes.len().saturating_add(added)
    }
}

impl Standing {
    fn end(&mut self, last: u64) {
        if *self == Self::Wanted {
            *self = Self::Until(last);
        }
    }

    const fn includes(self, number: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Wanted => true,
            Self::Until(last) => number <= last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::FOR_DEFAULT_ALONE;
    use crate::types::{Info, Key};

    /// Regression: a process that spawned a job with `PMIX_NOTIFY_COMPLETION` had the end of the job twice in its
    /// handler for it.
    #[test]
    fn an_event_for_default_handlers_alone_skips_processes_with_a_handler_for_its_code() {
        let status = Status::EVENT_JOB_END;
        let info = vec![Info::new(Key::from_static(FOR_DEFAULT_ALONE), true)];
        let event = Event { status, source: None, range: 0, info };
        let wants = |registered: &[Vec<Status>]| {
            let mut interest = Interest::default();
            let all: Vec<Codes> = registered.iter().cloned().map(Codes::registered).collect();
            all.iter().for_each(|codes| interest.add(codes));
            (interest.wants(&event), all.iter().any(|codes| codes.matches(&event)))
        };
        assert_eq!(wants(&[Vec::new()]), (true, true));
        assert_eq!(wants(&[vec![status]]), (false, false));
        assert!(!wants(&[Vec::new(), vec![status]]).0);
        assert_eq!(wants(&[vec![Status::LAUNCH_COMPLETE]]), (false, false));
    }
}
