//! The command line of `modex run` cut into applications: `-n 2 prog a b : -n 1 --wdir /x other`.
//!
//! Options of other launchers that have no meaning here are known, so that their refusal can name the reason.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser};
use modex::storage::elf::DIRECTORIES_MAX;
use nix::unistd::{AccessFlags, access};

use super::RunOptions;

/// The largest number of ranks of one launcher: each costs two pipes and a connection.
pub(super) const RANK_COUNT_MAX: u32 = 4096;

/// Options that each application has for itself.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AppOptions {
    /// Number of processes to start, 1 by default; -np is accepted, too
    #[arg(short = 'n', long = "np", alias = "n", value_name = "N", value_parser = count)]
    count: Option<u32>,

    /// Set an environment variable, or pass on the launcher's value; repeatable
    #[arg(short = 'x', value_name = "VAR[=VALUE]")]
    environment: Vec<OsString>,

    /// Directory to start the processes in
    #[arg(long, alias = "wd", value_name = "DIR")]
    wdir: Option<PathBuf>,

    #[command(flatten)]
    of_others: OthersOptions,
}

/// Options of other launchers for one application.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
struct OthersOptions {
    #[arg(short = 'H', long = "host", alias = "hosts", hide = true)]
    hosts: Vec<OsString>,

    #[arg(short = 'f', long = "hostfile", aliases = ["machinefile", "default-hostfile"], hide = true)]
    host_file: Option<OsString>,

    #[arg(short = 'N', long = "npernode", alias = "ppn", hide = true)]
    ranks_per_node: Option<OsString>,

    #[arg(long = "mca", alias = "gmca", num_args = 2, allow_hyphen_values = true, hide = true)]
    parameters: Vec<OsString>,

    #[arg(long = "env", alias = "genv", num_args = 2, allow_hyphen_values = true, hide = true)]
    variables: Vec<OsString>,

    /// Without effect: the launcher counts no slots.
    #[arg(long = "oversubscribe", hide = true)]
    is_oversubscribed: bool,
}

impl OthersOptions {
    fn refuse(&self) -> Result<(), AppError> {
        if !self.hosts.is_empty() {
            return Err(AppError::OneMachine { option: "--host" });
        }
        if self.host_file.is_some() {
            return Err(AppError::OneMachine { option: "--hostfile" });
        }
        if self.ranks_per_node.is_some() {
            return Err(AppError::RanksPerNode);
        }
        if let Some((name, value)) = pair(&self.variables) {
            return Err(AppError::Variable { name, value });
        }
        match pair(&self.parameters) {
            Some((name, value)) => Err(AppError::Parameter { name, value }),
            None => Ok(()),
        }
    }
}

fn pair(words: &[OsString]) -> Option<(String, String)> {
    let [name, value] = words.first_chunk()?;
    Some((name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
}

/// Options of other launchers for the whole job.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OthersJobOptions {
    #[arg(long = "map-by", hide = true)]
    map_by: Vec<String>,

    #[arg(long = "rank-by", hide = true)]
    rank_by: Vec<String>,

    #[arg(short = 'l', long = "prepend-rank", hide = true)]
    prepends_rank: bool,

    /// Without effect: the launcher has no objection to root.
    #[arg(long = "allow-run-as-root", hide = true)]
    allows_root: bool,
}

impl OthersJobOptions {
    /// Refuses an order of ranks that differs from that of this launcher. On one machine it places rank after rank,
    /// each on the next core.
    pub(super) fn refuse(&self) -> Result<(), AppError> {
        if self.prepends_rank {
            return Err(AppError::PrependedRank);
        }
        for (option, words) in [("--map-by", &self.map_by), ("--rank-by", &self.rank_by)] {
            if let Some(order) = words.iter().find(|order| !is_own_order(order)) {
                return Err(AppError::Order { option, order: order.clone() });
            }
        }
        Ok(())
    }
}

/// Whether an order of ranks is that of this launcher. `oversubscribe` permits only what the launcher does anyway.
fn is_own_order(order: &str) -> bool {
    let order = order.to_ascii_lowercase();
    let mut words = order.split(':');
    words.next().is_some_and(|place| ["slot", "core", "node"].contains(&place))
        && words.all(|word| word == "oversubscribe")
}

/// Refuses words of Open MPI's `--output` as a directory: `tag,timestamp,dir=DIR`.
pub(super) fn check_directory(directory: Option<&Path>) -> Result<(), AppError> {
    let Some(text) = directory.and_then(Path::to_str) else { return Ok(()) };
    let is_word = |word: &str| {
        ["dir=", "directory=", "file="].iter().any(|start| word.starts_with(start)) || OUTPUT_WORDS.contains(&word)
    };
    if text.split([',', ':']).any(is_word) {
        return Err(AppError::OutputWords { words: text.to_owned() });
    }
    Ok(())
}

/// Words of Open MPI's `--output`.
const OUTPUT_WORDS: [&str; 12] = [
    "tag",
    "tag-detailed",
    "tag-fullname",
    "timestamp",
    "merge",
    "merge-stderr-to-stdout",
    "xml",
    "json",
    "copy",
    "nocopy",
    "raw",
    "pattern",
];

fn count(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| (1..=RANK_COUNT_MAX).contains(count));
    count.ok_or_else(|| format!("expected a number from 1 to {RANK_COUNT_MAX}"))
}

