use std::ffi::OsStr;

use crate::bfrops::Generation;
use crate::proto::Version;
use crate::types::{Namespace, NamespaceError, ProcId};

use super::address::parse_rank;
use super::{AddressError, ModexAddress, ServerAddress};

/// Values that a server passes to its clients through their environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEnvironment {
    /// The server's name and its sockets.
    pub address: ModexAddress,
    /// Directory for the files of the session.
    pub session_tmpdir: String,
    /// Directory for the files of the node.
    pub system_tmpdir: String,
    /// The server's name for its node.
    pub hostname: String,
    /// Addresses of a later release that the server found in its own environment. They belong to an outer job, and a
    /// client that inherited them would prefer them. See [`ServerEnvironment::find_leftovers`].
    pub leftovers: Vec<&'static str>,
    /// Whether clients may prove themselves by munge; they prefer it.
    pub offers_munge: bool,
}

/// Values that a client learns from its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientEnvironment {
    /// The process's own name.
    pub proc: ProcId,
    /// Its server.
    pub server: ServerOffer,
    /// The same server over TCP, if [`ClientEnvironment::server`] is its UNIX-domain socket: a container may share the
    /// node's network but not its files.
    pub fallback: Option<ServerAddress>,
    /// The server's name for this node, if given.
    pub hostname: Option<String>,
}

/// A server, and its protocol choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOffer {
    /// The server's name and place.
    pub address: ServerAddress,
    /// The encoding that belongs to the variable the address was found in.
    pub codec: Generation,
    /// Its release, if given.
    pub version: Option<Version>,
    /// Proofs of identity that the server accepts, best first; there is at least one.
    pub proofs: Vec<Proof>,
}

/// A client's proof of identity to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// User and group of the process.
    Native,
    /// A credential made by munge.
    Munge,
    /// No proof.
    None,
}

/// Reason why the environment does not lead to a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// No launcher started this process.
    #[error("{NAMESPACE} is not set: this process was not started by a PMIx launcher; start it with one, or run alone")]
    NotLaunched,
    /// A launcher started this process, but its server offers no protocol that we speak.
    #[error(
        "{NAMESPACE} is {namespace} but neither {SERVER_URI} nor any of PMIX_SERVER_URI41, 4, 3, 21, 61 and 51 is set: \
         the launcher started no server of release 3 or later; use its own library, or another launcher"
    )]
    NoServer {
        /// The namespace that the launcher gave.
        namespace: Namespace,
    },
    /// A variable that belongs to the others is missing, or an address is empty.
    #[error("{variable} is not set, or empty, although {NAMESPACE} is set; pass on everything that the launcher sets")]
    Missing {
        /// The variable.
        variable: &'static str,
    },
    /// A variable is not UTF-8.
    #[error("{variable} is not UTF-8; unset it or start the process through its launcher again")]
    NotText {
        /// The variable.
        variable: &'static str,
    },
    /// The namespace is invalid.
    #[error("{NAMESPACE} is not a namespace: {0}")]
    Namespace(NamespaceError),
    /// The rank names no single process.
    #[error("{RANK} is {text:?}, which is not the decimal number of a process")]
    Rank {
        /// The value.
        text: String,
    },
    /// The server's address can't be read.
    #[error("{variable} can't be used: {source}")]
    Address {
        /// The variable that held it.
        variable: &'static str,
        /// The error in it.
        source: AddressError,
    },
    /// The server demands a proof of identity that we do not have.
    #[error(
        "{SECURITY_MODE} is {modes:?}; this client knows only \"{NATIVE}\" and \"{NO_SECURITY}\", and in the C library \"{MUNGE}\""
    )]
    Security {
        /// The value.
        modes: String,
    },
}

