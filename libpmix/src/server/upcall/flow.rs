//! Flow control of pushed input: the host asks sources to pause, and to go on.
//!
//! Our own clients, tools and reading of standard input push the next piece after the answer for the previous one. So a
//! pause is an answer that waits. Tools of released OpenPMIx wait for no answer, so they push on during a pause.
//!
//! The host asks for a pause by a call, or by the answer `PMIX_ERR_IOF_XOFF` to a push, which it has taken.

use std::collections::BTreeMap;

use modex::Responder;
use modex::types::{Namespace, ProcId, Rank, Status};
use parking_lot::Mutex;

/// Sources that pause.
#[derive(Default)]
pub(in crate::server) struct FlowControl(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whether sources without a rule pause.
    is_all_paused: bool,
    /// Whether a source pauses. A wildcard rank is the rule for processes of a job without an own rule.
    rules: BTreeMap<ProcId, bool>,
    /// Answers that wait, with their sources.
    waiting: Vec<(ProcId, Responder<()>)>,
    /// The server ends, so no answer waits.
    is_over: bool,
}

impl State {
    fn is_paused(&self, source: &ProcId) -> bool {
        let everybody = ProcId { namespace: source.namespace.clone(), rank: Rank::Wildcard };
        let rule = self.rules.get(source).or_else(|| self.rules.get(&everybody));
        !self.is_over && *rule.unwrap_or(&self.is_all_paused)
    }

    /// The last rule for a source has precedence, also over wider ones.
    fn rule(&mut self, source: Option<ProcId>, is_paused: bool) {
        let Some(source) = source else {
            self.is_all_paused = is_paused;
            return self.rules.clear();
        };
        if source.rank == Rank::Wildcard {
            self.rules.retain(|proc, _| proc.namespace != source.namespace);
        } else {
            self.rules.remove(&source);
        }
        if self.is_paused(&source) != is_paused {
            self.rules.insert(source, is_paused);
        }
    }

    /// Takes the answers that need not wait any more.
    fn due(&mut self) -> Vec<Responder<()>> {
        let waiting = std::mem::take(&mut self.waiting);
        let (due, still) = waiting.into_iter().partition(|(source, _)| !self.is_paused(source));
        self.waiting = still;
        due.into_iter().map(|(_, reply)| reply).collect()
    }
}

impl FlowControl {
    /// Pauses a source, or lets it go on; all sources without one. A wildcard rank means all processes of a job.
    pub(in crate::server) fn set(&self, source: Option<ProcId>, is_paused: bool) {
        self.change(|state| state.rule(source, is_paused));
    }

    /// Whether a source pauses.
    pub(in crate::server) fn pauses(&self, source: &ProcId) -> bool {
        self.0.lock().is_paused(source)
    }

    /// Forgets a process that has ended.
    pub(in crate::server) fn forget(&self, source: &ProcId) {
        self.change(|state| state.rules.retain(|proc, _| proc != source));
    }

    /// Forgets the processes of a job that has ended.
    pub(in crate::server) fn forget_job(&self, namespace: &Namespace) {
        self.change(|state| state.rules.retain(|source, _| source.namespace != *namespace));
    }

    /// Answers everything, from now on at once.
    pub(in crate::server) fn end(&self) {
        self.change(|state| state.is_over = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock();
        change(&mut state);
        let due = state.due();
        drop(state);
        due.into_iter().for_each(|reply| reply.succeed(()));
    }

    /// Gives the host's answer for a push to its source, now or after the pause.
    pub(super) fn settle(&self, source: ProcId, status: Status, reply: Responder<()>) {
        let mut state = self.0.lock();
        if status == Status::ERR_IOF_XOFF {
            state.rule(Some(source.clone()), true);
        } else if status != Status::SUCCESS {
            drop(state);
            return reply.fail(status);
        }
        // A source with so many open pushes does not wait for answers.
        let count = state.waiting.iter().filter(|(waiting, _)| *waiting == source).count();
        if state.is_paused(&source) && count < WAITING_MAX {
            return state.waiting.push((source, reply));
        }
        drop(state);
        reply.succeed(());
    }
}

/// Bound of the answers to one source that wait.
const WAITING_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(rank: Rank) -> ProcId {
        ProcId { namespace: Namespace::new("job").unwrap(), rank }
    }

    #[test]
    fn the_last_call_decides() {
        let (first, second) = (proc(Rank::from(0)), proc(Rank::from(1)));
        let mut state = State::default();
        state.rule(Some(proc(Rank::Wildcard)), true);
        state.rule(Some(first.clone()), false);
        assert!(!state.is_paused(&first) && state.is_paused(&second));
        state.rule(None, true);
        assert!(state.is_paused(&first) && state.is_paused(&second));
        state.rule(Some(second.clone()), false);
        assert!(state.is_paused(&first) && !state.is_paused(&second));
        state.rule(Some(proc(Rank::Wildcard)), false);
        assert!(!state.is_paused(&first) && !state.is_paused(&second));
        state.rule(None, false);
        assert!(state.rules.is_empty());
    }

    #[test]
    fn processes_that_have_ended_are_forgotten() {
        let flow = FlowControl::default();
        flow.set(Some(proc(Rank::from(0))), true);
        flow.set(Some(proc(Rank::from(1))), true);
        flow.forget(&proc(Rank::from(0)));
        assert_eq!(flow.0.lock().rules.len(), 1);
        flow.forget_job(&proc(Rank::from(0)).namespace);
        assert!(flow.0.lock().rules.is_empty());
    }

    #[test]
    fn nothing_pauses_after_the_end() {
        let flow = FlowControl::default();
        flow.end();
        flow.set(None, true);
        assert!(!flow.0.lock().is_paused(&proc(Rank::from(0))));
    }
}
