//! The walk through a description: each value goes to its realm, checked.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::keys::{self, DefaultRealm, default_realm};
use crate::types::{Info, Key, Namespace, Rank, Value, descend};

use super::coerce::{ValueRule, text_of};
use super::columns::Columns;
use super::container::{Container, Infos};
use super::context::DescriptionLimits;
use super::description::Part;
use super::endpoints::{ENDPOINTS, endpoint_lists};
use super::entry_path::Anchor;
use super::error::{RegisterError, within};
use super::maps::check_once;
use super::processes::ProcessTable;
use super::sessions::Sessions;
use super::table::{NodeArray, PartFacts, ValueTable};

/// The facts of a description, sorted by realm.
#[derive(Debug, Default)]
pub(super) struct Facts<'a> {
    /// The host wants only the namespace's name recorded.
    pub(super) nodata: bool,
    pub(super) sessions: Sessions<'a>,
    pub(super) job: ValueTable,
    pub(super) apps: BTreeMap<u32, PartFacts<'a>>,
    /// Application values outside application arrays.
    pub(super) loose_app: ValueTable,
    /// Node values outside node arrays, which describe the server's own node.
    pub(super) loose_node: Vec<&'a Info>,
    /// Node arrays of the job.
    pub(super) job_nodes: Vec<NodeArray<'a>>,
    pub(super) procs: Columns<'a>,
    /// Ranks with a process array, in the order of the description.
    pub(super) ranks: Vec<u32>,
    /// Number of ranks, from the first, that the server added.
    pub(super) added_ranks: usize,
}

impl Facts<'_> {
    /// Confirms that the caller gave at most one array for each process.
    pub(super) fn check_processes(&self) -> Result<(), RegisterError> {
        let given = self.ranks.get(self.added_ranks..).unwrap_or_default();
        match repeated(given) {
            Some(rank) => {
                let error = RegisterError::ProcessTwice { rank }.about(keys::RANK.name());
                Err(error.anchored(Anchor::SecondOfProcess(rank)))
            }
            None => Ok(()),
        }
    }
}

/// The first rank that occurs a second time. Hosts list processes by rank or node by node.
fn repeated(ranks: &[u32]) -> Option<u32> {
    if ranks.is_sorted_by(|one, next| one < next) {
        return None;
    }
    let highest = ranks.iter().max().and_then(|highest| usize::try_from(*highest).ok())?;
    if highest / BITS_A_RANK_MAX > ranks.len() {
        let mut seen = FxHashSet::default();
        return ranks.iter().copied().find(|rank| !seen.insert(*rank));
    }
    let mut seen = vec![0_u64; highest / BITS_A_RANK_MAX + 1];
    ranks.iter().copied().find(|rank| {
        let word = usize::try_from(rank / u64::BITS).ok().and_then(|at| seen.get_mut(at));
        word.is_some_and(|word| {
            let bit = 1 << (rank % u64::BITS);
            let is_known = *word & bit != 0;
            *word |= bit;
            is_known
        })
    })
}

/// Each application may have an info of endpoints, which is read up to its last rank.
const ENDPOINT_ROUNDS_MAX: u64 = 16;

/// Bits of the table for each rank given, at most. Sparser ranks go to a hash set.
const BITS_A_RANK_MAX: usize = 64;

/// Sorts a description.
pub(super) fn collect<'a>(
    namespace: &'a Namespace,
    limits: &'a DescriptionLimits,
    description: impl Iterator<Item = Part<'a>>,
) -> Result<Facts<'a>, RegisterError> {
    let mut walk = Walk {
        namespace,
        limits,
        facts: Facts::default(),
        entry_count: 0,
        session_count: 0,
        proc_count: 0,
        app_count: 0,
        node_count: 0,
        endpoint_ranks: 0,
    };
    for part in description {
        if !matches!(part, Part::Added(..)) {
            walk.facts.sessions.begin_own();
        }
        match part {
            Part::Added(position, info) => {
                walk.entry_at(position, info, Scope::Job, 1).map_err(RegisterError::in_resources)?;
                walk.facts.added_ranks = walk.facts.ranks.len();
            }
            Part::Info(_, info) if info.key.as_str() == keys::REGISTER_NODATA.name() => walk.nodata(info)?,
            Part::Info(position, info) => walk.entry_at(position, info, Scope::Job, 1)?,
            Part::Processes(table, _) => walk.table(table)?,
        }
    }
    Ok(walk.facts)
}

/// The subject of the entries of the current container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Session(u32),
    Job,
    App(u32),
}

