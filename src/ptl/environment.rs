use std::ffi::OsStr;

use crate::proto::Version;
use crate::types::{Namespace, NamespaceError, ProcId};

use super::address::parse_rank;
use super::{AddressError, ServerAddress};

/// What a server tells its clients through their environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEnvironment {
    /// Where the server listens and who it is.
    pub address: ServerAddress,
    /// Directory for the files of the session.
    pub session_tmpdir: String,
    /// Directory for the files of the node.
    pub system_tmpdir: String,
    /// The server's name for its node.
    pub hostname: String,
}

/// What a client learns from its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientEnvironment {
    /// The process's own name.
    pub proc: ProcId,
    /// Its server.
    pub server: ServerAddress,
    /// The server's name for this node, if it told.
    pub hostname: Option<String>,
}

/// Why the environment does not lead to a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// No launcher at work.
    #[error("{NAMESPACE} is not set: this process was not started by a PMIx launcher; start it with one, or run alone")]
    NotLaunched,
    /// A launcher was at work, but its server does not offer what we speak.
    #[error(
        "{NAMESPACE} is {namespace} but {SERVER_URI} is not set: the launcher started no modex server; \
         use a launcher built on modex, or load the library that belongs to this one"
    )]
    NoServer {
        /// The namespace the launcher gave.
        namespace: Namespace,
    },
    /// A variable that belongs to the others is missing.
    #[error("{variable} is not set although {NAMESPACE} is; the launcher must set both")]
    Missing {
        /// Which.
        variable: &'static str,
    },
    /// A variable is not UTF-8.
    #[error("{variable} is not UTF-8; unset it or start the process through its launcher again")]
    NotText {
        /// Which.
        variable: &'static str,
    },
    /// The namespace is not one.
    #[error("{NAMESPACE} is not a namespace: {0}")]
    Namespace(NamespaceError),
    /// The rank is not the number of a process.
    #[error("{RANK} is {text:?}, which is not the decimal number of a process")]
    Rank {
        /// The value.
        text: String,
    },
    /// The server's address can't be read.
    #[error("{SERVER_URI} can't be used: {0}")]
    Address(AddressError),
    /// The server demands a way to prove identity that we do not have.
    #[error("{SECURITY_MODE} is {modes:?}; this client knows only \"{NATIVE}\"")]
    Security {
        /// The value.
        modes: String,
    },
}

/// Address of a modex server. Foreign libraries ignore it; they use the reference's own variables.
const SERVER_URI: &str = "MODEX_SERVER_URI";
const NAMESPACE: &str = "PMIX_NAMESPACE";
const RANK: &str = "PMIX_RANK";
const SECURITY_MODE: &str = "PMIX_SECURITY_MODE";
const NATIVE: &str = "native";
const HOSTNAME: &str = "PMIX_HOSTNAME";

/// Variables that only a server writes: ours derive nothing from them, foreign libraries do.
const BUFFER_TYPE: (&str, &str) = ("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC");
/// Keeps foreign clients off shared-memory stores whose format is private to one release of the reference.
const STORE: (&str, &str) = ("PMIX_GDS_MODULE", "hash");
/// [`Version::OWN`].
const VERSION: &str = "PMIX_VERSION";

