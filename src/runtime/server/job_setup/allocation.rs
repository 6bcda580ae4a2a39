//! Fabric resources of a job: the answer to `PMIX_ALLOC_FABRIC`.
//!
//! ```text
//! wish: name, kind, plane, endpoints per process and node, key   --+
//! the job's nodes and processes (PMIX_NODE_MAP, PMIX_PROC_MAP)   --+--> under the name, what of it there is
//! static ports, for the types tcp and udp                        --+
//! the server's fabric, or without one that of the inventories    --+
//! ```
//!
//! The answer omits parts of a wish that can't be given, such as a service class or a plane that a node lacks. The log
//! names them. A required one fails the request. An answer without any part is omitted, too.
//!
//! Source: PMIx Standard, `PMIx_server_setup_application` and `PMIX_ALLOC_FABRIC_ID`.

use std::collections::BTreeMap;

use super::application::Wanted;
use super::elsewhere::Unanswered;
use super::endpoints::{FABRIC, FabricShortage, JobFabric};
use super::fabric_jobs::NoRandomBytes;
use super::layout::elements;
use super::ports::{PortSetup, PortShortage, Taken};
use crate::gds::registration::{ENDPOINTS, RegisterError};
use crate::keys;
use crate::types::codes::device_type;
use crate::types::{AsStatus, Info, InfoFlags, Key, Status, Value};

