//! Tools: processes without an announcement of the host. The tool's user decides first about admission, then the host.
//! An admitted tool is a connection like any other, in a namespace of its own that ends with it.

use crate::gds::Datastore;
use crate::keys::{self, TypedKey};
use crate::server::interface::{
    Capabilities, Hello, HostReply, Output, PeerId, Reason, Refusal, StoreOffer, ToolAdmission, ToolHello, ToolKind,
    ToolUpcall, UNDERSTOOD_OF_ATTACHING, UNDERSTOOD_OF_NEW_TOOLS, Upcall, set,
};
use crate::server::state::{Peer, Presence, Purpose, RegisteredClient, ServerCore};
use crate::types::{AsStatus, Info, Key, Namespace, ProcId, Rank, Status, Time, Value};

impl<S: Datastore> ServerCore<S> {
    pub(in crate::server) fn connect_tool(&mut self, now: Time, id: PeerId, hello: ToolHello) {
        if let Err(refusal) = self.examine_tool(id, &hello) {
            self.outputs.push(Output::Refuse(id, refusal));
            return self.lose(now, id);
        }
        // An announced tool is the host's client.
        if let Some(proc) = hello.claimed.as_ref().filter(|proc| self.is_announced(proc)) {
            let credentials = hello.claimed_credentials();
            let ToolHello { version, ref strangers, .. } = hello;
            let (store, strangers) = (StoreOffer::Socket, strangers.clone());
            let client = Hello { proc: proc.clone(), credentials, store, version, strangers };
            self.connect(now, id, client);
            if let Some(peer) = self.peers.get_mut(id).filter(|_| hello.kind == ToolKind::Tool) {
                peer.note_tool();
            }
            return;
        }
        if !self.config.capabilities.contains(Capabilities::TOOL_CONNECTED) {
            let claimed = hello.claimed.clone();
            self.tools.insert(id, hello);
            return self.admit_tool(now, id, claimed, false);
        }
        let upcall = Upcall::ToolConnected(upcall_of(&hello));
        self.tools.insert(id, hello);
        self.ask_host(now, Purpose::ToolConnected(id), upcall);
    }

    /// This process has chosen the tool, so no host decides about it.
    pub(in crate::server) fn connect_parent(&mut self, now: Time, id: PeerId, hello: ToolHello) {
        let claimed = hello.claimed.clone();
        let is_here = |proc: &ProcId| self.registry.client(proc).is_some_and(|client| !client.connections().is_empty());
        if let Some(proc) = claimed.clone().filter(is_here) {
            return self.outputs.push(Output::Refuse(id, Refusal::NameTaken { proc }));
        }
        self.tools.insert(id, hello);
        self.admit_tool(now, id, claimed, true);
        if let Some(peer) = self.peers.get_mut(id) {
            peer.note_parent();
        }
    }