/// Address of a modex server. Foreign libraries ignore it; they use the reference's own variables.
const SERVER_URI: &str = "MODEX_SERVER_URI";
/// Copy of the TCP address that the same server wrote into the reference's variables; see [`ClientEnvironment::parse`].
const SERVER_TCP: &str = "MODEX_SERVER_TCP";
/// The reference's own variables with their encodings, in our order of search. The variable that most releases speak
/// comes first, the newest last. (No server offers v20 alone, which we do not speak.)
const FOREIGN_URIS: [(&str, Generation); 6] = [
    ("PMIX_SERVER_URI41", Generation::V41),
    ("PMIX_SERVER_URI4", Generation::V4),
    ("PMIX_SERVER_URI3", Generation::V3),
    ("PMIX_SERVER_URI21", Generation::V3),
    ("PMIX_SERVER_URI61", Generation::V61),
    ("PMIX_SERVER_URI51", Generation::V51),
];
/// Variables that our servers write, and whether release 3.2 reads them. Release 3.2 ends a server's name at the first
/// dot. With these, 4.x and all later releases speak v41, 3.2 speaks v3.
const WRITTEN_URIS: [(&str, bool); 5] = [
    ("PMIX_SERVER_URI41", false),
    ("PMIX_SERVER_URI4", false),
    ("PMIX_SERVER_URI3", true),
    ("PMIX_SERVER_URI21", true),
    ("PMIX_SERVER_URI2", true),
];
/// Variables that 6.x prefers to those above. We write them only over inherited ones.
const LATER_URIS: [&str; 2] = ["PMIX_SERVER_URI61", "PMIX_SERVER_URI51"];
/// The beginning of the name of the server in `modex run`. Its process number follows.
pub const LAUNCHER_PREFIX: &str = "modex-run-";
/// The variables by which a tool names the server inside a launcher that it starts: namespace and rank.
pub const LAUNCHER_SERVER_NAME: [&str; 2] = ["PMIX_SERVER_NSPACE", "PMIX_SERVER_RANK"];
const NAMESPACE: &str = "PMIX_NAMESPACE";
const RANK: &str = "PMIX_RANK";
const SECURITY_MODE: &str = "PMIX_SECURITY_MODE";
const NATIVE: &str = "native";
const MUNGE: &str = "munge";
const NO_SECURITY: &str = "none";
const HOSTNAME: &str = "PMIX_HOSTNAME";

/// Variables that only a server writes: our clients ignore them, foreign libraries read them.
const BUFFER_TYPE: (&str, &str) = ("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC");
/// Keeps foreign clients off shared-memory stores whose format is private to one release of the reference.
const STORE: (&str, &str) = ("PMIX_GDS_MODULE", "hash");
/// The release of the server. Only clients of OpenPMIx look at it.
const VERSION: &str = "PMIX_VERSION";
/// The release that our servers announce there. Clients of release 7 delete keys at servers from 7 on alone. No other
/// client compares it with a number above 4.2.
const ANNOUNCED: Version = Version::new(7, 0, 0);

impl ServerEnvironment {
    /// Variables that a process must not inherit from an outer job or from a user's settings for another library. They
    /// would lead a foreign client to another server's sockets and files, or make it offer unusable modules.
    pub const REMOVED: [&str; 12] = [
        "PMIX_SERVER_URI20",
        "PMIX_SERVER_URI12",
        "PMIX_SERVER_URI2USOCK",
        "PMIX_SERVER_URI",
        "PMIX_DSTORE_21_BASE_PATH",
        "PMIX_DSTORE_ESH_BASE_PATH",
        "PMIX_PTL_MODULE",
        "PMIX_MCA_ptl",
        "PMIX_MCA_gds",
        "PMIX_MCA_psec",
        "PMIX_MCA_bfrops",
        "PMIX_MCA_psquash",
    ];

    /// Whether a server writes or removes the variable for its processes. A launcher that is itself a process of a job
    /// must not forward such a variable.
    #[must_use]
    pub fn is_of_server(name: &OsStr) -> bool {
        let fixed = [NAMESPACE, RANK, SERVER_URI, SERVER_TCP, SECURITY_MODE, HOSTNAME, VERSION, BUFFER_TYPE.0, STORE.0];
        let directories = ["PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR"];
        let mut known = fixed.into_iter().chain(directories).chain(Self::REMOVED).chain(LATER_URIS);
        known.any(|known| name == known) || WRITTEN_URIS.iter().any(|(known, _)| name == *known)
    }

    /// Address that tools of every library use, in the form `<namespace>.<rank>;<place>`.
    #[must_use]
    pub fn uri(&self) -> String {
        self.address.tcp().unwrap_or_else(|| self.address.unix()).to_string()
    }

