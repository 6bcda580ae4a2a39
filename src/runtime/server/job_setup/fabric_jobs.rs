//! Jobs that have got fabric resources: their security keys, and the applications that were set up so far.
//!
//! A host may set up the applications of a job one by one. Each answer is about all of them, as that of one setup would
//! be. So devices are used evenly, and a later answer can take the place of an earlier one. A change of the fabric
//! moves no endpoints of earlier applications.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::application::{Application, PlacedApplication};
use super::hardware::Hardware;
use super::layout::Layout;
use crate::regex::MapLimits;
use crate::types::Namespace;

/// Bytes of all jobs that are kept.
const BYTES_MAX: usize = 64 << 20;
/// Bytes of a job that count at least, so that 1,024 jobs are kept.
const JOB_BYTES_MIN: usize = BYTES_MAX / 1024;
/// Applications of a job.
const APPLICATIONS_MAX: usize = 1024;
/// Bytes of a key: two 64-bit numbers, as OpenPMIx makes it and programs read it.
const KEY_BYTES: usize = 16;

/// The newest jobs, the newest first. Users that name the same job have different ones.
#[derive(Debug, Default)]
pub(super) struct FabricJobs(Mutex<KeptJobs>);

#[derive(Debug, Default)]
struct KeptJobs {
    jobs: VecDeque<Kept>,
    /// The hardware of the last setup. Each job has this or a part of an earlier one.
    newest: Option<Hardware>,
}

#[derive(Debug)]
struct Kept {
    owner: u32,
    job: Namespace,
    /// Whether the host has set up the job, and so tells its end.
    is_hosts: bool,
    secret: Vec<u8>,
    /// In the order of their setups. They have no process in common.
    applications: Vec<PlacedApplication>,
    size_bytes: usize,
}

/// The setup of an application. Without [`ApplicationSetup::keep`] the earlier state of the job comes back.
#[derive(Debug)]
pub(super) struct ApplicationSetup<'j> {
    jobs: &'j FabricJobs,
    owner: u32,
    job: Namespace,
    /// The key of the job.
    pub(super) secret: Vec<u8>,
    /// The applications up to that of the setup.
    pub(super) applications: Vec<PlacedApplication>,
    /// The applications that the setup has taken the place of.
    dropped: Vec<PlacedApplication>,
    is_kept: bool,
}

/// The kernel gives no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system has no random bytes for a key")]
pub struct NoRandomBytes;

impl FabricJobs {
    /// Adds an application to a user's job. It has its endpoints from the newest hardware. `is_hosts` is true for a job
    /// that the host sets up. The limits are those of all applications.
    pub(super) fn add(
        &self,
        (owner, job): (u32, &Namespace),
        is_hosts: bool,
        application: Application,
        newest: &Hardware,
        limits: &MapLimits,
    ) -> Result<ApplicationSetup<'_>, NoRandomBytes> {
        self.settle(newest);
        let mut state = self.0.lock();
        let newer = state.newest.clone().filter(|now| !now.is_same(newest));
        let kept = &mut state.jobs;
        let place = kept.iter().position(|kept| kept.owner == owner && kept.job == *job);
        let mut found = match place.and_then(|place| kept.remove(place)) {
            Some(found) => found,
            None => Kept {
                owner,
                job: job.clone(),
                is_hosts,
                secret: secret()?,
                applications: Vec::new(),
                size_bytes: JOB_BYTES_MIN,
            },
        };
        found.is_hosts |= is_hosts;
        let placed = PlacedApplication { application: Arc::new(application), hardware: newest.clone() };
        let runs = placed.application.layout.sorted_runs();
        let (applications, dropped) = found.add(placed, limits);
        if dropped.first().is_some_and(|again| runs.is_empty() || again.application.layout.sorted_runs() != runs) {
            tracing::warn!(
                namespace = %job,
                forgotten = dropped.len(),
                "a setup begins the job anew, because it shares processes with an earlier application or exceeds a limit; the earlier \
                 application and the later ones are forgotten. Give each setup its own processes"
            );
        }
        let (secret, job) = (found.secret.clone(), job.clone());
        // Another setup has brought newer hardware meanwhile, and has not seen this application.
        let late = newer.map(|newer| (newer, found.applications.clone()));
        kept.push_front(found);
        shrink(kept);
        drop(state);
        if let Some((newer, kept)) = late {
            self.settle_job(owner, &job, kept, &newer);
        }
        Ok(ApplicationSetup { jobs: self, owner, job, secret, applications, dropped, is_kept: false })
    }

    fn withdraw(&self, ApplicationSetup { owner, job, applications, dropped, .. }: &mut ApplicationSetup<'_>) {
        let kept = &mut self.0.lock().jobs;
        let Some(found) = kept.iter_mut().find(|kept| kept.owner == *owner && kept.job == *job) else { return };
        if let Some(PlacedApplication { application, .. }) = applications.last() {
            found.applications.retain(|other| !Arc::ptr_eq(&other.application, application));
        }
        for placed in dropped.drain(..) {
            if !found.has_process_of(&placed.application.layout) {
                found.applications.push(placed);
            }
        }
        found.measure();
    }

    /// Forgets a job of the host. Jobs of that name at other servers stay: their end is not known here.
    pub(super) fn forget(&self, job: &Namespace) {
        self.0.lock().jobs.retain(|kept| !kept.is_hosts || kept.job != *job);
    }
}

