//! Requests of processes for the output of ranks (`PMIx_IOF_pull`) and to their input (`PMIx_IOF_push`), read into what
//! the launcher can do. Nothing is forwarded here.
//!
//! Source: PMIx Standard, chapter on tools; RFC0025.

use std::collections::BTreeSet;

use modex::keys::{self, TypedKey};
use modex::types::codes::iof_channel;
use modex::types::{Info, ProcId, Rank, Status};
use modex::{IofPull, IofPush};

use super::children::Channel;

/// The most bytes of one push.
const PUSHED_BYTES_MAX: usize = 1 << 20;

/// The most processes of one request. A launcher runs no more ranks.
const PROCS_MAX: usize = 4096;

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum IoRefusal {
    /// A directive that must be honoured, and can't.
    #[error("it requires {key}, which modex run does not support")]
    Required {
        /// Its key.
        key: String,
    },
    /// A directive of the wrong type.
    #[error("the value of {key} has the wrong type")]
    WrongType {
        /// Its key.
        key: &'static str,
    },
    /// A copy, and no copy.
    #[error("it asks for a copy of output, and to redirect it")]
    Contradiction,
    /// No output of ranks.
    #[error("ranks have only standard output and standard error")]
    NoChannel,
    /// Too many processes.
    #[error("it names more than {PROCS_MAX} processes")]
    TooMany,
    /// A group of processes that no pull can mean.
    #[error("modex run forwards the output of ranks and of whole jobs, and not of {rank}")]
    Group {
        /// Its rank.
        rank: Rank,
    },
    /// Too much at once.
    #[error("it pushes more than {PUSHED_BYTES_MAX} bytes at once")]
    TooLong,
    /// An unknown job or rank.
    #[error("no such rank runs")]
    NotFound,
    /// A rank without a pipe.
    #[error("the rank's standard input takes no pushes; modex run --stdin tools gives each rank one that does")]
    NoInput,
    /// A rank whose input was closed.
    #[error("the rank's standard input has ended")]
    InputEnded,
}

impl IoRefusal {
    /// The answer for the requester.
    pub(super) const fn status(&self) -> Status {
        match self {
            Self::Required { .. } | Self::NoChannel | Self::Group { .. } => Status::ERR_NOT_SUPPORTED,
            Self::WrongType { .. } | Self::Contradiction => Status::ERR_BAD_PARAM,
            Self::TooLong | Self::TooMany => Status::ERR_OUT_OF_RESOURCE,
            Self::NotFound => Status::ERR_NOT_FOUND,
            // Tools with OpenPMIx 6 hang after any other failure of a push.
            Self::NoInput | Self::InputEnded => Status::ERR_IOF_COMPLETE,
        }
    }
}

/// Processes whose output is wanted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PullRequest {
    pub(super) procs: BTreeSet<ProcId>,
    pub(super) channels: Vec<Channel>,
    /// Whether it asks for a copy in so many words.
    pub(super) is_copy: bool,
}

/// Bytes for the input of processes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PushRequest {
    pub(super) targets: BTreeSet<ProcId>,
    pub(super) bytes: Vec<u8>,
    /// Whether the input ends behind them.
    pub(super) is_end: bool,
}

/// Facts that the server adds.
const OF_SERVER: [&str; 2] = [keys::USERID.name(), keys::GRPID.name()];

/// Directives of a pull that are honoured even if they are required.
pub(super) const KNOWN_OF_PULL: [&str; 2] = [keys::IOF_COPY.name(), keys::IOF_REDIRECT.name()];

/// Directives of a push that are honoured even if they are required.
pub(super) const KNOWN_OF_PUSH: [&str; 2] = [keys::IOF_COMPLETE.name(), keys::IOF_PUSH_STDIN.name()];

