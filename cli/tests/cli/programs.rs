//! The programs that the launcher starts, their environment and their directory.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use modex::stderr_log::AREAS;

use crate::launch::{MODEX, modex, script};

#[test]
fn a_variable_is_set_or_passed_on() {
    let ended =
        script(&["-n", "1", "-x", "SET=a b=c", "-x", "PASSED"], "echo \"$SET|$PASSED\"").env("PASSED", "on").run();
    assert_eq!(ended.success(), "a b=c|on\n");
    let ended = script(&["-n", "1", "-x", "NO_SUCH_VARIABLE"], "echo never").run();
    assert_eq!((ended.code(), ended.out.as_str()), (Some(2), ""));
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    assert!(ended.err.contains("-x NO_SUCH_VARIABLE"), "{ended:?}");
}

/// Regression: the command line was refused as no text.
#[test]
fn a_variable_may_hold_bytes_that_are_no_text() {
    let setting = OsStr::from_bytes(b"ODD=a\xff\x01=b");
    let show = ["--", "sh", "-c", "printf %s \"$ODD\" | od -An -tx1"].map(OsStr::new);
    let words = ["run", "-n", "1", "-x"].map(OsStr::new).into_iter().chain([setting]).chain(show);
    assert_eq!(modex(words).run().success().trim(), "61 ff 01 3d 62");
}

/// Regression: a setting without a name was silently ignored, or made the spawn fail. A setting of a variable that the
/// launcher sets was silently lost.
#[test]
fn a_variable_that_can_not_be_set_is_refused() {
    for (setting, named) in [("=b", "=b:"), ("PMIX_RANK=5", "PMIX_RANK:"), ("MODEX_SERVER_URI=x", "MODEX_SERVER_URI:")]
    {
        let ended = script(&["-n", "1", "-x", setting], "echo never").run();
        assert_eq!((ended.code(), ended.out.as_str(), ended.err.lines().count()), (Some(2), "", 1), "{ended:?}");
        assert!(ended.err.starts_with(&format!("modex: -x {named}")), "{ended:?}");
    }
}

/// Regression: it was taken for the program, and could not be started.
#[test]
fn a_mistyped_option_is_no_program() {
    let ended = modex(["run", "-n", "1", "--tagoutput", "echo", "never"]).run();
    assert_eq!((ended.code(), ended.out.as_str()), (Some(2), ""));
    assert!(ended.err.contains("unexpected argument '--tagoutput'"), "{ended:?}");
    assert!(ended.err.contains("a similar argument exists: '--tag-output'"), "{ended:?}");
    // Words behind the program belong to the program, and behind two dashes nothing is an option.
    assert_eq!(modex(["run", "-n", "1", "echo", "--tagoutput", "-n"]).run().success(), "--tagoutput -n\n");
    let ended = modex(["run", "-n", "1", "--", "--tagoutput"]).run();
    assert!(ended.err.contains("cannot start \"--tagoutput\""), "{ended:?}");
}

