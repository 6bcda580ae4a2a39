use crate::bfrops::{DecodeError, EncodeError};

/// Reason why a handshake failed. The connection must be closed; servers since 4.0 do so without an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The first bytes are no connect header.
    #[error("the peer did not begin with a connect message (tag {tag:#010x})")]
    NotConnect {
        /// The number in place of the connect tag.
        tag: u32,
    },
    /// A connect message beyond all useful sizes.
    #[error("connect message of {declared} bytes exceeds the limit of {}", super::CONNECT_BYTES_MAX)]
    TooLong {
        /// Size of the message.
        declared: usize,
    },
    /// A role this library does not know.
    #[error("connect message has the unknown role {flag}")]
    UnknownRole {
        /// The number received.
        flag: u8,
    },
    /// A buffer type that does not exist.
    #[error("connect message has the unknown buffer type {kind}")]
    UnknownBufferType {
        /// The number received.
        kind: u8,
    },
    /// An encoding that this library does not speak.
    #[error("encoding {module:?} is not supported; use v41 or another of v3, v4, v41, v51, v61")]
    UnknownCodec {
        /// Name of the module, for people.
        module: String,
    },
    /// Damaged bytes.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Infos that the encoding cannot carry.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}
