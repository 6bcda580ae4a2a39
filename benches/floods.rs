//! Effect of a flooding client on another one: median and worst time of its commits, and the longest turn of the
//! server. It does not use criterion, because the worst time counts. On a virtual machine a time above 20 ms usually is
//! the hypervisor's: the column before the cause is the time that it took from all processors.
//!
//! The first rows are baselines: a server that only echoes messages, without and with a flood, and a server of ours
//! beside threads that compute.
//!
//! The flooding client is a process of its own, as it is in use. As a thread it would stop the server's: the kernel
//! lets the threads of a process wait while one of them gives memory back.
//!
//! `cargo bench --bench floods -- NAME` takes the floods whose names contain NAME.

#[expect(dead_code, reason = "one function is the test's")]
#[path = "../tests/support/floods.rs"]
mod floods;
mod support;

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use floods::{Agreeing, Flood, JOB, LARGE_JOB, LARGE_JOB_SIZE, OTHER_JOB};
use modex::gds::registration::JobDescription;
use modex::types::{Namespace, ProcId, Scope};
use modex::{Client, Server};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use support::Failure;

/// Commits of the measured client, under each flood.
const COMMITS: u32 = 500;
/// Shortest time of the measurement under small and under huge requests.
const SMALL_TIME: Duration = Duration::from_millis(300);
const HUGE_TIME: Duration = Duration::from_secs(3);
/// The first argument of a process that floods. The socket and the flood follow.
const FLOODER: &str = "--flooder";
/// Commits before the flood begins. The first one creates the structures that the others use.
const COMMITS_BEFORE: u32 = 50;
/// Bytes of a message to the bare server, about those of a commit.
const ECHO_BYTES: usize = 64;

/// The load beside the measured client.
#[derive(Clone, Copy)]
enum Beside {
    /// Threads that compute and send the server nothing: they show the machine's share of a flood's effect.
    BusyThreads(usize),
    Flood(Flood),
}

fn main() -> Result<(), Failure> {
    if let [Some(FLOODER), Some(path), Some(name)] =
        [1, 2, 3].map(|index| std::env::args().nth(index)).each_ref().map(Option::as_deref)
    {
        return flood_by_name(Path::new(path), name);
    }
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let is_wanted = |flood: Flood| wanted.as_ref().is_none_or(|wanted| format!("{flood:?}").contains(wanted.as_str()));
    println!(
        "{:20} {:>10} {:>10} {:>12}  stolen ms  longest turn's cause",
        "flood", "median us", "worst us", "turn us"
    );
    for is_flooded in [false, true] {
        measure_echo(is_flooded)?;
    }
    for count in 0..=2 {
        measure(Beside::BusyThreads(count))?;
    }
    for flood in floods().filter(|flood| is_wanted(*flood)) {
        measure(Beside::Flood(flood))?;
    }
    Ok(())
}

fn floods() -> impl Iterator<Item = Flood> {
    Flood::ALL.into_iter().chain(Flood::HUGE)
}

/// Floods a server until it ends, or this process is killed.
fn flood_by_name(path: &Path, name: &str) -> Result<(), Failure> {
    let flood = floods().find(|flood| format!("{flood:?}") == name).ok_or("no such flood")?;
    println!();
    floods::flood(path, flood, u64::MAX, &AtomicBool::new(false))?;
    Ok(())
}

/// Starts a process that floods, and waits until it begins.
fn start_flooder(path: &Path, flood: Flood) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut flooder = command.arg(FLOODER).arg(path).arg(format!("{flood:?}")).stdout(Stdio::piped()).spawn()?;
    flooder.stdout.take().ok_or("no output")?.read_exact(&mut [0])?;
    Ok(flooder)
}