/// Reason of a refused allocation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AllocationError {
    /// The answer would have no key.
    #[error("PMIX_ALLOC_FABRIC is no array of infos with PMIX_ALLOC_FABRIC_ID, the key of the answer; add it")]
    Nameless,
    /// No process could find the answer.
    #[error(
        "PMIX_ALLOC_FABRIC_ID {id:?} is a key of the standard's, under which no process would find what is given; choose another"
    )]
    Reserved {
        /// The given key.
        id: Key,
    },
    /// Two wishes would have their answers under one key.
    #[error("the setup has two PMIX_ALLOC_FABRIC with the PMIX_ALLOC_FABRIC_ID {id:?}; give each its own, or ask once")]
    Twice {
        /// The given key.
        id: Key,
    },
    /// A wish has two parts of one key.
    #[error("a PMIX_ALLOC_FABRIC has {key:?} twice; give each part once, or ask with two PMIX_ALLOC_FABRIC")]
    PartTwice {
        /// The key of the parts.
        key: Key,
    },
    /// A part of the wish has the wrong type.
    #[error("{key:?} in PMIX_ALLOC_FABRIC has a value of another type than the standard's")]
    Mistyped {
        /// The key of the part.
        key: Key,
    },
    /// A required part can't be given.
    #[error("{key:?} is required and can't be given: {reason}")]
    NotGiven {
        /// The key of the part.
        key: Key,
        /// The reason.
        reason: NotAvailable,
    },
    /// A required part can't be given here, and the host or scheduler has not given it.
    #[error("{key:?} is required and can't be given here: {reason}. {unanswered}")]
    NotAnswered {
        /// The key of the part.
        key: Key,
        /// The reason.
        reason: NotAvailable,
        /// The end of the question.
        unanswered: Unanswered,
    },
    /// The map of nodes or processes is damaged.
    #[error("the job's layout can't be read: {0}")]
    Layout(#[source] Box<RegisterError>),
    /// The setup has too many wishes.
    #[error("the setup has {found} PMIX_ALLOC_FABRIC, more than {WISHES_MAX}; ask for several parts in one")]
    TooManyWishes {
        /// Their number.
        found: usize,
    },
    /// A wish has too many parts.
    #[error("a PMIX_ALLOC_FABRIC has {found} parts, more than {PARTS_MAX}; give each part once")]
    TooManyParts {
        /// Their number.
        found: usize,
    },
    /// Static ports are required, and the job can't have so many.
    #[error(transparent)]
    Ports(#[from] PortShortage),
    /// No key can be made.
    #[error(transparent)]
    NoKey(#[from] NoRandomBytes),
}

/// Why a part of a wish can't be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAvailable {
    /// The fabric lacks it.
    #[error(transparent)]
    Fabric(FabricShortage),
    /// No description of a fabric has such parts.
    #[error("the description of the fabric has no such resource; leave it out, or do not require it")]
    Undescribed,
    /// The answer from elsewhere is too small.
    #[error("the answer of the host or scheduler lacks it")]
    Answer,
    /// The ports are exhausted.
    #[error(transparent)]
    Ports(PortShortage),
}

impl From<RegisterError> for AllocationError {
    fn from(error: RegisterError) -> Self {
        Self::Layout(Box::new(error))
    }
}

impl AsStatus for AllocationError {
    fn status(&self) -> Status {
        match self {
            Self::Nameless | Self::Reserved { .. } | Self::Mistyped { .. } => Status::ERR_BAD_PARAM,
            Self::Layout(error) => error.status(),
            Self::Twice { .. } | Self::PartTwice { .. } => Status::ERR_DUPLICATE_KEY,
            Self::NotGiven { reason: NotAvailable::Fabric(FabricShortage::TooMany { .. }), .. }
            | Self::NotAnswered { reason: NotAvailable::Fabric(FabricShortage::TooMany { .. }), .. } => {
                Status::ERR_OUT_OF_RESOURCE
            }
            Self::NotGiven { .. } => Status::ERR_NOT_SUPPORTED,
            Self::NotAnswered { unanswered, .. } => unanswered.status(),
            Self::TooManyWishes { .. } | Self::TooManyParts { .. } | Self::Ports(_) => Status::ERR_OUT_OF_RESOURCE,
            Self::NoKey(_) => Status::ERROR,
        }
    }
}

/// Wishes of a setup.
const WISHES_MAX: usize = 64;
/// Parts of a wish.
const PARTS_MAX: usize = 64;

/// The values of [`FABRIC`].
const VALUES_OF_FABRIC: [&str; 3] = [ENDPOINTS, keys::NODE_INFO_ARRAY.name(), keys::ALLOC_FABRIC_SEC_KEY.name()];

/// The resources of a server.
pub(super) struct Sources<'s, 'f> {
    pub(super) ports: &'s PortSetup<'s>,
    pub(super) fabric: &'s mut JobFabric<'f>,
    /// The key of the job.
    pub(super) secret: &'s [u8],
}

/// Fulfils wishes. Each answer is one info of the wish's own key, with the wish's name and its values. `ask` asks
/// elsewhere for wishes of which this server lacks a part, all of them at once. Returns true, too, if others have given
/// something.
pub(super) fn allocate(
    wishes: Vec<Wish<'_>>,
    mut sources: Sources<'_, '_>,
    ask: impl FnOnce(&[&Info]) -> Result<Answer, Unanswered>,
) -> Result<(Vec<Info>, bool), AllocationError> {
    let mut answered = Vec::with_capacity(wishes.len());
    for wish in wishes {
        let given = match wish.given_here(&mut sources) {
            Err(error @ AllocationError::NotGiven { .. }) => Err(error),
            given => Ok(given?),
        };
        answered.push((wish, given));
    }
    let is_lacking = |given: &Result<Grant, _>| given.as_ref().map_or(true, |grant: &Grant| !grant.left_out.is_empty());
    let lacking: Vec<&Info> =
        answered.iter().filter(|(_, given)| is_lacking(given)).map(|(wish, _)| wish.info).collect();
    let mut answer = if lacking.is_empty() { Ok(Answer::default()) } else { ask(&lacking) };
    let is_answered = answer.as_ref().is_ok_and(|answer| !answer.named.is_empty() || answer.of_fabric.is_some());
    let (mut answers, mut is_left_out) = (Vec::new(), false);
    for (wish, given) in answered {
        let grant = match &mut answer {
            _ if !is_lacking(&given) => given,
            Ok(answer) => answer.named.remove(&wish.id).map_or(given, |found| wish.accept(found, sources.secret)),
            Err(unanswered) => given.map_err(|error| error.elsewhere(unanswered)),
        }?;
        for (key, reason) in &grant.left_out {
            tracing::warn!(id = %wish.id, %key, %reason, "a part of a job's fabric allocation is left out");
            is_left_out = true;
        }
        if !grant.is_empty() {
            answers.push(Info::new(wish.info.key.clone(), Value::info_array(vec![grant.info])));
        }
    }
    match &answer {
        Err(unanswered) if is_left_out && !matches!(unanswered, Unanswered::NotAsked) => {
            tracing::warn!(%unanswered, "nobody else gave the parts of a job's fabric allocation that are left out");
        }
        _ => {}
    }
    answers.extend(answer.into_iter().flat_map(|answer| answer.of_fabric));
    Ok((answers, is_answered))
}

/// The values that processes find: the parts of an answer of [`allocate`]. Empty for other infos.
pub(super) fn values_of(info: &Info) -> Vec<Info> {
    if info.key.as_str() == FABRIC {
        let is_given = |info: &&Info| VALUES_OF_FABRIC.contains(&info.key.as_str());
        return elements(&info.value).filter(is_given).cloned().collect();
    }
    if info.key.as_str() == keys::CREDENTIAL.name() && matches!(info.value, Value::String(_)) {
        return vec![info.clone()];
    }
    if info.key.as_str() != keys::ALLOC_FABRIC.name() {
        return Vec::new();
    }
    let is_named = |info: &&Info| !info.key.as_str().starts_with("pmix") && matches!(info.value, Value::DataArray(_));
    elements(&info.value).filter(is_named).cloned().collect()
}

/// The answer to a wish.
#[derive(Debug)]
struct Grant {
    info: Info,
    /// The parts that can't be given.
    left_out: Vec<(Key, NotAvailable)>,
}

impl Grant {
    /// Whether no process would find anything in it.
    fn is_empty(&self) -> bool {
        elements(&self.info.value).all(|part| matches!(&part.value, Value::DataArray(of) if of.elements.is_empty()))
    }
}

/// One `PMIX_ALLOC_FABRIC` of the caller.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    info: &'a Info,
    id: Key,
    asked: Vec<&'a Info>,
    is_required: bool,
    wanted: Wanted,
}

