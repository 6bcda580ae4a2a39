//! A server with one job of worker processes.
//!
//! As under `modex run`, a guardian cleans up if this process is killed.

use std::error::Error;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use modex::gds::registration::JobDescription;
use modex::types::{Info, Namespace, ProcId};
use modex::{Client, LocalHost, Server};
use nix::unistd::{Uid, getegid};

use super::super::run::{Guardian, SessionDirectory};
use super::measure::Series;
use super::shape::Shape;

/// A failure of a bench: it ends the bench with one line.
pub(super) type Failure = Box<dyn Error>;

/// A node, as the server knows it. The fields are dropped in this order: while the guardian lives, there is something
/// to clean up.
#[derive(Debug)]
pub(super) struct Node {
    server: Server,
    job: Namespace,
    _directory: SessionDirectory,
    guardian: Guardian,
}

/// A process that measures. Killed and reaped when dropped.
#[derive(Debug)]
pub(super) struct Worker(Child);

impl Node {
    /// Starts a server and registers a job of this size with it, all of it on this node.
    pub(super) fn start(rank_count: u32) -> Result<Self, Failure> {
        Self::start_with(|job, hostname| {
            let description = JobDescription::new(job).nodes([hostname]);
            Ok((rank_count, description.ranks_by_node(std::iter::once(0..rank_count)).build()?))
        })
    }

    /// As [`Node::start`], for a job that has its first ranks on this node and the others elsewhere.
    pub(super) fn start_of(shape: Shape) -> Result<Self, Failure> {
        Self::start_with(|_, hostname| Ok((shape.ranks.min(shape.ranks_per_node), shape.maps_from(hostname))))
    }

    /// `describe` gets the names of the job and of this node. It returns the number of local ranks and the description.
    fn start_with(
        describe: impl FnOnce(&Namespace, &str) -> Result<(u32, Vec<Info>), Failure>,
    ) -> Result<Self, Failure> {
        let path = SessionDirectory::choose(&std::env::temp_dir());
        let guardian = Guardian::start(&path)?;
        let directory = SessionDirectory::create(path)?;
        let server = Server::builder().tmpdir(directory.path()).start(LocalHost)?;
        let job = Namespace::new("bench")?;
        let (here, description) = describe(&job, server.hostname())?;
        server.register_namespace(&job, here, description).wait()?;
        for rank in 0..here {
            server
                .register_client(&ProcId::new(job.clone(), rank), Uid::effective().as_raw(), getegid().as_raw())
                .wait()?;
        }
        Ok(Self { server, job, _directory: directory, guardian })
    }

    /// A client in this process.
    pub(super) fn client(&self, rank: u32) -> Result<Client, Failure> {
        Ok(Client::builder().env(self.environment(rank)?).connect()?)
    }

    /// A client in a separate process, which does the work of `task`; see [`super::worker`].
    pub(super) fn worker(&self, rank: u32, task: &[String]) -> Result<Worker, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "worker"]).args(task).envs(self.environment(rank)?);
        command.process_group(self.guardian.group().as_raw());
        Ok(Worker(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?))
    }

    /// Starts a worker for each rank below `count` and gathers their measurements.
    pub(super) fn workers(&self, count: u32, task: &[String]) -> Result<Vec<Series>, Failure> {
        let workers: Vec<Worker> = (0..count).map(|rank| self.worker(rank, task)).collect::<Result<_, _>>()?;
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.finish()?);
        }
        Ok(all)
    }

    fn environment(&self, rank: u32) -> Result<Vec<(String, String)>, Failure> {
        Ok(self.server.setup_fork(&ProcId::new(self.job.clone(), rank))?)
    }
}

impl Worker {
    /// Waits for its end and reads its measurements.
    pub(super) fn finish(mut self) -> Result<Vec<Series>, Failure> {
        let mut text = String::new();
        if let Some(mut output) = self.0.stdout.take() {
            output.read_to_string(&mut text)?;
        }
        let status = self.0.wait()?;
        if !status.success() {
            return Err(format!("a measuring process ended with {status}").into());
        }
        Ok(serde_json::from_str(&text)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails for a process that has ended and was reaped, which is the usual case.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Words of a command line.
pub(super) fn words<const N: usize>(words: [&dyn ToString; N]) -> Vec<String> {
    words.map(ToString::to_string).to_vec()
}
