//! The attributes that the launcher honours as a host, for queries (`PMIX_QUERY_ATTRIBUTE_SUPPORT`).

use modex::output::FileDirectives;
use modex::{HostFacts, keys};

use super::launcher_query::Fact;
use super::{control_request, debug_daemons, io_request, log_request, spawn_output, spawn_request};

/// The facts about the launcher.
pub(super) fn facts() -> HostFacts {
    let facts = HostFacts::default();
    // The launcher's servers always have storage, and stage files.
    facts.note_storage(true);
    for (function, attributes) in functions() {
        let attributes = attributes.into_iter().map(str::to_owned).collect();
        if let Err(error) = facts.register_attributes(function, attributes) {
            tracing::warn!(function, %error, "the launcher cannot note its attributes");
        }
    }
    facts
}

/// The lists by which requests are read, and those of the server's services for names and files.
fn functions() -> [(&'static str, Vec<&'static str>); 12] {
    let switches = control_request::SWITCHES.iter().map(|(key, _)| *key);
    let name_range = [keys::RANGE.name(), keys::EVENT_CUSTOM_RANGE.name()];
    let publish = [keys::PERSISTENCE.name(), keys::ACCESS_PERMISSIONS.name()];
    let lookup = [keys::WAIT.name(), keys::TIMEOUT.name()];
    [
        ("PMIx_Query_info", Fact::keys().collect()),
        (
            "PMIx_Spawn",
            [
                &spawn_request::KNOWN[..],
                &spawn_request::KNOWN_OF_JOB,
                &spawn_output::KNOWN,
                &FileDirectives::KEYS,
                &spawn_request::KNOWN_OF_SPAWN,
                &debug_daemons::KNOWN,
            ]
            .concat(),
        ),
        (
            "PMIx_Job_control",
            switches.chain([keys::JOB_CTRL_SIGNAL.name()]).chain(control_request::CHECKPOINTS).collect(),
        ),
        ("PMIx_Log", [&log_request::CHANNELS[..], &log_request::KNOWN].concat()),
        ("PMIx_IOF_pull", io_request::KNOWN_OF_PULL.to_vec()),
        // The library of the pushing process reads its input.
        ("PMIx_IOF_push", vec![keys::IOF_COMPLETE.name()]),
        ("PMIx_Process_monitor", [&FILE_MONITOR[..], &RESOURCE_MONITOR].concat()),
        ("PMIx_Get_credential", vec![keys::CRED_TYPE.name()]),
        ("PMIx_Validate_credential", vec![keys::CRED_TYPE.name()]),
        ("PMIx_Publish", [name_range, publish].concat()),
        ("PMIx_Lookup", [name_range, lookup].concat()),
        ("PMIx_Unpublish", name_range.to_vec()),
    ]
}

/// The attributes of a server that watches files.
const FILE_MONITOR: [&str; 6] = [
    keys::MONITOR_FILE.name(),
    keys::MONITOR_FILE_SIZE.name(),
    keys::MONITOR_FILE_ACCESS.name(),
    keys::MONITOR_FILE_MODIFY.name(),
    keys::MONITOR_FILE_CHECK_TIME.name(),
    keys::MONITOR_FILE_DROPS.name(),
];

/// The attributes of a server that measures resources.
const RESOURCE_MONITOR: [&str; 11] = [
    keys::MONITOR_PROC_RESOURCE_USAGE.name(),
    keys::MONITOR_NODE_RESOURCE_USAGE.name(),
    keys::MONITOR_DISK_RESOURCE_USAGE.name(),
    keys::MONITOR_NET_RESOURCE_USAGE.name(),
    keys::MONITOR_RESOURCE_RATE.name(),
    keys::MONITOR_TARGET_PROCS.name(),
    keys::MONITOR_TARGET_PIDS.name(),
    keys::MONITOR_TARGET_NODES.name(),
    keys::MONITOR_TARGET_DISKS.name(),
    keys::MONITOR_TARGET_NETS.name(),
    keys::MONITOR_LOCAL_ONLY.name(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_there_once_with_known_attributes() {
        for (function, attributes) in functions() {
            let is_known = |key: &&str| keys::by_name(key).is_some() || key.starts_with("modex.");
            assert!(!attributes.is_empty() && attributes.iter().all(is_known), "{function}");
            assert!(facts().register_attributes(function, Vec::new()).is_err(), "{function}");
        }
        let served = ["PMIx_IOF_pull", "PMIx_IOF_push", "PMIx_Process_monitor"];
        assert!(served.iter().all(|function| functions().iter().any(|(known, _)| known == function)));
    }
}