struct Walk<'a> {
    namespace: &'a Namespace,
    limits: &'a DescriptionLimits,
    facts: Facts<'a>,
    entry_count: u64,
    session_count: u64,
    proc_count: u64,
    app_count: u64,
    node_count: u64,
    /// Ranks of all infos of endpoints.
    endpoint_ranks: u64,
}

impl<'a> Walk<'a> {
    /// Sorts the entry at a position of its array.
    fn entry_at(&mut self, position: u64, info: &'a Info, scope: Scope, depth: u32) -> Result<(), RegisterError> {
        self.entry(info, scope, depth).map_err(|error| error.in_entry(info, position))
    }

    /// Sorts one entry. `depth` counts the containers around it, the description itself included.
    fn entry(&mut self, info: &'a Info, scope: Scope, depth: u32) -> Result<(), RegisterError> {
        self.count_entries(1)?;
        if let Some(container) = Container::of(info.key.as_str()) {
            return self.container(container, info, scope, depth);
        }
        match scope {
            Scope::Session(id) => self.facts.sessions.part(id).table.insert(info),
            Scope::Job => self.loose(info),
            Scope::App(_) if info.key.as_str() == keys::APPNUM.name() => Ok(()),
            Scope::App(number) => self.facts.apps.entry(number).or_default().table.insert(info),
        }
    }

    fn container(
        &mut self,
        container: Container,
        info: &'a Info,
        scope: Scope,
        depth: u32,
    ) -> Result<(), RegisterError> {
        within("levels of containers", u64::from(depth), u64::from(self.limits.depth_max))?;
        let infos = Infos::of(info.key.as_str(), &info.value)?;
        descend(|| self.inside(container, infos, scope, depth + 1))
    }

    fn inside(
        &mut self,
        container: Container,
        infos: Infos<'a>,
        scope: Scope,
        depth: u32,
    ) -> Result<(), RegisterError> {
        match container {
            Container::Session => {
                let id = self.identify_session(infos)?;
                self.facts.sessions.open(id, self.limits.apps_max)?;
                self.entries(infos, Scope::Session(id), depth)
            }
            Container::Job => {
                if let Scope::Session(id) = scope {
                    self.facts.sessions.holds_job(id);
                }
                self.entries(infos, Scope::Job, depth)
            }
            Container::App => {
                let number = self.identify_app(infos)?;
                self.entries(infos, Scope::App(number), depth)
            }
            Container::Proc => self.proc_array(infos, scope, depth),
            Container::Node => self.node_array(infos, scope, depth),
        }
    }

    fn entries(&mut self, infos: Infos<'a>, scope: Scope, depth: u32) -> Result<(), RegisterError> {
        infos.iter().enumerate().try_for_each(|(position, info)| {
            infos.fetch_ahead(position);
            self.entry_at(u64::try_from(position).unwrap_or(u64::MAX), info, scope, depth)
        })
    }

    /// A value outside session, application, process and node arrays: the key's default realm decides.
    fn loose(&mut self, info: &'a Info) -> Result<(), RegisterError> {
        const NSPACE: &str = keys::NSPACE.name();
        const NODE_MAP: &str = keys::NODE_MAP.name();
        const PROC_MAP: &str = keys::PROC_MAP.name();
        match info.key.as_str() {
            // A value without a key cannot be requested.
            "" => return Ok(()),
            NSPACE => self.check_namespace(info)?,
            key @ (NODE_MAP | PROC_MAP) => check_once(&self.facts.job, key)?,
            ENDPOINTS => return self.endpoints(info),
            _ => {}
        }
        match default_realm(info.key.as_str()) {
            DefaultRealm::Session => self.facts.sessions.loose().insert(info),
            DefaultRealm::Application => self.facts.loose_app.insert(info),
            DefaultRealm::Node => {
                // Checked here, where its place is known; filed once the own node is known.
                ValueRule::of(info.key.as_str()).check(info.key.as_str(), &info.value)?;
                self.facts.loose_node.push(info);
                Ok(())
            }
            DefaultRealm::ByRank => self.facts.job.insert(info),
        }
    }

    /// Endpoints of an earlier info come first.
    fn endpoints(&mut self, info: &Info) -> Result<(), RegisterError> {
        let lists = endpoint_lists(&info.value, self.limits.ranks_max).ok_or(RegisterError::Endpoints)?;
        self.endpoint_ranks = self.endpoint_ranks.saturating_add(lists.numbers.len() as u64);
        let ranks_max = u64::from(self.limits.ranks_max).saturating_mul(ENDPOINT_ROUNDS_MAX);
        within("ranks of endpoints", self.endpoint_ranks, ranks_max)?;
        self.facts.procs.column(&Key::from_static(keys::FABRIC_ENDPT.name())).fill_endpoints(lists);
        Ok(())
    }