impl<'a> Wish<'a> {
    /// The wishes among infos, except optional ones without a name: no process could find their answers.
    pub(super) fn all_of(infos: &'a [Info]) -> Result<Vec<Self>, AllocationError> {
        let found: Vec<&Info> = infos.iter().filter(|info| info.key.as_str() == keys::ALLOC_FABRIC.name()).collect();
        if found.len() > WISHES_MAX {
            return Err(AllocationError::TooManyWishes { found: found.len() });
        }
        let mut wishes: Vec<Self> = Vec::with_capacity(found.len());
        for info in found {
            let Some(wish) = Self::read(info)? else { continue };
            if wishes.iter().any(|earlier| earlier.id == wish.id) {
                return Err(AllocationError::Twice { id: wish.id });
            }
            wishes.push(wish);
        }
        Ok(wishes)
    }

    fn read(info: &'a Info) -> Result<Option<Self>, AllocationError> {
        let asked: Vec<&Info> = elements(&info.value).collect();
        if asked.len() > PARTS_MAX {
            return Err(AllocationError::TooManyParts { found: asked.len() });
        }
        // Parts of a site may repeat.
        let is_twice = |part: &&Info| asked.iter().filter(|other| other.key == part.key).count() > 1;
        if let Some(part) = asked.iter().copied().find(|part| part.key.is_reserved() && is_twice(part)) {
            return Err(AllocationError::PartTwice { key: part.key.clone() });
        }
        let is_required = info.flags().contains(InfoFlags::REQUIRED);
        let id = asked.iter().find(|info| info.key.as_str() == keys::ALLOC_FABRIC_ID.name());
        let Some(id) = id else {
            let is_optional_array = !is_required && matches!(info.value, Value::DataArray(_));
            return if is_optional_array { Ok(None) } else { Err(AllocationError::Nameless) };
        };
        let id = id.value.as_str().and_then(|id| Key::from_bytes(id.as_bytes()).ok());
        let id = id.ok_or(AllocationError::Nameless)?;
        if id.is_reserved() {
            return Err(AllocationError::Reserved { id });
        }
        let wanted = wanted(&asked)?;
        Ok(Some(Self { info, id, asked, is_required, wanted }))
    }

    /// The name, and the endpoints.
    pub(super) fn of_application(&self) -> (Key, Wanted) {
        (self.id.clone(), self.wanted.clone())
    }

    fn given_here(&self, sources: &mut Sources<'_, '_>) -> Result<Grant, AllocationError> {
        match self.static_ports(sources) {
            Some(taken) => self.with_ports(taken, sources.secret),
            None => self.on_fabric(sources),
        }
    }

    /// Takes an answer from elsewhere, if it has all required parts. An answer without the wanted key gets one.
    fn accept(&self, found: Info, secret: &[u8]) -> Result<Grant, AllocationError> {
        let mut given: Vec<Info> = elements(&found.value).cloned().collect();
        let mut left_out = Vec::new();
        for info in &self.asked {
            if given.iter().any(|part| part.key == info.key) {
                continue;
            }
            if info.key.as_str() == keys::ALLOC_FABRIC_SEC_KEY.name() {
                given.extend(chosen_secret(info, secret)?.map(|secret| Info::new(info.key.clone(), secret)));
            } else if !is_made_here(info) {
                self.leave_out(info, &NotAvailable::Answer, &mut left_out)?;
            }
        }
        self.checked(Grant { info: Info::new(found.key, Value::info_array(given)), left_out }, &NotAvailable::Answer)
    }

    /// Endpoints on the fabric.
    fn on_fabric(&self, sources: &mut Sources<'_, '_>) -> Result<Grant, AllocationError> {
        let (description, lacking) = match sources.fabric.take(&self.id, &self.wanted) {
            Ok(description) => (description, None),
            Err(shortage) => (Vec::new(), Some(NotAvailable::Fabric(shortage))),
        };
        let description = Info::new(self.id.clone(), Value::info_array(description));
        self.grant(vec![description], lacking.as_ref(), sources.secret)
    }

    /// Whether static ports answer it.
    pub(super) fn is_of_ports(&self, ports: &PortSetup<'_>) -> bool {
        let Wanted { plane, kind, of_process, of_node } = &self.wanted;
        let is_counted = *of_process > 0 || *of_node > 0;
        is_counted && ports.has_group(kind.as_ref().map(|(kind, _)| kind.as_str()), plane.as_deref())
    }

    /// Ports for the processes and the node, as many as the largest node of the job needs. `None` if the wish is for
    /// something else.
    fn static_ports(&self, sources: &Sources<'_, '_>) -> Option<Taken> {
        if !self.is_of_ports(sources.ports) {
            return None;
        }
        let Wanted { plane, kind, of_process, of_node } = &self.wanted;
        let needed = of_process.saturating_mul(sources.fabric.local_count_max()).saturating_add(*of_node);
        sources.ports.take(&self.id, kind.as_ref().map(|(kind, _)| kind.as_str()), plane.as_deref(), needed)
    }

