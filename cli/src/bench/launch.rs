//! The cost of a job under `modex run`, compared with starting as many processes that do nothing.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use nix::unistd::Pid;

use super::super::Outcome;
use super::super::run::{Guardian, SessionDirectory};
use super::figure::figures;
use super::measure::{Series, Unit, timed};
use super::node::Failure;
use super::output::BenchOutput;

/// The hidden subcommand that ends at once.
pub(crate) const NOTHING: &str = "nothing";

#[derive(Args, Debug)]
pub(super) struct LaunchBenchOptions {
    /// Ranks of the job
    #[arg(short = 'n', long, default_value_t = 32, value_name = "N")]
    ranks: u32,

    /// Runs of each program, in turn
    #[arg(long, default_value_t = 15, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    samples: usize,

    #[command(flatten)]
    output: BenchOutput,
}

pub(super) fn run(options: &LaunchBenchOptions) -> Outcome {
    let this = std::env::current_exe()?;
    let ranks = u64::from(options.ranks);
    // No directory is made: the guardian ends a run whose starter is killed.
    let guardian = Guardian::start(&SessionDirectory::choose(&std::env::temp_dir()))?;
    let series = |name: &str| Series::new(name, Unit::Milliseconds).param("ranks", ranks);
    // The floor is the same program without a call to the library; `true` shows the start-up cost of the program
    // itself.
    let programs: [(&str, &[&OsStr]); 3] = [
        ("launch.demo", &[this.as_os_str(), OsStr::new("demo")]),
        ("launch.nothing", &[this.as_os_str(), OsStr::new(NOTHING)]),
        ("launch.true", &[OsStr::new("true")]),
    ];
    let progress = options.output.begin("launch", options.samples + 1)?;
    let mut walls = programs.map(|(name, _)| series(name));
    // One turn more than asked for: the first one reads the programs from the disk.
    for turn in 0..=options.samples {
        progress.step("a run of each program");
        for ((_, program), wall) in programs.iter().zip(&mut walls) {
            let (time, ended) = timed(|| launch(&this, options.ranks, guardian.group(), &[], program));
            ended?;
            if turn > 0 {
                wall.add(time);
            }
        }
    }
    let [demo, floors @ ..] = &walls;
    let beyond = floors.each_ref().map(|floor| {
        let spans = demo.samples.iter().zip(&floor.samples).map(|(demo, floor)| demo - floor);
        series(&format!("launch.demo_beyond.{}", floor.name)).with(spans.collect())
    });
    options.output.show("launch", &figures(walls.clone().into_iter().chain(beyond)))
}

/// Runs a job to its end. Its status must be 0.
pub(super) fn launch(
    this: &Path,
    ranks: u32,
    group: Pid,
    options: &[OsString],
    program: &[impl AsRef<OsStr>],
) -> Result<(), Failure> {
    let mut command = Command::new(this);
    command.args(["run", "-n", &ranks.to_string()]).args(options).arg("--").args(program);
    command.process_group(group.as_raw());
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}
