//! Debian's Python bindings (`python3-pmix`), which load the library like any consumer: clients on a small host, a
//! server, and a tool.

use crate::examples::{id_of, long_job};
use crate::library::{library, repository, scratch};
use crate::process::{Consumer, Ended};

#[test]
fn python_clients_exchange_data() {
    for headers in library().headers() {
        let program = scratch().join(format!("python-host-{}", headers.name));
        headers.compile(&[repository().join("tests/python/host.c")], &program);
        // The host starts CAPI_PROGRAM with the script as its argument. Debian's interpreter has Debian's modules.
        let mut host = Consumer::new(library(), &program)
            .env("CAPI_PROGRAM", "/usr/bin/python3")
            .env("PYTHON_CLIENT", repository().join("tests/python/client.py"));
        if library().is_stock() {
            host = host.env("MODEX_CAPI_STOCK", "1");
        }
        expect_clients(&host.run().success());
    }
}

#[test]
fn a_python_server_runs_a_job() {
    let ended = script("server").arg(repository().join("tests/python/client.py")).run().success();
    expect_clients(&ended);
    for line in ["client 0 is here", "client 1 is here", "python server done"] {
        assert!(ended.text().lines().any(|found| found == line), "no {line:?} in {}", ended.transcript());
    }
}

/// The server class of these bindings admits no tool: its function for them fails in Python, with either library.
#[test]
fn a_python_tool_asks_a_launcher() {
    let job = long_job(1);
    let id = id_of(&job);
    let ended = script("tool").env("TMPDIR", job.temporary()).arg(&id).run().success();
    assert!(ended.text().lines().any(|line| line == format!("jobs: modex-{id}")), "{}", ended.transcript());
    job.terminate();
    job.wait();
}

/// A script in Debian's interpreter. The module warns of an old function of the interpreter.
fn script(name: &str) -> Consumer {
    let path = repository().join(format!("tests/python/{name}.py"));
    Consumer::new(library(), "/usr/bin/python3").args(["-W", "ignore"]).arg(path)
}

fn expect_clients(ended: &Ended) {
    ended.loaded_only(library());
    for rank in 0..2 {
        let line = format!("python client {rank} done");
        assert!(ended.text().lines().any(|found| found == line), "no {line:?} in {}", ended.transcript());
    }
}
