//! The node's topology as a client sees it: asked for when it is first needed, then looked at where it lies.

use std::sync::{Arc, OnceLock};

use super::session::{FetchError, Session};
use crate::client::{Call, CallError, GetDirectives, GetRequest, Outcome};
use crate::gds::AsStatus;
use crate::keys;
use crate::proto::{Get, Reply, Request};
use crate::shmem::ReaderHandle;
use crate::topo::{Machine, TopologyError};
use crate::types::{Info, Key, ProcId, Rank, Status};

/// What this process knows of its node's topology. The outcome of the first question is kept, unless the server could not be
/// asked, or it says that it takes too long.
#[derive(Debug, Default)]
pub(super) struct KnownTopology(OnceLock<Result<Arc<Machine>, TopologyError>>);

impl Session {
    /// The topology of this node, as the server shares it; nothing is read from the machine here.
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
        // Two threads may have asked; they share what the first was told.
        self.topology().0.get_or_init(|| found).clone()
    }

    fn ask_for_machine(&self) -> Result<Arc<Machine>, TopologyError> {
        if self.is_alone() {
            return Err(TopologyError::NoSource);
        }
        if !self.manners().is_ours {
            return self.machine_among_values();
        }
        match self.ask_server(crate::server::TOPOLOGY)? {
            Some(text) => machine_of(&text),
            None => match self.link().with(super::link_state::LinkState::take_topology) {
                Some(descriptor) => match Machine::attach(ReaderHandle::from_descriptor(descriptor)) {
                    Ok(machine) => Ok(Arc::new(machine)),
                    Err(error) => {
                        tracing::warn!(%error, "the topology's segment can't be read; asking for the text instead");
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

    /// Asks the server; the text, if that is the answer.
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

    /// Servers of other libraries tell it among all else, if at all. One of ours that is reached over TCP is taken for one
    /// of them, and has to be asked.
    fn machine_among_values(&self) -> Result<Arc<Machine>, TopologyError> {
        let told = GetDirectives { optional: true, ..GetDirectives::default() };
        let asked = GetDirectives::parse(&[immediate()]).unwrap_or_default();
        for (key, directives) in
            [(keys::HWLOC_XML_V2, told.clone()), (keys::LOCAL_TOPO, told), (keys::HWLOC_XML_V2, asked)]
        {
            let key = Some(Key::from_static(key.name()));
            // Not `get`: it would come back here for what nobody registered.
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

/// The server is not to wait for what nobody has.
fn immediate() -> Info {
    Info::new(Key::from_static(keys::IMMEDIATE.name()), true)
}

/// Whether the server is still at it.
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
        // A server of an older build of ours knows no such key.
        Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND => TopologyError::NotShared,
        Status::ERR_TIMEOUT => TopologyError::TooSlow,
        Status::ERROR => {
            TopologyError::Unusable { reason: "the server could not read it; its log says why".to_owned() }
        }
        _ => TopologyError::Unreachable { reason: error.to_string() },
    }
}
