//! Static ports of jobs: the answer to a wish for endpoints of the type tcp or udp.
//!
//! ```text
//! pnet_tcp_static_ports --> groups of ports --take--> holds of a job --+
//!                                   ^                                  |
//!                                   +-- refused setup, or end of job --+
//! ```
//!
//! All nodes of a job get the same ports, so a group has as many as one node of the job needs. The jobs of a user have
//! a share of a group, if the host names users.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use crate::ptl::port_range;
use crate::runtime::server::service_desk::may_take_all;
use crate::runtime::shared::parameters::{PNET_TCP_STATIC_PORTS, is_pnet_module_named, parameter_value};
use crate::server::UserShares;
use crate::types::{Key, Namespace};

/// Groups of a description.
const GROUPS_MAX: usize = 64;

/// Ports that a server hands out to jobs.
///
/// ```
/// use modex::StaticPorts;
///
/// let ports = StaticPorts::parse("tcp:10.10.10.0/24:32000-32100,33000;udp:40000,40005")?;
/// assert_eq!(ports.count(), 104);
/// assert!(StaticPorts::parse("tcp:33000-32000").is_err());
/// # Ok::<(), modex::StaticPortsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticPorts {
    groups: Vec<Group>,
}

/// Why static ports can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StaticPortsError {
    /// A group has another form.
    #[error("group {number} of the static ports is no TYPE:RANGES or TYPE:PLANE:RANGES, with the type tcp or udp")]
    Form {
        /// Its number, from 1.
        number: usize,
    },
    /// A range is none.
    #[error("group {number} of the static ports has a range that is none; say FIRST-LAST or PORT, from 1 to 65535")]
    Range {
        /// The number of the group, from 1.
        number: usize,
    },
    /// A port would be handed out twice.
    #[error("the static ports have port {port} of one type and plane twice")]
    Twice {
        /// The port.
        port: u16,
    },
    /// Too many groups.
    #[error("the static ports have more than {GROUPS_MAX} groups")]
    TooMany,
}

/// Ports of one type and plane.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    kind: &'static str,
    plane: Option<Box<str>>,
    ports: BTreeSet<u16>,
}

impl StaticPorts {
    /// Reads groups as OpenPMIx describes them: `TYPE:RANGES` or `TYPE:PLANE:RANGES`, with semicolons between them.
    ///
    /// # Errors
    /// [`StaticPortsError`] names the group or port.
    pub fn parse(text: &str) -> Result<Self, StaticPortsError> {
        let mut groups: Vec<Group> = Vec::new();
        for (number, part) in (1..).zip(text.split(';')) {
            if groups.len() == GROUPS_MAX {
                return Err(StaticPortsError::TooMany);
            }
            let group = Group::parse(part.trim(), number)?;
            let is_alike = |other: &&Group| (other.kind, &other.plane) == (group.kind, &group.plane);
            let before = groups.iter().filter(is_alike).find_map(|other| other.ports.intersection(&group.ports).next());
            if let Some(&port) = before {
                return Err(StaticPortsError::Twice { port });
            }
            groups.push(group);
        }
        Ok(Self { groups })
    }

    /// The ports of the parameters `pnet` with `tcp`, and `pnet_tcp_static_ports`.
    ///
    /// # Errors
    /// [`StaticPortsError`] names the group or port.
    pub fn of_parameters() -> Result<Self, StaticPortsError> {
        match parameter_value(PNET_TCP_STATIC_PORTS).filter(|_| is_pnet_module_named("tcp")) {
            Some(text) => Self::parse(&text.to_string_lossy()),
            None => Ok(Self::default()),
        }
    }

    /// The number of ports of all groups.
    #[must_use]
    pub fn count(&self) -> usize {
        self.groups.iter().map(|group| group.ports.len()).sum()
    }
}

impl Group {
    fn parse(text: &str, number: usize) -> Result<Self, StaticPortsError> {
        let form = || StaticPortsError::Form { number };
        let (kind, rest) = text.split_once(':').ok_or_else(form)?;
        let kind = kind_of(kind).ok_or_else(form)?;
        // An IPv6 plane has colons, too.
        let (plane, ranges) = rest.rsplit_once(':').map_or((None, rest), |(plane, ranges)| (Some(plane), ranges));
        if plane.is_some_and(|plane| plane.is_empty() || plane.contains(char::is_control)) {
            return Err(form());
        }
        let mut ports = BTreeSet::new();
        for range in ranges.split(',') {
            let mut range = port_range(range).ok_or(StaticPortsError::Range { number })?;
            if let Some(port) = range.find(|&port| !ports.insert(port)) {
                return Err(StaticPortsError::Twice { port });
            }
        }
        Ok(Self { kind, plane: plane.map(Box::from), ports })
    }

