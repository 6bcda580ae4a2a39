//! Each file drives the core through its doors only; invariants are checked after every input.

mod bootstrap;
mod catch_up;
mod cleanup;
mod commits;
mod connections;
mod departures;
mod direct_modex;
mod events;
mod fences;
mod forwarding;
mod gets;
mod group_names;
mod groups;
mod harness;
mod invitations;
mod leavers;
mod limits;
mod passage;
mod psets;
mod queries;
mod registrations;
mod search;
mod sessions;
mod ties;
mod tools;
mod verdicts;
