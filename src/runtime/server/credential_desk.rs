//! The server's own service of credentials.
//!
//! A native credential is a secret of 256 random bits. The server notes the process that got it, with the user and the
//! group that the kernel has reported. So only this server can check it, and only while the process is connected. A
//! credential of munge is the statement of a daemon about the server's own user. Each server of the same realm can check
//! it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use nix::unistd::{getegid, geteuid};

use super::loop_messages::LoopSender;
use super::usage_desk::{ReplyTo, answer};
use crate::keys;
use crate::proto::{Credential, GetCredential, ValidateCredential};
use crate::runtime::shared::prover::Prover;
use crate::runtime::shared::threads::spawn;
use crate::server::{HostReply, Requester};
use crate::types::{Info, InfoFlags, Key, ProcId, Status, Value};

/// The service.
pub(super) struct CredentialDesk {
    loop_sender: LoopSender,
    munge: Option<Arc<dyn Prover>>,
    /// The credential of each process, and the ids that it proves.
    issued: BTreeMap<ProcId, Issued>,
    by_text: BTreeMap<Vec<u8>, ProcId>,
    /// Each thread that asks munge has a copy.
    asking: Arc<()>,
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

/// Threads that ask munge at a time.
const ASKING_MAX: usize = 64;

/// Directives beside the kind.
const KNOWN: [&str; 3] = [keys::USERID.name(), keys::GRPID.name(), keys::TIMEOUT.name()];

impl CredentialDesk {
    pub(super) fn new(loop_sender: LoopSender, munge: Option<Arc<dyn Prover>>) -> Self {
        Self { loop_sender, munge, issued: BTreeMap::new(), by_text: BTreeMap::new(), asking: Arc::new(()) }
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
        self.outside(reply_to, move || match munge.credential() {
            Ok(text) => reply(text, Kind::Munge),
            Err(error) => {
                tracing::info!(%error, "munge makes no credential");
                native.unwrap_or(HostReply::Status(Status::ERR_NOT_SUPPORTED))
            }
        });
    }

    /// Checks a credential.
    pub(super) fn check(&self, request: ValidateCredential, reply_to: ReplyTo) {
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
        self.outside(reply_to, move || match munge.check(&text) {
            Ok((uid, gid)) => facts(uid, gid, Kind::Munge),
            Err(error) => {
                tracing::info!(%error, "munge does not accept a credential");
                HostReply::Status(Status::ERR_INVALID_CRED)
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

    /// Asks the daemon on another thread: it may answer late.
    fn outside(&self, reply_to: ReplyTo, ask: impl FnOnce() -> HostReply + Send + 'static) {
        if Arc::strong_count(&self.asking) > ASKING_MAX {
            return answer(&self.loop_sender, reply_to, HostReply::Status(Status::ERR_OUT_OF_RESOURCE));
        }
        let (loop_sender, asking) = (self.loop_sender.clone(), Arc::clone(&self.asking));
        let (sender, receiver) = crossbeam::channel::bounded(1);
        let _ = sender.send(reply_to);
        let asked = receiver.clone();
        let started = spawn("modex-munge", move || {
            if let Ok(reply_to) = asked.try_recv() {
                answer(&loop_sender, reply_to, ask());
            }
            drop(asking);
        });
        if let Err(error) = started
            && let Ok(reply_to) = receiver.try_recv()
        {
            tracing::warn!(%error, "the server cannot start a thread that asks munge");
            answer(&self.loop_sender, reply_to, HostReply::Status(Status::ERR_OUT_OF_RESOURCE));
        }
    }
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
        } else if directive.flags().contains(InfoFlags::REQUIRED) && !KNOWN.contains(&key) {
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
    use super::*;

    #[test]
    fn the_kinds_keep_their_order_and_unknown_ones_are_left_out() {
        let of = |names: &str| kinds(&[info(keys::CRED_TYPE.name(), names)]);
        assert_eq!(of("kerberos, munge,native"), Ok(vec![Kind::Munge, Kind::Native]));
        assert_eq!((of("kerberos"), kinds(&[])), (Err(Status::ERR_NOT_SUPPORTED), Ok(vec![Kind::Native, Kind::Munge])));
        assert_eq!(kinds(&[info(keys::CRED_TYPE.name(), 7_u32)]), Err(Status::ERR_BAD_PARAM));
        let required = Info { flags: InfoFlags::REQUIRED.bits(), ..info("own.key", true) };
        assert_eq!(kinds(&[required]), Err(Status::ERR_NOT_SUPPORTED));
        assert_ne!(secret(), secret());
    }
}
