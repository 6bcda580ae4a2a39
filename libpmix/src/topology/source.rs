//! Source of this process's topology.
//!
//! ```text
//! server: the host's object | a file | libhwloc reads the machine ──► XML ──► segment, clients
//! client: what its server shares; only under servers that share nothing, or alone, libhwloc
//! ```
//!
//! Nothing is read before the first request.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;

use modex::TopologySource;
use modex::runtime::open_regular_file;
use modex::topo::{Machine, SharedMachine, TopologyError, XML_BYTES_MAX};
use modex::types::{Text, Topology};
use parking_lot::Mutex;

use super::detect::Discovery;
use crate::hwloc::{self, RawTopology};
use crate::process::{self, Member};
use crate::types::c_void;

/// The topology that a host gave its server.
#[derive(Debug, Default)]
pub enum Given {
    /// None: the machine is read.
    #[default]
    Nothing,
    /// None, and the machine may not be read.
    Forbidden,
    /// The content of the host's object of libhwloc, read when it was given. The object itself belongs to the host,
    /// which may change it, walk it on other threads, or destroy it at once.
    Described(Topology),
    /// A file with hwloc's XML.
    File(PathBuf),
}

impl Given {
    /// Reads a host's object at once; `None`, with a warning, if libhwloc can't read it.
    pub fn described(topology: &RawTopology) -> Option<Self> {
        hwloc::exported(topology)
            .inspect_err(|error| tracing::warn!(%error, "the host's topology can't be read and is not used"))
            .ok()
            .map(Self::Described)
    }
}

/// The topology of a server's process.
#[derive(Debug, Default)]
pub struct HostTopology {
    given: Given,
    /// The file's content when it was first read: it may change or disappear later.
    file: OnceLock<Topology>,
}

impl HostTopology {
    /// Reads nothing yet.
    pub const fn new(given: Given) -> Self {
        Self { given, file: OnceLock::new() }
    }

    /// The object for callers.
    pub fn object(&self) -> Result<&'static RawTopology, TopologyError> {
        match self.host_topology()? {
            Some(host_topology) => kept(&host_topology.xml.unwrap_or_default()),
            None => discovered(),
        }
    }

    /// The host's topology; `None` means that the machine is to be read.
    fn host_topology(&self) -> Result<Option<Topology>, TopologyError> {
        match &self.given {
            Given::Nothing => Ok(None),
            Given::Forbidden => Err(TopologyError::Forbidden),
            Given::Described(topology) => Ok(Some(topology.clone())),
            Given::File(path) => {
                if let Some(host_topology) = self.file.get() {
                    return Ok(Some(host_topology.clone()));
                }
                let host_topology = content_of(path)?;
                Ok(Some(self.file.get_or_init(|| host_topology).clone()))
            }
        }
    }
}

impl TopologySource for HostTopology {
    fn read(&self) -> Result<Topology, TopologyError> {
        let failed = |_| TopologyError::Failed { doing: "export a topology" };
        match self.host_topology()? {
            Some(host_topology) => Ok(as_loaded(host_topology)),
            None => hwloc::exported(discovered()?).map_err(failed),
        }
    }

    fn read_again(&self) -> Result<Topology, TopologyError> {
        match &self.given {
            Given::Nothing => discovered_again(),
            Given::File(path) => content_of(path).map(as_loaded_once),
            Given::Forbidden | Given::Described(_) => self.read(),
        }
    }
}

/// A file with hwloc's XML.
fn content_of(path: &Path) -> Result<Topology, TopologyError> {
    let unusable = |error: std::io::Error| TopologyError::Unusable { reason: format!("{}: {error}", path.display()) };
    let mut xml = Vec::new();
    // A pipe or device would have no end. Longer texts are refused later.
    let file = open_regular_file(path).map_err(unusable)?;
    file.take(XML_BYTES_MAX as u64 + 1).read_to_end(&mut xml).map_err(unusable)?;
    Ok(Topology { xml: Some(Text::until_nul(&xml)), support: Vec::new() })
}

/// A topology as libhwloc loads it in every process. A host may have read it with processors that are forbidden here,
/// or in an older form. Its parts would then have other numbers than the objects of callers. A topology that libhwloc
/// can't load stays unchanged.
fn as_loaded(host_topology: Topology) -> Topology {
    let object = kept(&host_topology.xml.clone().unwrap_or_default());
    object.ok().and_then(|object| hwloc::exported(object).ok()).unwrap_or(host_topology)
}

/// The same without an object that stays: a file may change at any time.
fn as_loaded_once(host_topology: Topology) -> Topology {
    let text = host_topology.xml.clone().unwrap_or_default();
    let Ok(object) = hwloc::import(&text, hwloc::Of::ThisMachine) else { return host_topology };
    // SAFETY: libhwloc made the object just now, and nobody else knows it. The export is a copy.
    unsafe { exported_and_destroyed(object) }.unwrap_or(host_topology)
}

/// The content of an object of libhwloc, which ends here.
///
/// # Safety
/// `object` is a topology of libhwloc that nobody else uses.
unsafe fn exported_and_destroyed(object: *mut c_void) -> Result<Topology, TopologyError> {
    // SAFETY: a live topology (the contract of this function).
    let exported = hwloc::exported(unsafe { &*object.cast::<RawTopology>() });
    // SAFETY: nobody uses it afterwards (the contract of this function).
    unsafe { hwloc::destroy_topology(object) };
    exported.map_err(|_| TopologyError::Failed { doing: "export a topology" })
}

