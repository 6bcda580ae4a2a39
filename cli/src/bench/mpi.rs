//! A real program under `modex run`, several times: the wall clock, the phases that the server sees, and the share of
//! PMIx.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::BufReader;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::super::run::{AppError, Guardian, PmiChoice, RankMoments, ReportDocument, SessionDirectory, seconds};
use super::super::{Outcome, printing};
use super::figure::{Figure, figures};
use super::launch::launch;
use super::measure::{Series, Unit, timed};
use super::node::Failure;
use super::output::BenchOutput;

#[derive(Args, Debug)]
#[command(override_usage = "modex bench mpi [OPTIONS] -- PROGRAM [ARGS...]", after_long_help = HELP)]
pub(super) struct MpiBenchOptions {
    /// Ranks of the job
    #[arg(short = 'n', long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    ranks: u32,

    /// Runs that count; one more before them reads the program from the disk
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    runs: usize,

    /// End a run after this many seconds, and with it the measurement
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Protocol by which ranks join the job
    #[arg(long, value_enum, default_value_t = PmiChoice::Auto, value_name = "PROTOCOL")]
    pmi: PmiChoice,

    /// Set an environment variable of the ranks, or pass on the launcher's value; repeatable
    #[arg(short = 'x', value_name = "VAR[=VALUE]")]
    environment: Vec<OsString>,

    /// Directory of another libpmix.so.2. The program runs with it in turns, and the ratio is to those runs
    #[arg(long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(library_directory))]
    library: Option<PathBuf>,

    #[command(flatten)]
    output: BenchOutput,

    /// Program and arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

const HELP: &str = concat!(
    "\
Examples:
  modex bench mpi -n 4 -- ./hello
  modex bench mpi -n 16 --runs 50 --plot hello.svg -- ./hello
  modex bench mpi -n 4 --json -- ./hello > before.json
  modex bench mpi -n 4 --compare before.json -- ./hello
  modex bench mpi -n 4 --library /usr/lib/x86_64-linux-gnu/pmix2/lib -- ./hello
  modex bench mpi -n 4 -x A=3 --pmi pmi1 -- python3 script.py
  modex bench mpi -n 4 -- modex demo

Figures (one sample for each run, or for each rank of each run):
  mpi.wall                       The whole `modex run`, from its start to its exit; one for each run
  mpi.spawn_to_init              The process is asked for, until it enters PMIx_Init
  mpi.init                       It enters PMIx_Init, until the server grants it
  mpi.init_to_first_fence        From there to the arrival of its first fence at the server
  mpi.first_fence                The first fence, with the wait for other ranks
  mpi.first_fence.of_last_rank   The part after the arrival of the last rank: no wait for others
  mpi.spawn_to_first_fence_done  The sum of the phases so far
  mpi.first_fence_to_finalize    The program, until the server takes the finalize
  mpi.finalize_to_exit           From there to the end of the process
  mpi.spawn_to_exit              The life of the process
  mpi.share.pmix                 (mpi.init + mpi.first_fence.of_last_rank) / mpi.spawn_to_exit
  mpi.share.fence_wait           The wait for other ranks in the first fence / mpi.spawn_to_exit

The server sees PMIx, not MPI. MPI_Init ends after PMIx_Init and, in most MPI libraries, after a first
fence. So mpi.spawn_to_first_fence_done is the time to the last point of MPI_Init that the server sees.

mpi.share.pmix leaves out later requests, and work of the PMIx library without the server.
Other PMIx libraries do not tell when a process enters PMIx_Init. Their mpi.init begins when the
connect message arrives, and the time before counts to mpi.spawn_to_init.
A figure without samples is left out, such as that of a fence in a program without one.

With --library each figure has a second row: \"library.mpi.wall\" is mpi.wall with that library, which the
ranks find through LD_LIBRARY_PATH. The runs alternate. A program with DT_RPATH may take its own one.

Exit status:
  0  The measurement is complete
  1  A run failed, or the result can't be written
  2  The command line makes no sense

Environment:
",
    log_help!(),
    "  TMPDIR     Parent of the directory for the jobs' files [default: /tmp]

The program's standard output is dropped. Its standard error is kept."
);

pub(super) fn run(options: &MpiBenchOptions) -> Outcome {
    if options.command.iter().any(|word| word == OsStr::new(":")) {
        return Err(AppError::OneProgram.into());
    }
    let this = std::env::current_exe()?;
    let path = SessionDirectory::choose(&std::env::temp_dir());
    let guardian = Guardian::start(&path)?;
    let directory = SessionDirectory::create(path)?;
    let report = directory.path().join("report.json");
    let mut report_option = OsString::from("--report=");
    report_option.push(&report);
    let words: Vec<OsString> = [report_option].into_iter().chain(options.words_of_run()).collect();
    let progress = options.output.begin("mpi", options.runs + 1)?;
    let mut programs = vec![Program::new("", options.ranks, words.clone())];
    if let Some(directory) = &options.library {
        let words = words.into_iter().chain(options.words_for(directory)).collect();
        programs.push(Program::new(LIBRARY_PREFIX, options.ranks, words));
    }
    // One turn more than asked for: the first one reads the program from the disk.
    for turn in 0..=options.runs {
        progress.step("a run of the program");
        for program in &mut programs {
            let (time, ended) =
                timed(|| launch(&this, options.ranks, guardian.group(), &program.words, &options.command));
            ended?;
            if turn > 0 {
                program.wall.add(time);
                program.phases.add(&read(&report)?);
            }
        }
        // Each program is the first one in half of the turns.
        programs.reverse();
    }
    programs.sort_by_key(|program| program.prefix);
    let notes: Vec<String> = programs.iter().filter_map(Program::note).collect();
    let mut found = figures(programs.into_iter().flat_map(Program::into_series));
    compare_with_library(&mut found);
    let status = options.output.show("mpi", &found)?;
    notes.iter().for_each(|note| printing::complain(note));
    Ok(status)
}

/// The begin of the names of figures with the other library.
const LIBRARY_PREFIX: &str = "library.";

/// The runs with one PMIx library.
struct Program {
    prefix: &'static str,
    /// Options of `modex run`.
    words: Vec<OsString>,
    wall: Series,
    phases: Phases,
}

impl Program {
    fn new(prefix: &'static str, ranks: u32, words: Vec<OsString>) -> Self {
        let wall = Series::new("mpi.wall", Unit::Milliseconds).param("ranks", ranks.into());
        Self { prefix, words, wall, phases: Phases::new(ranks) }
    }