/// Writes long options with one dash, as other launchers have them, with two: `-np` and `-hostfile`. Only options are
/// changed, not their values and not the words of programs. The first two words are `modex run`.
pub(crate) fn with_two_dashes(mut words: Vec<OsString>) -> Vec<OsString> {
    if !words.iter().any(|word| one_dash(word).is_some()) {
        return words;
    }
    let options = RunOptions::augment_args(clap::Command::new("run"));
    let mut is_option = true;
    let mut values = 0;
    for word in words.iter_mut().skip(2) {
        if word == ":" {
            (is_option, values) = (true, 0);
        } else if values > 0 {
            values -= 1;
        } else if is_option {
            if let Some(long) = long_of(word, &options) {
                *word = long;
            }
            is_option = word.as_bytes().starts_with(b"-") && word != "--";
            values = if is_option { values_of(word, &options) } else { 0 };
        }
    }
    words
}

/// The letters of a word that begins with one dash and has several.
fn one_dash(word: &OsStr) -> Option<&str> {
    word.to_str()?.strip_prefix('-').filter(|name| name.len() > 1 && !name.starts_with('-'))
}

/// The long option that a word with one dash means.
fn long_of(word: &OsStr, options: &clap::Command) -> Option<OsString> {
    let name = one_dash(word)?;
    if let Some(count) = name.strip_prefix("np").filter(|count| count.parse::<u32>().is_ok()) {
        return Some(format!("--np={count}").into());
    }
    let known = options.get_opts().any(|option| is_called(option, name.split('=').next().unwrap_or(name)));
    known.then(|| format!("--{name}").into())
}

/// The number of words behind an option that belong to it.
fn values_of(word: &OsStr, options: &clap::Command) -> usize {
    let named = |option: &&clap::Arg| {
        option.get_short().is_some_and(|short| word == OsStr::new(&format!("-{short}")))
            || word.to_str().and_then(|word| word.strip_prefix("--")).is_some_and(|name| is_called(option, name))
    };
    let option = options.get_opts().find(named).filter(|option| option.get_action().takes_values());
    option.map_or(0, |option| option.get_num_args().map_or(1, |range| range.min_values()))
}

/// Whether an option has this long name.
fn is_called(option: &clap::Arg, name: &str) -> bool {
    let others = option.get_all_aliases().unwrap_or_default();
    option.get_long() == Some(name) || others.contains(&name)
}

