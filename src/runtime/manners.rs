//! What the server at the other end is, and so what it expects and takes.

use super::clock::calendar_time;
use crate::bfrops::{Codec, DecodeLimits, Generation};
use crate::proto::{Dialect, Request, Version};

/// How to treat a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manners {
    /// Encoding, and the release whose layouts it has.
    pub(super) dialect: Dialect,
    /// Whether it is one of ours, with segments.
    pub(super) is_ours: bool,
    /// What may come from it.
    pub(super) limits: DecodeLimits,
    /// Longest message that it receives, in bytes without the header; it closes the connection of who sends more.
    pub(super) message_bytes_max: usize,
}

impl Manners {
    /// Those of our own server.
    pub(super) fn ours() -> Self {
        let limits = DecodeLimits::default();
        Self { dialect: Dialect::OWN, is_ours: true, limits, message_bytes_max: DecodeLimits::MESSAGE_BYTES_MAX }
    }

    /// Those of a server of the reference. It writes job information of any size into one message.
    pub(super) fn of_reference(generation: Generation, version: Option<Version>) -> Self {
        let peer = version.filter(|version| version.major > 0).unwrap_or_else(|| oldest_with(generation));
        let message_bytes_max = match peer.major {
            0..=3 => 16 << 20,
            4..=5 => MESSAGE_BYTES_ANY,
            _ => 32 << 20,
        };
        let codec = Codec { generation, described: false };
        Self { dialect: Dialect { codec, peer }, is_ours: false, limits: DecodeLimits::EXCHANGE, message_bytes_max }
    }

    /// Whether it answers who runs where. Those that do not have told the process all of it.
    pub(super) fn resolves(&self) -> bool {
        self.is_ours || self.dialect.peer.major >= 5
    }

    /// Says in a request what our own server knows without: it goes by the kernel's word and its own clock.
    pub(super) fn complete(&self, request: &mut Request) {
        if self.is_ours {
            return;
        }
        let uid = nix::unistd::geteuid().as_raw();
        match request {
            Request::Publish(publish) => publish.uid = uid,
            Request::Lookup(lookup) | Request::Unpublish(lookup) => lookup.uid = uid,
            Request::Log(log) => log.timestamp = log.timestamp.or_else(calendar_time),
            _ => {}
        }
    }
}

/// Releases 4 and 5 have no limit of their own: what a header can say.
const MESSAGE_BYTES_ANY: usize = 0x7fff_ffff;

/// The first release with this encoding, for servers that do not tell theirs.
const fn oldest_with(generation: Generation) -> Version {
    match generation {
        Generation::V3 => Version::new(3, 2, 0),
        Generation::V4 => Version::new(4, 0, 0),
        Generation::V41 => Version::new(4, 2, 0),
        Generation::V51 => Version::new(6, 0, 0),
        Generation::V61 => Version::new(6, 1, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_tell_its_release_has_that_of_its_encoding() {
        let told = Manners::of_reference(Generation::V41, Some(Version::new(5, 0, 11)));
        assert_eq!(told.dialect.peer, Version::new(5, 0, 11));
        for untold in [None, Some(Version::default())] {
            assert_eq!(Manners::of_reference(Generation::V3, untold).dialect.peer.major, 3);
            assert_eq!(Manners::of_reference(Generation::V61, untold).dialect.peer.major, 6);
        }
    }

    #[test]
    fn messages_have_the_length_that_each_release_receives() {
        let limit = |major| Manners::of_reference(Generation::V3, Some(Version::new(major, 2, 0))).message_bytes_max;
        assert_eq!((limit(3), limit(6)), (16 << 20, 32 << 20));
        assert!(limit(4) > 32 << 20 && limit(5) > 32 << 20);
    }
}
