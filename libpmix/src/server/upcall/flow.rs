//! Flow control of pushed input: the host asks sources to pause, and to go on.
//!
//! A source pushes its next piece after the answer for the previous one. So a pause is an answer that waits. Thus sources
//! of every release pause, and this server's own reading of standard input does.
//!
//! The host asks for a pause by a call, or by the answer `PMIX_ERR_IOF_XOFF` to a push, which it has taken.

use std::collections::BTreeSet;

use modex::Responder;
use modex::types::{ProcId, Rank, Status};
use parking_lot::Mutex;

/// Sources that pause.
#[derive(Default)]
pub(in crate::server) struct FlowControl(Mutex<State>);

#[derive(Default)]
struct State {
    is_all_paused: bool,
    paused: BTreeSet<ProcId>,
    /// Answers that wait, with their sources.
    waiting: Vec<(ProcId, Responder<()>)>,
}

impl State {
    fn is_paused(&self, source: &ProcId) -> bool {
        let everybody = ProcId { namespace: source.namespace.clone(), rank: Rank::Wildcard };
        self.is_all_paused || self.paused.contains(source) || self.paused.contains(&everybody)
    }
}

impl FlowControl {
    /// Pauses a source; all sources without one. A wildcard rank means all processes of a job.
    pub(in crate::server) fn pause(&self, source: Option<ProcId>) {
        let mut state = self.0.lock();
        match source {
            Some(source) => drop(state.paused.insert(source)),
            None => state.is_all_paused = true,
        }
    }

    /// Lets a source go on; all sources without one.
    pub(in crate::server) fn go_on(&self, source: Option<&ProcId>) {
        let mut state = self.0.lock();
        match source {
            Some(source) => {
                let is_meant = |paused: &ProcId| {
                    paused.namespace == source.namespace
                        && (paused.rank == source.rank || source.rank == Rank::Wildcard)
                };
                state.paused.retain(|paused| !is_meant(paused));
            }
            None => {
                state.is_all_paused = false;
                state.paused.clear();
            }
        }
        let waiting = std::mem::take(&mut state.waiting);
        let (due, still): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(source, _)| !state.is_paused(source));
        state.waiting = still;
        drop(state);
        due.into_iter().for_each(|(_, reply)| reply.succeed(()));
    }

    /// Gives the host's answer for a push to its source, now or after the pause.
    pub(super) fn settle(&self, source: ProcId, status: Status, reply: Responder<()>) {
        let mut state = self.0.lock();
        if status == Status::ERR_IOF_XOFF {
            state.paused.insert(source.clone());
        } else if status != Status::SUCCESS {
            drop(state);
            return reply.fail(status);
        }
        if state.is_paused(&source) {
            return state.waiting.push((source, reply));
        }
        drop(state);
        reply.succeed(());
    }
}
