//! The options of a host for its server, from its infos, the environment and the parameters.

use std::path::PathBuf;
use std::sync::Arc;

use modex::keys;
use modex::proto::exchange::ExchangeForm;
use modex::runtime::understood::OF_SERVERS;
use modex::runtime::{REPORT_URI, SECURITY_MODULES, names_module, parameter_value, trusted_variable};
use modex::storage_systems::MountTable;
use modex::types::{AsStatus, InfoFlags, ProcId, Status, Value};
use modex::{
    AddressReport, Capabilities, FabricSource, OutputSettings, Server, ServerBuilder, ServerService, SocketAccess,
    StaticPorts, ToolAdmission, ToolRole, ToolSupport, TopologySharing,
};
use nix::unistd::{geteuid, getpid};

use super::tcp::TcpSettings;
use super::topology_options::{TOPOLOGY, TopologyOptions};
use crate::form::List;
use crate::guard::Failure;
use crate::output::OutputStyle;
use crate::topology::HostTopology;
use crate::types::pmix_info_t;
use crate::{from_c, munge, parent, stand_in};

/// Options of the host for its server.
#[derive(Default)]
pub(super) struct Options {
    namespace: Option<String>,
    rank: Option<u32>,
    hostname: Option<String>,
    tmpdir: Option<PathBuf>,
    system_tmpdir: Option<PathBuf>,
    /// Whether tools are admitted; without a word of the host, its role decides.
    admits_tools: Option<bool>,
    tools: ToolSupport,
    tcp: TcpSettings,
    /// Whether this server logs for all servers of its job.
    pub(super) is_gateway: bool,
    pub(super) exchange: Option<ExchangeForm>,
    offers_munge: bool,
    has_name_service: bool,
    /// Whether the library monitors this node, and the host other nodes alone.
    monitors_own_node: bool,
    /// Whether the library makes and checks credentials.
    has_credentials: bool,
    /// Whether the library answers queries about storage.
    has_storage: bool,
    /// Whether it also stages files.
    stages_files: bool,
    requires_staging: bool,
    /// The fabric for which the library answers.
    fabric: Option<FabricSource>,
    /// Ports for jobs that ask for some.
    static_ports: StaticPorts,
    pub(super) topology: TopologyOptions,
    /// Output that the server writes itself.
    pub(super) output: OutputStyle,
    /// Kept output, and the size of deliveries.
    forwarding: OutputSettings,
    /// Whether a wrong order of registration, support and fork is an error.
    pub(super) is_order_strict: bool,
}

impl Options {
    /// Reads the known options. Values of other keys are not read: they may hold pointers that only some releases
    /// understand. If the set is `complete`, nothing else reads these infos, and unknown required infos are refused.
    pub(super) fn read(infos: List<'_, pmix_info_t>, complete: bool) -> Result<Self, Failure> {
        let mut options = Self {
            exchange: exchange_of_environment()?,
            offers_munge: munge_of_environment()?,
            tcp: TcpSettings::of_parameters()?,
            output: OutputStyle::of_parameters(),
            ..Self::default()
        };
        options.tools.report = report_of_parameters();
        let mut of_output = Vec::new();
        for info in infos.iter() {
            let name = from_c::key_in_place(&info.get().key)?;
            let is_required = info.flags & InfoFlags::REQUIRED.bits() != 0;
            if options.topology.take(name, info.value(), is_required)?
                || options.tcp.take(name, info.value(), is_required)?
            {
                continue;
            }
            if OutputStyle::is_directive(name) || name == keys::IOF_LOCAL_OUTPUT.name() {
                options.output.take(name, &from_c::value(info.value())?);
                of_output.push(from_c::info(info)?);
                continue;
            }
            if OutputSettings::is_directive(name) {
                let value = from_c::value(info.value())?;
                if is_required && OutputSettings::is_beyond_bounds(name, &value) {
                    return Err(Failure(Status::ERR_NOT_SUPPORTED));
                }
                options.forwarding.take(name, &value)?;
                continue;
            }
            if !OF_SERVERS.contains(&name) && !OWN_OPTIONS.contains(&name) {
                if complete && is_required {
                    return Err(Failure(Status::ERR_NOT_SUPPORTED));
                }
                continue;
            }
            let value = from_c::value(info.value())?;
            let role = ROLES.into_iter().find(|(key, _)| *key == name && is_required && value.as_bool() == Some(true));
            options.tools.required.extend(role.map(|(_, role)| role));
            options.requires_staging |= name == STORAGE_DIRECTIVES && info.flags & InfoFlags::REQUIRED.bits() != 0;
            options.set(name, &value)?;
        }
        options.output.refuse_unmet(&of_output)?;
        options.check_roles()?;
        options.check_staging()?;
        if options.tools.is_scheduler {
            options.fabric = options.fabric.or_else(FabricSource::of_parameters);
        }
        if options.tools.is_scheduler || options.is_gateway {
            options.static_ports = StaticPorts::of_parameters().map_err(|error| {
                tracing::error!("the PMIx server can't be started: {error}");
                Failure(Status::ERR_BAD_PARAM)
            })?;
        }
        Ok(options)
    }

