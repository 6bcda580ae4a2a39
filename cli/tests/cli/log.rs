//! Processes that log (`PMIx_Log`).

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use modex::types::{Info, InfoFlags, Key, Rank, Status, Value};
use modex::{AsStatus, Client, keys};

use crate::launch::{modex, role, wait_until};

/// The variable that names a directory of the test.
const PLACE: &str = "MODEX_TEST_PLACE";

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn out(text: &str) -> Info {
    info(keys::LOG_STDOUT.name(), text)
}

fn err(text: &str) -> Info {
    info(keys::LOG_STDERR.name(), text)
}

fn log(client: &Client, data: Vec<Info>, directives: Vec<Info>) -> Result<(), Status> {
    client.log(data, directives).wait().map_err(|error| error.status())
}

/// Bytes that a rank prints before each line that counts.
const PADDING: usize = 20_000;

/// The marks of the lines that count: the harness prints others.
const MARK: &str = "#";

pub(crate) fn log_and_print() {
    let client = Client::connect().unwrap();
    // The launcher has no room for all of it, so it pauses often and then finds output and logs together.
    let padding = "-\n".repeat(PADDING / 2);
    for number in 0..100 {
        print!("{padding}");
        println!("{MARK}{}", 2 * number);
        log(&client, vec![out(&format!("{MARK}{}", 2 * number + 1))], Vec::new()).unwrap();
    }
    client.finalize().unwrap();
}

#[test]
fn logged_and_printed_lines_of_a_rank_keep_their_order_and_marks() {
    let ended = role(&["-n", "4", "--tag-output"], "log and print").run();
    let text = ended.success();
    for rank in 0..4 {
        let mark = format!("[{rank},stdout] {MARK}");
        let numbers: Vec<u32> = text.lines().filter_map(|line| line.strip_prefix(&mark)?.parse().ok()).collect();
        assert_eq!(numbers, (0..200).collect::<Vec<_>>());
    }
}

#[test]
fn the_output_file_of_a_rank_holds_its_logged_lines() {
    let directory = tempfile::tempdir().unwrap();
    let ended = role(&["-n", "2", "--output", directory.path().to_str().unwrap()], "log and print").run();
    assert_eq!(ended.success(), "");
    let text = fs::read_to_string(directory.path().join("rank.1.out")).unwrap();
    let numbers: Vec<u32> = text.lines().filter_map(|line| line.strip_prefix(MARK)?.parse().ok()).collect();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>());
}

pub(crate) fn log_to_several() {
    let client = Client::connect().unwrap();
    let email = || info(keys::LOG_EMAIL.name(), "a");
    let once = || vec![info(keys::LOG_ONCE.name(), true)];
    let required = |info: Info| Info { flags: InfoFlags::REQUIRED.bits(), ..info };
    for (data, directives, expected) in [
        (vec![email()], vec![], Err(Status::ERR_NOT_SUPPORTED)),
        (vec![email(), err("partly\n")], vec![], Err(Status::ERR_PARTIAL_SUCCESS)),
        (vec![required(email()), err("never")], vec![], Err(Status::ERR_NOT_SUPPORTED)),
        (vec![err("never")], vec![required(info("own.key", true))], Err(Status::ERR_NOT_SUPPORTED)),
        (vec![info(keys::LOG_STDERR.name(), 7_u32)], vec![], Err(Status::ERR_BAD_PARAM)),
        (vec![email(), err("once"), out("never")], once(), Ok(())),
        (vec![err("\u{1b}[1mboth\nlines"), out("#both")], vec![], Ok(())),
        (vec![err("tagged")], vec![info(keys::LOG_TAG_OUTPUT.name(), true)], Ok(())),
    ] {
        assert_eq!(log(&client, data.clone(), directives), expected, "{data:?}");
    }
    if !std::path::Path::new("/dev/log").exists() {
        let syslog = || info(keys::LOG_SYSLOG.name(), "a");
        assert_eq!(log(&client, vec![syslog()], vec![]), Err(Status::ERR_NOT_AVAILABLE));
        assert_eq!(log(&client, vec![syslog(), err("instead")], once()), Ok(()));
    }
    client.finalize().unwrap();
}

