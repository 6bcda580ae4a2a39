//! Every order of events for three participants and two overlapping operations, of any length. The real core runs
//! beside a model that follows the standard and does not know the core's table.
//!
//! After each step both must agree on all replies and upcalls. This covers the invariants: each accepted request gets
//! exactly one reply, none succeeds with a contribution missing, and none waits without a cause. Paths to one state of
//! the core and the model are the same path from there on, so the search ends when there are no new states. From each
//! state two endings must be possible, in any order of their steps. If the missing processes come and the host answers,
//! no process waits any more. If all processes end, no state is left.

mod fingerprint;
mod model;
mod world;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::model::Model;
use self::world::World;
use super::harness::*;
use crate::proto::{Collective, Request};
use crate::server::Capabilities;
use crate::server::state::transitions::{CollectivePhase, Effect, Happening, Standing, TransitionTable, effect};
use crate::types::ProcId;

const RANKS: u32 = 3;

/// Two overlapping operations.
#[derive(Clone, Copy, Debug)]
enum Pair {
    /// A fence of all ranks, which needs the host, and one of the three, which does not and has a timeout.
    FencesOfOtherSets,
    /// A fence and a connect of the same set, both of this node alone.
    FenceAndConnect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Arrive(u32, usize),
    Finalize(u32),
    Return(u32),
    Die(u32),
    /// The host reports the end of a process that has finalized or was lost.
    Deregister(u32),
    TimeOut,
    /// The host answers the oldest or the newest upcall, with success or a failure.
    Answer {
        oldest: bool,
        well: bool,
    },
}

impl Step {
    /// The same step for another of the three processes.
    fn renamed(self, names: [u32; RANKS as usize]) -> Self {
        let name = |rank: u32| names[rank as usize];
        match self {
            Self::Arrive(rank, operation) => Self::Arrive(name(rank), operation),
            Self::Finalize(rank) => Self::Finalize(name(rank)),
            Self::Return(rank) => Self::Return(name(rank)),
            Self::Die(rank) => Self::Die(name(rank)),
            Self::Deregister(rank) => Self::Deregister(name(rank)),
            Self::TimeOut | Self::Answer { .. } => self,
        }
    }

    /// Whether a step brings operations to their end: missing processes come, and the host answers. No further
    /// operation or failure is needed.
    fn helps(self, model: &Model) -> bool {
        match self {
            Self::Return(_) => true,
            Self::Arrive(rank, operation) => model.lacks(rank, operation),
            Self::Answer { well, .. } => well,
            Self::Finalize(_) | Self::Die(_) | Self::Deregister(_) | Self::TimeOut => false,
        }
    }

    /// Whether a step brings processes to their end.
    const fn ends(self) -> bool {
        matches!(self, Self::Die(_) | Self::Deregister(_) | Self::Answer { .. })
    }
}

impl Pair {
    fn capabilities(self) -> Capabilities {
        match self {
            Self::FencesOfOtherSets => Capabilities::FENCE,
            Self::FenceAndConnect => Capabilities::empty(),
        }
    }

    /// One process of the job may be remote.
    fn job_size(self) -> u32 {
        match self {
            Self::FencesOfOtherSets => RANKS + 1,
            Self::FenceAndConnect => RANKS,
        }
    }

    fn request(self, operation: usize) -> Request {
        let three: Vec<ProcId> = (0..RANKS).map(proc).collect();
        match (self, operation) {
            (_, 0) => fence(&[everybody()], &[]),
            (Self::FencesOfOtherSets, _) => fence(&three, &[timeout(5)]),
            (Self::FenceAndConnect, _) => {
                Request::Connect(Collective { procs: vec![everybody()], directives: vec![timeout(5)] })
            }
        }
    }

    fn goes_up(self, operation: usize) -> bool {
        matches!(self, Self::FencesOfOtherSets) && operation == 0
    }

    fn time_limit(operation: usize) -> Option<u64> {
        (operation == 1).then_some(5)
    }
}

fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for rank in 0..RANKS {
        steps.extend([Step::Arrive(rank, 0), Step::Arrive(rank, 1), Step::Finalize(rank), Step::Return(rank)]);
        steps.extend([Step::Die(rank), Step::Deregister(rank)]);
    }
    for (oldest, well) in [(true, true), (true, false), (false, true)] {
        steps.push(Step::Answer { oldest, well });
    }
    steps.push(Step::TimeOut);
    steps
}

/// Bounds on open operations. They make the state graph finite, for paths of any length.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Open operations.
    operations: usize,
    /// Open requests of one process for one kind of operation: those above 1 have raced ahead.
    requests: usize,
}

/// The result of a search.
struct Search {
    states: usize,
    /// Number of states that the model distinguishes. The core may remember more, such as connections.
    model_states: usize,
    transitions: usize,
    /// Steps on the shortest path to the farthest state.
    depth: usize,
    defect: Option<String>,
}

