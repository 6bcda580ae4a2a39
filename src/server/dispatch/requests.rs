//! Requests of connections, each to its rule.

use crate::gds::Datastore;
use crate::proto::{QueryInfo, Request, Service, Tag};
use crate::server::interface::{Output, PeerId, Reason};
use crate::server::state::{Listener, PeerStage, Rest, ServerCore, Ticket};
use crate::types::{ProcId, Status, Time};

impl<S: Datastore> ServerCore<S> {
    pub(super) fn request(&mut self, now: Time, id: PeerId, tag: Tag, request: Request) {
        self.finish_rest(now, id);
        // The request may have been on its way when the connection closed.
        let Some(peer) = self.peers.get(id) else { return self.hurry_of_tool(id) };
        let (stage, proc) = (peer.stage(), peer.proc().clone());
        if stage == PeerStage::Arriving {
            return self.dismiss(now, id, Status::ERR_NOT_AVAILABLE, Reason::RequestBeforeAdmission);
        }
        // The only request without a reply, even without a refusal.
        if let Request::DeregisterEvents(codes) = request {
            return self.deregister_events(Listener::Peer(id), codes);
        }
        if stage == PeerStage::Finalized {
            let ticket = self.outputs.accept(id, tag);
            return self.outputs.reply_status(ticket, Status::ERR_INVALID_OPERATION);
        }
        let is_full = self.outputs.open_requests_of(id) >= self.config.limits.requests_per_peer_max;
        let ticket = self.outputs.accept(id, tag);
        match request {
            Request::JobInfo => self.job_info(now, ticket, &proc),
            Request::StoreFallback(_) => self.store_fallback(now, ticket, &proc),
            Request::Commit(commit) => self.commit(now, ticket, &proc, commit),
            Request::Finalize => self.finalize(now, ticket, &proc),
            _ if is_full => self.outputs.reply_status(ticket, Status::ERR_OUT_OF_RESOURCE),
            Request::Fence(fence) => self.fence(now, ticket, proc, fence),
            Request::Get(get) => self.get(now, ticket, get),
            Request::RefreshCache(proc) => self.refresh(ticket, proc),
            Request::Abort(abort) => self.abort(now, ticket, proc, abort),
            Request::Notify(notify) => self.notify(now, ticket, proc, notify),
            Request::RegisterEvents(events) => self.register_events(now, ticket, events),
            request => self.pass(now, ticket, proc, request),
        }
    }

    /// Any request that the server does not answer itself.
    fn pass(&mut self, now: Time, ticket: Ticket, proc: ProcId, request: Request) {
        let Some(requester) = self.requester(ticket.peer(), proc) else { return self.outputs.forget(ticket) };
        if self.has_false_claim(ticket.peer(), &requester, &request) {
            return self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED);
        }
        match request {
            Request::Service(Service::JobControl(control)) => self.control_jobs(now, ticket, requester, control),
            Request::Service(Service::QueryInfo(QueryInfo { queries })) => {
                self.pass_queries(now, ticket, requester, queries);
            }
            Request::Service(service) => self.pass_service(now, ticket, requester, service),
            Request::IofPull(pull) => self.pull_output(now, ticket, requester, pull),
            Request::IofDeregister(pull) => self.end_pull(ticket, &pull),
            Request::ResolvePeers(question) => self.resolve_peers(ticket, &question),
            Request::ResolveNode(namespace) => self.resolve_nodes(ticket, namespace.as_ref()),
            Request::Connect(connect) => self.connect_processes(now, ticket, requester.proc, connect),
            Request::Disconnect(connect) => self.disconnect_processes(now, ticket, requester.proc, connect),
            Request::GroupConstruct(group) => self.construct_group(now, ticket, requester.proc, group),
            Request::GroupDestruct(group) => self.destruct_group(now, ticket, requester.proc, group),
            Request::GroupOther(group) => self.group_other(now, ticket, &requester.proc, group),
            _ => self.outputs.reply_status(ticket, Status::ERR_NOT_SUPPORTED),
        }
    }

    /// Does the next step of a connection's request, if there is one.
    pub(super) fn proceed(&mut self, now: Time, peer: PeerId) {
        let Some(rest) = self.slices.take(peer) else { return };
        // An answer of the host may have brought another rest meanwhile.
        if self.slices.has(peer) {
            self.outputs.push(Output::Unfinished(peer));
        }
        match rest {
            Rest::Commit(rest) => self.proceed_commit(now, peer, rest),
            Rest::Queries(answering) => self.proceed_queries(answering),
            Rest::MissedEvents(numbers) => self.deliver_missed(Listener::Peer(peer), numbers),
        }
    }

    /// Does all steps of a connection's requests.
    fn finish_rest(&mut self, now: Time, peer: PeerId) {
        while self.slices.has(peer) {
            self.tell_some_removals();
            self.proceed(now, peer);
        }
    }
}
