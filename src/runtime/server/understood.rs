//! The attributes that this library honours, for each function and the party that honours them.
//!
//! The lists are those by which the code decides: a required attribute that no list has is refused. The code of some
//! lists is in the C library. Attributes beyond these go to the host of a server, which registers its own.
//!
//! Source: PMIx Standard, "Querying Attribute Support".

use std::collections::BTreeSet;

use super::job_setup::{ENVIRONMENT_CHANGES, EXCLUDE, UNDERSTOOD as OF_SETUPS, UNDERSTOOD_OF_LOCAL_SUPPORT};
use super::{credential_desk, fabric_desk, setup_desk};
use crate::client::{
    UNDERSTOOD_OF_ACCEPTANCES, UNDERSTOOD_OF_INIT, UNDERSTOOD_OF_INVITATIONS, UNDERSTOOD_OF_QUERIES,
    UNDERSTOOD_OF_REQUESTS as TIME_LIMIT,
};
use crate::events::{Event, Registration};
use crate::gds::registration::CONTAINERS;
use crate::names::{OF_LOOKUP, OF_PUBLISH, OF_UNPUBLISH};
use crate::output::FileDirectives;
use crate::proto::Get;
use crate::server::{
    ALL_INVENTORIES, CLEANUP_PATHS, CLEANUP_RULES, CURRENT_INVENTORY, FACTS_OF_SPAWN, INVENTORY, OUTPUT_DIRECTIVES,
    QUERY_QUALIFIERS, SIGNATURE, UNDERSTOOD_OF_ATTACHING, UNDERSTOOD_OF_CONNECTIONS, UNDERSTOOD_OF_FENCES,
    UNDERSTOOD_OF_FILES, UNDERSTOOD_OF_GROUP_ENDS, UNDERSTOOD_OF_GROUPS, UNDERSTOOD_OF_HEARTBEATS,
    UNDERSTOOD_OF_NEW_TOOLS, UNDERSTOOD_OF_NUMBERS, UNDERSTOOD_OF_OUTPUT,
};
use crate::{keys, storage, usage};

/// A party that honours attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Client,
    Server,
    Tool,
    Host,
}

/// A service that a server has only if its host starts it so. The server then stands in for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ServerService {
    /// [`ServerBuilder::name_service`](crate::ServerBuilder::name_service).
    Names,
    /// [`ServerBuilder::file_monitor`](crate::ServerBuilder::file_monitor).
    FileMonitor,
    /// [`ServerBuilder::resource_monitor`](crate::ServerBuilder::resource_monitor).
    ResourceMonitor,
    /// [`ServerBuilder::credentials`](crate::ServerBuilder::credentials).
    Credentials,
    /// [`ServerBuilder::fabric`](crate::ServerBuilder::fabric).
    Fabric,
    /// The server is a scheduler's ([`ToolSupport::is_scheduler`](crate::ToolSupport)).
    Scheduler,
    /// [`ServerBuilder::storage`](crate::ServerBuilder::storage).
    Storage,
    /// [`ServerBuilder::file_staging`](crate::ServerBuilder::file_staging).
    FileStaging,
}

/// The function whose attributes are qualifiers of queries.
const QUERY: &str = "PMIx_Query_info";

