//! The `modex` command.

fn main() {}
