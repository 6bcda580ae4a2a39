//! Services of the server's own that need no turn of the core: resource usage, credentials, fabrics, inventories, storage
//! and files.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::connections::Connections;
use super::credential_desk::CredentialDesk;
use super::fabric_desk::FabricDesk;
use super::file_desk::FileDesk;
use super::inventory_desk::InventoryDesk;
use super::job_setup::FabricGrants;
use super::loop_messages::LoopSender;
use super::node_inventory::NodeInventory;
use super::request_quota::Account;
use super::service_desk::{ReplyTo, answer};
use super::setup_desk::SetupDesk;
use super::storage_desk::{BoundedStorage, StorageDesk};
use super::turns::Share;
use super::usage_desk::UsageDesk;
use super::usage_queries::{answer_from_samples, divided, numbered, parts_of};
use crate::gds::Store;
use crate::keys;
use crate::proto::{JobControl, Monitor, QueryInfo, Service};
use crate::runtime::shared::clock::Clock;
use crate::runtime::shared::prover::Prover;
use crate::server::{
    CURRENT_INVENTORY, Capabilities, HostReply, MONITORED_MAX, PeerId, Requester, ServerCore, requires_more_than,
};
use crate::types::{Info, Namespace, ProcId, Query, Rank, Status, Value};
use crate::usage::{self, UsageKind, UsageRequest};

/// The services that are switched on.
pub(super) struct OwnServices {
    loop_sender: LoopSender,
    usage: UsageDesk,
    inventory: InventoryDesk,
    credentials: Option<CredentialDesk>,
    fabric: Option<FabricDesk>,
    storage: Option<StorageDesk>,
    setups: Option<SetupDesk>,
    /// The most bytes of values for a query.
    query_bytes_max: usize,
    files: Option<FileDesk>,
    /// The processes of admitted connections.
    processes: BTreeMap<PeerId, ProcId>,
}

impl OwnServices {
    /// The services that a server with this name on this node answers.
    pub(super) fn new(
        switched_on: Capabilities,
        (loop_sender, clock): (&LoopSender, Clock),
        (server, node): (&ProcId, &NodeInventory),
        (munge, grants, storage): (Option<Arc<dyn Prover>>, Arc<FabricGrants>, BoundedStorage),
    ) -> Self {
        let is_on = |service| switched_on.contains(service);
        let credentials = || CredentialDesk::new(loop_sender.clone(), munge);
        let hostname = node.hostname();
        Self {
            loop_sender: loop_sender.clone(),
            usage: UsageDesk::new(loop_sender.clone(), clock, server.clone(), hostname.to_owned()),
            inventory: InventoryDesk::new(loop_sender.clone(), node.clone(), storage.bytes_max),
            credentials: is_on(Capabilities::GET_CREDENTIAL).then(credentials),
            files: (storage.stages_files && !storage.storage.is_empty())
                .then(|| FileDesk::new(loop_sender.clone(), clock, server.clone(), storage.storage.clone())),
            query_bytes_max: storage.bytes_max,
            fabric: grants.fabric().map(|known| FabricDesk::new(loop_sender.clone(), server.clone(), known.clone())),
            setups: is_on(Capabilities::ALLOCATE).then(|| SetupDesk::new(loop_sender.clone(), clock, grants)),
            storage: (!storage.storage.is_empty())
                .then(|| StorageDesk::new(loop_sender.clone(), hostname.to_owned(), storage)),
            processes: BTreeMap::new(),
        }
    }

