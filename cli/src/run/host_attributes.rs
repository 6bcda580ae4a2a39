//! The attributes that the launcher honours as a host, for queries (`PMIX_QUERY_ATTRIBUTE_SUPPORT`).

use modex::output::FileDirectives;
use modex::{HostFacts, ServerService, keys};

use super::launcher_query::Fact;
use super::{control_request, debug_daemons, io_request, log_request, spawn_output, spawn_request};

/// The facts about the launcher.
pub(super) fn facts() -> HostFacts {
    let facts = HostFacts::default();
    SERVICES.into_iter().for_each(|service| facts.note_service(service));
    for (function, attributes) in functions() {
        let attributes = attributes.into_iter().map(str::to_owned).collect();
        if let Err(error) = facts.register_attributes(function, attributes) {
            tracing::warn!(function, %error, "the launcher cannot note its attributes");
        }
    }
    facts
}

/// The lists by which requests are read.
fn functions() -> [(&'static str, Vec<&'static str>); 6] {
    let switches = control_request::SWITCHES.iter().map(|(key, _)| *key);
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
            switches
                .chain([keys::JOB_CTRL_SIGNAL.name(), keys::JOB_CTRL_DEFINE_PSET.name()])
                .chain(control_request::CHECKPOINTS)
                .collect(),
        ),
        ("PMIx_Log", [&log_request::CHANNELS[..], &log_request::KNOWN].concat()),
        ("PMIx_IOF_pull", io_request::KNOWN_OF_PULL.to_vec()),
        // The library of the pushing process reads its input.
        ("PMIx_IOF_push", vec![keys::IOF_COMPLETE.name()]),
    ]
}

/// The services that the launcher's servers have.
const SERVICES: [ServerService; 6] = [
    ServerService::Names,
    ServerService::FileMonitor,
    ServerService::ResourceMonitor,
    ServerService::Credentials,
    ServerService::Storage,
    ServerService::FileStaging,
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
    }
}
