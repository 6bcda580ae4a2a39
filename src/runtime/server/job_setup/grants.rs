//! The fabric resources of a server, for the jobs that its host sets up and for other servers that ask.
//!
//! ```text
//! setup_application of the host ──┐
//!                                 ├──> fabric, inventories, ports, keys ──> what the job gets
//! question of another server ─────┘    (no ports: nobody tells the end of such a job)
//! ```

use nix::unistd::geteuid;

use super::allocation::{AllocationError, Answer, Layout, Sources, allocate, needs_more_than_a_key};
use super::elsewhere::{MARK, Unanswered, VERSION, question};
use super::endpoints::{self, JobFabric};
use super::ports::{PortDesk, PortSetup, StaticPorts};
use super::secrets::Secrets;
use crate::keys;
use crate::runtime::server::fabric_desk::KnownFabric;
use crate::server::Capabilities;
use crate::topo::inventory::SharedInventories;
use crate::types::{Info, Namespace};

/// The resources.
pub(in crate::runtime::server) struct FabricGrants {
    /// The fabric on which jobs get endpoints.
    fabric: Option<KnownFabric>,
    /// Whether it is the scheduler's server: it asks no other one.
    is_scheduler: bool,
    inventories: SharedInventories,
    /// The key of each job.
    secrets: Secrets,
    /// Ports for jobs that ask for some.
    ports: PortDesk,
}

impl FabricGrants {
    pub(in crate::runtime::server) fn new(
        (fabric, is_scheduler): (Option<KnownFabric>, bool),
        inventories: SharedInventories,
        ports: StaticPorts,
    ) -> Self {
        Self { fabric, is_scheduler, inventories, secrets: Secrets::default(), ports: PortDesk::new(ports) }
    }

    /// The fabric on which jobs get endpoints.
    pub(in crate::runtime::server) const fn fabric(&self) -> Option<&KnownFabric> {
        self.fabric.as_ref()
    }

    /// The services that other servers want: they ask a scheduler for an allocation.
    pub(in crate::runtime::server) const fn services(&self) -> Capabilities {
        if self.is_scheduler { Capabilities::ALLOCATE } else { Capabilities::empty() }
    }

    /// Ports for one setup.
    pub(super) fn ports(&self, namespace: &Namespace, infos: &[Info]) -> PortSetup<'_> {
        self.ports.setup(namespace, user_of(infos))
    }

    /// Whether a setup with these infos may wait for another process.
    pub(super) fn may_ask(&self, infos: &[Info]) -> bool {
        let mut wishes = infos.iter().filter(|info| info.key.as_str() == keys::ALLOC_FABRIC.name());
        self.asks_elsewhere(infos) && wishes.any(needs_more_than_a_key)
    }

    /// Whether another one may have what this server lacks. A server of a fabric has all that there is, and a host passes on the
    /// infos of a question.
    pub(super) fn asks_elsewhere(&self, infos: &[Info]) -> bool {
        let is_question = infos.iter().any(|info| info.key.as_str() == MARK);
        self.fabric.is_none() && !self.is_scheduler && !is_question
    }

    /// The resources of a job that this server's host sets up. The job is that of `PMIX_USERID`, else of the server's user.
    pub(super) fn of_host(
        &self,
        namespace: &Namespace,
        infos: &[Info],
        ports: &PortSetup<'_>,
        ask: impl FnOnce(Vec<Info>) -> Result<Vec<Info>, Unanswered>,
    ) -> Result<Vec<Info>, AllocationError> {
        let ask = |lacking: &[&Info]| match self.asks_elsewhere(infos) {
            true => ask(question(namespace, infos, lacking)).map(Answer::read),
            false => Err(Unanswered::NotAsked),
        };
        self.given((user_of(infos).unwrap_or_else(|| geteuid().as_raw()), namespace), infos, ports, ask)
    }

    /// The job of a question by a library of this version; `None` for other infos.
    pub(in crate::runtime::server) fn job_of_question(infos: &[Info]) -> Option<Namespace> {
        let text = |key: &str| infos.iter().find(|info| info.key.as_str() == key)?.value.as_str();
        let job = text(MARK)?.strip_prefix(VERSION)?.strip_prefix(' ')?;
        Namespace::new(job).ok().filter(|_| text(keys::NSPACE.name()) == Some(job))
    }

    /// The answer to the question of another server, for a job of its user.
    pub(in crate::runtime::server) fn of_question(
        &self,
        uid: u32,
        namespace: &Namespace,
        infos: &[Info],
    ) -> Result<Vec<Info>, AllocationError> {
        let none = PortDesk::default();
        let ports = none.setup(namespace, Some(uid));
        self.given((uid, namespace), infos, &ports, |_| Err(Unanswered::NotAsked))
    }

    /// Those that are asked for, and the endpoints of the job's processes.
    fn given(
        &self,
        (owner, namespace): (u32, &Namespace),
        infos: &[Info],
        ports: &PortSetup<'_>,
        ask: impl FnOnce(&[&Info]) -> Result<Answer, Unanswered>,
    ) -> Result<Vec<Info>, AllocationError> {
        let is_asked = infos.iter().any(|info| info.key.as_str() == keys::ALLOC_FABRIC.name());
        if !is_asked && self.fabric.is_none() {
            return Ok(Vec::new());
        }
        let (layout, inventories) = (Layout::of(infos), self.inventories.snapshot());
        let layout = match layout {
            Err(error) if !is_asked => {
                tracing::warn!(%namespace, %error, "the job gets no endpoints on the fabric");
                return Ok(Vec::new());
            }
            layout => layout?,
        };
        let fabric = self.fabric.as_ref().map(KnownFabric::newest);
        let mut fabric = fabric.as_ref().map(|fabric| JobFabric::new(fabric, &inventories, infos));
        let sources = Sources { inventories: &inventories, ports, fabric: fabric.as_mut() };
        let mut allocated = if is_asked { allocate(infos, &layout, sources, ask)? } else { Vec::new() };
        if let Some(fabric) = &fabric {
            let values = fabric.values(layout.nodes());
            if !values.is_empty() {
                allocated.push(endpoints::info(values, self.secrets.of(owner, namespace)?));
            }
        }
        Ok(allocated)
    }

    /// Forgets a job.
    pub(super) fn forget(&self, namespace: &Namespace) {
        self.secrets.forget(namespace);
        self.ports.forget(namespace);
    }
}

