//! The server loop's replies about the topology: at once, or after the reading.

use std::sync::Arc;

use super::server_loop::ServerLoop;
use super::topology::{Said, TopologyWaiter, Wish};
use crate::proto::{RankData, Reply, Tag};
use crate::server::{Input, NodeHardware, PeerId, TOPOLOGY, TopologyQuestion};
use crate::topo::{SharedMachine, TopologyError};
use crate::types::{AsStatus, Kval, Namespace, Status, Value};

impl ServerLoop {
    pub(super) fn answer_topology(&mut self, peer: PeerId, tag: Tag, question: TopologyQuestion) {
        match self.topology.ask(TopologyWaiter { peer, tag, wish: Wish::Topology(question) }) {
            Said::Now(waiter, outcome) => self.fulfil(waiter, outcome),
            Said::Later => {}
        }
    }

    /// Job information waits for the topology if it is a part.
    pub(super) fn answer_job_info(&mut self, peer: PeerId, tag: Tag, namespace: Namespace) {
        let waiter = TopologyWaiter { peer, tag, wish: Wish::JobInfo(namespace) };
        if !self.topology.is_part_of_job() {
            return self.fulfil(waiter, Err(TopologyError::NotShared));
        }
        match self.topology.ask(waiter) {
            Said::Now(waiter, outcome) => self.fulfil(waiter, outcome),
            Said::Later => {}
        }
    }

    /// Gives the topology to the core, which needs it for its own replies.
    pub(super) fn give_topology(&mut self) {
        if let Some(outcome) = self.topology.ask_for_core() {
            self.core.handle(self.clock.now(), Input::Topology(NodeHardware(outcome.ok())));
        }
    }

    /// Answers the waiting requests after the reading, or when it is too slow.
    pub(super) fn tell_topology(&mut self) {
        if let Some(outcome) = self.topology.take_for_core() {
            self.handle(self.clock.now(), Input::Topology(NodeHardware(outcome.ok())), None);
        }
        for (waiter, outcome) in self.topology.take_waiting() {
            self.fulfil(waiter, outcome);
        }
    }

    fn fulfil(&mut self, waiter: TopologyWaiter, outcome: Result<Arc<SharedMachine>, TopologyError>) {
        let TopologyWaiter { peer, tag, wish } = waiter;
        match wish {
            Wish::JobInfo(namespace) => {
                let text = outcome.as_ref().ok().map(|shared| shared.machine().xml());
                self.connections.reply_job_info(peer, tag, namespace, self.core.store(), text);
            }
            Wish::Topology(question) => {
                let reply = match outcome {
                    Ok(shared) if question.wants_segment => {
                        self.connections.send_topology(peer, &question.proc.namespace, &shared);
                        Reply::Data(Vec::new())
                    }
                    Ok(shared) => as_text(question, &shared),
                    // A Get of the text finds no value, unless there may be one later.
                    Err(error) if question.key.as_str() != TOPOLOGY && error != TopologyError::TooSlow => {
                        Reply::Status(Status::ERR_NOT_FOUND)
                    }
                    Err(error) => Reply::Status(error.status()),
                };
                self.connections.reply(peer, tag, &reply);
            }
        }
    }
}

fn as_text(question: TopologyQuestion, shared: &SharedMachine) -> Reply {
    let TopologyQuestion { proc, key, .. } = question;
    let entries = vec![Kval { key, value: Value::from(shared.machine().xml()) }];
    Reply::Data(vec![RankData { proc, entries }])
}