    /// A line for the user if the server saw less than it should.
    fn note(&self) -> Option<String> {
        let with = if self.prefix.is_empty() { "" } else { "with the library of --library: " };
        self.phases.note().map(|note| format!("{with}{note}"))
    }

    fn into_series(self) -> impl Iterator<Item = Series> {
        let prefix = self.prefix;
        let named = move |series: Series| Series { name: format!("{prefix}{}", series.name), ..series };
        [self.wall].into_iter().chain(self.phases.series).map(named)
    }
}

/// Gives each figure its ratio to the same figure with the other library.
fn compare_with_library(figures: &mut [Figure]) {
    let others = figures.to_vec();
    for figure in figures {
        let name = format!("{LIBRARY_PREFIX}{}", figure.name);
        if let Some(other) = others.iter().find(|other| other.name == name) {
            figure.compare(other);
        }
    }
}

fn library_directory(path: PathBuf) -> Result<PathBuf, String> {
    let path = path.canonicalize().map_err(|reason| reason.to_string())?;
    if path.join("libpmix.so.2").is_file() { Ok(path) } else { Err("it has no libpmix.so.2".to_owned()) }
}

impl MpiBenchOptions {
    /// The options of `modex run` that put this directory in front of those that ranks search for libraries.
    #[expect(clippy::disallowed_methods, reason = "ranks get this command's own variables")]
    fn words_for(&self, directory: &Path) -> [OsString; 2] {
        const VARIABLE: &str = "LD_LIBRARY_PATH=";
        let given =
            self.environment.iter().rev().find_map(|setting| setting.as_bytes().strip_prefix(VARIABLE.as_bytes()));
        let given = given.map(|value| OsStr::from_bytes(value).to_owned());
        let others = given.or_else(|| std::env::var_os("LD_LIBRARY_PATH")).filter(|others| !others.is_empty());
        let mut setting = OsString::from(VARIABLE);
        setting.push(directory);
        if let Some(others) = others {
            setting.push(":");
            setting.push(others);
        }
        ["-x".into(), setting]
    }

