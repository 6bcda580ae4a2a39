//! Ranks that speak PMI-1 or PMI-2.

use crate::keys::{self, TypedKey};
use crate::runtime::PmiChannel;
use crate::types::{AsStatus, Key, ProcId, Rank, Status, Value};

use super::server::Server;
use super::server_call::ServerError;

impl Server {
    /// Makes a connection for a registered process that speaks PMI-1 or PMI-2, the protocols of MPICH. The process
    /// inherits one end as a descriptor of any number, and gets [`Server::pmi_variables`] instead of
    /// [`Server::setup_fork`]. After its start the host calls [`Server::serve_pmi`]. Its puts, barriers and aborts are
    /// those of a PMIx process.
    ///
    /// # Errors
    /// [`ServerError::Refused`] if there is no socket.
    pub fn open_pmi(&self, proc: &ProcId) -> Result<PmiChannel, ServerError> {
        PmiChannel::open(proc.clone()).map_err(|error| ServerError::Refused {
            doing: "make a rank's socket for PMI",
            status: Status::ERR_OUT_OF_RESOURCE,
            reason: error.to_string(),
        })
    }

    /// The environment variables of a process that speaks PMI-1 or PMI-2, if it inherits its end under this number.
    ///
    /// # Errors
    /// [`ServerError::NoProcess`] for a rank that is not the number of a process, and as [`Server::get`].
    pub fn pmi_variables(&self, proc: &ProcId, descriptor: i32) -> Result<Vec<(String, String)>, ServerError> {
        let Rank::Process(rank) = proc.rank else { return Err(ServerError::NoProcess { proc: proc.clone() }) };
        let of_job = ProcId { namespace: proc.namespace.clone(), rank: Rank::Wildcard };
        let numbers = [
            ("PMI_FD", descriptor.to_string()),
            ("PMI_RANK", rank.to_string()),
            ("PMI_SIZE", self.number(&of_job, keys::JOB_SIZE)?),
            ("PMI_SPAWNED", u8::from(self.is_spawned(proc)?).to_string()),
            ("MPI_LOCALRANKID", self.number(proc, keys::LOCAL_RANK)?),
            ("MPI_LOCALNRANKS", self.number(&of_job, keys::LOCAL_SIZE)?),
        ];
        Ok(numbers.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// Serves a process that speaks PMI-1 or PMI-2 and has started with its end of the connection. A process that says
    /// nothing has not connected.
    ///
    /// # Errors
    /// [`ServerError::Refused`] if the process is not registered or its job not described, and
    /// [`ServerError::Stopped`].
    pub fn serve_pmi(&self, channel: PmiChannel, pid: u32) -> Result<(), ServerError> {
        self.handle.serve_pmi(channel, pid)?.map_err(|refusal| ServerError::Refused {
            doing: "serve a rank over PMI",
            status: refusal.status(),
            reason: refusal.to_string(),
        })
    }

    /// Whether another job has spawned the process. Hosts may say nothing about processes that they start themselves.
    fn is_spawned(&self, proc: &ProcId) -> Result<bool, ServerError> {
        match self.value(proc, keys::SPAWNED) {
            Ok(value) => Ok(value.and_then(|value| value.as_bool()) == Some(true)),
            Err(error) if error.status() == Status::ERR_NOT_FOUND => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn number<T>(&self, proc: &ProcId, key: TypedKey<T>) -> Result<String, ServerError> {
        let number = self.value(proc, key)?.and_then(|value| value.as_u64());
        number.map(|number| number.to_string()).ok_or_else(|| ServerError::Refused {
            doing: "describe a rank for PMI",
            status: Status::ERR_NOT_FOUND,
            reason: format!("the job's description lacks {}", key.name()),
        })
    }

    fn value<T>(&self, proc: &ProcId, key: TypedKey<T>) -> Result<Option<Value>, ServerError> {
        let found = self.get(proc, Some(&Key::from_static(key.name())), Vec::new()).wait()?;
        Ok(found.into_iter().next().map(|entry| entry.value))
    }
}