/// One state, up to the names of the three processes.
struct State {
    /// The shortest path to it.
    path: Vec<Step>,
    /// No process waits for a reply.
    is_quiet: bool,
    /// No operation has left any state.
    is_empty: bool,
    /// Targets of the possible steps.
    next: Vec<Way>,
}

/// A step from one state to another.
#[derive(Clone, Copy)]
struct Way {
    helps: bool,
    ends: bool,
    to: usize,
}

fn replay(pair: Pair, defective: Option<TransitionTable>, path: &[Step]) -> Result<World, String> {
    let mut world = World::new(pair, defective);
    path.iter().try_for_each(|step| world.step(*step)).map(|()| world)
}

impl State {
    fn of(world: &World, path: Vec<Step>) -> Self {
        Self { path, is_quiet: world.is_quiet(), is_empty: world.is_empty(), next: Vec::new() }
    }
}

/// Visits all reachable states within the bounds, with every possible step in each.
fn search(pair: Pair, defective: Option<TransitionTable>, bounds: Bounds) -> Search {
    let first = World::new(pair, defective);
    let mut known = BTreeMap::from([(first.fingerprint(), 0)]);
    let mut models = BTreeSet::from([first.model.fingerprint()]);
    let mut queue = VecDeque::from([(0, first.model.clone())]);
    let mut states = vec![State::of(&first, Vec::new())];
    let mut transitions = 0;
    let end = |states: &[State], model_states, transitions, defect| {
        let depth = states.iter().map(|state| state.path.len()).max().unwrap_or(0);
        Search { states: states.len(), model_states, transitions, depth, defect }
    };
    while let Some((index, model)) = queue.pop_front() {
        for step in steps().into_iter().filter(|step| model.is_possible(*step, bounds)) {
            transitions += 1;
            let mut longer = states[index].path.clone();
            longer.push(step);
            // The three are alike, so one state stands for all that differ only in names.
            let names = model.after(step).names();
            let path: Vec<Step> = longer.into_iter().map(|step| step.renamed(names)).collect();
            let world = match replay(pair, defective, &path) {
                Ok(world) => world,
                Err(error) => return end(&states, models.len(), transitions, Some(format!("after {path:?}: {error}"))),
            };
            world.check();
            let target = *known.entry(world.fingerprint()).or_insert_with(|| {
                models.insert(world.model.fingerprint());
                queue.push_back((states.len(), world.model.clone()));
                states.push(State::of(&world, path));
                states.len() - 1
            });
            states[index].next.push(Way { helps: step.helps(&model), ends: step.ends(), to: target });
        }
    }
    let defect = unending(&states);
    end(&states, models.len(), transitions, defect)
}

/// A state without a proper end.
fn unending(states: &[State]) -> Option<String> {
    let waits = "all who are missing come and the host answers, and some wait";
    let left = "everybody ends, and something is left";
    dead_end(states, waits, |way| way.helps, |it| it.is_quiet)
        .or_else(|| dead_end(states, left, |way| way.ends, |it| it.is_empty))
}

/// A state from which steps of some kind never lead to the goal, in any order: none is possible, or they form a circle.
fn dead_end(states: &[State], what: &str, is_way: fn(&Way) -> bool, is_goal: fn(&State) -> bool) -> Option<String> {
    let mut before = vec![Vec::new(); states.len()];
    let mut ways_left = vec![0_usize; states.len()];
    for (from, state) in states.iter().enumerate().filter(|(_, state)| !is_goal(state)) {
        for way in state.next.iter().filter(|way| is_way(way)) {
            before[way.to].push(from);
            ways_left[from] += 1;
        }
    }
    let mut leads: Vec<bool> = states.iter().map(is_goal).collect();
    let mut queue: VecDeque<usize> = (0..states.len()).filter(|state| leads[*state]).collect();
    while let Some(state) = queue.pop_front() {
        for from in std::mem::take(&mut before[state]) {
            ways_left[from] -= 1;
            if ways_left[from] == 0 {
                leads[from] = true;
                queue.push_back(from);
            }
        }
    }
    let dead = states.iter().zip(leads).find(|(_, leads)| !leads);
    dead.map(|(state, _)| format!("after {:?}: {what}", state.path))
}

/// Exactly two operations overlap.
const TWO: Bounds = Bounds { operations: 2, requests: 2 };
/// The bounds of `MODEX_SEARCH=all`.
const THREE: Bounds = Bounds { operations: 3, requests: 2 };