    fn examine_tool(&self, id: PeerId, hello: &ToolHello) -> Result<(), Refusal> {
        let policy = &self.config.tools;
        if self.peers.get(id).is_some() || self.tools.get(id).is_some() {
            return Err(Refusal::Repeated);
        }
        let peers_max = self.config.limits.peers_max;
        if self.peers.len().saturating_add(self.tools.len()) >= peers_max {
            return Err(Refusal::TooManyPeers { peers_max });
        }
        if let Some(proc) = &hello.claimed {
            self.examine_name(hello, proc)?;
        }
        let is_announced = hello.claimed.as_ref().is_some_and(|proc| self.is_announced(proc));
        let uid = hello.credentials.uid;
        // A launched process may take another name and come again as a tool, under any rule for tools.
        let is_of_job = || hello.claimed.is_some() && self.has_process_of(uid);
        if policy.admission == ToolAdmission::Refused && !is_announced && !is_of_job() {
            return Err(Refusal::NoTools);
        }
        let peers_max = self.config.limits.tools_per_user_max;
        if !is_announced && self.tools_of(uid) >= peers_max {
            return Err(Refusal::TooManyTools { uid, peers_max });
        }
        let arriving = self.tools.count_of_user(uid);
        if !is_announced && !self.peers.permit(uid, arriving.saturating_add(1), self.config.limits.peers_max) {
            return Err(Refusal::TooManyOfUser { uid });
        }
        let is_welcome = is_announced || policy.any_user || uid == 0 || uid == policy.own_uid;
        if !is_welcome && !is_of_job() {
            return Err(Refusal::ForeignTool { uid, ours: policy.own_uid });
        }
        let is_asked = self.config.capabilities.contains(Capabilities::TOOL_CONNECTED);
        // The name may be that of another user's job on other nodes, whose processes would then be the tool's.
        if let Some(proc) = hello.claimed.as_ref().filter(|_| !is_announced && !is_asked && !self.is_trusted(uid)) {
            return Err(Refusal::UnprovenName { proc: proc.clone(), uid });
        }
        // A host without a function for tools does not see the infos.
        if !is_asked || is_announced {
            let understood = [&UNDERSTOOD_OF_ATTACHING[..], &UNDERSTOOD_OF_NEW_TOOLS].concat();
            if let Some(key) = keys::first_unmet(&hello.info, &understood) {
                return Err(Refusal::Unhonoured { key: key.clone() });
            }
        }
        if hello.kind == ToolKind::Scheduler && !is_asked && !is_announced {
            return Err(Refusal::NoTools);
        }
        if hello.claimed.is_none() && !is_asked && policy.admission != ToolAdmission::Assigned {
            return Err(Refusal::NoName);
        }
        Ok(())
    }

    /// Whether the host announced a process of this user that may still run.
    fn has_process_of(&self, uid: u32) -> bool {
        let is_alive = |client: &RegisteredClient| !client.is_guest() && client.presence() != Presence::Deregistered;
        let mut clients = self.registry.jobs().flat_map(|(_, job)| job.clients().values());
        clients.any(|client| client.credentials().uid == uid && is_alive(client))
    }

    /// Connections of a user's tools, including those that wait for the host.
    fn tools_of(&self, uid: u32) -> usize {
        let here = self.peers.iter().filter(|(_, peer)| peer.is_tool() && peer.user() == uid).count();
        let arriving = self.tools.count_of_user(uid);
        here.saturating_add(arriving)
    }

    /// Whether a tool may have its own name: it must name one process, and must not be in use. A user without rights to
    /// a job does not learn whether the job or the process exists.
    fn examine_name(&self, hello: &ToolHello, proc: &ProcId) -> Result<(), Refusal> {
        let found = hello.claimed_credentials();
        let taken = || Refusal::NameTaken { proc: proc.clone() };
        let unproven = || Refusal::UnprovenName { proc: proc.clone(), uid: found.uid };
        let is_own = |client: &RegisteredClient| client.credentials().uid == found.uid || self.is_trusted(found.uid);
        if proc.rank.process().is_none() {
            return Err(Refusal::UnknownProcess { proc: proc.clone() });
        }
        if self.tools.is_claimed(proc) || self.is_server(proc) {
            return Err(taken());
        }
        // Others of the same user may share a tool's namespace; a job's belongs to its processes.
        let job = self.registry.job(&proc.namespace);
        let is_open = job.is_none_or(|job| {
            let is_same_users = job.clients().values().all(|client| client.credentials().uid == hello.credentials.uid);
            job.is_of_tools() && is_same_users
        });
        let Some(client) = self.registry.client(proc) else {
            return match job.filter(|_| !is_open) {
                None => Ok(()),
                Some(job) if job.clients().values().any(is_own) => Err(Refusal::UnknownProcess { proc: proc.clone() }),
                Some(_) => Err(unproven()),
            };
        };
        if !is_own(client) {
            return Err(unproven());
        }
        // A server may start a forking tool, like any other process.
        if (client.is_guest() || !hello.is_started) && !self.permits_another(client) {
            return Err(taken());
        }
        let expected = client.credentials();
        if !expected.are_met_by(found) {
            return Err(Refusal::Credentials { proc: proc.clone(), expected, found });
        }
        Ok(())
    }

