//! Shell completions and man pages, made from the command line's own description so that they can't disagree with it.

use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use super::{Cli, Outcome, manual, printing};

#[derive(Args, Debug)]
#[command(after_long_help = COMPLETION_HELP)]
pub(super) struct CompletionOptions {
    /// Shell to write for
    shell: Shell,
}

const COMPLETION_HELP: &str = "\
Examples:
  modex completions bash > ~/.local/share/bash-completion/completions/modex
  modex completions zsh > ~/.zfunc/_modex
  modex completions fish > ~/.config/fish/completions/modex.fish

Exit status:
  0  Printed
  1  The text can't be written
  2  The command line makes no sense";

#[derive(Args, Debug)]
#[command(after_long_help = MAN_HELP)]
pub(super) struct ManOptions {
    /// Directory for the pages modex.1, modex-run.1 ...; without it the main page is printed
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
}

const MAN_HELP: &str = "\
Examples:
  modex man | man -l -
  modex man --out-dir ~/.local/share/man/man1

Exit status:
  0  Written
  1  A page can't be written
  2  The command line makes no sense";

pub(super) fn completions(options: &CompletionOptions) -> Outcome {
    // The page goes through memory: the generator panics if a pipe is closed early.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut without_hidden(&Cli::command()), "modex", &mut script);
    printing::print_bytes(&script)?;
    Ok(0)
}

/// The command without the subcommands and options that help hides. The generators of completions show them.
fn without_hidden(command: &Command) -> Command {
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()))
        .subcommands(subcommands.map(without_hidden))
}

pub(super) fn man(options: &ManOptions) -> Outcome {
    match &options.out_dir {
        Some(directory) => {
            std::fs::create_dir_all(directory)?;
            manual::write_pages(Cli::command(), directory)?;
        }
        None => printing::print_bytes(&manual::page(&Cli::command())?)?,
    }
    Ok(0)
}
