//! Proofs of identity by another service: credentials of munge.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::types::{AsStatus, Status};

/// Makes and checks credentials of munge.
///
/// Source: munge_encode(3), munge_decode(3).
pub trait Prover: fmt::Debug + Send + Sync + 'static {
    /// A credential of the calling process in its wire form: the text and its NUL. May wait for the service.
    ///
    /// # Errors
    /// [`ProofError`].
    fn credential(&self) -> Result<Vec<u8>, ProofError>;

    /// The user and the group that the credential proves. May wait for the service.
    ///
    /// # Errors
    /// [`ProofError`], also for an invalid credential, or one that is too old or was used before.
    fn check(&self, credential: &[u8]) -> Result<(u32, u32), ProofError>;
}

/// Why there is no proof.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The library is missing.
    #[error("libmunge.so.2 can't be loaded; install it, or have the server offer \"native\"")]
    Absent,
    /// There is nothing to make and check credentials with.
    #[error("the server has no prover for credentials of munge; set one")]
    NoProver,
    /// The library or its service refused.
    #[error("munge can't {doing}: {reason}; check that munged runs on this node")]
    Refused {
        /// The failed operation.
        doing: &'static str,
        /// The reason, in munge's words.
        reason: String,
    },
    /// The credential is no text with a single NUL at its end.
    #[error("the credential of {size_bytes} bytes is not a munge credential")]
    Garbled {
        /// Its size.
        size_bytes: usize,
    },
    /// The service proved another user.
    #[error("munge identified this process as user {uid} group {gid}")]
    OtherUser {
        /// The proven user.
        uid: u32,
        /// The proven group.
        gid: u32,
    },
    /// The service did not answer.
    #[error("munge did not answer within {} seconds; check that munged runs on this node", .0.as_secs())]
    TimedOut(Duration),
    /// The prover panicked.
    #[error("the check of the credential panicked")]
    Panicked,
    /// Too many credentials wait.
    #[error("{0} credentials already wait for munge, which is the limit")]
    Busy(usize),
    /// The thread could not be started.
    #[error("no thread can be started to talk to munge: {0}")]
    Thread(io::ErrorKind),
}

impl AsStatus for ProofError {
    fn status(&self) -> Status {
        match self {
            Self::Absent | Self::NoProver => Status::ERR_NOT_SUPPORTED,
            Self::Refused { .. } | Self::Garbled { .. } | Self::OtherUser { .. } => Status::ERR_INVALID_CRED,
            Self::TimedOut(_) => Status::ERR_TIMEOUT,
            Self::Panicked => Status::ERROR,
            Self::Busy(_) | Self::Thread(_) => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}
