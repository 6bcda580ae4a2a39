//! Answers to requests: complete replies, and content that the runtime completes.

use super::hardware_value::HardwareAnswer;
use super::job_data::JobData;
use super::query_answers::QueryAnswers;
use super::unread::ProcessAnswer;
use crate::gds::Datastore;
use crate::proto::Reply;
use crate::types::{Key, Namespace, ProcId};

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A complete reply.
    Reply(Reply),
    /// Job information: this namespace's data in the store now. The bytes are the same for all its clients of one
    /// dialect, until [`Described`].
    ///
    /// [`Described`]: crate::server::Output::Described
    JobInfo(Namespace),
    /// Data that begins with the description of a job. The bytes of the description are the same for all clients of one
    /// dialect, until [`Described`].
    ///
    /// [`Described`]: crate::server::Output::Described
    JobData(JobData),
    /// Large data of a process. Another thread should read it.
    Process(ProcessAnswer),
    /// Answers to queries. [`QueryAnswers::into_reply`] takes long if they have a table of a large job, or data of
    /// many nodes.
    Queries(QueryAnswers),
    /// A value of the fabric or of inventories. [`HardwareAnswer::into_reply`] takes long for many nodes.
    Hardware(Box<HardwareAnswer>),
    /// The node's topology.
    Topology(TopologyQuestion),
}

impl Answer {
    /// The whole reply, with data of the store.
    ///
    /// # Errors
    /// The answer itself, if it is job information or a topology. Their writers have more than the store.
    pub fn into_reply<S: Datastore>(self, store: &S) -> Result<Reply, Self> {
        match self {
            Self::Reply(reply) => Ok(reply),
            Self::JobData(data) => Ok(data.into_reply(store)),
            Self::Process(answer) => Ok(answer.into_reply()),
            Self::Queries(answers) => Ok(answers.into_reply()),
            Self::Hardware(answer) => Ok(answer.into_reply()),
            Self::JobInfo(_) | Self::Topology(_) => Err(self),
        }
    }
}

/// A question about the node's topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyQuestion {
    /// The question's namespace, with the wildcard rank.
    pub proc: ProcId,
    /// The requested key.
    pub key: Key,
    /// Whether the answer is the segment, because it is wanted and can be sent. Otherwise it is the text.
    pub wants_segment: bool,
}