impl PullRequest {
    /// Reads a request. `None`: nobody wants this output any more. The server knows whether it is a copy.
    pub(super) fn read(pull: IofPull) -> Result<Option<Self>, IoRefusal> {
        if flag(&pull.directives, keys::IOF_STOP)? {
            return Ok(None);
        }
        check_required(&pull.directives, &KNOWN_OF_PULL)?;
        let is_copy = flag(&pull.directives, keys::IOF_COPY)?;
        if is_copy && flag(&pull.directives, keys::IOF_REDIRECT)? {
            return Err(IoRefusal::Contradiction);
        }
        let channels: Vec<Channel> = [Channel::Out, Channel::Error]
            .into_iter()
            .filter(|channel| pull.channels & number(*channel) != 0)
            .collect();
        if channels.is_empty() {
            return Err(IoRefusal::NoChannel);
        }
        let procs = distinct(pull.procs)?;
        match procs.iter().map(|proc| proc.rank).find(|rank| matches!(rank, Rank::LocalNode | Rank::LocalPeers)) {
            Some(rank) => Err(IoRefusal::Group { rank }),
            None => Ok(Some(Self { procs, channels, is_copy })),
        }
    }
}

impl PushRequest {
    /// Reads a request.
    pub(super) fn read(push: IofPush) -> Result<Self, IoRefusal> {
        check_required(&push.directives, &KNOWN_OF_PUSH)?;
        let is_end = push.bytes.is_empty() || flag(&push.directives, keys::IOF_COMPLETE)?;
        if push.bytes.len() > PUSHED_BYTES_MAX {
            return Err(IoRefusal::TooLong);
        }
        Ok(Self { targets: distinct(push.targets)?, bytes: push.bytes, is_end })
    }
}

/// The number of a channel in the standard.
pub(super) const fn number(channel: Channel) -> u16 {
    match channel {
        Channel::Out => iof_channel::FWD_STDOUT_CHANNEL,
        Channel::Error => iof_channel::FWD_STDERR_CHANNEL,
    }
}

/// Whether a rank is among these processes of its job.
pub(super) fn names(procs: &BTreeSet<ProcId>, proc: &ProcId) -> bool {
    procs.contains(proc) || procs.contains(&ProcId { namespace: proc.namespace.clone(), rank: Rank::Wildcard })
}

/// Each process once.
fn distinct(procs: Vec<ProcId>) -> Result<BTreeSet<ProcId>, IoRefusal> {
    let procs: BTreeSet<ProcId> = procs.into_iter().collect();
    if procs.len() > PROCS_MAX { Err(IoRefusal::TooMany) } else { Ok(procs) }
}

/// Whether a rank stands for all of its job on this machine.
pub(super) const fn is_all(rank: Rank) -> bool {
    matches!(rank, Rank::Wildcard | Rank::LocalNode | Rank::LocalPeers)
}

fn check_required(directives: &[Info], known: &[&str]) -> Result<(), IoRefusal> {
    let is_known = |key: &str| OF_SERVER.contains(&key) || known.contains(&key);
    let refused = directives.iter().find(|info| keys::is_unmet(info, is_known));
    refused.map_or(Ok(()), |info| Err(IoRefusal::Required { key: info.key.to_string() }))
}

fn flag(directives: &[Info], key: TypedKey<bool>) -> Result<bool, IoRefusal> {
    let found = directives.iter().find(|info| info.key.as_str() == key.name());
    found.map_or(Ok(false), |info| info.value.as_bool().ok_or(IoRefusal::WrongType { key: key.name() }))
}

#[cfg(test)]
mod tests {
    use modex::types::{InfoFlags, Key, Namespace, Value};

    use super::*;

    const BOTH: u16 = iof_channel::FWD_STDOUT_CHANNEL | iof_channel::FWD_STDERR_CHANNEL;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    fn required(info: Info) -> Info {
        Info { flags: InfoFlags::REQUIRED.bits(), ..info }
    }

    fn everybody() -> Vec<ProcId> {
        vec![ProcId { namespace: Namespace::new("a").unwrap(), rank: Rank::Wildcard }]
    }

    fn pull(directives: Vec<Info>, channels: u16) -> Result<Option<Vec<Channel>>, IoRefusal> {
        let pull = IofPull { procs: everybody(), directives, channels, local_id: None };
        PullRequest::read(pull).map(|request| request.map(|request| request.channels))
    }

    fn push(directives: Vec<Info>, bytes: &[u8]) -> Result<bool, IoRefusal> {
        PushRequest::read(IofPush::new(everybody(), directives, bytes.to_vec())).map(|request| request.is_end)
    }

