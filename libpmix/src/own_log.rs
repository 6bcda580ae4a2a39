//! Logs (`PMIx_Log`) that a server writes itself, because it is a gateway or its host has no log.

use std::io;
use std::path::Path;

use modex::keys;
use modex::runtime::understood::{LOG_CHANNELS, OF_LOGS};
use modex::syslog::{self, Priority};
use modex::types::{Info, InfoFlags, ProcId, Status, Value};

use super::output::Stream;

/// A request to log.
#[derive(Clone, Copy)]
pub(super) struct LogRequest<'a> {
    /// Whether this node has the log of the system for the whole cluster. A gateway's node has it.
    pub(super) has_global_syslog: bool,
    pub(super) source: &'a ProcId,
    /// Texts, one for each channel.
    pub(super) data: &'a [Info],
    pub(super) directives: &'a [Info],
}

/// Writes the texts of a request to this server's channels: standard output and error, and the log of the system. Other
/// channels are left out. `write_output` writes a text to an output, and returns whether it could.
///
/// # Errors
/// `ERR_NOT_SUPPORTED` if this server has no channel of the request, or cannot honour it as it is required.
/// `ERR_NOT_AVAILABLE` if no channel works, `ERR_PARTIAL_SUCCESS` if some do, and `ERR_BAD_PARAM` for a wrong priority.
pub(super) fn write(request: LogRequest<'_>, write_output: impl FnMut(Stream, &[u8]) -> bool) -> Result<(), Status> {
    write_to(Path::new(syslog::SOCKET), request, write_output)
}

fn write_to(
    socket: &Path,
    LogRequest { has_global_syslog, source, data, directives }: LogRequest<'_>,
    mut write_output: impl FnMut(Stream, &[u8]) -> bool,
) -> Result<(), Status> {
    let is_required = |info: &Info| info.flags().contains(InfoFlags::REQUIRED);
    let texts: Vec<_> = data.iter().filter_map(|info| text_of(info, has_global_syslog)).collect();
    let lacks_channel = data.iter().any(|info| is_required(info) && text_of(info, has_global_syslog).is_none());
    if texts.is_empty() || lacks_channel || directives.iter().any(is_unmet) {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    let find = |name: &str| directives.iter().find(|info| info.key.as_str() == name).map(|info| &info.value);
    let is_once = find(keys::LOG_ONCE.name()).and_then(Value::as_bool) == Some(true);
    let priority = match find(keys::LOG_SYSLOG_PRI.name()) {
        None => Priority::default(),
        Some(value) => value.as_u64().and_then(Priority::new).ok_or(Status::ERR_BAD_PARAM)?,
    };
    let (mut done, mut failed) = (0_usize, 0_usize);
    for (channel, text) in texts {
        let written = match channel {
            Channel::Output(stream) if write_output(stream, text) => Ok(()),
            Channel::Output(_) => Err(io::ErrorKind::WouldBlock.into()),
            Channel::Syslog => {
                let messages = syslog::messages(&String::from_utf8_lossy(text), &source.to_string(), priority);
                syslog::send(&messages, socket)
            }
        };
        match written {
            Ok(()) if is_once => return Ok(()),
            Ok(()) => done += 1,
            Err(error) => {
                tracing::info!(%source, %error, "the server cannot write a log");
                failed += 1;
            }
        }
    }
    match (done, failed) {
        (_, 0) => Ok(()),
        (0, _) => Err(Status::ERR_NOT_AVAILABLE),
        _ => Err(Status::ERR_PARTIAL_SUCCESS),
    }
}

/// Whether a directive is required and has no meaning for a plain text. The server adds the ids of the requester.
fn is_unmet(directive: &Info) -> bool {
    let ids = [keys::USERID.name(), keys::GRPID.name()];
    keys::is_unmet(directive, |key| OF_LOGS.contains(&key) || ids.contains(&key))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Output(Stream),
    Syslog,
}

/// A text and its channel, if this server has the channel.
fn text_of(info: &Info, has_global_syslog: bool) -> Option<(Channel, &[u8])> {
    let Value::String(text) = &info.value else { return None };
    let channel = match info.key.as_str() {
        name if name == keys::LOG_STDERR.name() => Channel::Output(Stream::Stderr),
        name if name == keys::LOG_STDOUT.name() => Channel::Output(Stream::Stdout),
        name if name == keys::LOG_GLOBAL_SYSLOG.name() && !has_global_syslog => return None,
        name if LOG_CHANNELS.contains(&name) => Channel::Syslog,
        _ => return None,
    };
    Some((channel, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use modex::types::{Key, Namespace};

    use super::*;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    /// The status and the texts for outputs of a request.
    fn log(
        socket: &Path,
        data: &[Info],
        directives: &[Info],
        has_global_syslog: bool,
    ) -> (Result<(), Status>, Vec<u8>) {
        let source = ProcId::new(Namespace::new("job").unwrap(), 1);
        let mut outputs = Vec::new();
        let request = LogRequest { has_global_syslog, source: &source, data, directives };
        let outcome = write_to(socket, request, |_, text| {
            outputs.extend_from_slice(text);
            text != b"full"
        });
        (outcome, outputs)
    }

    #[test]
    fn only_a_gateway_has_the_global_log_of_the_system() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("log");
        let daemon = UnixDatagram::bind(&socket).unwrap();
        daemon.set_nonblocking(true).unwrap();
        let heard = || {
            let mut bytes = [0; 128];
            daemon.recv(&mut bytes).map(|count| String::from_utf8_lossy(&bytes[..count]).into_owned()).ok()
        };
        let data = [info(keys::LOG_GLOBAL_SYSLOG.name(), "all\n")];
        let priority = [info(keys::LOG_SYSLOG_PRI.name(), 6)];
        assert_eq!(log(&socket, &data, &priority, true).0, Ok(()));
        assert_eq!(heard().unwrap(), format!("<14>modex[{}]: {}: all", std::process::id(), "job:1"));
        assert_eq!(log(&socket, &data, &[], false).0, Err(Status::ERR_NOT_SUPPORTED));
        let local = [info(keys::LOG_LOCAL_SYSLOG.name(), "here")];
        assert_eq!((heard(), log(&socket, &local, &[], false).0), (None, Ok(())));
        assert!(heard().unwrap().ends_with(": here"));
        let wrong = [info(keys::LOG_SYSLOG_PRI.name(), 4711)];
        assert_eq!(log(&socket, &data, &wrong, true).0, Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn a_channel_that_fails_is_reported_and_another_is_used_instead() {
        let missing = Path::new("/nowhere/log");
        let syslog = info(keys::LOG_SYSLOG.name(), "a");
        let both = [syslog.clone(), info(keys::LOG_STDERR.name(), "b")];
        let once = [info(keys::LOG_ONCE.name(), true)];
        assert_eq!(log(missing, &[syslog], &[], true), (Err(Status::ERR_NOT_AVAILABLE), Vec::new()));
        assert_eq!(log(missing, &both, &[], true), (Err(Status::ERR_PARTIAL_SUCCESS), b"b".to_vec()));
        assert_eq!(log(missing, &both, &once, true), (Ok(()), b"b".to_vec()));
        let full = [info(keys::LOG_STDOUT.name(), "full")];
        assert_eq!(log(missing, &full, &[], true).0, Err(Status::ERR_NOT_AVAILABLE));
    }
}