    /// Files the values of a process. This is the hot path of large jobs.
    fn proc_array(&mut self, infos: Infos<'a>, scope: Scope, depth: u32) -> Result<(), RegisterError> {
        let rank = self.identify_process(infos)?;
        self.proc_count += 1;
        self.count_entries(infos.len())?;
        self.facts.ranks.push(rank);
        for (position, info) in infos.iter().enumerate().skip(1) {
            let column = self.facts.procs.existing_at(position, info.key.as_str());
            if !column.is_some_and(|column| column.continues(rank, &info.value)) {
                let filed = self.process_entry(rank, info, scope, depth);
                filed.map_err(|error| error.in_entry(info, u64::try_from(position).unwrap_or(u64::MAX)))?;
            }
        }
        if let Scope::App(number) = scope
            && infos.with_key(keys::APPNUM.name()).next().is_none()
        {
            let column = self.facts.procs.column(&Key::from_static(keys::APPNUM.name()));
            column.set_number(rank, u64::from(number));
        }
        Ok(())
    }

    /// Files a value that does not continue the column of the value before.
    #[inline(never)]
    fn process_entry(&mut self, rank: u32, info: &'a Info, scope: Scope, depth: u32) -> Result<(), RegisterError> {
        let key = info.key.as_str();
        if let Some(column) = self.facts.procs.existing(key) {
            column.insert(rank, &info.value)
        } else if let Some(container) = Container::of(key) {
            self.container(container, info, scope, depth)
        } else if key == keys::RANK.name() {
            Err(RegisterError::Twice { key: "PMIX_RANK", place: "one process array" })
        } else if key == keys::PROCID.name() {
            self.check_process(rank, info)
        } else if key == keys::NSPACE.name() {
            // Not stored: the namespace of every process is the job's.
            ValueRule::of(key).check(key, &info.value)?;
            self.check_namespace(info)
        } else {
            self.facts.procs.insert(rank, info)
        }
    }

    /// Files process arrays outside other containers; the result equals that of [`Self::proc_array`] for each.
    fn table(&mut self, table: &'a ProcessTable) -> Result<(), RegisterError> {
        self.facts.ranks.reserve(usize::try_from(table.array_count()).unwrap_or_default());
        for (rank, entry_count) in table.arrays() {
            self.count_process(rank, entry_count).map_err(|error| error.anchored(Anchor::Process(rank)))?;
        }
        for column in table.columns() {
            self.facts.procs.column(column.key()).extend(column);
        }
        Ok(())
    }

    fn count_process(&mut self, rank: u32, entry_count: u64) -> Result<(), RegisterError> {
        self.count_entries(1)?;
        within("levels of containers", 1, u64::from(self.limits.depth_max))?;
        let sized = within("ranks", u64::from(rank) + 1, u64::from(self.limits.ranks_max));
        sized.map_err(|error| error.about(keys::RANK.name()))?;
        self.proc_count += 1;
        self.count_entries(entry_count)?;
        self.facts.ranks.push(rank);
        Ok(())
    }

    /// Keeps a node array for later; containers in it are sorted now.
    fn node_array(&mut self, infos: Infos<'a>, scope: Scope, depth: u32) -> Result<(), RegisterError> {
        let array = NodeArray { position: self.node_count, infos };
        self.node_count += 1;
        self.count_entries(infos.len())?;
        match scope {
            Scope::Session(id) => self.facts.sessions.part(id).nodes.push(array),
            Scope::Job => self.facts.job_nodes.push(array),
            Scope::App(number) => self.facts.apps.entry(number).or_default().nodes.push(array),
        }
        for (position, info) in (0..).zip(infos.iter()) {
            if let Some(container) = Container::of(info.key.as_str()) {
                let sorted = self.container(container, info, scope, depth);
                sorted.map_err(|error| error.in_entry(info, position))?;
            }
        }
        Ok(())
    }

    fn identify_session(&mut self, infos: Infos<'a>) -> Result<u32, RegisterError> {
        let position = self.session_count;
        self.session_count += 1;
        let mut numbers = infos.with_key(keys::SESSION_ID.name());
        match (numbers.next(), numbers.next()) {
            (Some(info), None) => u32_of(info),
            (Some(_), Some(_)) => {
                let twice = RegisterError::Twice { key: "PMIX_SESSION_ID", place: "one session array" };
                Err(twice.about(keys::SESSION_ID.name()))
            }
            (None, _) => Err(RegisterError::Unidentified {
                container: "PMIX_SESSION_INFO_ARRAY",
                position,
                missing: "PMIX_SESSION_ID",
            }),
        }
    }

