//! Requests to forward input and output; forwarded output itself is in `notification`.

use super::layout::{IfPresent, Layout, Many, One, layout};
use super::{IofDeregister, IofPull, IofPush, Version};
use crate::bfrops::wire::{ByteObject, Info, IofChannel, Proc, Size};
use crate::bfrops::{DecodeError, EncodeError, Reader, Writer};

layout! {
    IofPush { targets: Many<Proc>, directives: Many<Info>, bytes: One<ByteObject> }
    IofDeregister { directives: Many<Info>, reference: One<Size> }
}

/// Clients older than 4.0 do not number their requests, but a server of 3.2 refuses one without number.
impl Layout for IofPull {
    type Value = Self;

    fn pack(value: &Self, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
        Many::<Proc>::pack(&value.procs, writer, peer)?;
        Many::<Info>::pack(&value.directives, writer, peer)?;
        writer.pack::<IofChannel>(&value.channels)?;
        IfPresent::<Size>::pack(&value.local_id, writer, peer)
    }

    fn unpack(reader: &mut Reader<'_>, _: &'static str, peer: Version) -> Result<Self, DecodeError> {
        Ok(Self {
            procs: Many::<Proc>::unpack(reader, "IofPull.procs", peer)?,
            directives: Many::<Info>::unpack(reader, "IofPull.directives", peer)?,
            channels: reader.unpack::<IofChannel>("IofPull.channels")?,
            local_id: IfPresent::<Size>::unpack(reader, "IofPull.local_id", peer)?,
        })
    }
}