    /// The variables for one process. Without a TCP address the reference's own variables are present but empty.
    /// Otherwise those of an outer job would lead foreign clients to its server, which does not know them.
    #[must_use]
    pub fn variables(&self, proc: &ProcId) -> Vec<(String, String)> {
        let own = [
            (NAMESPACE, proc.namespace.to_string()),
            (RANK, proc.rank.to_raw().to_string()),
            (SERVER_URI, self.address.unix().to_string()),
            (SECURITY_MODE, if self.offers_munge { format!("{MUNGE},{NATIVE}") } else { NATIVE.to_owned() }),
            ("PMIX_SERVER_TMPDIR", self.session_tmpdir.clone()),
            ("PMIX_SYSTEM_TMPDIR", self.system_tmpdir.clone()),
            (HOSTNAME, self.hostname.clone()),
            (VERSION, ANNOUNCED.to_string()),
        ];
        let fixed = [BUFFER_TYPE, STORE].map(|(name, value)| (name, value.to_owned()));
        let (address, short) = self.foreign_addresses();
        let written = WRITTEN_URIS.map(|(name, is_short)| (name, if is_short { &short } else { &address }.clone()));
        let binding = [(SERVER_TCP, address.clone())];
        let leftovers = self.leftovers.iter().map(|name| (*name, address.clone()));
        let all = own.into_iter().chain(fixed).chain(binding).chain(written).chain(leftovers);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The variables in an environment that our servers do not write but a client may prefer.
    pub fn find_leftovers<N: AsRef<OsStr>, V>(environment: impl IntoIterator<Item = (N, V)>) -> Vec<&'static str> {
        let names = environment
            .into_iter()
            .filter_map(|(found, _)| LATER_URIS.into_iter().find(|name| found.as_ref() == OsStr::new(name)));
        names.collect()
    }

    /// The address for clients of other libraries, and its form for releases that take the server's name to end at the
    /// first dot.
    fn foreign_addresses(&self) -> (String, String) {
        let text = |address: Option<ServerAddress>| address.map(|address| address.to_string()).unwrap_or_default();
        (text(self.address.tcp()), text(self.address.tcp().map(without_dots)))
    }
}

/// Release 3.2 only shows this name; it never sends it back.
fn without_dots(address: ServerAddress) -> ServerAddress {
    let ServerAddress { server, endpoint } = address;
    let namespace = Namespace::new(&server.namespace.as_str().replace('.', "_")).unwrap_or(server.namespace);
    ServerAddress { server: ProcId { namespace, rank: server.rank }, endpoint }
}

impl ClientEnvironment {
    /// Reads the variables and ignores all others. The last value of a repeated variable counts; an empty address
    /// counts as none.
    ///
    /// A client reaches our server over its UNIX-domain socket, unless another server started the process since. A
    /// foreign server inside our job writes its own addresses and leaves ours unchanged. So the reference's variables,
    /// if set, must hold the address in `MODEX_SERVER_TCP`; otherwise they lead to the server. Damage to our two
    /// variables is an error, even if the reference's lead to the server. Over TCP the process would lose the job's
    /// shared memory and be slow without a visible reason.
    ///
    /// # Errors
    /// [`EnvironmentError`], which names the variable at fault.
    pub fn parse<N, V>(variables: impl IntoIterator<Item = (N, V)>) -> Result<Self, EnvironmentError>
    where
        N: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        let found = Found::pick(variables)?;
        let text = |name| found.text(name);
        let proc = found.name()?;
        let Some((address, codec, fallback)) = found.server()? else {
            return Err(EnvironmentError::NoServer { namespace: proc.namespace });
        };
        let proofs = text(SECURITY_MODE).map_or_else(|| Ok(vec![Proof::Native]), proofs)?;
        // Only our own servers have a second address.
        let version = match fallback {
            Some(_) => Some(Version::OWN),
            None => text(VERSION).map(|version| Version::parse(version.as_bytes())),
        };
        let hostname = text(HOSTNAME).map(str::to_owned);
        Ok(Self { proc, server: ServerOffer { address, codec, version, proofs }, fallback, hostname })
    }

    /// Reads only the process's name.
    ///
    /// # Errors
    /// [`EnvironmentError`], which names the variable at fault.
    pub fn parse_name<N, V>(variables: impl IntoIterator<Item = (N, V)>) -> Result<ProcId, EnvironmentError>
    where
        N: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        let of_name =
            variables.into_iter().filter(|(name, _)| [NAMESPACE, RANK].iter().any(|own| name.as_ref() == *own));
        Found::pick(of_name)?.name()
    }
}

