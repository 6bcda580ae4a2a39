use super::*;

fn address(name: &str) -> ModexAddress {
    let tcp = Some("127.0.0.1:4711".parse().unwrap());
    ModexAddress { server: ProcId::new(Namespace::new(name).unwrap(), 0), path: "/tmp/d/s".into(), tcp }
}

fn server() -> ServerEnvironment {
    ServerEnvironment {
        address: address("srv"),
        session_tmpdir: "/tmp/session".to_owned(),
        system_tmpdir: "/tmp".to_owned(),
        hostname: "node1".to_owned(),
        leftovers: Vec::new(),
        offers_munge: false,
    }
}

fn variables() -> Vec<(String, String)> {
    server().variables(&ProcId::new(Namespace::new("job").unwrap(), 3))
}

fn without(name: &str) -> Vec<(String, String)> {
    variables().into_iter().filter(|(n, _)| n != name).collect()
}

fn with(name: &str, value: &str) -> Vec<(String, String)> {
    variables().into_iter().chain([(name.to_owned(), value.to_owned())]).collect()
}

#[test]
fn a_client_reads_what_its_server_writes() {
    let client = ClientEnvironment::parse(variables()).unwrap();
    assert_eq!(client.proc, ProcId::new(Namespace::new("job").unwrap(), 3));
    assert_eq!(client.server.address, server().address.unix());
    assert_eq!(client.fallback, server().address.tcp());
    assert_eq!((client.server.codec, client.server.version), (Generation::V41, Some(Version::OWN)));
    assert_eq!(client.hostname.as_deref(), Some("node1"));
}

#[test]
fn no_launcher_and_a_launcher_without_server_are_told_apart() {
    assert_eq!(ClientEnvironment::parse(without(NAMESPACE)), Err(EnvironmentError::NotLaunched));
    let namespace = Namespace::new("job").unwrap();
    let name = ClientEnvironment::parse_name([(NAMESPACE, "job"), (RANK, "3"), ("PMIX_SERVER_URI41", "x")]);
    assert_eq!(name, Ok(ProcId::new(namespace.clone(), 3)));
    let bare: Vec<_> = variables().into_iter().filter(|(name, _)| !name.contains("URI")).collect();
    assert_eq!(ClientEnvironment::parse(bare), Err(EnvironmentError::NoServer { namespace }));
}

#[test]
fn a_garbled_variable_is_named() {
    for (name, value) in [
        (NAMESPACE, ""),
        (RANK, "-1"),
        (RANK, "4294967294"),
        (RANK, ""),
        ("PMIX_SERVER_URI41", "srv.0"),
        (SERVER_URI, "srv.0"),
        (SERVER_TCP, "srv.0"),
        (SECURITY_MODE, "dummy_handshake"),
    ] {
        let error = ClientEnvironment::parse(with(name, value)).unwrap_err();
        assert!(error.to_string().contains(name), "{name}={value:?}: {error}");
    }
    for variable in [RANK, SERVER_URI, SERVER_TCP] {
        assert_eq!(ClientEnvironment::parse(without(variable)), Err(EnvironmentError::Missing { variable }));
    }
    let error = ClientEnvironment::parse(with(SERVER_URI, ""));
    assert_eq!(error, Err(EnvironmentError::Missing { variable: SERVER_URI }));
}

#[test]
fn bytes_that_are_no_text_are_refused_only_where_they_matter() {
    use std::os::unix::ffi::OsStrExt;
    let garbled = OsStr::from_bytes(b"\xff");
    let base: Vec<_> = variables().into_iter().map(|(n, v)| (n, std::ffi::OsString::from(v))).collect();
    let with = |name: &str| base.iter().cloned().chain([(name.to_owned(), garbled.to_owned())]);
    assert_eq!(ClientEnvironment::parse(with(RANK)), Err(EnvironmentError::NotText { variable: RANK }));
    assert!(ClientEnvironment::parse(with("LS_COLORS")).is_ok());
}

#[test]
fn one_of_several_security_modes_is_enough() {
    let proofs = |modes| ClientEnvironment::parse(with(SECURITY_MODE, modes)).unwrap().server;
    assert_eq!(proofs("munge,native").without_munge().unwrap().proofs, [Proof::Native]);
    assert_eq!(proofs("other, none").without_munge().unwrap().proofs, [Proof::None]);
    let munge = proofs("munge");
    assert_eq!(munge.proofs, [Proof::Munge]);
    assert!(munge.without_munge().unwrap_err().to_string().contains(SECURITY_MODE));
}

#[test]
fn munge_is_offered_before_the_kernels_word() {
    let server = ServerEnvironment { offers_munge: true, ..server() };
    let client = ClientEnvironment::parse(server.variables(&ProcId::new(Namespace::new("job").unwrap(), 3)));
    assert_eq!(client.unwrap().server.proofs, [Proof::Munge, Proof::Native]);
}

