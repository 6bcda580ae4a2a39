//! Parents of jobs.

use super::Spawn;
use crate::keys;
use crate::types::Value;

impl Spawn {
    /// Whether each parent (`PMIX_PARENT_ID`) that the job or an application names is a process.
    #[must_use]
    pub fn has_valid_parents(&self) -> bool {
        let mut directives = self.job.iter().chain(self.apps.iter().flat_map(|app| &app.info));
        directives.all(|info| info.key.as_str() != keys::PARENT_ID.name() || matches!(info.value, Value::Proc(_)))
    }
}