impl ApplicationSetup<'_> {
    /// The application is set up.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Others have given the application its resources. It is forgotten, and what it has taken the place of.
    pub(super) fn give_way(mut self) {
        self.dropped.clear();
    }
}

impl Drop for ApplicationSetup<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.jobs.withdraw(self);
        }
    }
}

impl FabricJobs {
    /// Replaces the earlier hardware of all jobs, so that none of them keeps the whole of it. The nodes of large jobs
    /// are compared without the lock: until then a job has the same endpoints from its earlier hardware.
    fn settle(&self, newest: &Hardware) {
        let mut state = self.0.lock();
        if state.newest.replace(newest.clone()).is_some_and(|earlier| earlier.is_same(newest)) {
            return;
        }
        let jobs: Vec<_> =
            state.jobs.iter().map(|kept| (kept.owner, kept.job.clone(), kept.applications.clone())).collect();
        drop(state);
        for (owner, job, applications) in jobs {
            if !self.settle_job(owner, &job, applications, newest) {
                // The setup with a newer hardware compares all jobs.
                return;
            }
        }
    }

    /// Returns whether the hardware is still the newest.
    fn settle_job(&self, owner: u32, job: &Namespace, applications: Vec<PlacedApplication>, newest: &Hardware) -> bool {
        let settled = settled(applications, newest);
        let KeptJobs { jobs, newest: now } = &mut *self.0.lock();
        if !now.as_ref().is_some_and(|now| now.is_same(newest)) {
            return false;
        }
        if let Some(kept) = jobs.iter_mut().find(|kept| kept.owner == owner && kept.job == *job) {
            kept.take_settled(&settled);
            shrink(jobs);
        }
        true
    }
}

/// Applications with the hardware of their nodes alone.
fn settled(mut applications: Vec<PlacedApplication>, newest: &Hardware) -> Vec<PlacedApplication> {
    for applications in applications.chunk_by_mut(|one, other| one.hardware.is_same(&other.hardware)) {
        let nodes = || applications.iter().flat_map(|placed| placed.application.layout.node_names());
        let Some(PlacedApplication { hardware, .. }) = applications.first() else { continue };
        let kept = hardware.kept_for(nodes, newest);
        applications.iter_mut().for_each(|placed| placed.hardware = kept.clone());
    }
    applications
}

impl Kept {
    /// Takes the hardware of applications that are still there.
    fn take_settled(&mut self, settled: &[PlacedApplication]) {
        for placed in &mut self.applications {
            let same = |settled: &&PlacedApplication| Arc::ptr_eq(&placed.application, &settled.application);
            if let Some(settled) = settled.iter().find(same) {
                placed.hardware = settled.hardware.clone();
            }
        }
        self.measure();
    }

    fn has_process_of(&self, layout: &Layout) -> bool {
        let runs = layout.sorted_runs();
        self.applications.iter().any(|other| other.application.layout.has_process_of(&runs))
    }

