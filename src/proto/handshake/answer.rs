use super::Role;
use crate::bfrops::{Codec, DecodeError, DecodeLimits, DecodeProblem, Reader};
use crate::types::{Namespace, ProcId, Rank, Status, Text};

/// The server's answer to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeAnswer {
    /// The server accepts the client.
    Accepted {
        /// The client's slot, which it puts into the header of every message.
        index: u32,
    },
    /// The server refuses the client, or (ready for handshake) demands a security handshake that this library does not
    /// have.
    Refused(Status),
}

impl HandshakeAnswer {
    /// The answer's bytes.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        match self {
            Self::Accepted { index } => [Status::SUCCESS.to_raw().to_be_bytes(), index.to_be_bytes()].concat(),
            Self::Refused(status) => status.to_raw().to_be_bytes().to_vec(),
        }
    }

    /// Reads the answer and its size in bytes; `None` if more bytes are needed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let (status, rest) = bytes.split_first_chunk::<4>()?;
        let status = Status::from_raw(i32::from_be_bytes(*status));
        if status != Status::SUCCESS {
            return Some((Self::Refused(status), 4));
        }
        let (index, _) = rest.split_first_chunk::<4>()?;
        Some((Self::Accepted { index: u32::from_be_bytes(*index) }, 8))
    }
}

/// The server's answer to a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolAnswer {
    /// The host agreed.
    Accepted {
        /// The tool's identity, if it requested one.
        assigned: Option<ProcId>,
        /// The server's identity.
        server: ProcId,
        /// Result of the server's check of the credential; on any error the tool must leave.
        credential: Status,
    },
    /// The host declined.
    Refused(Status),
}

impl ToolAnswer {
    /// The answer's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Refused(status) => bytes.extend_from_slice(&status.to_raw().to_be_bytes()),
            Self::Accepted { assigned, server, credential } => {
                bytes.extend_from_slice(&Status::SUCCESS.to_raw().to_be_bytes());
                assigned.iter().for_each(|proc| push_identity(&mut bytes, proc));
                push_identity(&mut bytes, server);
                bytes.extend_from_slice(&credential.to_raw().to_be_bytes());
            }
        }
        bytes
    }

    /// Reads the answer to a tool of the given role, and its size in bytes; `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`DecodeError`] if an identity is invalid.
    pub fn decode(bytes: &[u8], role: &Role) -> Result<Option<(Self, usize)>, DecodeError> {
        let mut reader = Reader::new(bytes, Codec::V41, &DecodeLimits::default())?;
        match Self::read(&mut reader, role) {
            Ok(answer) => Ok(Some((answer, bytes.len() - reader.remaining()))),
            Err(error) if matches!(error.problem(), DecodeProblem::EndOfMessage { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn read(reader: &mut Reader<'_>, role: &Role) -> Result<Self, DecodeError> {
        let status = read_status(reader)?;
        if status != Status::SUCCESS {
            return Ok(Self::Refused(status));
        }
        let assigned = if role.needs_identity() { Some(read_identity(reader)?) } else { None };
        let server = read_identity(reader)?;
        Ok(Self::Accepted { assigned, server, credential: read_status(reader)? })
    }
}

fn push_identity(bytes: &mut Vec<u8>, proc: &ProcId) {
    let mut field = [0; NAMESPACE_FIELD_BYTES];
    for (place, byte) in field.iter_mut().zip(proc.namespace.as_str().bytes()) {
        *place = byte;
    }
    bytes.extend_from_slice(&field);
    bytes.extend_from_slice(&proc.rank.to_raw().to_be_bytes());
}

fn read_identity(reader: &mut Reader<'_>) -> Result<ProcId, DecodeError> {
    reader.enter("ToolAnswer.identity");
    let namespace = Text::until_nul(reader.take(NAMESPACE_FIELD_BYTES)?);
    let namespace = Namespace::from_bytes(namespace.as_bytes()).map_err(|e| reader.error(e))?;
    let rank = Rank::from_raw(u32::from_be_bytes(reader.take_array()?)).map_err(|e| reader.error(e))?;
    Ok(ProcId { namespace, rank })
}

fn read_status(reader: &mut Reader<'_>) -> Result<Status, DecodeError> {
    reader.enter("ToolAnswer.status");
    Ok(Status::from_raw(i32::from_be_bytes(reader.take_array()?)))
}

/// A namespace is sent as the array it has in C, padded with NUL.
const NAMESPACE_FIELD_BYTES: usize = Namespace::SIZE_BYTES_MAX + 1;
