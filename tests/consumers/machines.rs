//! Tools on another machine than their server: two network namespaces with a cable between them
//! (`tests/machines/two.sh`), and munge. The tools are ours and Debian's OpenPMIx 4.2.2.

use std::fs;

use crate::command::built;
use crate::library::{Library, library, repository, scratch};
use crate::process::{Consumer, Ended, Running, wait_for};

/// Two machines. All their processes end with the script's input, also if the test dies.
struct Machines {
    script: Running,
    /// The script's process number, for its namespaces.
    init: String,
}

impl Machines {
    fn start() -> Self {
        let script = Consumer::new(&Library::stock(), "unshare")
            .args(["--pid", "--mount", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"])
            .arg(repository().join("tests/machines/two.sh"))
            .input_open()
            .start();
        script.wait_for_line("ready");
        assert!(script.transcript().contains("ready"), "the machines do not start: {}", script.wait().transcript());
        // The child of `timeout` is `unshare`, whose child is the script.
        let init = child_of(&child_of(&script.id().to_string()));
        Self { script, init }
    }

    /// A command on the first machine.
    fn here(&self, library: &Library) -> Consumer {
        Consumer::new(library, "nsenter")
            .args(["--target", &self.init, "--pid", "--mount", "--net", "--uts", "--ipc", "--wd=/", "--"])
    }

    /// A command on the second machine.
    fn elsewhere(&self, library: &Library) -> Consumer {
        self.here(library).args(["ip", "netns", "exec", "second"])
    }

    /// `modex query` for the names of jobs, on the second machine, by a user.
    fn query(&self, uri: &str, user: &[&str]) -> Ended {
        let command = self.elsewhere(library()).args(user).arg(built("modex"));
        command.args(["query", "--uri", uri, "PMIX_QUERY_NAMESPACES"]).run()
    }
}

fn child_of(process: &str) -> String {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    children.trim().to_owned()
}

#[test]
fn tools_on_another_machine_prove_their_user_by_munge_or_are_refused() {
    // The library is built before the machines, which do not wait for long.
    library();
    let machines = Machines::start();
    let launcher = machines.here(library()).arg(built("modex"));
    let launcher = launcher.args(["run", "-n", "1", "--remote-tools", "10.78.0.0/24", "--", "sleep", "300"]).start();
    let uri = || launcher.messages().split('\'').nth(1).map(str::to_owned);
    wait_for(|| uri().is_some() || launcher.is_closed());
    let uri = uri().unwrap_or_else(|| panic!("{}", launcher.messages()));
    assert!(uri.contains("tcp4://10.78.0.1:"), "{uri}");

    // A probe on the server's machine, such as one that ssh starts, finds the address, too.
    let probe = machines.here(library()).env("TMPDIR", launcher.temporary()).arg(built("modex"));
    let found = probe.args(["query", "PMIX_QUERY_AVAIL_SERVERS"]).run().success();
    assert!(found.text().contains(&format!("\"{uri}\"")), "{uri}: {}", found.transcript());

    let found = machines.query(&uri, &[]);
    assert!(found.status.success() && found.transcript().contains("pmix.qry.ns: modex-"), "{}", found.transcript());
    let without = machines.query(&uri, &["unshare", "--mount", "sh", "-c", r#"umount -l /run && exec "$@""#, "sh"]);
    assert!(without.err.contains("PMIX_ERR_INVALID_CRED"), "{}", without.transcript());
    let stranger = machines.query(&uri, &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    assert!(stranger.err.contains("PMIX_ERR_NO_PERMISSIONS"), "{}", stranger.transcript());

    let stock = Library::stock();
    let tool = scratch().join("tool_elsewhere");
    stock.headers()[0].compile(&[repository().join("tests/interop/tool.c")], &tool);
    // Without munge OpenPMIx 4.2.2 is refused, and then sometimes waits for ever.
    let command = machines.elsewhere(&stock).args(["env", "PMIX_MCA_psec=munge"]).arg(&tool);
    let ended = command.arg(format!("pmix.srvr.uri={uri}")).args(["--", "namespaces"]).run();
    assert!(ended.transcript().contains("namespaces SUCCESS modex-"), "{}", ended.transcript());
    machines.script.close_input();
    machines.script.wait();
    launcher.bury();
}

/// `tests/capi/listening.c`, with munge and a network interface that lead to other machines.
#[test]
fn a_server_in_c_listens_where_its_host_says() {
    let program = scratch().join("listening_machines");
    library().headers()[0].compile(&[repository().join("tests/capi/listening.c")], &program);
    let machines = Machines::start();
    let ended = machines.here(library()).arg(&program).run().success();
    assert!(ended.transcript().contains("one at 10.78.0.1, munge: 1"), "{}", ended.transcript());
    machines.script.close_input();
    machines.script.wait();
}

/// A launcher without munge refuses `--remote-tools`.
#[test]
fn a_launcher_without_munge_does_not_open_itself_to_other_machines() {
    let command = Consumer::new(library(), "unshare").args(["--mount", "sh", "-c"]);
    let hide = r#"mkdir -p /run/munge; mount -t tmpfs tmpfs /run/munge; exec "$@""#;
    let command = command.args([hide, "sh"]).arg(built("modex"));
    let ended = command.args(["run", "--remote-tools", "lo", "--", "true"]).run();
    assert!(!ended.status.success() && ended.err.contains("need munge"), "{}", ended.transcript());
}
