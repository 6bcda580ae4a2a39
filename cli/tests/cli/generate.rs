//! Help, completions and man pages.

use std::process::{Command, Stdio};

use crate::launch::modex;

const SUBCOMMANDS: [&str; 20] = [
    "run",
    "demo",
    "host",
    "ps",
    "top",
    "ctl",
    "output",
    "inspect",
    "get",
    "query",
    "events",
    "attrs",
    "publish",
    "unpublish",
    "lookup",
    "bench",
    "sim",
    "info",
    "completions",
    "man",
];

#[test]
fn every_subcommand_explains_itself() {
    let help = modex(["--help"]).run().success();
    for subcommand in SUBCOMMANDS {
        assert!(help.contains(subcommand), "{subcommand}: {help}");
        let own = modex([subcommand, "--help"]).run().success();
        assert!(own.contains("Usage:") && own.contains(subcommand), "{own}");
    }
    assert!(!help.contains("guardian"), "{help}");
    assert!(modex(["--version"]).run().success().starts_with("modex "));
}

#[test]
fn without_arguments_the_command_explains_itself_and_fails() {
    let ended = modex::<&str>([]).run();
    assert_eq!(ended.code(), Some(2));
    assert!(ended.err.contains("Usage:"));
}

#[test]
fn completions_know_every_subcommand_and_bash_accepts_its_own() {
    for shell in ["bash", "zsh", "fish"] {
        let script = modex(["completions", shell]).run().success();
        for subcommand in SUBCOMMANDS {
            assert!(script.contains(subcommand), "{shell} {subcommand}");
        }
        // Regression: completions offered what help hides.
        for hidden in ["guardian", "modex,nothing", "-a \"nothing\"", "worker", "hostfile", "map-by", "--mca"] {
            assert!(!script.contains(hidden), "{shell} {hidden}");
        }
        accept(shell, &script);
    }
}

/// Lets the shell itself read the script, without running it. A shell that is not installed is left out.
fn accept(shell: &str, script: &str) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, script.as_bytes()).unwrap();
    match Command::new(shell).arg("-n").arg(file.path()).stdin(Stdio::null()).output() {
        Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}"),
        Err(error) => assert!(shell != "bash", "{shell}: {error}"),
    }
}

#[test]
fn man_pages_are_written_for_every_subcommand() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("new").join("man1");
    assert_eq!(modex(["man", "--out-dir", pages.to_str().unwrap()]).run().success(), "");
    for name in SUBCOMMANDS.map(|subcommand| format!("modex-{subcommand}.1")).iter().chain([&"modex.1".to_owned()]) {
        let page = std::fs::read_to_string(pages.join(name)).unwrap();
        assert!(page.contains(".TH") && page.contains(".SH NAME"), "{name}: {page}");
    }
    assert!(modex(["man"]).run().success().contains(".TH"));
    let written: Vec<_> = crate::launch::entries(&pages);
    assert_eq!(written.len(), 1 + SUBCOMMANDS.len() + 7 + 5 + 2, "no page for hidden commands: {written:?}");
    for page in &written {
        let text = std::fs::read_to_string(page).unwrap();
        assert!(text.contains(".SH \"EXIT STATUS\"") && text.contains(".SH EXAMPLES"), "{page:?}: {text}");
        assert!(!text.contains(".SH EXTRA") && !text.contains("hostfile"), "{page:?}: {text}");
    }
    for name in [
        "modex",
        "modex-run",
        "modex-inspect",
        "modex-get",
        "modex-query",
        "modex-bench",
        "modex-bench-get",
        "modex-bench-mpi",
    ] {
        let text = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(text.contains(".SH ENVIRONMENT\n.TP\n"), "{name}: {text}");
    }
}

#[test]
fn the_help_of_run_has_examples_and_the_default_of_n() {
    let help = modex(["run", "--help"]).run().success();
    assert!(help.contains("Examples:\n  modex run -n 4 -- ./program arg"), "{help}");
    assert!(help.contains("Number of processes to start, 1 by default"), "{help}");
    let count = modex(["run", "echo", "one"]).run().success();
    assert_eq!(count, "one\n");
}