    /// Adds an application. A setup of the same processes again is a new start of the job from there, so it may have
    /// the same answer. The end of an earlier job of this name may be unknown. A job beyond a limit begins anew, too.
    /// Returns the applications so far, and those that are dropped.
    fn add(
        &mut self,
        placed: PlacedApplication,
        limits: &MapLimits,
    ) -> (Vec<PlacedApplication>, Vec<PlacedApplication>) {
        let runs = placed.application.layout.sorted_runs();
        let again = self.applications.iter().position(|other| other.application.layout.has_process_of(&runs));
        let mut dropped = self.applications.split_off(again.unwrap_or(self.applications.len()));
        let layouts = || self.applications.iter().chain([&placed]).map(|placed| &placed.application.layout);
        if self.applications.len() >= APPLICATIONS_MAX
            || layouts().map(Layout::process_count).sum::<u64>() > limits.ranks_max.into()
            || layouts().map(Layout::node_count).sum::<u64>() > limits.nodes_max.into()
        {
            dropped.splice(..0, std::mem::take(&mut self.applications));
        }
        let so_far: Vec<_> = self.applications.iter().chain([&placed]).cloned().collect();
        let is_new = || self.applications.iter().all(|other| !other.application.asks_alike(&placed.application));
        if placed.application.layout.process_count() > 0 || !placed.application.wishes.is_empty() && is_new() {
            self.applications.push(placed);
            self.measure();
        }
        (so_far, dropped)
    }

    fn measure(&mut self) {
        let applications = self.applications.iter().map(|placed| placed.application.size_bytes());
        let hardware = self.applications.chunk_by(|one, other| one.hardware.is_same(&other.hardware));
        let hardware = hardware.filter_map(|of| of.first()).map(|placed| placed.hardware.size_bytes());
        self.size_bytes = applications.chain(hardware).sum::<usize>().max(JOB_BYTES_MIN);
    }
}

/// Removes jobs beyond the limit.
fn shrink(kept: &mut VecDeque<Kept>) {
    while kept.iter().map(|kept| kept.size_bytes).sum::<usize>() > BYTES_MAX {
        remove_one(kept);
    }
}

/// Removes the oldest job of the user with the most, so that no user takes the keys of others. The job that is added,
/// the first one, loses its applications before that.
fn remove_one(kept: &mut VecDeque<Kept>) {
    let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
    for Kept { owner, size_bytes, .. } in kept.iter() {
        *sizes.entry(*owner).or_default() += size_bytes;
    }
    let largest = sizes.into_iter().max_by_key(|(_, size)| *size).map(|(owner, _)| owner);
    let Some(place) = kept.iter().rposition(|kept| Some(kept.owner) == largest) else { return };
    match kept.get_mut(place) {
        Some(added) if place == 0 && !added.applications.is_empty() => {
            added.applications.clear();
            added.measure();
        }
        _ => drop(kept.remove(place)),
    }
}

/// A random key.
fn secret() -> Result<Vec<u8>, NoRandomBytes> {
    let mut bytes = vec![0; KEY_BYTES];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled == Ok(KEY_BYTES) { Ok(bytes) } else { Err(NoRandomBytes) }
}

#[cfg(test)]
mod tests {
    use super::super::application::Places;
    use super::super::hardware::ON_COMPARISON;
    use super::*;
    use crate::fabric::providers::Provider;
    use crate::fabric::{CurrentFabric, Fabric};
    use crate::topo::Inventories;
    use crate::topo::inventory::{Device, Inventory};
    use crate::types::codes::device_type::DEVTYPE_NETWORK;
    use crate::types::{Info, Key};

    /// An application on a node.
    fn application(node: &str, ranks: &str) -> Application {
        let maps = [("pmix.nmap", node), ("pmix.pmap", ranks)].map(|(key, map)| Info::new(Key::from_static(key), map));
        let layout = Layout::of(&maps, &MapLimits::default()).unwrap();
        Application { layout, places: Places::default(), wishes: Vec::new() }
    }

    fn job(name: &str) -> Namespace {
        Namespace::new(name).unwrap()
    }

    fn hardware() -> Hardware {
        Hardware::new(CurrentFabric::new(Fabric::unknown("test".to_owned())).handle(), Arc::default())
    }

    /// Adds an application; returns the key of the job.
    fn key(jobs: &FabricJobs, owner: u32, name: &str, is_hosts: bool) -> Vec<u8> {
        let setup = jobs
            .add((owner, &job(name)), is_hosts, application("n0", "0"), &hardware(), &MapLimits::default())
            .unwrap();
        let secret = setup.secret.clone();
        setup.keep();
        secret
    }

