//! Credentials made and checked by a host.

use super::layout::{Layout, Many, One, layout};
use super::{Reply, ValidateCredential, Version};
use crate::bfrops::wire::{ByteObject, Info};
use crate::bfrops::{DecodeError, Reader};

layout! {
    ValidateCredential { credential: One<ByteObject>, directives: Many<Info> }
}

pub(super) fn unpack_credential(reader: &mut Reader<'_>, peer: Version) -> Result<Reply, DecodeError> {
    let credential = reader.unpack::<ByteObject>("Credential.credential")?;
    Ok(Reply::Credential { credential, info: Many::<Info>::unpack(reader, "Credential.info", peer)? })
}
