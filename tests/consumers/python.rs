//! Debian's Python bindings (`python3-pmix`), which load the library like any consumer: two ranks on a small host.

use crate::library::{library, repository, scratch};
use crate::process::Consumer;

#[test]
fn python_clients_exchange_data() {
    let directory = repository().join("tests/python");
    for headers in library().headers() {
        let program = scratch().join(format!("python-host-{}", headers.name));
        headers.compile(&[directory.join("host.c")], &program);
        // The host starts CAPI_PROGRAM with the script as its argument. Debian's interpreter has Debian's modules.
        let mut host = Consumer::new(library(), &program)
            .env("CAPI_PROGRAM", "/usr/bin/python3")
            .env("PYTHON_CLIENT", directory.join("client.py"));
        if library().is_stock() {
            host = host.env("MODEX_CAPI_STOCK", "1");
        }
        let ended = host.run().success();
        ended.loaded_only(library());
        for rank in 0..2 {
            let line = format!("python client {rank} done");
            assert!(ended.text().lines().any(|found| found == line), "no {line:?} in {}", ended.transcript());
        }
    }
}
