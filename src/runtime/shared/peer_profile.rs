//! The kind of the server at the other end, and its limits.

use super::clock::calendar_time;
use crate::bfrops::{Codec, DecodeLimits, Generation};
use crate::proto::{Dialect, Request, Service, Version};
use crate::types::{DataType, Value, descend};

/// How to treat a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct PeerProfile {
    /// Encoding and release of the server.
    pub(in crate::runtime) dialect: Dialect,
    /// Whether it is one of ours, with segments.
    pub(in crate::runtime) is_ours: bool,
    /// Limits of its messages.
    pub(in crate::runtime) limits: DecodeLimits,
    /// Longest message that it accepts, in bytes without the header; it closes the connection after a longer one.
    pub(in crate::runtime) message_bytes_max: usize,
}

impl PeerProfile {
    /// The manners of our own server.
    pub(in crate::runtime) fn ours() -> Self {
        let limits = DecodeLimits::default();
        Self { dialect: Dialect::OWN, is_ours: true, limits, message_bytes_max: DecodeLimits::MESSAGE_BYTES_MAX }
    }

    /// The manners of an OpenPMIx server. It writes job information of any size into one message.
    pub(in crate::runtime) fn of_reference(generation: Generation, version: Option<Version>) -> Self {
        let peer = version.filter(|version| version.major > 0).unwrap_or_else(|| Version::first_with(generation));
        Self::of_launcher(Dialect { codec: Codec { generation, described: false }, peer })
    }

    /// The manners of a launcher of OpenPMIx.
    pub(in crate::runtime) const fn of_launcher(dialect: Dialect) -> Self {
        let message_bytes_max = dialect.peer.message_bytes_max();
        Self { dialect, is_ours: false, limits: DecodeLimits::EXCHANGE, message_bytes_max }
    }

    /// Whether the server answers which processes run where. Older servers have sent all of it at the start.
    pub(in crate::runtime) fn resolves(&self) -> bool {
        self.is_ours || self.dialect.peer.major >= 5
    }

    /// Whether it removes values that a process has put.
    pub(in crate::runtime) fn removes_values(&self) -> bool {
        self.is_ours || self.dialect.peer >= Version::FIRST_WITH_REMOVALS
    }

    /// Whether a value can be sent to it. A wrong value would cost the server the whole message.
    pub(in crate::runtime) fn takes(&self, value: &Value) -> bool {
        self.is_ours || (self.takes_type(value.data_type()) && self.takes_parts(value, NESTING_MAX))
    }

    fn takes_type(&self, data_type: DataType) -> bool {
        // Release 3 has a code for it, but its store can't copy such a value, and then answers no commit at all.
        let is_lost = data_type == DataType::AllocDirective && self.dialect.peer.major < 4;
        !is_lost && self.dialect.codec.registers(data_type)
    }

    fn takes_parts(&self, value: &Value, depth: u32) -> bool {
        match value {
            _ if depth == 0 => false,
            Value::DataArray(array) => {
                self.takes_type(array.element_type)
                    && descend(|| array.elements.iter().all(|part| self.takes_parts(part, depth - 1)))
            }
            Value::Info(info) => self.takes_type(info.value.data_type()) && self.takes_parts(&info.value, depth - 1),
            _ => true,
        }
    }

    /// Adds facts to a request for foreign servers. Our own server takes them from the kernel and its own clock.
    pub(in crate::runtime) fn complete(&self, request: &mut Request) {
        if self.is_ours {
            return;
        }
        let uid = nix::unistd::geteuid().as_raw();
        match request {
            Request::Service(Service::Publish(publish)) => publish.uid = uid,
            Request::Service(Service::Lookup(lookup)) => lookup.uid = uid,
            Request::Service(Service::Unpublish(unpublish)) => unpublish.uid = uid,
            Request::Service(Service::Log(log)) => log.timestamp = log.timestamp.or_else(calendar_time),
            _ => {}
        }
    }
}

/// How deep values are checked; deeper ones can't be put.
const NESTING_MAX: u32 = DecodeLimits::NESTING_MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Info, Key};

    #[test]
    fn a_server_that_does_not_tell_its_release_has_that_of_its_encoding() {
        let told = PeerProfile::of_reference(Generation::V41, Some(Version::new(5, 0, 11)));
        assert_eq!(told.dialect.peer, Version::new(5, 0, 11));
        for unknown in [None, Some(Version::default())] {
            assert_eq!(PeerProfile::of_reference(Generation::V3, unknown).dialect.peer.major, 3);
            assert_eq!(PeerProfile::of_reference(Generation::V61, unknown).dialect.peer.major, 6);
        }
    }

    #[test]
    fn a_value_of_a_type_that_a_release_does_not_know_is_not_for_it() {
        let info = |value| Value::info_array(vec![Info::new(Key::from_static("k"), value)]);
        let peer_profile = |generation| PeerProfile::of_reference(generation, None);
        let device = Value::DeviceType(7);
        assert!(peer_profile(Generation::V41).takes(&info(device.clone())));
        assert!(!peer_profile(Generation::V3).takes(&device) && !peer_profile(Generation::V3).takes(&info(device)));
        assert!(!peer_profile(Generation::V3).takes(&Value::AllocDirective(1)));
        assert!(peer_profile(Generation::V3).takes(&info(Value::from("text"))));
    }
}
