//! The setup of jobs on the nodes, before their processes start.

use std::sync::Arc;

use super::server::Server;
use crate::gds::registration::RegisterError;
use crate::runtime::{self, EnvironmentChange, JobSetup, SetupError};
use crate::types::{Info, Namespace};

impl Server {
    /// Adds data that belong to no job. They become part of the description of every namespace registered from now on;
    /// the description's own values take precedence. An array that names a job (`PMIX_NSPACE`, `PMIX_PROCID` or
    /// `PMIX_JOBID`) is for that job alone. A resource that contradicts a job's own description is left out for that
    /// job.
    ///
    /// ```
    /// use modex::registration::JobDescription;
    /// use modex::types::{Info, Key, Namespace, ProcId, Rank};
    /// use modex::{LocalHost, Server};
    ///
    /// let server = Server::builder().start(LocalHost)?;
    /// server.register_resources(vec![Info::new(Key::new("site.rack")?, "r7")])?;
    /// let job = Namespace::new("job-1")?;
    /// server.register_namespace(&job, 0, JobDescription::new(&job).build()?).wait()?;
    /// let of_job = ProcId { namespace: job, rank: Rank::Wildcard };
    /// let found = server.get(&of_job, Some(&Key::new("site.rack")?), Vec::new()).wait()?;
    /// assert_eq!(found[0].value.as_str(), Some("r7"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Source: PMIx Standard, `PMIx_server_register_resources`.
    ///
    /// # Errors
    /// [`RegisterError`] for values of wrong types, for contradictions within the data or with earlier resources, and
    /// for names of jobs outside arrays. A value that can't be stored (nested too deep, too large) fails at the first
    /// job.
    pub fn register_resources(&self, resources: Vec<Info>) -> Result<(), RegisterError> {
        self.jobs().register_resources(resources)
    }

    /// Removes data of [`Server::register_resources`]: under these keys, of a node that an array names, or of the
    /// device that a lone `PMIX_DEVICE_ID` names. Jobs already registered keep their copy.
    ///
    /// Source: PMIx Standard, `PMIx_server_deregister_resources`.
    pub fn deregister_resources(&self, resources: &[Info]) {
        self.jobs().deregister_resources(resources);
    }

    /// Collects the infos that the servers of a job's nodes need for [`Server::setup_local_support`]. The host carries
    /// them there.
    ///
    /// - Environment (`PMIX_SETUP_APP_ENVARS`): the variables that the user forwards (`PMIX_MCA_forward_envars`), then
    ///   the changes of the environment among `infos`.
    /// - Fabric (`PMIX_SETUP_APP_NONENVARS`): for each `PMIX_ALLOC_FABRIC` a key, and endpoints on the interfaces of
    ///   delivered inventories, for the nodes and processes of `PMIX_NODE_MAP` and `PMIX_PROC_MAP`.
    ///
    /// Without either key, or with `PMIX_SETUP_APP_ALL`, it collects both.
    ///
    /// ```
    /// use modex::types::{Envar, Info, Key, Namespace, Text, Value};
    /// use modex::{EnvironmentChange, LocalHost, Server, keys};
    ///
    /// let server = Server::builder().start(LocalHost)?;
    /// let (name, value) = (Some(Text::from("PATH")), Some(Text::from("/opt/bin")));
    /// let prepend = Value::Envar(Box::new(Envar { name, value, separator: b':' }));
    /// let infos = server.setup_application(vec![Info::new(Key::new(keys::PREPEND_ENVAR.name())?, prepend)])?;
    /// // On each node of the job:
    /// let mut command = std::process::Command::new("./rank");
    /// let changes = server.setup_local_support(&Namespace::new("job-1")?, &infos)?;
    /// for (name, value) in EnvironmentChange::merged(&changes, |name| std::env::var_os(name)) {
    ///     match value {
    ///         Some(value) => command.env(name, value),
    ///         None => command.env_remove(name),
    ///     };
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Source: PMIx Standard, `PMIx_server_setup_application`.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn setup_application(&self, infos: Vec<Info>) -> Result<Vec<Info>, SetupError> {
        self.jobs().setup_application(infos, &runtime::environment())
    }

    /// Takes the infos that [`Server::setup_application`] collected for a job. Fabric resources become part of the
    /// job's description, now or when the job is registered. Returns the changes of the environment for the job's
    /// processes on this node. Other infos are ignored.
    ///
    /// Source: PMIx Standard, `PMIx_server_setup_local_support`.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn setup_local_support(
        &self,
        namespace: &Namespace,
        infos: &[Info],
    ) -> Result<Vec<EnvironmentChange>, SetupError> {
        self.jobs().setup_local_support(namespace, infos)
    }

    pub(crate) const fn jobs(&self) -> &Arc<JobSetup> {
        self.handle.jobs()
    }
}