    /// The answer with ports: as text, the least first, and then the parts of the wish, with type and plane.
    fn with_ports(&self, taken: Taken, secret: &[u8]) -> Result<Grant, AllocationError> {
        let Taken { kind, plane, ports } = taken;
        let info = |key: &'static str, text: &str| Info::new(Key::from_static(key), text);
        let (mut given, mut lacking) = (Vec::new(), None);
        match ports {
            Ok(ports) => {
                let text = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
                given.push(Info::new(self.id.clone(), text));
                given.push(info(keys::ALLOC_FABRIC_TYPE.name(), kind));
                given.extend(plane.map(|plane| info(keys::ALLOC_FABRIC_PLANE.name(), &plane)));
            }
            Err(shortage) if self.is_required || self.asked.iter().any(|info| is_required_of_ports(info)) => {
                return Err(shortage.into());
            }
            Err(shortage) => {
                lacking = Some(NotAvailable::Ports(shortage));
                given.push(Info::new(self.id.clone(), Value::info_array(Vec::new())));
            }
        }
        self.grant(given, lacking.as_ref(), secret)
    }

    /// Adds the parts of the wish that are not `given` yet. `lacking` is the reason if there are no endpoints or ports.
    fn grant(
        &self,
        mut given: Vec<Info>,
        lacking: Option<&NotAvailable>,
        secret: &[u8],
    ) -> Result<Grant, AllocationError> {
        let mut left_out = Vec::new();
        for info in &self.asked {
            let name = info.key.as_str();
            if name == keys::ALLOC_FABRIC_ID.name() || given.iter().any(|given| given.key == info.key) {
                continue;
            }
            if name == keys::ALLOC_FABRIC_SEC_KEY.name() {
                given.extend(chosen_secret(info, secret)?.map(|secret| Info::new(info.key.clone(), secret)));
            } else if !OF_ENDPOINTS.contains(&name) {
                self.leave_out(info, &NotAvailable::Undescribed, &mut left_out)?;
            } else if let Some(reason) = lacking {
                self.leave_out(info, reason, &mut left_out)?;
            } else {
                given.push(Info::new(info.key.clone(), info.value.clone()));
            }
        }
        let grant = Grant { info: Info::new(self.id.clone(), Value::info_array(given)), left_out };
        self.checked(grant, lacking.unwrap_or(&NotAvailable::Undescribed))
    }

    /// A required wish without anything is an error.
    fn checked(&self, grant: Grant, reason: &NotAvailable) -> Result<Grant, AllocationError> {
        if self.is_required && grant.is_empty() {
            let key = Key::from_static(keys::ALLOC_FABRIC.name());
            return Err(AllocationError::NotGiven { key, reason: reason.clone() });
        }
        Ok(grant)
    }

    /// A required part that can't be given is an error.
    fn leave_out(
        &self,
        info: &Info,
        reason: &NotAvailable,
        left_out: &mut Vec<(Key, NotAvailable)>,
    ) -> Result<(), AllocationError> {
        if self.is_required || info.flags().contains(InfoFlags::REQUIRED) {
            return Err(AllocationError::NotGiven { key: info.key.clone(), reason: reason.clone() });
        }
        left_out.push((info.key.clone(), reason.clone()));
        Ok(())
    }
}

/// The endpoints that the parts of a wish are for.
fn wanted(asked: &[&Info]) -> Result<Wanted, AllocationError> {
    fn read<'a, T>(
        asked: &[&'a Info],
        name: &str,
        value: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, AllocationError> {
        let Some(info) = asked.iter().find(|info| info.key.as_str() == name) else { return Ok(None) };
        value(&info.value).map(Some).ok_or_else(|| AllocationError::Mistyped { key: info.key.clone() })
    }
    let text = |name: &str| read(asked, name, |value| value.as_str().map(str::to_owned));
    let count = |name: &str| read(asked, name, Value::as_u64).map(Option::unwrap_or_default);
    Ok(Wanted {
        plane: text(keys::ALLOC_FABRIC_PLANE.name())?,
        kind: text(keys::ALLOC_FABRIC_TYPE.name())?.map(|kind| {
            let kinds = kinds(&kind);
            (kind, kinds)
        }),
        of_process: count(keys::ALLOC_FABRIC_ENDPTS.name())?,
        of_node: count(keys::ALLOC_FABRIC_ENDPTS_NODE.name())?,
    })
}

/// The kinds of devices of a `PMIX_ALLOC_FABRIC_TYPE`, in upper or lower case.
fn kinds(text: &str) -> u64 {
    match text.to_ascii_lowercase().as_str() {
        "ethernet" | "eth" | "tcp" | "udp" | "ip" => device_type::DEVTYPE_NETWORK,
        "infiniband" | "ib" | "verbs" | "openfabrics" => device_type::DEVTYPE_OPENFABRICS,
        _ => 0,
    }
}

impl AllocationError {
    /// Adds the reason why nothing came from elsewhere.
    fn elsewhere(self, unanswered: &Unanswered) -> Self {
        match self {
            Self::NotGiven { key, reason } => Self::NotAnswered { key, reason, unanswered: unanswered.clone() },
            other => other,
        }
    }
}

/// An answer from elsewhere.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Values by the name of the wish.
    named: BTreeMap<Key, Info>,
    /// Values of a fabric.
    of_fabric: Option<Info>,
}