/// The table of what the library always honours.
pub(super) const OF_LIBRARY: &[(Level, &str, &[&[&str]])] = &[
    (Level::Client, "PMIx_Allocation_request", &[&TIME_LIMIT]),
    (Level::Client, "PMIx_Compute_distances", &[&OF_DISTANCES]),
    (Level::Client, "PMIx_Fabric_register", &[&TIME_LIMIT]),
    (Level::Client, "PMIx_Finalize", &[&OF_FINALIZE]),
    (Level::Client, "PMIx_Get", &[&Get::OF_CLIENT, &Get::OF_BOTH, &Get::OF_HARDWARE]),
    (Level::Client, "PMIx_Get_credential", &[&TIME_LIMIT]),
    (Level::Client, "PMIx_Group_invite", &[&UNDERSTOOD_OF_INVITATIONS]),
    (Level::Client, "PMIx_Group_join", &[&UNDERSTOOD_OF_ACCEPTANCES]),
    (Level::Client, "PMIx_IOF_deregister", &[&TIME_LIMIT]),
    (Level::Client, "PMIx_IOF_pull", &[&TIME_LIMIT, &OF_OUTPUT_FORMS, &FileDirectives::KEYS]),
    (Level::Client, "PMIx_IOF_push", &[&TIME_LIMIT, &OF_INPUT]),
    (Level::Client, "PMIx_Init", &[&UNDERSTOOD_OF_INIT]),
    (Level::Client, "PMIx_Job_control", &[&TIME_LIMIT]),
    (Level::Client, "PMIx_Log", &[&TIME_LIMIT]),
    (Level::Client, "PMIx_Lookup", &[&TIME_LIMIT]),
    (Level::Client, "PMIx_Notify_event", &[&Event::UNDERSTOOD]),
    (Level::Client, "PMIx_Process_monitor", &[&TIME_LIMIT]),
    (Level::Client, "PMIx_Publish", &[&TIME_LIMIT]),
    (Level::Client, QUERY, &[&TIME_LIMIT, &UNDERSTOOD_OF_QUERIES]),
    (Level::Client, "PMIx_Register_event_handler", &[&Registration::UNDERSTOOD]),
    (Level::Client, "PMIx_Resource_block", &[&TIME_LIMIT]),
    (Level::Client, "PMIx_Session_control", &[&TIME_LIMIT]),
    (Level::Client, "PMIx_Spawn", &[&TIME_LIMIT]),
    (Level::Client, "PMIx_Unpublish", &[&TIME_LIMIT]),
    (Level::Client, "PMIx_Validate_credential", &[&TIME_LIMIT]),
    (Level::Server, "PMIx_Allocation_request", &[&SIGNATURE]),
    (Level::Server, "PMIx_Connect", &[&UNDERSTOOD_OF_CONNECTIONS]),
    (Level::Server, "PMIx_Disconnect", &[&UNDERSTOOD_OF_CONNECTIONS]),
    (Level::Server, "PMIx_Fabric_register", &[&SIGNATURE]),
    (Level::Server, "PMIx_Fence", &[&UNDERSTOOD_OF_FENCES]),
    (Level::Server, "PMIx_Forward_envars", &[&OF_FORWARDED_VARIABLES]),
    (Level::Server, "PMIx_Get", &[&Get::OF_BOTH, &Get::OF_HARDWARE]),
    (Level::Server, "PMIx_Get_credential", &[&SIGNATURE]),
    (Level::Server, "PMIx_Group_construct", &[&UNDERSTOOD_OF_GROUPS]),
    (Level::Server, "PMIx_Group_destruct", &[&UNDERSTOOD_OF_GROUP_ENDS]),
    (Level::Server, "PMIx_IOF_pull", &[&OUTPUT_DIRECTIVES, &SIGNATURE]),
    (Level::Server, "PMIx_IOF_push", &[&SIGNATURE]),
    (Level::Server, "PMIx_Job_control", &[&CLEANUP_PATHS, &CLEANUP_RULES, &UNDERSTOOD_OF_NUMBERS, &SIGNATURE]),
    (Level::Server, "PMIx_Log", &[&LOG_CHANNELS, &OF_LOGS, &SIGNATURE]),
    (Level::Server, "PMIx_Lookup", &[&SIGNATURE]),
    (Level::Server, "PMIx_Notify_event", &[&Event::UNDERSTOOD]),
    (
        Level::Server,
        "PMIx_Process_monitor",
        &[&[keys::MONITOR_HEARTBEAT.name()], &UNDERSTOOD_OF_HEARTBEATS, &OF_CANCELLATIONS, &SIGNATURE],
    ),
    (Level::Server, "PMIx_Publish", &[&SIGNATURE]),
    (Level::Server, QUERY, &[&QUERY_QUALIFIERS, &usage::QUERY_QUALIFIERS, &OF_SUPPORT, &SIGNATURE]),
    (Level::Server, "PMIx_Resource_block", &[&SIGNATURE]),
    (Level::Server, "PMIx_Session_control", &[&SIGNATURE]),
    (Level::Server, "PMIx_Spawn", &[&OUTPUT_DIRECTIVES, &[keys::IOF_INHERIT.name()], &FACTS_OF_SPAWN, &SIGNATURE]),
    (Level::Server, "PMIx_Unpublish", &[&SIGNATURE]),
    (Level::Server, "PMIx_Validate_credential", &[&SIGNATURE]),
    (Level::Server, "PMIx_server_IOF_deliver", &[&UNDERSTOOD_OF_OUTPUT, &OF_DELIVERED_OUTPUT]),
    (Level::Server, "PMIx_server_collect_inventory", &[&OF_COLLECTIONS, &OF_ASKED_SERVERS]),
    (Level::Server, "PMIx_server_deliver_inventory", &[&OF_INVENTORIES]),
    (
        Level::Server,
        "PMIx_server_init",
        &[&OF_SERVERS, &OUTPUT_DIRECTIVES, &OF_OUTPUT_FORMS, &OF_WRITTEN_OUTPUT, &FileDirectives::KEYS],
    ),
    (
        Level::Server,
        "PMIx_server_register_nspace",
        &[&CONTAINERS, &[keys::REGISTER_NODATA.name(), keys::IOF_INHERIT.name()]],
    ),
    (Level::Server, "PMIx_server_setup_application", &[&ENVIRONMENT_CHANGES, &OF_SETUPS]),
    (Level::Server, "PMIx_server_setup_local_support", &[&ENVIRONMENT_CHANGES, &UNDERSTOOD_OF_LOCAL_SUPPORT]),
    (Level::Tool, "PMIx_Spawn", &[&ENVIRONMENT_CHANGES, &OF_FORKED_APPS, &OF_FORKED_JOBS, &OF_DEBUGGED_JOBS]),
    (Level::Tool, "PMIx_tool_attach_to_server", &[&UNDERSTOOD_OF_ATTACHING]),
    (Level::Tool, "PMIx_tool_connect_to_server", &[&UNDERSTOOD_OF_ATTACHING]),
    (Level::Tool, "PMIx_tool_init", &[&UNDERSTOOD_OF_ATTACHING, &UNDERSTOOD_OF_NEW_TOOLS]),
    (Level::Tool, "PMIx_tool_set_server", &[&OF_CHOICES]),
];

