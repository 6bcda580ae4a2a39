//! The helper functions of the standard: they make, fill, copy, compare and release the structures of the interface.
//! None of them needs `PMIx_Init`, sends a message, or keeps its arguments. Each family has a file; `family` holds the
//! common part of `construct`, `create`, `destruct` and `free`.
//!
//! Source: PMIx Standard, "Data Structures and Types"; exported since 4.2.3, macros before.

pub mod argv;
pub mod bytes;
mod code_names;
mod compare;
pub mod data_array;
pub mod devices;
mod family;
pub mod info;
pub mod info_list;
pub mod members;
pub mod names;
mod number;
mod print;
pub mod processes;
pub mod requests;
pub mod statistics;
pub mod strings;
#[cfg(test)]
mod tests;
pub mod value;

pub(crate) use print::value as describe;
