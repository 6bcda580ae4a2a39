//! The server's own service of credentials.
//!
//! A native credential is a secret of 256 random bits. The server notes the process that got it, with the user and the
//! group that the kernel has reported. So only this server can check it, and only while the process is connected. A
//! credential of munge is the statement of a daemon about the server's own user. Each server of the same realm can
//! check it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{RecvTimeoutError, bounded};
use nix::unistd::{getegid, geteuid};

use super::loop_messages::LoopSender;
use super::service_desk::{ReplyTo, answer, may_take_all};
use crate::keys;
use crate::proto::{Credential, GetCredential, ValidateCredential};
use crate::runtime::shared::prover::Prover;
use crate::runtime::shared::threads::spawn;
use crate::server::{HostReply, Requester, timeout};
use crate::types::{Info, Key, ProcId, Status, Value};

/// The service.
pub(super) struct CredentialDesk {
    loop_sender: LoopSender,
    munge: Option<Arc<dyn Prover>>,
    /// The credential of each process, and the ids that it proves.
    issued: BTreeMap<ProcId, Issued>,
    by_text: BTreeMap<Vec<u8>, ProcId>,
    /// For each process and its user: a value of which each thread that asks munge has a copy.
    asking: BTreeMap<(ProcId, u32), Arc<()>>,
}

struct Issued {
    text: Vec<u8>,
    uid: u32,
    gid: u32,
}

/// The kinds of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Native,
    Munge,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Munge => "munge",
        }
    }
}

/// The beginning of each native credential.
const NATIVE_PREFIX: &str = "modex-native:";

/// Random bytes of a native credential.
const SECRET_BYTES: usize = 32;

/// The longest credential that is checked. Munge's have some hundred bytes.
const CREDENTIAL_BYTES_MAX: usize = 16 << 10;

/// Requests of which munge is asked at a time: of one process, of one user, and all. Root and the server's user may
/// have all of them.
const ASKING_PER_PROCESS_MAX: usize = 8;
const ASKING_PER_USER_MAX: usize = ASKING_MAX / 2;
const ASKING_MAX: usize = 64;

/// The longest time for munge's answer. `PMIX_TIMEOUT` may be shorter.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// Directives of both requests.
pub(super) const UNDERSTOOD: [&str; 4] =
    [keys::CRED_TYPE.name(), keys::USERID.name(), keys::GRPID.name(), keys::TIMEOUT.name()];

impl CredentialDesk {
    pub(super) fn new(loop_sender: LoopSender, munge: Option<Arc<dyn Prover>>) -> Self {
        Self { loop_sender, munge, issued: BTreeMap::new(), by_text: BTreeMap::new(), asking: BTreeMap::new() }
    }

    /// Makes a credential for a process.
    pub(super) fn make(&mut self, requester: &Requester, request: &GetCredential, reply_to: ReplyTo) {
        let kinds = match kinds(&request.directives) {
            Ok(kinds) => kinds,
            Err(status) => return answer(&self.loop_sender, reply_to, HostReply::Status(status)),
        };
        // The daemon of munge speaks about the server's own user.
        let is_own = (requester.uid, requester.gid) == (geteuid().as_raw(), getegid().as_raw());
        let munge = self.munge.clone().filter(|_| is_own);
        let is_munge_first = kinds.first() == Some(&Kind::Munge);
        let native = if kinds.contains(&Kind::Native) { self.native(requester) } else { None };
        let native = native.map(|text| reply(text, Kind::Native));
        let Some(munge) = munge.filter(|_| is_munge_first || (native.is_none() && kinds.contains(&Kind::Munge))) else {
            let reply = native.unwrap_or(HostReply::Status(Status::ERR_NOT_SUPPORTED));
            return answer(&self.loop_sender, reply_to, reply);
        };
        let time_max = answer_time(&request.directives);
        self.outside(requester, time_max, (reply_to, native), move || match munge.credential() {
            Ok(text) => Ok(reply(text, Kind::Munge)),
            Err(error) => {
                tracing::info!(%error, "munge makes no credential");
                Err(Status::ERR_NOT_SUPPORTED)
            }
        });
    }

