//! Samples of resources, in the arrays of the standard.

use std::collections::BTreeMap;

use super::machine::{disks, megabytes, networks, node};
use super::process::{ProcessStat, process_stat, proportional_size, seconds_since_boot, sizes};
use super::request::{UsageKind, UsageRequest};
use crate::keys;
use crate::types::{DataArray, DataType, Info, Key, ProcId, Text, Time, Timeval, Value};

/// A process of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub proc: ProcId,
    /// Its number.
    pub pid: u32,
    /// The time of its start, so that another process with its number is not taken for it.
    pub started: u64,
}

/// Measures what one request asks for, once or at several times.
#[derive(Debug)]
pub struct Sampler {
    ticks_per_second: u64,
    /// For each process: the processor time in ticks at its last sample, and when that was.
    last: BTreeMap<(u32, u64), (u64, Time)>,
}

impl Sampler {
    /// `ticks_per_second`: the system's unit of processor time.
    #[must_use]
    pub const fn new(ticks_per_second: u64) -> Self {
        Self { ticks_per_second, last: BTreeMap::new() }
    }

    /// A process as it is now; `None` if it has ended.
    #[must_use]
    pub fn target(proc: ProcId, pid: u32) -> Option<Target> {
        let stat = process_stat(pid).filter(|stat| !stat.has_ended())?;
        Some(Target { proc, pid, started: stat.started })
    }

    /// The figures of a request now. `seconds` is the time since 1970. Processes that have ended are left out.
    pub fn sample(
        &mut self,
        request: &UsageRequest,
        targets: &[Target],
        hostname: &str,
        now: Time,
        seconds: u64,
    ) -> Vec<Info> {
        match request.kind {
            UsageKind::Processes => {
                let runs = |target: &Target, stat: &ProcessStat| stat.started == target.started && !stat.has_ended();
                let running = targets.iter().filter_map(|target| {
                    let stat = process_stat(target.pid).filter(|stat| runs(target, stat))?;
                    Some((target, stat))
                });
                let sample = |(target, stat): (&Target, ProcessStat)| {
                    let head = vec![
                        info(keys::PROCID.name(), target.proc.clone()),
                        info(keys::PROC_PID.name(), Value::Pid(target.pid)),
                        info(keys::HOSTNAME.name(), hostname),
                        info(keys::PROC_SAMPLE_TIME.name(), Value::Time(seconds)),
                    ];
                    let found = self.of_process(request, target.pid, &stat, now);
                    usage(keys::PROC_RESOURCE_USAGE.name(), head, wanted(request, found))
                };
                running.map(sample).collect()
            }
            UsageKind::Node => {
                let head = vec![
                    info(keys::HOSTNAME.name(), hostname),
                    info(keys::NODE_SAMPLE_TIME.name(), Value::Time(seconds)),
                ];
                let found = node().into_iter().map(|(key, value)| (key, Value::Float(value))).collect();
                vec![usage(keys::NODE_RESOURCE_USAGE.name(), head, wanted(request, found))]
            }
            UsageKind::Disks | UsageKind::Networks => of_devices(request, seconds),
        }
    }

