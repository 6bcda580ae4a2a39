//! `modex info`: the installed parts, the features of the standard, and the support table of the C library.

use std::path::{Path, PathBuf};

use crate::abi::{self, Support};
use clap::Args;
use modex::runtime::{
    NAMED_SERVERS, PARAMETERS, Parameter, ParameterEffect, named_servers, parameter_origin, parameter_value,
};
use modex::stderr_log::printable;
use serde::Serialize;

use super::features::{self, Feature, State};
use super::{Outcome, host, printing};

const HELP: &str = "\
Examples:
  modex info
  modex info --features
  modex info --features --state partly,not-done
  modex info --api
  modex info --parameters
  modex info --json

A line of --features has the state, the need and the feature: required or optional in the standard, or an
extension of OpenPMIx. A remark may follow.

JSON (--json): --features fills standard[] with chapter, feature, names[] (functions and attributes), need,
state, shown_by[] (tests in modex's repository) and note. --api fills api[], --parameters parameters[].

Exit status:
  0  Printed
  1  The text can't be written
  2  The command line makes no sense";

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(super) struct InfoOptions {
    /// List every function of the C library: implemented, passed to the host, or not supported
    #[arg(long)]
    api: bool,
    /// List the parameters of OpenPMIx (variables PMIX_MCA_NAME, and files) that have an effect, and what sets them now
    #[arg(long, conflicts_with = "api")]
    parameters: bool,
    /// List the features of the PMIx Standard by chapter: those that work, work partly, are the host's part, or are not
    /// done
    #[arg(long, conflicts_with_all = ["api", "parameters"])]
    features: bool,
    /// Only features in these states
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', requires = "features")]
    states: Vec<State>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// This build: version, features, places of its parts.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    pmix_version: &'static str,
    features: Vec<&'static str>,
    /// The features of the PMIx Standard.
    standard: Option<Vec<Feature>>,
    executable: Option<PathBuf>,
    library: Option<PathBuf>,
    /// The library for launchers that bring an OpenPMIx.
    launcher_library: Option<PathBuf>,
    headers: Option<PathBuf>,
    api: Option<Vec<Row>>,
    parameters: Option<Vec<ParameterRow>>,
}

#[derive(Serialize)]
struct Row {
    function: &'static str,
    support: &'static str,
}

/// A parameter of OpenPMIx with an effect.
#[derive(Serialize)]
struct ParameterRow {
    name: String,
    effect: String,
    value: Option<String>,
    /// The variable or the file that sets it.
    set_by: Option<String>,
    /// Why the value has no effect.
    problem: Option<String>,
}

impl ParameterRow {
    fn of(parameter: &Parameter) -> Self {
        let effect = match parameter.effect {
            ParameterEffect::Setting(words) => words.to_owned(),
            ParameterEffect::LogArea(area) => {
                format!("a number above 0: MODEX_LOG={area}=debug, unless MODEX_LOG is set")
            }
        };
        // The names of servers have rows of their own.
        let is_set = parameter.name != NAMED_SERVERS;
        let value = parameter_value(parameter.name).filter(|_| is_set);
        let value = value.map(|value| value.to_string_lossy().into_owned());
        let set_by = parameter_origin(parameter.name).filter(|_| is_set);
        Self { name: parameter.name.to_owned(), effect, value, set_by, problem: parameter.problem() }
    }

    /// The servers that parameters name.
    fn of_servers() -> impl Iterator<Item = Self> {
        named_servers().into_iter().map(|(name, server)| Self {
            name: format!("modex_server_{name}"),
            effect: format!("tool: the address of the server {name}"),
            value: Some(server.address),
            set_by: Some(server.place),
            problem: None,
        })
    }

    /// The parameter as lines.
    fn text(&self) -> String {
        let mut text = format!("{}\n    {}\n", self.name, self.effect);
        if let (Some(value), Some(place)) = (&self.value, &self.set_by) {
            let problem =
                self.problem.as_ref().map_or_else(String::new, |problem| format!(", refused: {}", printable(problem)));
            text += &format!("    now {} ({}){problem}\n", printable(value), printable(place));
        }
        text
    }
}

pub(super) fn run(options: &InfoOptions) -> Outcome {
    let report = report(options);
    let text = if options.json {
        printing::escaped_json(&serde_json::to_string_pretty(&report)?) + "\n"
    } else {
        render(&report)
    };
    printing::print(&text)?;
    Ok(0)
}

fn report(options: &InfoOptions) -> Report {
    let executable = std::env::current_exe().ok();
    let is_wanted = |row: &Feature| options.states.is_empty() || options.states.contains(&row.state);
    let rows = || abi::functions().iter().map(|f| Row { function: f.name, support: f.support.words() }).collect();
    Report {
        version: env!("CARGO_PKG_VERSION"),
        pmix_version: PMIX_VERSION,
        features: build_features(),
        standard: options.features.then(|| features::features().filter(|row| is_wanted(row)).collect()),
        library: executable.as_deref().and_then(|path| nearby(path, &["../lib/libpmix.so.2", "libpmix.so.2"])),
        launcher_library: host::installed(),
        headers: executable
            .as_deref()
            .and_then(|path| nearby(path, &["../include/pmix.h", "../../libpmix/include/pmix.h"])),
        executable,
        api: options.api.then(rows),
        parameters: options
            .parameters
            .then(|| PARAMETERS.iter().map(ParameterRow::of).chain(ParameterRow::of_servers()).collect()),
    }
}

/// The features this command was built with.
fn build_features() -> Vec<&'static str> {
    let all = [("topology", cfg!(feature = "topology")), ("posix-shm", cfg!(feature = "posix-shm"))];
    all.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect()
}

/// The first of these files that exists, relative to the directory of the executable, as installed or as built.
fn nearby(executable: &Path, places: &[&str]) -> Option<PathBuf> {
    let directory = executable.parent()?;
    places.iter().find_map(|place| directory.join(place).canonicalize().ok())
}

fn render(report: &Report) -> String {
    if let Some(rows) = &report.api {
        let width = rows.iter().map(|row| row.function.len()).max().unwrap_or_default();
        return rows.iter().map(|row| format!("{:width$}  {}\n", row.function, row.support)).collect();
    }
    if let Some(rows) = &report.parameters {
        return rows.iter().map(ParameterRow::text).collect();
    }
    if let Some(rows) = &report.standard {
        return features::text(rows);
    }
    let path =
        |found: &Option<PathBuf>| found.as_ref().map_or("not found".to_owned(), |path| path.display().to_string());
    let launchers = format!("{} (modex host -- mpirun ...)", path(&report.launcher_library));
    let counts: Vec<String> = Support::ALL.map(count).to_vec();
    let standard: Vec<Feature> = features::features().collect();
    let lines = [
        ("version", report.version.to_owned()),
        ("interface", format!("PMIx {}", report.pmix_version)),
        ("features", report.features.join(", ")),
        ("command", path(&report.executable)),
        ("library", path(&report.library)),
        ("launchers", launchers),
        ("headers", path(&report.headers)),
        ("functions", counts.join(", ")),
        ("standard", features::counts(&standard)),
    ];
    lines.iter().map(|(name, what)| format!("{name:10} {what}\n")).collect()
}

fn count(support: Support) -> String {
    let count = abi::functions().iter().filter(|function| function.support == support).count();
    format!("{count} {}", support.words())
}

/// The version that `libpmix/include/pmix_version.h` states; `cli/tests/cli/info.rs` compares them.
const PMIX_VERSION: &str = "4.2.9";
