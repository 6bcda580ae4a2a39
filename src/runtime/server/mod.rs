//! A server: its loop, its connections, and the thread of the host.

pub(super) mod cleaner;
pub(super) mod connection;
pub(super) mod connection_limits;
pub(super) mod connections;
pub(super) mod decoder;
pub(super) mod duplicate_rank_check;
pub(super) mod handshake;
pub(super) mod host;
pub(super) mod host_facts;
pub(super) mod host_thread;
pub(super) mod job_info;
pub(super) mod job_queue;
pub(super) mod job_setup;
pub(super) mod lifecycle_observer;
pub(super) mod listeners;
pub(super) mod loop_messages;
pub(super) mod memory_quota;
pub(super) mod name_desk;
pub(super) mod newcomers;
pub(super) mod own_process;
pub(super) mod own_values;
pub(super) mod pmi;
#[doc(hidden)] // For the command.
pub mod poller;
pub(super) mod process_ends;
pub(super) mod proofs;
pub(super) mod reply_line;
pub(super) mod request_quota;
pub(super) mod server_handle;
pub(super) mod server_loop;
pub(super) mod topology;
pub(super) mod topology_answers;
pub(super) mod turns;
pub(super) mod work;
pub(super) mod writes;
pub(super) mod written_event;