    /// Whether a tool may connect under this name. The tool that started this process is served already, and may attach
    /// as well.
    fn permits_another(&self, client: &RegisteredClient) -> bool {
        client.connections().iter().all(|&id| self.peers.get(id).is_some_and(Peer::is_parent))
    }

    /// Whether this is the name of the server itself.
    pub(super) fn is_server(&self, proc: &ProcId) -> bool {
        self.config.contact.as_ref().is_some_and(|contact| contact.proc == *proc)
    }

    /// Whether the host announced this process.
    fn is_announced(&self, proc: &ProcId) -> bool {
        let is_registered = self.registry.registered(&proc.namespace).is_some();
        let client = self.registry.client(proc).filter(|client| client.presence() != Presence::Deregistered);
        is_registered && client.is_some_and(|client| !client.is_guest())
    }

    /// Applies the host's decision about a tool.
    pub(in crate::server) fn settle_tool(&mut self, now: Time, id: PeerId, reply: HostReply) {
        let (status, assigned) = match reply {
            HostReply::Tool(assigned) => (Status::SUCCESS, assigned),
            other => (other.status(), None),
        };
        if status != Status::SUCCESS {
            let refusal = Refusal::HostForTool { status };
            return self.refuse_tool(id, refusal);
        }
        // A tool with a name of its own keeps it.
        let claimed = self.tools.get(id).and_then(|hello| hello.claimed.clone());
        self.admit_tool(now, id, claimed.or(assigned), true);
    }

    fn refuse_tool(&mut self, id: PeerId, refusal: Refusal) {
        if self.tools.remove(id).is_some() {
            self.outputs.push(Output::Refuse(id, refusal));
        }
    }

    fn admit_tool(&mut self, now: Time, id: PeerId, proc: Option<ProcId>, is_vouched_for: bool) {
        let Some(hello) = self.tools.get(id).cloned() else { return };
        let proc = proc.unwrap_or_else(|| self.next_name());
        if self.is_server(&proc) {
            return self.refuse_tool(id, Refusal::NameTaken { proc });
        }
        if let Err(refusal) = self.admit_as(id, &hello, &proc) {
            return self.refuse_tool(id, refusal);
        }
        if let Some(client) = self.registry.client_mut(&proc).filter(|_| is_vouched_for) {
            client.vouch();
        }
        self.tools.remove(id);
        tracing::info!(%proc, kind = ?hello.kind, "tool connected");
        self.registry.touch();
        let index = self.peers.next_index();
        self.outputs.push(Output::AdmitTool(id, index, proc.clone()));
        self.review_namespace(now, &proc.namespace);
    }

    /// Registers a tool: as a guest in a namespace of the host, or in one of its own.
    fn admit_as(&mut self, id: PeerId, hello: &ToolHello, proc: &ProcId) -> Result<(), Refusal> {
        let Some(rank) = proc.rank.process() else { return Err(Refusal::UnknownProcess { proc: proc.clone() }) };
        let credentials = hello.credentials;
        if let Some(client) = self.registry.client(proc) {
            // The host may have announced it during the upcall; then the host also reports its end.
            if !self.permits_another(client) || client.credentials() != credentials {
                return Err(Refusal::NameTaken { proc: proc.clone() });
            }
        }
        self.make_namespace(proc, rank, hello.kind)?;
        let commit_base = self.registry.commit_base();
        let job = self.registry.job_or_insert(&proc.namespace);
        let client = job.client_or_insert(rank, || RegisteredClient::guest(credentials, commit_base));
        client.connect(id);
        self.peers.insert_tool(id, proc.clone(), hello);
        Ok(())
    }

