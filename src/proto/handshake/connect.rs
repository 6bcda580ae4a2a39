use crate::bfrops::wire::Info;
use crate::bfrops::{Codec, DecodeError, DecodeLimits, EncodeError, Generation, Reader, Writer};
use crate::proto::layout::{Layout, Many};
use crate::proto::{Tag, Version, host_order};
use crate::types::{Namespace, ProcId, Rank, Text, Time, Value};

/// Size of the header before the connect message.
pub const CONNECT_HEADER_BYTES: usize = 16;
/// Largest connect message, without its header, that any server reads.
pub const CONNECT_BYTES_MAX: usize = 128 << 10;
/// Security module whose credential is [`native_credential`].
pub const SECURITY_NATIVE: &str = "native";
/// Security module whose credential is a text that munge makes and checks.
pub const SECURITY_MUNGE: &str = "munge";
/// Security module without credential.
pub const SECURITY_NONE: &str = "none";
/// Store module of peers that read segments.
pub const STORE_MODEX: &str = "modex";
/// Info of our own clients: start time of their Init, in nanoseconds of the node's `CLOCK_MONOTONIC` (u64). Others
/// ignore it.
pub const INIT_BEGUN: &str = "modex.init.begun";
/// Store module of peers that get all data over the socket. Our clients declare it at every foreign server, whatever
/// `PMIX_GDS_MODULE` offers. A peer that declares `shmem2` gets addresses of segments with C structures of the server's
/// own release. It could not request the values instead: 5.0 to 6.1 have no such request.
pub const STORE_HASH: &str = "hash";

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
    #[error("connect message of {declared} bytes exceeds the limit of {}", CONNECT_BYTES_MAX)]
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

/// A client's or tool's statement about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Connect {
    /// Security module.
    pub security: Text,
    /// Credential of that module.
    pub credential: Vec<u8>,
    /// The peer's identity and role.
    pub role: Role,
    /// The peer's release, such as `4.2.2rc2`; see [`Connect::peer_version`].
    pub version: Text,
    /// Name of the encoding; see [`Connect::chosen_codec`].
    pub codec: Text,
    /// Whether buffers are fully described.
    pub described: bool,
    /// Store module.
    pub store: Text,
    /// Further facts, such as `pmix.ppid`. Empty if the encoding is unknown.
    pub info: Vec<Info>,
}

impl Connect {
    /// The peer's release: the numbers in the version string, or else the first release with the peer's encoding. A
    /// release later than all known ones is treated as the latest known.
    #[must_use]
    pub fn peer_version(&self) -> Version {
        let said = Version::parse(self.version.as_bytes());
        match Generation::from_module_name(self.codec.as_bytes()) {
            Some(generation) if said.major == 0 => Version::first_with(generation),
            _ => said,
        }
    }

    /// The encoding for the connection; `None` if this library does not speak it.
    #[must_use]
    pub fn chosen_codec(&self) -> Option<Codec> {
        let generation = Generation::from_module_name(self.codec.as_bytes())?;
        Some(Codec { generation, described: self.described })
    }

    /// Whether the peer reads segments.
    #[must_use]
    pub fn reads_segments(&self) -> bool {
        self.store.as_bytes() == STORE_MODEX.as_bytes()
    }

    /// Start time of the peer's Init, if sent; see [`INIT_BEGUN`].
    #[must_use]
    pub fn init_begun(&self) -> Option<Time> {
        let info = self.info.iter().find(|info| info.key.as_str() == INIT_BEGUN)?;
        match info.value {
            Value::Uint64(nanoseconds) => Some(Time::from_nanos(nanoseconds)),
            _ => None,
        }
    }

