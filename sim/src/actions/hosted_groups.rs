//! Groups over several nodes that the host forms without any notice of their members.
//!
//! All members must hear the same member list, even if processes were lost meanwhile. A group that outlives deaths is
//! ended by the remaining members.

use modex::proto::{Reply, Request, Tag};
use modex::server::PeerId;
use modex::types::{ProcId, Status, Text};

use crate::faults::Canary;
use crate::local_collectives::{CollectiveKind, REGISTERED_WITHIN};
use crate::queue::ServerId;
use crate::rule::Rule;
use crate::world::World;

impl World {
    pub(crate) fn note_forming(&mut self, server: ServerId, peer: PeerId, tag: Tag, request: &Request) {
        let (group, procs) = match request {
            Request::GroupConstruct(group) => (group, group.procs.clone()),
            Request::GroupDestruct(group) => (group, Vec::new()),
            _ => return,
        };
        if let Some(name) = group.id.clone().filter(|_| self.has_group_host) {
            self.hosted_groups.first_asked.entry((server, name.clone())).or_insert(self.now);
            self.hosted_groups.asked.entry(peer).or_default().insert(tag, (name, procs));
        }
    }

    /// A server hands a group operation over. All jobs of the group must be registered. A host may register a job only
    /// when a server asks to connect to it. Then a second without news of the other jobs also suffices.
    pub(crate) fn check_jobs_of_group(&mut self, server: ServerId, name: &Text, procs: &[ProcId]) {
        let lasting = self.lasting(server, &CollectiveKind::Destruct(name.clone()), procs);
        if lasting.iter().all(|proc| self.is_registered(server, &proc.namespace)) {
            return;
        }
        let first =
            self.hosted_groups.first_asked.get(&(server, name.clone())).filter(|_| self.lazy_registration.is_some());
        if first.is_none_or(|first| *first + REGISTERED_WITHIN > self.now) {
            self.rules.breaks(Rule::NothingMissing, || {
                format!("{server:?} hands over {name} of {procs:?} before all their jobs are registered")
            });
        }
    }

    /// A server tells a member of its group, or of the group's end.
    pub(crate) fn check_formed(&mut self, server: ServerId, peer: PeerId, tag: Tag, reply: &mut Reply) {
        let asked = self.hosted_groups.asked.get_mut(&peer).and_then(|asked| asked.remove(&tag));
        let Some((name, procs)) = asked else { return };
        // A group that ended without some members has ended, too.
        let is_partial_end = procs.is_empty() && *reply == Reply::Status(Status::ERR_PARTIAL_SUCCESS);
        if is_partial_end || *reply == Reply::Status(Status::SUCCESS) {
            return self.note_end_of_group(server, &name);
        }
        let Some(members) = members_in(reply) else { return };
        if self.setup.canary == Some(Canary::MemberLost) {
            members.pop();
        }
        self.note_departure_notice(peer, &name);
        let is_known = procs.iter().all(|proc| self.is_registered(server, &proc.namespace));
        let mut named = self.guests(&procs);
        named.sort_unstable();
        named.dedup();
        if is_known && self.nodes_of(&procs).len() > 1 && *members != named {
            let text = format!("{peer:?} gets the members {members:?} of {name}; expected are {named:?}");
            self.rules.breaks(Rule::Membership, || text);
        }
        if let Some(connection) = self.connections.get(&peer) {
            self.hosted_groups.formed.entry((server, name, named)).or_default().insert(connection.process);
        }
    }

    /// A server reports the end of a group with a member missing.
    pub(crate) fn check_end_of_group(&mut self, server: ServerId, name: &Text, procs: &[ProcId]) {
        if self.is_formed(server, name, procs) && self.program.outlives_deaths(name) {
            self.rules.breaks(Rule::NothingMissing, || {
                format!("{server:?} ends {name} as if the dead were missing; its members should get an event instead")
            });
        }
    }

    /// Whether there is a group with these members among others.
    pub(crate) fn is_formed(&self, server: ServerId, name: &Text, procs: &[ProcId]) -> bool {
        let first = (server, name.clone(), Vec::new());
        let of_name =
            self.hosted_groups.formed.range(first..).take_while(|((of, other, _), _)| *of == server && other == name);
        let has_all = |members: &[ProcId]| procs.iter().all(|proc| members.binary_search(proc).is_ok());
        of_name.map(|((.., members), _)| members).any(|members| has_all(members))
    }

    /// The requester's connection has ended, so it will hear nothing.
    pub(crate) fn forget_forming(&mut self, peer: PeerId) {
        self.hosted_groups.asked.remove(&peer);
    }

    /// One group has ended, or all groups of a server.
    pub(crate) fn forget_formed(&mut self, server: ServerId, name: Option<&Text>) {
        self.hosted_groups.formed.retain(|(of, other, _), _| *of != server || name.is_some_and(|name| name != other));
    }

    /// A process has gone, or has left the groups of a name.
    pub(crate) fn forget_member(&mut self, process: u32, name: Option<&Text>) {
        self.hosted_groups.formed.retain(|(_, other, _), members| {
            let was_in = name.is_none_or(|name| name == other) && members.remove(&process);
            !was_in || !members.is_empty()
        });
    }
}

fn members_in(reply: &mut Reply) -> Option<&mut Vec<ProcId>> {
    match reply {
        Reply::Group { members, .. } => Some(members),
        Reply::Partial { results, .. } => members_in(results),
        _ => None,
    }
}