/// One application behind a `:`, parsed with the same options.
#[derive(Parser, Debug)]
#[command(no_binary_name = true, disable_help_flag = true, name = "modex run ... :")]
struct FurtherApp {
    #[command(flatten)]
    options: AppOptions,

    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// One program and its start parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct App {
    /// The number of processes.
    pub(super) count: u32,
    /// The program.
    pub(super) program: OsString,
    /// Its arguments, without its name.
    pub(super) arguments: Vec<OsString>,
    /// Variables to set beside the launcher's own.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// Variables of the launcher that it does not inherit.
    pub(super) removed: Vec<OsString>,
    /// Directory to start in; the launcher's if none.
    pub(super) working_directory: Option<PathBuf>,
}

/// Why a command line can't be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    /// Two colons in a row, or one at an end.
    #[error("application {number} is empty; write a program on both sides of each ':'")]
    Empty {
        /// The number of the application, from 1.
        number: usize,
    },
    /// Options behind a colon that can't be read.
    #[error("application {number}: {reason}; see modex run --help")]
    Options {
        /// The number of the application, from 1.
        number: usize,
        /// The parser's reason.
        reason: String,
    },
    /// An option of the whole job behind a colon.
    #[error("{option} is an option of the whole job; write it before the first program")]
    Misplaced {
        /// The option.
        option: String,
    },
    /// An option that names machines.
    #[error(
        "{option}: modex run works on one machine; on several, start the program with Slurm's srun, PRRTE's prun or Open \
         MPI's mpirun and this library (docs/launcher.md, \"Several machines\")"
    )]
    OneMachine {
        /// The option.
        option: &'static str,
    },
    /// `--npernode N`.
    #[error("--npernode: modex run works on one machine; write -n with the number of ranks")]
    RanksPerNode,
    /// `--env NAME VALUE`.
    #[error("--env: write -x {name}={value}")]
    Variable {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
    },
    /// A colon among the words of a program that is measured.
    #[error("modex bench mpi measures one program; leave the ':' and all behind it out")]
    OneProgram,
    /// `-l`.
    #[error("--prepend-rank: write --tag-output")]
    PrependedRank,
    /// `--map-by` or `--rank-by` with another order.
    #[error(
        "{option} {order}: modex run places rank after rank, as {option} slot does; leave the option out. \
         -n sets the number of ranks, --bind core binds each to the next core"
    )]
    Order {
        /// The option.
        option: &'static str,
        /// The order.
        order: String,
    },
    /// Words of Open MPI as the directory of the output.
    #[error(
        "--output {words}: write --output DIR, and --tag-output, --timestamp or --merge beside it; \
         a directory with this name is ./{words}"
    )]
    OutputWords {
        /// The value.
        words: String,
    },
    /// `--mca NAME VALUE`.
    #[error("--mca: modex run has no such parameters; -x OMPI_MCA_{name}={value} sets this one for Open MPI's library")]
    Parameter {
        /// The parameter.
        name: String,
        /// Its value.
        value: String,
    },
    /// `-x =VALUE`.
    #[error("-x {setting}: a variable needs a name in front of the '='; write -x NAME=VALUE")]
    Nameless {
        /// The word as written.
        setting: String,
    },
    /// `-x` of a variable by which the server identifies its clients.
    #[error("-x {name}: the launcher sets this variable for each rank itself; leave it out")]
    Taken {
        /// The variable.
        name: String,
    },
    /// `-x NAME` of a variable that is not set.
    #[error("-x {name}: the launcher has no such variable; write -x {name}=VALUE to set it")]
    Unset {
        /// The variable.
        name: String,
    },
}

/// Cuts the words behind the options into applications. `lookup` reads the launcher's own environment.
pub(super) fn split(
    first: &AppOptions,
    words: &[OsString],
    lookup: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<App>, AppError> {
    let mut apps = Vec::new();
    for (index, part) in words.split(|word| word == OsStr::new(":")).enumerate() {
        if part.is_empty() {
            return Err(AppError::Empty { number: index + 1 });
        }
        if index == 0 {
            apps.push(app(first, part, &lookup)?);
        } else {
            let further = FurtherApp::try_parse_from(part).map_err(|error| behind_colon(index + 1, &error))?;
            apps.push(app(&further.options, &further.command, &lookup)?);
        }
    }
    Ok(apps)
}

/// The reason why the words behind a colon can't be read.
fn behind_colon(number: usize, error: &clap::Error) -> AppError {
    if let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) {
        let name = option.split_once('=').map_or(option.as_str(), |(name, _)| name);
        let options = RunOptions::augment_args(clap::Command::new("run"));
        let is_known =
            name.strip_prefix("--").is_some_and(|name| options.get_opts().any(|option| is_called(option, name)));
        if is_known && error.kind() == clap::error::ErrorKind::UnknownArgument {
            return AppError::Misplaced { option: name.to_owned() };
        }
    }
    AppError::Options { number, reason: first_line(error) }
}