fn measure(beside: Beside) -> Result<(), Failure> {
    let server = Server::builder().hostname("node0").start(Agreeing)?;
    for (name, size) in [(JOB, 2), (OTHER_JOB, 1)] {
        let job = Namespace::new(name)?;
        let description = JobDescription::new(&job).nodes(["node0"]).ranks_by_node(std::iter::once(0..size));
        server.register_namespace(&job, size, description.build()?).wait()?;
        for rank in 0..size {
            let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
            server.register_client(&ProcId::new(job.clone(), rank), uid, gid).wait()?;
        }
    }
    let large = Namespace::new(LARGE_JOB)?;
    let description = JobDescription::new(&large).nodes(["node0", "node1"]).ranks_by_node([0..0, 0..LARGE_JOB_SIZE]);
    server.register_namespace(&large, 0, description.build()?).wait()?;
    let job = Namespace::new(JOB)?;
    let victim = Client::builder().env(server.setup_fork(&ProcId::new(job.clone(), 1))?).connect()?;
    let path = floods::socket_path(server.setup_fork(&ProcId::new(job, 0))?).ok_or("the server has no socket")?;
    commits(&victim, COMMITS_BEFORE, Duration::ZERO)?;
    // Drop the turns before the flood, such as the registration of the large job.
    server.take_longest_turn();
    let stop = AtomicBool::new(false);
    let stolen_before = stolen_ms();
    let mut times = thread::scope(|scope| {
        let stop = &stop;
        let (mut flooder, mut time_min) = (None, Duration::ZERO);
        match beside {
            Beside::BusyThreads(count) => (0..count).for_each(|_| drop(scope.spawn(|| compute(stop)))),
            Beside::Flood(flood) => {
                flooder = Some(start_flooder(&path, flood)?);
                time_min = if Flood::HUGE.contains(&flood) { HUGE_TIME } else { SMALL_TIME };
            }
        }
        let times = commits(&victim, COMMITS, time_min);
        stop.store(true, Ordering::Relaxed);
        if let Some(mut flooder) = flooder {
            flooder.kill()?;
            flooder.wait()?;
        }
        times
    })?;
    let stolen = stolen_ms().saturating_sub(stolen_before);
    let [median, worst] = median_and_worst(&mut times);
    let work = server.work();
    let (turn, cause) = work.longest.map(|longest| (longest.time.as_micros(), longest.cause)).unwrap_or_default();
    let name = match beside {
        Beside::BusyThreads(count) => format!("{count} busy threads"),
        Beside::Flood(flood) => format!("{flood:?}"),
    };
    println!("{name:20} {median:>10} {worst:>10} {turn:>12} {stolen:>10}  {cause}  ({} requests)", work.requests);
    Ok(())
}

/// Median and worst time in microseconds.
fn median_and_worst(times: &mut [Duration]) -> [u128; 2] {
    times.sort_unstable();
    [times.get(times.len() / 2), times.last()].map(|time| time.map_or(0, Duration::as_micros))
}

/// Measures a bare server with two connections. It reads one message of each in turn, and sends it back.
fn measure_echo(is_flooded: bool) -> Result<(), Failure> {
    let [(victim, of_victim), (flooder, of_flooder)] = [UnixStream::pair()?, UnixStream::pair()?];
    let stolen_before = stolen_ms();
    let mut times = thread::scope(|scope| {
        scope.spawn(|| echo([&of_victim, &of_flooder]));
        scope.spawn(|| io::copy(&mut &flooder, &mut io::sink()));
        if is_flooded {
            scope.spawn(|| while (&flooder).write_all(&[0; ECHO_BYTES]).is_ok() {});
        }
        let times = round_trips(&victim);
        let ended = [&victim, &flooder].map(|socket| socket.shutdown(Shutdown::Both));
        ended.into_iter().collect::<io::Result<Vec<()>>>()?;
        times
    })?;
    let [median, worst] = median_and_worst(&mut times);
    let name = if is_flooded { "echo, flooded" } else { "echo" };
    println!("{name:20} {median:>10} {worst:>10} {:>12} {:>10}", "-", stolen_ms().saturating_sub(stolen_before));
    Ok(())
}

/// Sends messages back until one of the sockets ends.
fn echo(sockets: [&UnixStream; 2]) -> io::Result<()> {
    let mut message = [0; ECHO_BYTES];
    loop {
        let mut descriptors = sockets.map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN));
        poll(&mut descriptors, PollTimeout::NONE)?;
        for (mut socket, descriptor) in sockets.into_iter().zip(&descriptors) {
            if descriptor.any().unwrap_or(true) {
                socket.read_exact(&mut message)?;
                socket.write_all(&message)?;
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench measures")]
fn round_trips(mut socket: &UnixStream) -> io::Result<Vec<Duration>> {
    let round_trip = |_| {
        let (start, mut message) = (Instant::now(), [0; ECHO_BYTES]);
        socket.write_all(&message)?;
        socket.read_exact(&mut message)?;
        Ok(start.elapsed())
    };
    (0..COMMITS).map(round_trip).collect()
}

/// Time that the hypervisor gave to others since the machine's start, summed over the processors, in milliseconds; 0 if
/// unknown. The eighth column of the first line of `/proc/stat` counts hundredths of a second (proc_stat(5)).
fn stolen_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stat.lines().next().and_then(|cpu| cpu.split_whitespace().nth(8)?.parse::<u64>().ok());
    ticks.unwrap_or_default().saturating_mul(10)
}

/// Keeps a processor busy.
fn compute(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench measures")]
fn commits(victim: &Client, count: u32, time_min: Duration) -> Result<Vec<Duration>, Failure> {
    let mut times = Vec::new();
    let begin = Instant::now();
    for number in 0_u32.. {
        if number >= count && begin.elapsed() >= time_min {
            break;
        }
        victim.put(Scope::Global, "k", number)?;
        let start = Instant::now();
        victim.commit()?;
        times.push(start.elapsed());
    }
    Ok(times)
}
