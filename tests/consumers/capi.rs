//! Our C test suite, `tests/capi`. Each program is compiled with Debian's headers and with ours, and runs alone and
//! under valgrind's memcheck, with its clients.
//!
//! With `MODEX_SANITIZER=address` the library is an AddressSanitizer build (`make asan`). Then the programs are
//! compiled with AddressSanitizer, too, and memcheck is left out, because it cannot run such programs.

use std::path::Path;
use std::sync::OnceLock;

use crate::library::{Headers, library, repository, scratch};
use crate::process::Consumer;

/// The chapters. Each is a program that exits with 0 if all its checks hold.
macro_rules! chapters {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            chapter(stringify!($name));
        })*

        #[test]
        fn every_source_is_a_chapter() {
            let mut sources: Vec<String> = std::fs::read_dir(repository().join("tests/capi"))
                .unwrap()
                .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".c").map(str::to_owned))
                .collect();
            let mut chapters = vec![$(stringify!($name).to_owned()),*];
            sources.sort();
            chapters.sort();
            assert_eq!(sources, chapters);
        }
    };
}

chapters!(
    badinput, blocking, callbacks, cancel, client, dangling, data, endpoints, events, fabric, forking, forks, forms,
    forwarding, groups, launch, launcher, limits, listening, loaded, modex, module, named, names, newer, output,
    parameters, peers, ports, progress, reinit, removals, required, scheduler, server, services, singleton, storage,
    tools, topology, usage, values,
);

fn chapter(name: &str) {
    // It runs the library on stacks of 64 KiB, which the larger frames of a sanitized build overflow.
    if is_sanitized() && name == "limits" {
        return;
    }
    for headers in header_sets() {
        let program = scratch().join(format!("{name}-{}", headers.name));
        let source = repository().join("tests/capi").join(format!("{name}.c"));
        if is_sanitized() {
            headers.compile_with(&[source], &program, &["-fsanitize=address"]);
            plain(&program);
        } else {
            headers.compile(&[source], &program);
            plain(&program);
            memcheck(&program);
        }
    }
}

fn is_sanitized() -> bool {
    std::env::var("MODEX_SANITIZER").is_ok_and(|name| name == "address")
}

fn header_sets() -> &'static [Headers] {
    static SETS: OnceLock<Vec<Headers>> = OnceLock::new();
    SETS.get_or_init(|| library().headers())
}

fn plain(program: &Path) {
    let ended = with_marks(Consumer::new(library(), program), program).run();
    println!("{}", ended.transcript());
    let ended = ended.success();
    ended.loaded_only(library());
    // A program without any check proves nothing.
    let last = ended.text().lines().last().unwrap_or_default().to_owned();
    assert!(last.ends_with(" checks, 0 failed") && !last.starts_with("0 "), "{}", ended.transcript());
}

fn memcheck(program: &Path) {
    let mut command = Consumer::new(library(), "valgrind")
        // "Possibly lost" is the pointer that Rust keeps in thread-local storage into the middle of a thread's handle.
        .args(["--quiet", "--trace-children=yes", "--leak-check=full", "--show-leak-kinds=definite"])
        .arg("--errors-for-leak-kinds=definite")
        // The shell of a host's system() is not under test.
        .args(["--error-exitcode=9", "--num-callers=30", "--trace-children-skip=/bin/*,/usr/bin/*"]);
    if library().is_stock() {
        let file = repository().join("tests/capi/stock.supp");
        command = command.arg(format!("--suppressions={}", file.display()));
    }
    let ended = with_marks(command.arg(program), program).run();
    let errors = ended.err.lines().any(|line| line.starts_with("==") && line.contains(" at 0x"));
    println!("under valgrind:\n{}", ended.transcript());
    let ended = ended.success();
    assert!(!errors, "{}", ended.transcript());
}

/// Variables of the programs: the kind of the library, and the program's own file for its clients. Under valgrind,
/// `/proc/self/exe` is another file.
fn with_marks(consumer: Consumer, program: &Path) -> Consumer {
    let consumer = consumer.env("CAPI_PROGRAM", program);
    if library().is_stock() { consumer.env("MODEX_CAPI_STOCK", "1") } else { consumer }
}