impl Answer {
    /// Reads an answer. Infos of other keys have no effect.
    pub(super) fn read(infos: Vec<Info>) -> Self {
        let mut answer = Self::default();
        for info in infos {
            if info.key.as_str() == FABRIC {
                answer.of_fabric = Some(info);
            } else if info.key.as_str() == keys::ALLOC_FABRIC.name() {
                elements(&info.value).cloned().for_each(|info| answer.add(info));
            } else {
                answer.add(info);
            }
        }
        answer
    }

    fn add(&mut self, info: Info) {
        if !info.key.is_reserved() && matches!(info.value, Value::DataArray(_)) {
            self.named.insert(info.key.clone(), info);
        }
    }
}

/// Parts of a wish that need endpoints or ports.
const OF_ENDPOINTS: [&str; 4] = [
    keys::ALLOC_FABRIC_TYPE.name(),
    keys::ALLOC_FABRIC_PLANE.name(),
    keys::ALLOC_FABRIC_ENDPTS.name(),
    keys::ALLOC_FABRIC_ENDPTS_NODE.name(),
];

/// Whether other processes may have to give a part of a wish. A key is made here.
pub(super) fn needs_others(wish: &Info) -> bool {
    wish.flags().contains(InfoFlags::REQUIRED) || elements(&wish.value).any(|info| !is_made_here(info))
}

fn is_made_here(info: &Info) -> bool {
    [keys::ALLOC_FABRIC_ID.name(), keys::ALLOC_FABRIC_SEC_KEY.name()].contains(&info.key.as_str())
}

fn is_required_of_ports(info: &Info) -> bool {
    info.flags().contains(InfoFlags::REQUIRED) && OF_ENDPOINTS.contains(&info.key.as_str())
}

/// Whether a wish has a part for a key.
pub(super) fn wants_secret(wish: &Info) -> bool {
    let is_wanted =
        |part: &Info| part.key.as_str() == keys::ALLOC_FABRIC_SEC_KEY.name() && part.value != Value::Bool(false);
    wish.key.as_str() == keys::ALLOC_FABRIC.name() && elements(&wish.value).any(is_wanted)
}