    fn of_process(
        &mut self,
        request: &UsageRequest,
        pid: u32,
        stat: &ProcessStat,
        now: Time,
    ) -> Vec<(&'static str, Value)> {
        let sizes = sizes(pid);
        // The sum over all parts of its memory takes the system a while.
        let proportional = if request.wants(keys::PROC_PSS.name()) { proportional_size(pid) } else { None };
        let size = |key, kilobytes: Option<u64>| Some((key, Value::Float(megabytes(kilobytes?))));
        let small = |number: u64| Value::Uint16(u16::try_from(number).unwrap_or(u16::MAX));
        let state = Value::String(Text::from(stat.state.to_string().as_str()));
        let share = self.share(pid, stat, now);
        [
            Some((keys::PROC_OS_STATE.name(), state)),
            Some((keys::PROC_TIME.name(), Value::Timeval(self.time(stat.busy)))),
            share.map(|share| (keys::PROC_PERCENT_CPU.name(), Value::Float(share))),
            Some((keys::PROC_PRIORITY.name(), Value::Int32(stat.priority))),
            Some((keys::PROC_NUM_THREADS.name(), small(stat.thread_count))),
            size(keys::PROC_PSS.name(), proportional),
            size(keys::PROC_VSIZE.name(), sizes.virtual_now),
            size(keys::PROC_RSS.name(), sizes.resident),
            size(keys::PROC_PEAK_VSIZE.name(), sizes.virtual_peak),
            Some((keys::PROC_CPU.name(), small(stat.processor))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn time(&self, ticks: u64) -> Timeval {
        let unit = self.ticks_per_second.max(1);
        let microseconds = (ticks % unit).saturating_mul(1_000_000) / unit;
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Timeval { seconds: signed(ticks / unit), microseconds: signed(microseconds) }
    }

    /// The share of one processor in percent, since the last sample or else the start of the process.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "the standard's type for shares")]
    fn share(&mut self, pid: u32, stat: &ProcessStat, now: Time) -> Option<f32> {
        let id = (pid, stat.started);
        let unit = self.ticks_per_second.max(1) as f64;
        let last = self.last.get(&id).copied();
        let (ticks, seconds) = match last.filter(|(_, at)| *at < now) {
            Some((busy, at)) => (stat.busy.saturating_sub(busy), now.since(at).as_secs_f64()),
            None => (stat.busy, seconds_since_boot()? - stat.started as f64 / unit),
        };
        self.last.insert(id, (stat.busy, now));
        (seconds > 0.0).then_some((100.0 * ticks as f64 / unit / seconds) as f32)
    }
}

/// The samples of disks or networks.
fn of_devices(request: &UsageRequest, seconds: u64) -> Vec<Info> {
    let filter = request.device_filter();
    let filter = filter.as_ref().map(|filter| filter as &dyn Fn(&str) -> bool);
    let (devices, [key, id_key, time_key]) = if request.kind == UsageKind::Disks {
        let [usage, id] = [keys::DISK_RESOURCE_USAGE.name(), keys::DISK_ID.name()];
        (disks(filter), [usage, id, keys::DISK_SAMPLE_TIME.name()])
    } else {
        let [usage, id] = [keys::NETWORK_RESOURCE_USAGE.name(), keys::NETWORK_ID.name()];
        (networks(filter), [usage, id, keys::NET_SAMPLE_TIME.name()])
    };
    let sample = |(name, found): (String, Vec<(&'static str, u64)>)| {
        let head = vec![info(id_key, name.as_str()), info(time_key, Value::Time(seconds))];
        let found = found.into_iter().map(|(key, value)| (key, Value::Uint64(value))).collect();
        usage(key, head, wanted(request, found))
    };
    devices.into_iter().map(sample).collect()
}

/// The figures that a request asks for.
fn wanted(request: &UsageRequest, found: Vec<(&'static str, Value)>) -> Vec<Info> {
    found.into_iter().filter(|(key, _)| request.wants(key)).map(|(key, value)| info(key, value)).collect()
}

/// A sample: what it is about, its time, and its figures.
fn usage(key: &'static str, head: Vec<Info>, figures: Vec<Info>) -> Info {
    let elements = head.into_iter().chain(figures).map(|info| Value::Info(Box::new(info))).collect();
    info(key, Value::DataArray(Box::new(DataArray { element_type: DataType::Info, elements })))
}

fn info(key: &'static str, value: impl Into<Value>) -> Info {
    Info::new(Key::from_static(key), value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::types::Namespace;
    use crate::usage::OwnNode;
    use crate::usage::process::PROCESS_KEYS;

    fn request(key: &'static str) -> UsageRequest {
        UsageRequest::read(&info(key, Value::Undefined), &[], OwnNode::default()).unwrap().unwrap()
    }

    fn figures(sample: &Info) -> Vec<(String, Value)> {
        let Value::DataArray(array) = &sample.value else { panic!("{sample:?}") };
        let figure = |element: &Value| match element {
            Value::Info(info) => (info.key.as_str().to_owned(), info.value.clone()),
            other => panic!("{other:?}"),
        };
        array.elements.iter().map(figure).collect()
    }

    #[test]
    fn a_sample_begins_with_the_name_the_node_and_the_time() {
        let mut sampler = Sampler::new(100);
        let proc = ProcId::new(Namespace::new("job").unwrap(), 3);
        let target = Sampler::target(proc.clone(), std::process::id()).unwrap();
        let gone = Target { started: target.started + 1, ..target.clone() };
        let of_process = request(keys::MONITOR_PROC_RESOURCE_USAGE.name());
        let samples = sampler.sample(&of_process, &[gone, target], "here", Time::ZERO, 7);
        assert_eq!(samples.len(), 1);
        let found = figures(&samples[0]);
        assert_eq!(found[0], (keys::PROCID.name().to_owned(), proc.into()));
        assert_eq!(found[2], (keys::HOSTNAME.name().to_owned(), "here".into()));
        assert_eq!(found[3], (keys::PROC_SAMPLE_TIME.name().to_owned(), Value::Time(7)));
        assert!(PROCESS_KEYS.iter().all(|known| found.iter().any(|(key, _)| key == known)), "{found:?}");
        let of_node = sampler.sample(&request(keys::MONITOR_NODE_RESOURCE_USAGE.name()), &[], "here", Time::ZERO, 7);
        assert_eq!(figures(&of_node[0])[0], (keys::HOSTNAME.name().to_owned(), "here".into()));
    }

    #[test]
    fn a_share_is_since_the_last_sample() {
        let mut sampler = Sampler::new(100);
        let stat = |busy| ProcessStat { busy, ..process_stat(std::process::id()).unwrap() };
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        assert!(sampler.share(7, &stat(1000), at(1)).is_some());
        assert_eq!(sampler.share(7, &stat(1050), at(2)), Some(50.0));
        assert_eq!(sampler.time(250), Timeval { seconds: 2, microseconds: 500_000 });
    }

    #[test]
    fn a_process_that_waits_for_its_parent_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let proc = ProcId::new(Namespace::new("job").unwrap(), 0);
        let target = Sampler::target(proc.clone(), child.id()).unwrap();
        child.kill().unwrap();
        while !process_stat(child.id()).unwrap().has_ended() {}
        let of_process = request(keys::MONITOR_PROC_RESOURCE_USAGE.name());
        let samples = Sampler::new(100).sample(&of_process, &[target], "here", Time::ZERO, 7);
        assert_eq!((samples, Sampler::target(proc, child.id())), (Vec::new(), None));
        child.wait().unwrap();
    }
}
