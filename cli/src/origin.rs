//! The origin of figures and pictures: this version, the date, and the machine. Figures without it say nothing later.

use std::time::{SystemTime, UNIX_EPOCH};

use modex::stderr_log::printable;
use nix::unistd::gethostname;
use serde::{Deserialize, Serialize};

use super::universal_time::universal_time;

/// The version, date and machine of a measurement. The field names are part of the JSON documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) version: String,
    /// UTC, as RFC 3339 has it.
    pub(crate) date: String,
    pub(crate) machine: Machine,
}

/// A machine. Facts that the kernel does not tell are empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The name of the machine.
    pub(crate) host: String,
    /// The model of its processors.
    pub(crate) processor: String,
    /// The number of processors that this process may use.
    pub(crate) processors: usize,
    /// The release of its kernel.
    pub(crate) kernel: String,
}

impl Origin {
    /// The version of the command, the machine, and the present date.
    #[expect(clippy::disallowed_methods, reason = "the date of a measurement")]
    pub(crate) fn now() -> Self {
        let date = universal_time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        // Parts of a second are of no use in a date.
        let date = date.split('.').next().map_or_else(String::new, |seconds| format!("{seconds}Z"));
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), date, machine: Machine::this() }
    }

    /// All of it in one line.
    pub(crate) fn line(&self) -> String {
        let Self { version, date, machine: Machine { host, processor, processors, kernel } } = self;
        let noun = if *processors == 1 { "processor" } else { "processors" };
        let facts = [format!("modex {version}"), host.clone(), format!("{processors} {noun}"), processor.clone()];
        let facts = facts.into_iter().chain([format!("Linux {kernel}"), date.clone()]);
        printable(&facts.filter(|fact| !fact.is_empty()).collect::<Vec<_>>().join(", "))
    }
}

impl Machine {
    fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            host: gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default(),
            processor: model(&read("/proc/cpuinfo")).unwrap_or(std::env::consts::ARCH).to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// The model of the first processor. Not every architecture tells one.
fn model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim()).filter(|model| !model.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_that_of_the_first_processor() {
        let text = "processor\t: 0\nmodel name\t: Fast CPU @ 2 GHz\n\nprocessor\t: 1\nmodel name\t: Slow\n";
        assert_eq!((model(text), model("CPU part : 0xd40\n")), (Some("Fast CPU @ 2 GHz"), None));
    }

    #[test]
    fn the_line_has_version_machine_and_date() {
        let line = Origin::now().line();
        let has = |text: &str| line.contains(text);
        assert!(has(concat!("modex ", env!("CARGO_PKG_VERSION"))) && has("processor") && line.ends_with('Z'), "{line}");
        assert!(!line.contains('.') || !line.rsplit(", ").next().unwrap().contains('.'), "{line}");
    }
}