/// The topology as an object for callers.
pub(super) fn object() -> Result<&'static RawTopology, TopologyError> {
    match process::member() {
        Ok(Member::Server(server)) => server.topology_object(),
        Ok(Member::Client(client)) => match client.topology() {
            Ok(machine) => kept(&Text::from(machine.xml())),
            Err(error) if client.reads_segment() => Err(error),
            // The server shares none: callers get the result that every other library gives there.
            Err(_) => discovered(),
        },
        Err(_) => discovered(),
    }
}

/// A topology of the library's as callers take it.
pub(super) fn as_object(topology: &'static RawTopology) -> *mut c_void {
    std::ptr::from_ref(topology).cast_mut().cast()
}

/// The topology for this library's own use.
pub(super) fn machine() -> Result<Known, TopologyError> {
    match process::member() {
        Ok(Member::Server(role)) => role.server().topology().map(Known::Server),
        Ok(Member::Client(client)) => match client.topology() {
            Ok(machine) => Ok(Known::Client(machine)),
            Err(error) if client.reads_segment() => Err(error),
            Err(_) => own_machine(),
        },
        Err(_) => own_machine(),
    }
}

/// A machine read by this client or by the server inside this process.
pub(super) enum Known {
    Client(Arc<Machine>),
    Server(Arc<SharedMachine>),
}

impl std::ops::Deref for Known {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        match self {
            Self::Client(machine) => machine,
            Self::Server(shared) => shared.machine(),
        }
    }
}

/// The machine that an object of libhwloc describes.
pub(super) fn machine_of(topology: &RawTopology) -> Result<Machine, TopologyError> {
    let exported = hwloc::exported(topology);
    let exported = exported.map_err(|_| TopologyError::Failed { doing: "export a topology" })?;
    read(&exported.xml.unwrap_or_default())
}

fn read(xml: &Text) -> Result<Machine, TopologyError> {
    let unusable = |reason: String| TopologyError::Unusable { reason };
    let text = std::str::from_utf8(xml.as_bytes()).map_err(|error| unusable(error.to_string()))?;
    Machine::of_xml(text).map_err(|error| unusable(error.to_string()))
}

/// The machine read by a process whose server shares no topology.
fn own_machine() -> Result<Known, TopologyError> {
    static MACHINE: OnceLock<Arc<Machine>> = OnceLock::new();
    if let Some(known) = MACHINE.get() {
        return Ok(Known::Client(Arc::clone(known)));
    }
    let machine = machine_of(discovered()?)?;
    Ok(Known::Client(Arc::clone(MACHINE.get_or_init(|| Arc::new(machine)))))
}

/// The machine as libhwloc reads it, once; a failure is not tried again.
fn discovered() -> Result<&'static RawTopology, TopologyError> {
    static DISCOVERED: OnceLock<Result<&'static RawTopology, TopologyError>> = OnceLock::new();
    let load = || {
        let topology = load()?;
        hwloc::keep_topology(as_object(topology));
        Ok(topology)
    };
    DISCOVERED.get_or_init(load).clone()
}

/// The machine as libhwloc reads it now.
fn discovered_again() -> Result<Topology, TopologyError> {
    // SAFETY: libhwloc loads the object here, and nobody else knows it. The export is a copy.
    unsafe { exported_and_destroyed(as_object(load()?)) }
}

fn load() -> Result<&'static RawTopology, TopologyError> {
    if is_forbidden() {
        return Err(TopologyError::Forbidden);
    }
    Discovery::get("read the topology of this machine")?.load()
}

/// A topology of this machine for a text, made at the first request for that text. It stays.
fn kept(xml: &Text) -> Result<&'static RawTopology, TopologyError> {
    static MADE: Mutex<Vec<(Text, &'static RawTopology)>> = Mutex::new(Vec::new());
    // A missing libhwloc and a text that it refuses are different errors.
    Discovery::get("load a topology")?;
    let mut made = MADE.lock();
    if let Some((_, known)) = made.iter().find(|(known, _)| known == xml) {
        return Ok(known);
    }
    let object = hwloc::import(xml, hwloc::Of::ThisMachine);
    let object = object.map_err(|_| TopologyError::Failed { doing: "load a topology from XML" })?;
    hwloc::keep_topology(object);
    // SAFETY: the topology was made just now; it is never destroyed, because the library keeps it.
    let object = unsafe { &*object.cast::<RawTopology>() };
    made.push((xml.clone(), object));
    Ok(object)
}

/// Whether `MODEX_TOPOLOGY=none` forbids this process to read the machine.
#[expect(clippy::disallowed_methods, reason = "a C program's process is an edge; it has no other configuration")]
pub fn is_forbidden() -> bool {
    std::env::var_os("MODEX_TOPOLOGY").is_some_and(|word| word == "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: each call read the file again. The callers' topology changed with it, and failed when the file was
    /// gone.
    #[test]
    fn the_topology_of_a_file_outlives_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("topology.xml");
        let topology = HostTopology::new(Given::File(path.clone()));
        assert!(topology.host_topology().is_err(), "there is none yet");
        std::fs::write(&path, "<topology/>").unwrap();
        let first = topology.host_topology().unwrap().unwrap();
        assert_eq!(first.xml, Some(Text::from("<topology/>")));
        std::fs::write(&path, "<other/>").unwrap();
        assert_eq!(topology.host_topology().unwrap(), Some(first.clone()));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(topology.host_topology().unwrap(), Some(first));
    }
}
