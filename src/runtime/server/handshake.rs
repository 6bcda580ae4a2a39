use std::collections::BTreeSet;
use std::time::Duration;

use crate::bfrops::DecodeLimits;
use crate::proto::frame::FrameBuffer;
use crate::proto::handshake::{
    CONNECT_BYTES_MAX, CONNECT_HEADER_BYTES, Connect, HandshakeAnswer, HandshakeError, Ids, Role, SECURITY_MUNGE,
    SECURITY_NATIVE, SECURITY_NONE, STORE_HASH, ToolAnswer, connect_body_size,
};
use crate::proto::{Dialect, Version};
use crate::ptl::PeerCredentials;
use crate::server::{self, Hello, Input, PeerId, StoreOffer, ToolHello, ToolKind};
use crate::types::{AsStatus, ProcId, Status};

use super::request_quota::Account;
use crate::runtime::shared::clock::node_time;
use crate::runtime::shared::message_codec::{MessageCodec, message_buffer};
use crate::runtime::shared::prover::ProofError;

/// The first bytes of a connection, up to a complete introduction.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    bytes: Vec<u8>,
}

/// An introduction.
pub(super) struct CompletedHandshake {
    pub(super) introduction: Introduction,
    pub(super) codec: MessageCodec,
    /// The age of the peer's Init, if the peer reports its start.
    pub(super) init_age: Option<Duration>,
    /// Whether the peer reads a status before the connection is closed.
    pub(super) wants_refusal: bool,
    /// The bytes after the introduction.
    pub(super) inbox: FrameBuffer,
}

/// The peer's kind, and its claims.
pub(super) enum Introduction {
    /// A process that claims to be registered by the host.
    Client(Hello),
    /// A tool, a launcher, or a process without a launcher.
    Tool(ToolHello, Expects),
}

impl Introduction {
    pub(super) fn expects(&self) -> Expects {
        match self {
            Self::Client(_) => Expects::Index,
            Self::Tool(_, expects) => *expects,
        }
    }

    /// The account of the claimed identity. A peer with a false claim is refused later.
    pub(super) fn account(&self) -> Account {
        match self {
            Self::Client(hello) => Account::Process(hello.proc.clone()),
            Self::Tool(hello, _) => Account::Tools(hello.credentials.uid),
        }
    }

    pub(super) fn into_input(self, id: PeerId) -> Input {
        match self {
            Self::Client(hello) => Input::Connected(id, hello),
            Self::Tool(hello, _) => Input::ToolConnected(id, hello),
        }
    }
}

/// The answer that a peer reads when it is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expects {
    /// Its slot number.
    Index,
    /// The server's name.
    Server,
    /// Its own name and the server's.
    Name,
    /// None: this process has introduced itself to the peer.
    Nothing,
}

/// Why an introduction was refused before the core saw it.
#[derive(Debug, thiserror::Error)]
pub(super) enum IntroductionError {
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("the peer uses the security module {module:?}, which this server did not offer; use {SECURITY_NATIVE:?}")]
    Security { module: String },
    #[error("the peer is a tool of release 2, which this server does not support; use a tool of a later release")]
    LegacyTool,
    #[error(
        "the credential of {size_bytes} bytes is neither {SECURITY_NATIVE:?} (a user and a group id of 4 bytes each) \
         nor {SECURITY_NONE:?} (empty)"
    )]
    Credential { size_bytes: usize },
    #[error("the peer's credential can't be verified: {0}")]
    Proof(#[from] ProofError),
    #[error("the peer is on another machine, and brings no credential of munge, by which it must prove its user")]
    Unproven,
    #[error("the peer claims to be user {claimed}, but its socket belongs to user {owner}")]
    FalseUser { claimed: u32, owner: u32 },
}

impl AsStatus for IntroductionError {
    fn status(&self) -> Status {
        match self {
            Self::Handshake(_) | Self::LegacyTool => Status::ERR_NOT_SUPPORTED,
            Self::Security { .. } | Self::Credential { .. } | Self::Unproven | Self::FalseUser { .. } => {
                Status::ERR_INVALID_CRED
            }
            Self::Proof(error) => error.status(),
        }
    }
}

/// An introduction that was refused before the core saw it.
#[derive(Debug)]
pub(super) struct Rejected {
    pub(super) error: IntroductionError,
    /// Whether the peer reads a status before the connection is closed.
    pub(super) wants_refusal: bool,
}

