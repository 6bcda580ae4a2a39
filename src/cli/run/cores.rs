//! The cores of this machine, asked of the helper program that is linked with hwloc.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::topo;

/// The helper's name; it lies beside the command.
const HELPER: &str = "modex-topology";

/// Why the cores are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoresError {
    /// The helper did not run.
    #[error("cannot run {}: {error}; install it beside modex, or run without binding (--bind none)", helper.display())]
    Start {
        /// Where it was looked for.
        helper: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The helper found no cores; it says why itself.
    #[error("{reason}")]
    Refused {
        /// Its words.
        reason: String,
    },
    /// The helper said something else than lines of numbers.
    #[error("{HELPER} says {line:?}, which is not a list of processors; is it of another build?")]
    Line {
        /// What it said.
        line: String,
    },
}

/// The processors of each core this process may run on.
pub(super) fn cores() -> Result<Vec<Vec<usize>>, CoresError> {
    let helper = std::env::current_exe().map_or_else(|_| PathBuf::from(HELPER), |path| path.with_file_name(HELPER));
    let output = match Command::new(&helper).output() {
        Ok(output) => output,
        Err(error) => return Err(CoresError::Start { helper, error }),
    };
    if !output.status.success() {
        return Err(CoresError::Refused { reason: String::from_utf8_lossy(&output.stderr).trim().to_owned() });
    }
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn parse(text: &str) -> Result<Vec<Vec<usize>>, CoresError> {
    text.lines()
        .map(|line| {
            let processors: Result<Vec<usize>, _> = line.split(' ').map(str::parse).collect();
            processors.map_err(|_| CoresError::Line { line: line.to_owned() })
        })
        .collect()
}

/// The helper: prints what [`cores`] reads.
pub(crate) fn print() -> ExitCode {
    let printed = topo::cores().map_err(|error| error.to_string()).and_then(|cores| {
        let lines = cores.iter().map(|core| core.iter().map(usize::to_string).collect::<Vec<_>>().join(" ") + "\n");
        io::stdout().write_all(lines.collect::<String>().as_bytes()).map_err(|error| error.to_string())
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The launcher passes it on; if it has gone, nobody wants to know.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_numbers_are_cores_and_anything_else_is_refused() {
        assert_eq!(parse("0 4\n1 5\n").unwrap(), [[0, 4], [1, 5]]);
        assert!(matches!(parse("0\nmany\n"), Err(CoresError::Line { line }) if line == "many"));
    }
}
