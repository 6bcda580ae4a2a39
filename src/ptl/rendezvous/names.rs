use crate::types::Namespace;

use super::RendezvousError;

/// Names of the rendezvous files on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    hostname: String,
}

impl Names {
    /// Names for the node `hostname`.
    ///
    /// # Errors
    /// [`RendezvousError::Name`]: no file name can hold it.
    pub fn new(hostname: &str) -> Result<Self, RendezvousError> {
        Ok(Self { hostname: checked(hostname)?.to_owned() })
    }

    /// File of the node's one system server, in the system's temporary directory.
    #[must_use]
    pub fn system(&self) -> String {
        format!("pmix.sys.{}", self.hostname)
    }

    /// File of the scheduler, in the system's temporary directory.
    #[must_use]
    pub fn scheduler(&self) -> String {
        format!("pmix.sched.{}", self.hostname)
    }

    /// File of the system controller, in the system's temporary directory.
    #[must_use]
    pub fn controller(&self) -> String {
        format!("pmix.sysctrlr.{}", self.hostname)
    }

    /// File of a session's server, in the session's directory. The other two names begin with it.
    #[must_use]
    pub fn session(&self) -> String {
        format!("pmix.{}.tool", self.hostname)
    }

    /// File of the server with this pid.
    #[must_use]
    pub fn of_pid(&self, pid: u32) -> String {
        format!("{}.{pid}", self.session())
    }

    /// File of the server with this namespace.
    ///
    /// # Errors
    /// [`RendezvousError::Name`]: no file name can hold it.
    pub fn of_namespace(&self, namespace: &Namespace) -> Result<String, RendezvousError> {
        Ok(format!("{}.{}", self.session(), checked(namespace.as_str())?))
    }

    /// Whether a file of this name belongs to any server of the node that admits tools.
    #[must_use]
    pub fn is_tool_file(&self, name: &str) -> bool {
        let session = self.session();
        name.strip_prefix(&session).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// Checks that a name stays in its directory and is not hidden. A `;` ends the name in an address.
fn checked(part: &str) -> Result<&str, RendezvousError> {
    let is_name = !part.is_empty() && part.len() <= PART_BYTES_MAX && !part.contains(['/', ';', '\0', '\n']);
    if is_name { Ok(part) } else { Err(RendezvousError::Name { part: part.to_owned() }) }
}

/// File names may have 255 bytes; the text around the part has at most 80.
const PART_BYTES_MAX: usize = 175;
