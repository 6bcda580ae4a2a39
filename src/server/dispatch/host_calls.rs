//! Calls of the host, each to its rule.

use std::sync::Arc;

use crate::gds::Datastore;
use crate::server::interface::{HostCall, HostCallId, HostResult};
use crate::server::state::{Listener, ServerCore};
use crate::types::{Status, Time};

impl<S: Datastore> ServerCore<S> {
    pub(super) fn host_call(&mut self, now: Time, call: HostCallId, host_call: HostCall) {
        let ticket = self.outputs.accept_call(call);
        let status = match host_call {
            HostCall::RegisterNamespace(registration) => {
                let result = self.register_namespace(now, &registration);
                return self.outputs.complete(ticket, result);
            }
            HostCall::ExtendNamespace(namespace, description) => {
                let result = self.extend_namespace(now, namespace, description);
                return self.outputs.complete(ticket, result);
            }
            HostCall::ChangeResources(namespace, change) => {
                let result = self.change_resources(now, &namespace, &change);
                return self.outputs.complete(ticket, result);
            }
            HostCall::DeregisterNamespace(namespace) => self.deregister_namespace(now, &namespace),
            HostCall::RegisterClient(registration) => self.register_client(now, &registration),
            HostCall::DescribeProcess(facts) => self.describe_process(facts),
            HostCall::DefineProcessSet(set) => {
                let result = self.define_process_set(now, set);
                return self.outputs.complete(ticket, result);
            }
            HostCall::DeleteProcessSet { name, source } => {
                let result = self.delete_process_set(now, name, source);
                return self.outputs.complete(ticket, result);
            }
            HostCall::DeregisterClient(proc) => self.deregister_client(now, &proc),
            HostCall::IofDeliver(output) => self.deliver_output(now, output),
            HostCall::IofPull(requester, pull) => return self.pull_own_output(now, ticket, &requester, pull),
            HostCall::IofDeregister(number) => self.end_own_pull(number),
            HostCall::IofOffer(output) => self.offer_output(now, output),
            HostCall::IofOfferOrKeep(output) => self.offer_or_keep_output(now, output),
            HostCall::Capabilities(capabilities) => {
                self.config.capabilities = capabilities;
                Status::SUCCESS
            }
            HostCall::ForwardOutput { tool, job, channels } => self.forward_to_tool(now, &tool, job, channels),
            HostCall::Fabric(fabric) => {
                self.config.fabric = Some(fabric);
                Status::SUCCESS
            }
            HostCall::NotifyEvent(event) => self.notify_of_host(now, &Arc::new(event)),
            HostCall::NotifyRequester(requester, event) => self.notify_requester(now, &requester, event),
            HostCall::RegisterEvents(events) => return self.register_events_of_host(now, ticket, events),
            HostCall::DeregisterEvents(codes) => {
                self.deregister_events(Listener::Host, codes);
                Status::SUCCESS
            }
            HostCall::DirectModexRequest(request) => return self.direct_modex_request(now, ticket, request),
            HostCall::Get(get) => return self.get_for_host(now, ticket, get),
            HostCall::Query(query) => return self.answer_queries_of_host(ticket, query),
            HostCall::DeliverInventories(blobs) => {
                let result = self.deliver_inventories(now, blobs);
                return self.outputs.complete(ticket, result);
            }
        };
        self.outputs.complete(ticket, HostResult::Status(status));
    }
}