    /// Answers a request, now or later. Without an account it counts for its process.
    pub(super) fn ask(
        &mut self,
        core: &ServerCore<Store>,
        connections: &Connections,
        (requester, account): (&Requester, Option<Account>),
        service: Service,
        reply_to: ReplyTo,
    ) {
        match (service, &mut self.credentials, &mut self.fabric, &self.files) {
            (Service::Monitor(monitor), ..) => {
                let asked = measure(core, connections, requester, &monitor);
                match asked {
                    Ok(Asked::Sample(request, targets)) => {
                        let is_own = monitor.error != Status::SUCCESS;
                        let alert = if is_own { monitor.error } else { Status::MONITOR_RESUSAGE_UPDATE };
                        let asker = (requester.proc.clone(), share_of(requester, account));
                        self.usage.sample(asker, request, alert, targets, reply_to);
                    }
                    Ok(Asked::Nothing) => {
                        let nothing = HostReply::Infos { status: Status::SUCCESS, info: Vec::new() };
                        answer(&self.loop_sender, reply_to, nothing);
                    }
                    Ok(Asked::Cancel(name)) => self.usage.cancel(requester.proc.clone(), name, reply_to),
                    Err(status) => answer(&self.loop_sender, reply_to, HostReply::Status(status)),
                }
            }
            (Service::GetCredential(request), Some(desk), ..) => desk.make(requester, &request, reply_to),
            (Service::ValidateCredential(request), Some(desk), ..) => desk.check(requester, request, reply_to),
            (Service::FabricRegister(request), .., Some(desk), _) => desk.register(request, reply_to),
            (Service::FabricUpdate(request), .., Some(desk), _) => desk.update(&request, reply_to),
            (Service::Allocate(request), ..) if let Some(desk) = &self.setups => desk.ask(requester, request, reply_to),
            // The server's own process asks for what its host and the core do not know.
            (Service::QueryInfo(QueryInfo { queries }), ..) => {
                self.look(core, connections, (requester, account), queries, reply_to);
            }
            (Service::JobControl(JobControl { targets, directives }), .., Some(desk)) => {
                desk.ask(requester, !targets.is_empty(), &directives, reply_to);
            }
            _ => answer(&self.loop_sender, reply_to, HostReply::Status(Status::ERR_NOT_SUPPORTED)),
        }
    }

    /// Answers queries about storage, the machine and the use of resources, now or later.
    pub(super) fn look(
        &mut self,
        core: &ServerCore<Store>,
        connections: &Connections,
        (requester, account): (&Requester, Option<Account>),
        queries: Vec<Query>,
        reply_to: ReplyTo,
    ) {
        let (about_usage, others) = divided(queries, usage::is_query_key);
        let (about_machine, about_storage) = divided(others, |key| key == CURRENT_INVENTORY);
        if about_usage.is_empty() && about_machine.is_empty() {
            return self.look_at_storage(requester, about_storage, reply_to);
        }
        let count = [&about_usage, &about_machine, &about_storage].iter().filter(|part| !part.is_empty()).count();
        let mut parts = parts_of(&self.loop_sender, reply_to, count).into_iter();
        let mut part_for = |queries: &[Query]| if queries.is_empty() { None } else { parts.next() };
        if let Some(part) = part_for(&about_usage) {
            let asker = (requester, share_of(requester, account));
            answer_from_samples(&mut self.usage, (core, connections), asker, &about_usage, self.query_bytes_max, part);
        }
        if let Some(part) = part_for(&about_machine) {
            self.inventory.ask(requester, &about_machine, part);
        }
        if let Some(part) = part_for(&about_storage) {
            self.look_at_storage(requester, about_storage, part);
        }
    }

    fn look_at_storage(&self, requester: &Requester, queries: Vec<Query>, reply_to: ReplyTo) {
        match &self.storage {
            Some(desk) => desk.ask(requester.uid, queries, reply_to),
            None => answer(&self.loop_sender, reply_to, HostReply::Status(Status::ERR_NOT_SUPPORTED)),
        }
    }

    /// Lets the fabric follow the inventories.
    pub(super) fn follow_inventories(&mut self) {
        self.fabric.iter_mut().for_each(FabricDesk::follow);
    }

    /// Notes an admitted connection.
    pub(super) fn note_arrival(&mut self, peer: PeerId, proc: &ProcId) {
        self.processes.insert(peer, proc.clone());
    }

    /// Notes the end of a job. It ends requests that a host made for its processes on other nodes.
    pub(super) fn note_end_of_job(&mut self, namespace: &Namespace) {
        self.usage.note_end_of_job(namespace);
    }

