//! The state of a server, without policy. Most parts own their fields and the methods that change them. No
//! part knows the whole.
//!
//! | file | owns |
//! |---|---|
//! | `server` | the [`ServerCore`]: one field for each part |
//! | `outputs` | pending outputs; tickets, the duties to answer |
//! | `timers` | deadlines |
//! | `peer` | connections |
//! | `registry` | announced jobs |
//! | `client`, `changes` | an announced process and its presence; keys that its commits changed |
//! | `shares` | the share of each user in a bounded resource |
//! | `pending` | upcalls without an answer |
//! | `held_gets`, `reviews` | held requests for data; their reviews after a change |
//! | `passes`, `pace` | passes over many things after a change, in steps; the work that ends do at once |
//! | `commit_number`, `commit_rest` | the number of a commit; the rest of a large one |
//! | `slices` | unfinished requests |
//! | `questions`, `query_scope` | queries and the progress of their answers; the subject of a query |
//! | `hardware`, `deferred` | what is known of the topology; requests that wait for it |
//! | `interest`, `events` | codes that listeners want; registrations and recent events |
//! | `watches` | watches of processes and files |
//! | `forwarding`, `output_pull` | pulls of output; one pull, and what its next delivery waits with |
//! | `kept_output` | output that nobody has pulled |
//! | `wanted_output` | the number of pulls for each process and channel |
//! | `pull_shares` | the pulls of each user and process |
//! | `cleanups` | paths registered for removal |
//! | `process_sets` | process sets of the host |
//! | `tools` | tools that wait for the host |
//! | `fan_out` | messages that each of many connections gets |
//! | `ties` | ties of processes to other jobs |
//! | `signature`, `transitions` | kind and participants of an operation; the effects of events on it |
//! | `operation`, `collectives`, `early_connect` | one operation of many processes; all of them; the state of one that goes to the host early |
//! | `merged_directives` | the directives of an operation's participants |
//! | `awaited_clones` | the ranks of a fence that lack clones |
//! | `exchanges`, `missed_fences` | commits that participants have of each other; fences that this server missed |
//! | `group` | groups and invitations |
//! | `sizes`, `index` | the memory of participants and infos; sets of ids by key |

mod awaited_clones;
mod changes;
mod cleanups;
mod client;
mod collectives;
mod commit_number;
mod commit_rest;
mod deferred;
mod early_connect;
mod events;
mod exchanges;
mod fan_out;
mod forwarding;
mod generated_values;
mod group;
mod hardware;
mod held_gets;
mod index;
mod interest;
mod kept_output;
mod merged_directives;
mod missed_fences;
mod operation;
mod output_pull;
mod outputs;
mod pace;
mod passes;
mod peer;
mod pending;
mod process_sets;
mod pull_shares;
mod query_scope;
mod questions;
mod registry;
mod reviews;
pub(super) mod server;
pub(super) mod shares;
mod signature;
mod sizes;
mod slices;
mod ties;
mod timers;
mod tools;
pub(super) mod transitions;
mod wanted_output;
mod watches;

pub(super) use cleanups::CleanupRequest;
pub(crate) use cleanups::{CLEANUP_PATHS, CLEANUP_RULES};
pub(super) use client::{Presence, RegisteredClient};
pub(super) use commit_number::{EVERYTHING, split_number, take_commit_number};
pub(super) use commit_rest::{CommitRest, PARTS_MAX, PIECE_ENTRIES_MAX};
pub(super) use deferred::DeferredRequest;
pub(super) use early_connect::EarlyConnect;
pub(super) use events::{EventOrigin, HeldEvent, Voice, listener_of};
pub(super) use forwarding::{AskedPull, FollowingPull};
pub(super) use group::bootstraps::{Bootstrap, BootstrapArrival, BootstrapId};
pub(super) use group::end_notices::{EndedProcess, NoticeProgress};
pub(super) use group::group_table::Group;
pub(super) use group::invitations::{Bereaved, Invited};
pub(super) use group::progress::GroupProgress;
pub(super) use hardware::{Hardware, Topology};
pub(super) use held_gets::{Asker, DirectModexData, HeldGet, RequestedData, Review, Settlement};
pub(super) use interest::{Codes, Listener};
pub(super) use operation::{Collective, FenceRequest, Gathered, HostAnswer, OperationId, OperationStage, brings_about};
pub(super) use output_pull::{Collected, OutputPull};
pub(super) use outputs::{CallTicket, Ticket};
pub(super) use pace::{LOOKS_PER_STEP, OUTPUTS_PER_STEP};
pub(super) use peer::{Peer, PeerStage};
pub(super) use pending::{AbortStage, Expected, Fetch, PendingUpcall, Purpose, SpawnedOutput};
pub(super) use query_scope::QueryScope;
pub(crate) use questions::for_runtime;
pub(super) use questions::{Answering, QueryProgress, Questions};
pub(super) use registry::{RegisteredJob, Registry, Remote};
pub(super) use reviews::{Concerned, HeldGetId};
pub(super) use server::ServerCore;
pub(super) use shares::Pool;
pub(super) use signature::{CollectiveKind, Participants, Signature};
pub(crate) use signature::{
    UNDERSTOOD_OF_CONNECTIONS, UNDERSTOOD_OF_FENCES, UNDERSTOOD_OF_GROUP_ENDS, UNDERSTOOD_OF_GROUPS,
};
pub(super) use sizes::{size_of_infos, size_of_procs};
pub(super) use slices::Rest;
pub(super) use ties::{Bond, Handover, Jobs, Lost, Tie};
pub(super) use timers::{NEXT_STEP_IN, Timer};
pub(super) use transitions::CollectivePhase;
pub(super) use watches::{Interval, Watch, WatchId};
pub(crate) use watches::{UNDERSTOOD_OF_FILES, UNDERSTOOD_OF_HEARTBEATS};