/// Visits the whole graph, to any depth: a state is skipped only if a known one differs in names alone. Returns the
/// numbers of states, of states that the model distinguishes, and of transitions.
fn whole(pair: Pair, bounds: Bounds) -> (usize, usize, usize) {
    let Search { states, model_states, transitions, depth, defect } = search(pair, None, bounds);
    println!("{pair:?}, {bounds:?}: {states} states, {transitions} transitions, {depth} steps away");
    assert_eq!(defect, None, "{pair:?}, {bounds:?}");
    (states, model_states, transitions)
}

// Fewer states mean that the search has lost some.

/// Two fences have as many states as the model: the core remembers no more.
#[test]
fn every_order_of_arrivals_departures_and_answers_at_two_fences_keeps_the_promises() {
    assert_eq!(whole(Pair::FencesOfOtherSets, TWO), (2748, 2748, 21_063));
    #[expect(clippy::disallowed_methods, reason = "a test is an edge: more of it can be asked for")]
    if std::env::var_os("MODEX_SEARCH").is_some() {
        assert_eq!(whole(Pair::FencesOfOtherSets, THREE), (28_251, 28_251, 261_998));
    }
}

/// The model knows neither the connections nor the ends that an event has told.
#[test]
fn every_order_of_arrivals_departures_and_answers_at_a_fence_and_a_connect_keeps_the_promises() {
    assert_eq!(whole(Pair::FenceAndConnect, TWO), (8796, 1334, 65_948));
}

/// The search once accepted any way out, even by a refusal of the host or a second arrival.
#[test]
fn a_state_that_only_a_refusal_or_one_more_arrival_leads_out_of_is_a_dead_end() {
    let state = |is_quiet, next: &[Way]| State { path: Vec::new(), is_quiet, is_empty: is_quiet, next: next.to_vec() };
    let way = |helps, to| Way { helps, ends: helps, to };
    let waits = |next: &[Way]| unending(&[state(false, next), state(false, &[way(true, 2)]), state(true, &[])]);
    assert_eq!(waits(&[way(true, 1), way(true, 2), way(false, 0)]), None);
    for dead in [[way(false, 2), way(false, 2)], [way(true, 2), way(true, 0)]] {
        assert!(waits(&dead).is_some_and(|text| text.contains("some wait")));
    }
    let never_ends = Way { helps: true, ends: false, to: 2 };
    assert!(waits(&[never_ends]).is_some_and(|text| text.contains("something is left")));
    let model = Model::new(Pair::FencesOfOtherSets);
    let once = model.after(Step::Arrive(0, 0));
    assert!(Step::Arrive(1, 0).helps(&once) && !Step::Arrive(0, 0).helps(&once) && !Step::Arrive(0, 0).helps(&model));
    assert!(!Step::Answer { oldest: true, well: false }.helps(&once));
}

/// Each defect is a possible mistake in the table.
#[test]
fn a_defect_in_the_table_is_found() {
    fn mutant(
        phase: CollectivePhase,
        standing: Standing,
        happening: Happening,
        wrong: impl Fn(CollectivePhase, Standing, Happening) -> Option<Effect>,
    ) -> Effect {
        wrong(phase, standing, happening).unwrap_or_else(|| effect(phase, standing, happening))
    }
    type Defective = fn(CollectivePhase, Standing, Happening) -> Effect;
    let defects: [(&str, Defective); 6] = [
        ("a finalization is a loss", |phase, standing, happening| {
            mutant(phase, standing, happening, |_, standing, happening| {
                (standing == Standing::Away && happening == Happening::Finalize).then_some(Effect::Depart)
            })
        }),
        ("a loss is waited for", |phase, standing, happening| {
            mutant(phase, standing, happening, |_, _, happening| {
                (happening == Happening::Die).then_some(Effect::Nothing)
            })
        }),
        ("who races ahead waits along", |phase, standing, happening| {
            mutant(phase, standing, happening, |_, standing, happening| {
                (standing == Standing::Arrived && happening == Happening::Arrive).then_some(Effect::Next)
            })
        }),
        ("who is expected departs", |phase, standing, happening| {
            mutant(phase, standing, happening, |phase, standing, happening| {
                let is_met = phase == CollectivePhase::Gathering && standing == Standing::Expected;
                (is_met && happening == Happening::Return).then_some(Effect::Depart)
            })
        }),
        ("time does not end it", |phase, standing, happening| {
            mutant(phase, standing, happening, |_, _, happening| {
                (happening == Happening::TimeOut).then_some(Effect::Nothing)
            })
        }),
        ("who came and then died departs", |phase, standing, happening| {
            mutant(phase, standing, happening, |_, standing, happening| {
                (standing == Standing::Arrived && happening == Happening::Die).then_some(Effect::Depart)
            })
        }),
    ];
    for (name, table) in defects {
        let Search { states, transitions, defect, .. } =
            search(Pair::FencesOfOtherSets, Some(TransitionTable(table)), TWO);
        assert!(defect.is_some(), "{name}: not found in {states} states, {transitions} transitions");
    }
}
