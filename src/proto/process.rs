//! Directives of spawns: parents of the job, and the processes that get its output.

use super::Spawn;
use crate::keys;
use crate::types::codes::iof_channel;
use crate::types::{Info, Value};

impl Spawn {
    /// Whether each parent (`PMIX_PARENT_ID`) that the job or an application names is a process.
    #[must_use]
    pub fn has_valid_parents(&self) -> bool {
        let mut directives = self.job.iter().chain(self.apps.iter().flat_map(|app| &app.info));
        directives.all(|info| info.key.as_str() != keys::PARENT_ID.name() || matches!(info.value, Value::Proc(_)))
    }

    /// Channels of the job's output that a tool gets if it spawns the job: all but those that the job or its
    /// applications say no to. Tools of OpenPMIx get the same, and PRRTE's `prun` counts on that.
    #[must_use]
    pub fn channels_for_tool(&self) -> u16 {
        let is_wanted = |key: &str| {
            let infos = self.job.iter().chain(self.apps.iter().flat_map(|app| &app.info));
            let mut said = infos.filter(|info| info.key.as_str() == key).map(|info| info.value.as_bool());
            said.clone().next().is_none() || said.any(|value| value != Some(false))
        };
        let wanted = CHANNELS_FOR_TOOLS.iter().filter(|(key, _)| is_wanted(key.name()));
        wanted.fold(0, |all, (_, channel)| all | channel)
    }

    /// Whether the job asks for output that each host has (`PMIX_FWD_STDOUT`, `PMIX_FWD_STDERR`).
    pub(crate) fn asks_for_output(&self) -> bool {
        let is_channel = |info: &Info| [keys::FWD_STDOUT.name(), keys::FWD_STDERR.name()].contains(&info.key.as_str());
        self.job.iter().any(|info| is_channel(info) && info.value.as_bool() == Some(true))
    }

    /// Whether tools that watch the spawner get the job's output. `PMIX_IOF_INHERIT` decides. Without it, a spawn that
    /// names channels for its spawner refuses.
    #[must_use]
    pub fn inherits_output(&self) -> bool {
        let infos = || self.job.iter().chain(self.apps.iter().flat_map(|app| &app.info));
        let wish = infos().find(|info| info.key.as_str() == keys::IOF_INHERIT.name());
        let names_channels =
            || infos().any(|info| CHANNELS_FOR_TOOLS.iter().any(|(key, _)| info.key.as_str() == key.name()));
        wish.map_or_else(|| !names_channels(), |info| info.value.as_bool() != Some(false))
    }
}

const CHANNELS_FOR_TOOLS: [(keys::TypedKey<bool>, u16); 3] = [
    (keys::FWD_STDOUT, iof_channel::FWD_STDOUT_CHANNEL),
    (keys::FWD_STDERR, iof_channel::FWD_STDERR_CHANNEL),
    (keys::FWD_STDDIAG, iof_channel::FWD_STDDIAG_CHANNEL),
];
