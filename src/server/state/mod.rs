//! The state of a server, without policy. Each part owns its fields.

pub(super) mod changes;
pub(super) mod collective;
pub(super) mod interest;
pub(super) mod outputs;
pub(super) mod peer;
pub(super) mod pending;
pub(super) mod registry;
pub(super) mod shares;
pub(super) mod signature;
pub(super) mod timers;
pub(super) mod transitions;
pub(super) mod waiting;
