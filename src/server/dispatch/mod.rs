//! The doors of the core. Each input goes to its rule, and outputs come out.
//!
//! | file | owns |
//! |---|---|
//! | `core` | [`ServerCore::handle`](crate::server::ServerCore::handle), outputs, deadlines and getters |
//! | `requests` | requests of connections, each to its rule |
//! | `host_calls` | calls of the host |
//! | `answers` | answers of the host to upcalls |
//! | `completion_table` | notices to connections without a message |
//! | `open_operations` | the operations that wait, and for whom |
//! | `holdings`, `consistency` | the entries of each table; the invariants between two inputs |

mod answers;
mod completion_table;
mod consistency;
mod core;
mod holdings;
mod host_calls;
mod open_operations;
mod requests;