/// The table of what a server honours with a service.
pub(super) const OF_SERVICES: &[(ServerService, &str, &[&[&str]])] = &[
    (ServerService::Names, "PMIx_Publish", &[&OF_PUBLISH]),
    (ServerService::Names, "PMIx_Lookup", &[&OF_LOOKUP]),
    (ServerService::Names, "PMIx_Unpublish", &[&OF_UNPUBLISH]),
    (ServerService::FileMonitor, "PMIx_Process_monitor", &[&[keys::MONITOR_FILE.name()], &UNDERSTOOD_OF_FILES]),
    (ServerService::ResourceMonitor, "PMIx_Process_monitor", &[&usage::MONITORS, &usage::UNDERSTOOD]),
    (ServerService::Credentials, "PMIx_Get_credential", &[&credential_desk::UNDERSTOOD]),
    (ServerService::Credentials, "PMIx_Validate_credential", &[&credential_desk::UNDERSTOOD]),
    (ServerService::Fabric, "PMIx_Fabric_register", &[&fabric_desk::UNDERSTOOD]),
    (ServerService::Scheduler, "PMIx_Allocation_request", &[&setup_desk::UNDERSTOOD]),
    (ServerService::Storage, QUERY, &storage::QUALIFIERS),
    (ServerService::FileStaging, "PMIx_Job_control", &storage::DIRECTIVES),
];

/// The attributes of a function that this library honours at any level. The C library compares its code with them.
#[must_use]
pub fn attributes_of_library(function: &str) -> BTreeSet<&'static str> {
    let rows = OF_LIBRARY.iter().filter(|(_, name, _)| *name == function);
    rows.flat_map(|(.., lists)| lists.concat()).collect()
}