    /// The options that each `modex run` gets unchanged.
    fn words_of_run(&self) -> Vec<OsString> {
        let limit = self.timeout.map(|limit| format!("--timeout={}", limit.as_secs_f64()));
        let pmi = self.pmi.to_possible_value().map(|value| format!("--pmi={}", value.get_name()));
        let variables = self.environment.iter().flat_map(|setting| [OsString::from("-x"), setting.clone()]);
        limit.into_iter().chain(pmi).map(OsString::from).chain(variables).collect()
    }
}

fn read(report: &Path) -> Result<ReportDocument, Failure> {
    let file = File::open(report).map_err(|reason| format!("the run left no report: {reason}"))?;
    Ok(serde_json::from_reader(BufReader::new(file))?)
}

/// The samples of all runs by phase.
struct Phases {
    series: Vec<Series>,
    rank_count: usize,
    joined_count: usize,
}

/// A phase of a rank in milliseconds, or a share in percent. It may need the arrival of the last rank at the first
/// fence.
type Span = fn(&RankMoments, Option<f64>) -> Option<f64>;

const SPANS: [(&str, Unit, Span); 11] = [
    ("mpi.spawn_to_init", Unit::Milliseconds, |rank, _| between(rank.spawned, rank.entered())),
    ("mpi.init", Unit::Milliseconds, |rank, _| init(rank)),
    ("mpi.init_to_first_fence", Unit::Milliseconds, |rank, _| between(rank.init_granted, rank.fence_begun)),
    ("mpi.first_fence", Unit::Milliseconds, |rank, _| between(rank.fence_begun, rank.fence_ended)),
    ("mpi.first_fence.of_last_rank", Unit::Milliseconds, |rank, last| between(last, rank.fence_ended)),
    ("mpi.spawn_to_first_fence_done", Unit::Milliseconds, |rank, _| between(rank.spawned, rank.fence_ended)),
    ("mpi.first_fence_to_finalize", Unit::Milliseconds, |rank, _| between(rank.fence_ended, rank.finalized)),
    ("mpi.finalize_to_exit", Unit::Milliseconds, |rank, _| between(rank.finalized, rank.ended)),
    ("mpi.spawn_to_exit", Unit::Milliseconds, |rank, _| life(rank)),
    ("mpi.share.pmix", Unit::Percent, |rank, last| {
        // A program without a fence has the Init alone.
        let fence = between(last, rank.fence_ended).unwrap_or(0.0);
        share(init(rank)? + fence, rank)
    }),
    ("mpi.share.fence_wait", Unit::Percent, |rank, last| share(between(rank.fence_begun, last)?, rank)),
];

fn between(begin: Option<f64>, end: Option<f64>) -> Option<f64> {
    Some(end? - begin?).filter(|span| *span >= 0.0)
}

fn init(rank: &RankMoments) -> Option<f64> {
    between(rank.entered(), rank.init_granted)
}

fn life(rank: &RankMoments) -> Option<f64> {
    between(rank.spawned, rank.ended)
}

fn share(part: f64, of: &RankMoments) -> Option<f64> {
    life(of).filter(|life| *life > 0.0).map(|life| part / life * 100.0)
}

impl Phases {
    fn new(rank_count: u32) -> Self {
        let series = |(name, unit, _): &(&str, Unit, Span)| Series::new(name, *unit).param("ranks", rank_count.into());
        Self { series: SPANS.iter().map(series).collect(), rank_count: 0, joined_count: 0 }
    }

    fn add(&mut self, run: &ReportDocument) {
        // If a rank has no fence, the fences of the others may be of some ranks only: the last one is not known.
        let arrivals = run.moments.iter().map(|rank| rank.fence_begun);
        let last = arrivals.reduce(|last, at| Some(f64::max(last?, at?))).flatten();
        // A first fence that ended before this arrival was one of some ranks only, too.
        let is_of_all =
            |last: &f64| run.moments.iter().all(|rank| rank.fence_ended.is_some_and(|ended| ended >= *last));
        let last = last.filter(is_of_all);
        for rank in &run.moments {
            self.rank_count += 1;
            self.joined_count += usize::from(rank.entered().is_some());
            for ((_, _, span), series) in SPANS.iter().zip(&mut self.series) {
                series.samples.extend(span(rank, last));
            }
        }
    }