fn chosen(variables: &[(&str, &str)]) -> Result<(String, Generation), EnvironmentError> {
    let process = [(NAMESPACE, "job"), (RANK, "0")];
    let client = ClientEnvironment::parse(process.iter().chain(variables).copied())?;
    Ok((client.server.address.to_string(), client.server.codec))
}

const OURS: (&str, &str) = (SERVER_URI, "s.0;unix:/a");
const BINDING: (&str, &str) = (SERVER_TCP, "s.0;tcp4://127.0.0.1:1");

#[test]
fn our_own_socket_is_used_while_the_other_variables_name_the_same_server() {
    let own = ("s.0;unix:/a".to_owned(), Generation::V41);
    assert_eq!(chosen(&[OURS]).as_ref(), Ok(&own));
    for name in ["PMIX_SERVER_URI41", "PMIX_SERVER_URI3"] {
        assert_eq!(chosen(&[OURS, BINDING, (name, "s.0;tcp4://127.0.0.1:1")]).as_ref(), Ok(&own));
    }
    assert_eq!(chosen(&[OURS, ("PMIX_SERVER_URI41", "")]).as_ref(), Ok(&own));
    let dotted = [(SERVER_URI, "a.b.0;unix:/a"), (SERVER_TCP, "a.b.0;tcp6://::1:1")];
    let own = ("a.b.0;unix:/a".to_owned(), Generation::V41);
    assert_eq!(chosen(&[dotted[0], dotted[1], ("PMIX_SERVER_URI3", "a_b.0;tcp6://[::1]:1")]), Ok(own));
}

/// A server of another library inside a job of ours sets its own variables and leaves ours.
#[test]
fn later_variables_of_a_foreign_server_win_over_ours() {
    for other in ["t.0;tcp4://127.0.0.1:1", "s.1;tcp4://127.0.0.1:1", "s.0;tcp4://127.0.0.1:2"] {
        for binding in [BINDING, (SERVER_TCP, "")] {
            let foreign = Ok((other.to_owned(), Generation::V41));
            assert_eq!(chosen(&[OURS, binding, ("PMIX_SERVER_URI41", other)]), foreign, "{other} {binding:?}");
        }
    }
}

#[test]
fn the_variable_decides_the_encoding() {
    let uri = "t.0;tcp4://127.0.0.1:9";
    let all = [
        ("PMIX_SERVER_URI51", Generation::V51),
        ("PMIX_SERVER_URI61", Generation::V61),
        ("PMIX_SERVER_URI21", Generation::V3),
        ("PMIX_SERVER_URI3", Generation::V3),
        ("PMIX_SERVER_URI4", Generation::V4),
        ("PMIX_SERVER_URI41", Generation::V41),
    ];
    for count in 1..=all.len() {
        let variables: Vec<_> = all.iter().take(count).map(|(name, _)| (*name, uri)).collect();
        assert_eq!(chosen(&variables), Ok((uri.to_owned(), all[count - 1].1)));
    }
}

#[test]
fn release_3_2_gets_a_name_without_dots() {
    let variables = ServerEnvironment { address: address("a.b"), ..server() }
        .variables(&ProcId::new(Namespace::new("j").unwrap(), 0));
    let value = |name: &str| variables.iter().find(|(n, _)| n == name).unwrap().1.as_str();
    for name in ["PMIX_SERVER_URI41", "PMIX_SERVER_URI4"] {
        assert_eq!(value(name), "a.b.0;tcp4://127.0.0.1:4711");
    }
    for name in ["PMIX_SERVER_URI3", "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"] {
        assert_eq!(value(name), "a_b.0;tcp4://127.0.0.1:4711");
    }
}

/// A job inside a job: the outer server's leftovers would lead clients to the wrong server.
#[test]
fn addresses_of_an_outer_job_are_covered() {
    let outer =
        [("PMIX_SERVER_URI41", "outer.0;tcp4://127.0.0.1:9"), ("PMIX_SERVER_URI61", "outer.0;tcp4://127.0.0.1:9")];
    let leftovers = ServerEnvironment::find_leftovers(outer);
    assert_eq!(leftovers, ["PMIX_SERVER_URI61"]);
    let proc = ProcId::new(Namespace::new("job").unwrap(), 0);
    for tcp in [None, address("srv").tcp] {
        let address = ModexAddress { tcp, ..address("srv") };
        let server = ServerEnvironment { address, leftovers: leftovers.clone(), ..server() };
        let inner = server.variables(&proc);
        assert_eq!(inner.iter().filter(|(name, _)| name.contains("SERVER_URI")).count(), 7, "{inner:?}");
        let outer = outer.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let client = ClientEnvironment::parse(outer.into_iter().chain(inner)).unwrap();
        assert_eq!(client.server.address, server.address.unix());
    }
}
