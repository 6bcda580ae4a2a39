//! The fabric resources of a server, for the jobs that its host sets up and for other servers that ask.
//!
//! ```text
//! setup_application of the host ──┐
//!                                 ├──> fabric, inventories, ports, keys ──> what the job gets
//! question of another server ─────┘    (no ports: nobody tells the end of such a job)
//! ```

use std::sync::Arc;

use nix::unistd::geteuid;

use super::SetupError;
use super::allocation::{AllocationError, Answer, Sources, Wish, allocate, needs_others};
use super::application::{Application, Places};
use super::elsewhere::{MARK, Unanswered, VERSION, question};
use super::endpoints::{JobFabric, info_of_job};
use super::fabric_jobs::{ApplicationSetup, FabricJobs};
use super::hardware::Hardware;
use super::layout::{Layout, elements};
use super::ports::{PortDesk, PortSetup, StaticPorts};
use super::setup_queue::{Lane, QueuedSetup, SetupQueue};
use crate::fabric::SWITCH_PEERS_BYTES_MAX;
use crate::keys;
use crate::regex::MapLimits;
use crate::runtime::server::fabric_desk::KnownFabric;
use crate::server::Capabilities;
use crate::topo::inventory::SharedInventories;
use crate::types::{Info, InfoFlags, Namespace};

/// Limits of the layout in a question of another process: a description of a job has room for about as many nodes and
/// ranks.
const QUESTION_LIMITS: MapLimits = MapLimits {
    nodes_max: 1 << 17,
    ranks_max: 1 << 20,
    name_bytes_max: 255,
    names_bytes_max: 8 << 20,
    inflated_bytes_max: 16 << 20,
};

/// The resources.
pub(in crate::runtime::server) struct FabricGrants {
    /// The fabric on which jobs get endpoints.
    fabric: KnownFabric,
    /// Whether the host has named this fabric. Otherwise it is that of the inventories, for jobs that ask for one.
    is_named: bool,
    /// Whether it is the scheduler's server: it asks no other one.
    is_scheduler: bool,
    inventories: SharedInventories,
    /// The key and the applications of each job.
    jobs: FabricJobs,
    /// Ports for jobs that ask for some.
    ports: PortDesk,
    queue: Arc<SetupQueue>,
}

/// The infos for a job, and its setup if this server's fabric has a part in it.
type Given<'g> = (Vec<Info>, Option<ApplicationSetup<'g>>);

impl FabricGrants {
    pub(in crate::runtime::server) fn new(
        (fabric, is_scheduler): (Option<KnownFabric>, bool),
        inventories: SharedInventories,
        ports: StaticPorts,
    ) -> Self {
        let is_named = fabric.is_some();
        let fabric = fabric.unwrap_or_else(|| KnownFabric::of_inventories(&inventories));
        let (jobs, ports, queue) = (FabricJobs::default(), PortDesk::new(ports), Arc::default());
        Self { fabric, is_named, is_scheduler, inventories, jobs, ports, queue }
    }

    /// The fabric that the host has named.
    pub(in crate::runtime::server) fn fabric(&self) -> Option<&KnownFabric> {
        self.is_named.then_some(&self.fabric)
    }

    /// Whether a job with these infos may get endpoints.
    pub(super) fn may_give_endpoints(&self, infos: &[Info]) -> bool {
        self.is_named || infos.iter().any(is_wish)
    }

    /// The services that other servers want: they ask a scheduler for an allocation.
    pub(in crate::runtime::server) const fn services(&self) -> Capabilities {
        if self.is_scheduler { Capabilities::ALLOCATE } else { Capabilities::empty() }
    }