    /// A line for the user if the server saw less than it should.
    fn note(&self) -> Option<&'static str> {
        if self.joined_count == 0 {
            return Some("no rank joined its job: the program uses no PMIx here, and the phases are unknown");
        }
        let some = "some ranks did not join their job: the phases are those of the others";
        (self.joined_count < self.rank_count).then_some(some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::origin::Origin;
    use super::*;

    fn document(moments: Vec<RankMoments>) -> ReportDocument {
        let ranks = u32::try_from(moments.len()).unwrap();
        ReportDocument { job: "job".to_owned(), ranks, origin: Origin::now(), unit: "ms".to_owned(), moments }
    }

    fn rank(rank: u32, late: f64) -> RankMoments {
        RankMoments {
            rank,
            spawned: Some(late),
            init_begun: Some(late + 2.0),
            connected: Some(late + 2.5),
            init_granted: Some(late + 3.0),
            fence_begun: Some(late + 4.0),
            fence_ended: Some(10.0),
            finalized: Some(18.0),
            ended: Some(20.0 + late),
        }
    }

    fn samples(phases: &Phases, name: &str) -> Vec<f64> {
        phases.series.iter().find(|series| series.name == name).unwrap().samples.clone()
    }

    #[test]
    fn the_wait_for_the_last_rank_is_not_the_fences_own_time() {
        let mut phases = Phases::new(2);
        phases.add(&document(vec![rank(0, 0.0), rank(1, 5.0)]));
        assert_eq!(samples(&phases, "mpi.init"), [1.0, 1.0]);
        assert_eq!(samples(&phases, "mpi.first_fence"), [6.0, 1.0]);
        assert_eq!(samples(&phases, "mpi.first_fence.of_last_rank"), [1.0, 1.0]);
        assert_eq!(samples(&phases, "mpi.share.pmix"), [10.0, 10.0]);
        assert_eq!(samples(&phases, "mpi.share.fence_wait"), [25.0, 0.0]);
        assert_eq!(phases.note(), None);
    }

    #[test]
    fn ranks_that_do_not_join_have_a_life_alone() {
        let mut phases = Phases::new(2);
        let stranger = RankMoments { rank: 1, spawned: Some(0.0), ended: Some(4.0), ..RankMoments::default() };
        phases.add(&document(vec![stranger]));
        assert!(phases.note().is_some_and(|note| note.starts_with("no rank joined")));
        phases.add(&document(vec![rank(0, 0.0), stranger]));
        assert_eq!(
            (samples(&phases, "mpi.spawn_to_exit"), samples(&phases, "mpi.init")),
            (vec![4.0, 20.0, 4.0], vec![1.0])
        );
        // The last rank of the fence is not known.
        assert!(samples(&phases, "mpi.first_fence.of_last_rank").is_empty());
        assert!(phases.note().is_some_and(|note| note.starts_with("some ranks")));
    }

    /// The share of the wait in fences of one rank each was over 100 %.
    #[test]
    fn first_fences_of_some_ranks_have_no_last_rank() {
        let mut phases = Phases::new(2);
        let alone = RankMoments { fence_ended: Some(5.0), finalized: Some(6.0), ended: Some(7.0), ..rank(0, 0.0) };
        phases.add(&document(vec![alone, rank(1, 5.0)]));
        assert_eq!(samples(&phases, "mpi.first_fence"), [1.0, 1.0]);
        for name in ["mpi.first_fence.of_last_rank", "mpi.share.fence_wait"] {
            assert!(samples(&phases, name).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_figure_has_its_ratio_to_the_other_library() {
        let program = |prefix: &'static str, late: f64| {
            let mut program = Program::new(prefix, 2, Vec::new());
            program.phases.add(&document(vec![rank(0, late), rank(1, late)]));
            program
        };
        let programs = [program("", 0.0), program(LIBRARY_PREFIX, 2.0)];
        let mut found = figures(programs.into_iter().flat_map(Program::into_series));
        compare_with_library(&mut found);
        let figure = |name: &str| found.iter().find(|figure| figure.name == name).unwrap();
        let ours = figure("mpi.first_fence");
        assert_eq!((ours.p50, ours.ratio, ours.ratio_to.as_deref()), (6.0, Some(1.5), Some("library.mpi.first_fence")));
        assert_eq!(figure("library.mpi.first_fence").ratio, None);
    }

    #[test]
    fn the_help_names_every_figure() {
        for (name, ..) in SPANS {
            assert!(HELP.contains(&format!("  {name} ")), "{name}");
        }
    }
}
