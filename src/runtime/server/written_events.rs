//! Events as messages, written once for all peers with the same dialect. When it was written for each peer, one event
//! of 200 KB to 128 listeners stopped the server, and all other processes, for 20 ms.

use std::sync::{Arc, Weak};

use crate::events::Event;
use crate::proto::Dialect;
use crate::runtime::shared::message_codec::MessageCodec;
use crate::server::EventDelivery;

/// The form of a written message: the dialect, and the largest payload that the peer takes.
type Reading = (Dialect, usize);

/// The events of a turn, and earlier large ones that still wait in the queue of a peer. Listeners that have missed the
/// same events get them in turns.
#[derive(Debug, Default)]
pub(super) struct WrittenEvents(Vec<WrittenEvent>);

/// One event in one form.
#[derive(Debug)]
struct WrittenEvent {
    /// Does not keep the event alive, but reserves its address, so no other event can have the same one.
    event: Weak<Event>,
    was_missed: bool,
    reading: Reading,
    /// `None`: it can't be written in this form.
    bytes: Option<Arc<Vec<u8>>>,
}

impl WrittenEvents {
    /// An event as a message; `None` if it can't be written in the peer's form. The first peer's failure is logged.
    pub(super) fn write(&mut self, delivery: &EventDelivery, codec: &MessageCodec) -> Option<Arc<Vec<u8>>> {
        let (reading, address) = (codec.reading(), Arc::as_ptr(&delivery.event));
        let is_same = |written: &&WrittenEvent| {
            written.event.as_ptr() == address && written.was_missed == delivery.was_missed && written.reading == reading
        };
        if let Some(written) = self.0.iter().rev().find(is_same) {
            return written.bytes.clone();
        }
        let bytes = match codec.write_event(&delivery.notice()) {
            Ok(bytes) => Some(Arc::new(bytes)),
            Err(error) => {
                tracing::warn!(status = %delivery.event.status, %error, "some peers miss an event that can't be written for them");
                None
            }
        };
        if self.0.len() >= EVENTS_MAX {
            self.0.remove(0);
        }
        let event = Arc::downgrade(&delivery.event);
        self.0.push(WrittenEvent { event, was_missed: delivery.was_missed, reading, bytes: bytes.clone() });
        bytes
    }

    /// Forgets small messages, large ones for which no peer waits any more, and failures of events that are no more.
    /// Returns the large ones, which take long to free.
    pub(super) fn take_sent(&mut self) -> Vec<Arc<Vec<u8>>> {
        let sent = self.0.extract_if(.., |written| written.is_over()).filter_map(|written| written.bytes);
        sent.filter(is_large).collect()
    }
}

impl WrittenEvent {
    fn is_over(&self) -> bool {
        match &self.bytes {
            Some(bytes) => !is_large(bytes) || Arc::strong_count(bytes) == 1,
            None => self.event.strong_count() == 0,
        }
    }
}

fn is_large(bytes: &Arc<Vec<u8>>) -> bool {
    bytes.len() >= LARGE_BYTES
}

/// Bound on the written events. It bounds a search, too.
const EVENTS_MAX: usize = 64;
/// A smaller message is written as fast as it is found.
const LARGE_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfrops::{Codec, Generation};
    use crate::proto::Version;
    use crate::types::{Info, Key, Status, Value};

    fn delivery(status: Status, payload_bytes: usize) -> EventDelivery {
        let info = vec![Info::new(Key::from_static("payload"), Value::ByteObject(vec![7; payload_bytes]))];
        EventDelivery { event: Arc::new(Event { status, source: None, range: 2, info }), was_missed: false }
    }

    fn write(written: &mut WrittenEvents, delivery: &EventDelivery, generation: Generation) -> Arc<Vec<u8>> {
        let dialect = Dialect { codec: Codec { generation, described: false }, peer: Version::OWN };
        written.write(delivery, &MessageCodec::to_client(dialect, 1 << 20, false)).unwrap()
    }

    #[test]
    fn an_event_is_written_once_for_all_who_read_alike() {
        let (one, other) = (delivery(Status::ERR_PROC_ABORTED, 0), delivery(Status::ERR_TIMEOUT, 0));
        let missed = EventDelivery { was_missed: true, ..one.clone() };
        let mut written = WrittenEvents::default();
        let mut write = |delivery, generation| write(&mut written, delivery, generation);
        let first = write(&one, Generation::V41);
        assert!(Arc::ptr_eq(&first, &write(&one, Generation::V41)));
        let fixed = write(&one, Generation::V3);
        assert_ne!(first, fixed);
        assert!(Arc::ptr_eq(&fixed, &write(&one, Generation::V3)));
        assert_ne!(write(&other, Generation::V41), first, "another event");
        assert_ne!(write(&missed, Generation::V41), first, "without a range");
        assert!(Arc::ptr_eq(&first, &write(&one, Generation::V41)));
        drop((first, fixed));
        assert!(written.take_sent().is_empty());
        assert!(written.0.is_empty());
    }

    /// An event that some peers can't take was encoded again for each of them.
    #[test]
    fn a_failure_is_known_as_long_as_the_event() {
        let (large, mut written) = (delivery(Status::ERR_TIMEOUT, LARGE_BYTES), WrittenEvents::default());
        let codec = |bytes_max| {
            let dialect =
                Dialect { codec: Codec { generation: Generation::V41, described: false }, peer: Version::OWN };
            MessageCodec::to_client(dialect, bytes_max, false)
        };
        for _ in 0..2 {
            assert_eq!(written.write(&large, &codec(LARGE_BYTES / 2)), None);
            assert!(written.take_sent().is_empty());
            assert_eq!(written.0.len(), 1);
        }
        assert!(written.write(&large, &codec(2 * LARGE_BYTES)).is_some(), "another peer");
        drop(large);
        assert_eq!(written.take_sent().len(), 1);
        assert!(written.0.is_empty());
    }

    #[test]
    fn a_large_event_is_kept_while_a_peer_waits_for_it() {
        let (large, mut written) = (delivery(Status::ERR_TIMEOUT, LARGE_BYTES), WrittenEvents::default());
        let queued = write(&mut written, &large, Generation::V41);
        assert!(written.take_sent().is_empty());
        assert!(Arc::ptr_eq(&queued, &write(&mut written, &large, Generation::V41)));
        drop(queued);
        assert_eq!(written.take_sent().len(), 1);
        assert!(written.0.is_empty());
        for _ in 0..=EVENTS_MAX {
            write(&mut written, &delivery(Status::ERR_TIMEOUT, 0), Generation::V41);
        }
        assert_eq!(written.0.len(), EVENTS_MAX);
    }
}
