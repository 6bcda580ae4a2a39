//! Each file drives the core through its doors only; invariants are checked after every input.

mod commits;
mod departures;
mod direct_modex;
mod fences;
mod gets;
mod harness;
mod limits;
mod sessions;
mod simulation;