/// Users of other launchers type these. The parser's own messages did not help them.
#[test]
fn options_of_other_launchers_are_understood_or_refused_with_a_reason() {
    for count in [&["-np", "2"][..], &["-n2"], &["-np2"], &["-np=2"], &["--n", "2"], &["--np", "2"]] {
        assert_eq!(modex(["run"].iter().chain(count).chain(&["echo", "-np"])).run().success(), "-np\n-np\n");
    }
    for words in [
        &["--oversubscribe"][..],
        &["--allow-run-as-root"],
        &["--map-by", "slot:OVERSUBSCRIBE"],
        &["-map-by", "core"],
        &["--rank-by", "slot"],
        &["-wd", "/"],
        &["-bind-to", "none"],
    ] {
        assert_eq!(modex(["run"].iter().chain(words).chain(&["echo", "ran"])).run().success(), "ran\n", "{words:?}");
    }
    for (words, reason) in [
        (
            &["-H", "a,b"][..],
            "modex: --host: modex run works on one machine; on several, start the program with Slurm's srun",
        ),
        (&["--host", "a"], "modex: --host: modex run works on one machine"),
        (&["--hostfile", "f"], "modex: --hostfile: modex run works on one machine"),
        (&["--mca", "btl", "self"], "-x OMPI_MCA_btl=self"),
        (&["-mca", "btl", "self"], "-x OMPI_MCA_btl=self"),
        (&["-hostfile", "f"], "modex: --hostfile: modex run works on one machine"),
        (&["-f", "f"], "modex: --hostfile: modex run works on one machine"),
        (&["-ppn", "2"], "modex: --npernode: modex run works on one machine; write -n"),
        (&["-genv", "A", "B"], "modex: --env: write -x A=B"),
        (&["-l"], "modex: --prepend-rank: write --tag-output"),
        (&["--bind-to", "socket"], "[possible values: core, none]"),
        (&["--map-by", "ppr:2:node"], "modex: --map-by ppr:2:node: modex run places rank after rank"),
        (&["--rank-by", "span"], "modex: --rank-by span: modex run places rank after rank"),
        (&["--output", "tag,timestamp"], "write --output DIR, and --tag-output, --timestamp or --merge"),
        (&["--output", "dir=out"], "write --output DIR, and --tag-output, --timestamp or --merge"),
        (&["true", ":", "--bind-to", "core"], "modex: --bind-to is an option of the whole job; write it before"),
        (&["true", ":", "--tag-output"], "modex: --tag-output is an option of the whole job; write it before"),
        (&["true", ":", "--stdin=all"], "modex: --stdin is an option of the whole job; write it before"),
        (&["-n", "abc"], "expected a number from 1 to 4096"),
        (&["-n", "4097"], "expected a number from 1 to 4096"),
    ] {
        let ended = modex(["run"].iter().chain(words).chain(&["true"])).run();
        assert_eq!((ended.code(), ended.out.as_str()), (Some(2), ""), "{words:?}: {ended:?}");
        assert!(ended.err.contains(reason), "{words:?}: {ended:?}");
    }
}

/// Regression: only subscribers of `tracing` got the message, and there was none.
#[test]
fn why_a_rank_was_refused_is_said() {
    let demo = format!("PMIX_RANK=5 exec {MODEX} demo");
    let ended = script(&["-n", "1"], &demo).run();
    let said = ended.err.lines().filter(|line| line.starts_with("modex: error: connection refused: process "));
    let said: Vec<_> = said.collect();
    assert!(said.len() == 1 && said[0].contains(":5 is not registered with this server"), "{ended:?}");
    let quiet = script(&["-n", "1"], &demo).env("MODEX_LOG", "off").run();
    assert!(!quiet.err.contains("connection refused"), "{quiet:?}");
    let asked = script(&["-n", "1"], "true").env("MODEX_LOG", "info").run();
    assert!(asked.err.lines().any(|line| line.contains("Z info: namespace registered (")), "{asked:?}");
    assert!(asked.err.lines().all(|line| line.starts_with("modex: 2")), "{asked:?}");
}

