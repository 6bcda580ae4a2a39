//! Permissions between processes and jobs: one table, and one function that every request uses.
//!
//! A process may act on its own job, the jobs of its own user, and the jobs that it is tied to. Processes of root and
//! of the server's user may act on every job. `docs/trust.md` shows the same table; a test compares the two.
//!
//! The server knows the users of a job from its announced local processes, and from `PMIX_USERID` in its registration.
//! A server of an ordinary user counts every other job as its own user's. A server of root does not guess: it treats
//! such a job as a stranger's.
//!
//! A refusal is the same for a stranger's job and for an unknown name, so it does not reveal the existing jobs.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::events::Event;
use crate::gds::Datastore;
use crate::server::interface::{PeerId, Requester};
use crate::server::state::{Bond, Group, Peer, Pool, RegisteredJob, ServerCore, Voice};
use crate::types::{Info, Namespace, ProcId, Status, Value};

/// Actions of a process on another job or its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::server) enum Action {
    Read,
    Query,
    Resolve,
    Raise,
    Hear,
    Map,
    PullOutput,
    PushInput,
    Control,
    Abort,
    Monitor,
    CleanUp,
}

/// Relations of a process to a job, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::server) enum Relation {
    /// The job is of another or an unknown user.
    Stranger,
    /// Both are connected or in one group, or one has started the other.
    Tied,
    /// The process has started the job.
    Parent,
    /// The job is the process's own, or another one of its user.
    Own,
}

/// Processes of root and of the server's user that count as trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Trust {
    All,
    Tools,
    Nobody,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct AccessRule {
    /// The action in the words of `docs/trust.md`.
    pub(in crate::server) words: &'static str,
    /// The weakest relation that permits it.
    pub(in crate::server) needs: Relation,
    pub(in crate::server) trust: Trust,
    /// The status for a refused process.
    pub(in crate::server) refusal: Status,
}

impl Action {
    #[cfg(test)]
    pub(in crate::server) const ALL: [Self; 12] = [
        Self::Read,
        Self::Query,
        Self::Resolve,
        Self::Raise,
        Self::Hear,
        Self::Map,
        Self::PullOutput,
        Self::PushInput,
        Self::Control,
        Self::Abort,
        Self::Monitor,
        Self::CleanUp,
    ];

    /// The table. A refused question ends as if the job did not exist, and a refused action with "no permissions".
    pub(in crate::server) const fn rule(self) -> AccessRule {
        use Relation::{Own, Parent, Tied};
        use Trust::{All, Nobody, Tools};
        const UNKNOWN: Status = Status::ERR_NOT_FOUND;
        const DENIED: Status = Status::ERR_NO_PERMISSIONS;
        let (needs, trust, refusal, words) = match self {
            Self::Read => (Tied, All, UNKNOWN, "Get values of a job or its processes, also through the host"),
            Self::Query => (Tied, All, UNKNOWN, "Query a job: its name, process table, sets and groups"),
            Self::Resolve => (Tied, All, Status::ERR_INVALID_NAMESPACE, "Resolve a job's peers and nodes"),
            Self::Raise => (Tied, All, DENIED, "Raise events in a job's handlers, invitations included"),
            Self::Hear => (Tied, Tools, UNKNOWN, "Hear a job's events"),
            Self::Map => (Own, Nobody, UNKNOWN, "Map the segment of a tied job"),
            Self::PullOutput => (Parent, All, DENIED, "Pull a job's output"),
            Self::PushInput => (Parent, All, DENIED, "Push to a job's standard input"),
            Self::Control => (Parent, All, DENIED, "Control a job (`PMIx_Job_control`)"),
            Self::Abort => (Parent, All, DENIED, "Abort a job's processes"),
            Self::Monitor => (Parent, All, DENIED, "Monitor a job's processes"),
            Self::CleanUp => (Own, Nobody, DENIED, "Register files for removal when a job or process ends"),
        };
        AccessRule { words, needs, trust, refusal }
    }
}

/// The requester. The ids are the kernel's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) proc: &'a ProcId,
    pub(super) uid: u32,
    /// Whether it came as a tool without an announcement of the host.
    pub(super) is_tool: bool,
}

impl<'a> From<&'a Peer> for Subject<'a> {
    fn from(peer: &'a Peer) -> Self {
        Self { proc: peer.proc(), uid: peer.user(), is_tool: peer.is_tool() }
    }
}

impl<'a> From<&'a Requester> for Subject<'a> {
    fn from(requester: &'a Requester) -> Self {
        Self { proc: &requester.proc, uid: requester.uid, is_tool: false }
    }
}

