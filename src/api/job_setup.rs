//! The setup of jobs on the nodes, before their processes start.

use std::sync::Arc;

use super::server::Server;
use crate::gds::registration::RegisterError;
use crate::keys;
use crate::runtime::{self, Described, EnvironmentChange, EnvironmentPatterns, JobSetup, QueuedSetup, SetupError};
use crate::types::{Info, Key, Namespace, ProcId, Rank};

impl Server {
    /// Adds data that belong to no job. They become part of every namespace, registered before or after. A namespace's
    /// own values take precedence. An array that names a job (`PMIX_NSPACE`, `PMIX_PROCID` or `PMIX_JOBID`) is for that
    /// job alone. A resource that contradicts a job's own description is left out for that job.
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
    /// device that a lone `PMIX_DEVICE_ID` names. Registered jobs lose each value that equals the removed one.
    ///
    /// Source: PMIx Standard, `PMIx_server_deregister_resources`.
    pub fn deregister_resources(&self, resources: &[Info]) {
        self.jobs().deregister_resources(resources);
    }

    /// Registers variables of this process that the processes of a job get, except the `unwanted` ones. They are read
    /// when [`Server::setup_application`] runs. Calls add up, until the job is deregistered. A server keeps the
    /// patterns of the 1,024 newest jobs.
    ///
    /// ```
    /// use modex::types::Namespace;
    /// use modex::{EnvironmentPatterns, LocalHost, Server};
    ///
    /// let server = Server::builder().start(LocalHost)?;
    /// let job = Namespace::new("job-1")?;
    /// server.forward_variables(&job, &"PAT?;SITE_*".parse()?, &"SITE_SECRET".parse()?)?;
    /// let infos = server.setup_application(&job, &[])?;
    /// assert!(!server.setup_local_support(&job, &infos)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Source: RFC0029, `PMIx_Forward_envars`.
    ///
    /// # Errors
    /// [`SetupError::Pattern`]: the job has too many patterns.
    pub fn forward_variables(
        &self,
        namespace: &Namespace,
        wanted: &EnvironmentPatterns,
        unwanted: &EnvironmentPatterns,
    ) -> Result<(), SetupError> {
        self.jobs().forward(namespace, wanted, unwanted)
    }

    /// Collects the infos that the servers of a job's nodes need for [`Server::setup_local_support`]. The host carries
    /// them there. A job of several applications may be set up once for each.
    ///
    /// - Environment (`PMIX_SETUP_APP_ENVARS`), in this order: changes collected for the job's parents
    ///   (`PMIX_PARENT_ID`), variables of this process, and the changes among `infos`.
    /// - Variables of this process are those of [`Server::forward_variables`], those that the user names in
    ///   `PMIX_MCA_forward_envars`, and those of the programming model. Patterns in `MODEX_EXCLUDE_ENVARS` and in the
    ///   info `modex.exclude_envars` exclude variables. The variables of a server, such as `PMIX_RANK`, are left out.
    /// - `PMIX_PROGRAMMING_MODEL`, `PMIX_MODEL_LIBRARY_NAME` and `PMIX_PERSONALITY` name the model: Open MPI, OpenSHMEM,
    ///   MPICH or Intel MPI. `PMIX_MCA_pmdl_ompi_include_envars` and `..._exclude_envars` change the variables; for the
    ///   others the name is `oshmem`, `mpich` or `impi`.
    /// - Fabric (`PMIX_SETUP_APP_NONENVARS`): for each `PMIX_ALLOC_FABRIC` a key, and endpoints on the server's fabric, or without one
    ///   on that of the delivered inventories. They are for the nodes and processes of `PMIX_NODE_MAP` and `PMIX_PROC_MAP`.
    /// - The [key of the user](Server::transport_key), as `PMIX_CREDENTIAL` and as a variable for Open MPI, with
    ///   `PMIX_SETUP_APP_NONENVARS` or a `PMIX_ALLOC_FABRIC_SEC_KEY`.
    ///
    /// If this server lacks a part of a `PMIX_ALLOC_FABRIC`, it asks for it, in this order:
    ///
    /// 1. the scheduler at `PMIX_SERVER_URI` among the infos
    /// 2. without an address, the host ([`Host::allocate`](crate::Host::allocate), on this thread)
    /// 3. the scheduler of the node, if the host does not support that
    ///
    /// The answer must come within 10 s, or the `PMIX_TIMEOUT` among the infos. A scheduler's server and one with a
    /// fabric ask nobody.
    ///
    /// Setups of one job with fabric resources run one after the other, in the order of their calls. If an earlier one
    /// does not end within the time for both of their answers, the later one fails with [`SetupError::EarlierSetup`].
    ///
    /// With `PMIX_SETUP_APP_ALL` it collects both. Without any of these keys, it collects both but the variables of the
    /// user and of the programming model.
    ///
    /// ```
    /// use modex::types::{Envar, Info, Key, Namespace, Text, Value};
    /// use modex::{EnvironmentChange, LocalHost, Server, keys};
    ///
    /// let server = Server::builder().start(LocalHost)?;
    /// let job = Namespace::new("job-1")?;
    /// let (name, value) = (Some(Text::from("PATH")), Some(Text::from("/opt/bin")));
    /// let prepend = Value::Envar(Box::new(Envar { name, value, separator: b':' }));
    /// let infos = server.setup_application(&job, &[Info::new(Key::new(keys::PREPEND_ENVAR.name())?, prepend)])?;
    /// // On each node of the job:
    /// let mut command = std::process::Command::new("./rank");
    /// let changes = server.setup_local_support(&job, &infos)?;
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
    /// [`SetupError`]. A required info that can't be honoured is one.
    pub fn setup_application(&self, namespace: &Namespace, infos: &[Info]) -> Result<Vec<Info>, SetupError> {
        self.setup_queued(&self.queue_setup(namespace, infos)?, namespace, infos)
    }