    /// Registers the namespace of a tool, if the host has not.
    fn make_namespace(&mut self, proc: &ProcId, rank: u32, kind: ToolKind) -> Result<(), Refusal> {
        let namespace = &proc.namespace;
        let is_lone = rank == 0 && self.registry.job(namespace).is_none();
        if let Some(job) = self.registry.registered(namespace) {
            let is_outside = job.job_size().is_some_and(|job_size| rank >= job_size);
            if is_outside && !job.is_of_tools() {
                return Err(Refusal::UnknownProcess { proc: proc.clone() });
            }
        } else {
            // With the size of a universe a tool of OpenPMIx would take its own for that of any job.
            let description = if is_lone && kind == ToolKind::Singleton { of_one() } else { Vec::new() };
            if let Err(error) = self.store.register(namespace, &description) {
                tracing::warn!(%namespace, %error, "no room for the data of a tool");
                return Err(Refusal::HostForTool { status: error.status() });
            }
        }
        self.registry.job_or_insert(namespace).describe_for_tools(is_lone);
        Ok(())
    }

    /// An unused name.
    fn next_name(&mut self) -> ProcId {
        loop {
            let number = self.tools.next_number();
            let name = format!("{}{number}", self.config.tools.name_prefix);
            let namespace = Namespace::new(&name).or_else(|_| Namespace::new(&format!("tool-{number}")));
            if let Ok(namespace) = namespace
                && self.registry.job(&namespace).is_none()
            {
                return ProcId { namespace, rank: Rank::Process(0) };
            }
        }
    }

    /// A tool without admission sends a request, or ends.
    pub(super) fn forget_arriving(&mut self, id: PeerId) -> bool {
        if self.tools.remove(id).is_none() {
            return false;
        }
        for upcall in self.upcalls.of_peer(id) {
            self.cancel_upcall(upcall);
        }
        true
    }

    pub(in crate::server) fn hurry_of_tool(&mut self, id: PeerId) {
        if self.forget_arriving(id) {
            self.outputs.push(Output::Close(id, Reason::RequestBeforeAdmission));
        }
    }

    /// The connection of a guest has ended: removes its entry, and its namespace with the last guest.
    pub(super) fn vacate(&mut self, now: Time, proc: &ProcId) {
        let Some(job) = self.registry.job_mut(&proc.namespace) else { return };
        if !proc.rank.process().is_some_and(|rank| job.remove_guest(rank)) {
            return;
        }
        if job.is_of_tools() && job.clients().is_empty() {
            self.deregister_namespace(now, &proc.namespace);
        } else {
            self.registry.touch();
            self.review_namespace(now, &proc.namespace);
        }
    }
}

/// The host's view of a tool: its own infos, with the kernel's facts instead of any false claims.
fn upcall_of(hello: &ToolHello) -> ToolUpcall {
    let ToolHello { kind, claimed, credentials, version_text, info, .. } = hello;
    let mut info = info.clone();
    info.retain(|info| ![keys::USERID.name(), keys::GRPID.name()].contains(&info.key.as_str()));
    info.extend(credentials.infos());
    set(&mut info, keys::VERSION_INFO, Value::from(version_text.clone()));
    if let Some(proc) = claimed {
        set(&mut info, keys::NSPACE, Value::from(proc.namespace.as_str()));
        set(&mut info, keys::RANK, Value::ProcRank(proc.rank));
    }
    ToolUpcall { kind: *kind, claimed: claimed.clone(), credentials: *credentials, directives: info }
}

/// The job data of a singleton.
fn of_one() -> Vec<Info> {
    let numbers = [keys::UNIV_SIZE, keys::JOB_SIZE, keys::MAX_PROCS, keys::NUM_NODES, keys::LOCAL_SIZE];
    let mut known = numbers.map(one).to_vec();
    known.push(Info::new(Key::from_static(keys::LOCAL_PEERS.name()), "0"));
    known
}

fn one(key: TypedKey<u32>) -> Info {
    Info::new(Key::from_static(key.name()), 1_u32)
}