    /// Regression: a job's key went to each process that named the job in a question to the scheduler's host.
    #[test]
    fn a_key_is_for_a_user_and_a_job() {
        let jobs = FabricJobs::default();
        let first = key(&jobs, 7, "job", true);
        assert_eq!(key(&jobs, 7, "job", true), first, "for each application");
        assert_ne!(key(&jobs, 8, "job", false), first, "another user");
        assert_ne!(key(&jobs, 7, "other", true), first);
        jobs.forget(&job("job"));
        assert_ne!(key(&jobs, 7, "job", true), first);
    }

    /// Nodes with a network device of this name each.
    fn hardware_of(nodes: std::ops::Range<u32>, device: &str) -> Hardware {
        let inventory = |node| Inventory {
            node: format!("n{node}"),
            devices: vec![Device {
                name: device.to_owned(),
                device_types: DEVTYPE_NETWORK,
                uuid: device.to_owned(),
                ..Device::default()
            }],
            ..Inventory::default()
        };
        let inventories = Inventories::of_nodes(nodes.map(inventory));
        let fabric = CurrentFabric::new(inventories.read("").unwrap()).handle();
        Hardware::new(fabric, Arc::new(inventories))
    }

    /// A job that kept all of an earlier fabric would cost as much as the machine, for each change.
    #[test]
    fn jobs_keep_a_part_of_earlier_hardware_alone_and_its_size_counts() {
        let jobs = FabricJobs::default();
        let nodes: Vec<String> = (0..300).map(|node| format!("n{node}")).collect();
        let ranks: Vec<String> = (0..300).map(|rank| rank.to_string()).collect();
        let large = || application(&nodes.join(","), &ranks.join(";"));
        let add = |name: &str, application, hardware: &Hardware| {
            jobs.add((7, &job(name)), true, application, hardware, &MapLimits::default()).unwrap().keep();
        };
        let size = |name: &str| jobs.0.lock().jobs.iter().find(|kept| kept.job == job(name)).unwrap().size_bytes;
        let first = hardware_of(0..301, "eth0");
        add("large", large(), &first);
        add("small", application("n300", "0"), &first);
        let whole = size("large");
        let earlier = Arc::downgrade(&first.inventories);
        drop(first);
        add("other", application("n0", "0"), &hardware_of(0..301, "eth1"));
        assert!(earlier.upgrade().is_none(), "no job keeps the whole hardware");
        assert!(size("large") > 300 * 256);
        let setup = jobs.add(
            (7, &job("large")),
            true,
            application("n0", "300"),
            &hardware_of(0..301, "eth0"),
            &MapLimits::default(),
        );
        let setup = setup.unwrap();
        assert!(setup.applications[0].hardware.is_same(&setup.applications[1].hardware), "the devices are back");
        setup.keep();
        assert_eq!(size("large"), whole.max(size("small")), "and nothing else is kept");
    }

    /// Regression: after a change of the fabric, other setups waited for the comparison of all jobs' nodes.
    #[test]
    fn no_job_is_locked_during_a_comparison_of_hardware() {
        let jobs = std::rc::Rc::new(FabricJobs::default());
        let add = |name: &str, hardware: &Hardware| {
            let limits = MapLimits::default();
            jobs.add((7, &job(name)), true, application("n0", "0"), hardware, &limits).unwrap().keep();
        };
        add("one", &hardware_of(0..2, "eth0"));
        let (looked_at, found) = (std::rc::Rc::clone(&jobs), std::rc::Rc::new(std::cell::RefCell::new(Vec::new())));
        let noted = std::rc::Rc::clone(&found);
        let note = move || noted.borrow_mut().push(looked_at.0.try_lock().is_some());
        ON_COMPARISON.set(Some(Box::new(note)));
        add("two", &hardware_of(0..2, "eth1"));
        ON_COMPARISON.set(None);
        assert_eq!(*found.borrow(), [true]);
    }

    /// Regression: an application that came during the comparison kept all of the earlier hardware.
    #[test]
    fn an_application_that_meets_newer_hardware_keeps_a_part_of_its_own_alone() {
        let jobs = std::rc::Rc::new(FabricJobs::default());
        let add = |jobs: &FabricJobs, name: &str, hardware: &Hardware| {
            let limits = MapLimits::default();
            jobs.add((7, &job(name)), true, application("n0", "0"), hardware, &limits).unwrap().keep();
        };
        add(&jobs, "one", &hardware_of(0..2, "eth0"));
        let (others, newest) = (std::rc::Rc::clone(&jobs), hardware_of(0..2, "eth2"));
        let is_done = std::cell::Cell::new(false);
        ON_COMPARISON.set(Some(Box::new(move || {
            if !is_done.replace(true) {
                add(&others, "three", &newest);
            }
        })));
        let hardware = hardware_of(0..2, "eth1");
        let earlier = Arc::downgrade(&hardware.inventories);
        add(&jobs, "two", &hardware);
        ON_COMPARISON.set(None);
        drop(hardware);
        assert!(earlier.upgrade().is_none(), "no job keeps the whole hardware");
    }