    /// Puts a setup of a job behind the earlier ones. It runs with [`Server::setup_queued`].
    #[doc(hidden)]
    pub fn queue_setup(&self, namespace: &Namespace, infos: &[Info]) -> Result<QueuedSetup, SetupError> {
        self.jobs().queue(namespace, infos)
    }

    /// [`Server::setup_application`] in the order of [`Server::queue_setup`] with the same job and infos.
    #[doc(hidden)]
    pub fn setup_queued(
        &self,
        queued: &QueuedSetup,
        namespace: &Namespace,
        infos: &[Info],
    ) -> Result<Vec<Info>, SetupError> {
        let ask = |question| self.ask_for(infos, question);
        self.jobs().setup_application(namespace, infos, queued, &runtime::environment(), ask)
    }

    /// Takes the infos that [`Server::setup_application`] collected for a job. Fabric resources become part of the
    /// job's description, now or when the job is registered. Returns the changes of the environment for the job's
    /// processes on this node, of all calls for this job. Other infos are ignored. Infos that were collected for
    /// another job are refused.
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

    /// A key by which an adapter tells the processes of a user from those of others. A host may give it to a job as
    /// `PMIX_CREDENTIAL`. Open MPI needs it there on Omni-Path. Each server has its own key for a user, so one server
    /// gives it to all nodes, and the infos of [`Server::setup_application`] carry it to them.
    ///
    /// ```
    /// use modex::{LocalHost, Server};
    ///
    /// let server = Server::builder().start(LocalHost)?;
    /// let key = server.transport_key(1000);
    /// // Two numbers of 64 bits, as 016x-016x.
    /// assert_eq!((key.len(), key.find('-')), (33, Some(16)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Source: PMIx Standard, `PMIX_CREDENTIAL`; Open MPI, `mtl/psm2`.
    #[must_use]
    pub fn transport_key(&self, uid: u32) -> String {
        self.jobs().transport_key(uid)
    }

    /// Variables by which the job's programming model tells a process its place. Open MPI has some, such as
    /// `OMPI_COMM_WORLD_RANK`. They need the job's registration, in which the host may name the model.
    #[doc(hidden)]
    #[must_use]
    pub fn variables_of_model(&self, proc: &ProcId) -> Vec<(String, String)> {
        let Some(rank) = proc.rank.process().filter(|_| self.jobs().is_of_open_mpi(&proc.namespace)) else {
            return Vec::new();
        };
        runtime::variables_of_open_mpi(rank, |described, key| {
            let of = |rank| ProcId { namespace: proc.namespace.clone(), rank };
            let (proc, directives) = match described {
                Described::Job => (of(Rank::Wildcard), Vec::new()),
                Described::Process => (proc.clone(), Vec::new()),
                Described::App(number) => {
                    let is_of_app = Info::new(Key::from_static(keys::APP_INFO.name()), true);
                    let number = Info::new(Key::from_static(keys::APPNUM.name()), number);
                    (of(Rank::Undefined), vec![is_of_app, number])
                }
            };
            self.find(Some(proc), Some(Key::from_static(key)), directives).wait().ok()
        })
    }

    pub(crate) const fn jobs(&self) -> &Arc<JobSetup> {
        self.handle.jobs()
    }
}
