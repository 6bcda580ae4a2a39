//! Options of a server's TCP socket.

use modex::keys;
use modex::runtime::{
    DISABLE_IPV4, DISABLE_IPV6, IF_EXCLUDE, IF_INCLUDE, IPV4_PORTS, IPV6_PORTS, parameter_flag, parameter_ports,
    parameter_value,
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
    /// Whether an interface, or a port, is required. Both need a socket on which they have an effect.
    requires_interfaces: bool,
    requires_ipv4_port: bool,
    requires_ipv6_port: bool,
}

/// The fields of an option, and whether it is required.
enum TcpOption<'o> {
    Flag(&'o mut bool),
    Port(&'o mut Ports, &'o mut bool),
    Interfaces(&'o mut Option<String>, &'o mut bool),
    Remote(&'o mut bool, &'o mut bool),
}

impl TcpSettings {
    /// The settings of variables and files of parameters.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for ports that can't be read.
    pub(super) fn of_parameters() -> Result<Self, Failure> {
        let text = |name| parameter_value(name).map(|value| value.to_string_lossy().into_owned());
        let ports = |name| parameter_ports(name).map_err(|error| refused(&error));
        Ok(Self {
            is_ipv4_disabled: parameter_flag(DISABLE_IPV4).unwrap_or(false),
            is_ipv6_disabled: parameter_flag(DISABLE_IPV6).unwrap_or(false),
            ipv4_ports: ports(IPV4_PORTS)?,
            ipv6_ports: ports(IPV6_PORTS)?,
            included: text(IF_INCLUDE),
            excluded: text(IF_EXCLUDE),
            ..Self::default()
        })
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
        let Some(option) = self.option_mut(name) else { return Ok(false) };
        let value = from_c::value(value)?;
        let flag = || value.as_bool().ok_or(Failure(Status::ERR_BAD_PARAM));
        match option {
            TcpOption::Flag(field) => *field = flag()?,
            TcpOption::Remote(field, requires) => {
                *field = flag()?;
                *requires = *field && is_required;
            }
            TcpOption::Port(field, requires) => {
                *field = port(&value)?;
                *requires |= is_required;
            }
            TcpOption::Interfaces(field, requires) => {
                *field = Some(value.as_str().map(str::to_owned).ok_or(Failure(Status::ERR_BAD_PARAM))?);
                *requires |= is_required;
            }
        }
        Ok(true)
    }

    /// The fields of an option.
    fn option_mut(&mut self, name: &str) -> Option<TcpOption<'_>> {
        let interfaces = &mut self.requires_interfaces;
        Some(match name {
            DISABLES_IPV4 => TcpOption::Flag(&mut self.is_ipv4_disabled),
            DISABLES_IPV6 => TcpOption::Flag(&mut self.is_ipv6_disabled),
            IPV4_PORT => TcpOption::Port(&mut self.ipv4_ports, &mut self.requires_ipv4_port),
            IPV6_PORT => TcpOption::Port(&mut self.ipv6_ports, &mut self.requires_ipv6_port),
            INCLUDED => TcpOption::Interfaces(&mut self.included, interfaces),
            EXCLUDED => TcpOption::Interfaces(&mut self.excluded, interfaces),
            REMOTE => TcpOption::Remote(&mut self.is_remote, &mut self.requires_remote),
            _ => return None,
        })
    }

    /// The builder with these options.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for interfaces that can't be read, `ERR_NOT_SUPPORTED` for required options without effect.
    pub(super) fn applied_to(self, builder: ServerBuilder) -> Result<ServerBuilder, Failure> {
        let is_without_effect = self.requires_interfaces && !self.is_remote
            || self.requires_ipv4_port && self.is_ipv4_disabled
            || self.requires_ipv6_port && self.is_ipv6_disabled;
        if is_without_effect {
            tracing::error!("the PMIx server can't be started: a required port or interface has no effect");
            return Err(Failure(Status::ERR_NOT_SUPPORTED));
        }
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
    text.parse().map_err(|error| refused(&error))
}

fn refused(error: &dyn std::error::Error) -> Failure {
    tracing::error!(%error, "the PMIx server can't be started");
    Failure(Status::ERR_BAD_PARAM)
}

const DISABLES_IPV4: &str = keys::TCP_DISABLE_IPV4.name();
const DISABLES_IPV6: &str = keys::TCP_DISABLE_IPV6.name();
const IPV4_PORT: &str = keys::TCP_IPV4_PORT.name();
const IPV6_PORT: &str = keys::TCP_IPV6_PORT.name();
const INCLUDED: &str = keys::TCP_IF_INCLUDE.name();
const EXCLUDED: &str = keys::TCP_IF_EXCLUDE.name();
const REMOTE: &str = keys::SERVER_REMOTE_CONNECTIONS.name();

#[cfg(test)]
mod tests {
    use modex::Server;
    use modex::types::{Info, InfoFlags, Key};

    use super::*;
    use crate::to_c;

    /// The status of a server with these options, all required.
    fn status(options: &[(&'static str, Value)]) -> Status {
        let mut settings = TcpSettings::default();
        for (name, value) in options {
            let info = Info { key: Key::from_static(name), flags: InfoFlags::REQUIRED.bits(), value: value.clone() };
            let infos = to_c::infos(&[info]).unwrap();
            let taken = infos.whole().iter().try_for_each(|info| settings.take(name, info.value(), true).map(drop));
            if let Err(Failure(status)) = taken {
                return status;
            }
        }
        settings.applied_to(Server::builder()).map_or_else(|Failure(status)| status, |_| Status::SUCCESS)
    }

    #[test]
    fn required_options_have_an_effect_or_are_refused() {
        let (include, port) = (keys::TCP_IF_INCLUDE.name(), keys::TCP_IPV4_PORT.name());
        let (remote, no_ipv4) = (keys::SERVER_REMOTE_CONNECTIONS.name(), keys::TCP_DISABLE_IPV4.name());
        let on = || Value::from(true);
        assert_eq!(status(&[(include, "eth0".into())]), Status::ERR_NOT_SUPPORTED);
        assert_eq!(status(&[(include, "eth0".into()), (remote, on())]), Status::SUCCESS);
        assert_eq!(status(&[(include, "10.0.0.0/99".into()), (remote, on())]), Status::ERR_BAD_PARAM);
        assert_eq!(status(&[(port, Value::Int(5000))]), Status::SUCCESS);
        assert_eq!(status(&[(port, Value::Int(-1))]), Status::SUCCESS);
        assert_eq!(status(&[(port, "5000-5010,6000".into())]), Status::SUCCESS);
        assert_eq!(status(&[(port, Value::Int(70_000))]), Status::ERR_BAD_PARAM);
        assert_eq!(status(&[(port, Value::Int(5000)), (no_ipv4, on())]), Status::ERR_NOT_SUPPORTED);
    }
}
