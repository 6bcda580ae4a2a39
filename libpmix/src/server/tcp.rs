//! Options of a server's TCP socket.

use modex::keys;
use modex::runtime::{
    DISABLE_IPV4, DISABLE_IPV6, IF_EXCLUDE, IF_INCLUDE, IPV4_PORTS, IPV6_PORTS, parameter_flag, parameter_value,
};
use modex::types::{Status, Value};
use modex::{ForeignClients, Interfaces, Ports, ServerBuilder};

use crate::form::Whole;
use crate::guard::Failure;
use crate::types::pmix_value_t;
use crate::{from_c, munge};

/// The options: parameters first, then the host's infos.
#[derive(Default)]
pub(super) struct TcpSettings {
    is_ipv4_disabled: bool,
    is_ipv6_disabled: bool,
    ipv4_ports: Ports,
    ipv6_ports: Ports,
    included: Option<String>,
    excluded: Option<String>,
    /// Whether processes on other machines may connect.
    is_remote: bool,
    /// Whether the server does not start without.
    requires_remote: bool,
}

impl TcpSettings {
    /// The settings of variables and files of parameters.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for ports that can't be read.
    pub(super) fn of_parameters() -> Result<Self, Failure> {
        let text = |name| parameter_value(name).map(|value| value.to_string_lossy().into_owned());
        let ports = |name| text(name).map_or_else(|| Ok(Ports::default()), |text| ports(&text));
        Ok(Self {
            is_ipv4_disabled: parameter_flag(DISABLE_IPV4).unwrap_or(false),
            is_ipv6_disabled: parameter_flag(DISABLE_IPV6).unwrap_or(false),
            ipv4_ports: ports(IPV4_PORTS)?,
            ipv6_ports: ports(IPV6_PORTS)?,
            included: text(IF_INCLUDE),
            excluded: text(IF_EXCLUDE),
            is_remote: false,
            requires_remote: false,
        })
    }

    pub(super) fn is_option(name: &str) -> bool {
        OPTIONS.contains(&name)
    }

    /// Takes an info. Returns whether it is one of these options.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a value that can't be read.
    pub(super) fn take(
        &mut self,
        name: &str,
        value: Whole<'_, pmix_value_t>,
        is_required: bool,
    ) -> Result<bool, Failure> {
        if !Self::is_option(name) {
            return Ok(false);
        }
        let value = from_c::value(value)?;
        let flag = || value.as_bool().ok_or(Failure(Status::ERR_BAD_PARAM));
        let text = || value.as_str().map(str::to_owned).ok_or(Failure(Status::ERR_BAD_PARAM));
        if name == keys::TCP_DISABLE_IPV4.name() {
            self.is_ipv4_disabled = flag()?;
        } else if name == keys::TCP_DISABLE_IPV6.name() {
            self.is_ipv6_disabled = flag()?;
        } else if name == keys::TCP_IPV4_PORT.name() {
            self.ipv4_ports = port(&value)?;
        } else if name == keys::TCP_IPV6_PORT.name() {
            self.ipv6_ports = port(&value)?;
        } else if name == keys::TCP_IF_INCLUDE.name() {
            self.included = Some(text()?);
        } else if name == keys::TCP_IF_EXCLUDE.name() {
            self.excluded = Some(text()?);
        } else {
            self.is_remote = flag()?;
            self.requires_remote = self.is_remote && is_required;
        }
        Ok(true)
    }

    /// The builder with these options.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for interfaces that can't be read.
    pub(super) fn applied_to(self, builder: ServerBuilder) -> Result<ServerBuilder, Failure> {
        let clients = match (self.is_ipv4_disabled, self.is_ipv6_disabled) {
            (false, false) => ForeignClients::Welcome,
            (false, true) => ForeignClients::OverIpv4,
            (true, false) => ForeignClients::OverIpv6,
            (true, true) => ForeignClients::Refused,
        };
        let builder = builder.foreign_clients(clients).tcp_ports(self.ipv4_ports, self.ipv6_ports);
        let names_interfaces = self.included.is_some() || self.excluded.is_some();
        let (included, excluded) = (self.included.unwrap_or_default(), self.excluded.unwrap_or_default());
        let interfaces = Interfaces::parse(&included, &excluded).map_err(|error| refused(&error))?;
        if self.is_remote {
            return Ok(builder.prover(munge::prover()).remote_connections(interfaces, self.requires_remote));
        }
        if names_interfaces {
            tracing::info!(
                "the server listens on the loopback interface alone; its list of interfaces has an effect with \
                 PMIX_SERVER_REMOTE_CONNECTIONS"
            );
        }
        Ok(builder)
    }
}

fn port(value: &Value) -> Result<Ports, Failure> {
    let text = match value {
        Value::String(text) => text.to_string_lossy(),
        // The type of the attribute; -1 is any port.
        Value::Int(port) => port.to_string(),
        value => value.as_u64().ok_or(Failure(Status::ERR_BAD_PARAM))?.to_string(),
    };
    ports(&text)
}

fn ports(text: &str) -> Result<Ports, Failure> {
    text.parse().map_err(|error| refused(&error))
}

fn refused(error: &dyn std::error::Error) -> Failure {
    tracing::error!(%error, "the PMIx server can't be started");
    Failure(Status::ERR_BAD_PARAM)
}

const OPTIONS: [&str; 7] = [
    keys::TCP_DISABLE_IPV4.name(),
    keys::TCP_DISABLE_IPV6.name(),
    keys::TCP_IPV4_PORT.name(),
    keys::TCP_IPV6_PORT.name(),
    keys::TCP_IF_INCLUDE.name(),
    keys::TCP_IF_EXCLUDE.name(),
    keys::SERVER_REMOTE_CONNECTIONS.name(),
];