    /// Checks a credential.
    pub(super) fn check(&mut self, requester: &Requester, request: ValidateCredential, reply_to: ReplyTo) {
        let ValidateCredential { credential, directives, .. } = request;
        let refused = |reply_to, status| answer(&self.loop_sender, reply_to, HostReply::Status(status));
        let kinds = match kinds(&directives) {
            Ok(kinds) => kinds,
            Err(status) => return refused(reply_to, status),
        };
        if credential.len() > CREDENTIAL_BYTES_MAX {
            return refused(reply_to, Status::ERR_INVALID_CRED);
        }
        // C programs count the end of a text, or do not.
        let text = credential.strip_suffix(&[0]).unwrap_or(&credential);
        if let Some(proc) = self.by_text.get(text).filter(|_| kinds.contains(&Kind::Native)) {
            let facts = self.issued.get(proc).map(|issued| facts(issued.uid, issued.gid, Kind::Native));
            let reply = facts.unwrap_or(HostReply::Status(Status::ERR_INVALID_CRED));
            return answer(&self.loop_sender, reply_to, reply);
        }
        let is_native = text.starts_with(NATIVE_PREFIX.as_bytes());
        let Some(munge) = self.munge.clone().filter(|_| !is_native && kinds.contains(&Kind::Munge)) else {
            return refused(reply_to, Status::ERR_INVALID_CRED);
        };
        let text = [text, &[0]].concat();
        self.outside(requester, answer_time(&directives), (reply_to, None), move || match munge.check(&text) {
            Ok((uid, gid)) => Ok(facts(uid, gid, Kind::Munge)),
            Err(error) => {
                tracing::info!(%error, "munge does not accept a credential");
                Err(Status::ERR_INVALID_CRED)
            }
        });
    }

    /// Whether a process has a credential.
    pub(super) fn has(&self, proc: &ProcId) -> bool {
        self.issued.contains_key(proc)
    }

    /// The last connection of a process has ended.
    pub(super) fn note_end(&mut self, proc: &ProcId) {
        if let Some(issued) = self.issued.remove(proc) {
            self.by_text.remove(&issued.text);
        }
    }

    /// The credential of a process, the same for each of its requests.
    fn native(&mut self, requester: &Requester) -> Option<Vec<u8>> {
        let Requester { proc, uid, gid, .. } = requester;
        if let Some(issued) = self.issued.get(proc).filter(|issued| (issued.uid, issued.gid) == (*uid, *gid)) {
            return Some(issued.text.clone());
        }
        let text = secret()?;
        self.note_end(proc);
        self.by_text.insert(text.clone(), proc.clone());
        self.issued.insert(proc.clone(), Issued { text: text.clone(), uid: *uid, gid: *gid });
        Some(text)
    }

    /// Asks the daemon on another thread: it may answer late or never. Without its answer the requester gets `instead`,
    /// or a status.
    fn outside(
        &mut self,
        requester: &Requester,
        time_max: Duration,
        (reply_to, instead): (ReplyTo, Option<HostReply>),
        ask: impl FnOnce() -> Result<HostReply, Status> + Send + 'static,
    ) {
        let loop_sender = self.loop_sender.clone();
        let Some(place) = self.take_place(requester) else {
            let reply = instead.unwrap_or(HostReply::Status(Status::ERR_OUT_OF_RESOURCE));
            return answer(&loop_sender, reply_to, reply);
        };
        let (sender, received) = bounded(1);
        let asks = move || {
            // The waiting thread may have given up.
            let _ = sender.send(ask());
            drop(place);
        };
        let (holder, held) = bounded(1);
        let _ = holder.send((reply_to, instead));
        let settle = move |answered: Result<HostReply, Status>| {
            if let Ok((reply_to, instead)) = held.try_recv() {
                let reply = answered.unwrap_or_else(|status| instead.unwrap_or(HostReply::Status(status)));
                answer(&loop_sender, reply_to, reply);
            }
        };
        let settle_now = settle.clone();
        let waits = move || {
            settle(received.recv_timeout(time_max).unwrap_or_else(|error| match error {
                RecvTimeoutError::Timeout => Err(Status::ERR_TIMEOUT),
                // The other thread was not started, or the prover panicked.
                RecvTimeoutError::Disconnected => Err(Status::ERR_OUT_OF_RESOURCE),
            }));
        };
        let started = spawn("modex-munge-wait", waits).and_then(|_| spawn("modex-munge", asks));
        if let Err(error) = started {
            tracing::warn!(%error, "the server cannot start a thread that asks munge");
            settle_now(Err(Status::ERR_OUT_OF_RESOURCE));
        }
    }