    /// The application's number. It may be anywhere in the array, and may be missing while no application is known.
    fn identify_app(&mut self, infos: Infos<'a>) -> Result<u32, RegisterError> {
        let mut numbers = infos.with_key(keys::APPNUM.name());
        let number = match numbers.next() {
            Some(info) => u32_of(info)?,
            None if self.facts.apps.is_empty() => 0,
            None => {
                return Err(RegisterError::Unidentified {
                    container: "PMIX_APP_INFO_ARRAY",
                    position: self.app_count,
                    missing: "PMIX_APPNUM",
                });
            }
        };
        if numbers.next().is_some() {
            let twice = RegisterError::Twice { key: "PMIX_APPNUM", place: "one application array" };
            return Err(twice.about(keys::APPNUM.name()));
        }
        self.app_count += 1;
        if !self.facts.apps.contains_key(&number) {
            let app_count = u64::try_from(self.facts.apps.len()).unwrap_or(u64::MAX).saturating_add(1);
            within("applications", app_count, u64::from(self.limits.apps_max))?;
            self.facts.apps.insert(number, PartFacts::default());
        }
        Ok(number)
    }

    /// The rank of a process array, from its first entry, `PMIX_RANK` or `PMIX_PROCID`.
    fn identify_process(&self, infos: Infos<'a>) -> Result<u32, RegisterError> {
        let unidentified = RegisterError::Unidentified {
            container: "PMIX_PROC_INFO_ARRAY",
            position: self.proc_count,
            missing: "PMIX_RANK as its first entry",
        };
        let Some(first) = infos.iter().next() else { return Err(unidentified) };
        let key = first.key.as_str();
        let rank = if key == keys::RANK.name()
            && let Value::ProcRank(rank) = &first.value
        {
            *rank
        } else if key == keys::RANK.name() {
            match ValueRule::of(key).value(ValueRule::of(key).check(key, &first.value)?) {
                Value::ProcRank(rank) => rank,
                _ => return Err(unidentified),
            }
        } else if key == keys::PROCID.name() {
            self.process_id(first).map_err(|error| error.about(key))?
        } else {
            return Err(unidentified);
        };
        let Rank::Process(rank) = rank else { return Err(RegisterError::NotAProcess { rank }.about(key)) };
        within("ranks", u64::from(rank) + 1, u64::from(self.limits.ranks_max)).map_err(|error| error.about(key))?;
        Ok(rank)
    }

    /// The rank in a process identifier, which must be of this job.
    fn process_id(&self, info: &Info) -> Result<Rank, RegisterError> {
        ValueRule::of(keys::PROCID.name()).check(info.key.as_str(), &info.value)?;
        match &info.value {
            Value::Proc(proc) if proc.namespace == *self.namespace => Ok(proc.rank),
            Value::Proc(proc) => Err(self.other_job(proc.namespace.as_str())),
            _ => Ok(Rank::Undefined),
        }
    }

    /// A process identifier that repeats the subject of its array. It is not stored, because it follows from the rank.
    fn check_process(&self, rank: u32, info: &Info) -> Result<(), RegisterError> {
        let found = self.process_id(info)?;
        if found == Rank::Process(rank) { Ok(()) } else { Err(RegisterError::OtherProcess { rank, found }) }
    }

    fn check_namespace(&self, info: &Info) -> Result<(), RegisterError> {
        match text_of(&info.value) {
            Some(found) if found != self.namespace.as_str() => Err(self.other_job(&found)),
            _ => Ok(()),
        }
    }

    fn nodata(&mut self, info: &Info) -> Result<(), RegisterError> {
        let rule = ValueRule::of(info.key.as_str());
        self.facts.nodata = rule.value(rule.check(info.key.as_str(), &info.value)?) == Value::flag();
        Ok(())
    }

    fn count_entries(&mut self, count: u64) -> Result<(), RegisterError> {
        self.entry_count = self.entry_count.saturating_add(count);
        within("entries", self.entry_count, self.limits.entries_max)
    }

    fn other_job(&self, found: &str) -> RegisterError {
        RegisterError::OtherJob { expected: self.namespace.clone(), found: found.to_owned() }
    }
}

/// The value of an entry whose attribute is a 32-bit number.
pub(super) fn u32_of(info: &Info) -> Result<u32, RegisterError> {
    let rule = ValueRule::of(info.key.as_str());
    let value = rule.value(rule.check(info.key.as_str(), &info.value)?);
    // The check has converted it to the attribute's type.
    Ok(value.as_u32().unwrap_or(u32::MAX))
}
