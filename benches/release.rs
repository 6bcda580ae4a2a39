//! Two ways to release N waiting processes.
//!
//! A fence sends each process a message over its socket. Here all processes can also sleep on one number in a segment.
//! Each process only sends 40 bytes, the size of a fence's request, and waits.
//!
//! `cargo bench --bench release`; for comparison, a whole fence: `modex bench fence`.

#![expect(clippy::disallowed_methods, reason = "this measures time, and its own processes are told by the environment")]

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use modex::shmem::{
    GenerationWait, LayoutId, ReaderHandle, ReaderOptions, SegmentOptions, SegmentReader, SegmentWriter,
};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};

type Failure = Box<dyn std::error::Error>;

const PROCESSES: [usize; 5] = [2, 8, 32, 64, 128];
const ROUNDS: usize = 1000;
/// Rounds before the measured ones.
const FIRST_ROUNDS: usize = 100;
const MESSAGE_BYTES: usize = 40;
/// A process that sleeps on the number does not notice the end of the writer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Only the generation of the segment is used.
const LAYOUT: &str = "release=generation";

/// Marks a process of the benchmark as a worker; the value holds the way and the path of the segment.
const WORKER: &str = "MODEX_BENCH_RELEASE";

fn main() -> Result<(), Failure> {
    match std::env::var(WORKER) {
        Ok(task) => work(&task),
        Err(_) => measure(),
    }
}

fn measure() -> Result<(), Failure> {
    println!("processes  way     round (p50, us)  of the server's processor for each process (us)");
    for count in PROCESSES {
        for way in [Way::Socket, Way::Futex, Way::Both] {
            let Figures { round, busy } = rounds(count, way)?;
            let busy = busy.as_secs_f64() * 1e6 / f64::from(u32::try_from(count)?);
            println!("{count:>9}  {way:6?}  {:>15.1}  {busy:>8.2}", round.as_secs_f64() * 1e6);
        }
    }
    Ok(())
}

/// How the processes are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Each sleeps in the read of its message.
    Socket,
    /// All sleep on the number, and get no message.
    Futex,
    /// All sleep on the number, and then read their messages.
    Both,
}

/// Figures of one round: the median time, and the mean of the server's processor time.
struct Figures {
    round: Duration,
    busy: Duration,
}

fn rounds(count: usize, way: Way) -> Result<Figures, Failure> {
    let mut segment = SegmentWriter::create(&SegmentOptions::new("release", "bench.0"), LAYOUT)?;
    let handle = segment.handle()?;
    let descriptor = handle.descriptor().ok_or("the segment has no descriptor")?;
    let place = format!("{way:?} /proc/{}/fd/{}", std::process::id(), descriptor.as_raw_fd());
    let (mut sockets, mut children): (Vec<UnixStream>, Vec<Child>) =
        (0..count).map(|_| start(&place)).collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for (socket, index) in sockets.iter().zip(0..) {
        epoll.add(socket.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, index))?;
    }
    let (mut times, mut busy) = (Vec::with_capacity(ROUNDS), Duration::ZERO);
    for round in 0..FIRST_ROUNDS + ROUNDS {
        let (begun, used) = (Instant::now(), processor_time()?);
        gather(&epoll, &mut sockets)?;
        if way != Way::Futex {
            sockets.iter_mut().try_for_each(|socket| socket.write_all(&[0; MESSAGE_BYTES]))?;
        }
        if way != Way::Socket {
            segment.bump_generation(true);
        }
        if round >= FIRST_ROUNDS {
            times.push(begun.elapsed());
            busy += processor_time()?.saturating_sub(used);
        }
    }
    for child in &mut children {
        if !child.wait()?.success() {
            return Err("a process of the benchmark failed".into());
        }
    }
    times.sort_unstable();
    let round = times.get(ROUNDS / 2).copied().ok_or("no rounds")?;
    Ok(Figures { round, busy: busy / u32::try_from(ROUNDS)? })
}

/// Starts a process whose standard input is a socket to this one.
fn start(place: &str) -> io::Result<(UnixStream, Child)> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(std::env::current_exe()?).env(WORKER, place).stdin(OwnedFd::from(theirs)).spawn()?;
    Ok((ours, child))
}

/// Waits for a message of each process.
fn gather(epoll: &Epoll, sockets: &mut [UnixStream]) -> Result<(), Failure> {
    let mut missing = sockets.len();
    let mut ready = [EpollEvent::empty(); 128];
    let mut message = [0; MESSAGE_BYTES];
    while missing > 0 {
        let count = epoll.wait(&mut ready, EpollTimeout::NONE)?;
        for event in ready.iter().take(count) {
            let socket = sockets.get_mut(usize::try_from(event.data())?).ok_or("an event of no socket")?;
            socket.read_exact(&mut message)?;
            missing -= 1;
        }
    }
    Ok(())
}

fn processor_time() -> Result<Duration, Failure> {
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = |time: TimeVal| time.num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros(used.user_time()) + micros(used.system_time()))?))
}

/// A process of the benchmark.
fn work(task: &str) -> Result<(), Failure> {
    let (way, segment) = task.split_once(' ').ok_or("nothing was told")?;
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let handle = ReaderHandle::open_descriptor_link(Path::new(segment))?;
    let reader = SegmentReader::attach(handle, LayoutId::of(LAYOUT), &ReaderOptions::default())?;
    let mut message = [0; MESSAGE_BYTES];
    for _ in 0..FIRST_ROUNDS + ROUNDS {
        let seen = reader.generation();
        socket.write_all(&message)?;
        while way != "Socket" && reader.generation() == seen {
            if reader.wait_for_generation(seen, Some(PATIENCE)) == GenerationWait::TimedOut {
                return Err("the benchmark has gone".into());
            }
        }
        if way != "Futex" {
            socket.read_exact(&mut message)?;
        }
    }
    Ok(())
}
