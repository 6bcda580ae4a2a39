//! Services for the host: the capability, the reply to the answer, and the request with the knowledge of the server.

use super::config::Capabilities;
use super::directives::find;
use super::host::{HostReply, settled};
use super::requests::{Requester, SIGNATURE, Signed, set};
use crate::keys;
use crate::proto::{AnswerForm, Credential, Log, Reply, Service, Spawn};
use crate::types::{Info, Key, Status, Text, Value};

impl AnswerForm {
    /// The reply that holds the host's answer.
    #[must_use]
    pub fn reply(self, reply: HostReply) -> Reply {
        match (self, reply) {
            (Self::Lookup, HostReply::Lookup { status, found }) => Reply::Lookup(found).with_status(settled(status)),
            (Self::Infos, HostReply::Infos { status, info }) => Reply::Infos(info).with_status(settled(status)),
            (Self::Credential, HostReply::Credential(credential)) => Reply::Credential(credential),
            (Self::Namespace, HostReply::Spawned(namespace)) => {
                Reply::Spawned { namespace: Text::from(namespace.as_str()), entries: Vec::new() }
            }
            (form, reply) => match (reply.status(), form) {
                (Status::SUCCESS, Self::Lookup) => Reply::Lookup(Vec::new()),
                (Status::SUCCESS, Self::Infos) => Reply::Infos(Vec::new()),
                (Status::SUCCESS, Self::Credential) => {
                    Reply::Credential(Credential { bytes: Vec::new(), info: Vec::new() })
                }
                // A job without a name is an error.
                (Status::SUCCESS, Self::Namespace) => Reply::Status(Status::ERROR),
                (status, _) => Reply::Status(status),
            },
        }
    }
}

impl Service {
    /// The capability of a host that has the service.
    pub(crate) const fn needs(&self) -> Capabilities {
        Capabilities::from_bits_retain(1 << self.capability_bit())
    }

    fn sign(&mut self, requester: &Requester) {
        self.directives_mut().into_iter().for_each(|directives| directives.sign(requester));
    }

    /// The request of a client or tool in the form for the host: the server adds its knowledge in place of any claims.
    ///
    /// # Errors
    /// The status for an invalid request.
    pub(in crate::server) fn of_peer(mut self, requester: &Requester, is_tool: bool) -> Result<Self, Status> {
        if matches!(&self, Self::Spawn(spawn) if !spawn.has_valid_parents()) {
            return Err(Status::ERR_BAD_PARAM);
        }
        self.sign(requester);
        match &mut self {
            Self::Spawn(spawn) => set_parent(spawn, requester, is_tool),
            Self::Log(log) => set_source(log, requester),
            // Only a host asks for others.
            Self::Monitor(request) => request.directives.retain(|info| info.key.as_str() != keys::MONITOR_PROXY.name()),
            _ => {}
        }
        self.forget_claims();
        Ok(self)
    }

    /// A request of the server's own process in the form for the host. A spawn may name another parent, because a
    /// server launches on behalf of others.
    #[must_use]
    pub fn of_server(mut self, requester: &Requester) -> Self {
        self.sign(requester);
        if let Self::Spawn(spawn) = &mut self {
            for (key, value) in [
                (keys::SPAWNED.name(), Value::Bool(true)),
                (keys::PARENT_ID.name(), Value::from(requester.proc.clone())),
            ] {
                if spawn.job.iter().all(|info| info.key.as_str() != key) {
                    spawn.job.push(Info::new(Key::from_static(key), value));
                }
            }
        }
        self
    }
}

/// Facts about the requester that the server adds to a spawn, beside the ids.
pub(crate) const FACTS_OF_SPAWN: [&str; 4] =
    [keys::SPAWNED.name(), keys::PARENT_ID.name(), keys::REQUESTOR_IS_TOOL.name(), keys::REQUESTOR_IS_CLIENT.name()];

/// Sets the parent of a job and its kind.
fn set_parent(spawn: &mut Spawn, requester: &Requester, is_tool: bool) {
    let Spawn { job, apps } = spawn;
    job.retain(|info| !FACTS_OF_SPAWN.contains(&info.key.as_str()));
    set(job, keys::SPAWNED, Value::Bool(true));
    set(job, keys::PARENT_ID, Value::from(requester.proc.clone()));
    set(job, if is_tool { keys::REQUESTOR_IS_TOOL } else { keys::REQUESTOR_IS_CLIENT }, Value::Bool(true));
    // A host may look for these keys in the infos of one application, too.
    let is_ours = |key: &str| SIGNATURE.contains(&key) || key == keys::PARENT_ID.name();
    apps.iter_mut().for_each(|app| app.info.retain(|info| !is_ours(info.key.as_str())));
}

/// Sets the source of a log, and its time if the requester sent one.
fn set_source(log: &mut Log, requester: &Requester) {
    set(&mut log.directives, keys::LOG_SOURCE, Value::from(requester.proc.clone()));
    if let Some(timestamp) = log.timestamp.filter(|&timestamp| timestamp > 0)
        && find(&log.directives, keys::LOG_TIMESTAMP).is_none()
    {
        set(&mut log.directives, keys::LOG_TIMESTAMP, Value::Time(timestamp));
    }
}
