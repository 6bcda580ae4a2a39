//! Attributes of a C tool about its server.

use std::time::Duration;

use modex::keys::{self, TypedKey};
use modex::runtime::has_more_rights_than_its_starter;
use modex::server::UNDERSTOOD_OF_NEW_TOOLS;
use modex::types::{Info, InfoFlags, Namespace, ProcId, Rank, Status, Value};
use modex::{SystemServer, ToolDirections};

use super::guard::Failure;
use super::{munge, server};

/// A tool's attributes.
#[derive(Default)]
pub(super) struct Directives {
    /// The wanted server, and the tool's name.
    pub(super) directions: ToolDirections,
    /// Connect to no server.
    pub(super) is_alone: bool,
    /// The tool admits tools, as servers do.
    pub(super) is_server: bool,
    /// A missing server is no error.
    pub(super) is_optional: bool,
    /// The server becomes the primary one.
    pub(super) is_primary: bool,
}

impl Directives {
    /// Reads the attributes. Attributes that are not about the connection go to the server's host.
    pub(super) fn read(infos: &[Info]) -> Result<Self, Failure> {
        let mut read = Self::default();
        // In a set-user-id process the environment must not decide whether libmunge is loaded.
        read.directions.prover = (!has_more_rights_than_its_starter()).then(munge::prover);
        let (mut namespace, mut rank) = (None, Rank::Process(0));
        for info in infos {
            let is = |name: &str| info.key.as_str() == name;
            if is(keys::TOOL_NSPACE.name()) {
                namespace = Some(namespace_of(&info.value)?);
            } else if is(keys::TOOL_RANK.name()) {
                rank = rank_of(&info.value)?;
            } else if is(keys::EXTERNAL_PROGRESS.name()) {
                // No server needs it: `turns::choose` reads it.
            } else if is(keys::CONNECTION_ORDER.name()) {
                refuse_order(info)?;
            } else if !read.set_place(info)? && !read.set_flag(info)? {
                read.directions.info.push(info.clone());
            }
        }
        read.pass_on_unmarked();
        read.directions.name = namespace.map(|namespace| ProcId { namespace, rank });
        Ok(read)
    }

    /// The same for a tool that attaches to a further server. Its name and its own server can't change any more.
    pub(super) fn read_of_attached(infos: &[Info]) -> Result<Self, Failure> {
        let is_late = |info: &Info| UNDERSTOOD_OF_NEW_TOOLS.contains(&info.key.as_str());
        if infos.iter().any(|info| is_late(info) && info.flags().contains(InfoFlags::REQUIRED)) {
            return Err(Failure(Status::ERR_NOT_SUPPORTED));
        }
        Self::read(infos)
    }

    /// Takes the mark of required infos away that the server inside the tool honours.
    fn pass_on_unmarked(&mut self) {
        let has_server = self.directions.is_launcher || self.is_server;
        for info in self.directions.info.iter_mut().filter(|_| has_server) {
            if server::is_server_option(info.key.as_str()) {
                info.flags &= !InfoFlags::REQUIRED.bits();
            }
        }
    }

