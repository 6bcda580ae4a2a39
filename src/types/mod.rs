//! The vocabulary every other module speaks.

pub mod codes;
mod status;

pub use status::Status;