    /// Ports for one setup.
    pub(super) fn ports(&self, namespace: &Namespace, infos: &[Info]) -> PortSetup<'_> {
        self.ports.setup(namespace, user_of(infos))
    }

    /// Puts a setup of a user's job behind the earlier ones.
    pub(in crate::runtime::server) fn queue(
        &self,
        owner: u32,
        job: &Namespace,
        infos: &[Info],
    ) -> Result<QueuedSetup, SetupError> {
        if !self.may_give_endpoints(infos) {
            return Ok(QueuedSetup::unordered());
        }
        let may_ask = self.asks_elsewhere(infos);
        let asks = may_ask && infos.iter().any(|info| is_wish(info) && needs_others(info));
        self.queue.enter(Lane { owner, job: job.clone(), may_ask }, infos, asks)
    }

    /// Whether another one may have what this server lacks. A server of a fabric has all that there is, and a host
    /// passes on the infos of a question.
    pub(super) fn asks_elsewhere(&self, infos: &[Info]) -> bool {
        !self.is_named && !self.is_scheduler && !is_question(infos)
    }

    /// The resources of a job that this server's host sets up. The job is that of `PMIX_USERID`, else of the server's
    /// user. The caller keeps the setup if all of it succeeds.
    pub(super) fn of_host<'g>(
        &'g self,
        namespace: &Namespace,
        infos: &[Info],
        ports: &PortSetup<'_>,
        ask: impl FnOnce(Vec<Info>) -> Result<Vec<Info>, Unanswered>,
    ) -> Result<Given<'g>, AllocationError> {
        let ask = |lacking: &[&Info]| match self.asks_elsewhere(infos) {
            true => ask(question(namespace, infos, lacking)).map(Answer::read),
            false => Err(Unanswered::NotAsked),
        };
        self.given((owner_of(infos), namespace), infos, ports, ask)
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
        let (given, setup) = self.given((uid, namespace), infos, &ports, |_| Err(Unanswered::NotAsked))?;
        setup.into_iter().for_each(ApplicationSetup::keep);
        Ok(given)
    }

    /// The resources that are asked for, and the endpoints of the job's processes.
    fn given<'g>(
        &'g self,
        (owner, namespace): (u32, &Namespace),
        infos: &[Info],
        ports: &PortSetup<'_>,
        ask: impl FnOnce(&[&Info]) -> Result<Answer, Unanswered>,
    ) -> Result<Given<'g>, AllocationError> {
        if !self.may_give_endpoints(infos) {
            return Ok(Given::default());
        }
        let is_asked = infos.iter().any(is_wish);
        let is_question = is_question(infos);
        let limits = if is_question { QUESTION_LIMITS } else { MapLimits::default() };
        let layout = match Layout::of(infos, &limits) {
            // A refused question gets its line of the log at the desk, which bounds them.
            Err(error) if !is_question && !infos.iter().any(is_required_wish) => {
                tracing::warn!(%namespace, %error, "the job gets no endpoints on the fabric");
                Layout::default()
            }
            layout => layout?,
        };
        if !is_asked && layout.node_count() == 0 {
            return Ok(Given::default());
        }
        let wishes = Wish::all_of(infos)?;
        let of_fabric = wishes.iter().filter(|wish| !wish.is_of_ports(ports));
        let of_application = of_fabric.map(Wish::of_application).collect();
        let application = Application { layout, places: Places::of(infos), wishes: of_application };
        let newest = Hardware::new(self.fabric.newest(), self.inventories.snapshot());
        let setup = self.jobs.add((owner, namespace), !is_question, application, &newest, &limits)?;
        let mut fabric = JobFabric::new(&newest, &setup.applications);
        let sources = Sources { ports, fabric: &mut fabric, secret: &setup.secret };
        let (mut allocated, is_answered) = allocate(wishes, sources, ask)?;
        // Inventories give a job what it asks for and nobody else has.
        let values = match self.is_named || fabric.has_given() && !is_answered {
            true => fabric.values(),
            false => Vec::new(),
        };
        for (node, device) in fabric.lost() {
            tracing::warn!(
                %namespace,
                node,
                device,
                "a device with endpoints of the job is no longer in the fabric; they stay, because their processes may run. Repair the \
                 device, or start the job anew"
            );
        }
        if fabric.lacks_switch_peers() {
            tracing::warn!(
                %namespace,
                "the job gets no PMIX_SWITCH_PEERS: the lists of ranks at the switches of all nodes would take more than \
                 {SWITCH_PEERS_BYTES_MAX} bytes"
            );
        }
        if !values.is_empty() {
            allocated.push(info_of_job(values, setup.secret.clone()));
        }
        if is_answered {
            setup.give_way();
            return Ok((allocated, None));
        }
        Ok((allocated, Some(setup)))
    }

    /// Forgets a job.
    pub(super) fn forget(&self, namespace: &Namespace) {
        self.jobs.forget(namespace);
        self.ports.forget(namespace);
    }
}