    /// A role is of no use without tools. A host that refuses tools and takes a role contradicts itself.
    fn check_roles(&self) -> Result<(), Failure> {
        if self.admits_tools != Some(false) || !self.is_found_by_role() {
            return Ok(());
        }
        if !self.tools.required.is_empty() {
            tracing::error!(
                "the PMIx server can't be started: its role needs tools, and PMIX_SERVER_TOOL_SUPPORT is false"
            );
            return Err(Failure(Status::ERR_BAD_PARAM));
        }
        tracing::warn!("tools do not find this PMIx server: it has a role, but PMIX_SERVER_TOOL_SUPPORT is false");
        Ok(())
    }

    /// Whether tools find the server by its role. A gateway can do its task without tools, too.
    const fn is_found_by_role(&self) -> bool {
        let tools = &self.tools;
        tools.is_session || tools.is_system || tools.is_scheduler || tools.is_controller
    }

    /// Files are staged between storage systems, so without storage each directive would fail.
    fn check_staging(&mut self) -> Result<(), Failure> {
        if !self.stages_files || self.has_storage {
            return Ok(());
        }
        if self.requires_staging {
            tracing::error!(
                "the PMIx server can't be started: {STORAGE_DIRECTIVES:?} is required, and needs {STORAGE:?}"
            );
            return Err(Failure(Status::ERR_NOT_SUPPORTED));
        }
        tracing::warn!("this PMIx server stages no files: {STORAGE_DIRECTIVES:?} needs {STORAGE:?}");
        self.stages_files = false;
        Ok(())
    }

    /// The log has the reason of an error.
    fn set(&mut self, name: &str, value: &Value) -> Result<(), Failure> {
        let mistyped = || {
            tracing::error!(
                "the PMIx server can't be started: the value of {name:?} is of a type that this key does not take, \
                 or a text that is not UTF-8"
            );
            Failure(Status::ERR_BAD_PARAM)
        };
        let text = || match value {
            Value::ProcNamespace(namespace) => Ok(namespace.as_str().to_owned()),
            value => value.as_str().map(str::to_owned).ok_or_else(mistyped),
        };
        if name == keys::SERVER_NSPACE.name() {
            self.namespace = Some(text()?);
        } else if name == keys::SERVER_RANK.name() {
            self.rank = Some(value.as_u32().ok_or_else(mistyped)?);
        } else if name == keys::HOSTNAME.name() {
            self.hostname = Some(text()?);
        } else if name == keys::SERVER_TMPDIR.name() {
            self.tmpdir = Some(text()?.into());
        } else if name == keys::SYSTEM_TMPDIR.name() {
            self.system_tmpdir = Some(text()?.into());
        } else if name == keys::LAUNCHER_RENDEZVOUS_FILE.name() {
            self.tools.file = Some(text()?.into());
        } else if name == keys::TCP_REPORT_URI.name() {
            self.tools.report = Some(AddressReport::parse(&text()?));
        } else if name == keys::SERVER_TOOL_SUPPORT.name() {
            self.admits_tools = Some(value.as_bool().ok_or_else(mistyped)?);
        } else if let Some(flag) = self.flag_mut(name) {
            *flag = value.as_bool().ok_or_else(mistyped)?;
        } else if name == EXCHANGE {
            self.exchange = Some(exchange_form(&text()?)?);
        } else if name == FABRIC {
            self.fabric = Some(fabric_source(&text()?)?);
        } else if name == SECURITY {
            self.offers_munge = asks_for_munge(&text()?)?;
        }
        Ok(())
    }

