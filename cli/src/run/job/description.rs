//! The description of a job for the server.

use modex::Server;
use modex::gds::registration::{JobDescription, RegisterError};
use modex::keys;
use modex::types::{Info, Key};
use nix::sys::sysinfo::sysinfo;
use nix::unistd::Uid;

use crate::run::plan::Plan;
use crate::run::rank_id::FIRST_JOB;

/// All information that the standard requires from a host about a job on one node.
pub(super) fn describe(plan: &Plan, server: &Server) -> Result<Vec<Info>, RegisterError> {
    let rank_count = plan.rank_count();
    let directory = server.directory().to_string_lossy();
    let mut description = JobDescription::new(&plan.namespace)
        .server(server.proc().clone())
        .nodes([server.hostname()])
        .ranks_by_node(std::iter::once(0..rank_count))
        .own_node(0, directory.clone(), directory.clone())
        .global_rank_first(plan.global_rank_first);
    if let Ok(system) = sysinfo() {
        let bytes = system.ram_total();
        description = description.node_value(0, Key::from_static(keys::AVAIL_PHYS_MEMORY.name()), bytes);
    }
    // Open MPI 5 asks for the directories without naming a node.
    for key in [keys::TMPDIR.name(), keys::NSDIR.name()] {
        description = description.job_value(Key::from_static(key), &*directory);
    }
    let key = server.transport_key(Uid::effective().as_raw());
    description = description.job_value(Key::from_static(keys::CREDENTIAL.name()), &*key);
    for rank in 0..rank_count {
        let own = format!("{directory}/{}.{rank}", plan.namespace);
        description = description.process_value(rank, Key::from_static(keys::PROCDIR.name()), own.as_str());
    }
    // The launcher itself has started the job on its command line, also as a tool directs.
    if let Some(parent) = plan.parent.as_ref().filter(|_| plan.job != FIRST_JOB) {
        description = description.spawned_by(parent.clone());
        for rank in 0..rank_count {
            description =
                description.process_value(rank, Key::from_static(keys::NODE_RANK.name()), plan.node_rank(rank));
        }
    }
    for value in &plan.values {
        description = description.job_value(value.key.clone(), value.value.clone());
    }
    let stops =
        [(keys::DEBUG_STOP_IN_INIT.name(), &plan.stops.in_init), (keys::DEBUG_STOP_IN_APP.name(), &plan.stops.in_app)];
    for (key, stop) in stops {
        if let Some((_, value)) = stop {
            description = description.job_value(Key::from_static(key), value.clone());
        }
    }
    for app in &plan.apps {
        let words = std::iter::once(&app.program).chain(&app.arguments);
        let argv: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let working_directory = app.working_directory.as_ref().unwrap_or(&plan.directory);
        description = description.app(app.count, argv, working_directory.to_string_lossy());
    }
    // The places of ranks; localities and the like follow from them.
    for rank in 0..rank_count {
        if let Some(place) = plan.place(rank) {
            let processors: Vec<String> = place.iter().map(usize::to_string).collect();
            let list = format!("hwloc:{}", processors.join(","));
            description = description.process_value(rank, Key::from_static(keys::CPUSET.name()), list.as_str());
        }
    }
    description.build()
}