/// Whether a wish or a part of it is required.
fn is_required_wish(info: &Info) -> bool {
    is_wish(info) && (is_required(info) || elements(&info.value).any(is_required))
}

fn is_required(info: &Info) -> bool {
    info.flags().contains(InfoFlags::REQUIRED)
}

pub(super) fn is_wish(info: &Info) -> bool {
    info.key.as_str() == keys::ALLOC_FABRIC.name()
}

/// Whether the infos are those of another server's question. A host may pass them on.
fn is_question(infos: &[Info]) -> bool {
    infos.iter().any(|info| info.key.as_str() == MARK)
}

/// The owner of a job: the user that the host names, or that of this process.
pub(super) fn owner_of(infos: &[Info]) -> u32 {
    user_of(infos).unwrap_or_else(|| geteuid().as_raw())
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
    use crate::log_lines::LogLines;
    use crate::types::{AsStatus, Key, Status, Value};

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    /// Resources of a scheduler's server with one node of one device.
    fn grants() -> FabricGrants {
        grants_of("wide:1;plane:d:1")
    }

    /// Resources of a scheduler's server with a test fabric.
    fn grants_of(fabric: &str) -> FabricGrants {
        let inventories = SharedInventories::default();
        let source = FabricSource::parse(&format!("test:{fabric}")).unwrap();
        let fabric = KnownFabric::read(source, &inventories).unwrap();
        FabricGrants::new((Some(fabric), true), inventories, StaticPorts::default())
    }

    fn job() -> Namespace {
        Namespace::new("job").unwrap()
    }

    fn key(given: &[Info]) -> Value {
        given.iter().flat_map(values_of).last().unwrap().value
    }

    /// The grants for a setup by the host.
    fn of_host(grants: &FabricGrants, infos: &[Info]) -> Vec<Info> {
        let ports = grants.ports(&job(), infos);
        let (given, setup) = grants.of_host(&job(), infos, &ports, |_| Err(Unanswered::NotAsked)).unwrap();
        setup.into_iter().for_each(ApplicationSetup::keep);
        given
    }

    /// The infos of a question, with the ranks of the node.
    fn asked(ranks: &str, wishes: &[Info]) -> Vec<Info> {
        let infos = [info(keys::NODE_MAP.name(), "test000"), info(keys::PROC_MAP.name(), ranks)];
        question(&job(), &infos, &wishes.iter().collect::<Vec<_>>())
    }

    /// A required wish.
    fn wish(part: Info) -> Info {
        let parts = vec![info(keys::ALLOC_FABRIC_ID.name(), "net"), part];
        let flags = crate::types::InfoFlags::REQUIRED.bits();
        Info { flags, ..info(keys::ALLOC_FABRIC.name(), Value::info_array(parts)) }
    }

    /// A job of 108 nodes with 64 processes each had no switch peers, without a word.
    #[test]
    fn the_log_names_a_job_without_switch_peers_and_ordinary_jobs_have_some() {
        let lines = LogLines::default();
        let nodes_with_peers = |fabric: &str| {
            let nodes: Vec<String> = (0..1000).map(|node| format!("test{node:03}")).collect();
            let ranks: Vec<String> = (0..1000).map(|node| format!("{}-{}", node * 64, node * 64 + 63)).collect();
            let maps = [(keys::NODE_MAP, nodes.join(",")), (keys::PROC_MAP, ranks.join(";"))];
            let maps = maps.map(|(key, text)| info(key.name(), text));
            let given = of_host(&grants_of(fabric), &maps);
            let has_peers = |info: &Info| elements(&info.value).any(|of| of.key.as_str() == keys::SWITCH_PEERS.name());
            given.iter().flat_map(values_of).filter(has_peers).count()
        };
        tracing::subscriber::with_default(lines.subscriber(), || {
            assert_eq!(nodes_with_peers("nodes:1000;plane:d:28"), 1000, "36 nodes at a switch");
            assert_eq!(nodes_with_peers("nodes:1000;plane:d:1"), 0);
        });
        let lines = lines.taken();
        assert!(lines.len() == 1 && lines[0].contains("no PMIX_SWITCH_PEERS") && lines[0].contains("job"), "{lines:?}");
    }

    /// Another user could get the key of a job by its name.
    #[test]
    fn each_user_that_asks_for_a_job_gets_a_key_of_its_own() {
        let grants = grants();
        let infos = asked("0", &[]);
        let of_question = |uid| key(&grants.of_question(uid, &job(), &infos).unwrap());
        assert_eq!(of_question(7), of_question(7));
        assert_ne!(of_question(7), of_question(8));
        // The host passes a question on with the user's id, or sets up a job of its own.
        let of_user = [&infos[..], &[info(keys::USERID.name(), 7_u32)]].concat();
        assert_eq!(key(&of_host(&grants, &of_user)), of_question(7));
        assert_ne!(key(&of_host(&grants, &infos)), of_question(7));
    }

    /// Regression: the end of a job of the host's took the keys of all users that had asked for a job of that name.
    #[test]
    fn the_end_of_a_job_leaves_the_keys_of_questions() {
        let grants = grants();
        let infos = asked("0", &[]);
        let of_question = |uid| key(&grants.of_question(uid, &job(), &infos).unwrap());
        let of_own = || key(&of_host(&grants, &infos[2..]));
        let (questions, own) = ([7, 8].map(of_question), of_own());
        grants.forget(&job());
        assert_eq!([7, 8].map(of_question), questions);
        assert_ne!(of_own(), own);
    }

    /// Regression: a small question of another process cost the scheduler's server gigabytes.
    #[test]
    fn a_question_is_bounded() {
        let grants = grants();
        let refusal = |ranks: &str, wishes: &[Info]| {
            let given = grants.of_question(7, &job(), &asked(ranks, wishes));
            given.map(|given| given.len()).map_err(|error| (error.status(), error.to_string()))
        };
        let refused = |ranks: &str, wishes: &[Info], status: Status, reason: &str| {
            let refusal = refusal(ranks, wishes).unwrap_err();
            assert!(refusal.0 == status && refusal.1.contains(reason), "{refusal:?}");
        };
        let endpoints = |count: u64| wish(info(keys::ALLOC_FABRIC_ENDPTS.name(), Value::Size(count)));
        let plane = wish(info(keys::ALLOC_FABRIC_PLANE.name(), "plane000"));
        let (many, full) = ("endpoints and nodes", Status::ERR_OUT_OF_RESOURCE);
        refused("0-1048576", &[endpoints(1)], full, "1048576");
        refused("0-262143", std::slice::from_ref(&plane), full, many);
        // The bound is that of all wishes together, and a node counts as an endpoint.
        let named = |id: &str, mut wish: Info| {
            let Value::DataArray(parts) = &mut wish.value else { panic!("{wish:?}") };
            parts.elements[0] = Value::Info(Box::new(info(keys::ALLOC_FABRIC_ID.name(), id)));
            wish
        };
        let half = |id| named(id, endpoints(131_071));
        assert_eq!(refusal("0", &[half("a"), half("b")]), Ok(3));
        refused("0", &[half("a"), half("b"), endpoints(1)], full, many);
        let wishes: Vec<Info> = (0..65).map(|number| named(&format!("net{number}"), plane.clone())).collect();
        assert_eq!(refusal("0", &wishes[1..]), Ok(65));
        refused("0", &wishes, full, "64");
        // Maps that can't be used are a refusal, also for a wish that is not required: the desk bounds its lines.
        let unmarked = Info { flags: 0, ..endpoints(1) };
        let optional = asked("0;1", &[unmarked]);
        assert_eq!(grants.of_question(7, &job(), &optional).unwrap_err().status(), Status::ERR_BAD_PARAM);
        // Each part that is left out has the reason, and so the name.
        let mut of_parts = wish(info(keys::ALLOC_FABRIC_PLANE.name(), "x".repeat(1 << 20)));
        assert!(refusal("0", std::slice::from_ref(&of_parts)).unwrap_err().1.len() < 1000);
        let Value::DataArray(parts) = &mut of_parts.value else { panic!("{of_parts:?}") };
        let again = Value::Info(Box::new(info(keys::ALLOC_FABRIC_PLANE.name(), "plane000")));
        parts.elements.resize(65, again);
        refused("0", &[of_parts], full, "65 parts");
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