/// Directives of `PMIx_Compute_distances`.
pub const OF_DISTANCES: [&str; 2] = [keys::DEVICE_TYPE.name(), keys::DEVICE_ID.name()];

/// Directives of `PMIx_Finalize`.
pub const OF_FINALIZE: [&str; 1] = [keys::EMBED_BARRIER.name()];

/// Directives of a push without data, which is about the process's own input.
pub const OF_INPUT: [&str; 2] = [keys::IOF_PUSH_STDIN.name(), keys::IOF_COMPLETE.name()];

/// Directives of a server and of a pull for the form of written lines.
pub const OF_OUTPUT_FORMS: [&str; 10] = [
    keys::IOF_TAG_OUTPUT.name(),
    keys::IOF_TAG_FULLNAME_OUTPUT.name(),
    keys::IOF_RANK_OUTPUT.name(),
    keys::IOF_TIMESTAMP_OUTPUT.name(),
    keys::IOF_XML_OUTPUT.name(),
    keys::IOF_OUTPUT_RAW.name(),
    keys::IOF_MERGE_STDERR_STDOUT.name(),
    keys::TAG_OUTPUT.name(),
    keys::TIMESTAMP_OUTPUT.name(),
    keys::MERGE_STDERR_STDOUT.name(),
];

/// Directives about written output that only a server honours: it knows where a process runs.
pub const OF_WRITTEN_OUTPUT: [&str; 2] = [keys::IOF_LOCAL_OUTPUT.name(), keys::IOF_TAG_DETAILED_OUTPUT.name()];

/// Infos of `PMIx_server_IOF_deliver`.
pub const OF_DELIVERED_OUTPUT: [&str; 2] = [keys::IOF_COMPLETE.name(), keys::IOF_LOCAL_OUTPUT.name()];

/// Channels of `PMIx_Log` that a server writes itself, because it is a gateway or its host has no log.
pub const LOG_CHANNELS: [&str; 5] = [
    keys::LOG_STDERR.name(),
    keys::LOG_STDOUT.name(),
    keys::LOG_SYSLOG.name(),
    keys::LOG_LOCAL_SYSLOG.name(),
    keys::LOG_GLOBAL_SYSLOG.name(),
];

/// Directives of such a log, beside the ids of the requester.
pub const OF_LOGS: [&str; 4] =
    [keys::LOG_ONCE.name(), keys::LOG_SOURCE.name(), keys::LOG_TIMESTAMP.name(), keys::LOG_SYSLOG_PRI.name()];

/// Objects of `PMIx_Process_monitor` beside a watch.
const OF_CANCELLATIONS: [&str; 2] = [keys::MONITOR_CANCEL.name(), keys::SEND_HEARTBEAT.name()];

/// Directives of `PMIx_tool_set_server`.
pub const OF_CHOICES: [&str; 2] = [keys::WAIT_FOR_CONNECTION.name(), keys::TIMEOUT.name()];

/// Directives of `PMIx_Forward_envars`: patterns of variables that a job does not get.
pub const OF_FORWARDED_VARIABLES: [&str; 1] = [EXCLUDE];

/// Directives of `PMIx_server_collect_inventory`: flags, and addresses.
pub const OF_COLLECTIONS: [&str; 4] = [INVENTORY, ALL_INVENTORIES, CURRENT_INVENTORY, keys::SERVER_URI.name()];

/// Further directives of it, with addresses.
pub const OF_ASKED_SERVERS: [&str; 1] = [keys::TIMEOUT.name()];

/// Infos of `PMIx_server_deliver_inventory`.
pub const OF_INVENTORIES: [&str; 2] = [INVENTORY, keys::HOSTNAME.name()];

/// Directives of an application that a tool starts itself.
pub const OF_FORKED_APPS: [&str; 2] = [keys::FORKEXEC_AGENT.name(), keys::WDIR.name()];

