//! Number of entries in each table of a server: after the last deregistration all should be empty.

use crate::gds::Datastore;
use crate::server::state::ServerCore;

impl<S: Datastore> ServerCore<S> {
    /// The number of entries in each table, by name. It omits recent events and lost connections, which are kept for a
    /// time, and the inventories of nodes, which outlive jobs. For tests and simulations.
    #[must_use]
    pub fn holdings(&self) -> Vec<(&'static str, usize)> {
        // A new table does not compile until it is listed here.
        let Self {
            config: _,
            own_inventory: _,
            store: _,
            registry,
            peers,
            held_gets,
            collectives,
            groups,
            given,
            invitations,
            bootstraps,
            vacancies,
            end_notices,
            exchanges,
            missed_fences,
            process_sets,
            forwarding,
            events,
            loss_window: _,
            cleanups,
            watches,
            upcalls,
            tools,
            ties,
            handovers,
            removals,
            fan_out_due: _,
            deferred,
            slices,
            pace: _,
            timers,
            outputs,
        } = self;
        vec![
            ("namespace", registry.namespaces().count()),
            ("connection", peers.len()),
            ("held Get", held_gets.iter().count()),
            ("request that waits for the topology", deferred.len()),
            ("request that takes several turns", slices.len()),
            ("collective", collectives.len()),
            ("group", groups.len()),
            ("group whose contributions are kept", given.len()),
            ("invitation", invitations.len()),
            ("group that waits for leaders", bootstraps.len()),
            ("invitation without a leader", vacancies.len()),
            ("unannounced end of a process", end_notices.len()),
            ("remembered exchange", exchanges.len()),
            ("fence to catch up with", missed_fences.len()),
            ("process set", process_sets.len()),
            ("pull of output", forwarding.len()),
            ("interest in events", events.len()),
            ("cleanup", cleanups.len()),
            ("watch", watches.len()),
            ("upcall", upcalls.len()),
            ("tool that arrives", tools.len()),
            ("process with ties", ties.len()),
            ("segment to hand over", handovers.len()),
            ("removal to tell", removals.len()),
            ("deadline", timers.iter().count()),
            ("open request", outputs.open_requests()),
            ("open call of the host", outputs.open_calls()),
        ]
    }
}
