//! Processes that want to be watched (`PMIx_Process_monitor`).

use std::sync::mpsc;
use std::time::Duration;

use modex::types::{Info, InfoFlags, Key, Status, Value};
use modex::{AsStatus, Client, EventCall, keys};

use crate::launch::role;

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

fn monitor(client: &Client, monitor: Info, error: Status, directives: Vec<Info>) -> Result<(), Status> {
    client.monitor(monitor, error, directives).wait().map(drop).map_err(|error| error.status())
}

/// Time for an alert.
const ALERT_TIME_MAX: Duration = Duration::from_secs(20);

/// A status of the test's own.
const OWN: Status = Status::from_raw(-4711);

pub(crate) fn fall_silent() {
    let client = Client::connect().unwrap();
    let (sender, alerts) = mpsc::channel();
    let note = move |call: EventCall| {
        let name = call.info.iter().find(|info| info.key.as_str() == keys::MONITOR_ID.name());
        drop(sender.send((call.status, name.and_then(|info| info.value.as_str()).map(str::to_owned))));
        call.complete(Status::SUCCESS, Vec::new());
    };
    client.register_event_handler(&[OWN, Status::MONITOR_HEARTBEAT_ALERT], &[], note).wait().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = || info(keys::MONITOR_FILE.name(), file.path().to_str().unwrap());
    let every_second = || {
        let required = info(keys::MONITOR_FILE_MODIFY.name(), true);
        vec![
            info(keys::MONITOR_ID.name(), "file"),
            info(keys::MONITOR_FILE_CHECK_TIME.name(), 1_u32),
            Info { flags: InfoFlags::REQUIRED.bits(), ..required },
        ]
    };
    assert_eq!(monitor(&client, path(), OWN, every_second()), Ok(()));
    assert_eq!(alerts.recv_timeout(ALERT_TIME_MAX).unwrap(), (OWN, Some("file".to_owned())));
    let cancel = |name: &str| monitor(&client, info(keys::MONITOR_CANCEL.name(), name), Status::SUCCESS, Vec::new());
    // A process may cancel what has ended.
    assert_eq!((cancel("file"), cancel("file")), (Ok(()), Ok(())));
    let heartbeat = vec![info(keys::MONITOR_ID.name(), "beat"), info(keys::MONITOR_HEARTBEAT_TIME.name(), 1_u32)];
    assert_eq!(monitor(&client, info(keys::MONITOR_HEARTBEAT.name(), true), Status::SUCCESS, heartbeat), Ok(()));
    assert_eq!(
        alerts.recv_timeout(ALERT_TIME_MAX).unwrap(),
        (Status::MONITOR_HEARTBEAT_ALERT, Some("beat".to_owned()))
    );
    let relative = info(keys::MONITOR_FILE.name(), "file");
    assert_eq!(monitor(&client, relative, OWN, every_second()), Err(Status::ERR_BAD_PARAM));
    assert_eq!(monitor(&client, info("own.monitor", true), OWN, Vec::new()), Err(Status::ERR_NOT_SUPPORTED));
    client.finalize().unwrap();
}

#[test]
fn a_rank_whose_file_or_heart_stops_is_reported() {
    let ended = role(&[], "fall silent").run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
}
