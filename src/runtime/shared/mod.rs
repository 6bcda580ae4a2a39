//! Parts of both clients and servers: clock, threads, event handlers, messages as bytes.

pub(super) mod clock;
pub(super) mod data_form;
pub(super) mod event_error;
pub(super) mod events;
pub(crate) mod handler_calls;
pub(super) mod launcher_end;
pub(super) mod local;
pub(super) mod message_codec;
pub(super) mod parameters;
pub(super) mod peer_profile;
pub(super) mod plain;
pub(super) mod prover;
pub(super) mod regular_file;
pub(super) mod threads;