#[test]
fn channels_are_used_in_order_and_unknown_ones_are_reported() {
    let ended = role(&[], "log to several").run();
    let expected = "partly\nonce\n\u{1b}[1mboth\nlines\n[0,stderr] tagged\n";
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.err.starts_with(expected) && ended.err.len() <= expected.len() + "instead\n".len(), "{ended:?}");
    assert!(ended.out.contains("#both\n") && !ended.out.contains("never"), "{ended:?}");
}

/// The logs of the flood.
const FLOOD: usize = 3000;

pub(crate) fn flood_the_log() {
    let client = Client::connect().unwrap();
    let answered = Arc::new(AtomicUsize::new(0));
    let text = format!("{MARK}{}", "x".repeat(2000));
    for _ in 0..FLOOD {
        let answered = Arc::clone(&answered);
        let count = move |logged: Result<(), _>| {
            logged.unwrap();
            answered.fetch_add(1, Ordering::Relaxed);
        };
        client.log(vec![out(&text)], Vec::new()).then(count).unwrap();
    }
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    fs::write(place.join("sent"), "").unwrap();
    wait_until(|| place.join("asked").exists());
    // The other process judges: nobody reads what this one says in a panic.
    fs::write(place.join("count"), answered.load(Ordering::Relaxed).to_string()).unwrap();
    fs::write(place.join("checked"), "").unwrap();
    wait_until(|| answered.load(Ordering::Relaxed) == FLOOD);
    client.finalize().unwrap();
}

/// Nobody reads the launcher's output. It must not keep all logs in its memory, and still answer others.
///
/// Regression of the test: it waited for ever if the flooding process found a wrong number.
#[test]
fn a_flood_of_logs_waits_for_the_reader() {
    let place = tempfile::tempdir().unwrap();
    let running = role(&[], "flood the log").env(PLACE, place.path()).start();
    wait_until(|| place.path().join("sent").exists());
    let asked = modex(["query", "modex.operations"]).env("TMPDIR", running.temporary()).run();
    assert_eq!(asked.code(), Some(0), "{asked:?}");
    fs::write(place.path().join("asked"), "").unwrap();
    wait_until(|| place.path().join("checked").exists());
    let ended = running.finish();
    assert_eq!(ended.code(), Some(0), "{:?}", ended.err);
    assert_eq!(ended.out.matches(MARK).count(), FLOOD);
    // 1 MiB waits for the writer, as much may be in its hands, and a pipe has room for 64 KiB.
    let answered: usize = fs::read_to_string(place.path().join("count")).unwrap().parse().unwrap();
    assert!(answered < FLOOD / 2, "{answered}");
}