    fn is_of(&self, kind: Option<&str>, plane: Option<&str>) -> bool {
        kind.is_none_or(|kind| kind_of(kind) == Some(self.kind))
            && plane.is_none_or(|plane| self.plane.as_deref() == Some(plane))
    }
}

/// The type of a port, with any letters.
fn kind_of(text: &str) -> Option<&'static str> {
    ["tcp", "udp"].into_iter().find(|kind| kind.eq_ignore_ascii_case(text))
}

/// The ports of a server, and the jobs that hold them.
#[derive(Debug, Default)]
pub(super) struct PortDesk(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    groups: Vec<OpenGroup>,
    held: BTreeMap<Namespace, Vec<Hold>>,
    /// The number of the next setup.
    next: u64,
}

#[derive(Debug)]
struct OpenGroup {
    group: Group,
    free: BTreeSet<u16>,
    shares: UserShares,
}

#[derive(Debug)]
struct Hold {
    /// The setup that took the ports.
    setup: u64,
    /// Whether that setup has succeeded.
    is_kept: bool,
    /// The name of the wish.
    id: Key,
    group: usize,
    ports: Vec<u16>,
    user: Option<u32>,
}

/// Ports of a group, or the reason for none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) kind: &'static str,
    pub(super) plane: Option<Box<str>>,
    pub(super) ports: Result<Vec<u16>, PortShortage>,
}

/// Why a job gets no ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PortShortage {
    /// The group is exhausted.
    #[error("the job needs {needed} static ports and {free} are free; wait for the end of another job, or add ports")]
    Exhausted {
        /// The ports that the job needs on a node.
        needed: u64,
        /// The ports that no job has.
        free: usize,
    },
    /// The user's jobs have their share.
    #[error("the job needs {needed} static ports, and the jobs of user {user} would have more than their share")]
    Share {
        /// The ports that the job needs on a node.
        needed: u64,
        /// The user.
        user: u32,
    },
}

impl PortDesk {
    pub(super) fn new(ports: StaticPorts) -> Self {
        let open = |group: Group| OpenGroup { free: group.ports.clone(), group, shares: UserShares::default() };
        let groups = ports.groups.into_iter().map(open).collect();
        Self(Mutex::new(Books { groups, ..Books::default() }))
    }

    /// A setup of a job. `user` is the job's owner, if the host has named one.
    pub(super) fn setup<'d>(&'d self, namespace: &Namespace, user: Option<u32>) -> PortSetup<'d> {
        let mut books = self.0.lock();
        books.next = books.next.wrapping_add(1);
        PortSetup { desk: self, namespace: namespace.clone(), user, number: books.next, is_kept: false }
    }

    /// Takes the ports of a job back.
    pub(super) fn forget(&self, namespace: &Namespace) {
        self.0.lock().take_back(namespace, |_| true);
    }
}

impl Books {
    fn take_back(&mut self, namespace: &Namespace, is_meant: impl Fn(&Hold) -> bool) {
        let Some(holds) = self.held.get_mut(namespace) else { return };
        for Hold { group, ports, user, .. } in holds.extract_if(.., |hold| is_meant(hold)) {
            let Some(group) = self.groups.get_mut(group) else { continue };
            if let Some(user) = user {
                group.shares.give_back(user, ports.len());
            }
            group.free.extend(ports);
        }
        if holds.is_empty() {
            self.held.remove(namespace);
        }
    }
}

/// A setup of a job. Without [`PortSetup::keep`] its ports go back.
#[derive(Debug)]
pub(super) struct PortSetup<'d> {
    desk: &'d PortDesk,
    namespace: Namespace,
    user: Option<u32>,
    number: u64,
    is_kept: bool,
}

impl PortSetup<'_> {
    /// Whether the server has a group of a type and plane. Without a type or plane each one is right.
    pub(super) fn has_group(&self, kind: Option<&str>, plane: Option<&str>) -> bool {
        self.desk.0.lock().groups.iter().any(|open| open.group.is_of(kind, plane))
    }

    /// Takes so many ports of the first group of a type and plane for a wish. `None` if there is no such group. Without
    /// a type or plane each one is right. Ports that the wish has got in earlier setups of the job are the first.
    pub(super) fn take(&self, id: &Key, kind: Option<&str>, plane: Option<&str>, needed: u64) -> Option<Taken> {
        let mut books = self.desk.0.lock();
        let Books { groups, held, .. } = &mut *books;
        let (place, open) = groups.iter_mut().enumerate().find(|(_, open)| open.group.is_of(kind, plane))?;
        let of_job = held.entry(self.namespace.clone()).or_default();
        // Another setup that is not over may give its ports back.
        let is_lasting = |hold: &&Hold| hold.is_kept || hold.setup == self.number;
        let earlier = of_job.iter().filter(|hold| hold.id == *id && hold.group == place).filter(is_lasting);
        let mut all: Vec<u16> = earlier.flat_map(|hold| &hold.ports).copied().collect();
        let ports = open.take(self.user, needed.saturating_sub(all.len() as u64)).map(|ports| {
            all.extend(&ports);
            if !ports.is_empty() {
                let (setup, id, user) = (self.number, id.clone(), self.user);
                of_job.push(Hold { setup, is_kept: false, id, group: place, ports, user });
            }
            all
        });
        if of_job.is_empty() {
            held.remove(&self.namespace);
        }
        Some(Taken { kind: open.group.kind, plane: open.group.plane.clone(), ports })
    }

    /// The job keeps its ports until it is deregistered.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
        let mut books = self.desk.0.lock();
        let holds = books.held.get_mut(&self.namespace).into_iter().flatten();
        holds.filter(|hold| hold.setup == self.number).for_each(|hold| hold.is_kept = true);
    }
}

