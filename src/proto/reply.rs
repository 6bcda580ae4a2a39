//! Replies: the layout for each command.
//!
//! All but the answer to a request for job information begin with a status. After an error status, results follow only
//! if the operation succeeded in part.

use super::collective::Jobs;
use super::data::{Data, Job, pack_job, unpack_job_info};
use super::group::{Constructed, unpack_constructed};
use super::layout::{Layout, Many, One, Rest};
use super::services::with_requests;
use super::{Command, Credential, Dialect, Group, Reply, Version};
use crate::bfrops::wire::{ByteObject, CompulsoryString, DeviceDistance, Info, Kval, Pdata, Size, Status};
use crate::bfrops::{DecodeError, DecodeLimits, EncodeError, Reader, Writer};
use crate::types::{Namespace, ProcId, Text};

/// The payload of a reply to a request of the given command.
///
/// # Errors
/// [`EncodeError`] if the peer's encoding cannot carry it.
pub fn encode(reply: &Reply, command: Command, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::new(dialect.codec);
    // Clients before release 5.0 drop the values that a lookup found, if the status is no success.
    let drops_found = command == Command::Lookup && dialect.peer < Version::new(5, 0, 0);
    match reply {
        Reply::JobInfo { .. } => {}
        Reply::Partial { status: Status::ERR_PARTIAL_SUCCESS, .. } if drops_found => {
            writer.pack::<Status>(&Status::SUCCESS)?;
        }
        Reply::Status(status) | Reply::Partial { status, .. } => writer.pack::<Status>(status)?,
        _ => writer.pack::<Status>(&Status::SUCCESS)?,
    }
    match reply {
        Reply::Partial { results, .. } => pack_results(results, command, &mut writer, dialect.peer)?,
        results => pack_results(results, command, &mut writer, dialect.peer)?,
    }
    Ok(writer.into_bytes())
}

/// Reads the payload of a reply to a request of the given command. Bytes behind it are ignored.
///
/// # Errors
/// [`DecodeError`] if the bytes are no such reply.
pub fn decode(payload: &[u8], command: Command, dialect: Dialect, limits: &DecodeLimits) -> Result<Reply, DecodeError> {
    let mut reader = Reader::new(payload, dialect.codec, limits)?;
    if matches!(command, Command::JobInfo | Command::StoreFallback) {
        return unpack_job_info(&mut reader, lone_status(payload, dialect, limits), dialect.peer);
    }
    let status = reader.unpack::<Status>("status")?;
    if status == Status::SUCCESS {
        let is_lone = reader.is_at_end();
        let results = unpack_results(command, &mut reader, dialect.peer);
        return if is_lone { Ok(results.unwrap_or(Reply::Status(status))) } else { results };
    }
    // Reference servers append empty results to some errors and nothing to others.
    let results = match command {
        // Only our own servers send it, and only to our own clients.
        Command::Fence => Many::<ProcId>::unpack(&mut reader, "Fence.missing", dialect.peer).map(Reply::Procs),
        _ => unpack_results(command, &mut reader, dialect.peer),
    };
    match results {
        Ok(results) => Ok(results.with_status(status)),
        Err(_) => Ok(Reply::Status(status)),
    }
}

/// The status, if the message holds nothing else.
fn lone_status(payload: &[u8], dialect: Dialect, limits: &DecodeLimits) -> Option<Status> {
    let mut reader = Reader::new(payload, dialect.codec, limits).ok()?;
    let status = reader.unpack::<Status>("status").ok()?;
    reader.is_at_end().then_some(status)
}

impl Reply {
    /// The answer with these results and this status: the status alone if there are no results.
    #[must_use]
    pub fn with_status(self, status: Status) -> Self {
        match status {
            Status::SUCCESS => self,
            status if self.is_empty() => Self::Status(status),
            status => Self::Partial { status, results: Box::new(self) },
        }
    }

    /// Whether results are empty, so that their status is the whole answer.
    fn is_empty(&self) -> bool {
        match self {
            // A number from a failed operation means nothing.
            Self::Status(_) | Self::IofPulled(_) => true,
            Self::Data(data) => data.is_empty(),
            Self::Lookup(found) => found.is_empty(),
            Self::Infos(infos) => infos.is_empty(),
            Self::Distances(distances) => distances.is_empty(),
            Self::Entries(entries) => entries.is_empty(),
            Self::Procs(procs) => procs.is_empty(),
            Self::Group { members, context_id, info, jobs } => {
                members.is_empty() && context_id.unwrap_or_default() == 0 && info.is_empty() && jobs.is_empty()
            }
            Self::Credential(Credential { bytes, info }) => bytes.is_empty() && info.is_empty(),
            Self::Spawned { .. } | Self::JobInfo { .. } | Self::Nodes(_) | Self::Partial { .. } => false,
        }
    }
}

