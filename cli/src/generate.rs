//! Shell completions and man pages, made from the command line's own description so that they can't disagree with it.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, Outcome};

#[derive(Args, Debug)]
pub(super) struct CompletionOptions {
    /// Shell to write for
    shell: Shell,
}

#[derive(Args, Debug)]
pub(super) struct ManOptions {
    /// Directory for the pages modex.1, modex-run.1 ...; without it the main page is printed
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
}

pub(super) fn completions(options: &CompletionOptions) -> Outcome {
    // The page goes through memory: the generator panics if a pipe is closed early.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "modex", &mut script);
    io::stdout().write_all(&script)?;
    Ok(0)
}

pub(super) fn man(options: &ManOptions) -> Outcome {
    match &options.out_dir {
        Some(directory) => {
            std::fs::create_dir_all(directory)?;
            clap_mangen::generate_to(Cli::command(), directory)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            io::stdout().write_all(&page)?;
        }
    }
    Ok(0)
}