/// A peer with an unreadable introduction gets no answer.
impl From<HandshakeError> for Rejected {
    fn from(error: HandshakeError) -> Self {
        Self { error: error.into(), wants_refusal: false }
    }
}

/// The result of an introduction.
pub(super) enum Introduced {
    /// The core can decide about it.
    Whole(Box<CompletedHandshake>),
    /// Its credential must be checked first.
    Unproven(Box<Unproven>),
}

/// An introduction whose credential is being checked.
pub(super) struct Unproven {
    connect: Connect,
    origin: PeerOrigin,
    inbox: FrameBuffer,
}

impl Unproven {
    pub(super) fn take_credential(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.connect.credential)
    }

    /// Continues with the ids that the credential proves.
    pub(super) fn proven(self, proven: Result<Ids, ProofError>) -> Result<CompletedHandshake, Rejected> {
        let Self { connect, origin, inbox } = self;
        let completed = proven.map_err(IntroductionError::from).and_then(|ids| {
            let origin = PeerOrigin { credentials: origin.credentials.or_proven(ids.uid, ids.gid), ..origin };
            completed(&connect, origin, inbox, Some(ids))
        });
        completed.map_err(|error| Rejected { error, wants_refusal: wants_refusal(&connect) })
    }
}

/// The origin of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerOrigin {
    /// The kernel's facts about the peer.
    pub(super) credentials: PeerCredentials,
    /// Whether descriptors of segments can be passed.
    pub(super) carries_descriptors: bool,
    /// Whether credentials of munge can be checked.
    pub(super) checks_munge: bool,
}

impl Handshake {
    pub(super) const fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Takes bytes from the stream. `None`: the introduction is incomplete.
    pub(super) fn push(&mut self, bytes: &[u8], origin: PeerOrigin) -> Result<Option<Introduced>, Rejected> {
        self.bytes.extend_from_slice(bytes);
        let Some((header, rest)) = self.bytes.split_first_chunk::<CONNECT_HEADER_BYTES>() else { return Ok(None) };
        // Bounded: at most CONNECT_BYTES_MAX and what came with its last bytes.
        let size = connect_body_size(*header)?;
        let Some((body, rest)) = rest.split_at_checked(size) else { return Ok(None) };
        let connect = Connect::decode(body)?;
        let mut inbox = message_buffer();
        inbox.feed(rest);
        if origin.checks_munge && connect.security.as_bytes() == SECURITY_MUNGE.as_bytes() {
            return Ok(Some(Introduced::Unproven(Box::new(Unproven { connect, origin, inbox }))));
        }
        match completed(&connect, origin, inbox, None) {
            Ok(completed) => Ok(Some(Introduced::Whole(Box::new(completed)))),
            Err(error) => Err(Rejected { error, wants_refusal: wants_refusal(&connect) }),
        }
    }
}

/// Uses the client's claims only if a lie would gain nothing. The user id is always the kernel's or munge's.
fn completed(
    connect: &Connect,
    origin: PeerOrigin,
    inbox: FrameBuffer,
    proven: Option<Ids>,
) -> Result<CompletedHandshake, IntroductionError> {
    let unknown = || HandshakeError::UnknownCodec { module: connect.codec.to_string_lossy() };
    let codec = connect.chosen_codec().ok_or_else(unknown)?;
    let peer = connect.peer_version();
    let introduction = introduction(connect, origin, proven)?;
    let wants_refusal = wants_refusal(connect);
    let is_ours = connect.reads_segments() || origin.carries_descriptors;
    let codec = MessageCodec::to_client(Dialect { codec, peer }, message_bytes_max(peer, is_ours), is_ours);
    Ok(CompletedHandshake { introduction, codec, init_age: init_age(connect), wants_refusal, inbox })
}

/// Largest payload for a client: the smaller one of its release's limit and ours. Our own clients name a release, but
/// read no more than our limit. Over TCP they look like clients of that release, so the limit for every library counts
/// there.
fn message_bytes_max(peer: Version, is_ours: bool) -> usize {
    let ours = if is_ours { DecodeLimits::default() } else { DecodeLimits::EXCHANGE };
    peer.message_bytes_max().min(ours.message_bytes_max)
}

/// Clients since release 4.0 get no answer before the connection closes. Older ones and our own clients read the
/// status. The answer to a tool begins with a status in every release.
fn wants_refusal(connect: &Connect) -> bool {
    let peer = connect.peer_version();
    peer.major < 4 || connect.reads_segments() || expected(&connect.role, peer) != Expects::Index
}