/// An area has a level of its own; what makes no sense is told.
#[test]
fn the_log_has_levels_by_area() {
    let log = |wanted: &str| {
        let ended = modex(["run", "-n", "2", MODEX, "demo"]).env("MODEX_LOG", wanted).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        ended.err
    };
    let (job, collective) = ("namespace registered", "operation ended");
    let shown = |text: &str| [job, collective].map(|words| text.contains(words));
    assert_eq!(shown(&log("debug")), [true, true]);
    assert_eq!(shown(&log("warn,job=debug")), [true, false]);
    assert_eq!(shown(&log("debug,job=off")), [false, true]);
    let odd = log("warn,dragons=debug,job=loud");
    assert!(odd.contains("\"dragons\" is no area of the log; say one of collective, "), "{odd}");
    assert!(odd.contains("\"job=loud\" has no level; say \"off\", "), "{odd}");
    let by_parameter = modex(["run", "-n", "2", MODEX, "demo"]).env("PMIX_MCA_pmix_server_spawn_verbose", "5").run();
    assert_eq!(shown(&by_parameter.err), [true, false]);
    let objects =
        modex(["run", "-n", "2", MODEX, "demo"]).env("MODEX_LOG", "job=debug").env("MODEX_LOG_FORMAT", "json");
    assert_eq!(shown(&objects.run().err), [true, false]);
    let help = modex(["help"]).run().success().split_whitespace().collect::<Vec<_>>().join(" ");
    let (first, last) = AREAS.split_at(AREAS.len() - 1);
    let names = first.iter().map(|area| area.name).collect::<Vec<_>>().join(", ");
    assert!(help.contains(&format!("The areas are {names} and {}", last[0].name)), "{help}");
    let document = include_str!("../../../docs/troubleshooting.md");
    for area in AREAS {
        assert!(document.contains(&format!("| `{}` | {} |\n", area.name, area.subject)), "{}", area.name);
    }
}

