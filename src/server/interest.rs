use super::io::PeerId;
use crate::events::{DEFAULT_HANDLER, Event};
use crate::types::Status;

/// Who may want events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Listener {
    /// The process that the server is in.
    Host,
    Peer(PeerId),
}

/// Codes wanted, or no longer wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Codes {
    /// Whatever is not kept from default handlers.
    pub(super) default: bool,
    pub(super) listed: Vec<Status>,
}

/// What one listener wants, and up to where it has got it: for each code a standing, and one for whatever default
/// handlers take.
#[derive(Debug, Default)]
pub(super) struct Interest {
    default: Standing,
    /// In the order of the codes. They are few enough to be moved, and a list of thousands is merged in one go.
    codes: Vec<(Status, Standing)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Never,
    /// It has got all there was, and gets all there will be.
    Wanted,
    /// It has got everything up to this number of the cache.
    Until(u64),
}

impl Codes {
    /// The codes of a registration: none means default handlers.
    pub(super) fn registered(codes: Vec<Status>) -> Self {
        let default = codes.is_empty();
        Self { default, ..Self::listed(codes) }
    }

    /// Codes as listed, the marker of default handlers among them or not.
    pub(super) fn listed(mut codes: Vec<Status>) -> Self {
        let default = codes.contains(&DEFAULT_HANDLER);
        codes.retain(|code| *code != DEFAULT_HANDLER);
        codes.sort_unstable();
        codes.dedup();
        Self { default, listed: codes }
    }

    pub(super) fn matches(&self, event: &Event) -> bool {
        self.listed.binary_search(&event.status).is_ok() || (self.default && !event.is_non_default())
    }

    pub(super) fn remove(&mut self, other: &Self) {
        self.default &= !other.default;
        self.listed.retain(|code| other.listed.binary_search(code).is_err());
    }
}

impl Interest {
    pub(super) fn wants(&self, event: &Event) -> bool {
        self.wants_code(event.status) || (self.default == Standing::Wanted && !event.is_non_default())
    }

    pub(super) fn wants_code(&self, code: Status) -> bool {
        self.standing(code) == Standing::Wanted
    }

    fn standing(&self, code: Status) -> Standing {
        let place = self.place(code).ok().and_then(|place| self.codes.get(place));
        place.map_or(Standing::Never, |(_, standing)| *standing)
    }

    fn place(&self, code: Status) -> Result<usize, usize> {
        self.codes.binary_search_by_key(&code, |(code, _)| *code)
    }

    pub(super) fn wanted_codes(&self) -> impl Iterator<Item = Status> {
        self.codes.iter().filter(|(_, standing)| *standing == Standing::Wanted).map(|(code, _)| *code)
    }

    /// Whether an event of the cache was delivered, live or afterwards.
    pub(super) fn has_got(&self, number: u64, event: &Event) -> bool {
        self.standing(event.status).includes(number) || (self.default.includes(number) && !event.is_non_default())
    }

    pub(super) fn add(&mut self, codes: &Codes) {
        if codes.default {
            self.default = Standing::Wanted;
        }
        self.codes.extend(codes.listed.iter().map(|code| (*code, Standing::Wanted)));
        // Two lists in order, which this merges; of equal codes the later one stands behind.
        self.codes.sort_by_key(|(code, _)| *code);
        self.codes.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                earlier.1 = later.1;
            }
            is_same
        });
    }

    /// Wants them no more. `last` is the number of the newest event.
    pub(super) fn remove(&mut self, codes: &Codes, last: u64) {
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

    /// How many codes it would keep after adding these, without those that nothing in the cache depends on any more.
    pub(super) fn size_with(&mut self, codes: &Codes, oldest: u64) -> usize {
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