impl ServerEnvironment {
    /// The variables for one process.
    #[must_use]
    pub fn variables(&self, proc: &ProcId) -> Vec<(String, String)> {
        let own = [
            (NAMESPACE, proc.namespace.to_string()),
            (RANK, proc.rank.to_raw().to_string()),
            (SERVER_URI, self.address.to_string()),
            (SECURITY_MODE, NATIVE.to_owned()),
            ("PMIX_SERVER_TMPDIR", self.session_tmpdir.clone()),
            ("PMIX_SYSTEM_TMPDIR", self.system_tmpdir.clone()),
            (HOSTNAME, self.hostname.clone()),
            (VERSION, Version::OWN.to_string()),
        ];
        let fixed = [BUFFER_TYPE, STORE].map(|(name, value)| (name, value.to_owned()));
        own.into_iter().chain(fixed).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl ClientEnvironment {
    /// Reads the variables, all others are ignored. Of a variable given twice the last counts.
    ///
    /// # Errors
    /// [`EnvironmentError`], which names the variable at fault.
    pub fn parse<N, V>(variables: impl IntoIterator<Item = (N, V)>) -> Result<Self, EnvironmentError>
    where
        N: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        let found = Found::pick(variables)?;
        let namespace = found.namespace.ok_or(EnvironmentError::NotLaunched)?;
        let namespace = Namespace::new(&namespace).map_err(EnvironmentError::Namespace)?;
        let rank = found.rank.ok_or(EnvironmentError::Missing { variable: RANK })?;
        let rank = parse_rank(&rank).ok_or(EnvironmentError::Rank { text: rank })?;
        let Some(uri) = found.server_uri else {
            return Err(EnvironmentError::NoServer { namespace });
        };
        if let Some(modes) = found.security_mode.filter(|modes| modes.split(',').all(|mode| mode != NATIVE)) {
            return Err(EnvironmentError::Security { modes });
        }
        let server = uri.parse().map_err(EnvironmentError::Address)?;
        Ok(Self { proc: ProcId { namespace, rank }, server, hostname: found.hostname })
    }
}

/// The variables that matter, as text.
#[derive(Default)]
struct Found {
    namespace: Option<String>,
    rank: Option<String>,
    server_uri: Option<String>,
    security_mode: Option<String>,
    hostname: Option<String>,
}

impl Found {
    fn pick<N, V>(variables: impl IntoIterator<Item = (N, V)>) -> Result<Self, EnvironmentError>
    where
        N: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        let mut found = Self::default();
        for (name, value) in variables {
            let (variable, slot) = match name.as_ref().to_str() {
                Some(NAMESPACE) => (NAMESPACE, &mut found.namespace),
                Some(RANK) => (RANK, &mut found.rank),
                Some(SERVER_URI) => (SERVER_URI, &mut found.server_uri),
                Some(SECURITY_MODE) => (SECURITY_MODE, &mut found.security_mode),
                Some(HOSTNAME) => (HOSTNAME, &mut found.hostname),
                _ => continue,
            };
            let text = value.as_ref().to_str().ok_or(EnvironmentError::NotText { variable })?;
            *slot = Some(text.to_owned());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ServerEnvironment {
        ServerEnvironment {
            address: "srv.0;unix:/tmp/d/s".parse().unwrap(),
            session_tmpdir: "/tmp/session".to_owned(),
            system_tmpdir: "/tmp".to_owned(),
            hostname: "node1".to_owned(),
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
        assert_eq!(client.server, server().address);
        assert_eq!(client.hostname.as_deref(), Some("node1"));
    }

    #[test]
    fn no_launcher_and_a_launcher_without_server_are_told_apart() {
        assert_eq!(ClientEnvironment::parse(without(NAMESPACE)), Err(EnvironmentError::NotLaunched));
        let namespace = Namespace::new("job").unwrap();
        assert_eq!(ClientEnvironment::parse(without(SERVER_URI)), Err(EnvironmentError::NoServer { namespace }));
    }

    #[test]
    fn a_garbled_variable_is_named() {
        for (name, value) in [
            (NAMESPACE, ""),
            (RANK, "-1"),
            (RANK, "4294967294"),
            (RANK, ""),
            (SERVER_URI, "srv.0"),
            (SECURITY_MODE, "munge"),
        ] {
            let error = ClientEnvironment::parse(with(name, value)).unwrap_err();
            assert!(error.to_string().contains(name), "{name}={value:?}: {error}");
        }
        assert_eq!(ClientEnvironment::parse(without(RANK)), Err(EnvironmentError::Missing { variable: RANK }));
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
        assert!(ClientEnvironment::parse(with(SECURITY_MODE, "munge,native")).is_ok());
    }
}