/// Further directives of such a job, beside those for its output. Events about the end are raised without a directive.
pub const OF_FORKED_JOBS: [&str; 5] = [
    keys::FWD_STDOUT.name(),
    keys::FWD_STDERR.name(),
    keys::NOHUP.name(),
    keys::NOTIFY_COMPLETION.name(),
    keys::NOTIFY_JOB_EVENTS.name(),
];

/// Directives of such a job that its processes find in its description.
pub const OF_DEBUGGED_JOBS: [&str; 4] = [
    keys::SPAWN_TOOL.name(),
    keys::LAUNCH_DIRECTIVES.name(),
    keys::DEBUG_STOP_IN_INIT.name(),
    keys::DEBUG_STOP_IN_APP.name(),
];

/// Infos that a server in C reads at its start, beside those for output.
pub const OF_SERVERS: [&str; 28] = [
    keys::EXTERNAL_PROGRESS.name(),
    keys::SERVER_ENABLE_MONITORING.name(),
    keys::SERVER_NSPACE.name(),
    keys::SERVER_RANK.name(),
    keys::HOSTNAME.name(),
    keys::SERVER_TMPDIR.name(),
    keys::SYSTEM_TMPDIR.name(),
    keys::LAUNCHER_RENDEZVOUS_FILE.name(),
    keys::TCP_REPORT_URI.name(),
    keys::TCP_DISABLE_IPV4.name(),
    keys::TCP_DISABLE_IPV6.name(),
    keys::TCP_IPV4_PORT.name(),
    keys::TCP_IPV6_PORT.name(),
    keys::TCP_IF_INCLUDE.name(),
    keys::TCP_IF_EXCLUDE.name(),
    keys::SERVER_REMOTE_CONNECTIONS.name(),
    keys::SERVER_TOOL_SUPPORT.name(),
    keys::SERVER_ALLOW_FOREIGN_TOOLS.name(),
    keys::SERVER_SESSION_SUPPORT.name(),
    keys::SERVER_SYSTEM_SUPPORT.name(),
    keys::SERVER_SCHEDULER.name(),
    keys::SERVER_SYS_CONTROLLER.name(),
    keys::SERVER_GATEWAY.name(),
    keys::SERVER_SHARE_TOPOLOGY.name(),
    keys::HWLOC_SHARE_TOPO.name(),
    keys::TOPOLOGY.name(),
    keys::TOPOLOGY2.name(),
    keys::TOPOLOGY_FILE.name(),
];

/// Qualifiers of a query about attribute support, and its key.
pub(super) const OF_SUPPORT: [&str; 5] = [
    keys::QUERY_ATTRIBUTE_SUPPORT.name(),
    Level::Client.attributes_key(),
    Level::Server.attributes_key(),
    Level::Tool.attributes_key(),
    Level::Host.attributes_key(),
];

impl Level {
    pub(super) const ALL: [Self; 4] = [Self::Client, Self::Server, Self::Tool, Self::Host];

    /// The level that a qualifier names, and whether it asks for the list of functions.
    pub(super) fn of(key: &str) -> Option<(Self, bool)> {
        let level = |level: Self| match key {
            key if key == level.attributes_key() => Some((level, false)),
            key if key == level.functions_key() => Some((level, true)),
            _ => None,
        };
        Self::ALL.into_iter().find_map(level)
    }

    pub(super) const fn attributes_key(self) -> &'static str {
        match self {
            Self::Client => keys::CLIENT_ATTRIBUTES.name(),
            Self::Server => keys::SERVER_ATTRIBUTES.name(),
            Self::Tool => keys::TOOL_ATTRIBUTES.name(),
            Self::Host => keys::HOST_ATTRIBUTES.name(),
        }
    }

    pub(super) const fn functions_key(self) -> &'static str {
        match self {
            Self::Client => keys::CLIENT_FUNCTIONS.name(),
            Self::Server => keys::SERVER_FUNCTIONS.name(),
            Self::Tool => keys::TOOL_FUNCTIONS.name(),
            Self::Host => keys::HOST_FUNCTIONS.name(),
        }
    }
}