    fn flag_mut(&mut self, name: &str) -> Option<&mut bool> {
        let flags = [
            (keys::SERVER_ALLOW_FOREIGN_TOOLS.name(), &mut self.tools.any_user),
            (keys::SERVER_SESSION_SUPPORT.name(), &mut self.tools.is_session),
            (keys::SERVER_SYSTEM_SUPPORT.name(), &mut self.tools.is_system),
            (keys::SERVER_SCHEDULER.name(), &mut self.tools.is_scheduler),
            (keys::SERVER_SYS_CONTROLLER.name(), &mut self.tools.is_controller),
            (keys::SERVER_GATEWAY.name(), &mut self.is_gateway),
            (NAME_SERVICE, &mut self.has_name_service),
            (keys::SERVER_ENABLE_MONITORING.name(), &mut self.monitors_own_node),
            (CREDENTIALS, &mut self.has_credentials),
            (STORAGE, &mut self.has_storage),
            (STORAGE_DIRECTIVES, &mut self.stages_files),
            (STRICT_ORDER, &mut self.is_order_strict),
        ];
        flags.into_iter().find(|(key, _)| *key == name).map(|(_, flag)| flag)
    }

    /// Whether tools are admitted. A server with a role admits them without being told.
    fn admits_tools(&self) -> bool {
        self.admits_tools.unwrap_or_else(|| self.is_found_by_role() || self.is_gateway)
    }

    /// Admission of tools: without a function of the host, all of them.
    fn tool_support(&self) -> ToolSupport {
        let admission = if self.admits_tools() { ToolAdmission::Assigned } else { ToolAdmission::Refused };
        ToolSupport { admission, ..self.tools.clone() }
    }

    /// The services in which the server stands in for a host with these capabilities.
    pub(super) fn services(&self, host: Capabilities) -> impl Iterator<Item = ServerService> {
        let services = [
            (self.has_name_service, ServerService::Names, Capabilities::PUBLISH),
            (self.monitors_own_node, ServerService::FileMonitor, Capabilities::empty()),
            (self.monitors_own_node, ServerService::ResourceMonitor, Capabilities::empty()),
            (self.has_credentials, ServerService::Credentials, Capabilities::GET_CREDENTIAL),
            (self.fabric.is_some(), ServerService::Fabric, Capabilities::FABRIC_REGISTER),
            (self.tools.is_scheduler, ServerService::Scheduler, Capabilities::ALLOCATE),
            (self.has_storage, ServerService::Storage, Capabilities::empty()),
            (self.stages_files, ServerService::FileStaging, Capabilities::empty()),
        ];
        let is_on = move |(is_asked, _, capability): &(bool, _, _)| *is_asked && !host.intersects(*capability);
        services.into_iter().filter(is_on).map(|(_, service, _)| service)
    }

    /// Takes a tool's name, and admits tools. A tool writes output, unless told otherwise.
    pub(super) fn for_tool(mut self, proc: &ProcId) -> Self {
        self.output.is_local.get_or_insert(true);
        self.namespace = Some(proc.namespace.as_str().to_owned());
        self.rank = proc.rank.process();
        self.admits_tools = Some(true);
        self
    }

    /// Takes the file that this server's starter reads for the address. The variable is removed: children of this
    /// server must not inherit it.
    pub(super) fn take_file_of_environment(&mut self) {
        if self.admits_tools() && self.tools.file.is_none() {
            self.tools.file = file_of_environment();
            parent::forget(FILE_VARIABLE);
        }
    }

    pub(super) fn builder(
        self,
        topology: Arc<HostTopology>,
        sharing: TopologySharing,
    ) -> Result<ServerBuilder, Failure> {
        // A server of root serves the jobs of other users, too.
        let access = if geteuid().is_root() { SocketAccess::RegisteredUsers } else { SocketAccess::OwnerOnly };
        let tools = self.tool_support();
        let namespace = self.namespace.unwrap_or_else(|| format!("pmix-server-{}", getpid()));
        let builder = Server::builder().namespace(namespace).rank(self.rank.unwrap_or(0)).access(access).tools(tools);
        let builder = self.tcp.applied_to(builder.topology(topology).topology_sharing(sharing))?;
        let builder = builder.output_settings(self.forwarding);
        let builder = builder.question_prover(munge::prover());
        let builder = if self.offers_munge { builder.prover(munge::prover()) } else { builder };
        let builder = if self.has_name_service { builder.name_service() } else { builder };
        let builder = if self.monitors_own_node { builder.shared_monitoring() } else { builder };
        let builder = if self.has_credentials { builder.credentials(Some(munge::prover())) } else { builder };
        let builder = if self.has_storage { builder.storage(MountTable::new()) } else { builder };
        let builder = if self.stages_files { builder.file_staging() } else { builder };
        let builder = builder.static_ports(self.static_ports);
        let builder = if stand_in::mixes_fetches_up() { builder.one_fetch_per_process() } else { builder };
        let builder = match self.fabric {
            Some(fabric) => builder.fabric(fabric),
            None => builder,
        };
        let builder = match self.hostname {
            Some(hostname) => builder.hostname(hostname),
            None => builder,
        };
        let builder = match self.tmpdir {
            Some(tmpdir) => builder.tmpdir(tmpdir),
            None => builder,
        };
        Ok(match self.system_tmpdir {
            Some(system_tmpdir) => builder.system_tmpdir(system_tmpdir),
            None => builder,
        })
    }
}