/// The parser's message and its first tip without decoration: errors of this command are one line.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let message = line.trim_start_matches("error: ").trim_end_matches(':');
    match text.lines().find_map(|line| line.trim_start().strip_prefix("tip: ")) {
        Some(tip) => format!("{message}: {tip}"),
        None => message.to_owned(),
    }
}

fn app(
    options: &AppOptions,
    command: &[OsString],
    lookup: &impl Fn(&str) -> Option<OsString>,
) -> Result<App, AppError> {
    options.of_others.refuse()?;
    let (program, arguments) = command.split_first().ok_or(AppError::Empty { number: 1 })?;
    let mut environment = Vec::new();
    for setting in &options.environment {
        // Values may hold bytes that are no text.
        let bytes = setting.as_bytes();
        let rendered = || setting.to_string_lossy().into_owned();
        let (name, value) = match bytes.iter().position(|byte| *byte == b'=').and_then(|at| bytes.split_at_checked(at))
        {
            Some((name, value)) => {
                (OsStr::from_bytes(name), OsStr::from_bytes(value.get(1..).unwrap_or_default()).into())
            }
            None => {
                let value = setting.to_str().and_then(lookup);
                (setting.as_os_str(), value.ok_or_else(|| AppError::Unset { name: rendered() })?)
            }
        };
        if name.is_empty() {
            return Err(AppError::Nameless { setting: rendered() });
        }
        environment.push((name.to_owned(), value));
    }
    Ok(App {
        count: options.count.unwrap_or(1),
        program: program.clone(),
        arguments: arguments.to_vec(),
        environment,
        removed: Vec::new(),
        working_directory: options.wdir.clone(),
    })
}

impl App {
    /// The value of a variable in its environment. `lookup` reads the launcher's own environment.
    pub(super) fn variable(&self, name: &str, lookup: impl Fn(&str) -> Option<OsString>) -> Option<OsString> {
        let own = self.environment.iter().rev().find(|(set, _)| set == name).map(|(_, value)| value.clone());
        own.or_else(|| lookup(name).filter(|_| self.removed.iter().all(|removed| removed != name)))
    }

    /// The program's file, found as the start of a rank finds it.
    pub(super) fn program_path(&self, lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let directory = self.working_directory.clone().unwrap_or_default();
        if self.program.as_bytes().contains(&b'/') {
            return Some(directory.join(&self.program));
        }
        let path = self.variable("PATH", lookup);
        let places = path.iter().flat_map(std::env::split_paths).take(DIRECTORIES_MAX);
        let found = places.map(|place| directory.join(place).join(&self.program)).find(|path| path.is_file());
        found.or_else(|| Some(directory.join(self.local_program())).filter(|path| is_executable(path)))
    }

    /// The program for the system's search. As under `mpirun`, a name without a place may be one of the working
    /// directory.
    pub(super) fn program_to_start(&self, lookup: impl Fn(&str) -> Option<OsString>) -> OsString {
        let local = self.local_program();
        let directory = self.working_directory.clone().unwrap_or_default();
        let is_local = !self.program.as_bytes().contains(&b'/')
            && self.program_path(lookup).is_some_and(|path| path == directory.join(&local));
        if is_local { local } else { self.program.clone() }
    }

    fn local_program(&self) -> OsString {
        OsString::from_iter([OsStr::new("./"), &self.program])
    }