fn expected(role: &Role, peer: Version) -> Expects {
    match role {
        role if role.needs_identity() => Expects::Name,
        role if role.is_answered_as_client(peer) => Expects::Index,
        _ => Expects::Server,
    }
}

fn introduction(connect: &Connect, origin: PeerOrigin, proven: Option<Ids>) -> Result<Introduction, IntroductionError> {
    let credentials = credentials(connect, origin.credentials, proven)?;
    let version = connect.peer_version();
    let kind = match &connect.role {
        Role::Client(proc) => {
            // Any unknown store here means "over the socket".
            let is_mapping = connect.reads_segments() && origin.carries_descriptors;
            let store = if is_mapping { StoreOffer::Segment } else { StoreOffer::Socket };
            let proc = proc.clone();
            let hello = Hello { proc, credentials, store, version, strangers: BTreeSet::new() };
            return Ok(Introduction::Client(hello));
        }
        Role::LegacyTool(_) | Role::LegacyLauncher(_) => return Err(IntroductionError::LegacyTool),
        Role::Tool(_) | Role::NamedTool(..) | Role::StartedTool(..) => ToolKind::Tool,
        Role::Launcher(_) | Role::NamedLauncher(..) | Role::StartedLauncher(..) => ToolKind::Launcher,
        Role::Singleton(..) => ToolKind::Singleton,
        Role::Scheduler(..) => ToolKind::Scheduler,
    };
    let expects = expected(&connect.role, version);
    let hello = ToolHello {
        kind,
        claimed: connect.role.proc().cloned(),
        is_started: matches!(connect.role, Role::StartedTool(..) | Role::StartedLauncher(..)),
        credentials: of_tool(origin.credentials, credentials.gid),
        claimed_gid: credentials.gid,
        reads_entries: connect.store.as_bytes() == STORE_HASH.as_bytes(),
        version,
        version_text: connect.version.to_string_lossy(),
        info: connect.info.clone(),
        strangers: BTreeSet::new(),
    };
    Ok(Introduction::Tool(hello, expects))
}

/// The ids to compare with the registration. The user is always the kernel's, or for a peer on another machine the one
/// that munge proves. Over TCP the kernel does not know the
/// group, so the claimed group counts, or the one that munge proves. A false claim gains nothing: it must match the
/// registration, and opens nothing that the user's other processes can't open. For the same reason, a peer without a
/// credential is accepted as the kernel's user.
fn credentials(
    connect: &Connect,
    kernel: PeerCredentials,
    proven: Option<Ids>,
) -> Result<server::Credentials, IntroductionError> {
    let security = connect.security.as_bytes();
    let size_bytes = connect.credential.len();
    let uid = kernel.uid;
    if kernel.is_unproven() {
        return Err(IntroductionError::Unproven);
    }
    let claimed = match proven {
        Some(ids) if ids.uid != uid => return Err(IntroductionError::FalseUser { claimed: ids.uid, owner: uid }),
        Some(ids) => ids,
        None if security == SECURITY_NATIVE.as_bytes() => {
            let written = Ids::from_native_credential(&connect.credential);
            written.ok_or(IntroductionError::Credential { size_bytes })?.of_user(uid)
        }
        None if security == SECURITY_NONE.as_bytes() && size_bytes == 0 => {
            Ids { uid, gid: server::Credentials::GROUP_UNKNOWN }
        }
        None if security == SECURITY_NONE.as_bytes() => return Err(IntroductionError::Credential { size_bytes }),
        None => return Err(IntroductionError::Security { module: connect.security.to_string_lossy() }),
    };
    match kernel.gid {
        Some(gid) => Ok(server::Credentials { uid, gid }),
        None if claimed.uid == uid => Ok(server::Credentials { uid, gid: claimed.gid }),
        None => Err(IntroductionError::FalseUser { claimed: claimed.uid, owner: uid }),
    }
}

