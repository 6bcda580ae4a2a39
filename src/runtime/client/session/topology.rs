//! The node's topology at a client: requested at its first use, then read in the shared segment.

use std::sync::{Arc, OnceLock};

use super::Session;
use crate::client::{Call, CallError, GetDirectives, GetRequest, Outcome};
use crate::keys;
use crate::proto::{Get, Reply, Request};
use crate::runtime::client::fetched::FetchError;
use crate::shmem::ReaderHandle;
use crate::topo::{Machine, TopologyError};
use crate::types::{AsStatus, Info, Key, ProcId, Rank, Status};

/// This process's knowledge of its node's topology. The first outcome is kept, unless the server could not be reached
/// or was too slow.
#[derive(Debug, Default)]
pub(super) struct TopologyCache(OnceLock<Result<Arc<Machine>, TopologyError>>);

impl Session {
    /// The topology of this node, as the server shares it. This process does not read it from the machine.
    ///
    /// # Errors
    /// [`TopologyError`].
    pub fn machine(&self) -> Result<Arc<Machine>, TopologyError> {
        if let Some(known) = self.topology().0.get() {
            return known.clone();
        }
        let found = self.ask_for_machine();
        if matches!(found, Err(TopologyError::Unreachable { .. } | TopologyError::TooSlow)) {
            return found;
        }
        // If two threads asked, both use the first outcome.
        self.topology().0.get_or_init(|| found).clone()
    }

    fn ask_for_machine(&self) -> Result<Arc<Machine>, TopologyError> {
        if self.is_alone() {
            return Err(TopologyError::NoSource);
        }
        if !self.peer_profile().is_ours {
            return self.machine_among_values();
        }
        match self.ask_server(crate::server::TOPOLOGY)? {
            Some(text) => machine_of(&text),
            None => match self.link().with(crate::runtime::client::link_state::LinkState::take_topology) {
                Some(descriptor) => match Machine::attach(ReaderHandle::from_descriptor(descriptor)) {
                    Ok(machine) => Ok(Arc::new(machine)),
                    Err(error) => {
                        tracing::warn!(%error, "the topology's segment can't be read; the client requests the XML \
                         instead");
                        self.machine_as_text()
                    }
                },
                None => self.machine_as_text(),
            },
        }
    }

    fn machine_as_text(&self) -> Result<Arc<Machine>, TopologyError> {
        let text = self.ask_server(keys::HWLOC_XML_V2.name())?.ok_or(TopologyError::NotShared)?;
        machine_of(&text)
    }

    /// Requests a value from the server. Returns its text if the reply has one.
    fn ask_server(&self, key: &'static str) -> Result<Option<String>, TopologyError> {
        let get = Get { proc: self.job(), key: Some(Key::from_static(key)), directives: vec![immediate()] };
        let reply = match self.link().call(Call::Exchange(Request::Get(get))) {
            Ok(Outcome::Reply(reply)) => reply,
            Ok(_) => return Err(TopologyError::NotShared),
            Err(error) => return Err(refused(&error)),
        };
        let Reply::Data(data) = reply else { return Err(TopologyError::NotShared) };
        let mut entries = data.into_iter().flat_map(|data| data.entries);
        Ok(entries.find(|entry| entry.key.as_str() == key).and_then(|entry| entry.value.as_str().map(str::to_owned)))
    }

    /// The topology as a value. Servers of other libraries send it with the job information, if at all. Our own server
    /// over TCP looks like one of them, but must be asked.
    fn machine_among_values(&self) -> Result<Arc<Machine>, TopologyError> {
        let local = GetDirectives { optional: true, ..GetDirectives::default() };
        let asked = GetDirectives::parse(&[immediate()]).unwrap_or_default();
        for (key, directives) in
            [(keys::HWLOC_XML_V2, local.clone()), (keys::LOCAL_TOPO, local), (keys::HWLOC_XML_V2, asked)]
        {
            let key = Some(Key::from_static(key.name()));
            // Not `get`: without a registered value it would call this function again.
            match self.look_up(&GetRequest { proc: self.job(), key, directives, looks: 0 }) {
                Ok(value) if value.as_str().is_some() => return machine_of(value.as_str().unwrap_or_default()),
                Err(error) if is_too_slow(&error) => return Err(TopologyError::TooSlow),
                _ => {}
            }
        }
        Err(TopologyError::NotShared)
    }

    fn job(&self) -> ProcId {
        ProcId { namespace: self.proc().namespace.clone(), rank: Rank::Wildcard }
    }
}

/// The server must not wait for a missing value.
fn immediate() -> Info {
    Info::new(Key::from_static(keys::IMMEDIATE.name()), true)
}

/// Whether the server still reads the topology.
const fn is_too_slow(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::NotFound { status: Status::ERR_TIMEOUT }
            | FetchError::Call(CallError::Refused { status: Status::ERR_TIMEOUT, .. })
    )
}

fn machine_of(text: &str) -> Result<Arc<Machine>, TopologyError> {
    let unusable = |error: crate::topo::DigestError| TopologyError::Unusable { reason: error.to_string() };
    Machine::of_xml(text).map(Arc::new).map_err(unusable)
}

fn refused(error: &CallError) -> TopologyError {
    match error.status() {
        // A server of an older build of ours does not know the key.
        Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND => TopologyError::NotShared,
        Status::ERR_TIMEOUT => TopologyError::TooSlow,
        Status::ERROR => {
            TopologyError::Unusable { reason: "the server could not read it; its log says why".to_owned() }
        }
        _ => TopologyError::Unreachable { reason: error.to_string() },
    }
}
