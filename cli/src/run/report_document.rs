//! The moments of each rank of a job as numbers: the JSON document of `--report`.

use serde::{Deserialize, Serialize};

use crate::origin::Origin;

/// The report as JSON. The field names are part of the command's contract; see `modex run --help`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReportDocument {
    pub(crate) job: String,
    pub(crate) ranks: u32,
    #[serde(flatten)]
    pub(crate) origin: Origin,
    /// The unit of the moments: milliseconds.
    pub(crate) unit: String,
    pub(crate) moments: Vec<RankMoments>,
}

/// The moments of a rank after the first spawn; null if it did not reach one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RankMoments {
    pub(crate) rank: u32,
    pub(crate) spawned: Option<f64>,
    pub(crate) init_begun: Option<f64>,
    pub(crate) connected: Option<f64>,
    pub(crate) init_granted: Option<f64>,
    pub(crate) fence_begun: Option<f64>,
    pub(crate) fence_ended: Option<f64>,
    pub(crate) finalized: Option<f64>,
    pub(crate) ended: Option<f64>,
}

impl RankMoments {
    /// The begin of Init. If the client does not report it, the arrival of its connect message.
    pub(crate) fn entered(&self) -> Option<f64> {
        self.init_begun.or(self.connected)
    }

    /// The finalize, or the end without one.
    pub(crate) fn left(&self) -> Option<f64> {
        self.finalized.or(self.ended)
    }

    /// The moments that it reached.
    pub(super) fn all(&self) -> impl Iterator<Item = f64> {
        let Self { rank: _, spawned, init_begun, connected, init_granted, fence_begun, fence_ended, finalized, ended } =
            *self;
        let all = [spawned, init_begun, connected, init_granted, fence_begun, fence_ended, finalized, ended];
        all.into_iter().flatten()
    }
}
