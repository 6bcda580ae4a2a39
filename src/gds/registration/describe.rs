//! Builds the description of a job: from the few facts that a launcher knows to all keys that the standard requires of
//! a host.

use std::collections::BTreeMap;

use crate::keys;
use crate::regex::{MapLimits, NodeList, RankMap, generate_nodes, generate_ranks};
use crate::types::{DataArray, DataType, Info, Key, Namespace, ProcId, Rank, Value};

use super::error::RegisterError;

/// Builder of a job's description: nodes, processes, applications and further values of the host.
///
/// [`Self::build`] makes all keys that the standard requires of a host (PMIx Standard, chapter on server-specific
/// interfaces, `PMIx_server_register_nspace`). Only the caller knows some of them: add these with [`Self::server`],
/// [`Self::own_node`], [`Self::node_value`] and [`Self::process_value`].
#[derive(Clone, Debug)]
pub struct JobDescription {
    namespace: Namespace,
    job_id: String,
    server: Option<ProcId>,
    session_id: u32,
    universe_size: Option<u32>,
    nodes: Vec<String>,
    ranks: Vec<Vec<u32>>,
    apps: Vec<App>,
    own_node: Option<OwnNode>,
    global_rank_first: u32,
    parent: Option<ProcId>,
    job_values: Vec<Info>,
    node_values: BTreeMap<u32, Vec<Info>>,
    process_values: BTreeMap<u32, Vec<Info>>,
}

#[derive(Clone, Debug)]
struct App {
    process_count: u32,
    argv: String,
    working_directory: String,
}

#[derive(Clone, Debug)]
struct OwnNode {
    index: u32,
    session_directory: String,
    job_directory: String,
}

impl JobDescription {
    /// A job without nodes and processes, in session 0, with its namespace as job identifier.
    #[must_use]
    pub fn new(namespace: &Namespace) -> Self {
        Self {
            namespace: namespace.clone(),
            job_id: namespace.as_str().to_owned(),
            server: None,
            session_id: 0,
            universe_size: None,
            nodes: Vec::new(),
            ranks: Vec::new(),
            apps: Vec::new(),
            own_node: None,
            global_rank_first: 0,
            parent: None,
            job_values: Vec::new(),
            node_values: BTreeMap::new(),
            process_values: BTreeMap::new(),
        }
    }

