//! Requests mostly of tools: logging, and the processes on each node.

use super::layout::{Layout, Many, One, layout};
use super::{Log, ResolvePeers, Version};
use crate::bfrops::wire::{Info, String, Time};
use crate::bfrops::{DecodeError, EncodeError, Reader, Writer};

layout! {
    ResolvePeers { node: One<String>, namespace: One<String> }
}

/// Peers older than 3.0 have no time stamp.
impl Layout for Log {
    type Value = Self;

    fn pack(value: &Self, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
        if has_timestamp(peer) {
            writer.pack::<Time>(&value.timestamp.unwrap_or_default())?;
        }
        Many::<Info>::pack(&value.data, writer, peer)?;
        Many::<Info>::pack(&value.directives, writer, peer)
    }

    fn unpack(reader: &mut Reader<'_>, _: &'static str, peer: Version) -> Result<Self, DecodeError> {
        let timestamp = if has_timestamp(peer) { Some(reader.unpack::<Time>("Log.timestamp")?) } else { None };
        let data = Many::<Info>::unpack(reader, "Log.data", peer)?;
        let directives = Many::<Info>::unpack(reader, "Log.directives", peer)?;
        Ok(Self { timestamp, data, directives })
    }
}

const fn has_timestamp(peer: Version) -> bool {
    peer.major >= 3
}
