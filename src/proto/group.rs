//! Groups, whose messages differ between all releases: a server uses the layout of its client's.

use super::contributions::owner_of_endpoints;
use super::layout::{Each, IfPresent, Layout, Many, pack_entries_of, unpack_entries};
use super::{Command, Group, Reply, Version};
use crate::bfrops::wire::{Bool, CompulsoryString, Info, Proc, Size, String};
use crate::bfrops::{DecodeError, EncodeError, Reader, Writer};
use crate::keys;
use crate::types::{self, Key, Kval, ProcId, Text, Value};

/// A directive of a group's construction. Data for the members and endpoint data get the name of `proc`, the
/// contributor, as their first entry; any other name in them is removed. Servers of 6.0 and later refuse a contribution
/// without it. A local context number is such a contribution. The server refuses a required one of another type.
#[must_use]
pub fn info_signed_by(proc: &ProcId, info: types::Info) -> types::Info {
    let named = types::Info::new(Key::from_static(keys::PROCID.name()), proc.clone());
    let is_number = !keys::is_unmet(&info, |_| true);
    if info.key.as_str() == keys::GROUP_LOCAL_CID.name() && is_number {
        let number = types::Info { flags: 0, ..info };
        return types::Info::new(Key::from_static(keys::GROUP_INFO.name()), Value::info_array(vec![named, number]));
    }
    if info.key.as_str() != keys::GROUP_INFO.name() && owner_of_endpoints(&info).is_none() {
        return info;
    }
    let Value::DataArray(array) = &info.value else { return info };
    let contribution = |value: &Value| match value {
        Value::Info(info) if info.key.as_str() != keys::PROCID.name() => Some((**info).clone()),
        _ => None,
    };
    let contributed = [named].into_iter().chain(array.elements.iter().filter_map(contribution)).collect();
    types::Info { value: Value::info_array(contributed), ..info }
}

/// A request with members.
pub(super) struct Constructing;

/// A request with members since 5.0.
pub(super) struct Destructing;

/// A request without members: join, invite and leave.
pub(super) struct Leaving;

impl Layout for Constructing {
    type Value = Group;

    fn pack(value: &Group, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
        writer.pack::<String>(&value.id)?;
        Many::<Proc>::pack(&value.procs, writer, peer)?;
        Many::<Info>::pack(&value.directives, writer, peer)
    }

    fn unpack(reader: &mut Reader<'_>, _: &'static str, peer: Version) -> Result<Group, DecodeError> {
        Ok(Group {
            command: Command::GroupConstruct.to_raw(),
            id: reader.unpack::<String>("Group.id")?,
            procs: Many::<Proc>::unpack(reader, "Group.procs", peer)?,
            directives: Many::<Info>::unpack(reader, "Group.directives", peer)?,
        })
    }
}

impl Layout for Leaving {
    type Value = Group;

    fn pack(value: &Group, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
        writer.pack::<String>(&value.id)?;
        Many::<Info>::pack(&value.directives, writer, peer)
    }

    fn unpack(reader: &mut Reader<'_>, _: &'static str, peer: Version) -> Result<Group, DecodeError> {
        Ok(Group {
            command: Command::GroupLeave.to_raw(),
            id: reader.unpack::<String>("Group.id")?,
            procs: Vec::new(),
            directives: Many::<Info>::unpack(reader, "Group.directives", peer)?,
        })
    }
}

impl Layout for Destructing {
    type Value = Group;

    fn pack(value: &Group, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
        if peer < MEMBERS_SINCE { Leaving::pack(value, writer, peer) } else { Constructing::pack(value, writer, peer) }
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, peer: Version) -> Result<Group, DecodeError> {
        let group = if peer < MEMBERS_SINCE {
            Leaving::unpack(reader, field, peer)?
        } else {
            Constructing::unpack(reader, field, peer)?
        };
        Ok(Group { command: Command::GroupDestruct.to_raw(), ..group })
    }
}

/// First release whose messages name the members.
const MEMBERS_SINCE: Version = Version::new(5, 0, 0);
/// First release whose replies carry infos instead of job information.
const INFO_SINCE: Version = Version::new(6, 0, 0);

/// Contents of a reply about a new group.
pub(super) struct Constructed<'a> {
    pub(super) members: &'a Vec<ProcId>,
    pub(super) context_id: Option<u64>,
    pub(super) info: &'a Vec<Info>,
    pub(super) jobs: &'a [(Text, Vec<Kval>)],
}

impl Constructed<'_> {
    pub(super) fn pack(&self, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
        if peer < MEMBERS_SINCE {
            return IfPresent::<Size>::pack(&self.context_id, writer, peer);
        }
        Many::<Proc>::pack(self.members, writer, peer)?;
        if peer < INFO_SINCE {
            writer.pack::<Size>(&self.context_id.unwrap_or_default())?;
            return self
                .jobs
                .iter()
                .try_for_each(|(name, entries)| pack_entries_of::<CompulsoryString>(writer, name, entries));
        }
        writer.pack::<Bool>(&self.context_id.is_some())?;
        IfPresent::<Size>::pack(&self.context_id, writer, peer)?;
        Each::<Info>::pack(self.info, writer, peer)
    }
}

pub(super) fn unpack_constructed(reader: &mut Reader<'_>, peer: Version) -> Result<Reply, DecodeError> {
    if peer < MEMBERS_SINCE {
        let context_id = IfPresent::<Size>::unpack(reader, CONTEXT_ID, peer)?;
        return Ok(Reply::Group { members: Vec::new(), context_id, info: Vec::new(), jobs: Vec::new() });
    }
    let members = Many::<Proc>::unpack(reader, "Group.members", peer)?;
    if peer < INFO_SINCE {
        let context_id = Some(reader.unpack::<Size>(CONTEXT_ID)?);
        let jobs = unpack_entries::<CompulsoryString>(reader, "Group.jobs")?;
        return Ok(Reply::Group { members, context_id, info: Vec::new(), jobs });
    }
    let has_context_id = reader.unpack::<Bool>(CONTEXT_ID)?;
    let context_id = if has_context_id { Some(reader.unpack::<Size>(CONTEXT_ID)?) } else { None };
    let info = Each::<Info>::unpack(reader, "Group.info", peer)?;
    Ok(Reply::Group { members, context_id, info, jobs: Vec::new() })
}

const CONTEXT_ID: &str = "Group.context_id";