    /// Reads an attribute about the server's place. Returns false for other attributes.
    fn set_place(&mut self, info: &Info) -> Result<bool, Failure> {
        let directions = &mut self.directions;
        let text = || info.value.as_str().map(str::to_owned).ok_or(BAD);
        let number = || info.value.as_u32().ok_or(BAD);
        let is = |name: &str| info.key.as_str() == name;
        if is(keys::SERVER_URI.name()) || is(keys::TCP_URI.name()) {
            let address = text()?;
            if directions.address.as_ref().is_some_and(|earlier| *earlier != address) {
                tracing::error!("PMIX_SERVER_URI and PMIX_TCP_URI name two servers; leave one of them out");
                return Err(BAD);
            }
            directions.address = Some(address);
        } else if is(keys::TOOL_ATTACHMENT_FILE.name()) {
            directions.file = Some(text()?.into());
        } else if is(keys::SERVER_PIDINFO.name()) {
            directions.pid = Some(match info.value {
                Value::Pid(pid) => pid,
                _ => number()?,
            });
        } else if is(keys::SERVER_NSPACE.name()) {
            directions.namespace = Some(namespace_of(&info.value)?);
        } else if is(keys::SERVER_TMPDIR.name()) {
            directions.session_tmpdir = Some(text()?.into());
        } else if is(keys::SYSTEM_TMPDIR.name()) {
            directions.system_tmpdir = Some(text()?.into());
        } else if is(keys::CONNECT_MAX_RETRIES.name()) {
            directions.retries = number()?;
        } else if is(keys::CONNECT_RETRY_DELAY.name()) {
            directions.retry_delay = Duration::from_secs(number()?.into());
        } else if is(keys::TIMEOUT.name()) {
            // Zero means no limit.
            let seconds = Some(number()?).filter(|seconds| *seconds > 0);
            directions.time_max = Some(Duration::from_secs(seconds.unwrap_or(u32::MAX).into()));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn set_flag(&mut self, info: &Info) -> Result<bool, Failure> {
        let is = |key: TypedKey<bool>| info.key.as_str() == key.name();
        let systems = [
            (keys::CONNECT_TO_SYSTEM, SystemServer::Only),
            (keys::CONNECT_SYSTEM_FIRST, SystemServer::First),
            (keys::CONNECT_TO_SCHEDULER, SystemServer::Scheduler),
            (keys::CONNECT_TO_SYS_CONTROLLER, SystemServer::Controller),
        ];
        let is_set = info.value.as_bool();
        if let Some((_, system)) = systems.into_iter().find(|(key, _)| is(*key)) {
            // "The system server alone" comes before "first the system server", in any order of the attributes.
            let is_weaker = system == SystemServer::First && self.directions.system != SystemServer::Any;
            if is_set.ok_or(BAD)? && !is_weaker {
                self.directions.system = system;
            }
            return Ok(true);
        }
        let flag = if is(keys::TOOL_DO_NOT_CONNECT) {
            &mut self.is_alone
        } else if is(keys::TOOL_CONNECT_OPTIONAL) {
            &mut self.is_optional
        } else if is(keys::PRIMARY_SERVER) {
            &mut self.is_primary
        } else if is(keys::LAUNCHER) {
            &mut self.directions.is_launcher
        } else if is(keys::SERVER_TOOL_SUPPORT) {
            &mut self.is_server
        } else {
            return Ok(false);
        };
        *flag = is_set.ok_or(BAD)?;
        Ok(true)
    }
}

fn namespace_of(value: &Value) -> Result<Namespace, Failure> {
    match value {
        Value::ProcNamespace(namespace) if !namespace.is_nobodys() => Ok(namespace.clone()),
        Value::ProcNamespace(_) => Err(BAD),
        value => Namespace::new(value.as_str().ok_or(BAD)?).map_err(|_| BAD),
    }
}

fn rank_of(value: &Value) -> Result<Rank, Failure> {
    let rank = match value {
        Value::ProcRank(rank) => *rank,
        value => Rank::from_raw(value.as_u32().ok_or(BAD)?).map_err(|_| BAD)?,
    };
    if rank.process().is_some() { Ok(rank) } else { Err(BAD) }
}

/// The order of the search is fixed. A server's host could not change it.
fn refuse_order(info: &Info) -> Result<(), Failure> {
    if info.flags().contains(InfoFlags::REQUIRED) {
        tracing::error!("PMIX_CONNECTION_ORDER is not supported; name the server, or do not require the order");
        return Err(Failure(Status::ERR_NOT_SUPPORTED));
    }
    tracing::warn!("PMIX_CONNECTION_ORDER is ignored: the order of the search is fixed");
    Ok(())
}

const BAD: Failure = Failure(Status::ERR_BAD_PARAM);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use modex::runtime::attributes_of_library;
    use modex::types::Key;

    use super::*;

    /// The list of supported attributes is in the library, and their code is here. Others go to the server's host.
    #[test]
    fn a_tool_takes_the_attributes_of_the_list() {
        let required = |key: &'static str, value: Value| Info {
            flags: InfoFlags::REQUIRED.bits(),
            ..Info::new(Key::from_static(key), value)
        };
        let is_taken = |key: &'static str, read: fn(&[Info]) -> Result<Directives, Failure>| match read(&[required(
            key,
            Value::from(true),
        )]) {
            Ok(read) => read.directions.info.is_empty(),
            Err(Failure(status)) => status != Status::ERR_NOT_SUPPORTED,
        };
        for (function, read) in [
            ("PMIx_tool_init", Directives::read as fn(&[Info]) -> _),
            ("PMIx_tool_attach_to_server", Directives::read_of_attached),
            ("PMIx_tool_connect_to_server", Directives::read_of_attached),
        ] {
            let names = keys::attributes().map(|attribute| attribute.name);
            let taken: BTreeSet<&str> = names.filter(|name| is_taken(name, read)).collect();
            assert_eq!(taken, attributes_of_library(function), "{function}");
        }
        let launcher = [
            Info::new(Key::from_static(keys::LAUNCHER.name()), true),
            required(keys::IOF_TAG_OUTPUT.name(), Value::from(true)),
            required(keys::SPAWN_TOOL.name(), Value::from(true)),
        ];
        let flags: Vec<u32> =
            Directives::read(&launcher).unwrap().directions.info.iter().map(|info| info.flags).collect();
        assert_eq!(flags, [0, InfoFlags::REQUIRED.bits()], "its own server tags lines");
    }

    /// Regression: a file and an address were refused, though the file decides.
    #[test]
    fn a_file_and_one_address_under_both_names_are_taken() {
        let text = |key: &'static str, text: &str| Info::new(Key::from_static(key), text);
        let read = |other: &str| {
            let infos = [
                text(keys::SERVER_URI.name(), "one.0;tcp4://127.0.0.1:1"),
                text(keys::TCP_URI.name(), other),
                text(keys::TOOL_ATTACHMENT_FILE.name(), "/file"),
            ];
            Directives::read(&infos).map(|read| read.directions.file).map_err(|failure| failure.0)
        };
        assert_eq!(read("one.0;tcp4://127.0.0.1:1"), Ok(Some("/file".into())));
        assert_eq!(read("two.0;tcp4://127.0.0.1:2"), Err(Status::ERR_BAD_PARAM));
    }

    /// Regression: it went to the server's host, which can't honour it.
    #[test]
    fn a_required_order_of_the_search_is_refused() {
        let of = |flags| {
            let order = Info::new(Key::from_static(keys::CONNECTION_ORDER.name()), "pmix.cnct.sched");
            Directives::read(&[Info { flags, ..order }])
                .map(|read| read.directions.info.len())
                .map_err(|failure| failure.0)
        };
        assert_eq!([0, InfoFlags::REQUIRED.bits()].map(of), [Ok(0), Err(Status::ERR_NOT_SUPPORTED)]);
    }

    /// Regression: it went to the server's host, and a server that did not answer held the tool up for 60 seconds.
    #[test]
    fn the_time_limit_of_a_tool_bounds_its_way_to_the_server() {
        let of = |seconds: i32| {
            let limit = Info::new(Key::from_static(keys::TIMEOUT.name()), seconds);
            Directives::read(&[limit]).unwrap().directions.time_max
        };
        assert_eq!(of(3), Some(Duration::from_secs(3)));
        assert!(of(0) > Some(Duration::from_secs(1 << 31)));
    }

    #[test]
    fn a_name_that_is_empty_is_none_however_it_is_told() {
        // Regression: an empty namespace in a value of type PMIX_PROC_NSPACE was taken for the name of a tool or of a
        // server.
        let told = [Value::ProcNamespace(Namespace::in_value(b"").unwrap()), Value::from("")];
        for (key, value) in
            [keys::TOOL_NSPACE, keys::SERVER_NSPACE].into_iter().flat_map(|key| told.clone().map(|value| (key, value)))
        {
            let refused = Directives::read(&[Info::new(Key::from_static(key.name()), value.clone())]);
            assert!(refused.is_err_and(|failure| failure.0 == Status::ERR_BAD_PARAM), "{} {value:?}", key.name());
        }
        let named = Value::ProcNamespace(Namespace::new("tool").unwrap());
        assert!(Directives::read(&[Info::new(Key::from_static(keys::TOOL_NSPACE.name()), named)]).is_ok());
    }
}