    /// Regression: later applications kept all of the earlier hardware.
    #[test]
    fn an_application_takes_its_hardware_also_if_an_earlier_one_has_gone() {
        let [before, after] = ["eth0", "eth1"].map(|device| hardware_of(0..2, device));
        let applications = ["0", "1"].map(|rank| Arc::new(application("n0", rank)));
        let placed = |hardware: &Hardware| {
            let place = |application| PlacedApplication { application, hardware: hardware.clone() };
            applications.clone().map(place).to_vec()
        };
        let (owner, job, secret, applications) = (7, job("job"), Vec::new(), placed(&before).split_off(1));
        let mut kept = Kept { owner, job, is_hosts: true, secret, applications, size_bytes: 0 };
        kept.take_settled(&placed(&after));
        assert!(kept.applications[0].hardware.is_same(&after));
    }

    #[test]
    fn a_user_with_many_jobs_loses_the_oldest_keys_of_its_own() {
        let jobs = FabricJobs::default();
        let (of_other, oldest) = (key(&jobs, 7, "job0", false), key(&jobs, 8, "job0", false));
        for number in 1..1024 {
            key(&jobs, 8, &format!("job{number}"), false);
        }
        assert_eq!(jobs.0.lock().jobs.len(), 1024);
        assert_eq!(key(&jobs, 7, "job0", false), of_other);
        assert_ne!(key(&jobs, 8, "job0", false), oldest);
    }

    #[test]
    fn applications_add_up_until_the_processes_of_one_are_set_up_again() {
        let jobs = FabricJobs::default();
        let limits = MapLimits { ranks_max: 10, nodes_max: 5, ..MapLimits::default() };
        let counts = |ranks: &str| {
            let setup = jobs.add((7, &job("job")), true, application("n0", ranks), &hardware(), &limits).unwrap();
            let counts: Vec<u64> = setup.applications.iter().map(|of| of.application.layout.process_count()).collect();
            setup.keep();
            counts
        };
        assert_eq!(counts("0,1"), [2]);
        assert_eq!(counts("2-4"), [2, 3]);
        assert_eq!(counts("5"), [2, 3, 1]);
        assert_eq!(counts("4,7"), [2, 2]);
        assert_eq!([counts("0,1"), counts("2-4")], [vec![2], vec![2, 3]], "the same setups again");
        let refused = jobs.add((7, &job("job")), true, application("n0", "1,5"), &hardware(), &limits).unwrap();
        assert_eq!(refused.applications.len(), 1);
        drop(refused);
        assert_eq!(counts("9"), [2, 3, 1]);
        assert_eq!([counts("20-23"), counts("24")], [vec![2, 3, 1, 4], vec![1]], "beyond ten ranks");
        (0..4).for_each(|rank| assert_eq!(counts(&rank.to_string()).len(), rank + 2));
        assert_eq!(counts("5"), [1], "beyond five nodes");
        jobs.forget(&job("job"));
        assert_eq!(counts("9"), [1]);
    }

    /// The ranks are apart, so each one takes memory.
    #[test]
    fn a_large_job_takes_the_place_of_no_other_users() {
        let jobs = FabricJobs::default();
        let of_other = key(&jobs, 7, "job", false);
        let apart = |first: u32| (0..1 << 20).map(|rank| (first + 2 * rank).to_string()).collect::<Vec<_>>().join(",");
        for number in 0..10 {
            let large = application("n0", &apart(number % 2));
            let add = |name: &str, large| {
                jobs.add((8, &job(name)), false, large, &hardware(), &MapLimits::default()).unwrap().keep()
            };
            add(&format!("large{number}"), large);
            add("two", application("n0", &apart(number % 2)));
        }
        let size: usize = jobs.0.lock().jobs.iter().map(|kept| kept.size_bytes).sum();
        assert!(size <= BYTES_MAX, "{size}");
        assert_eq!(key(&jobs, 7, "job", false), of_other);
    }
}
