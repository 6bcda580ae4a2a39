//! The `modex` command. Everything it does is in `modex::cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    modex::cli::main()
}
