//! The figures of one process.

use std::fs::File;
use std::io::Read;

use nix::unistd::{SysconfVar, sysconf};

use crate::keys;

/// The longest file that is read. A process may be in 65,536 groups, and its status lists them before its sizes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Ticks of `/proc` in a second: the unit of the times in [`ProcessStat`].
#[must_use]
pub fn ticks_per_second() -> u64 {
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|ticks| u64::try_from(ticks).ok());
    ticks.filter(|ticks| *ticks > 0).unwrap_or(100)
}

/// A line of `/proc/PID/stat`, as far as it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// The letter of its state.
    pub state: char,
    /// Processor time in ticks.
    pub busy: u64,
    /// Its priority for the system.
    pub priority: i32,
    /// The number of its threads.
    pub thread_count: u64,
    /// Time of the start in ticks since boot.
    pub started: u64,
    /// Memory that it occupies, in pages.
    pub rss_pages: u64,
    /// The processor on which it ran last.
    pub processor: u64,
}

impl ProcessStat {
    /// Whether the process has ended and only waits for its parent.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// The figures of a process.
pub(super) const PROCESS_KEYS: [&str; 10] = [
    keys::PROC_OS_STATE.name(),
    keys::PROC_TIME.name(),
    keys::PROC_PERCENT_CPU.name(),
    keys::PROC_PRIORITY.name(),
    keys::PROC_NUM_THREADS.name(),
    keys::PROC_PSS.name(),
    keys::PROC_VSIZE.name(),
    keys::PROC_RSS.name(),
    keys::PROC_PEAK_VSIZE.name(),
    keys::PROC_CPU.name(),
];

/// Sizes of a process in kilobytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) virtual_peak: Option<u64>,
    pub(super) virtual_now: Option<u64>,
    pub(super) resident: Option<u64>,
}

/// The state of a process; `None` if there is no such process.
#[must_use]
pub fn process_stat(pid: u32) -> Option<ProcessStat> {
    stat_of(&read(pid, "stat")?)
}

/// The bytes that a process has read and written; `None` if this user may not know.
#[must_use]
pub fn process_bytes(pid: u32) -> Option<(u64, u64)> {
    bytes_of(&read(pid, "io")?)
}

/// The seconds since the start of the machine.
#[must_use]
pub fn seconds_since_boot() -> Option<f64> {
    text("/proc/uptime", FILE_BYTES_MAX)?.split_whitespace().next()?.parse().ok()
}

pub(super) fn sizes(pid: u32) -> Sizes {
    let status = read(pid, "status").unwrap_or_default();
    let size = |name| kilobytes(&status, name);
    Sizes { virtual_peak: size("VmPeak:"), virtual_now: size("VmSize:"), resident: size("VmRSS:") }
}

/// Memory of a process in kilobytes, with its part of shared memory; `None` if this user may not know.
pub(super) fn proportional_size(pid: u32) -> Option<u64> {
    kilobytes(&read(pid, "smaps_rollup")?, "Pss:")
}

/// A file of the system, up to a limit. Names of programs may be any bytes.
pub(super) fn text(path: &str, bytes_max: u64) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The number in a line such as `VmRSS:  123 kB`.
pub(super) fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn read(pid: u32, name: &str) -> Option<String> {
    text(&format!("/proc/{pid}/{name}"), FILE_BYTES_MAX)
}

fn stat_of(text: &str) -> Option<ProcessStat> {
    let mut fields = text.rsplit_once(") ")?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    // The first one is field 4, and a process has 52.
    let numbers: Vec<i64> = fields.map(|field| field.parse().unwrap_or(i64::MAX)).collect();
    let signed = |field: usize| numbers.get(field.checked_sub(4)?).copied();
    let number = |field: usize| u64::try_from(signed(field)?).ok();
    Some(ProcessStat {
        state,
        busy: number(14)?.saturating_add(number(15)?),
        priority: i32::try_from(signed(18)?).ok()?,
        thread_count: number(20)?,
        started: number(22)?,
        rss_pages: number(24)?,
        processor: number(39)?,
    })
}

fn bytes_of(text: &str) -> Option<(u64, u64)> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some((value("rchar:")?, value("wchar:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_system_has_its_fields_behind_any_name() {
        let fields: Vec<String> = (4..=52).map(|number| number.to_string()).collect();
        let line = format!("4711 (a) b) c) R {}", fields.join(" "));
        let expected = ProcessStat {
            state: 'R',
            busy: 29,
            priority: 18,
            thread_count: 20,
            started: 22,
            rss_pages: 24,
            processor: 39,
        };
        assert_eq!(stat_of(&line), Some(expected));
        // The limit of memory does not fit into the type of the others.
        assert!(stat_of(&line.replace(" 25 ", " 18446744073709551615 ")).is_some());
        assert_eq!((stat_of("4711 (a) R 1 2"), stat_of("")), (None, None));
        assert_eq!(bytes_of("rchar: 7\nwchar: 8\nsyscr: 1\n"), Some((7, 8)));
        assert_eq!(bytes_of("rchar: 7\n"), None);
        assert_eq!(kilobytes("Name: a\nVmRSS:\t  12 kB\n", "VmRSS:"), Some(12));
        assert_eq!((kilobytes("VmRSS: 12\n", "VmRSS:"), kilobytes("", "VmRSS:")), (None, None));
    }

    #[test]
    fn this_process_has_figures() {
        let this = std::process::id();
        let (stat, sizes) = (process_stat(this).unwrap(), sizes(this));
        assert!(stat.started > 0 && stat.rss_pages > 0 && stat.thread_count > 0, "{stat:?}");
        assert!(sizes.virtual_peak >= sizes.virtual_now && sizes.resident > Some(0), "{sizes:?}");
        assert!(process_bytes(this).is_some() && proportional_size(this) > Some(0));
        assert_eq!((process_stat(u32::MAX), process_bytes(u32::MAX)), (None, None));
    }
}
