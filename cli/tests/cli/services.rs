//! Services that the launcher's server has of its own: resource usage and credentials.

use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;
use std::time::Duration;

use modex::types::{DataArray, DataType, Info, InfoFlags, Key, ProcId, Status, Value};
use modex::{AsStatus, Client, keys};

use crate::launch::{ROLE, modex, role};

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn required(info: Info) -> Info {
    Info { flags: InfoFlags::REQUIRED.bits(), ..info }
}

fn array(element_type: DataType, elements: Vec<Value>) -> Value {
    Value::DataArray(Box::new(DataArray { element_type, elements }))
}

fn monitor(client: &Client, monitor: Info, directives: Vec<Info>) -> Result<Vec<Info>, Status> {
    let asked = client.monitor(monitor, Status::SUCCESS, directives).wait();
    asked.map(|answer| answer.results).map_err(|error| error.status())
}

/// The figures of a sample, by key.
fn figure(sample: &Info, key: &str) -> Option<Value> {
    let Value::DataArray(array) = &sample.value else { panic!("{sample:?}") };
    let infos = array.elements.iter().filter_map(|element| match element {
        Value::Info(info) => Some(info),
        _ => None,
    });
    infos.filter(|info| info.key.as_str() == key).map(|info| info.value.clone()).next()
}

/// The names of the processes in samples, in their order.
fn procs_of(samples: &[Info]) -> Vec<Value> {
    let mut procs: Vec<Value> = samples.iter().filter_map(|sample| figure(sample, keys::PROCID.name())).collect();
    procs.sort_by_key(|proc| format!("{proc:?}"));
    procs
}

pub(crate) fn measure_resources() {
    let client = Client::connect().unwrap();
    let of_procs = || info(keys::MONITOR_PROC_RESOURCE_USAGE.name(), Value::Undefined);
    let own = client.proc().clone();
    let all = [0, 1].map(|rank| Value::from(ProcId::new(own.namespace.clone(), rank)));
    // The first rank may run before the launcher has started the other one.
    while procs_of(&monitor(&client, of_procs(), Vec::new()).unwrap()) != all {}
    // One figure of one process, known by its number.
    let pid = std::process::id();
    let by_number = |pid| info(keys::MONITOR_TARGET_PIDS.name(), array(DataType::Pid, vec![Value::Pid(pid)]));
    let of_threads = array(DataType::Info, vec![Value::Info(Box::new(info(keys::PROC_NUM_THREADS.name(), true)))]);
    let of_threads = info(keys::MONITOR_PROC_RESOURCE_USAGE.name(), of_threads);
    let samples = monitor(&client, of_threads, vec![required(by_number(pid))]).unwrap();
    let [sample] = &samples[..] else { panic!("{samples:?}") };
    assert_eq!(figure(sample, keys::PROC_PID.name()), Some(Value::Pid(pid)));
    assert!(matches!(figure(sample, keys::PROC_NUM_THREADS.name()), Some(Value::Uint16(count)) if count > 0));
    assert_eq!(figure(sample, keys::PROC_RSS.name()), None);
    let of_node = info(keys::MONITOR_NODE_RESOURCE_USAGE.name(), Value::Undefined);
    let samples = monitor(&client, of_node, Vec::new()).unwrap();
    assert!(matches!(figure(&samples[0], keys::NODE_MEM_TOTAL.name()), Some(Value::Float(size)) if size > 1.0));
    let of_disks = info(keys::MONITOR_DISK_RESOURCE_USAGE.name(), Value::Undefined);
    assert!(monitor(&client, of_disks.clone(), Vec::new()).is_ok());
    let unknown = info(keys::MONITOR_TARGET_DISKS.name(), array(DataType::String, vec!["no such disk".into()]));
    assert_eq!(monitor(&client, of_disks, vec![unknown]).unwrap_err(), Status::ERR_NOT_FOUND);
    let wrong = info(keys::MONITOR_CANCEL.name(), 7_u32);
    assert_eq!(monitor(&client, wrong, Vec::new()).unwrap_err(), Status::ERR_BAD_PARAM);
    // The launcher is no process of the job.
    let refused = |directive: Info| monitor(&client, of_procs(), vec![directive]).unwrap_err();
    assert_eq!(refused(by_number(std::os::unix::process::parent_id())), Status::ERR_NOT_FOUND);
    let unknown = ProcId::new(own.namespace.clone(), 2);
    let unknown = array(DataType::Proc, vec![Value::from(unknown)]);
    assert_eq!(refused(info(keys::MONITOR_TARGET_PROCS.name(), unknown)), Status::ERR_NOT_FOUND);
    assert_eq!(refused(required(info("own.key", true))), Status::ERR_NOT_SUPPORTED);
    again_and_again(&client, own);
    client.finalize().unwrap();
    println!("measured");
    std::process::exit(9);
}