impl ServerOffer {
    /// Leaves only the proofs that work without munge.
    ///
    /// # Errors
    /// [`EnvironmentError::Security`]: no proof is left.
    pub fn without_munge(self) -> Result<Self, EnvironmentError> {
        let proofs: Vec<Proof> = self.proofs.iter().copied().filter(|proof| *proof != Proof::Munge).collect();
        if proofs.is_empty() {
            Err(EnvironmentError::Security { modes: MUNGE.to_owned() })
        } else {
            Ok(Self { proofs, ..self })
        }
    }
}

/// The proofs of a server's list that are known here.
fn proofs(modes: &str) -> Result<Vec<Proof>, EnvironmentError> {
    let known = modes.split(',').filter_map(|mode| match mode.trim() {
        NATIVE => Some(Proof::Native),
        MUNGE => Some(Proof::Munge),
        NO_SECURITY => Some(Proof::None),
        _ => None,
    });
    let known: Vec<Proof> = known.collect();
    if known.is_empty() { Err(EnvironmentError::Security { modes: modes.to_owned() }) } else { Ok(known) }
}

/// A server, the encoding to use, and another way to the same server.
type Choice = (ServerAddress, Generation, Option<ServerAddress>);

/// The variables that matter, as they were found.
#[derive(Default)]
struct Found(Vec<(&'static str, String)>);

impl Found {
    fn pick<N, V>(variables: impl IntoIterator<Item = (N, V)>) -> Result<Self, EnvironmentError>
    where
        N: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        let mut found = Self::default();
        for (name, value) in variables {
            let own = [NAMESPACE, RANK, SERVER_URI, SERVER_TCP, SECURITY_MODE, HOSTNAME, VERSION];
            let known = own.into_iter().chain(FOREIGN_URIS.map(|(name, _)| name));
            let Some(variable) = known.into_iter().find(|known| name.as_ref() == OsStr::new(known)) else { continue };
            let text = value.as_ref().to_str().ok_or(EnvironmentError::NotText { variable })?;
            found.0.retain(|(name, _)| *name != variable);
            found.0.push((variable, text.to_owned()));
        }
        Ok(found)
    }

    fn text(&self, variable: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| *name == variable).map(|(_, text)| text.as_str())
    }

    fn name(&self) -> Result<ProcId, EnvironmentError> {
        let namespace = self.text(NAMESPACE).ok_or(EnvironmentError::NotLaunched)?;
        let namespace = Namespace::new(namespace).map_err(EnvironmentError::Namespace)?;
        let rank = self.text(RANK).ok_or(EnvironmentError::Missing { variable: RANK })?;
        let rank = parse_rank(rank).ok_or_else(|| EnvironmentError::Rank { text: rank.to_owned() })?;
        Ok(ProcId { namespace, rank })
    }

    /// The server to connect to, the encoding to use, and another way to the same server.
    fn server(&self) -> Result<Option<Choice>, EnvironmentError> {
        let foreign = FOREIGN_URIS.into_iter().find_map(|(name, codec)| Some((name, codec, self.address(name)?)));
        let own = self.address(SERVER_URI).transpose()?;
        let binding = self.address(SERVER_TCP).transpose()?;
        let Some((_, codec, foreign)) = foreign else { return Ok(own.map(|own| (own, Generation::V41, None))) };
        let foreign = foreign?;
        // An empty value means that there is no TCP. Our own servers always write the variable.
        if own.is_some() && self.text(SERVER_TCP).is_none() {
            return Err(EnvironmentError::Missing { variable: SERVER_TCP });
        }
        let is_ours = binding.is_some_and(|binding| binding == foreign || without_dots(binding) == foreign);
        Ok(Some(match own {
            Some(own) if is_ours => (own, Generation::V41, Some(foreign)),
            None if is_ours => return Err(EnvironmentError::Missing { variable: SERVER_URI }),
            _ => (foreign, codec, None),
        }))
    }

    /// The address in a variable; an empty one is none.
    fn address(&self, variable: &'static str) -> Option<Result<ServerAddress, EnvironmentError>> {
        let text = self.text(variable).filter(|text| !text.is_empty())?;
        Some(text.parse().map_err(|source| EnvironmentError::Address { variable, source }))
    }
}

#[cfg(test)]
mod tests;