fn pack_results(reply: &Reply, command: Command, writer: &mut Writer, peer: Version) -> Result<(), EncodeError> {
    match reply {
        Reply::Status(_) => Ok(()),
        // Results inside results would have to carry a second status.
        Reply::Partial { .. } => Err(EncodeError::WrongReply { command: command.to_raw() }),
        Reply::JobInfo { namespace, entries } | Reply::Spawned { namespace, entries } => {
            pack_job(namespace, entries, writer, peer)
        }
        Reply::Data(jobs) if command == Command::Connect => Jobs::pack(jobs, writer, peer),
        Reply::Data(data) => Data::pack(data, writer, peer),
        Reply::Lookup(found) => Many::<Pdata>::pack(found, writer, peer),
        Reply::Infos(infos) => Many::<Info>::pack(infos, writer, peer),
        Reply::Credential(Credential { bytes, info }) => {
            writer.pack::<ByteObject>(bytes)?;
            Many::<Info>::pack(info, writer, peer)
        }
        Reply::IofPulled(reference) => writer.pack::<Size>(reference),
        Reply::Group { members, context_id, info, jobs } => {
            Constructed { members, context_id: *context_id, info, jobs }.pack(writer, peer)
        }
        Reply::Distances(distances) => Many::<DeviceDistance>::pack(distances, writer, peer),
        Reply::Entries(entries) => Rest::<Kval>::pack(entries, writer, peer),
        Reply::Procs(procs) => Many::<ProcId>::pack(procs, writer, peer),
        Reply::Nodes(names) => writer.pack::<CompulsoryString>(names),
    }
}

/// Reference servers leave out even the count when their host finishes at once, and when no host is needed.
fn unpack_infos(reader: &mut Reader<'_>, peer: Version) -> Result<Vec<Info>, DecodeError> {
    if reader.is_at_end() { Ok(Vec::new()) } else { Many::<Info>::unpack(reader, "Infos", peer) }
}

/// The results in a reply, by their type.
trait UnpackResults {
    fn unpack_results(reader: &mut Reader<'_>, peer: Version) -> Result<Reply, DecodeError>;
}

macro_rules! results {
    ($($answer:ty: |$reader:ident, $peer:pat_param| $results:expr;)*) => {
        $(impl UnpackResults for $answer {
            fn unpack_results($reader: &mut Reader<'_>, $peer: Version) -> Result<Reply, DecodeError> {
                $results
            }
        })*
    };
}

results! {
    (): |_reader, _| Ok(Reply::Status(Status::SUCCESS));
    Job: |reader, peer| unpack_job_info(reader, None, peer);
    Data: |reader, peer| Self::unpack(reader, "Data", peer).map(Reply::Data);
    Jobs: |reader, peer| Self::unpack(reader, "Jobs", peer).map(Reply::Data);
    Vec<Info>: |reader, peer| unpack_infos(reader, peer).map(Reply::Infos);
    Vec<Pdata>: |reader, peer| Many::<Pdata>::unpack(reader, "Lookup", peer).map(Reply::Lookup);
    Vec<DeviceDistance>: |reader, peer| {
        Many::<DeviceDistance>::unpack(reader, "Distances", peer).map(Reply::Distances)
    };
    Vec<Kval>: |reader, _| reader.unpack_rest::<Kval>("Entries").map(Reply::Entries);
    Vec<ProcId>: |reader, peer| Many::<ProcId>::unpack(reader, "Procs", peer).map(Reply::Procs);
    u64: |reader, peer| One::<Size>::unpack(reader, "IofPulled", peer).map(Reply::IofPulled);
    Text: |reader, _| reader.unpack::<CompulsoryString>("Nodes").map(Reply::Nodes);
    Group: |reader, peer| unpack_constructed(reader, peer);
    Namespace: |reader, _| {
        let namespace = reader.unpack::<CompulsoryString>("Spawned.namespace")?;
        Ok(Reply::Spawned { namespace, entries: reader.unpack_rest::<Kval>("Spawned.entry")? })
    };
    Credential: |reader, peer| {
        let bytes = reader.unpack::<ByteObject>("Credential.credential")?;
        let info = Many::<Info>::unpack(reader, "Credential.info", peer)?;
        Ok(Reply::Credential(Credential { bytes, info }))
    };
}

/// Makes [`unpack_results`] from the table of requests.
macro_rules! replies {
    ($($form:ident { $(
        $(#[$doc:meta])* $command:ident = $code:literal $(, $body:ty as $layout:ty)? => $answer:ty;
    )* })*) => {
        fn unpack_results(command: Command, reader: &mut Reader<'_>, peer: Version) -> Result<Reply, DecodeError> {
            match command {
                $($(Command::$command => <$answer>::unpack_results(reader, peer),)*)*
            }
        }
    };
}

with_requests!(replies);