#[test]
fn a_log_of_json_has_an_object_in_each_line() {
    let ended =
        modex(["run", "-n", "2", MODEX, "demo"]).env("MODEX_LOG", "debug").env("MODEX_LOG_FORMAT", "json").run();
    let objects: Vec<serde_json::Value> = ended.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let message = |text: &str| objects.iter().find(|object| object["fields"]["message"] == text);
    let registered = message("namespace registered").unwrap_or_else(|| panic!("{ended:?}"));
    assert_eq!((&registered["level"], &registered["fields"]["job_size"]), (&"INFO".into(), &2.into()), "{registered}");
    assert!(registered["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{registered}");
    let unknown = script(&["-n", "1"], "true").env("MODEX_LOG_FORMAT", "xml").run();
    let complaint = "modex: error: MODEX_LOG_FORMAT is \"xml\"; say \"text\" or \"json\"\n";
    assert_eq!(unknown.err, complaint);
    // Regression: commands that are tools had no log at all.
    let tool = |name: &str, value: &str| modex(["query", "--pid", "1", "pmix.qry.ns"]).env(name, value).run().err;
    assert!(tool("MODEX_LOG_FORMAT", "xml").starts_with(complaint));
    assert!(tool("MODEX_LOG", "dragons=debug").contains("\"dragons\" is no area of the log"));
}

/// Regression: the lines showed structures of the program, such as `Some(2)` and `Participants([..])`.
#[test]
fn the_log_shows_names_and_numbers() {
    let ended = modex(["run", "-n", "2", MODEX, "demo"]).env("MODEX_LOG", "debug").run();
    let has = |words: &str| ended.err.lines().any(|line| line.starts_with("modex: ") && line.contains(words));
    assert!(has("local_count 2, job_size 2)") && has(", kind fence, procs modex-"), "{ended:?}");
    assert!(!has("Some(") && !has("(["), "{ended:?}");
}

#[test]
fn a_directory_that_can_not_be_made_is_named() {
    let ended = script(&["-n", "1"], "echo never").env("TMPDIR", "/no/such/place").run();
    assert_eq!((ended.code(), ended.out.as_str(), ended.err.lines().count()), (Some(1), "", 1), "{ended:?}");
    assert!(ended.err.contains(" /no/such/place/modex-run-"), "{ended:?}");
}

/// Regression: the default is shown as a list with blanks, which the option did not accept.
#[test]
fn a_list_may_be_written_as_its_default_is_shown() {
    for list in [&["--ranks", "10", "20"][..], &["--ranks", "10,20"]] {
        let words = ["bench", "register", "--json", "--attach-ranks", "10", "--samples", "1", "--attach-samples", "1"];
        let out = modex(words.iter().chain(list)).run().success();
        assert!(out.contains("\"ranks\": 10") && out.contains("\"ranks\": 20"), "{out}");
    }
}

/// Times of a process's first and later connections in jobs of several sizes, compared with the smallest job.
#[test]
fn connecting_is_measured_in_jobs_of_several_sizes() {
    let words = ["bench", "init", "--json", "--processes", "2", "--again", "1", "--ranks", "1,1000"];
    let out = modex(words).run().success();
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    let figures = document["figures"].as_array().unwrap();
    let told = |name: &str, ranks: u64| {
        let is_meant = |figure: &&serde_json::Value| figure["name"] == name && figure["params"]["ranks"] == ranks;
        figures.iter().find(is_meant).unwrap_or_else(|| panic!("no {name} of {ranks} ranks in {out}"))
    };
    assert_eq!(figures.len(), 8, "{out}");
    for name in ["init.first", "init.again", "finalize.first", "finalize.again"] {
        assert_eq!((told(name, 1)["n"].as_u64(), told(name, 1)["ratio"].as_f64()), (Some(2), None));
        assert_eq!(told(name, 1000)["ratio_to"], format!("{name} ranks=1"));
    }
}

#[test]
fn a_plot_that_can_not_be_written_is_named() {
    let words = ["bench", "put", "--samples", "1", "--plot", "/no/such/place/x.svg"];
    let ended = modex(words).run();
    assert_eq!((ended.code(), ended.err.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.err.contains("/no/such/place/x.svg"), "{ended:?}");
}

#[test]
fn ranks_start_in_the_directory_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(script(&["-n", "1", "--wdir", path], "pwd -P").run().success(), format!("{path}\n"));
}

#[test]
fn several_programs_form_one_job_with_options_of_their_own() {
    let show = "echo $PMIX_RANK $V $0 $1";
    let words = ["run", "-n", "2", "-x", "V=first", "sh", "-c", show, "a", "b", ":", "-n", "1", "-x", "V=second", "sh"];
    let ended = modex(words.iter().copied().chain(["-c", show, "c"])).run();
    assert_eq!(ended.sorted(), ["0 first a b", "1 first a b", "2 second c"]);
}

#[test]
fn all_ranks_of_several_programs_find_each_other() {
    let words = ["run", "-n", "2", MODEX, "demo", ":", "-n", "1", MODEX, "demo"];
    assert!(modex(words).run().success().contains("demo ok ranks=3"));
}

#[test]
fn a_command_line_that_makes_no_sense_starts_nothing() {
    for (words, status) in [
        (&["run", "-n", "0", "true"][..], 2),
        (&["run", "-n", "1"], 2),
        (&["run", "--timeout", "soon", "true"], 2),
        (&["run", "--grace", "-1", "true"], 2),
        (&["run", "--stdin", "1", "true"], 2),
        (&["run", "-n", "1", "true", ":"], 2),
        (&["run", "-n", "1", "true", ":", "-n", "x", "true"], 2),
        (&["run", "-n", "1", "true", ":", "-n", "1"], 2),
        (&["run", "-n", "4096", "true", ":", "-n", "1", "true"], 1),
    ] {
        let ended = modex(words).run();
        assert_eq!(ended.code(), Some(status), "{words:?}: {ended:?}");
        assert!(!ended.err.is_empty() && ended.out.is_empty(), "{words:?}: {ended:?}");
    }
}

#[test]
fn a_program_that_can_not_be_started_is_named_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    fs::write(&script, "#! /no/such/interpreter -x\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    for (words, reason, status) in [
        (&["run", "-n", "2", "/no/such/program"][..], "rank 0: cannot start \"/no/such/program\": No such file", 127),
        (&["run", "-n", "1", "/etc/passwd"], "rank 0: cannot start \"/etc/passwd\": Permission denied", 126),
        (&["run", "-n", "1", "sleep", "1000", ":", "no-such-program"], "rank 1: cannot start \"no-such-program\"", 127),
        (&["run", "-n", "1", "--wdir", "/no/such/directory", "true"], "/no/such/directory", 1),
        (&["run", "-n", "1", script], "its interpreter /no/such/interpreter: No such file", 127),
    ] {
        let ended = modex(words).run();
        assert_eq!((ended.code(), ended.err.lines().count()), (Some(status), 1), "{ended:?}");
        assert!(ended.err.contains(reason), "{ended:?}");
    }
}