/// The ids of a tool. No registration holds a tool's group. Over TCP, the server believes a tool of its own user, which
/// has the server's group if it claims none. The group of any other tool is unknown.
fn of_tool(kernel: PeerCredentials, claimed_gid: u32) -> server::Credentials {
    let (own_uid, own_gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let guessed = match claimed_gid {
        _ if kernel.uid != own_uid => server::Credentials::GROUP_UNKNOWN,
        server::Credentials::GROUP_UNKNOWN => own_gid,
        claimed => claimed,
    };
    server::Credentials { uid: kernel.uid, gid: kernel.gid.unwrap_or(guessed) }
}

/// A time in the future is one of another clock, as in a separate time namespace, or a lie.
fn init_age(connect: &Connect) -> Option<Duration> {
    let (begun, now) = (connect.init_begun()?, node_time()?);
    (begun <= now).then(|| now.since(begun))
}

/// `proc` is the peer's name if the server assigned one.
pub(super) fn admission(expects: Expects, index: u32, proc: Option<&ProcId>, server: &ProcId) -> Option<Vec<u8>> {
    let assigned = match expects {
        Expects::Nothing => return None,
        Expects::Index => return Some(HandshakeAnswer::Accepted { index }.encode()),
        Expects::Server => None,
        Expects::Name => proc.cloned(),
    };
    Some(ToolAnswer::Accepted { assigned, server: server.clone(), credential: Status::SUCCESS }.encode())
}

pub(super) fn refusal(status: Status) -> Vec<u8> {
    HandshakeAnswer::Refused(status).encode()
}

const _: () = assert!(CONNECT_BYTES_MAX <= 1 << 20, "introductions are kept in memory before anybody is known");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::handshake::native_credential;

    /// Our clients name release 5.0, which reads replies of any size. Their own limit is smaller, and a larger reply
    /// would have ended the connection.
    #[test]
    fn our_own_clients_get_nothing_that_their_reader_refuses() {
        assert_eq!(message_bytes_max(Version::OWN, true), DecodeLimits::default().message_bytes_max);
        assert_eq!(message_bytes_max(Version::OWN, false), DecodeLimits::EXCHANGE.message_bytes_max);
        assert_eq!(message_bytes_max(Version::new(3, 2, 5), false), 16 << 20);
        assert_eq!(message_bytes_max(Version::new(6, 1, 1), false), 32 << 20);
    }

    /// Regression: a tool of the server's user had the server's group, whatever its own.
    #[test]
    fn a_tool_over_tcp_has_the_group_that_it_claims_if_its_user_is_the_servers() {
        let own = nix::unistd::geteuid().as_raw();
        let of = |uid: u32, claimed_gid: u32| of_tool(PeerCredentials { pid: None, uid, gid: None }, claimed_gid).gid;
        let unknown = server::Credentials::GROUP_UNKNOWN;
        assert_eq!(of(own, 65_533), 65_533);
        assert_eq!(of(own, unknown), nix::unistd::getegid().as_raw());
        assert_eq!(of(own + 1, 65_533), unknown);
        let known = PeerCredentials { pid: None, uid: own, gid: Some(7) };
        assert_eq!(of_tool(known, 65_533).gid, 7);
    }

    /// A peer on another machine is the user that munge proves, whatever it claims.
    #[test]
    fn a_peer_on_another_machine_is_nobody_without_a_proof() {
        let claimed = Ids { uid: 0, gid: 0 };
        let mut connect = Connect {
            security: SECURITY_NATIVE.into(),
            credential: native_credential(claimed),
            role: Role::Tool(claimed),
            version: "4.2.2".into(),
            codec: "v41".into(),
            described: false,
            store: STORE_HASH.into(),
            info: Vec::new(),
        };
        let unproven =
            PeerOrigin { credentials: PeerCredentials::UNPROVEN, carries_descriptors: false, checks_munge: true };
        let push = |connect: &Connect, origin| Handshake::default().push(&connect.encode().unwrap(), origin);
        let error = push(&connect, unproven).err().unwrap().error;
        assert!(matches!(error, IntroductionError::Unproven), "{error}");
        connect.security = SECURITY_MUNGE.into();
        let error = push(&connect, PeerOrigin { checks_munge: false, ..unproven }).err().unwrap().error;
        assert!(matches!(error, IntroductionError::Unproven), "{error}");
        let Some(Introduced::Unproven(waiting)) = push(&connect, unproven).ok().unwrap() else { panic!("not checked") };
        let proven = waiting.proven(Ok(Ids { uid: 1001, gid: 100 })).ok().unwrap();
        let Introduction::Tool(hello, _) = proven.introduction else { panic!("no tool") };
        assert_eq!(hello.credentials, server::Credentials { uid: 1001, gid: 100 });
        let Some(Introduced::Unproven(waiting)) = push(&connect, unproven).ok().unwrap() else { panic!("not checked") };
        let nobody = Ids { uid: PeerCredentials::UNPROVEN.uid, gid: 0 };
        assert!(matches!(waiting.proven(Ok(nobody)).err().unwrap().error, IntroductionError::Unproven));
    }
}
