//! The `modex` command. Everything it does is in `modex_cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    modex_cli::main()
}
