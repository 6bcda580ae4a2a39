//! The locations of processes under an OpenPMIx server, which has sent them all to its clients at the start. Releases
//! before 5.0 don't answer requests for them, and later ones only if their host does.

use super::Session;
use crate::client::{CallError, GetDirectives, GetRequest};
use crate::keys;
use crate::proto::{Command, Reply, Request, ResolvePeers};
use crate::runtime::client::fetched::FetchError;
use crate::types::{AsStatus, Info, Key, Namespace, ProcId, Rank, Status, Text, ranks_in};

impl Session {
    /// The answer to a request that needs no server, or that the server can't answer; `None` for other requests.
    pub(super) fn answer_here(&self, request: &Request) -> Option<Result<Reply, CallError>> {
        if self.peer_profile().is_ours {
            return None;
        }
        if self.groups().is_for_others(request, self.proc()) {
            return Some(Err(CallError::Refused { command: request.command(), status: Status::ERR_NOT_A_MEMBER }));
        }
        let (names_job, answer) = match request {
            Request::ResolvePeers(asked) => (asked.namespace.is_some(), self.peers_on(asked)),
            Request::ResolveNode(namespace) => (namespace.is_some(), self.nodes_of(namespace.as_ref())),
            _ => return None,
        };
        let is_known = match &answer {
            Ok(Reply::Procs(procs)) => !procs.is_empty(),
            answer => answer.is_ok(),
        };
        (!self.peer_profile().resolves() || (is_known && names_job)).then_some(answer)
    }

    fn peers_on(&self, asked: &ResolvePeers) -> Result<Reply, CallError> {
        let command = Command::ResolvePeers;
        let namespace = self.namespace_or_own(asked.namespace.as_ref(), command)?;
        let mut directives = Vec::new();
        if let Some(node) = &asked.node {
            directives.push(Info::new(Key::from_static(keys::NODE_INFO.name()), true));
            directives.push(Info::new(Key::from_static(keys::HOSTNAME.name()), node.to_string_lossy()));
        }
        let found = self.text_of(namespace.clone(), keys::LOCAL_PEERS.name(), &directives, command)?;
        let ranks = found.iter().flat_map(|text| ranks_in(text));
        Ok(Reply::Procs(ranks.map(|rank| ProcId { namespace: namespace.clone(), rank: Rank::from(rank) }).collect()))
    }

    fn nodes_of(&self, namespace: Option<&Text>) -> Result<Reply, CallError> {
        let command = Command::ResolveNode;
        let namespace = self.namespace_or_own(namespace, command)?;
        match self.text_of(namespace, keys::NODE_LIST.name(), &[], command)? {
            Some(names) => Ok(Reply::Nodes(Text::until_nul(names.as_bytes()))),
            None => Err(CallError::Refused { command, status: Status::ERR_NOT_FOUND }),
        }
    }

    fn namespace_or_own(&self, namespace: Option<&Text>, command: Command) -> Result<Namespace, CallError> {
        match namespace {
            None => Ok(self.proc().namespace.clone()),
            Some(name) => Namespace::from_bytes(name.as_bytes())
                .map_err(|_| CallError::Refused { command, status: Status::ERR_BAD_PARAM }),
        }
    }

    /// A text about a job; `None` if there is none.
    fn text_of(
        &self,
        namespace: Namespace,
        key: &'static str,
        directives: &[Info],
        command: Command,
    ) -> Result<Option<String>, CallError> {
        let refused = |status| CallError::Refused { command, status };
        let mut directives = directives.to_vec();
        // For another job the server may know more, unless the request itself can be sent.
        if self.peer_profile().resolves() || namespace == self.proc().namespace {
            directives.push(Info::new(Key::from_static(keys::OPTIONAL.name()), true));
        }
        let directives = GetDirectives::parse(&directives).map_err(|error| refused(error.status()))?;
        let job = ProcId { namespace, rank: Rank::Wildcard };
        let request = GetRequest::new(Some(job), Some(Key::from_static(key)), directives, self.proc())
            .map_err(|error| refused(error.status()))?;
        match self.get(&request) {
            Ok(found) => Ok(found.as_str().map(str::to_owned)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(FetchError::Call(error)) => Err(error),
            Err(_) => Err(refused(Status::ERROR)),
        }
    }
}