    #[test]
    fn required_directives_of_a_pull_are_honoured_or_refused() {
        let [copy, redirect] = [keys::IOF_COPY.name(), keys::IOF_REDIRECT.name()].map(|key| required(info(key, true)));
        assert_eq!(pull(vec![copy.clone()], BOTH), Ok(Some(vec![Channel::Out, Channel::Error])));
        assert_eq!(pull(vec![redirect.clone()], BOTH | 8), Ok(Some(vec![Channel::Out, Channel::Error])));
        assert_eq!(pull(vec![copy, redirect], BOTH), Err(IoRefusal::Contradiction));
        assert_eq!(pull(Vec::new(), iof_channel::FWD_STDERR_CHANNEL), Ok(Some(vec![Channel::Error])));
        assert_eq!(pull(Vec::new(), iof_channel::FWD_STDDIAG_CHANNEL), Err(IoRefusal::NoChannel));
        assert_eq!(pull(vec![info(keys::IOF_STOP.name(), true)], BOTH), Ok(None));
        let xml = || info(keys::IOF_XML_OUTPUT.name(), true);
        assert!(pull(vec![xml()], BOTH).is_ok());
        let refused = IoRefusal::Required { key: keys::IOF_XML_OUTPUT.name().to_owned() };
        assert_eq!((refused.status(), pull(vec![required(xml())], BOTH)), (Status::ERR_NOT_SUPPORTED, Err(refused)));
        let wrong = IoRefusal::WrongType { key: keys::IOF_COPY.name() };
        assert_eq!(pull(vec![info(keys::IOF_COPY.name(), "yes")], BOTH), Err(wrong));
    }

    #[test]
    fn an_empty_push_and_one_that_says_so_end_the_input() {
        let end = || vec![required(info(keys::IOF_COMPLETE.name(), true))];
        assert_eq!((push(Vec::new(), b"a"), push(Vec::new(), b""), push(end(), b"a")), (Ok(false), Ok(true), Ok(true)));
        assert_eq!(push(Vec::new(), &vec![b'a'; PUSHED_BYTES_MAX]), Ok(false));
        assert_eq!(push(Vec::new(), &vec![b'a'; PUSHED_BYTES_MAX + 1]), Err(IoRefusal::TooLong));
        assert!(push(vec![required(info(keys::IOF_DROP_OLDEST.name(), true))], b"a").is_err());
    }

    #[test]
    fn the_wildcard_names_each_rank_of_its_job() {
        let proc = |job: &str| ProcId::new(Namespace::new(job).unwrap(), 2);
        let (all, one) = (BTreeSet::from_iter(everybody()), BTreeSet::from([proc("a")]));
        assert!(names(&all, &proc("a")) && names(&one, &proc("a")));
        assert!(!names(&all, &proc("b")) && !names(&one, &ProcId::new(proc("a").namespace, 1)));
    }

    /// A list of a million processes held up the launcher.
    #[test]
    fn each_process_counts_once_and_very_many_are_refused() {
        let named = |count: u32, copies: usize| -> Vec<ProcId> {
            let namespace = Namespace::new("a").unwrap();
            (0..count).flat_map(|rank| vec![ProcId::new(namespace.clone(), rank); copies]).collect()
        };
        let pull = |procs| {
            let read = PullRequest::read(IofPull { procs, directives: Vec::new(), channels: BOTH, local_id: None });
            read.map(|request| request.unwrap().procs.len())
        };
        let push = |procs| PushRequest::read(IofPush::new(procs, Vec::new(), Vec::new())).map(|it| it.targets.len());
        assert_eq!((pull(named(4096, 3)), push(named(4096, 3))), (Ok(4096), Ok(4096)));
        assert_eq!((pull(named(4097, 1)), push(named(4097, 1))), (Err(IoRefusal::TooMany), Err(IoRefusal::TooMany)));
        assert_eq!(IoRefusal::TooMany.status(), Status::ERR_OUT_OF_RESOURCE);
    }

    #[test]
    fn output_of_a_group_without_a_list_is_refused() {
        for rank in [Rank::LocalNode, Rank::LocalPeers] {
            let procs = vec![ProcId { namespace: Namespace::new("a").unwrap(), rank }];
            let pull = IofPull { procs, directives: Vec::new(), channels: BOTH, local_id: None };
            let refused = PullRequest::read(pull).map(|_| ()).unwrap_err();
            assert_eq!((refused.status(), refused), (Status::ERR_NOT_SUPPORTED, IoRefusal::Group { rank }));
        }
    }
}