    /// Header and message.
    ///
    /// # Errors
    /// If the encoding is unknown or cannot carry the infos, or the message exceeds the size that servers read.
    pub fn encode(&self) -> Result<Vec<u8>, HandshakeError> {
        let body = self.encode_body()?;
        let declared = body.len();
        let size_bytes = u32::try_from(declared).map_err(|_| HandshakeError::TooLong { declared })?;
        if declared > CONNECT_BYTES_MAX {
            return Err(HandshakeError::TooLong { declared });
        }
        let mut bytes = Vec::with_capacity(CONNECT_HEADER_BYTES + declared);
        for word in [INDEX_NONE, Tag::CONNECT.0, size_bytes, 0] {
            bytes.extend_from_slice(&host_order::to_bytes(word));
        }
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    fn encode_body(&self) -> Result<Vec<u8>, HandshakeError> {
        let mut bytes = Vec::new();
        push_c_string(&mut bytes, &self.security);
        let declared = self.credential.len();
        let credential_size = u32::try_from(declared).map_err(|_| HandshakeError::TooLong { declared })?;
        bytes.extend_from_slice(&credential_size.to_be_bytes());
        bytes.extend_from_slice(&self.credential);
        self.role.write(&mut bytes);
        push_c_string(&mut bytes, &self.version);
        push_c_string(&mut bytes, &self.codec);
        bytes.push(if self.described { BUFFER_DESCRIBED } else { BUFFER_NOT_DESCRIBED });
        push_c_string(&mut bytes, &self.store);
        if !self.info.is_empty() {
            let unknown = || HandshakeError::UnknownCodec { module: self.codec.to_string_lossy() };
            let mut writer = Writer::new(self.chosen_codec().ok_or_else(unknown)?);
            Many::<Info>::pack(&self.info, &mut writer, self.peer_version())?;
            bytes.extend_from_slice(&writer.into_bytes());
        }
        Ok(bytes)
    }

    /// Reads a message without its header.
    ///
    /// Clients of release 4.2 append a stray byte, and clients of 3.2 have no infos. So in a client's message, text
    /// behind the store's name is used if readable and ignored otherwise. A tool's infos must be readable.
    ///
    /// # Errors
    /// [`HandshakeError`] if the bytes are no connect message.
    pub fn decode(body: &[u8]) -> Result<Self, HandshakeError> {
        if body.len() > CONNECT_BYTES_MAX {
            return Err(HandshakeError::TooLong { declared: body.len() });
        }
        let mut reader = Reader::new(body, Codec::V41, &DecodeLimits::default())?;
        let security = Text::until_nul(reader.c_string("Connect.security")?);
        reader.enter("Connect.credential");
        let credential_size = u32::from_be_bytes(reader.take_array()?);
        let credential_size = usize::try_from(credential_size).unwrap_or(usize::MAX);
        let credential = reader.take(credential_size)?.to_vec();
        let role = Role::read(&mut reader)?;
        let version = Text::until_nul(reader.c_string("Connect.version")?);
        if version.as_bytes().strip_prefix(b"v").unwrap_or(version.as_bytes()).starts_with(b"2.0.") {
            return Ok(Self::of_release_2_0(security, credential, role, version));
        }
        let codec = Text::until_nul(reader.c_string("Connect.codec")?);
        reader.enter("Connect.buffer_type");
        let described = match reader.byte()? {
            BUFFER_NOT_DESCRIBED => false,
            BUFFER_DESCRIBED => true,
            kind => return Err(HandshakeError::UnknownBufferType { kind }),
        };
        let store = Text::until_nul(reader.c_string("Connect.store")?);
        let mut connect = Self { security, credential, role, version, codec, described, store, info: Vec::new() };
        connect.info = connect.read_info(&mut reader)?;
        Ok(connect)
    }

    fn read_info(&self, reader: &mut Reader<'_>) -> Result<Vec<Info>, HandshakeError> {
        let Some(codec) = self.chosen_codec() else { return Ok(Vec::new()) };
        let rest = reader.take(reader.remaining())?;
        if rest.is_empty() {
            return Ok(Vec::new());
        }
        let info =
            reader.inside(rest, codec, |reader| Many::<Info>::unpack(reader, "Connect.info", self.peer_version()));
        match (info, &self.role) {
            (Err(_), Role::Client(_)) => Ok(Vec::new()),
            (outcome, _) => Ok(outcome?),
        }
    }

    /// Release 2.0 sends no encoding and store; servers assume these.
    fn of_release_2_0(security: Text, credential: Vec<u8>, role: Role, version: Text) -> Self {
        let (codec, store) = (Text::from("v20"), Text::from("ds12,hash"));
        Self { security, credential, role, version, codec, described: false, store, info: Vec::new() }
    }
}

/// Reads the header before a connect message, in the byte order of any peer: the size of the message.
///
/// # Errors
/// If it is no such header, or declares more than a server reads.
pub fn connect_body_size(header: [u8; CONNECT_HEADER_BYTES]) -> Result<usize, HandshakeError> {
    let [_, _, _, _, t0, t1, t2, t3, s0, s1, s2, s3, _, _, _, _] = header;
    let tag = host_order::from_bytes([t0, t1, t2, t3]);
    if tag != Tag::CONNECT.0 {
        return Err(HandshakeError::NotConnect { tag });
    }
    let size_bytes = host_order::from_bytes([s0, s1, s2, s3]);
    // A peer on another machine may have the other byte order. All later numbers have that of the network. Messages of
    // 64 KiB or more are hardly ever sent, so the smaller size is meant.
    let declared = usize::try_from(size_bytes.min(size_bytes.swap_bytes())).unwrap_or(usize::MAX);
    if declared <= CONNECT_BYTES_MAX { Ok(declared) } else { Err(HandshakeError::TooLong { declared }) }
}

/// Effective user and group id that a tool claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ids {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

/// Role of the connecting peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A process registered at the server.
    Client(ProcId),
    /// A tool of release 2.
    LegacyTool(Ids),
    /// A launcher of release 2.
    LegacyLauncher(Ids),
    /// A tool that needs an identity.
    Tool(Ids),
    /// A tool with an identity.
    NamedTool(Ids, ProcId),
    /// A tool that a server started.
    StartedTool(Ids, ProcId),
    /// A launcher that needs an identity.
    Launcher(Ids),
    /// A launcher with an identity.
    NamedLauncher(Ids, ProcId),
    /// A launcher that a server started.
    StartedLauncher(Ids, ProcId),
    /// A process started without PMIx.
    Singleton(Ids, ProcId),
    /// The scheduler.
    Scheduler(Ids, ProcId),
}