pub(crate) fn log_to_the_record() {
    let client = Client::connect().unwrap();
    let record = |value: Value| info(keys::LOG_JOB_RECORD.name(), value);
    let data = || vec![record("first".into()), info(keys::LOG_GLOBAL_DATASTORE.name(), true), out("second")];
    if std::env::var_os(PLACE).is_none() {
        let required = Info { flags: InfoFlags::REQUIRED.bits(), ..record("first".into()) };
        assert_eq!(log(&client, vec![required], Vec::new()), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(log(&client, vec![record(true.into())], Vec::new()), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(log(&client, data(), Vec::new()), Err(Status::ERR_PARTIAL_SUCCESS));
    } else {
        assert_eq!(log(&client, data(), Vec::new()), Ok(()));
        let once = vec![info(keys::LOG_ONCE.name(), true)];
        assert_eq!(log(&client, vec![record("third".into()), record("fourth".into())], once), Ok(()));
    }
    client.finalize().unwrap();
}

#[test]
fn ranks_log_to_the_record_if_there_is_one() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("record");
    let options = ["--record", path.to_str().unwrap()];
    let ended = role(&options, "log to the record").env(PLACE, place.path()).run();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let record = fs::read_to_string(&path).unwrap();
    let texts = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["texts"].to_string();
    let lines: Vec<String> = record.lines().map(texts).collect();
    assert_eq!(lines, [r#"["first"]"#, r#"["second"]"#, r#"["third"]"#]);
    let without = role(&[], "log to the record").run();
    assert_eq!((without.code(), without.err.as_str()), (Some(0), ""), "{without:?}");
    let refused = role(&["--record", "/no/such/record"], "log to the record").run();
    assert!(
        refused.code() == Some(1) && refused.err.contains("the record /no/such/record cannot be opened"),
        "{refused:?}"
    );
}

/// The variable that says by which way the other ranks fill the launcher's output.
const WAY: &str = "MODEX_TEST_WAY";

/// The last rank prints a line when the test wants it. The others write until the test has read that line, or give up.
pub(crate) fn speak_among_others() {
    let client = Client::connect().unwrap();
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    let size = client.get(Rank::Wildcard, keys::JOB_SIZE).unwrap();
    if client.proc().rank == Rank::from(size - 1) {
        wait_until(|| place.join("speak").exists());
        println!("{MARK}heard");
        fs::write(place.join("spoken"), "").unwrap();
        return client.finalize().unwrap();
    }
    let is_heard = || place.join("heard").exists();
    let has_given_up = match std::env::var(WAY).as_deref() {
        Ok("print") => print_until(is_heard),
        _ => log_until(&client, is_heard),
    };
    if has_given_up {
        println!("{MARK}{} gives up", client.proc());
    }
    client.finalize().unwrap();
}

/// Returns whether that was in vain.
fn print_until(is_heard: impl Fn() -> bool) -> bool {
    let line = "-".repeat(65_000);
    (0..200).all(|_| {
        println!("{line}");
        !is_heard()
    })
}

/// Keeps some logs under way, each nearly as large as the launcher's queue. Returns whether that was in vain.
fn log_until(client: &Client, is_heard: impl Fn() -> bool) -> bool {
    let text = format!("{}\n", "-".repeat(60)).repeat(16_000);
    let open = Arc::new(AtomicUsize::new(0));
    let is_vain = (0..40).all(|_| {
        open.fetch_add(1, Ordering::Relaxed);
        let ended = Arc::clone(&open);
        let end = move |logged: Result<(), _>| {
            logged.unwrap();
            ended.fetch_sub(1, Ordering::Relaxed);
        };
        client.log(vec![out(&text)], Vec::new()).then(end).unwrap();
        wait_until(|| open.load(Ordering::Relaxed) < 8);
        !is_heard()
    });
    wait_until(|| open.load(Ordering::Relaxed) == 0);
    is_vain
}

/// Ranks that print, or one that logs, filled the launcher's queue each time before the last rank's turn came.
#[test]
fn a_rank_is_heard_among_others_that_write_all_the_time() {
    for (way, ranks) in [("print", "41"), ("log", "2")] {
        let place = tempfile::tempdir().unwrap();
        let launch = role(&["-n", ranks], "speak among others").env(PLACE, place.path()).env(WAY, way);
        let mut running = launch.start();
        (0..200).for_each(|_| drop(running.line()));
        fs::write(place.path().join("speak"), "").unwrap();
        wait_until(|| place.path().join("spoken").exists());
        let mut read_bytes = 0;
        // A slow reader: the queue is full most of the time.
        let read = || {
            let line = running.line();
            read_bytes += line.len();
            if read_bytes > 65_000 {
                read_bytes = 0;
                thread::sleep(Duration::from_millis(2));
            }
            line
        };
        let line = std::iter::repeat_with(read).find(|line| line.contains(MARK));
        assert!(line.as_ref().is_some_and(|line| line.trim_end().ends_with("#heard")), "{way}: {line:?}");
        fs::write(place.path().join("heard"), "").unwrap();
        assert_eq!(running.finish().code(), Some(0), "{way}");
    }
}
