//! An event as a message, written once for all peers with the same dialect. When it was written for each peer, one
//! event of 200 KB to 128 listeners stopped the server, and all other processes, for 20 ms.

use std::sync::{Arc, Weak};

use crate::proto::Dialect;
use crate::proto::notification::EventNotice;
use crate::runtime::shared::message_codec::{MessageCodec, MessageEncodeError};

/// The form of a written message: the dialect, and the largest payload that the peer takes.
type Reading = (Dialect, usize);

/// The event that was written last.
#[derive(Debug, Default)]
pub(super) struct WrittenEvent {
    /// Does not keep the event alive, but reserves its address, so no other event can have the same one.
    event: Weak<EventNotice>,
    /// By dialect and largest payload.
    written: Vec<(Reading, Arc<[u8]>)>,
}

impl WrittenEvent {
    /// An event as a message.
    pub(super) fn write(
        &mut self,
        event: &Arc<EventNotice>,
        codec: &MessageCodec,
    ) -> Result<Arc<[u8]>, MessageEncodeError> {
        if self.event.as_ptr() != Arc::as_ptr(event) {
            *self = Self { event: Arc::downgrade(event), written: Vec::new() };
        }
        let reading = codec.reading();
        if let Some((_, bytes)) = self.written.iter().find(|(other, _)| *other == reading) {
            return Ok(Arc::clone(bytes));
        }
        let bytes: Arc<[u8]> = codec.write_event(event)?.into();
        self.written.push((reading, Arc::clone(&bytes)));
        Ok(bytes)
    }

    /// Drops the event.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bfrops::{Codec, Generation};
    use crate::proto::Version;
    use crate::types::Status;

    #[test]
    fn an_event_is_written_once_for_all_who_read_alike() {
        let event = |status| Arc::new(EventNotice { status, source: None, info: Vec::new(), range: None });
        let codec = |generation| {
            let dialect = Dialect { codec: Codec { generation, described: false }, peer: Version::OWN };
            MessageCodec::to_client(dialect, 1 << 20, false)
        };
        let (one, other) = (event(Status::ERR_PROC_ABORTED), event(Status::ERR_TIMEOUT));
        let mut written = WrittenEvent::default();
        let mut write = |event, generation| written.write(event, &codec(generation)).unwrap();
        let first = write(&one, Generation::V41);
        assert!(Arc::ptr_eq(&first, &write(&one, Generation::V41)));
        let fixed = write(&one, Generation::V3);
        assert_ne!(first, fixed);
        assert!(Arc::ptr_eq(&fixed, &write(&one, Generation::V3)));
        assert_ne!(write(&other, Generation::V41), first, "another event");
        assert_eq!(write(&one, Generation::V41), first);
        written.forget();
        assert_eq!(written.written.len(), 0);
    }
}