    /// Notes the end of a connection. The last one of a process ends the requests and credentials of that process.
    pub(super) fn note_departure(&mut self, core: &ServerCore<Store>, peer: PeerId) {
        let Some(proc) = self.processes.remove(&peer) else { return };
        let has_state = self.usage.has_asker(&proc)
            || self.credentials.as_ref().is_some_and(|credentials| credentials.has(&proc))
            || self.files.as_ref().is_some_and(|files| files.has(&proc));
        if has_state && !core.has_connection(&proc) {
            self.usage.note_end(&proc);
            self.credentials.iter_mut().for_each(|credentials| credentials.note_end(&proc));
            self.files.iter().for_each(|files| files.note_end(&proc));
        }
    }
}

/// The share in which a request counts. Without an account it counts for its process.
fn share_of(requester: &Requester, account: Option<Account>) -> Share {
    let account = account.unwrap_or_else(|| Account::Process(requester.proc.clone()));
    Share { uid: requester.uid, account }
}

/// A request of the service of resource usage.
enum Asked {
    Sample(UsageRequest, Vec<(ProcId, u32)>),
    /// Nothing on this node.
    Nothing,
    Cancel(Option<String>),
}

fn measure(
    core: &ServerCore<Store>,
    connections: &Connections,
    requester: &Requester,
    Monitor { monitor, directives, .. }: &Monitor,
) -> Result<Asked, Status> {
    if monitor.key.as_str() == keys::MONITOR_CANCEL.name() {
        return cancelled(monitor, directives).map(Asked::Cancel);
    }
    let request =
        UsageRequest::read(monitor, directives, core.own_node(requester)).ok_or(Status::ERR_NOT_SUPPORTED)??;
    let mut targets = Vec::new();
    if request.is_elsewhere {
        return Ok(Asked::Nothing);
    }
    if request.kind == UsageKind::Processes {
        let numbered = |process| numbered(connections, process);
        let mut procs = match (&request.procs[..], &request.pids[..]) {
            ([], []) => vec![ProcId { namespace: requester.proc.namespace.clone(), rank: Rank::Wildcard }],
            (procs, _) => procs.to_vec(),
        };
        if request.is_share {
            procs.retain(|proc| core.is_local(proc));
        }
        targets.extend(core.monitored(requester, &procs)?.into_iter().filter_map(numbered));
        if !request.pids.is_empty() {
            let all = core.all_monitored(requester).into_iter().filter_map(numbered);
            let all: BTreeMap<u32, ProcId> = all.map(|(proc, pid)| (pid, proc)).collect();
            for pid in &request.pids {
                targets.push((all.get(pid).cloned().ok_or(Status::ERR_NOT_FOUND)?, *pid));
            }
        }
        targets.sort_unstable();
        targets.dedup();
        if targets.is_empty() {
            return if request.is_share { Ok(Asked::Nothing) } else { Err(Status::ERR_NOT_FOUND) };
        }
        if targets.len() > MONITORED_MAX {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
    }
    Ok(Asked::Sample(request, targets))
}

/// The name of the requests that a cancellation ends; `None`: all.
fn cancelled(monitor: &Info, directives: &[Info]) -> Result<Option<String>, Status> {
    if requires_more_than(directives, &[keys::USERID.name(), keys::GRPID.name()]) {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    match &monitor.value {
        Value::Undefined => Ok(None),
        value => value.as_str().map(|name| Some(name.to_owned())).ok_or(Status::ERR_BAD_PARAM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{InfoFlags, Key};

    #[test]
    fn a_cancellation_names_requests_or_means_all() {
        let info = |key: &'static str, value: Value| Info::new(Key::from_static(key), value);
        let of = |value| cancelled(&info(keys::MONITOR_CANCEL.name(), value), &[]);
        assert_eq!((of(Value::Undefined), of("a".into())), (Ok(None), Ok(Some("a".to_owned()))));
        assert_eq!(of(Value::Uint32(7)), Err(Status::ERR_BAD_PARAM));
        let required = Info { flags: InfoFlags::REQUIRED.bits(), ..info("own.key", true.into()) };
        let refused = cancelled(&info(keys::MONITOR_CANCEL.name(), Value::Undefined), &[required]);
        assert_eq!(refused, Err(Status::ERR_NOT_SUPPORTED));
    }
}