    /// A place among the requests of which munge is asked.
    fn take_place(&mut self, requester: &Requester) -> Option<Arc<()>> {
        self.asking.retain(|_, place| Arc::strong_count(place) > 1);
        let count = |is_meant: &dyn Fn(&ProcId, u32) -> bool| -> usize {
            let meant = self.asking.iter().filter(|((proc, uid), _)| is_meant(proc, *uid));
            meant.map(|(_, place)| Arc::strong_count(place) - 1).sum()
        };
        let has_room = count(&|proc, _| *proc == requester.proc) < ASKING_PER_PROCESS_MAX
            && (may_take_all(requester.uid) || count(&|_, uid| uid == requester.uid) < ASKING_PER_USER_MAX)
            && count(&|_, _| true) < ASKING_MAX;
        let id = || (requester.proc.clone(), requester.uid);
        has_room.then(|| Arc::clone(self.asking.entry(id()).or_default()))
    }
}

/// The time for munge's answer.
fn answer_time(directives: &[Info]) -> Duration {
    timeout(directives).unwrap_or(ANSWER_TIME_MAX).min(ANSWER_TIME_MAX)
}

/// The kinds that a request permits, in its order. Unknown ones are left out.
fn kinds(directives: &[Info]) -> Result<Vec<Kind>, Status> {
    let mut found = None;
    for directive in directives {
        let key = directive.key.as_str();
        if key == keys::CRED_TYPE.name() {
            let names = directive.value.as_str().ok_or(Status::ERR_BAD_PARAM)?;
            let known = |name: &str| [Kind::Native, Kind::Munge].into_iter().find(|kind| kind.name() == name);
            let kinds: Vec<Kind> = names.split(',').filter_map(|name| known(name.trim())).collect();
            found = Some(kinds).filter(|kinds| !kinds.is_empty()).ok_or(Status::ERR_NOT_SUPPORTED)?.into();
        } else if keys::is_unmet(directive, |key| UNDERSTOOD.contains(&key)) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
    }
    Ok(found.unwrap_or_else(|| vec![Kind::Native, Kind::Munge]))
}

fn secret() -> Option<Vec<u8>> {
    let mut bytes = [0; SECRET_BYTES];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok()?;
    if filled < bytes.len() {
        return None;
    }
    let mut text = NATIVE_PREFIX.to_owned();
    bytes.iter().for_each(|byte| {
        let _ = write!(text, "{byte:02x}");
    });
    Some(text.into_bytes())
}

fn reply(bytes: Vec<u8>, kind: Kind) -> HostReply {
    HostReply::Credential(Credential { bytes, info: vec![info(keys::CRED_TYPE.name(), kind.name())] })
}

