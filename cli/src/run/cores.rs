//! The cores of this machine and its topology, from the helper program that is linked with hwloc.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use modex::TopologySource;
use modex::topo::{self, TopologyError};
use modex::types::{Text, Topology};

/// The helper's name; it lies beside the command.
const HELPER: &str = "modex-topology";

/// Why the cores are unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoresError {
    /// The helper did not run.
    #[error("cannot run {}: {error}; install it beside modex, or run without binding (--bind none)", helper.display())]
    Start {
        /// The place where it was expected.
        helper: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The helper found no cores; it gives the reason itself.
    #[error("{reason}")]
    Refused {
        /// The helper's message.
        reason: String,
    },
    /// The helper printed something other than lines of numbers.
    #[error("{HELPER} printed {line:?}, which is not a list of processors; install modex and {HELPER} of one build")]
    Line {
        /// Its message.
        line: String,
    },
}

/// The processors of each core this process may run on.
pub(super) fn cores() -> Result<Vec<Vec<usize>>, CoresError> {
    parse(&String::from_utf8_lossy(&ask(&[])?))
}

/// The output of the helper for these arguments.
fn ask(arguments: &[&str]) -> Result<Vec<u8>, CoresError> {
    let helper = std::env::current_exe().map_or_else(|_| PathBuf::from(HELPER), |path| path.with_file_name(HELPER));
    let output = match Command::new(&helper).args(arguments).output() {
        Ok(output) => output,
        Err(error) => return Err(CoresError::Start { helper, error }),
    };
    if !output.status.success() {
        return Err(CoresError::Refused { reason: String::from_utf8_lossy(&output.stderr).trim().to_owned() });
    }
    Ok(output.stdout)
}

/// The topology of this machine, as the helper reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Helper;

impl TopologySource for Helper {
    fn read(&self) -> Result<Topology, TopologyError> {
        let printed = ask(&[XML]).map_err(|error| TopologyError::Unusable { reason: error.to_string() })?;
        Ok(Topology { xml: Some(Text::until_nul(&printed)), support: Vec::new() })
    }
}

fn parse(text: &str) -> Result<Vec<Vec<usize>>, CoresError> {
    text.lines()
        .map(|line| {
            let processors: Result<Vec<usize>, _> = line.split(' ').map(str::parse).collect();
            processors.map_err(|_| CoresError::Line { line: line.to_owned() })
        })
        .collect()
}

/// The helper's main function: prints the input of [`cores`], or the output for a [`Helper`].
pub(crate) fn print() -> ExitCode {
    let wants_xml = std::env::args_os().nth(1).is_some_and(|argument| argument == XML);
    let text = if wants_xml { xml() } else { lines() };
    let printed = text.map_err(|error| error.to_string());
    let printed = printed.and_then(|text| io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string()));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The launcher passes the message on. If the launcher has gone, nobody needs it.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn lines() -> Result<String, TopologyError> {
    let cores = topo::cores()?;
    Ok(cores.iter().map(|core| core.iter().map(usize::to_string).collect::<Vec<_>>().join(" ") + "\n").collect())
}

fn xml() -> Result<String, TopologyError> {
    Ok(topo::read()?.xml.map_or_else(String::new, |xml| xml.to_string_lossy()))
}

/// Has the helper print the topology.
const XML: &str = "--xml";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_numbers_are_cores_and_anything_else_is_refused() {
        assert_eq!(parse("0 4\n1 5\n").unwrap(), [[0, 4], [1, 5]]);
        assert!(matches!(parse("0\nmany\n"), Err(CoresError::Line { line }) if line == "many"));
    }
}