    /// Names of the nodes, in the order of [`Self::ranks_by_node`].
    #[must_use]
    pub fn nodes<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.nodes = names.into_iter().map(Into::into).collect();
        self
    }

    /// The ranks of each node, in the order of [`Self::nodes`].
    #[must_use]
    pub fn ranks_by_node<R: IntoIterator<Item = u32>>(mut self, nodes: impl IntoIterator<Item = R>) -> Self {
        self.ranks = nodes.into_iter().map(|ranks| ranks.into_iter().collect()).collect();
        self
    }

    /// Adds an application: the next `process_count` ranks run `argv` in `working_directory`.
    #[must_use]
    pub fn app<A: AsRef<str>>(
        mut self,
        process_count: u32,
        argv: impl IntoIterator<Item = A>,
        working_directory: impl Into<String>,
    ) -> Self {
        let argv = argv.into_iter().map(|argument| argument.as_ref().to_owned()).collect::<Vec<_>>().join(" ");
        self.apps.push(App { process_count, argv, working_directory: working_directory.into() });
        self
    }

    /// The server that registers the job.
    #[must_use]
    pub fn server(mut self, server: ProcId) -> Self {
        self.server = Some(server);
        self
    }

    /// The scheduler's name for the job.
    #[must_use]
    pub fn job_id(mut self, job_id: impl Into<String>) -> Self {
        self.job_id = job_id.into();
        self
    }

    /// The session's number.
    #[must_use]
    pub fn session_id(mut self, session_id: u32) -> Self {
        self.session_id = session_id;
        self
    }

    /// Slots in the session. Default: the number of processes.
    #[must_use]
    pub fn universe_size(mut self, slots: u32) -> Self {
        self.universe_size = Some(slots);
        self
    }

    /// The number of rank 0 among all processes of the session.
    #[must_use]
    pub fn global_rank_first(mut self, global_rank: u32) -> Self {
        self.global_rank_first = global_rank;
        self
    }

    /// Marks the job as spawned by another one. Programs ask for the parent of the job, or of their own process.
    #[must_use]
    pub fn spawned_by(mut self, parent: ProcId) -> Self {
        self.job_values.push(info(keys::PARENT_ID.name(), parent.clone()));
        self.parent = Some(parent);
        self
    }

    /// The server's node, with the scratch directories of the session and the job there.
    #[must_use]
    pub fn own_node(
        mut self,
        index: u32,
        session_directory: impl Into<String>,
        job_directory: impl Into<String>,
    ) -> Self {
        let (session_directory, job_directory) = (session_directory.into(), job_directory.into());
        self.own_node = Some(OwnNode { index, session_directory, job_directory });
        self
    }

    /// Adds any value of the job.
    #[must_use]
    pub fn job_value(mut self, key: Key, value: impl Into<Value>) -> Self {
        self.job_values.push(Info::new(key, value));
        self
    }

    /// Adds a value of the node at `index`; it replaces the generated value of the key.
    #[must_use]
    pub fn node_value(mut self, index: u32, key: Key, value: impl Into<Value>) -> Self {
        self.node_values.entry(index).or_default().push(Info::new(key, value));
        self
    }

    /// Adds a value of a process; it replaces the generated value of the key.
    #[must_use]
    pub fn process_value(mut self, rank: u32, key: Key, value: impl Into<Value>) -> Self {
        self.process_values.entry(rank).or_default().push(Info::new(key, value));
        self
    }

    /// The description, ready to be registered.
    ///
    /// # Errors
    /// If a node name is unusable or a rank occurs twice. Also if the number of rank lists differs from the number of
    /// nodes, or if applications and nodes have different numbers of processes.
    pub fn build(self) -> Result<Vec<Info>, RegisterError> {
        let maps = self.maps()?;
        let job_size = maps.as_ref().map_or(0, |(_, ranks)| ranks.rank_count());
        let in_apps = self.apps.iter().map(|app| u64::from(app.process_count)).sum();
        if !self.apps.is_empty() && in_apps != u64::from(job_size) {
            return Err(RegisterError::AppSizes { in_apps, job_size });
        }
        let mut job = self.job(job_size);
        let mut arrays = Vec::new();
        if let Some((nodes, ranks)) = &maps {
            job.push(info(keys::NODE_MAP.name(), Value::Regex(generate_nodes(nodes))));
            job.push(info(keys::PROC_MAP.name(), Value::Regex(generate_ranks(ranks))));
            arrays = self.node_arrays(nodes, ranks);
            arrays.extend(self.process_arrays(ranks));
        }
        job.extend(self.app_arrays());
        job.extend(arrays);
        let session = vec![
            info(keys::SESSION_ID.name(), self.session_id),
            info(keys::UNIV_SIZE.name(), self.universe_size.unwrap_or(job_size)),
        ];
        Ok(vec![
            info(keys::SESSION_INFO_ARRAY.name(), Value::info_array(session)),
            info(keys::JOB_INFO_ARRAY.name(), Value::info_array(job)),
        ])
    }

    /// Both maps; none for a job without nodes.
    fn maps(&self) -> Result<Option<(NodeList, RankMap)>, RegisterError> {
        if self.nodes.is_empty() && self.ranks.is_empty() {
            return Ok(None);
        }
        let limits = MapLimits::default();
        let nodes = NodeList::from_names(&self.nodes, &limits).map_err(RegisterError::NodeMap)?;
        let ranks = RankMap::from_ranks(self.ranks.iter().map(|ranks| ranks.iter().copied()), &limits);
        let ranks = ranks.map_err(RegisterError::ProcMap)?;
        ranks.check_distinct().map_err(RegisterError::ProcMap)?;
        if nodes.len() != ranks.node_count() {
            let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
            return Err(RegisterError::MapLengths { nodes: count(nodes.len()), fields: count(ranks.node_count()) });
        }
        Ok(Some((nodes, ranks)))
    }

    fn job(&self, job_size: u32) -> Vec<Info> {
        let mut job = vec![
            info(keys::NSPACE.name(), self.namespace.as_str()),
            info(keys::JOBID.name(), self.job_id.as_str()),
            info(keys::JOB_SIZE.name(), job_size),
            info(keys::MAX_PROCS.name(), job_size),
            info(keys::NPROC_OFFSET.name(), Rank::from(self.global_rank_first)),
            info(keys::JOB_NUM_APPS.name(), u32::try_from(self.apps.len().max(1)).unwrap_or(u32::MAX)),
        ];
        if let Some(server) = &self.server {
            job.push(info(keys::SERVER_NSPACE.name(), server.namespace.as_str()));
            job.push(info(keys::SERVER_RANK.name(), server.rank));
        }
        job.extend(self.job_values.iter().cloned());
        job
    }

    fn app_arrays(&self) -> impl Iterator<Item = Info> {
        let mut leader = 0_u32;
        (0_u32..).zip(&self.apps).map(move |(number, app)| {
            let entries = vec![
                info(keys::APPNUM.name(), number),
                info(keys::APP_SIZE.name(), app.process_count),
                info(keys::MAX_PROCS.name(), app.process_count),
                info(keys::APPLDR.name(), Rank::from(leader)),
                info(keys::APP_ARGV.name(), app.argv.as_str()),
                info(keys::WDIR.name(), app.working_directory.as_str()),
            ];
            leader = leader.saturating_add(app.process_count);
            info(keys::APP_INFO_ARRAY.name(), Value::info_array(entries))
        })
    }

    fn node_arrays(&self, nodes: &NodeList, ranks: &RankMap) -> Vec<Info> {
        let array = |(index, (position, name)): (u32, (usize, &str))| {
            let size = ranks.rank_count_of(position);
            let mut entries = vec![
                info(keys::NODEID.name(), index),
                info(keys::HOSTNAME.name(), name),
                info(keys::LOCAL_SIZE.name(), size),
                info(keys::NODE_SIZE.name(), size),
                info(keys::NODE_OVERSUBSCRIBED.name(), false),
            ];
            if let Some(leader) = ranks.ranks_of(position).min() {
                let mut peers = String::new();
                ranks.text_of(position, &mut peers);
                entries.push(info(keys::LOCALLDR.name(), Rank::from(leader)));
                entries.push(info(keys::LOCAL_PEERS.name(), peers));
            }
            if let Some(own) = self.own_node.as_ref().filter(|own| own.index == index) {
                entries.push(info(keys::TMPDIR.name(), own.session_directory.as_str()));
                entries.push(info(keys::NSDIR.name(), own.job_directory.as_str()));
                entries.push(info(keys::LOCAL_PROCS.name(), self.processes(ranks.ranks_of(position))));
            }
            entries.extend(self.node_values.get(&index).into_iter().flatten().cloned());
            info(keys::NODE_INFO_ARRAY.name(), Value::info_array(entries))
        };
        (0_u32..).zip(nodes.iter().enumerate()).map(array).collect()
    }

    fn process_arrays(&self, ranks: &RankMap) -> impl Iterator<Item = Info> {
        let nodes = (0_u32..).zip(0..ranks.node_count());
        nodes.flat_map(move |(node, position)| {
            (0_u32..).zip(ranks.ranks_of(position)).map(move |(local_rank, rank)| {
                let entries = self.process(rank, local_rank, node);
                info(keys::PROC_INFO_ARRAY.name(), Value::info_array(entries))
            })
        })
    }

    fn process(&self, rank: u32, local_rank: u32, node: u32) -> Vec<Info> {
        let (app, app_rank) = self.app_of(rank);
        let mut entries = vec![
            info(keys::RANK.name(), Rank::from(rank)),
            info(keys::APPNUM.name(), app),
            info(keys::APP_RANK.name(), Rank::from(app_rank)),
            info(keys::GLOBAL_RANK.name(), Rank::from(rank.saturating_add(self.global_rank_first))),
            info(keys::NODEID.name(), node),
            info(keys::REINCARNATION.name(), 0_u32),
            info(keys::SPAWNED.name(), self.parent.is_some()),
        ];
        entries.extend(self.parent.clone().map(|parent| info(keys::PARENT_ID.name(), parent)));
        // Processes of a node beyond 16 bits have no such numbers.
        if let Ok(local_rank) = u16::try_from(local_rank) {
            entries.push(info(keys::LOCAL_RANK.name(), local_rank));
            entries.push(info(keys::NODE_RANK.name(), local_rank));
        }
        entries.extend(self.process_values.get(&rank).into_iter().flatten().cloned());
        entries
    }

    /// The application of a rank, and its rank there.
    fn app_of(&self, rank: u32) -> (u32, u32) {
        let mut app_rank = rank;
        for (number, app) in (0_u32..).zip(&self.apps) {
            if app_rank < app.process_count {
                return (number, app_rank);
            }
            app_rank -= app.process_count;
        }
        (0, rank)
    }

    fn processes(&self, ranks: impl Iterator<Item = u32>) -> Value {
        let process = |rank| Value::from(ProcId { namespace: self.namespace.clone(), rank: Rank::from(rank) });
        Value::DataArray(Box::new(DataArray { element_type: DataType::Proc, elements: ranks.map(process).collect() }))
    }
}

/// An entry under a key of the standard.
fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}
