//! `modex top` with and without a terminal.

use serde_json::Value;

use crate::launch::{MODEX, Running, modex, on_a_terminal, script};

/// A job of two ranks that run.
fn job() -> (Running, String) {
    let mut running = script(&["-n", "2", "--grace", "0.2"], "echo; exec sleep 1000").start();
    assert_eq!([running.line(), running.line()], ["\n", "\n"]);
    let name = format!("modex-{}", running.child.id());
    (running, name)
}

fn end(job: Running) {
    job.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(job.finish().code(), Some(143));
}

/// The status says nothing here: the command also asks the launchers of other tests, which may end meanwhile.
#[test]
fn a_table_shows_the_processes_of_a_job() {
    let (job, name) = job();
    let table = modex(["top", "--once", &name]).run().out;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0].join(" "), "pid job rank state S CPU % memory read written requests program", "{table}");
    assert_eq!(rows.len(), 3, "{table}");
    for (rank, row) in ["0", "1"].iter().zip(&rows[1..]) {
        assert_eq!((row[1], row[2], row[3], row[9], row[10]), (name.as_str(), *rank, "running", "-", "sh"), "{table}");
        assert!(row[6].ends_with(['K', 'M']) && row[5].parse::<f64>().is_ok(), "{table}");
        assert!(job.processes().contains(&row[0].parse().unwrap()), "{table}");
    }
    let printed = modex(["top", "--json", "-n", "2", "-d", "0.1", "--sort", "cpu", &name]).run().out;
    let documents: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(documents.len(), 2, "{printed}");
    for document in documents {
        assert_eq!((&document["format"], document["ranks"].as_array().unwrap().len()), (&1.into(), 2), "{printed}");
        let rank = &document["ranks"][0];
        assert_eq!((&rank["server"], &rank["job"]), (&job.child.id().into(), &name.as_str().into()), "{printed}");
        assert!(rank["rss_bytes"].as_u64() > Some(0) && rank["cpu_percent"].is_number(), "{printed}");
    }
    let nothing = modex(["top", "--once", "nobodys"]).run().out;
    assert_eq!(nothing, "No job of this user runs here. Start one with modex run.\n");
    end(job);
}

/// The fence of rank 0 waits for rank 1, which never connects.
#[test]
fn a_rank_has_the_number_of_its_requests() {
    let body = "[ $PMIX_RANK = 1 ] && exec sleep 1000; exec $MODEX demo";
    let mut job = script(&["-n", "2", "--grace", "0.2"], body).env("MODEX", MODEX).start();
    let name = format!("modex-{}", job.child.id());
    loop {
        assert_eq!(job.child.try_wait().unwrap(), None, "the job has ended");
        let printed = modex(["top", "--json", "--once", &name]).run().out;
        let document: Value = serde_json::from_str(&printed).unwrap();
        let requests = |rank: usize| &document["ranks"][rank]["requests"];
        if requests(0).as_u64() > Some(0) {
            break assert_eq!(requests(1), &Value::Null, "rank 1 has no connection");
        }
    }
    end(job);
}

#[test]
fn it_ends_well_when_its_reader_has_gone() {
    let (job, name) = job();
    let mut top = modex(["top", "-d", "0.1", &name]).start();
    assert!(top.line().contains("memory"));
    top.out = std::io::BufReader::new(Box::new(std::io::empty()));
    assert_eq!(top.finish().code(), Some(0));
    end(job);
}

#[test]
fn a_wrong_option_is_refused() {
    for (words, said) in [
        (&["--delay", "0"][..], "give 0.1 to 3600 seconds"),
        (&["-n", "0"], "0 is not in 1.."),
        (&["--once", "-n", "2"], "cannot be used with"),
        (&["--sort", "name"], "possible values: rank, cpu, memory, io, requests"),
    ] {
        let ended = modex([&["top"], words].concat()).run();
        assert!(ended.code() == Some(2) && ended.err.contains(said), "{ended:?}");
    }
}

/// The key is there before the program.
#[test]
fn a_key_ends_it_on_a_terminal_and_the_terminal_is_as_before() {
    let body = "before=$(stty -g); $MODEX top -d 3600; echo status $?; test \"$before\" = \"$(stty -g)\" && echo same";
    let ended = on_a_terminal(body).env("TERM", "xterm").input("q").run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let (on, off) = (ended.out.find("\x1b[?1049h"), ended.out.find("\x1b[?1049l"));
    assert!(on.is_some() && on < off && ended.out.ends_with("status 0\r\nsame\r\n"), "{ended:?}");
}

/// Another process stopped it, and the shell got a terminal without echo.
#[test]
fn a_stop_from_outside_gives_the_terminal_back() {
    let place = tempfile::tempdir().unwrap();
    let body = format!(
        "before=$(stty -g); set +m
        ( (while test \"$before\" = \"$(stty -g < /dev/tty)\"; do sleep 0.05; done; kill -TSTP $(cat {0})) & )
        set -m
        sh -c 'echo $$ > {0}; exec $MODEX top -d 3600'
        echo stopped; test \"$before\" = \"$(stty -g)\" && echo same
        kill -TERM $(cat {0}); fg %1 > {0}.fg; echo status $?",
        place.path().join("pid").display()
    );
    let ended = on_a_terminal(&body).env("TERM", "xterm").run();
    let [on, off] = ["\x1b[?1049h", "\x1b[?1049l"].map(|page| ended.out.find(page));
    let stopped = ended.out.find("stopped\r\nsame\r\n");
    assert!(on.is_some() && on < off && off < stopped, "{ended:?}");
    assert!(ended.out.ends_with("status 0\r\n"), "{ended:?}");
}
