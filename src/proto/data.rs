//! Values of processes and jobs: the messages COMMIT, GETNB, REQ and related ones.

use super::job_info::pack_job_entry;
use super::layout::{IfPresent, Layout, Many, One, Rest, pack_entries_of, unpack_entries};
use super::{Commit, Get, RankData, Reply, Version};
use crate::bfrops::wire::{self, CompulsoryString, Info, Kval, Namespace, Proc};
use crate::bfrops::{Codec, DecodeError, DecodeProblem, EncodeError, Reader, Writer};
use crate::types::{self, Key, ProcId, Rank, Scope, Status, Text, footprint};

/// One scope and one buffer of entries for each part.
impl Layout for Commit {
    type Value = Self;

    fn pack(value: &Self, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
        let kind = if writer.codec().described { DESCRIBED } else { NOT_DESCRIBED };
        let entries = value.parts.iter().flat_map(|(_, entries)| entries);
        writer.reserve(entries.map(size_of_entry).fold(0, usize::saturating_add).min(RESERVED_BYTES_MAX));
        if peer >= Version::FIRST_WITH_REMOVALS {
            // Removals come first, as that release sends them.
            for (scope, entries) in &value.parts {
                let mut removed = entries.iter().filter(|entry| entry.is_removal()).peekable();
                if removed.peek().is_some() {
                    writer.pack::<wire::Scope>(&scope.to_removal())?;
                    writer.pack_buffer(kind, |writer| removed.try_for_each(|entry| writer.pack::<Kval>(entry)))?;
                }
            }
        }
        for (scope, entries) in &value.parts {
            let mut kept = entries.iter().filter(|entry| peer < Version::FIRST_WITH_REMOVALS || !entry.is_removal());
            writer.pack::<wire::Scope>(&scope.to_raw())?;
            writer.pack_buffer(kind, |writer| kept.try_for_each(|entry| writer.pack::<Kval>(entry)))?;
        }
        Ok(())
    }

    fn unpack(reader: &mut Reader<'_>, _: &'static str, _: Version) -> Result<Self, DecodeError> {
        let mut parts = Vec::new();
        while !reader.is_at_end() {
            let code = reader.unpack::<wire::Scope>("Commit.scope")?;
            let removed_from = Scope::of_removal(code);
            let scope = removed_from.or(Scope::from_raw(code)).filter(|&scope| scope != Scope::Internal);
            let scope = scope.ok_or_else(|| reader.error(DecodeProblem::Scope { code }))?;
            let (kind, bytes) = reader.unpack_buffer("Commit.buffer")?;
            let codec = Codec { described: kind == DESCRIBED, ..reader.codec() };
            let mut entries = reader.inside(bytes, codec, |reader| reader.unpack_rest::<Kval>("Commit.entry"))?;
            if removed_from.is_some() {
                entries.iter_mut().for_each(|entry| entry.value = types::Value::Undefined);
            }
            parts.push((scope, entries));
        }
        Ok(Self { parts })
    }
}

/// The approximate size of an entry of a commit.
fn size_of_entry(entry: &types::Kval) -> usize {
    footprint(&entry.value).unwrap_or_default().saturating_add(entry.key.as_str().len())
}

/// Memory that is taken for a commit before it is written; larger ones are rare.
const RESERVED_BYTES_MAX: usize = 16 << 20;

/// Buffer type byte of buffers without descriptions.
pub(super) const NOT_DESCRIBED: u8 = 1;
/// Buffer type byte of fully described buffers.
pub(super) const DESCRIBED: u8 = 2;

impl Layout for Get {
    type Value = Self;

    fn pack(value: &Self, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
        Whose::pack(&value.proc, writer, peer)?;
        Many::<Info>::pack(&value.directives, writer, peer)?;
        IfPresent::<Key>::pack(&value.key, writer, peer)
    }

    fn unpack(reader: &mut Reader<'_>, _: &'static str, peer: Version) -> Result<Self, DecodeError> {
        let proc = Whose::unpack(reader, "Get.proc", peer)?;
        let directives = Many::<Info>::unpack(reader, "Get.directives", peer)?;
        // Foreign clients request everything by no key, by NULL, or by an empty key.
        let key = IfPresent::<wire::String>::unpack(reader, "Get.key", peer)?.flatten();
        let key = key.filter(|key| !key.as_bytes().is_empty());
        let key = key.map(|key| Key::from_bytes(key.as_bytes())).transpose().map_err(|e| reader.error(e))?;
        Ok(Self { proc, directives, key })
    }
}

/// A process as two operations instead of one.
pub(super) struct Whose;

impl Layout for Whose {
    type Value = ProcId;

    fn pack(value: &ProcId, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
        writer.pack::<Namespace>(&value.namespace)?;
        writer.pack::<Rank>(&value.rank)
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, _: Version) -> Result<ProcId, DecodeError> {
        let namespace = reader.unpack::<Namespace>(field)?;
        Ok(ProcId { namespace, rank: reader.unpack::<Rank>(field)? })
    }
}

/// Data of processes: one object for each.
pub(super) struct Data;

impl Layout for Data {
    type Value = Vec<RankData>;

    fn pack(value: &Vec<RankData>, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
        value.iter().try_for_each(|data| pack_entries_of::<Proc>(writer, &data.proc, &data.entries))
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, _: Version) -> Result<Vec<RankData>, DecodeError> {
        let objects = unpack_entries::<Proc>(reader, field)?;
        Ok(objects.into_iter().map(|(proc, entries)| RankData { proc, entries }).collect())
    }
}

/// Job information, as the results of a reply.
pub(super) struct Job;

/// A namespace and its entries up to the end of the message: job information.
pub(super) fn pack_job(
    namespace: &Text,
    entries: &[Kval],
    writer: &mut Writer,
    peer: Version,
) -> Result<(), EncodeError> {
    writer.pack::<CompulsoryString>(namespace)?;
    entries.iter().try_for_each(|entry| pack_job_entry(writer, entry, peer))
}

/// The reply to REQ has no status before it. A failed server sends a status anyway, which differs from a string: its
/// number stands where a length would.
pub(super) fn unpack_job_info(
    reader: &mut Reader<'_>,
    status: Option<Status>,
    peer: Version,
) -> Result<Reply, DecodeError> {
    if let Some(status) = status {
        return Ok(Reply::Status(status));
    }
    let namespace = One::<CompulsoryString>::unpack(reader, "JobInfo.namespace", peer)?;
    let entries = Rest::<Kval>::unpack(reader, "JobInfo.entry", peer)?;
    Ok(Reply::JobInfo { namespace, entries })
}
