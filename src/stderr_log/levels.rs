//! The levels of the log: one for everything, and others for areas (`MODEX_LOG=warn,iof=debug`).
//!
//! The level of an event's place is decided once for each place (`tracing` keeps the answer), so areas cost nothing
//! later.

use std::ffi::OsStr;

use tracing::Metadata;
use tracing::level_filters::LevelFilter;

/// The variable with the wanted levels: `off`, `error`, `warn`, `info` or `debug`, and `AREA=LEVEL`, with commas.
pub const VARIABLE: &str = "MODEX_LOG";

/// A subject of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// The name in [`VARIABLE`].
    pub name: &'static str,
    /// The subject, in words.
    pub subject: &'static str,
    /// Modules whose events belong to it, with the modules below them. The longest name decides.
    modules: &'static [&'static str],
}

/// Every area, in the order of the names.
pub const AREAS: [Area; 12] = [
    Area {
        name: "collective",
        subject: "fences, connects and groups",
        modules: &[
            "modex::client::endpoint_exchange",
            "modex::runtime::client::group_info",
            "modex::server::rules::connect",
            "modex::server::rules::fence",
            "modex::server::rules::group",
            "modex::server::rules::intake",
            "modex::server::rules::missed_fences",
            "modex::server::rules::rendezvous",
        ],
    },
    Area {
        name: "event",
        subject: "events and their handlers",
        modules: &[
            "modex::events",
            "modex::runtime::client::session::events",
            "modex::runtime::shared::events",
            "modex::runtime::server::lifecycle_observer",
            "modex::server::rules::events",
            "pmix::client::events",
        ],
    },
    Area {
        name: "gds",
        subject: "the segments: commits, values, files",
        modules: &[
            "modex::client::job_store",
            "modex::gds",
            "modex::runtime::client::readers",
            "modex::server::rules::commit",
            "modex::shmem",
        ],
    },
    Area {
        name: "get",
        subject: "Gets and direct modexes",
        modules: &[
            "modex::runtime::client::inflated",
            "modex::runtime::client::received",
            "modex::server::rules::answers",
            "modex::server::rules::direct_modex",
            "modex::server::rules::get",
        ],
    },
    Area {
        name: "host",
        subject: "the functions of the host and its answers",
        modules: &[
            "modex::runtime::server",
            "modex::runtime::shared::plain",
            "modex::server::dispatch",
            "modex::server::rules::upcalls",
            "pmix::server",
            "pmix::turns",
        ],
    },
    Area {
        name: "iof",
        subject: "output and input of processes",
        modules: &[
            "modex::output",
            "modex::runtime::client::forwarding",
            "modex::server::rules::forwarding",
            "modex::server::state::kept_output",
            "modex_cli::output",
            "modex_cli::run::job::forwarding",
            "modex_cli::run::job::logging",
            "pmix::client::iof",
            "pmix::output",
            "pmix::server::iof",
            "pmix::server::local_output",
            "pmix::stdin",
        ],
    },
    Area {
        name: "job",
        subject: "registration, setup and spawn of jobs",
        modules: &[
            "modex::gds::registration",
            "modex::runtime::server::job_info",
            "modex::runtime::server::job_setup",
            "modex::server::rules::namespaces",
            "modex::server::rules::resolve",
            "modex_cli::run",
            "pmix::client::spawn",
            "pmix::server::fork",
            "pmix::server::maps",
            "pmix::server::psets",
            "pmix::server::registration",
            "pmix::server::setup",
        ],
    },
    Area { name: "pmi", subject: "PMI-1 and PMI-2", modules: &["modex::pmi", "modex::runtime::server::pmi"] },
    Area {
        name: "ptl",
        subject: "connections and messages",
        modules: &[
            "modex::ptl",
            "modex::runtime::client::attach",
            "modex::runtime::client::link_state",
            "modex::runtime::server::cleaner",
            "modex::runtime::server::connection",
            "modex::runtime::server::connections",
            "modex::runtime::server::decoder",
            "modex::runtime::server::duplicate_rank_check",
            "modex::runtime::server::listeners",
            "modex::runtime::server::server_loop",
            "modex::runtime::shared::message_codec",
            "modex::server::rules::access",
            "modex::server::rules::session",
            "pmix::client::debugger",
            "pmix::client::lifecycle",
            "pmix::descriptors",
        ],
    },
    Area {
        name: "service",
        subject: "published data, credentials, logs, monitoring and control of jobs",
        modules: &[
            "modex::fabric",
            "modex::runtime::server::credential_desk",
            "modex::runtime::server::fabric_desk",
            "modex::runtime::server::fabric_source",
            "modex::runtime::server::storage_desk",
            "modex::runtime::server::usage_desk",
            "modex::server::rules::host_request",
            "modex_cli::run::job::controlling",
            "pmix::own_log",
        ],
    },
    Area {
        name: "tool",
        subject: "tools and the search for their servers",
        modules: &[
            "modex::api::tool",
            "modex::ptl::rendezvous",
            "modex::runtime::client::tool",
            "modex::runtime::server::server_handle::tool_support",
            "modex::server::rules::tools",
            "pmix::parent",
            "pmix::repeated_init",
            "pmix::tool",
            "pmix::tool_directions",
            "pmix::tool_servers",
        ],
    },
    Area {
        name: "topology",
        subject: "the hardware of the node",
        modules: &[
            "modex::runtime::client::session::topology",
            "modex::runtime::server::topology",
            "modex::topo::inventory",
            "pmix::hwloc",
            "pmix::server::topology_options",
            "pmix::topology",
        ],
    },
];