/// Samples come as events until they are cancelled.
fn again_and_again(client: &Client, own: ProcId) {
    let (sender, updates) = mpsc::channel();
    let handler = client.register_event_handler(&[Status::MONITOR_RESUSAGE_UPDATE], &[], move |call| {
        let _ = sender.send(call.info.clone());
        call.complete(Status::SUCCESS, Vec::new());
    });
    handler.wait().unwrap();
    let of_own = array(DataType::Proc, vec![Value::from(own)]);
    let directives = vec![
        info(keys::MONITOR_TARGET_PROCS.name(), of_own),
        info(keys::MONITOR_RESOURCE_RATE.name(), 1_u32),
        info(keys::MONITOR_ID.name(), "mine"),
    ];
    let of_procs = info(keys::MONITOR_PROC_RESOURCE_USAGE.name(), Value::Undefined);
    assert_eq!(monitor(client, of_procs, directives).unwrap().len(), 1);
    for _ in 0..2 {
        let update = updates.recv_timeout(Duration::from_secs(20)).unwrap();
        let name = update.iter().find(|info| info.key.as_str() == keys::MONITOR_ID.name());
        assert_eq!(name.and_then(|info| info.value.as_str()), Some("mine"));
        let sample = update.iter().find(|info| info.key.as_str() == keys::PROC_RESOURCE_USAGE.name()).unwrap();
        assert!(figure(sample, keys::PROC_PERCENT_CPU.name()).is_some());
    }
    monitor(client, info(keys::MONITOR_CANCEL.name(), "mine"), Vec::new()).unwrap();
    while updates.try_recv().is_ok() {}
    assert!(updates.recv_timeout(Duration::from_millis(1500)).is_err());
}

#[test]
fn ranks_measure_the_use_of_resources() {
    let this = std::env::current_exe().unwrap();
    let first = [this.to_str().unwrap(), "--exact", "client_process", "--nocapture"];
    let words = [&["run", "-n", "1", "--"], &first[..], &[":", "-n", "1", "--", "sleep", "1000"]].concat();
    let ended = modex(words).env(ROLE, "measure resources").run();
    // The other rank runs until the first one ends the job.
    assert_eq!((ended.code(), ended.out.contains("measured\n")), (Some(9), true), "{ended:?}");
}

pub(crate) fn exchange_credentials() {
    let client = Client::connect().unwrap();
    let kind = |names: &str| vec![required(info(keys::CRED_TYPE.name(), names))];
    let value =
        |infos: &[Info], key: &str| infos.iter().find(|info| info.key.as_str() == key).map(|info| info.value.clone());
    let credential = client.get_credential(kind("native")).wait().unwrap();
    assert_eq!(value(&credential.info, keys::CRED_TYPE.name()), Some("native".into()));
    let again = client.get_credential(Vec::new()).wait().unwrap();
    assert_eq!(again.bytes, credential.bytes);
    let check = |bytes: Vec<u8>, directives| {
        let checked = client.validate_credential(bytes, directives).wait();
        checked.map(|answer| answer.results).map_err(|error| error.status())
    };
    let facts = check(credential.bytes.clone(), Vec::new()).unwrap();
    let uid = nix::unistd::Uid::current().as_raw();
    assert_eq!(value(&facts, keys::USERID.name()), Some(Value::Uint32(uid)));
    assert!(value(&facts, keys::GRPID.name()).is_some());
    let mut forged = credential.bytes.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(check(forged, Vec::new()), Err(Status::ERR_INVALID_CRED));
    assert_eq!(check(credential.bytes.clone(), kind("munge")), Err(Status::ERR_INVALID_CRED));
    let refused = client.get_credential(kind("kerberos")).wait().unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
    // The daemon of munge is the script of the test.
    let of_munge = client.get_credential(kind("munge, native")).wait().unwrap();
    assert_eq!(of_munge.bytes, b"MUNGE:abc:\0");
    assert_eq!(value(&check(of_munge.bytes, Vec::new()).unwrap(), keys::USERID.name()), Some(Value::Uint32(4711)));
    client.finalize().unwrap();
}

#[test]
fn credentials_prove_their_user_to_others() {
    let place = tempfile::tempdir().unwrap();
    for (name, script) in [
        ("munge", "#!/bin/sh\necho MUNGE:abc:\n"),
        ("unmunge", "#!/bin/sh\ngrep -q MUNGE:abc: || exit 7\necho 'UID:   4711'\necho 'GID:   12'\n"),
    ] {
        let path = place.path().join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", place.path().display(), std::env::var("PATH").unwrap());
    let ended = role(&[], "exchange credentials").env("PATH", path).run();
    assert_eq!((ended.code(), ended.err.as_str()), (Some(0), ""), "{ended:?}");
}
