//! `modex sim`: simulated clusters, seed after seed, until a rule is broken.
//!
//! ```text
//!  seeds --> threads, each with a seed of its own --> reports --> summary
//!                                                        |
//!                                                        +-- a broken rule --> shrink --> its shortest replay
//! ```
//!
//! The simulation itself (`modex_sim`) has neither clock nor thread; both are here.

mod canaries;
mod output;
mod seeds;

use clap::Args;
use modex_sim::{Canary, Faults, Setup, UnknownFault};

use self::seeds::SeedRange;
use super::Outcome;

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(super) struct SimOptions {
    /// The seeds to run: from A up to but not including B, or one seed
    #[arg(long, value_name = "A..B", default_value = "0..1000")]
    seeds: SeedRange,

    /// Servers of each simulated cluster
    #[arg(long, value_name = "N", default_value_t = Setup::SMALL.nodes, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,

    /// Processes of each simulated cluster
    #[arg(long, value_name = "R", default_value_t = Setup::SMALL.ranks, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    ranks: u32,

    /// Number of collective operations
    #[arg(long, value_name = "P", default_value_t = Setup::SMALL.phases, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    phases: u32,

    /// Faults: all, none, a list of kinds, canary, or canary:KIND
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = Wrong::read)]
    faults: Wrong,

    /// The largest number of faults in a run
    #[arg(long, value_name = "K", default_value_t = u32::MAX, hide_default_value = true)]
    faults_max: u32,

    /// Let each seed choose servers, processes, phases, kinds of faults and the number of faults
    #[arg(long, conflicts_with_all = ["nodes", "ranks", "phases", "faults", "faults_max"])]
    drawn: bool,

    /// Runs at a time [default: the number of processors]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  modex sim
  modex sim --seeds 4711 --nodes 4 --ranks 16
  modex sim --seeds 0..100000 --drawn --json

Exit status:
  0  Every rule held in every seed
  1  A rule was broken, or each planted defect was found (--faults canary)
  2  The command line makes no sense

Kinds of faults: delay reorder loss duplicate inline late refuse (the host's answers), die fork hang flood stop reinit
exec clone (processes), server node (killed), deregister unregistered (the host's registrations). A run has each kind that is
asked for with a chance of one in three.

The same seed and parameters give the same run, step for step: every 16th seed runs twice to show it. A seed in which a
rule is broken is made as small as possible, and printed with its last steps and the command that replays it; the exit
status is 1 then, and 0 only if every rule held in every seed.

--drawn gives each seed a world of its own: 1 to 50 servers, 1 to 64 processes, 1 to 9 phases, any of the kinds of faults,
in half of all cases each, and 1 to 16 faults or as many as happen. The command that replays a failed seed names them.

--faults canary plants a defect on purpose, one kind after the other, and names for each the first seed that finds it:
fence-data fence-early reply-lost reply-twice deadline scope-leak lost-commit changed-value leak fetch-twice deaf-server
deaf-client memory refusal-ignored other-number event-lost given-up late-answer-lost added-lost job-unawaited question-lost
member-lost ahead-early node-twice output-lost tool-output-lost. The status is 1 if each was found, by a rule that it breaks,
and 0 otherwise.

--json prints one document: {\"command\", \"version\", \"seeds\", \"steps\", \"requests\", \"faults\", \"hash\",
\"seconds\", \"peak_bytes\", \"broken\": null or {\"seed\", \"rule\", \"what\", \"replay\", \"steps\": [...]}, \"canaries\": [...]}.";

/// The value of `--faults`.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Faults(Faults),
    Canary(Canary),
    EveryCanary,
}

impl Wrong {
    fn read(text: &str) -> Result<Self, UnknownFault> {
        match text.split_once(':') {
            _ if text == "canary" => Ok(Self::EveryCanary),
            Some(("canary", kind)) => kind.parse().map(Self::Canary),
            _ => text.parse().map(Self::Faults),
        }
    }
}

impl SimOptions {
    fn setup(&self, faults: Faults, canary: Option<Canary>) -> Setup {
        let Self { nodes, ranks, phases, faults_max, .. } = *self;
        Setup { nodes, ranks, phases, faults, faults_max, canary }
    }

    fn threads(&self) -> usize {
        let available = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(available, usize::from)
    }
}

pub(super) fn run(options: &SimOptions) -> Outcome {
    // A failed assertion of a core is reported as a broken rule, so the panic's own message is not printed.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = match options.faults {
        Wrong::Faults(faults) => {
            let given = options.setup(faults, None);
            let setup_of = |seed| if options.drawn { Setup::drawn(seed) } else { given.clone() };
            let verdict = seeds::run(options.seeds, setup_of, options.threads());
            output::show(&verdict, &[], options.json).map(|()| u8::from(verdict.failure.is_some()))
        }
        Wrong::Canary(kind) => canaries::run(options, &[kind]),
        Wrong::EveryCanary => canaries::run(options, &Canary::ALL.map(|(_, kind)| kind)),
    };
    std::panic::set_hook(hook);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_kind_of_fault_and_defect() {
        let is_named = |word: &str| HELP.split(|c: char| !(c.is_alphanumeric() || c == '-')).any(|named| named == word);
        let kinds = Faults::kinds().map(|kind| kind.to_string());
        let words = kinds.chain(Canary::ALL.map(|(word, _)| word.to_owned()));
        assert_eq!(words.filter(|word| !is_named(word)).collect::<Vec<_>>(), Vec::<String>::new());
    }
}
