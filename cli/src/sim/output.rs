//! The output: findings first, one summary line last.

use modex_sim::{Canary, Setup, Shortest};
use serde::Serialize;

use super::seeds::SeedsReport;
use crate::printing;

/// A planted defect and the seed that found it, if one did.
#[derive(Debug, Serialize)]
pub(super) struct Caught {
    kind: &'static str,
    found: Option<Finding>,
}

impl Caught {
    pub(super) fn new(kind: Canary, failure: Option<Shortest>) -> Self {
        let is_its_own = |shortest: &Shortest| {
            shortest.report.broken.as_ref().is_some_and(|broken| kind.rules().contains(&broken.rule))
        };
        let found = failure.filter(is_its_own).map(|shortest| Finding::of(&shortest));
        Self { kind: kind.word(), found }
    }

    pub(super) const fn is_found(&self) -> bool {
        self.found.is_some()
    }
}

/// A rule that was broken.
#[derive(Debug, Serialize)]
struct Finding {
    seed: u64,
    rule: String,
    what: String,
    /// The command that shows it.
    replay: String,
    /// The number of steps in that run, and the last of them.
    step_count: u64,
    steps: Vec<String>,
}

impl Finding {
    fn of(shortest: &Shortest) -> Self {
        let report = &shortest.report;
        let (rule, what) = report
            .broken
            .as_ref()
            .map_or_else(|| (String::new(), String::new()), |broken| (broken.rule.to_string(), broken.what.clone()));
        Self {
            seed: report.seed,
            rule,
            what,
            replay: replay(report.seed, &shortest.setup),
            step_count: report.steps,
            steps: report.lines.clone(),
        }
    }
}

/// The command that repeats a run.
fn replay(seed: u64, setup: &Setup) -> String {
    let Setup { nodes, ranks, phases, faults, faults_max, canary } = setup;
    let faults = canary.map_or_else(|| faults.to_string(), |canary| format!("canary:{}", canary.word()));
    let most = if *faults_max == u32::MAX { String::new() } else { format!(" --faults-max {faults_max}") };
    format!("modex sim --seeds {seed} --nodes {nodes} --ranks {ranks} --phases {phases} --faults {faults}{most}")
}

#[derive(Serialize)]
struct Document<'a> {
    command: &'a str,
    version: &'a str,
    seeds: u64,
    steps: u64,
    requests: u64,
    faults: u64,
    hash: String,
    seconds: f64,
    peak_bytes: u64,
    broken: Option<Finding>,
    canaries: &'a [Caught],
}

/// Prints the verdict.
pub(super) fn show(verdict: &SeedsReport, caught: &[Caught], json: bool) -> Result<(), Box<dyn std::error::Error>> {
    let finding = verdict.failure.as_ref().map(Finding::of);
    if json {
        let sums = verdict.sums;
        let document = Document {
            command: "sim",
            version: env!("CARGO_PKG_VERSION"),
            seeds: sums.seeds,
            steps: sums.steps,
            requests: sums.requests,
            faults: sums.faults,
            hash: format!("{:016x}", sums.hash),
            seconds: verdict.time.as_secs_f64(),
            peak_bytes: peak_bytes(),
            broken: finding,
            canaries: caught,
        };
        return Ok(printing::print(&format!(
            "{}\n",
            printing::escaped_json(&serde_json::to_string_pretty(&document)?)
        ))?);
    }
    let mut text = finding.as_ref().map(in_words).unwrap_or_default();
    for Caught { kind, found } in caught {
        match found {
            Some(Finding { seed, rule, what, replay, step_count, .. }) => {
                text +=
                    &format!("canary {kind}: found in seed {seed}: {rule}\n  {what}\n  {step_count} steps: {replay}\n");
            }
            None => text += &format!("canary {kind}: NOT FOUND\n"),
        }
    }
    text += &summary(verdict, finding.as_ref(), caught);
    Ok(printing::print(&(text + "\n"))?)
}

fn in_words(finding: &Finding) -> String {
    let Finding { seed, rule, what, replay, step_count, steps } = finding;
    let last = steps.iter().skip(steps.len().saturating_sub(LINES_SHOWN));
    let steps: String = last.map(|step| format!("{step}\n")).collect();
    format!(
        "seed {seed} breaks a rule: {rule}\n  {what}\nits last steps:\n{steps}replay of {step_count} steps:\n  {replay}\n"
    )
}

fn summary(verdict: &SeedsReport, finding: Option<&Finding>, caught: &[Caught]) -> String {
    let sums = verdict.sums;
    let outcome = match (finding, caught) {
        (Some(finding), _) => format!("FAILED in seed {}", finding.seed),
        (None, []) => "every rule held".to_owned(),
        (None, caught) => {
            let found = caught.iter().filter(|caught| caught.is_found()).count();
            format!("{found} of {} planted defects found", caught.len())
        }
    };
    format!(
        "{} seeds, {} steps, {} requests, {} faults, {:.1} s, {} MiB: {outcome}",
        sums.seeds,
        sums.steps,
        sums.requests,
        sums.faults,
        verdict.time.as_secs_f64(),
        peak_bytes() >> 20,
    )
}

/// The last lines of a run are shown; `--json` has them all.
const LINES_SHOWN: usize = 60;

/// The largest memory use of this process so far; 0 if the kernel does not report it.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1024)
}