/// Names of levels.
const LEVELS: [(&str, LevelFilter); 5] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
];

/// The wanted levels.
#[derive(Clone, Debug)]
pub struct Levels {
    others: LevelFilter,
    areas: [Option<LevelFilter>; AREAS.len()],
    is_wish: bool,
    complaints: Vec<String>,
}

impl Levels {
    /// The levels of a value of [`VARIABLE`]. `usual` is the level where the value says nothing.
    #[must_use]
    pub fn of(wanted: Option<&OsStr>, usual: LevelFilter) -> Self {
        let mut levels = Self { others: usual, areas: [None; AREAS.len()], is_wish: false, complaints: Vec::new() };
        let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else { return levels };
        for part in wanted.to_string_lossy().split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match levels.take(part) {
                Ok(()) => levels.is_wish = true,
                Err(reason) => levels.complain(&format!("{VARIABLE} is {wanted:?}; {reason}")),
            }
        }
        levels
    }

    /// Takes a level, or one of an area.
    fn take(&mut self, part: &str) -> Result<(), String> {
        let (area, level) =
            part.split_once('=').map_or((None, part), |(area, level)| (Some(area.trim()), level.trim()));
        let level = LEVELS.iter().find(|(name, _)| level.eq_ignore_ascii_case(name)).map(|(_, level)| *level);
        let names = || AREAS.map(|area| area.name).join(", ");
        let place = match area {
            None => None,
            Some(area) => match self.area_mut(area) {
                Some(place) => Some(place),
                None => return Err(format!("{area:?} is no area of the log; say one of {}", names())),
            },
        };
        let level = level
            .ok_or_else(|| format!("{part:?} has no level; say \"off\", \"error\", \"warn\", \"info\" or \"debug\""))?;
        match place {
            Some(place) => *place = Some(level),
            None => self.others = level,
        }
        Ok(())
    }

    fn complain(&mut self, complaint: &str) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(complaint.to_owned());
        }
    }

    fn area_mut(&mut self, name: &str) -> Option<&mut Option<LevelFilter>> {
        let is_it = |area: &Area| area.name.eq_ignore_ascii_case(name);
        AREAS.iter().zip(&mut self.areas).find(|(area, _)| is_it(area)).map(|(_, level)| level)
    }

    /// Shows all of some areas, if the variable expresses no wish.
    #[must_use]
    pub fn with_verbose(mut self, areas: &[&str]) -> Self {
        if self.is_wish {
            return self;
        }
        for name in areas {
            if let Some(level) = self.area_mut(name) {
                *level = Some(LevelFilter::DEBUG);
            }
        }
        self.is_wish = !areas.is_empty();
        self
    }

    /// Whether the user asked for a level.
    #[must_use]
    pub const fn is_wish(&self) -> bool {
        self.is_wish
    }

    /// Sentences about parts of the value that make no sense.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.complaints.clone()
    }

    /// The most detailed level.
    #[must_use]
    pub fn most(&self) -> LevelFilter {
        self.areas.iter().flatten().copied().fold(self.others, Ord::max)
    }

    /// Whether an event is shown.
    #[must_use]
    pub fn enables(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level_of(metadata.target())
    }

    fn level_of(&self, target: &str) -> LevelFilter {
        let area = AREAS.iter().zip(self.areas).max_by_key(|(area, _)| area.depth_of(target));
        area.filter(|(area, _)| area.depth_of(target) > 0).and_then(|(_, level)| level).unwrap_or(self.others)
    }
}

