use std::fmt;

use crate::bfrops::{Codec, Generation};

/// Agreement of both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Encoding, chosen by the client.
    pub codec: Codec,
    /// Release of the peer: some messages changed their layout.
    pub peer: Version,
}

impl Dialect {
    /// The dialect between our own server and client.
    pub const OWN: Self = Self { codec: Codec::V41, peer: Version::OWN };
}

/// A release of the protocol: major, minor and release number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Release number.
    pub release: u32,
}

impl Version {
    /// The release whose layouts this library uses and announces in the handshake. Peers below 4.2 and from 6.0 on get
    /// answers in their own layouts. `PMIX_VERSION` in the environment of a server's processes is a later one.
    ///
    /// It is 5.0.0, because the group messages between our own processes have the layout of 5.0; each release changed
    /// it. Foreign clients only check whether it is below 3.1.100, foreign servers whether it is below 4.2.0, and then
    /// leave things out. Programs are compiled against another number. The headers, `PMIX_VERSION_NUMERIC` and
    /// `PMIx_Get_version` state 4.2.9, which most programs accept at their build and at their start.
    pub const OWN: Self = Self::new(5, 0, 0);

    /// The first release whose clients remove values (`PMIX_DEL_LOCAL` and its relatives), and whose servers report it.
    pub const FIRST_WITH_REMOVALS: Self = Self::new(7, 0, 0);

    /// A release.
    #[must_use]
    pub const fn new(major: u32, minor: u32, release: u32) -> Self {
        Self { major, minor, release }
    }

    /// The largest payload that a peer of this release accepts; a larger one makes it close the connection. The limit
    /// is the peer's `ptl_base_max_msg_size`, for which a user may have set another value.
    #[must_use]
    pub const fn message_bytes_max(self) -> usize {
        match self.major {
            0..4 => 16 << 20,
            // They have no limit of their own: the largest size in a header, also read as a signed number.
            4..6 => 0x7fff_ffff,
            _ => 32 << 20,
        }
    }

    /// The first release that spoke an encoding: the certain minimum for a peer without a release.
    #[must_use]
    pub const fn first_with(generation: Generation) -> Self {
        match generation {
            Generation::V3 => Self::new(3, 0, 0),
            Generation::V4 => Self::new(4, 0, 0),
            Generation::V41 => Self::new(4, 1, 0),
            Generation::V51 => Self::new(6, 0, 0),
            Generation::V61 => Self::new(6, 1, 0),
        }
    }

    /// Reads the numbers at the start of a version string as the reference does: an optional `v`, then three numbers
    /// with one character between them. Anything else counts as 0.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let text = text.strip_prefix(b"v").unwrap_or(text);
        let (major, rest) = leading_number(text);
        let (minor, rest) = leading_number(rest.get(1..).unwrap_or_default());
        let (release, _) = leading_number(rest.get(1..).unwrap_or_default());
        Self { major, minor, release }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.release)
    }
}

fn leading_number(text: &[u8]) -> (u32, &[u8]) {
    let digit_count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(digit_count).unwrap_or((text, &[]));
    let append = |number: u32, digit: &u8| number.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
    (digits.iter().fold(0, append), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_strings_of_all_releases_are_read() {
        assert_eq!(Version::parse(b"4.2.2rc2"), Version::new(4, 2, 2));
        assert_eq!(Version::parse(b"v3.2.5a1"), Version::new(3, 2, 5));
        assert_eq!(Version::parse(b"6.1.1"), Version::new(6, 1, 1));
        assert_eq!(Version::parse(b"5"), Version::new(5, 0, 0));
        assert_eq!(Version::parse(b""), Version::default());
        assert_eq!(Version::parse(b"99999999999.1"), Version::new(u32::MAX, 1, 0));
    }

    #[test]
    fn messages_have_the_length_that_each_release_receives() {
        let limit = |major| Version::new(major, 2, 0).message_bytes_max();
        assert_eq!((limit(3), limit(6)), (16 << 20, 32 << 20));
        assert!(limit(4) > 32 << 20 && limit(5) > 32 << 20);
    }

    #[test]
    fn releases_are_ordered() {
        assert!(Version::new(4, 2, 9) < Version::OWN && Version::OWN < Version::new(5, 0, 11));
    }
}