impl Role {
    /// The role's number in the connect message.
    #[must_use]
    pub const fn flag(&self) -> u8 {
        match self {
            Self::Client(_) => 0,
            Self::LegacyTool(_) => 1,
            Self::LegacyLauncher(_) => 2,
            Self::Tool(_) => 3,
            Self::NamedTool(..) => 4,
            Self::StartedTool(..) => 5,
            Self::Launcher(_) => 6,
            Self::NamedLauncher(..) => 7,
            Self::StartedLauncher(..) => 8,
            Self::Singleton(..) => 9,
            Self::Scheduler(..) => 10,
        }
    }

    /// The peer's name, if it knows it.
    #[must_use]
    pub const fn proc(&self) -> Option<&ProcId> {
        match self {
            Self::Client(proc)
            | Self::NamedTool(_, proc)
            | Self::StartedTool(_, proc)
            | Self::NamedLauncher(_, proc)
            | Self::StartedLauncher(_, proc)
            | Self::Singleton(_, proc)
            | Self::Scheduler(_, proc) => Some(proc),
            Self::LegacyTool(_) | Self::LegacyLauncher(_) | Self::Tool(_) | Self::Launcher(_) => None,
        }
    }

    /// The claimed ids; clients claim them only with their credential.
    #[must_use]
    pub const fn ids(&self) -> Option<Ids> {
        match self {
            Self::Client(_) => None,
            Self::LegacyTool(ids)
            | Self::LegacyLauncher(ids)
            | Self::Tool(ids)
            | Self::Launcher(ids)
            | Self::NamedTool(ids, _)
            | Self::StartedTool(ids, _)
            | Self::NamedLauncher(ids, _)
            | Self::StartedLauncher(ids, _)
            | Self::Singleton(ids, _)
            | Self::Scheduler(ids, _) => Some(*ids),
        }
    }

    /// Whether the server must assign an identity.
    #[must_use]
    pub const fn needs_identity(&self) -> bool {
        matches!(self, Self::Tool(_) | Self::Launcher(_))
    }

