//! `modex attrs` at a launcher.

use serde_json::Value;

use crate::launch::{modex, script};

#[test]
fn the_attributes_of_each_level_are_listed() {
    let mut job = script(&["-n", "1", "--grace", "0.2"], "echo; exec sleep 1000").start();
    assert_eq!(job.line(), "\n");
    let attrs = |words: &[&str]| modex([&["attrs"], words].concat()).env("TMPDIR", job.temporary()).run();
    let table = attrs(&["PMIx_Get", "PMIx_Spawn"]).success();
    let has = |words: [&str; 4]| table.lines().any(|line| line.split_whitespace().take(4).eq(words));
    assert!(has(["PMIx_Get", "client", "PMIX_OPTIONAL", "PMIX_BOOL"]), "{table}");
    assert!(has(["PMIx_Get", "server", "PMIX_TIMEOUT", "PMIX_INT"]), "{table}");
    assert!(has(["PMIx_Spawn", "host", "PMIX_WDIR", "PMIX_STRING"]), "{table}");
    assert!(
        !table.contains("PMIx_Fence")
            && table.lines().all(|line| line.starts_with("PMIx_") || line.starts_with("function"))
    );
    let pid = job.child.id().to_string();
    let printed = attrs(&["--json", "--level", "tool,host", "--pid", &pid]).success();
    let document: Value = serde_json::from_str(&printed).unwrap();
    let rows = document["attributes"].as_array().unwrap();
    let is = |row: &Value, key: &str, text: &str| row[key] == text;
    assert!(rows.iter().all(|row| is(row, "level", "tool") || is(row, "level", "host")), "{printed}");
    for (function, name) in [("PMIx_tool_init", "PMIX_SERVER_URI"), ("PMIx_Log", "PMIX_LOG_ONCE")] {
        assert!(rows.iter().any(|row| is(row, "function", function) && is(row, "name", name)), "{name}: {printed}");
    }
    for (words, code, said) in [
        (&["none"][..], 1, "the server names no such attributes"),
        (&["--level", "node"], 2, "possible values: client, server, tool, host"),
    ] {
        let ended = attrs(words);
        assert!(ended.code() == Some(code) && ended.err.contains(said) && ended.out.is_empty(), "{ended:?}");
    }
    // The standard's form of the query has the functions as keys.
    let query = ["query", "PMIX_QUERY_ATTRIBUTE_SUPPORT", "PMIx_Fence", "-q", "PMIX_SERVER_ATTRIBUTES=all", "--json"];
    let printed = modex(query).env("TMPDIR", job.temporary()).run().out;
    assert!(printed.contains("\"PMIx_Fence\"") && printed.contains("PMIX_COLLECT_DATA"), "{printed}");
    job.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(job.finish().code(), Some(143));
}
