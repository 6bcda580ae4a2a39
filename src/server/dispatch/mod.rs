//! The doors of the core: inputs go to the rules, outputs come out.

pub(super) mod completion_table;
pub(super) mod consistency;
pub(super) mod core;
pub(super) mod holdings;
