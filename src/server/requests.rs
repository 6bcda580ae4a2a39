//! Requests of clients to the host through their server, in the host's form.
//!
//! Every request except those of many processes names its [`Requester`], whose ids come from the kernel. If the
//! standard wants `PMIX_USERID` and `PMIX_GRPID` among the directives, they hold the kernel's ids, too. A client's own
//! claims are removed.
//!
//! Source: PMIx Standard, "Server-Specific Interfaces" (server module).

use crate::keys::{self, TypedKey};
use crate::types::{App, Info, InfoFlags, Key, ProcId, Query, Status, Text, Value};

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }
        )*
    };
}

requests! {
    /// The process behind a request.
    Requester {
        /// The process.
        proc: ProcId,
        /// The object of its registration.
        object: u64,
        /// Effective user id of its connection, according to the kernel.
        uid: u32,
        /// Effective group id of its connection, according to the kernel.
        gid: u32,
    }
    /// Data to publish.
    Publish {
        /// The publisher.
        requester: Requester,
        /// Data and directives.
        info: Vec<Info>,
    }
    /// Published data to find.
    Lookup {
        /// The requester.
        requester: Requester,
        /// The wanted keys.
        keys: Vec<Key>,
        /// Directives.
        directives: Vec<Info>,
    }
    /// Published data to withdraw.
    Unpublish {
        /// The publisher.
        requester: Requester,
        /// The keys; empty: everything that the requester published.
        keys: Vec<Key>,
        /// Directives.
        directives: Vec<Info>,
    }
    /// A job to start. Besides the ids, the job's directives hold `PMIX_SPAWNED`, the requester (`PMIX_PARENT_ID`), and
    /// its kind (`PMIX_REQUESTOR_IS_CLIENT` or `PMIX_REQUESTOR_IS_TOOL`).
    Spawn {
        /// The spawner.
        requester: Requester,
        /// Directives for the whole job.
        job: Vec<Info>,
        /// Applications.
        apps: Vec<App>,
    }
    /// Processes to connect or disconnect. Every local one has sent the request.
    Connect {
        /// The processes, sorted, each entry once.
        procs: Vec<ProcId>,
        /// Directives of the first arrival, then `PMIX_LOCAL_COLLECTIVE_STATUS` if local participants are missing.
        directives: Vec<Info>,
    }
    /// Queries. The qualifiers of each end with the ids of the requester.
    QueryRequest {
        /// The requester.
        requester: Requester,
        /// The queries.
        queries: Vec<Query>,
    }
    /// Data to log. Directives hold its source (`PMIX_LOG_SOURCE`) and, if the requester sent one, its timestamp.
    Log {
        /// The source.
        requester: Requester,
        /// The data, one entry for each channel.
        data: Vec<Info>,
        /// Directives.
        directives: Vec<Info>,
    }
    /// Change of an allocation.
    Allocate {
        /// The requester.
        requester: Requester,
        /// The change: one of [`crate::types::codes::alloc_directive`].
        directive: u8,
        /// Details.
        info: Vec<Info>,
    }
    /// Control of processes.
    JobControl {
        /// The requester.
        requester: Requester,
        /// The processes to control; empty: the requester's namespace.
        targets: Vec<ProcId>,
        /// Directives.
        directives: Vec<Info>,
    }
    /// Something to watch.
    Monitor {
        /// The requester.
        requester: Requester,
        /// The object to watch.
        monitor: Info,
        /// Event to raise.
        error: Status,
        /// Directives.
        directives: Vec<Info>,
    }
    /// A request for a credential. Answered by [`Credential`].
    CredentialRequest {
        /// The requester.
        requester: Requester,
        /// Directives.
        directives: Vec<Info>,
    }
    /// A credential to check.
    ValidateRequest {
        /// The requester.
        requester: Requester,
        /// The credential.
        credential: Vec<u8>,
        /// Directives.
        directives: Vec<Info>,
    }
    /// A request for output. After success the host delivers it with [`super::HostCall::IofDeliver`].
    IofPull {
        /// The requester.
        requester: Requester,
        /// Sources of the output; the wildcard rank: all of the namespace.
        procs: Vec<ProcId>,
        /// Directives.
        directives: Vec<Info>,
        /// Channel set ([`crate::types::codes::iof_channel`]), never standard input.
        channels: u16,
    }
    /// Bytes for the standard input of processes.
    PushStdin {
        /// The sender.
        requester: Requester,
        /// The receivers; the wildcard rank: all of the namespace.
        targets: Vec<ProcId>,
        /// Directives.
        directives: Vec<Info>,
        /// The bytes; none: end of input.
        bytes: Vec<u8>,
    }
    /// A group to form or to dissolve. Every local member has sent the request.
    GroupRequest {
        /// The operation.
        operation: GroupOperation,
        /// The group's name.
        id: Text,
        /// The members, sorted, each entry once.
        procs: Vec<ProcId>,
        /// Directives of all local members, each once, then `PMIX_LOCAL_COLLECTIVE_STATUS` if some are missing.
        directives: Vec<Info>,
    }
    /// A credential and its details.
    Credential {
        /// Opaque to all but its issuer.
        bytes: Vec<u8>,
        /// Details, for example its issuer.
        info: Vec<Info>,
    }
    /// Output of a process.
    IofOutput {
        /// The source.
        source: ProcId,
        /// The channel, one bit of [`crate::types::codes::iof_channel`].
        channel: u16,
        /// The bytes; none: the source has closed the channel.
        bytes: Vec<u8>,
        /// Details.
        info: Vec<Info>,
    }
}