/// Bound ranks take the processors of this process core by core. With more ranks than cores they begin again.
#[test]
fn bound_ranks_run_on_the_cores_in_turn() {
    let allowed = list(status_line(&fs::read_to_string("/proc/self/status").unwrap()));
    let rank_count = 2 * allowed.len();
    let count = rank_count.to_string();
    let mut places = vec![BTreeSet::new(); rank_count];
    let show = "echo $PMIX_RANK $(grep Cpus_allowed_list: /proc/self/status)";
    let ended = script(&["-n", &count, "--bind-to", "core", "--map-by", "core"], show).run();
    assert!(ended.status.success() && ended.err.lines().count() == 1, "{ended:?}");
    let said = format!("modex: warning: --bind core: {count} ranks share ");
    assert!(ended.err.starts_with(&said), "{ended:?}");
    for line in ended.out.lines() {
        let (rank, rest) = line.split_once(' ').unwrap();
        places[rank.parse::<usize>().unwrap()] = list(status_line(rest));
    }
    let core_count = places.iter().collect::<BTreeSet<_>>().len();
    assert!(core_count > 0 && core_count <= allowed.len());
    let used: BTreeSet<usize> = places[..core_count].iter().flatten().copied().collect();
    assert_eq!(used, allowed, "every processor is used, and no other");
    assert_eq!(places[..core_count].iter().map(BTreeSet::len).sum::<usize>(), allowed.len(), "none is used twice");
    for (rank, place) in places.iter().enumerate() {
        assert_eq!(place, &places[rank % core_count]);
    }
}

#[test]
fn ranks_are_not_bound_unless_asked_for() {
    let allowed = list(status_line(&fs::read_to_string("/proc/self/status").unwrap()));
    let out = script(&["-n", "1"], "grep Cpus_allowed_list: /proc/self/status").run().success();
    assert_eq!(list(status_line(&out)), allowed);
}

#[test]
fn arguments_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt;
    let odd = OsStr::from_bytes(b"\xff\xfe");
    let words = ["run", "-n", "1", "sh", "-c", "printf %s \"$1\" | od -An -tx1", "sh"].map(OsStr::new);
    assert_eq!(modex(words.into_iter().chain([odd])).run().success().trim(), "ff fe");
}

/// The processors of `Cpus_allowed_list:`.
fn status_line(status: &str) -> &str {
    let (_, rest) = status.split_once("Cpus_allowed_list:").unwrap();
    rest.lines().next().unwrap().trim()
}

/// Reads a list like `0-3,8`.
fn list(text: &str) -> BTreeSet<usize> {
    text.split(',')
        .flat_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            first.parse::<usize>().unwrap()..=last.parse().unwrap()
        })
        .collect()
}

/// Regression: a temporary directory of 37 characters was too long for the address of the server's socket.
#[test]
fn a_long_temporary_directory_is_no_reason_not_to_start() {
    let parent = tempfile::tempdir().unwrap();
    let long = parent.path().join("d".repeat(100));
    std::fs::create_dir(&long).unwrap();
    let ran = modex(["run", "-n", "2", "--", MODEX, "demo"]).env("TMPDIR", &long).run();
    assert!(ran.success().contains("demo ok ranks=2"));
    assert_eq!(std::fs::read_dir(&long).unwrap().count(), 0);
}