impl Drop for PortSetup<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.desk.0.lock().take_back(&self.namespace, |hold| hold.setup == self.number);
        }
    }
}

impl OpenGroup {
    fn take(&mut self, user: Option<u32>, needed: u64) -> Result<Vec<u16>, PortShortage> {
        let free = self.free.len();
        let count = usize::try_from(needed).ok().filter(|&count| count <= free);
        let count = count.ok_or(PortShortage::Exhausted { needed, free })?;
        if let Some(user) = user {
            let max = self.group.ports.len();
            if !may_take_all(user) && !self.shares.permit(user, count, max) {
                return Err(PortShortage::Share { needed, user });
            }
            self.shares.take(user, count);
        }
        Ok((0..count).map_while(|_| self.free.pop_first()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> Namespace {
        Namespace::new(name).unwrap()
    }

    fn desk(text: &str) -> PortDesk {
        PortDesk::new(StaticPorts::parse(text).unwrap())
    }

    /// Takes ports for a job that keeps them. Each number has a wish of its own.
    fn take(desk: &PortDesk, name: &str, user: Option<u32>, needed: u64) -> Result<Vec<u16>, PortShortage> {
        let setup = desk.setup(&job(name), user);
        let id = Key::from_bytes(format!("net{needed}").as_bytes()).unwrap();
        let taken = setup.take(&id, None, None, needed).unwrap();
        setup.keep();
        taken.ports
    }

    /// Two setups shared ports, and the failure of the first gave them to another job.
    #[test]
    fn ports_of_a_setup_that_is_not_over_are_its_own() {
        let desk = desk("tcp:1-9");
        let id = Key::from_static("net");
        let first = desk.setup(&job("a"), None);
        first.take(&id, None, None, 2).unwrap().ports.unwrap();
        let second = desk.setup(&job("a"), None);
        assert_eq!(second.take(&id, None, None, 2).unwrap().ports, Ok(vec![3, 4]));
        second.keep();
        drop(first);
        assert_eq!(take(&desk, "b", None, 2), Ok(vec![1, 2]));
        let again = desk.setup(&job("a"), None);
        assert_eq!(again.take(&id, None, None, 2).unwrap().ports, Ok(vec![3, 4]));
        again.keep();
        assert_eq!(desk.0.lock().held[&job("a")].len(), 1, "a setup that needs no more ports holds none");
    }

    #[test]
    fn groups_have_a_type_a_plane_and_ranges() {
        let ports = StaticPorts::parse("tcp:10.10.10.0/24:32000-32002,33000; UDP:40000;tcp:fe80::/64:7-7").unwrap();
        let shown: Vec<_> = ports.groups.iter().map(|group| (group.kind, group.plane.as_deref())).collect();
        assert_eq!(shown, [("tcp", Some("10.10.10.0/24")), ("udp", None), ("tcp", Some("fe80::/64"))]);
        assert_eq!(ports.groups[0].ports, BTreeSet::from([32000, 32001, 32002, 33000]));
        let of = |text: &str| StaticPorts::parse(text).unwrap_err().to_string();
        let form = "group 2 of the static ports is no TYPE:RANGES or TYPE:PLANE:RANGES, with the type tcp or udp";
        for text in ["tcp:1;sctp:2", "tcp:1;", "tcp:1;7", "tcp:1;tcp::2", "tcp:1;tcp:a\nb:2"] {
            assert_eq!(of(text), form, "{text}");
        }
        for range in ["", "0", "65536", "9-8", "1-", "-1", "a", "1-2-3", "1,,2"] {
            let expected =
                "group 1 of the static ports has a range that is none; say FIRST-LAST or PORT, from 1 to 65535";
            assert_eq!(of(&format!("tcp:{range}")), expected, "{range}");
        }
        for text in ["tcp:1-5,3", "tcp:1-5;udp:3;tcp:5", "tcp:p:3;tcp:p:3"] {
            assert!(of(text).starts_with("the static ports have port "), "{text}");
        }
        assert!(StaticPorts::parse("tcp:3;tcp:p:3;tcp:q:3").is_ok(), "the planes differ");
        let groups = |count: u32| (1..=count).map(|port| format!("tcp:{port}")).collect::<Vec<_>>().join(";");
        assert!(StaticPorts::parse(&groups(64)).is_ok());
        assert_eq!(of(&groups(65)), "the static ports have more than 64 groups");
    }

    #[test]
    fn ports_go_to_one_job_and_come_back_at_its_end() {
        let desk = desk("tcp:10-14");
        assert_eq!(take(&desk, "a", None, 2), Ok(vec![10, 11]));
        assert_eq!(take(&desk, "b", None, 2), Ok(vec![12, 13]));
        assert_eq!(take(&desk, "a", None, 1), Ok(vec![14]));
        assert_eq!(take(&desk, "c", None, 1), Err(PortShortage::Exhausted { needed: 1, free: 0 }));
        desk.forget(&job("a"));
        let many = take(&desk, "c", None, u64::MAX);
        assert_eq!(many, Err(PortShortage::Exhausted { needed: u64::MAX, free: 3 }));
        assert_eq!(take(&desk, "c", None, 3), Ok(vec![10, 11, 14]));
    }

    #[test]
    fn a_setup_that_is_refused_takes_nothing() {
        let desk = desk("tcp:10-12");
        assert_eq!(take(&desk, "a", Some(7), 1), Ok(vec![10]));
        let setup = desk.setup(&job("a"), Some(8));
        assert_eq!(setup.take(&Key::from_static("net"), None, None, 1).unwrap().ports, Ok(vec![11]));
        drop(setup);
        assert_eq!(take(&desk, "b", None, 2), Ok(vec![11, 12]));
        desk.forget(&job("a"));
        desk.forget(&job("b"));
        assert_eq!(desk.0.lock().groups[0].shares, UserShares::default());
    }

    /// Regression: a later application of a job got other ports, in the place of the first one's.
    #[test]
    fn a_wish_keeps_its_ports_in_later_setups_of_its_job() {
        let desk = desk("tcp:10-14");
        let take = |name: &str, needed| {
            let setup = desk.setup(&job(name), None);
            let taken = setup.take(&Key::from_static("net"), None, None, needed).unwrap().ports;
            setup.keep();
            taken
        };
        assert_eq!([take("a", 2), take("b", 1)], [Ok(vec![10, 11]), Ok(vec![12])]);
        assert_eq!([take("a", 3), take("a", 3)], [Ok(vec![10, 11, 13]), Ok(vec![10, 11, 13])]);
        desk.forget(&job("a"));
        assert_eq!(take("b", 5), Ok(vec![12, 10, 11, 13, 14]));
    }

    #[test]
    fn a_group_is_chosen_by_type_and_plane() {
        let desk = desk("tcp:a:1-9;udp:1-9;tcp:b:1-9");
        let setup = desk.setup(&job("a"), None);
        let id = Key::from_static("net");
        let chosen = |kind, plane| setup.take(&id, kind, plane, 1).map(|taken| (taken.kind, taken.plane));
        assert_eq!(chosen(Some("TCP"), None), Some(("tcp", Some("a".into()))));
        assert_eq!(chosen(Some("tcp"), Some("b")), Some(("tcp", Some("b".into()))));
        assert_eq!(chosen(None, Some("b")), Some(("tcp", Some("b".into()))));
        assert_eq!(chosen(Some("udp"), None), Some(("udp", None)));
        assert_eq!((chosen(Some("udp"), Some("a")), chosen(Some("ib"), None)), (None, None));
    }

    /// The jobs of one user leave ports for other users.
    #[test]
    fn a_user_has_a_share() {
        let desk = desk("tcp:1-100");
        assert_eq!(take(&desk, "a", Some(7), 51), Err(PortShortage::Share { needed: 51, user: 7 }));
        assert_eq!(take(&desk, "a", Some(7), 50).map(|ports| ports.len()), Ok(50));
        assert!(take(&desk, "b", Some(7), 1).is_err());
        assert_eq!(take(&desk, "c", Some(8), 10).map(|ports| ports.len()), Ok(10));
        desk.forget(&job("a"));
        assert_eq!(take(&desk, "b", Some(7), 40).map(|ports| ports.len()), Ok(40));
        // A host that names no users decides alone.
        assert_eq!(take(&desk, "d", None, 50).map(|ports| ports.len()), Ok(50));
    }
}
