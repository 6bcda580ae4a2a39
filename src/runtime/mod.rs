//! The only threads and clocks: what drives the cores.

mod clock;
mod poller;
