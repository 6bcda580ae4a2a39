//! The choice of the server.

use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::Args;
use modex::types::Namespace;
use modex::{AttachError, Operation, Pending, Tool, ToolDirections, ToolError};

use super::arguments::{self, ArgumentError};
use crate::munge_programs::MungePrograms;

/// Without any of these the command asks the server that started this process, else the only server found. If there are
/// several, it asks the server that gave the job its name.
#[derive(Args, Debug, Default)]
#[group(multiple = false)]
pub(crate) struct Target {
    /// Server with this process number
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Server at this address, `file:` and the path of its rendezvous file, or the NAME of a parameter
    /// modex_server_NAME
    #[arg(long, value_name = "URI")]
    uri: Option<String>,
    /// Server that wrote this rendezvous file
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Server by its own namespace
    #[arg(long, value_name = "NAMESPACE")]
    server: Option<String>,
}

/// Why no server can be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    #[error(transparent)]
    Word(#[from] ArgumentError),
    #[error(transparent)]
    Tool(#[from] AttachError),
}

/// The time that a server gets for an answer if the user sets none.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Waits for the end of an operation. A server that was stopped would never answer.
pub(super) fn within<O: Operation>(time_max: Duration, operation: Pending<O>) -> Result<O::Output, Box<dyn Error>>
where
    O::Error: Error,
{
    answer_within(time_max, operation)?.map_err(Into::into)
}

/// As [`within`], for a caller that looks at the server's refusal.
pub(super) fn answer_within<O: Operation>(
    time_max: Duration,
    operation: Pending<O>,
) -> Result<Result<O::Output, O::Error>, NoAnswer> {
    let (sender, answers) = mpsc::channel();
    let begun = operation.then(move |answer| {
        // The command may have given up.
        let _ = sender.send(answer);
    });
    match begun {
        Ok(()) => answers.recv_timeout(time_max).map_err(|_| NoAnswer(time_max)),
        Err(error) => Ok(Err(error)),
    }
}

/// A server that does not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the server does not answer within {} s", .0.as_secs_f64())]
pub(super) struct NoAnswer(Duration);

impl Target {
    /// Connects as a tool, to ask about this job. A server gets `time_max` to answer, or the library's default.
    pub(crate) fn connect(&self, job: Option<&Namespace>, time_max: Option<Duration>) -> Result<Tool, TargetError> {
        match (self.connect_as_given(time_max), self.launcher_of(job)) {
            (Err(TargetError::Tool(AttachError::Connect(ToolError::Ambiguous { servers }))), Some(pid)) => {
                let launcher = Self { pid: Some(pid), ..Self::default() }.connect_as_given(time_max);
                launcher.map_err(|_| AttachError::Connect(ToolError::Ambiguous { servers }).into())
            }
            (connected, _) => connected,
        }
    }

    fn connect_as_given(&self, time_max: Option<Duration>) -> Result<Tool, TargetError> {
        let namespace = self.server.as_deref().map(arguments::namespace).transpose()?;
        let directions = ToolDirections {
            pid: self.pid,
            address: self.uri.clone(),
            file: self.file.clone(),
            namespace,
            time_max,
            prover: Some(Arc::new(MungePrograms)),
            // A person can choose better than the order of files.
            is_choice_refused: true,
            ..ToolDirections::default()
        };
        Ok(Tool::builder().directions(directions).connect()?)
    }

    /// Whether an option names the server by its place or name.
    pub(crate) fn is_place(&self) -> bool {
        self.uri.is_some() || self.file.is_some() || self.server.is_some()
    }

    /// The process number of the `modex run` that gave a job its name, if no option names a server.
    fn launcher_of(&self, job: Option<&Namespace>) -> Option<u32> {
        let is_given = self.pid.is_some() || self.is_place();
        // The name of a spawned job has a number of its own behind that of the process.
        if is_given { None } else { job?.as_str().strip_prefix("modex-")?.split('-').next()?.parse().ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: an option matched two servers, and the command asked a third one.
    #[test]
    fn a_jobs_name_says_nothing_where_an_option_names_the_server() {
        let job = Namespace::new("modex-4711").unwrap();
        let nobody = Target::default();
        assert_eq!(nobody.launcher_of(Some(&job)), Some(4711));
        assert_eq!(nobody.launcher_of(Some(&Namespace::new("modex-4711-2").unwrap())), Some(4711));
        assert_eq!(nobody.launcher_of(None), None);
        for target in [
            Target { pid: Some(1), ..Target::default() },
            Target { uri: Some("file:a".to_owned()), ..Target::default() },
            Target { file: Some("a".into()), ..Target::default() },
            Target { server: Some("a".to_owned()), ..Target::default() },
        ] {
            assert_eq!(target.launcher_of(Some(&job)), None, "{target:?}");
        }
    }
}
