//! The server's half of the C interface.

mod module;
mod slots;
mod upcall;
