//! Every order of events for three participants and two overlapping operations, up to a depth: the real core beside a
//! model that is written from the standard's words and knows nothing of the core's table.
//!
//! After each step the two agree on who is told what and on what goes up, which covers the invariants: each accepted request
//! is answered exactly once, none succeeds with a contribution missing, nobody waits without cause. From each state two
//! ways lead out: everybody comes, and then nobody waits any more; everybody ends, and then nothing is left.

mod model;
mod world;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

use self::world::World;
use super::harness::*;
use crate::proto::{Collective, Request};
use crate::server::Capabilities;
use crate::server::transitions::{Effect, Happening, Phase, Standing, Table, effect};
use crate::types::ProcId;

const RANKS: u32 = 3;
/// Open requests of one process for one operation.
const REPEATS_MAX: usize = 2;

/// Which two operations overlap.
#[derive(Clone, Copy, Debug)]
enum Pair {
    /// A fence of all, which needs the host, and one of the three, which does not and has a time limit.
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
    /// The host says that one which has left, or was lost, has ended.
    Deregister(u32),
    TimeOut,
    /// The host answers the oldest or the newest upcall, well or not.
    Answer {
        oldest: bool,
        well: bool,
    },
}

impl Step {
    const fn rank(self) -> Option<u32> {
        match self {
            Self::Arrive(rank, _) | Self::Finalize(rank) | Self::Return(rank) | Self::Die(rank) => Some(rank),
            Self::Deregister(rank) => Some(rank),
            Self::TimeOut | Self::Answer { .. } => None,
        }
    }
}

impl Pair {
    fn capabilities(self) -> Capabilities {
        match self {
            Self::FencesOfOtherSets => Capabilities::FENCE,
            Self::FenceAndConnect => Capabilities::empty(),
        }
    }

    /// One process of the job may live elsewhere.
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

/// What a path found, and how many states it led through.
struct Search {
    states: usize,
    steps: usize,
    defect: Option<String>,
}

fn replay(pair: Pair, table: Table, path: &[Step]) -> Result<World, String> {
    let mut world = World::new(pair, table);
    path.iter().try_for_each(|step| world.step(*step)).map(|()| world)
}

fn search(pair: Pair, table: Table, depth: usize) -> Search {
    let mut seen = BTreeSet::from([state_of(&World::new(pair, table))]);
    let mut queue: VecDeque<Vec<Step>> = VecDeque::from([Vec::new()]);
    let mut taken = 0;
    while let Some(path) = queue.pop_front() {
        let model = replay(pair, table, &path).map(|world| world.model);
        // The three are alike: they are numbered by their first mention.
        let newcomer = path.iter().filter_map(|step| step.rank()).max().map_or(0, |rank| rank + 1);
        let is_numbered = |step: &Step| step.rank().is_none_or(|rank| rank <= newcomer);
        let is_possible = |step: &Step| model.as_ref().is_ok_and(|model| model.is_possible(*step));
        let possible = |step: &Step| is_numbered(step) && is_possible(step);
        for step in steps().into_iter().filter(possible) {
            taken += 1;
            let longer: Vec<Step> = path.iter().copied().chain([step]).collect();
            let mut world = match replay(pair, table, &longer) {
                Ok(world) => world,
                Err(error) => return found(seen.len(), taken, &longer, &error),
            };
            if !seen.insert(state_of(&world)) {
                continue;
            }
            let comes = world.everybody_comes();
            let ends = replay(pair, table, &longer).and_then(|mut world| world.everybody_ends());
            if let Err(error) = comes.and(ends) {
                return found(seen.len(), taken, &longer, &error);
            }
            if longer.len() < depth {
                queue.push_back(longer);
            }
        }
    }
    Search { states: seen.len(), steps: taken, defect: None }
}

fn found(states: usize, steps: usize, path: &[Step], error: &str) -> Search {
    Search { states, steps, defect: Some(format!("after {path:?}: {error}")) }
}

/// The core's whole state, without what only counts how far it has come, and the model's.
fn state_of(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    canonical(&format!("{:?}", world.server)).hash(&mut hasher);
    let mut model = world.model.clone();
    let (now, upcalls) = (std::mem::take(&mut model.now), std::mem::take(&mut model.upcalls));
    drop(upcalls);
    let mut numbers = BTreeMap::new();
    for operation in &mut model.operations {
        operation.deadline = operation.deadline.map(|deadline| deadline.saturating_sub(now));
        for (_, number) in &mut operation.waiting {
            let next = u32::try_from(numbers.len()).unwrap();
            *number = *numbers.entry(*number).or_insert(next);
        }
    }
    model.hash(&mut hasher);
    hasher.finish()
}

/// A text in which names are numbered by their first mention, and counters are left out.
fn canonical(text: &str) -> String {
    const NAMES: [&str; 5] = ["PeerId(", "UpcallId(", "OperationId(", "Tag(", "Time("];
    const COUNTERS: [&str; 5] = ["last: ", "last_index: ", "revision: ", "last_number: ", "members: Some(("];
    let mut seen: BTreeMap<(usize, String), usize> = BTreeMap::new();
    let mut canonical = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let name = NAMES.iter().position(|name| rest.starts_with(name));
        let counter = COUNTERS.iter().find(|counter| rest.starts_with(**counter));
        let (prefix, is_name) = match (name, counter) {
            (Some(index), _) => (NAMES[index], true),
            (None, Some(counter)) => (*counter, false),
            (None, None) => {
                let next = rest.chars().next().unwrap();
                canonical.push(next);
                rest = &rest[next.len_utf8()..];
                continue;
            }
        };
        let after = &rest[prefix.len()..];
        let length = after.find([')', ',', ' ', '}']).unwrap_or(after.len());
        canonical.push_str(prefix);
        if let (true, Some(index)) = (is_name, name) {
            let next = seen.len();
            let number = *seen.entry((index, after[..length].to_owned())).or_insert(next);
            canonical.push_str(&number.to_string());
        }
        rest = &after[length..];
    }
    canonical
}

/// How many steps a path has at most.
const DEPTH: usize = 5;

#[test]
fn every_order_of_arrivals_departures_and_answers_up_to_a_depth_keeps_the_promises() {
    for pair in [Pair::FencesOfOtherSets, Pair::FenceAndConnect] {
        let Search { states, steps, defect } = search(pair, Table::default(), DEPTH);
        assert_eq!(defect, None, "{pair:?}: {states} states, {steps} steps, paths of {DEPTH}");
        println!("{pair:?}: {states} states, {steps} steps, paths of {DEPTH}");
        assert!(states > 1000, "{pair:?}: only {states} states, {steps} steps");
    }
}

/// Each defect stands for a mistake that one can make in the table.
#[test]
fn a_defect_in_the_table_is_found() {
    fn mutant(
        phase: Phase,
        standing: Standing,
        happening: Happening,
        wrong: impl Fn(Phase, Standing, Happening) -> Option<Effect>,
    ) -> Effect {
        wrong(phase, standing, happening).unwrap_or_else(|| effect(phase, standing, happening))
    }
    type Defective = fn(Phase, Standing, Happening) -> Effect;
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
                let is_met = phase == Phase::Gathering && standing == Standing::Expected;
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
        let Search { states, steps, defect } = search(Pair::FencesOfOtherSets, Table(table), DEPTH);
        assert!(defect.is_some(), "{name}: not found in {states} states, {steps} steps");
    }
}
