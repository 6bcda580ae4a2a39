//! The command line of `modex run` cut into applications: `-n 2 prog a b : -n 1 --wdir /x other`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, Parser};

/// Options that each application has for itself.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AppOptions {
    /// Number of processes to start
    #[arg(short = 'n', long = "np", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    count: Option<u32>,

    /// Set an environment variable, or pass on the launcher's value; repeatable
    #[arg(short = 'x', value_name = "VAR[=VALUE]")]
    environment: Vec<OsString>,

    /// Directory to start the processes in
    #[arg(long, value_name = "DIR")]
    wdir: Option<PathBuf>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct App {
    /// The number of processes.
    pub(super) count: u32,
    /// The program.
    pub(super) program: OsString,
    /// Its arguments, without its name.
    pub(super) arguments: Vec<OsString>,
    /// Variables to set beside the launcher's own.
    pub(super) environment: Vec<(OsString, OsString)>,
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
            let further = FurtherApp::try_parse_from(part)
                .map_err(|error| AppError::Options { number: index + 1, reason: first_line(&error) })?;
            apps.push(app(&further.options, &further.command, &lookup)?);
        }
    }
    Ok(apps)
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
    let (program, arguments) = command.split_first().ok_or(AppError::Empty { number: 1 })?;
    let mut environment = Vec::new();
    for setting in &options.environment {
        // Values may hold bytes that are no text.
        let bytes = setting.as_bytes();
        let told = || setting.to_string_lossy().into_owned();
        let (name, value) = match bytes.iter().position(|byte| *byte == b'=').and_then(|at| bytes.split_at_checked(at))
        {
            Some((name, value)) => {
                (OsStr::from_bytes(name), OsStr::from_bytes(value.get(1..).unwrap_or_default()).into())
            }
            None => {
                let value = setting.to_str().and_then(lookup);
                (setting.as_os_str(), value.ok_or_else(|| AppError::Unset { name: told() })?)
            }
        };
        if name.is_empty() {
            return Err(AppError::Nameless { setting: told() });
        }
        environment.push((name.to_owned(), value));
    }
    Ok(App {
        count: options.count.unwrap_or(1),
        program: program.clone(),
        arguments: arguments.to_vec(),
        environment,
        working_directory: options.wdir.clone(),
    })
}

impl App {
    /// Refuses variables that the server sets itself. The server's value would silently replace the user's.
    pub(super) fn check_environment(&self, of_server: &[(String, String)]) -> Result<(), AppError> {
        let is_taken = |name: &OsString| of_server.iter().any(|(taken, _)| name == OsStr::new(taken));
        match self.environment.iter().find(|(name, _)| is_taken(name)) {
            Some((name, _)) => Err(AppError::Taken { name: name.to_string_lossy().into_owned() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
