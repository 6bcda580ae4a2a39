//! Job information on its way to a peer that does not read segments.

use super::fitting::{pack_entry, pack_process};
use super::{Dialect, Version};
use crate::bfrops::wire::CompulsoryString;
use crate::bfrops::{EncodeError, Writer};
use crate::types::{Info, Key, Kval, Text, Value};

/// Writes the answer to a request for job information entry by entry.
#[derive(Debug)]
pub struct JobInfoWriter {
    writer: Writer,
    peer: Version,
}

impl JobInfoWriter {
    /// Begins the answer.
    ///
    /// # Errors
    /// [`EncodeError`] for a name longer than a message can say.
    pub fn new(namespace: &Text, dialect: Dialect) -> Result<Self, EncodeError> {
        let mut writer = Writer::new(dialect.codec);
        writer.pack::<CompulsoryString>(namespace)?;
        Ok(Self { writer, peer: dialect.peer })
    }

    /// Adds an entry, as far as the peer has types for it.
    ///
    /// # Errors
    /// [`EncodeError`] for a value that no peer could read.
    pub fn push(&mut self, entry: &Kval) -> Result<(), EncodeError> {
        pack_job_entry(&mut self.writer, entry, self.peer)
    }

    /// The answer's payload.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.writer.into_bytes()
    }

    /// Whether two peers that share an encoding get the same bytes, too.
    #[must_use]
    pub fn is_same_for(first: Version, second: Version) -> bool {
        reads_session_arrays(first) == reads_session_arrays(second)
    }
}

/// One entry of a job's information.
pub(super) fn pack_job_entry(writer: &mut Writer, entry: &Kval, peer: Version) -> Result<(), EncodeError> {
    match session_infos(entry) {
        Some(infos) if !reads_session_arrays(peer) => infos
            .map(|info| Kval { key: info.key.clone(), value: info.value.clone() })
            .try_for_each(|member| pack_entry(writer, &member)),
        _ if pack_process(writer, entry)? => Ok(()),
        _ => pack_entry(writer, entry),
    }
}

fn session_infos(entry: &Kval) -> Option<impl Iterator<Item = &Info>> {
    let elements = match &entry.value {
        Value::DataArray(array) if entry.key == Key::from_static(SESSION_ARRAY) => &array.elements,
        _ => return None,
    };
    Some(elements.iter().filter_map(|element| match element {
        Value::Info(info) => Some(&**info),
        _ => None,
    }))
}

/// Releases before 4.2 look for the session's values among those of the job.
fn reads_session_arrays(peer: Version) -> bool {
    peer >= Version::new(4, 2, 0)
}

const SESSION_ARRAY: &str = "pmix.ssn.arr";