fn facts(uid: u32, gid: u32, kind: Kind) -> HostReply {
    let info =
        vec![info(keys::USERID.name(), uid), info(keys::GRPID.name(), gid), info(keys::CRED_TYPE.name(), kind.name())];
    HostReply::Infos { status: Status::SUCCESS, info }
}

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::{Receiver, Sender};

    use super::*;
    use crate::runtime::server::poller::{Poller, Token, Waker};
    use crate::runtime::shared::prover::ProofError;
    use crate::types::InfoFlags;
    use crate::types::Namespace;

    /// A daemon that answers when its other end is dropped.
    #[derive(Debug)]
    struct Hung(Receiver<()>);

    impl Prover for Hung {
        fn credential(&self) -> Result<Vec<u8>, ProofError> {
            let _ = self.0.recv();
            Err(ProofError::Absent)
        }

        fn check(&self, _credential: &[u8]) -> Result<(u32, u32), ProofError> {
            self.credential().map(|_| (0, 0))
        }
    }

    fn desk() -> (CredentialDesk, Sender<()>) {
        let (ends, ended) = bounded(0);
        let (loop_sender, _) = LoopSender::new(Waker::new(&Poller::new().unwrap(), Token(0)).unwrap());
        (CredentialDesk::new(loop_sender, Some(Arc::new(Hung(ended)))), ends)
    }

    fn requester(rank: u32, uid: u32) -> Requester {
        let proc = ProcId::new(Namespace::new("job").unwrap(), rank);
        Requester { proc, object: 0, uid, gid: getegid().as_raw() }
    }

    #[test]
    fn a_daemon_that_hangs_delays_a_request_for_its_time_and_others_have_their_share() {
        let (mut desk, _ends) = desk();
        let one_second = |kinds: &str| vec![info(keys::CRED_TYPE.name(), kinds), info(keys::TIMEOUT.name(), 1_u32)];
        let ask = |desk: &mut CredentialDesk, kinds| {
            let (sender, receiver) = bounded(1);
            let reply_to = ReplyTo::Caller(Box::new(move |reply| sender.send(reply).unwrap()));
            let request = GetCredential { directives: one_second(kinds) };
            desk.make(&requester(0, geteuid().as_raw()), &request, reply_to);
            receiver
        };
        let kind = |reply: HostReply| match reply {
            HostReply::Credential(credential) => Ok(credential.info[0].value.clone()),
            HostReply::Status(status) => Err(status),
            other => panic!("{other:?}"),
        };
        let waiting: Vec<_> = (0..8).map(|_| ask(&mut desk, "munge")).collect();
        // Beyond the share of a process nothing waits.
        assert_eq!(kind(ask(&mut desk, "munge,native").try_recv().unwrap()), Ok("native".into()));
        assert_eq!(kind(ask(&mut desk, "munge").try_recv().unwrap()), Err(Status::ERR_OUT_OF_RESOURCE));
        for reply in waiting {
            assert_eq!(kind(reply.recv().unwrap()), Err(Status::ERR_TIMEOUT));
        }
    }

    #[test]
    fn a_user_gets_a_part_of_the_places() {
        let (mut desk, _ends) = desk();
        let other = geteuid().as_raw() + 1;
        let places: Vec<_> = (0..64).map_while(|number| desk.take_place(&requester(number / 4, other))).collect();
        assert_eq!(places.len(), ASKING_PER_USER_MAX);
        assert!(desk.take_place(&requester(99, other + 1)).is_some());
        drop(places);
        assert!(desk.take_place(&requester(0, other)).is_some());
    }

    #[test]
    fn the_kinds_keep_their_order_and_unknown_ones_are_left_out() {
        let of = |names: &str| kinds(&[info(keys::CRED_TYPE.name(), names)]);
        assert_eq!(of("kerberos, munge,native"), Ok(vec![Kind::Munge, Kind::Native]));
        assert_eq!((of("kerberos"), kinds(&[])), (Err(Status::ERR_NOT_SUPPORTED), Ok(vec![Kind::Native, Kind::Munge])));
        assert_eq!(kinds(&[info(keys::CRED_TYPE.name(), 7_u32)]), Err(Status::ERR_BAD_PARAM));
        // A time limit as a text was ignored.
        for ignored in [info("own.key", true), info(keys::TIMEOUT.name(), "5")] {
            let required = Info { flags: InfoFlags::REQUIRED.bits(), ..ignored };
            assert_eq!(kinds(&[required]), Err(Status::ERR_NOT_SUPPORTED));
        }
        assert_ne!(secret(), secret());
    }
}