    /// Whether the server answers with [`HandshakeAnswer`](super::HandshakeAnswer) instead of
    /// [`ToolAnswer`](super::ToolAnswer). Singletons read a client's answer since release 5, and a tool's before.
    #[must_use]
    pub const fn is_answered_as_client(&self, peer: Version) -> bool {
        match self {
            Self::Client(_) => true,
            Self::Singleton(..) => peer.major >= 5,
            _ => false,
        }
    }

    /// Appends number, ids and identity: numbers in network order.
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.flag());
        if let Some(ids) = self.ids() {
            bytes.extend_from_slice(&ids.uid.to_be_bytes());
            bytes.extend_from_slice(&ids.gid.to_be_bytes());
        }
        if let Some(proc) = self.proc() {
            bytes.extend_from_slice(proc.namespace.as_str().as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(&proc.rank.to_raw().to_be_bytes());
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, HandshakeError> {
        reader.enter("Connect.role");
        let flag = reader.byte()?;
        Ok(match flag {
            0 => Self::Client(read_proc(reader)?),
            1 => Self::LegacyTool(read_ids(reader)?),
            2 => Self::LegacyLauncher(read_ids(reader)?),
            3 => Self::Tool(read_ids(reader)?),
            4 => Self::NamedTool(read_ids(reader)?, read_proc(reader)?),
            5 => Self::StartedTool(read_ids(reader)?, read_proc(reader)?),
            6 => Self::Launcher(read_ids(reader)?),
            7 => Self::NamedLauncher(read_ids(reader)?, read_proc(reader)?),
            8 => Self::StartedLauncher(read_ids(reader)?, read_proc(reader)?),
            9 => Self::Singleton(read_ids(reader)?, read_proc(reader)?),
            10 => Self::Scheduler(read_ids(reader)?, read_proc(reader)?),
            flag => return Err(HandshakeError::UnknownRole { flag }),
        })
    }
}

fn read_ids(reader: &mut Reader<'_>) -> Result<Ids, DecodeError> {
    let uid = u32::from_be_bytes(reader.take_array()?);
    Ok(Ids { uid, gid: u32::from_be_bytes(reader.take_array()?) })
}

fn read_proc(reader: &mut Reader<'_>) -> Result<ProcId, DecodeError> {
    let namespace = Namespace::from_bytes(reader.c_string("Connect.namespace")?).map_err(|e| reader.error(e))?;
    reader.enter("Connect.rank");
    let rank = Rank::from_raw(u32::from_be_bytes(reader.take_array()?)).map_err(|e| reader.error(e))?;
    Ok(ProcId { namespace, rank })
}

/// The credential of the `native` module: the effective ids, in the sender's byte order.
#[must_use]
pub fn native_credential(ids: Ids) -> Vec<u8> {
    let (uid, gid) = (host_order::to_bytes(ids.uid), host_order::to_bytes(ids.gid));
    uid.into_iter().chain(gid).collect()
}

impl Ids {
    /// Reads the credential of the `native` module; `None` if it is invalid.
    #[must_use]
    pub fn from_native_credential(credential: &[u8]) -> Option<Self> {
        let (uid, gid) = credential.split_first_chunk::<4>()?;
        let gid = <[u8; 4]>::try_from(gid).ok()?;
        Some(Self { uid: host_order::from_bytes(*uid), gid: host_order::from_bytes(gid) })
    }

    /// The ids that a process of this user has meant. It may have written them in the other byte order.
    #[must_use]
    pub const fn of_user(self, uid: u32) -> Self {
        let swapped = Self { uid: self.uid.swap_bytes(), gid: self.gid.swap_bytes() };
        if self.uid != uid && swapped.uid == uid { swapped } else { self }
    }
}

fn push_c_string(bytes: &mut Vec<u8>, text: &Text) {
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
}

/// Index field of a peer without an index: -1.
const INDEX_NONE: u32 = u32::MAX;
const BUFFER_NOT_DESCRIBED: u8 = 1;
const BUFFER_DESCRIBED: u8 = 2;