/// Our own info: whether the library answers publish, lookup and unpublish where the host's table has no function.
const NAME_SERVICE: &str = "modex.name_service";

/// Our own info: size of the host's table of functions, in bytes.
pub(super) const MODULE_SIZE: &str = "modex.module_size";

/// Our own info: whether the library makes and checks credentials where the host's table has no function.
const CREDENTIALS: &str = "modex.credentials";

/// Our own info: whether the library answers queries about storage that the host leaves.
const STORAGE: &str = "modex.storage";

/// Our own info: whether the library with storage also stages, moves and caches files.
const STORAGE_DIRECTIVES: &str = "modex.storage.directives";

/// Our own info: whether a wrong order of registration, support and fork is an error.
const STRICT_ORDER: &str = "modex.strict_order";

/// Our own info: the fabric for which the library answers where the host's table has no function, as `FORM:PATH`.
const FABRIC: &str = "modex.fabric";

fn fabric_source(text: &str) -> Result<FabricSource, Failure> {
    FabricSource::parse(text).map_err(|error| {
        tracing::error!(%error, "the PMIx server can't be started");
        Failure(error.status())
    })
}

/// Our own info: proof of identity of foreign clients. "munge": by munge where it works, or by the kernel's word;
/// "native": by the kernel's word. Has precedence over the variables of the same meaning.
const SECURITY: &str = "modex.security";
const SECURITY_VARIABLE: &str = "MODEX_SECURITY";

fn munge_of_environment() -> Result<bool, Failure> {
    if let Some(way) = trusted_variable(SECURITY_VARIABLE) {
        return asks_for_munge(&way.to_string_lossy());
    }
    // The same setting for the reference's servers. Other modules in it have no meaning here.
    let modules = parameter_value(SECURITY_MODULES);
    Ok(modules.is_some_and(|modules| names_module(&modules.to_string_lossy(), "munge")))
}

fn asks_for_munge(way: &str) -> Result<bool, Failure> {
    match way {
        "munge" | "munge,native" => Ok(true),
        "native" => Ok(false),
        other => {
            tracing::error!(
                "the PMIx server can't be started: {SECURITY_VARIABLE} is {other:?}; say \"native\" or \"munge\""
            );
            Err(Failure(Status::ERR_BAD_PARAM))
        }
    }
}

/// Our own info: the release of the job's other servers ("4", "6"), whose format is used for data of fences and direct
/// modexes. Has precedence over the variable of the same meaning.
const EXCHANGE: &str = "modex.exchange";
const EXCHANGE_VARIABLE: &str = "MODEX_EXCHANGE";

#[expect(clippy::disallowed_methods, reason = "a C server's process is an edge; it has no other configuration")]
fn exchange_of_environment() -> Result<Option<ExchangeForm>, Failure> {
    let release = std::env::var_os(EXCHANGE_VARIABLE).filter(|release| !release.is_empty());
    release.map(|release| exchange_form(&release.to_string_lossy())).transpose()
}

fn exchange_form(release: &str) -> Result<ExchangeForm, Failure> {
    release.parse().map_err(|error| {
        tracing::error!(%error, "the PMIx server can't be started");
        Failure(Status::ERR_BAD_PARAM)
    })
}

/// Variable of the standard: the file for a launcher's address.
const FILE_VARIABLE: &str = "PMIX_LAUNCHER_RNDZ_FILE";

fn report_of_parameters() -> Option<AddressReport> {
    let place = parameter_value(REPORT_URI)?.into_string().ok()?;
    Some(AddressReport::parse(&place))
}

