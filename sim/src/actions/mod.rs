//! The steps of a run: methods of [`World`](crate::world::World), a file for each actor or subject.
//!
//! The files above this folder hold the state and import none of it; `run` calls the steps as events happen.
//!
//! | file | owns |
//! |---|---|
//! | `client` | a process and its client core: start, put, meet, finalize, end |
//! | `gets` | the Gets of a process, and their expected results |
//! | `server` | inputs and outputs of the server cores |
//! | `requests` | the checker's account of a request: deadline, participants |
//! | `host` | upcalls, operations of several servers, fetches |
//! | `jobs` | start and end of jobs |
//! | `registration` | when servers hear of jobs |
//! | `faults` | faults of processes, servers and nodes |
//! | `hosted_groups`, `departures` | groups that the host forms; members that leave them |
//! | `bootstraps` | groups whose leaders know only how many they are |
//! | `allocations`, `output_pulls` | requests for the scheduler; forwarded output |
//! | `invitations`, `events`, `invited_groups` | groups by invitation: calls, events, checks |

mod allocations;
mod bootstraps;
mod client;
mod departures;
mod events;
mod faults;
mod gets;
mod host;
mod hosted_groups;
mod invitations;
mod invited_groups;
mod jobs;
mod output_pulls;
mod registration;
mod requests;
mod server;