impl Area {
    /// Length of the longest of its modules that contains a target; 0 if none does.
    fn depth_of(&self, target: &str) -> usize {
        let contains = |module: &&&str| {
            target.strip_prefix(**module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        self.modules.iter().filter(contains).map(|module| module.len()).max().unwrap_or(0)
    }
}

/// Complaints about one value.
const COMPLAINTS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn levels(wanted: &str) -> Levels {
        Levels::of(Some(OsStr::new(wanted)), LevelFilter::ERROR)
    }

    #[test]
    fn the_variable_says_what_is_shown() {
        for (wanted, expected) in [
            ("off", LevelFilter::OFF),
            ("ERROR", LevelFilter::ERROR),
            ("warn", LevelFilter::WARN),
            (" info ", LevelFilter::INFO),
            ("debug", LevelFilter::DEBUG),
        ] {
            let found = levels(wanted);
            assert_eq!((found.others, found.is_wish, found.complaints.len()), (expected, true, 0), "{wanted}");
        }
        assert!(!levels("").is_wish() && levels("").complaints.is_empty());
        assert!(!levels("verbose").is_wish());
    }

    #[test]
    fn an_area_has_a_level_of_its_own() {
        let found = levels("warn,iof=debug,Event=off");
        let of = |target: &str| found.level_of(target);
        assert_eq!(of("modex::server::rules::forwarding"), LevelFilter::DEBUG);
        assert_eq!(of("pmix::server::iof"), LevelFilter::DEBUG, "the longest name decides");
        assert_eq!(of("pmix::server::iof::part"), LevelFilter::DEBUG);
        assert_eq!(of("pmix::server::iofs"), LevelFilter::WARN);
        assert_eq!(of("modex::events::dispatcher"), LevelFilter::OFF);
        assert_eq!(of("elsewhere"), LevelFilter::WARN);
        assert_eq!(found.most(), LevelFilter::DEBUG);
        assert_eq!(levels("iof=debug").level_of("elsewhere"), LevelFilter::ERROR, "the usual level");
    }

    #[test]
    fn an_unknown_area_or_level_is_told_and_the_rest_counts() {
        let found = levels("warn,iof=loud,dragons=debug,get=info");
        assert_eq!((found.others, found.level_of("modex::server::rules::get")), (LevelFilter::WARN, LevelFilter::INFO));
        let [loud, dragons] = [&found.complaints[0], &found.complaints[1]];
        assert!(loud.contains("\"iof=loud\" has no level; say \"off\""), "{loud}");
        assert!(dragons.contains("\"dragons\" is no area of the log; say one of collective, event, "), "{dragons}");
        assert_eq!(levels(&"x,".repeat(100)).complaints.len(), COMPLAINTS_MAX);
    }

    #[test]
    fn verbose_parameters_count_without_the_variable_alone() {
        let verbose = |wanted: &str| levels(wanted).with_verbose(&["iof"]).level_of("pmix::stdin");
        assert_eq!([verbose(""), verbose("warn")], [LevelFilter::DEBUG, LevelFilter::WARN]);
        assert!(!levels("").with_verbose(&[]).is_wish());
    }

    #[test]
    fn parameters_name_areas() {
        for parameter in crate::runtime::PARAMETERS {
            if let crate::runtime::ParameterEffect::LogArea(area) = parameter.effect {
                assert!(AREAS.iter().any(|known| known.name == area), "{area}");
            }
        }
        assert!(AREAS.is_sorted_by_key(|area| area.name));
    }

    /// A moved module must not leave its area.
    #[test]
    fn every_module_of_an_area_exists_and_every_event_has_an_area() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let crates = [("modex", "src"), ("pmix", "libpmix/src"), ("modex_cli", "cli/src")];
        for module in AREAS.iter().flat_map(|area| area.modules) {
            let (of_crate, path) = module.split_once("::").unwrap();
            let folder = root.join(crates.iter().find(|(name, _)| *name == of_crate).unwrap().1);
            let file = folder.join(path.replace("::", "/"));
            assert!(file.is_dir() || file.with_extension("rs").is_file(), "{module}");
        }
        for (name, folder) in crates {
            for file in files(&root.join(folder)) {
                let text = std::fs::read_to_string(&file).unwrap();
                let below = file.strip_prefix(root.join(folder)).unwrap().with_extension("");
                let target = format!("{name}::{}", below.to_str().unwrap().replace('/', "::"));
                let is_loud = ["error!", "warn!", "info!", "debug!"]
                    .iter()
                    .any(|word| text.contains(&format!("tracing::{word}")));
                let has_area = AREAS.iter().any(|area| area.depth_of(&target) > 0);
                assert!(!is_loud || has_area || WITHOUT_AREA.contains(&target.as_str()), "{target} has no area");
            }
        }
    }

    /// Places of events that concern the library itself.
    const WITHOUT_AREA: [&str; 5] = [
        "modex::runtime::shared::local",
        "modex::runtime::shared::parameters",
        "modex::stderr_log",
        "modex::stderr_log::levels",
        "modex_cli::log",
    ];

    fn files(folder: &Path) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }
}
