//! Requests: the layout for each command.

use super::collective::Connecting;
use super::data::Whose;
use super::group::{Constructing, Destructing, Leaving};
use super::layout::{Layout, One, Rest};
use super::services::with_requests;
use super::{
    Abort, Collective, Command, Commit, ComputeDistances, Dialect, Get, Group, IofDeregister, IofPull, Notify,
    RegisterEvents, ResolvePeers, Service, Version,
};
use crate::bfrops::wire;
use crate::bfrops::{DecodeError, DecodeLimits, DecodeProblem, EncodeError, Reader, Writer};
use crate::types::{ProcId, Status, Text};

/// Reason why a request is refused. [`RequestDecodeError::status`] is the answer for the peer, if it expects an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestDecodeError {
    /// A command that has no request type: newer than this library, or never used.
    #[error("command {command} is not supported")]
    Unsupported {
        /// The number received.
        command: u8,
    },
    /// Bytes that do not fit their command.
    #[error("request {command:?} cannot be read: {error}")]
    Malformed {
        /// The command, if it could be read.
        command: Option<Command>,
        /// The error in the bytes.
        error: DecodeError,
    },
}

impl RequestDecodeError {
    /// The status for the answer.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Unsupported { .. } => Status::ERR_NOT_SUPPORTED,
            // The wanted keys are parameters.
            Self::Malformed { command: Some(Command::Lookup | Command::Unpublish), error }
                if matches!(error.problem(), DecodeProblem::Key(_)) =>
            {
                Status::ERR_BAD_PARAM
            }
            Self::Malformed { error, .. } => error.status(),
        }
    }

    /// Whether the requester waits for an answer. A requester of job information cannot read a status: its connection
    /// is better closed.
    #[must_use]
    pub const fn expects_reply(&self) -> bool {
        match self {
            Self::Malformed { command: Some(command), .. } => command.expects_reply(),
            Self::Malformed { command: None, .. } | Self::Unsupported { .. } => true,
        }
    }
}

/// The payload of a request.
///
/// # Errors
/// [`EncodeError`] if the peer's encoding cannot carry it.
pub fn encode(request: &Request, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
    encode_behind(Vec::new(), request, dialect)
}

/// The payload of a request behind other bytes, in their memory.
///
/// # Errors
/// As [`encode`].
pub fn encode_behind(bytes: Vec<u8>, request: &Request, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::behind(dialect.codec, bytes);
    writer.pack::<wire::Command>(&request.command().to_raw())?;
    pack_body(request, &mut writer, dialect.peer)?;
    Ok(writer.into_bytes())
}

/// Reads the payload of a request. Bytes behind it are ignored, as newer peers may append fields.
///
/// # Errors
/// [`RequestDecodeError`] for an unknown command or damaged bytes.
pub fn decode(payload: &[u8], dialect: Dialect, limits: &DecodeLimits) -> Result<Request, RequestDecodeError> {
    decode_measured(payload, dialect, limits).map(|(request, _)| request)
}

/// As [`decode`], with the approximate memory of the request in bytes. It is the size of the payload and of the entries
/// of all lists: an array of booleans takes 32 times as much as its payload.
///
/// # Errors
/// As [`decode`].
pub fn decode_measured(
    payload: &[u8],
    dialect: Dialect,
    limits: &DecodeLimits,
) -> Result<(Request, usize), RequestDecodeError> {
    let malformed = |error| RequestDecodeError::Malformed { command: None, error };
    let mut reader = Reader::new(payload, dialect.codec, limits).map_err(malformed)?;
    let code = reader.unpack::<wire::Command>("command").map_err(malformed)?;
    let command = Command::from_raw(code).ok_or(RequestDecodeError::Unsupported { command: code })?;
    reader.bound_lists(command.listed_max());
    let request = unpack_body(command, &mut reader, dialect.peer)
        .map_err(|error| RequestDecodeError::Malformed { command: Some(command), error })?;
    Ok((request, payload.len().saturating_add(reader.listed_bytes())))
}

/// Makes the requests and the two directions of their bytes from the table of requests.
macro_rules! requests {
    (
        services { $($(#[$service_doc:meta])* $service:ident = $service_code:literal => $service_answer:ty;)* }
        bare { $($(#[$bare_doc:meta])* $bare:ident = $bare_code:literal => $bare_answer:ty;)* }
        own { $($(#[$doc:meta])* $request:ident = $code:literal, $body:ty as $layout:ty => $answer:ty;)* }
        shared { $($(#[$shared_doc:meta])* $shared:ident = $shared_code:literal => $shared_answer:ty;)* }
    ) => {
        /// A request of a client (or tool) to its server.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Request {
            $($(#[$bare_doc])* $bare,)*
            $($(#[$doc])* $request($body),)*
            /// GROUP_JOIN, GROUP_INVITE, GROUP_LEAVE: reference servers answer "not supported".
            GroupOther(Group),
            /// A service of the host. The reply has the form of its answer.
            Service(Service),
        }

        impl Request {
            /// The command that this request is sent as.
            #[must_use]
            pub fn command(&self) -> Command {
                match self {
                    $(Self::$bare => Command::$bare,)*
                    $(Self::$request(_) => Command::$request,)*
                    Self::GroupOther(group) => Command::from_raw(group.command).unwrap_or(Command::GroupLeave),
                    Self::Service(service) => service.command(),
                }
            }
        }

        fn pack_body(request: &Request, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
            match request {
                $(Request::$bare => Ok(()),)*
                $(Request::$request(body) => <$layout as Layout>::pack(body, writer, peer),)*
                Request::GroupOther(group) => Leaving::pack(group, writer, peer),
                Request::Service(service) => service.pack(writer, peer),
            }
        }

        fn unpack_body(command: Command, reader: &mut Reader<'_>, peer: Version) -> Result<Request, DecodeError> {
            match command {
                $(Command::$service => super::$service::unpack(reader, stringify!($service), peer).map(Request::from),)*
                $(Command::$bare => Ok(Request::$bare),)*
                $(Command::$request => {
                    <$layout as Layout>::unpack(reader, stringify!($request), peer).map(Request::$request)
                })*
                $(Command::$shared)|* => {
                    let group = Leaving::unpack(reader, "Group", peer)?;
                    Ok(Request::GroupOther(Group { command: command.to_raw(), ..group }))
                }
            }
        }
    };
}

with_requests!(requests);

impl<S: Into<Service>> From<S> for Request {
    fn from(service: S) -> Self {
        Self::Service(service.into())
    }
}