/// The owner of a job, if the host names one.
fn user_of(infos: &[Info]) -> Option<u32> {
    infos.iter().find(|info| info.key.as_str() == keys::USERID.name()).and_then(|info| info.value.as_u32())
}

#[cfg(test)]
mod tests {
    use super::super::values_of;
    use super::*;
    use crate::FabricSource;
    use crate::types::{Key, Value};

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    /// Another user could get the key of a job by its name.
    #[test]
    fn each_user_that_asks_for_a_job_gets_a_key_of_its_own() {
        let inventories = SharedInventories::default();
        let source = FabricSource::parse("test:nodes:1;plane:d:1").unwrap();
        let fabric = KnownFabric::read(source, &inventories).unwrap();
        let grants = FabricGrants::new((Some(fabric), true), inventories, StaticPorts::default());
        let infos = [info(keys::NODE_MAP.name(), "test000"), info(keys::PROC_MAP.name(), "0")];
        let job = Namespace::new("job").unwrap();
        let key = |given: Vec<Info>| given.iter().flat_map(values_of).last().unwrap().value.clone();
        let of_question = |uid| key(grants.of_question(uid, &job, &infos).unwrap());
        let of_host = |infos: &[Info]| {
            let ports = grants.ports(&job, infos);
            key(grants.of_host(&job, infos, &ports, |_| Err(Unanswered::NotAsked)).unwrap())
        };
        assert_eq!(of_question(7), of_question(7));
        assert_ne!(of_question(7), of_question(8));
        // The host passes a question on with the user's id, or sets up a job of its own.
        let of_user = [&infos[..], &[info(keys::USERID.name(), 7_u32)]].concat();
        assert_eq!(of_host(&of_user), of_question(7));
        assert_ne!(of_host(&infos), of_question(7));
    }

    #[test]
    fn a_question_names_its_job_twice_and_has_this_version() {
        let job = |mark: &str, name: &str| {
            let infos = [info(MARK, mark), info(keys::NSPACE.name(), name)];
            FabricGrants::job_of_question(&infos).map(|job| job.to_string())
        };
        assert_eq!(job("1 a", "a"), Some("a".to_owned()));
        for (mark, name) in [("1 a", "b"), ("2 a", "a"), ("1a", "a"), ("1 ", ""), ("", "a")] {
            assert_eq!(job(mark, name), None, "{mark:?} {name:?}");
        }
        assert_eq!(FabricGrants::job_of_question(&[info(keys::NSPACE.name(), "a")]), None);
    }
}
