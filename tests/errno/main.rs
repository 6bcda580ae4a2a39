//! System calls that fail. Every call of a client's whole life, of a server's, and of `modex run`'s gets each error
//! that fits it, once and from then on.
//!
//! - Harmless faults (an interruption, a full buffer, a transfer of one byte) have no effect.
//! - After any other fault, the affected process reports it or goes on.
//! - Its peers end by themselves, every value read equals the one that was put, and nothing is left behind.
//! - A process may be killed at any moment, too. Then all its peers get the same result, its clients get an error, and
//!   the next server finds no obstacle.
//!
//! `cargo test` kills a client everywhere, and tries a few places of each other kind; `make faults` tries all.
//! `MODEX_FAULT=client:EMFILE:once:17` tries one. If all processes are stopped for longer than the alarms, running ones
//! are reported as hanging: try such places again.
#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/command.rs"]
mod command;
mod faults;
mod launcher;
mod roles;
#[path = "../support/mod.rs"]
mod support;
mod sweep;
mod tracer;

use faults::{Extent, Fault, KINDS, What};
use support::{role, this_binary};
use sweep::{Wire, clients_sweep, servers_sweep};

#[test]
fn client_process() {
    match role().as_deref() {
        Some("victim") => roles::victim(),
        Some("peer") => roles::peer(),
        Some("host") => roles::host(),
        Some("rank") => roles::rank(),
        Some("launcher") => roles::launcher(),
        Some("next launcher") => roles::next_launcher(),
        Some("launched") => roles::launched(),
        Some(other) => panic!("unknown role {other}"),
        None => {}
    }
}

#[test]
fn a_client_to_which_the_kernel_says_no_goes_on_or_says_why() {
    // A client creates no files.
    clients_sweep("client", Wire::Own, &KINDS[1..], || this_binary("victim"));
}

#[test]
fn so_does_one_that_speaks_as_clients_of_the_reference_do() {
    clients_sweep("tcp-client", Wire::Reference, &KINDS[1..], || this_binary("victim"));
}

#[test]
fn a_server_to_which_the_kernel_says_no_goes_on_or_says_why() {
    servers_sweep("server", Wire::Own);
}

#[test]
fn so_does_one_whose_clients_speak_as_those_of_the_reference_do() {
    servers_sweep("tcp-server", Wire::Reference);
}

#[test]
fn a_launcher_to_which_the_kernel_says_no_runs_the_job_or_says_why_and_leaves_nothing() {
    launcher::launchers_sweep("launcher");
}

#[test]
fn faults_are_read_as_they_are_written() {
    for (what, extents) in KINDS {
        for &extent in extents {
            let text = Fault { what, extent, at: 3, aim: None }.to_string();
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
    }
    assert!("EMFILE:twice:1".parse::<Fault>().is_err());
    assert_eq!(What::Short.is_harmless(), Extent::Once.times() == 1);
}
