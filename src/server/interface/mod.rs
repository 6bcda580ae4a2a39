//! The types that other modules name: inputs, outputs, requests, configuration.
//!
//! | file | owns |
//! |---|---|
//! | `io` | [`Input`] and [`Output`], the only ways in and out |
//! | `answer` | answers to requests: complete replies, and content that the runtime completes |
//! | `connection` | connections: their claims, and the facts of the kernel |
//! | `refusal` | reasons why connections are refused or closed |
//! | `host` | calls of the host, upcalls to it, and their answers |
//! | `requests` | the requester of a service, and requests of many processes |
//! | `services` | services: capability, request and answer in the form for the host |
//! | `config` | capabilities of the host, limits, rules for tools |
//! | `directives` | the directives of requests, read |
//! | `cleanup` | files and directories that the runtime removes |
//! | `job_data` | answers that begin with the description of a job |
//! | `hardware_value` | values of the fabric and of inventories, written where nothing waits for them |
//! | `query_answers` | answers to queries, with tables of processes in compact form |
//! | `unread` | posted values that another thread reads |
//! | `output_settings` | directives for kept output and for the size of deliveries |
//! | `open_operation` | operations under way, for people |
//! | `own_keys` | keys of this library for questions about hardware |

pub(super) mod answer;
pub(super) mod cleanup;
pub(super) mod config;
pub(super) mod connection;
mod directives;
pub(super) mod hardware_value;
pub(super) mod host;
pub(super) mod io;
pub(super) mod job_data;
pub(super) mod open_operation;
pub(super) mod output_settings;
pub(super) mod own_keys;
pub(super) mod query_answers;
pub(super) mod refusal;
pub(super) mod requests;
pub(super) mod services;
pub(super) mod unread;

pub(super) use answer::{Answer, TopologyQuestion};
pub(super) use cleanup::{Cleanup, DirectoryRules};
pub(super) use config::{Capabilities, Limits, ServerConfig, ToolAdmission};
pub(super) use connection::{
    Credentials, Hello, PeerId, StoreOffer, ToolHello, ToolKind, UNDERSTOOD_OF_ATTACHING, UNDERSTOOD_OF_NEW_TOOLS,
};
pub(super) use directives::{GetDirectives, OwnedRealm, processes};
pub(crate) use directives::{find, flag, requires_more_than, timeout};
pub(super) use hardware_value::{AllNodes, HardwareAnswer, HardwareValue, described, facts};
pub(super) use host::{
    AbortUpcall, ClientConnected, ClientFinalized, Contribution, Delivery, DirectModex, DirectModexRequest,
    FenceUpcall, HostCall, HostCallId, HostData, HostReply, HostResult, OwnGet, OwnQuery, ProcessFacts, ProcessSet,
    RegisterClient, RegisterEvents, RegisterNamespace, ToolUpcall, Upcall, UpcallId, settled,
};
pub(super) use io::{EventDelivery, FileLook, FileState, Forwarded, Garbage, Input, NodeHardware, Output};
pub(super) use job_data::JobData;
pub(super) use open_operation::{OpenOperation, OperationKind};
pub(super) use output_settings::{OutputSettings, PULL_BUFFER_BYTES_MAX};
pub(super) use own_keys::{CURRENT_INVENTORY, INVENTORY, TOPOLOGY};
pub(super) use query_answers::{ProcessRow, QueryAnswer, QueryAnswers, QueryTable};
pub(super) use refusal::{Reason, Refusal};
pub(super) use requests::{Connect, GroupOperation, GroupRequest, IofOutput, Requester, Signed, set};
pub(super) use unread::{AnswerData, CommittedValues, ProcessAnswer};