/// The target of an action.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) enum Object<'a> {
    /// A job. If it has processes of several users, each of these users may act on it, and so may each of its
    /// processes.
    Job(&'a Namespace),
    /// A job whose local processes must all be of the subject's user.
    WholeJob(&'a Namespace),
    /// A process, and its user.
    Process(&'a ProcId, u32),
    Group(&'a Group),
}

impl<S: Datastore> ServerCore<S> {
    /// Whether an action is permitted. The table holds the status of a refusal.
    pub(super) fn permit<'a>(
        &self,
        subject: impl Into<Subject<'a>>,
        action: Action,
        object: Object<'_>,
    ) -> Result<(), Status> {
        let subject = subject.into();
        let rule = action.rule();
        if self.is_counted(subject, rule.trust) || self.relation(subject, object) >= rule.needs {
            return Ok(());
        }
        let Subject { proc, uid, .. } = subject;
        tracing::debug!(%proc, uid, action = rule.words, ?object, "refused: the job is another user's");
        Err(rule.refusal)
    }

    /// The same as a boolean.
    pub(super) fn may<'a>(&self, subject: impl Into<Subject<'a>>, action: Action, object: Object<'_>) -> bool {
        self.permit(subject, action, object).is_ok()
    }

    /// The same for a connection. A closed one has no permissions.
    pub(in crate::server) fn permit_peer(&self, id: PeerId, action: Action, object: Object<'_>) -> Result<(), Status> {
        self.peers.get(id).map_or(Err(action.rule().refusal), |peer| self.permit(peer, action, object))
    }

    /// Whether a process may read what another process of this user has published.
    pub(crate) fn may_read(&self, reader: &Requester, publisher: &ProcId, publisher_uid: u32) -> bool {
        self.may(reader, Action::Read, Object::Process(publisher, publisher_uid))
    }

    /// The same for all processes that a request names. Each job is looked up once.
    pub(super) fn permit_all(&self, requester: &Requester, action: Action, procs: &[ProcId]) -> Result<(), Status> {
        let mut permitted = BTreeSet::new();
        let mut namespaces = ProcId::by_namespace(procs).map(|(namespace, _)| namespace);
        namespaces.try_for_each(|namespace| match permitted.insert(namespace) {
            true => self.permit(requester, action, Object::Job(namespace)),
            false => Ok(()),
        })
    }

    /// The same for all processes that infos hold as values.
    pub(super) fn permit_named(&self, requester: &Requester, action: Action, infos: &[Info]) -> Result<(), Status> {
        infos.iter().try_for_each(|info| self.permit_all(requester, action, &procs_in(&info.value)))
    }

    /// Whether an event goes to a process: the raiser may raise events there, or the hearer may hear the raiser's.
    pub(super) fn carries(&self, voice: Voice, event: &Event, hearer: &Peer) -> bool {
        match (voice, &event.source) {
            (Voice::Host, _) | (Voice::User(_), None) => true,
            (Voice::User(uid), Some(source)) => {
                let raiser = Subject { proc: source, uid, is_tool: false };
                self.may(raiser, Action::Raise, Object::Process(hearer.proc(), hearer.user()))
                    || self.may(hearer, Action::Hear, Object::Process(source, uid))
            }
            (Voice::OfSet, _) => {
                event.set_members().any(|member| self.may(hearer, Action::Query, Object::Job(&member.namespace)))
            }
        }
    }

    /// The users of a job; empty: unknown.
    fn users_of(&self, namespace: &Namespace) -> Cow<'_, BTreeSet<u32>> {
        match self.registry.job(namespace).map(RegisteredJob::users).filter(|users| !users.is_empty()) {
            Some(users) => Cow::Borrowed(users),
            None => Cow::Owned(Some(self.config.tools.own_uid).filter(|own_uid| *own_uid != 0).into_iter().collect()),
        }
    }

    fn relation(&self, subject: Subject<'_>, object: Object<'_>) -> Relation {
        let Subject { proc, uid, .. } = subject;
        let is_own = match object {
            Object::Job(namespace) => *namespace == proc.namespace || self.users_of(namespace).contains(&uid),
            Object::WholeJob(namespace) => self.is_whole_job_of(namespace, uid),
            Object::Process(of, user) => {
                of.namespace == proc.namespace || user == uid || self.users_of(&of.namespace).contains(&uid)
            }
            Object::Group(group) => group.users.contains(&uid),
        };
        let namespace = match object {
            _ if is_own => return Relation::Own,
            Object::Job(namespace) | Object::WholeJob(namespace) => namespace,
            Object::Process(of, _) => &of.namespace,
            Object::Group(_) => return Relation::Stranger,
        };
        match self.ties.bond(proc, namespace) {
            Some(Bond::Child) => Relation::Parent,
            Some(Bond::Other) => Relation::Tied,
            None => Relation::Stranger,
        }
    }

    /// Without a known user, a job counts as whole for trusted users only.
    fn is_whole_job_of(&self, namespace: &Namespace, uid: u32) -> bool {
        let users = self.users_of(namespace);
        if users.is_empty() { self.is_trusted(uid) } else { users.iter().all(|user| *user == uid) }
    }

    fn is_counted(&self, subject: Subject<'_>, trust: Trust) -> bool {
        match trust {
            Trust::All => self.is_trusted(subject.uid),
            Trust::Tools => subject.is_tool && self.is_trusted(subject.uid),
            Trust::Nobody => false,
        }
    }

    pub(super) const fn is_trusted(&self, uid: u32) -> bool {
        uid == 0 || uid == self.config.tools.own_uid
    }

    /// Whether a user may take `more` units of a pool. Root and the server's user may take all: they could harm others
    /// anyway.
    pub(super) fn has_share(&self, uid: u32, pool: Pool, more: usize, of_user: impl FnOnce() -> usize) -> bool {
        if self.is_trusted(uid) { more <= pool.max.saturating_sub(pool.used) } else { pool.has_share(more, of_user) }
    }
}

/// The processes that a value names.
fn procs_in(value: &Value) -> Vec<ProcId> {
    match value {
        Value::Proc(proc) => vec![ProcId::clone(proc)],
        Value::DataArray(array) => array.elements.iter().flat_map(procs_in).collect(),
        _ => Vec::new(),
    }
}