    /// Refuses variables that the server sets itself. The server's value would silently replace the user's.
    pub(super) fn check_environment(&self, of_server: &[(String, String)]) -> Result<(), AppError> {
        let is_taken = |name: &OsString| of_server.iter().any(|(taken, _)| name == OsStr::new(taken));
        match self.environment.iter().find(|(name, _)| is_taken(name)) {
            Some((name, _)) => Err(AppError::Taken { name: name.to_string_lossy().into_owned() }),
            None => Ok(()),
        }
    }
}

/// Whether this is a file that this user may execute.
pub(super) fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A variable of 14 MiB held the launcher up for a minute.
    #[test]
    fn a_program_is_looked_for_in_so_many_directories() {
        let path = |before: usize| {
            let places = format!("{}/bin", "/x:".repeat(before));
            let app = App { program: "sh".into(), ..App::default() };
            app.program_path(|name| (name == "PATH").then(|| places.clone().into()))
        };
        assert_eq!(path(DIRECTORIES_MAX - 1), Some("/bin/sh".into()));
        assert_eq!(path(DIRECTORIES_MAX), None);
    }

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn options(count: u32) -> AppOptions {
        AppOptions { count: Some(count), ..AppOptions::default() }
    }

    #[test]
    fn one_program_keeps_its_own_options() {
        let apps = split(&options(4), &words("prog -n 7 --help"), |_| None).unwrap();
        assert_eq!(apps.len(), 1);
        assert_eq!((apps[0].count, apps[0].arguments.len()), (4, 3));
    }

    #[test]
    fn a_colon_starts_the_next_program_with_options_of_its_own() {
        let apps = split(&options(2), &words("a x : -n 3 --wdir /tmp -x K=V b y z"), |_| None).unwrap();
        assert_eq!(apps[1].program, "b");
        assert_eq!(apps[1].count, 3);
        assert_eq!(apps[1].working_directory, Some("/tmp".into()));
        assert_eq!(apps[1].environment, vec![("K".into(), "V".into())]);
        assert_eq!(apps[1].arguments, words("y z"));
    }

    #[test]
    fn the_number_of_processes_may_have_one_dash_and_nothing_else_changes() {
        let rendered = |text| with_two_dashes(words(text)).join(OsStr::new(" "));
        assert_eq!(rendered("modex run -np 2 a -np 3 : -x V -np 4 b"), "modex run --np 2 a -np 3 : -x V --np 4 b");
        assert_eq!(rendered("modex run --tag-output -x -np -- -np"), "modex run --tag-output -x -np -- -np");
        assert_eq!(rendered("modex run --mca -np -np -np 2 a"), "modex run --mca -np -np --np 2 a");
        assert_eq!(rendered("modex run -np4 -n4 -nx a"), "modex run --np=4 -n4 -nx a");
        assert_eq!(
            rendered("modex run -wd -np -tag-output -bind-to=core -hostfile f a"),
            "modex run --wd -np --tag-output --bind-to=core --hostfile f a"
        );
    }

    #[test]
    fn an_order_of_ranks_is_the_launchers_own_or_refused() {
        for (order, is_own) in [
            ("slot", true),
            ("CORE", true),
            ("node:OVERSUBSCRIBE", true),
            ("socket", false),
            ("slot:PE=2", false),
            ("ppr:2:node", false),
            ("", false),
        ] {
            assert_eq!(is_own_order(order), is_own, "{order}");
        }
    }

    #[test]
    fn words_of_another_launcher_are_no_directory_unless_written_as_a_path() {
        for (words, is_refused) in [
            ("tag", true),
            ("tag,timestamp", true),
            ("dir=out", true),
            ("merge:tag", true),
            ("out:copy", true),
            ("./tag", false),
            ("out", false),
            ("tags", false),
            ("/tmp/merge", false),
        ] {
            assert_eq!(check_directory(Some(Path::new(words))).is_err(), is_refused, "{words}");
        }
        assert!(check_directory(None).is_ok());
    }

    #[test]
    fn an_empty_application_is_named() {
        let error = split(&options(1), &words("a : : b"), |_| None).unwrap_err();
        assert_eq!(error.to_string(), "application 2 is empty; write a program on both sides of each ':'");
    }

    /// Regression: it was taken for the program.
    #[test]
    fn a_mistyped_option_behind_a_colon_is_no_program() {
        let error = split(&options(1), &words("a : -n 2 --wdri /tmp b --wdri"), |_| None).unwrap_err().to_string();
        assert!(error.contains("'--wdri'") && error.contains("exists: '--wdir'"), "{error}");
        let apps = split(&options(1), &words("a : -n 2 -- --wdri"), |_| None).unwrap();
        assert_eq!(apps[1].program, "--wdri");
    }

    #[test]
    fn a_variable_without_value_is_taken_from_the_launcher_or_refused() {
        let wanted = AppOptions { environment: vec!["HOME".into()], ..AppOptions::default() };
        let apps = split(&wanted, &words("a"), |_| Some("/root".into())).unwrap();
        assert_eq!(apps[0].environment, vec![("HOME".into(), "/root".into())]);
        assert!(matches!(split(&wanted, &words("a"), |_| None), Err(AppError::Unset { .. })));
    }

    #[test]
    fn a_variable_without_a_name_or_with_a_name_of_the_servers_is_refused() {
        let wanted = |setting: &str| AppOptions { environment: vec![setting.into()], ..AppOptions::default() };
        let error = split(&wanted("=b"), &words("a"), |_| None).unwrap_err();
        assert!(error.to_string().starts_with("-x =b: a variable needs a name"), "{error}");
        let of_server = [("PMIX_RANK".to_owned(), "0".to_owned())];
        let [taken, free] =
            ["PMIX_RANK=5", "PMIX_RANKS=5"].map(|setting| split(&wanted(setting), &words("a"), |_| None));
        let error = taken.unwrap()[0].check_environment(&of_server).unwrap_err();
        assert!(error.to_string().starts_with("-x PMIX_RANK: the launcher sets"), "{error}");
        assert!(free.unwrap()[0].check_environment(&of_server).is_ok());
    }

    #[test]
    fn the_program_is_found_in_the_places_that_the_rank_searches() {
        let app = |program: &str, path: Option<&str>, directory: Option<&str>| App {
            program: program.into(),
            environment: path.into_iter().map(|path| ("PATH".into(), path.into())).collect(),
            working_directory: directory.map(PathBuf::from),
            ..App::default()
        };
        let found = |app: App| app.program_path(|_| Some("/bin".into()));
        assert_eq!(found(app("./a", None, Some("/tmp"))), Some("/tmp/./a".into()));
        assert_eq!(found(app("sh", None, None)), Some("/bin/sh".into()));
        assert_eq!(found(app("sh", Some("/nowhere:/usr/bin"), None)), Some("/usr/bin/sh".into()));
        assert_eq!(found(app("sh", Some("/nowhere"), None)), None);
        let started = |app: App| app.program_to_start(|_| Some("/usr/bin".into()));
        assert_eq!(found(app("sh", Some("/nowhere"), Some("/bin"))), Some("/bin/./sh".into()));
        assert_eq!(started(app("sh", Some("/nowhere"), Some("/bin"))), "./sh");
        assert_eq!(started(app("sh", None, Some("/bin"))), "sh");
        assert_eq!(started(app("passwd", Some("/nowhere"), Some("/etc"))), "passwd");
    }

    #[test]
    fn the_last_setting_of_the_program_counts_before_the_launchers() {
        let lookup = |name: &str| (name == "A").then(|| "launcher".into());
        let value = |set: &[(&str, &str)], removed: &[&str], name| {
            let environment = set.iter().map(|(name, value)| (name.into(), value.into())).collect();
            App { environment, removed: removed.iter().map(OsString::from).collect(), ..App::default() }
                .variable(name, lookup)
        };
        assert_eq!(value(&[("A", "1"), ("A", "2")], &[], "A"), Some("2".into()));
        assert_eq!(value(&[("B", "1")], &[], "A"), Some("launcher".into()));
        assert_eq!(value(&[("B", "1")], &["A"], "A"), None);
        assert_eq!(value(&[], &[], "B"), None);
    }
}
