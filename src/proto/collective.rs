//! Operations of many processes: fence, connect, disconnect.

use super::layout::{Layout, Many, Rest, pack_entries_of, unpack_entries};
use super::{Collective, RankData, Version};
use crate::bfrops::wire::{Info, Namespace, Proc};
use crate::bfrops::{DecodeError, EncodeError, Reader, Writer};
use crate::types::{ProcId, Rank};

/// A connect request. Clients of release 6.1 append their posted data, each scope as an info of its own behind the
/// counted ones. Groups carry the same among their directives, so it is kept there here, too.
pub(super) struct Connecting;

impl Layout for Connecting {
    type Value = Collective;

    fn pack(value: &Collective, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
        let is_posted = |info: &&Info| info.key.as_str() == POSTED_KEY;
        let posted: Vec<Info> = value.directives.iter().filter(is_posted).cloned().collect();
        let directives = value.directives.iter().filter(|info| !is_posted(info)).cloned().collect();
        Many::<Proc>::pack(&value.procs, writer, peer)?;
        Many::<Info>::pack(&directives, writer, peer)?;
        Rest::<Info>::pack(&posted, writer, peer)
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, peer: Version) -> Result<Collective, DecodeError> {
        let mut request = Collective::unpack(reader, field, peer)?;
        request.directives.extend(Rest::<Info>::unpack(reader, "Connect.posted", peer)?);
        Ok(request)
    }
}

/// PMIX_PROC_DATA.
const POSTED_KEY: &str = "pmix.pdata";

/// Job information of the connected namespaces: one object for each.
pub(super) struct Jobs;

impl Layout for Jobs {
    type Value = Vec<RankData>;

    fn pack(value: &Vec<RankData>, writer: &mut Writer, _: Version) -> Result<(), EncodeError> {
        value.iter().try_for_each(|job| pack_entries_of::<Namespace>(writer, &job.proc.namespace, &job.entries))
    }

    fn unpack(reader: &mut Reader<'_>, field: &'static str, _: Version) -> Result<Vec<RankData>, DecodeError> {
        let whole_job = |(namespace, entries)| RankData { proc: ProcId::new(namespace, Rank::Wildcard), entries };
        Ok(unpack_entries::<Namespace>(reader, field)?.into_iter().map(whole_job).collect())
    }
}