fn file_of_environment() -> Option<PathBuf> {
    trusted_variable(FILE_VARIABLE).map(PathBuf::from)
}

/// Our own options.
const OWN_OPTIONS: [&str; 10] = [
    EXCHANGE,
    SECURITY,
    FABRIC,
    MODULE_SIZE,
    TOPOLOGY,
    NAME_SERVICE,
    CREDENTIALS,
    STORAGE,
    STORAGE_DIRECTIVES,
    STRICT_ORDER,
];

/// The roles by which tools find a server.
const ROLES: [(&str, ToolRole); 4] = [
    (keys::SERVER_SESSION_SUPPORT.name(), ToolRole::Session),
    (keys::SERVER_SYSTEM_SUPPORT.name(), ToolRole::System),
    (keys::SERVER_SCHEDULER.name(), ToolRole::Scheduler),
    (keys::SERVER_SYS_CONTROLLER.name(), ToolRole::Controller),
];

/// Whether the server inside a tool reads this info.
pub(crate) fn is_server_option(name: &str) -> bool {
    let is_output = OutputStyle::is_directive(name) || name == keys::IOF_LOCAL_OUTPUT.name();
    is_output || OutputSettings::is_directive(name) || OF_SERVERS.contains(&name) || OWN_OPTIONS.contains(&name)
}

#[cfg(test)]
mod tests {
    use modex::runtime::attributes_of_library;
    use modex::types::{Info, Key};

    use super::*;
    use crate::to_c;

    /// Regression: a text without a meaning had a second line, which said that the value was of the wrong type.
    #[test]
    fn a_refused_value_has_one_line_in_the_log() {
        let values = [
            (FABRIC, Value::from("nosuch:file"), "no source of a fabric"),
            (EXCHANGE, Value::from("nonsense"), "nonsense"),
            (SECURITY, Value::from("nonsense"), "nonsense"),
            (FABRIC, Value::Uint32(1), "of a type that this key does not take"),
            (STORAGE, Value::from("x"), "of a type that this key does not take"),
        ];
        for (name, value, reason) in values {
            let log = tempfile::NamedTempFile::new().unwrap();
            let errors = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::ERROR);
            let errors = errors.with_writer(Arc::new(log.reopen().unwrap())).finish();
            let infos = to_c::infos(&[Info::new(Key::from_static(name), value)]).unwrap();
            let read = tracing::subscriber::with_default(errors, || Options::read(infos.whole(), true));
            assert!(read.is_err(), "{name}");
            let said = std::fs::read_to_string(log.path()).unwrap();
            assert!(said.lines().count() == 1 && said.contains(reason), "{said:?}");
        }
    }

    /// The list of supported attributes is in the library, and their code is here.
    #[test]
    fn a_server_takes_the_required_infos_of_the_list_alone() {
        let listed = attributes_of_library("PMIx_server_init");
        let topologies = [keys::TOPOLOGY.name(), keys::TOPOLOGY2.name()];
        let values = || [Value::from(true), Value::Uint32(1), Value::from("1")];
        let mut different = Vec::new();
        for attribute in keys::attributes() {
            let is_refused = |value: Value| {
                let key = Key::from_static(attribute.name);
                let infos = to_c::infos(&[Info { key, flags: InfoFlags::REQUIRED.bits(), value }]).unwrap();
                let read = Options::read(infos.whole(), true);
                read.is_err_and(|Failure(status)| status == Status::ERR_NOT_SUPPORTED)
            };
            let is_taken = !values().into_iter().all(is_refused);
            // Values of other types than that of a topology are refused.
            let is_listed = listed.contains(attribute.name) && !topologies.contains(&attribute.name);
            if is_taken != is_listed {
                different.push((attribute.macro_name, is_taken, is_listed));
            }
        }
        assert!(different.is_empty(), "taken, listed: {different:#?}");
        assert!(topologies.iter().all(|key| listed.contains(key)));
    }

    #[test]
    fn munge_is_asked_for_in_so_many_words() {
        assert_eq!(
            ["munge", "munge,native", "native"].map(|way| asks_for_munge(way).ok()),
            [Some(true), Some(true), Some(false)]
        );
        assert_eq!(asks_for_munge("kerberos").err().map(|Failure(status)| status), Some(Status::ERR_BAD_PARAM));
        assert_eq!(
            ["native,munge", "^munge", "^native,munge", "none"].map(|modules| names_module(modules, "munge")),
            [true, false, false, false]
        );
    }
}
