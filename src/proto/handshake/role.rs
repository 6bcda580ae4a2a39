use super::HandshakeError;

use crate::bfrops::{DecodeError, Reader};
use crate::proto::Version;
use crate::types::{Namespace, ProcId, Rank};

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

    /// Whether the server answers with [`Answer`](super::Answer) instead of [`ToolAnswer`](super::ToolAnswer).
    /// Singletons read a client's answer since release 5, and a tool's before.
    #[must_use]
    pub const fn is_answered_as_client(&self, peer: Version) -> bool {
        match self {
            Self::Client(_) => true,
            Self::Singleton(..) => peer.major >= 5,
            _ => false,
        }
    }

    /// Appends number, ids and identity: numbers in network order.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
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

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, HandshakeError> {
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