/// Operations on a group. The numbers are those of the server module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum GroupOperation {
    /// Form it.
    Construct = 0,
    /// Dissolve it.
    Destruct = 1,
}

impl Requester {
    /// Directives with the ids of the requester; earlier claims are removed.
    #[must_use]
    pub fn signed(&self, mut directives: Vec<Info>) -> Vec<Info> {
        let [user, group] = [keys::USERID, keys::GRPID].map(TypedKey::name);
        directives.retain(|info| ![user, group].contains(&info.key.as_str()));
        directives.push(Info::new(Key::from_static(user), self.uid));
        directives.push(Info::new(Key::from_static(group), self.gid));
        directives
    }

    /// Queries with the ids of the requester among the qualifiers of each.
    #[must_use]
    pub fn signed_queries(&self, queries: Vec<Query>) -> Vec<Query> {
        let signed = |query: Query| Query { qualifiers: self.signed(query.qualifiers), ..query };
        queries.into_iter().map(signed).collect()
    }
}

impl Spawn {
    /// A request of a client or tool: the server sets the requester's identity in place of any claims.
    #[must_use]
    pub fn of_peer(requester: Requester, is_tool: bool, job: Vec<Info>, mut apps: Vec<App>) -> Self {
        let mut job = requester.signed(job);
        set(&mut job, keys::SPAWNED, Value::Bool(true));
        set(&mut job, keys::PARENT_ID, Value::from(requester.proc.clone()));
        let kinds = [keys::REQUESTOR_IS_TOOL, keys::REQUESTOR_IS_CLIENT];
        job.retain(|info| !kinds.iter().any(|kind| kind.name() == info.key.as_str()));
        set(&mut job, if is_tool { keys::REQUESTOR_IS_TOOL } else { keys::REQUESTOR_IS_CLIENT }, Value::Bool(true));
        // A host may look for these keys in the infos of one application, too.
        let ours = [keys::USERID.name(), keys::GRPID.name(), keys::PARENT_ID.name()];
        apps.iter_mut().for_each(|app| app.info.retain(|info| !ours.contains(&info.key.as_str())));
        Self { requester, job, apps }
    }

    /// A request of the server's own process, which may name another parent: it launches on behalf of others.
    #[must_use]
    pub fn of_server(requester: Requester, job: Vec<Info>, apps: Vec<App>) -> Self {
        let mut job = requester.signed(job);
        for (key, value) in
            [(keys::SPAWNED.name(), Value::Bool(true)), (keys::PARENT_ID.name(), Value::from(requester.proc.clone()))]
        {
            if job.iter().all(|info| info.key.as_str() != key) {
                job.push(Info::new(Key::from_static(key), value));
            }
        }
        Self { requester, job, apps }
    }
}

/// Sets the server's value, in place of any earlier one.
pub(super) fn set<T: ?Sized>(directives: &mut Vec<Info>, key: TypedKey<T>, value: Value) {
    directives.retain(|info| info.key.as_str() != key.name());
    directives.push(Info { key: Key::from_static(key.name()), flags: InfoFlags::empty().bits(), value });
}