/// The host's key, or that of the job. `None` if the host wants no key.
fn chosen_secret(asked: &Info, secret: &[u8]) -> Result<Option<Vec<u8>>, AllocationError> {
    match &asked.value {
        Value::Bool(false) => Ok(None),
        Value::ByteObject(chosen) if !chosen.is_empty() => Ok(Some(chosen.clone())),
        Value::ByteObject(_) | Value::Bool(true) | Value::Undefined => Ok(Some(secret.to_vec())),
        _ => Err(AllocationError::Mistyped { key: asked.key.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::application::{Application, PlacedApplication, Places};
    use super::super::endpoints::ENDPOINTS_MAX;
    use super::super::hardware::Hardware;
    use super::super::layout::Layout;
    use super::*;
    use crate::fabric::providers::Provider;
    use crate::fabric::{CurrentFabric, Fabric};
    use crate::log_lines::LogLines;
    use crate::regex::MapLimits;
    use crate::runtime::server::job_setup::ports::{PortDesk, StaticPorts};
    use crate::topo::Inventories;
    use crate::topo::inventory::{Device, Inventory};
    use crate::types::Namespace;

    /// The answer of a server without static ports.
    fn allocate(infos: &[Info], layout: &Layout, inventories: &Inventories) -> Result<Vec<Info>, AllocationError> {
        allocate_with(&PortDesk::default(), infos, layout, inventories)
    }

    /// The answer of a server with static ports. The job keeps them.
    fn allocate_with(
        desk: &PortDesk,
        infos: &[Info],
        layout: &Layout,
        inventories: &Inventories,
    ) -> Result<Vec<Info>, AllocationError> {
        let setup = desk.setup(&Namespace::new("job").unwrap(), None);
        let given = allocate_or_ask(&setup, infos, layout, inventories, |_| Err(Unanswered::NotAsked))?;
        setup.keep();
        Ok(given)
    }

    /// The answer of a server with the fabric of the inventories.
    fn allocate_or_ask(
        ports: &PortSetup<'_>,
        infos: &[Info],
        layout: &Layout,
        inventories: &Inventories,
        ask: impl FnOnce(&[&Info]) -> Result<Answer, Unanswered>,
    ) -> Result<Vec<Info>, AllocationError> {
        let fabric = inventories.read("").unwrap_or_else(|_| Fabric::unknown("inventory".to_owned()));
        let application = Application { layout: layout.clone(), places: Places::default(), wishes: Vec::new() };
        let hardware = Hardware::new(CurrentFabric::new(fabric).handle(), Arc::new(inventories.clone()));
        let applications = [PlacedApplication { application: Arc::new(application), hardware: hardware.clone() }];
        let mut fabric = JobFabric::new(&hardware, &applications);
        let sources = Sources { ports, fabric: &mut fabric, secret: &[1; 16] };
        super::allocate(Wish::all_of(infos)?, sources, ask).map(|(given, _)| given)
    }

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    fn required(info: Info) -> Info {
        Info { flags: InfoFlags::REQUIRED.bits(), ..info }
    }

    fn device(name: &str, device_types: u64) -> Device {
        Device { device_types, name: name.to_owned(), uuid: format!("id-{name}"), ..Device::default() }
    }

    /// Two nodes with two Ethernet interfaces and one other each.
    fn delivered() -> Inventories {
        let devices = vec![
            device("eth0", device_type::DEVTYPE_NETWORK),
            device("ib0", device_type::DEVTYPE_OPENFABRICS),
            device("eth1", device_type::DEVTYPE_NETWORK),
        ];
        let blob = |node: &str| {
            Inventory { node: node.to_owned(), devices: devices.clone(), ..Inventory::default() }.encode().unwrap()
        };
        let mut inventories = Inventories::default();
        inventories.deliver([blob("n0").as_slice(), blob("n1").as_slice()]).unwrap();
        inventories
    }

    fn layout() -> Layout {
        Layout::of(&[info("pmix.nmap", "n0,n1"), info("pmix.pmap", "0,1;2")], &MapLimits::default()).unwrap()
    }

    /// Regression: the answer said that there were no endpoints, but the processes of one node had some.
    #[test]
    fn endpoints_that_not_every_node_has_are_given_to_none() {
        let mut inventories = Inventories::default();
        let blob = Inventory { node: "n0".to_owned(), ..delivered().of("n0").unwrap().clone() }.encode().unwrap();
        inventories.deliver([blob.as_slice()]).unwrap();
        let wishes = [info("pmix.alloc.endpts", Value::Size(1)), info("pmix.alloc.endpts.nd", Value::Size(1))];
        let whole = ask(&wishes, &delivered()).unwrap();
        assert_eq!((names(&whole).len(), elements(&whole[0].value).count()), (3, 5));
        assert_eq!(ask(&wishes, &inventories), Ok(Vec::new()));
    }

    /// Regression: the answer said that the wish was fulfilled, but no process found its values.
    #[test]
    fn a_wish_under_a_name_that_no_process_would_find_is_refused() {
        for (id, status) in [("pmix.net", Some(Status::ERR_BAD_PARAM)), ("net", None)] {
            let asked = info("pmix.alloc.net", Value::info_array(vec![info("pmix.alloc.netid", id)]));
            let given = allocate(&[asked], &layout(), &Inventories::default());
            assert_eq!(given.err().map(|error| error.status()), status, "{id}");
        }
    }

    fn ask(wishes: &[Info], inventories: &Inventories) -> Result<Vec<Info>, Status> {
        let all = [&[info("pmix.alloc.netid", "net")], wishes].concat();
        let asked = info("pmix.alloc.net", Value::info_array(all));
        let given = allocate(&[asked], &layout(), inventories).map_err(|error| error.status())?;
        let Some(given) = given.first() else { return Ok(Vec::new()) };
        let values = values_of(given);
        assert_eq!((values.len(), values[0].key.as_str()), (1, "net"));
        Ok(elements(&values[0].value).cloned().collect())
    }

    fn names(infos: &[Info]) -> Vec<&str> {
        infos.iter().map(|info| info.key.as_str()).collect()
    }

    /// Interface name and bytes of each endpoint of one holder.
    fn endpoints(holder: &Info) -> Vec<(String, Vec<u8>)> {
        let found = elements(&holder.value).find(|info| info.key.as_str() == "pmix.fab.endpt");
        let Some(Value::DataArray(array)) = found.map(|info| &info.value) else { return Vec::new() };
        let endpoint = |value: &Value| match value {
            Value::Endpoint(endpoint) => (endpoint.os_name.as_ref().unwrap().to_string(), endpoint.bytes.clone()),
            other => panic!("{other:?}"),
        };
        array.elements.iter().map(endpoint).collect()
    }

    #[test]
    fn each_process_and_node_gets_as_many_endpoints_as_are_asked_for_on_the_interfaces_that_were_delivered() {
        let wishes = [
            info("pmix.alloc.nettype", "ethernet"),
            info("pmix.alloc.endpts", Value::Size(2)),
            info("pmix.alloc.endpts.nd", Value::Size(1)),
        ];
        let given = ask(&wishes, &delivered()).unwrap();
        assert_eq!(names(&given), ["net", "pmix.alloc.nettype", "pmix.alloc.endpts", "pmix.alloc.endpts.nd"]);
        let holders: Vec<&Info> = elements(&given[0].value).collect();
        let found: Vec<_> = holders.iter().map(|holder| endpoints(holder)).collect();
        let both = |rank: u8| ["eth0", "eth1"].map(|name| (name.to_owned(), vec![rank, 0, 0, 0])).to_vec();
        let of_node = vec![("eth0".to_owned(), vec![0xfd, 0xff, 0xff, 0xff])];
        let expected = [of_node.clone(), both(0), both(1), of_node, both(2)];
        assert_eq!(found, expected, "node, rank 0, rank 1; node, rank 2");
    }

    #[test]
    fn a_plane_is_one_interface_of_each_node() {
        let wishes = [info("pmix.alloc.netplane", "ib0"), info("pmix.alloc.endpts", Value::Size(1))];
        let given = ask(&wishes, &delivered()).unwrap();
        let holders = elements(&given[0].value).skip(1).map(endpoints).filter(|found| !found.is_empty());
        assert!(holders.flatten().all(|(name, _)| name == "ib0"));
        assert_eq!(names(&given), ["net", "pmix.alloc.netplane", "pmix.alloc.endpts"]);
    }

    #[test]
    fn an_impossible_wish_is_left_out_or_refused_if_required() {
        let wishes = [
            info("pmix.alloc.nettype", "carrier pigeon"),
            info("pmix.alloc.netplane", "eth0"),
            info("pmix.alloc.endpts", Value::Size(1)),
            info("pmix.alloc.endpts.nd", Value::Size(1)),
            info("pmix.alloc.netqos", "gold"),
        ];
        assert_eq!(ask(&wishes, &delivered()), Ok(Vec::new()), "no answer instead of an empty one");
        let known = &wishes[1..4];
        assert_eq!(ask(known, &Inventories::default()), Ok(Vec::new()));
        for wish in known {
            let asked = [required(wish.clone())];
            assert_eq!(ask(&asked, &Inventories::default()), Err(Status::ERR_NOT_SUPPORTED));
            assert!(ask(&asked, &delivered()).is_ok());
        }
        assert_eq!(ask(&[required(wishes[4].clone())], &delivered()), Err(Status::ERR_NOT_SUPPORTED));
    }

    /// Regression: a required wish for nothing but a name got nothing, with success.
    #[test]
    fn a_required_wish_that_gets_nothing_is_refused() {
        let asked = |parts: &[Info]| {
            let all = [&[info("pmix.alloc.netid", "net")], parts].concat();
            required(info("pmix.alloc.net", Value::info_array(all)))
        };
        let status = |asked: Info, inventories: &Inventories| {
            allocate(&[asked], &layout(), inventories).map(|given| given.len()).map_err(|error| error.status())
        };
        assert!(needs_others(&asked(&[])), "others may have interfaces");
        assert_eq!(status(asked(&[]), &delivered()), Ok(1));
        assert_eq!(status(asked(&[]), &Inventories::default()), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(status(asked(&[info("pmix.alloc.nsec", true)]), &Inventories::default()), Ok(1));
    }

    /// Regression: without the scheduler, optional parts were left out without a word about it.
    #[test]
    fn the_log_says_once_why_nobody_gave_what_is_left_out() {
        let lines = LogLines::default();
        tracing::subscriber::with_default(lines.subscriber(), || {
            let wish = |id: &'static str, part: Info| {
                info("pmix.alloc.net", Value::info_array(vec![info("pmix.alloc.netid", id), part]))
            };
            let gold = |id| wish(id, info("pmix.alloc.netqos", "gold"));
            let (desk, inventories) = (PortDesk::default(), delivered());
            let setup = desk.setup(&Namespace::new("job").unwrap(), None);
            let given = |wishes: &[Info], unanswered: Unanswered| {
                allocate_or_ask(&setup, wishes, &layout(), &inventories, |_| Err(unanswered)).unwrap();
                let said = lines.taken();
                said.iter().filter(|line| line.contains("did not answer")).count()
            };
            assert_eq!(given(&[gold("a"), gold("b")], Unanswered::TooSlow { seconds: 7 }), 1);
            assert_eq!(given(&[gold("a")], Unanswered::NotAsked), 0);
            assert_eq!(given(&[wish("a", info("pmix.alloc.endpts", Value::Size(1)))], Unanswered::NotAsked), 0);
        });
    }

    #[test]
    fn a_key_is_the_hosts_or_that_of_the_job() {
        let key = |value: Value| {
            let given = ask(&[info("pmix.alloc.nsec", value)], &Inventories::default()).unwrap();
            given.get(1).map(|info| info.value.clone())
        };
        assert_eq!(key(Value::ByteObject(vec![7; 5])), Some(Value::ByteObject(vec![7; 5])));
        assert_eq!(key(Value::Bool(false)), None);
        let of_job = Some(Value::ByteObject(vec![1; 16]));
        assert_eq!([key(Value::Bool(true)), key(Value::ByteObject(Vec::new()))], [of_job.clone(), of_job]);
    }

    /// Regression: a host that requested a network without `PMIX_ALLOC_FABRIC_ID` could not start its job: the whole
    /// setup failed. OpenPMIx gives nothing for such a wish and goes on. The rule: only a required wish fails the
    /// setup.
    #[test]
    fn an_optional_wish_without_a_name_gets_nothing_and_fails_nothing() {
        let nameless = info("pmix.alloc.net", Value::info_array(vec![info("pmix.alloc.nettype", "ethernet")]));
        let named = info("pmix.alloc.net", Value::info_array(vec![info("pmix.alloc.netid", "net")]));
        let given = allocate(&[nameless, named], &layout(), &delivered()).unwrap();
        assert_eq!(given.iter().flat_map(values_of).map(|info| info.key.to_string()).collect::<Vec<_>>(), ["net"]);
    }

    #[test]
    fn wishes_that_say_nothing_or_too_much_are_errors() {
        let bad = |asked: Info| allocate(&[asked], &layout(), &delivered()).unwrap_err().status();
        assert_eq!(bad(info("pmix.alloc.net", 1_u32)), Status::ERR_BAD_PARAM);
        assert_eq!(bad(required(info("pmix.alloc.net", Value::info_array(Vec::new())))), Status::ERR_BAD_PARAM);
        let mistyped = [
            ("pmix.alloc.nettype", Value::Size(1)),
            ("pmix.alloc.endpts", Value::from("many")),
            ("pmix.alloc.nsec", Value::from("x")),
        ];
        for (key, value) in mistyped {
            assert_eq!(ask(&[info(key, value)], &delivered()), Err(Status::ERR_BAD_PARAM), "{key}");
        }
        let net = info("pmix.alloc.net", Value::info_array(vec![info("pmix.alloc.netid", "net")]));
        // Regression: the second one was granted, too, and its answer took the place of the first one's.
        let twice = allocate(&[net.clone(), net], &layout(), &delivered()).unwrap_err();
        assert_eq!(
            (twice.status(), twice.to_string().contains("two PMIX_ALLOC_FABRIC")),
            (Status::ERR_DUPLICATE_KEY, true)
        );
        let many = [info("pmix.alloc.endpts", Value::Size(u64::MAX))];
        assert_eq!(ask(&many, &delivered()), Ok(Vec::new()), "left out");
        assert_eq!(ask(&many.map(required), &delivered()), Err(Status::ERR_OUT_OF_RESOURCE));
        let most = [info("pmix.alloc.endpts", Value::Size((ENDPOINTS_MAX - 2) / 3))];
        assert!(ask(&most, &delivered()).is_ok());
        assert!(Layout::of(&[info("pmix.nmap", "pmix[")], &MapLimits::default()).is_err());
    }

    /// The values of a wish with a name, on a server with ports.
    fn ask_ports(desk: &PortDesk, id: &'static str, wishes: &[Info]) -> Result<Vec<Info>, Status> {
        let asked = info("pmix.alloc.net", Value::info_array([&[info("pmix.alloc.netid", id)], wishes].concat()));
        let given = allocate_with(desk, &[asked], &layout(), &delivered()).map_err(|error| error.status())?;
        Ok(elements(&values_of(&given[0])[0].value).cloned().collect())
    }

    fn desk(text: &str) -> PortDesk {
        PortDesk::new(StaticPorts::parse(text).unwrap())
    }

    /// The first node has two processes, the second one has one. So two processes' ports do for all nodes.
    #[test]
    fn a_wish_for_tcp_gets_static_ports_as_text_as_many_as_the_largest_node_needs() {
        let desk = desk("udp:7;tcp:10.0.0.0/8:32000-32003,33000-33002");
        let wishes = [info("pmix.alloc.nettype", "TCP"), info("pmix.alloc.endpts", Value::Size(2))];
        let given = ask_ports(&desk, "net", &wishes).unwrap();
        let expected = [
            info("net", "32000,32001,32002,32003"),
            info("pmix.alloc.nettype", "tcp"),
            info("pmix.alloc.netplane", "10.0.0.0/8"),
            info("pmix.alloc.endpts", Value::Size(2)),
        ];
        assert_eq!(given, expected);
        let of_node = [info("pmix.alloc.netplane", "10.0.0.0/8"), info("pmix.alloc.endpts.nd", Value::Size(3))];
        assert_eq!(ask_ports(&desk, "other", &of_node).unwrap()[0], info("other", "33000,33001,33002"));
    }

    #[test]
    fn exhausted_ports_are_an_error_where_they_are_required_and_left_out_elsewhere() {
        let desk = desk("tcp:1-3");
        let wishes = [info("pmix.alloc.nettype", "tcp"), info("pmix.alloc.endpts", Value::Size(2))];
        let given = ask_ports(&desk, "net", &[&wishes[..], &[info("pmix.alloc.nsec", true)]].concat()).unwrap();
        assert_eq!(names(&given), ["net", "pmix.alloc.nsec"]);
        assert_eq!(given[0].value, Value::info_array(Vec::new()));
        let needed = [wishes[0].clone(), required(wishes[1].clone())];
        assert_eq!(ask_ports(&desk, "net", &needed), Err(Status::ERR_OUT_OF_RESOURCE));
        assert_eq!(
            ask_ports(&desk, "net", &[info("pmix.alloc.endpts", Value::Size(1))]).unwrap()[0],
            info("net", "1,2")
        );
        // A required part that nobody has fails the setup, and the last port stays free.
        let gold = [info("pmix.alloc.endpts.nd", Value::Size(1)), required(info("pmix.alloc.netqos", "gold"))];
        assert_eq!(ask_ports(&desk, "other", &gold), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(ask_ports(&desk, "other", &gold[..1]).unwrap()[0], info("other", "3"));
    }

    #[test]
    fn wishes_for_other_networks_go_to_the_interfaces() {
        let desk = desk("udp:1-9");
        for wish in [info("pmix.alloc.nettype", "ethernet"), info("pmix.alloc.netplane", "eth0")] {
            let given = ask_ports(&desk, "net", &[wish, info("pmix.alloc.endpts", Value::Size(1))]).unwrap();
            assert_eq!(elements(&given[0].value).count(), 5, "{given:?}");
        }
    }
}
