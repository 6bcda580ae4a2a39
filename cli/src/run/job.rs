//! The launcher from its first process to its exit status: a single loop over everything that can happen.

mod answering;
mod checkpoints;
mod controlling;
mod description;
mod forwarding;
mod holding;
mod limits;
mod logging;
mod reporting;
mod spawning;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use crossbeam::channel::{Receiver, unbounded};
use modex::gds::registration::RegisterError;
use modex::os_error_hint::explain_start;
use modex::ptl::LAUNCHER_PREFIX;
use modex::runtime::{
    IPV4_PORTS, IPV6_PORTS, ParameterPortsError, REPORT_URI, TRANSPORT_KEY_VARIABLE, parameter_ports, parameter_value,
};
use modex::storage_systems::MountTable;
use modex::types::{ProcId, Time};
use modex::{AddressReport, BuildError, ForeignClients, Interfaces, Server, ServerError, ToolAdmission, ToolSupport};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid};

use super::Input;
use super::apps::{App, AppError};
use super::children::{Channel, Children, RankSetup, SpawnError};
use super::clock::Clock;
use super::cores::Helper;
use super::debug_stops::AwaitedStops;
use super::destination::{Destination, OutputFiles, OutputFilesError};
use super::directed_files::{DirectedFiles, DirectedFilesError};
use super::fair_queue::FairQueue;
use super::forward::{ForwardProgress, ForwardedStream, LAST_TURNS_MAX, copy_input};
use super::guardian::Guardian;
use super::hold::{self, Hold, HoldError, ToolStart};
use super::host::{LauncherHost, News, ProcessNews, TimedJob};
use super::job_record::JobRecord;
use super::jobs::Jobs;
use super::last_output::LastOutput;
use super::line_form::{LineForm, LineMarks};
use super::mpi_library::{MpiSearch, MpiSetup, PmiChoice, Protocol};
use super::output_locks::OutputLocks;
use super::output_writer::OutputWriter;
use super::plan::Plan;
use super::poller::{LOOKS_AFTER, Poller, Wakeup};
use super::rank_id::{FIRST_JOB, RankId};
use super::rank_input::InputPipe;
use super::ready_lines::ReadyLines;
use super::report::{ProcessPhase, ReportFileError, Reports, Timeline};
use super::session::SessionDirectory;
use super::suspension::{can_be_continued, stop_this_process};
use super::tool_pace::ToolPace;
use super::verdict::{Action, Cause, Verdict};
use super::waiting;
use crate::munge_programs::MungePrograms;
use answering::QueryCall;
use checkpoints::Checkpoints;
use controlling::{ControlCall, Terminations};
use description::describe;
use forwarding::{Forwarding, PullCall, PushCall, complete, read_and_offer};
use holding::WAITS;
use limits::RunLimits;
use logging::LogCall;
use spawning::Spawning;

/// How long the launcher reads on after the last rank has ended. In this time it passes on the output of processes that
/// a rank has started. A process that holds the pipe longer is killed.
const LAST_OUTPUT_TIME: Duration = Duration::from_millis(200);

/// How long the launcher waits for the server to see that the connection of an ended rank is gone. A connection that
/// lives longer belongs to another process, such as the rank's child.
const LOSS_TIME: Duration = Duration::from_secs(1);

/// The exit status of a job that succeeded, but of which a report could not be written.
const REPORT_LOST: u8 = 1;

/// The variables of PMI. If the launcher runs as such a rank itself, its ranks must not speak on its connection.
const PMI_VARIABLES: [&str; 8] =
    ["PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_SPAWNED", "PMI_PORT", "PMI_ID", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"];

/// The user's request.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) marks: LineMarks,
    pub(super) is_merged: bool,
    pub(super) files: OutputFiles,
    pub(super) input: Input,
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Duration,
    pub(super) no_tcp: bool,
    /// The interfaces for tools on other machines.
    pub(super) remote_tools: Option<Interfaces>,
    pub(super) pmi: PmiChoice,
    pub(super) reports: Reports,
    /// The file for what processes want to have recorded.
    pub(super) record: Option<Arc<JobRecord>>,
    /// How a tool has started the launcher.
    pub(super) tool_start: ToolStart,
}

/// Why a job could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// No server.
    #[error(transparent)]
    Server(#[from] BuildError),
    /// No ports.
    #[error(transparent)]
    Ports(#[from] ParameterPortsError),
    /// The server refused the job.
    #[error(transparent)]
    Registration(#[from] ServerError),
    /// The job could not be described.
    #[error(transparent)]
    Description(#[from] RegisterError),
    /// A rank could not be started; those started before were ended.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The command line requests something that the launcher can't provide.
    #[error(transparent)]
    App(#[from] AppError),
    /// No files for the ranks' output.
    #[error(transparent)]
    Files(#[from] OutputFilesError),
    /// No files as directives name them.
    #[error(transparent)]
    DirectedFiles(#[from] DirectedFilesError),
    /// No file for a report.
    #[error(transparent)]
    Report(#[from] ReportFileError),
    /// No place for the job's files.
    #[error(
        "the launcher cannot make the job's directory {path}: {reason}; \
         set TMPDIR to a directory that you can write to and that has room"
    )]
    Directory {
        /// Its path.
        path: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// The launcher can't work for the tool that has started it.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// The system refused something the launcher itself needs.
    #[error("the launcher cannot {doing}: {}", explain_start(.reason))]
    System {
        /// The refused step.
        doing: &'static str,
        /// The operating system's reason.
        reason: io::Error,
    },
}

impl JobError {
    /// The launcher's exit status.
    pub(crate) fn shell_status(&self) -> u8 {
        match self {
            Self::Spawn(error) => error.shell_status(),
            _ => 1,
        }
    }
}

/// The running jobs: the one on the command line, and those that its ranks spawn.
///
/// The fields are dropped in this order: while the guardian lives, something is left to clean up, and killing the
/// ranks' group ends it, too.
pub(super) struct LaunchedJob {
    server: Arc<Server>,
    directory: SessionDirectory,
    children: Children,
    streams: BTreeMap<usize, ForwardedStream>,
    /// The number of the next stream. Late reports about a closed one must not mean another.
    next_stream: usize,
    /// The number of each open stream.
    stream_of: BTreeMap<(RankId, Channel), usize>,
    spawning: Spawning,
    poller: Poller,
    /// When to look for ended children and for news, even without a wake-up.
    look_at: Time,
    output_writer: OutputWriter,
    directed_files: DirectedFiles,
    output_locks: OutputLocks,
    /// Whether output is left in the ranks' pipes because the writer has no room.
    is_paused: bool,
    tool_pace: ToolPace,
    /// The stream that had the last turn.
    last_read: usize,
    news: Receiver<News>,
    /// Queries for facts of the launcher.
    queries: FairQueue<QueryCall>,
    /// Requests to control processes.
    controls: FairQueue<ControlCall>,
    /// Requests to log.
    logs: FairQueue<LogCall>,
    /// Whether some of them can be served at once.
    can_log: bool,
    /// Whether they have filled the writer's queue. The ranks' own output has the next turn.
    has_logged_much: bool,
    forwarding: Forwarding,
    terminations: Terminations,
    checkpoints: Checkpoints,
    run_limits: RunLimits,
    /// The wait for the tool that has started the launcher.
    hold: Hold,
    awaited_stops: AwaitedStops,
    /// Whether a process has paused ranks. They may have been resumed since.
    has_paused_ranks: bool,
    verdict: Verdict,
    mpi_search: MpiSearch,
    /// The ranks with a connection for PMI.
    speaks_pmi: BTreeSet<RankId>,
    /// Whether a rank has written something.
    has_output: bool,
    timeline: Timeline,
    clock: Clock,
    settings: Settings,
    /// The plan of the job on the command line.
    plan: Plan,
    jobs: Jobs,
    guardian: Guardian,
}

/// Starts the server with all services that one machine can have.
fn start_server(settings: &Settings, directory: &SessionDirectory, host: LauncherHost) -> Result<Server, JobError> {
    let clients = if settings.no_tcp { ForeignClients::Refused } else { ForeignClients::Welcome };
    let file = settings.tool_start.file.clone();
    let report = parameter_value(REPORT_URI).map(|place| AddressReport::parse(&place.to_string_lossy()));
    let tools =
        ToolSupport { admission: ToolAdmission::Assigned, is_session: true, file, report, ..ToolSupport::default() };
    // A tool that has spawned the launcher looks for a server with the name of the spawned process.
    let name = settings.tool_start.name.as_ref();
    let namespace =
        name.map_or_else(|| format!("{LAUNCHER_PREFIX}{}", std::process::id()), |name| name.namespace.to_string());
    let server = Server::builder()
        .namespace(namespace)
        .rank(name.and_then(|name| name.rank.process()).unwrap_or_default())
        .tmpdir(directory.path())
        .foreign_clients(clients)
        .tcp_ports(parameter_ports(IPV4_PORTS)?, parameter_ports(IPV6_PORTS)?)
        .tools(tools)
        .topology(Arc::new(Helper))
        .name_service()
        .file_monitor()
        .resource_monitor()
        .credentials(Some(Arc::new(MungePrograms)))
        .storage(MountTable::new())
        .file_staging();
    let Some(interfaces) = settings.remote_tools.clone() else { return Ok(server.start(host)?) };
    Ok(server.prover(Arc::new(MungePrograms)).remote_connections(interfaces, true).start(host)?)
}

impl LaunchedJob {
    /// Starts the server and, unless a tool has to release the launcher first, the ranks.
    pub(super) fn start(mut plan: Plan, mut settings: Settings) -> Result<Self, JobError> {
        plan.io.input = settings.input.targets();
        let clock = Clock::start();
        let (poller, bell) = Poller::new().map_err(|reason| JobError::System { doing: "listen to signals", reason })?;
        let path = SessionDirectory::choose(&std::env::temp_dir());
        let guardian =
            Guardian::start(&path).map_err(|reason| JobError::System { doing: "start its guardian", reason })?;
        let directory =
            SessionDirectory::create(path.clone()).map_err(|reason| JobError::Directory { path, reason })?;
        let (sender, news) = unbounded();
        let has_report = !settings.reports.is_empty();
        let timed = has_report.then(|| TimedJob::new(plan.namespace.clone(), plan.rank_count()));
        let host = LauncherHost::new(sender, bell.clone(), clock, timed);
        let listener = host.tool_listener();
        let server = Arc::new(start_server(&settings, &directory, host)?);
        let hold = Hold::begin(&settings.tool_start, &server, listener)?;
        let mut job = Self {
            server,
            directory,
            children: Children::new(guardian.group()),
            streams: BTreeMap::new(),
            next_stream: 0,
            stream_of: BTreeMap::new(),
            spawning: Spawning::default(),
            poller,
            look_at: Time::ZERO + LOOKS_AFTER,
            output_writer: OutputWriter::new(bell, std::mem::take(&mut settings.files)),
            directed_files: DirectedFiles::default(),
            output_locks: OutputLocks::default(),
            is_paused: false,
            tool_pace: ToolPace::default(),
            last_read: 0,
            news,
            queries: FairQueue::default(),
            controls: FairQueue::default(),
            logs: FairQueue::default(),
            can_log: false,
            has_logged_much: false,
            forwarding: Forwarding::default(),
            terminations: Terminations::default(),
            checkpoints: Checkpoints::default(),
            run_limits: RunLimits::default(),
            hold,
            awaited_stops: AwaitedStops::default(),
            has_paused_ranks: false,
            verdict: Verdict::new(0, settings.grace),
            mpi_search: MpiSearch::new(Vec::new()),
            speaks_pmi: BTreeSet::new(),
            has_output: false,
            timeline: Timeline::new(plan.app_of_rank.len()),
            clock,
            settings,
            jobs: Jobs::new(&plan),
            plan,
            guardian,
        };
        if job.settings.remote_tools.is_some() {
            job.say(&format!("modex: tools on other machines connect with --uri '{}'\n", job.server.uri()));
            job.output_writer.hand_over();
        }
        if !job.is_held() {
            job.begin()?;
        }
        Ok(job)
    }

    /// Starts the job on the command line.
    fn begin(&mut self) -> Result<(), JobError> {
        let mut plan = self.plan.clone();
        let mpi_setups = self.mpi_setups(&plan);
        let protocols = mpi_setups.iter().map(|setup| setup.protocol);
        self.mpi_search = MpiSearch::new(plan.apps.iter().cloned().zip(protocols).collect());
        self.verdict.add(FIRST_JOB, plan.rank_count());
        self.expect_stops(&plan, &mpi_setups).map_err(HoldError::from)?;
        self.register(&plan)?;
        let first = ProcId::new(plan.namespace.clone(), 0);
        for (app, mpi_setup) in plan.apps.iter().zip(&mpi_setups) {
            app.check_environment(&self.set_up(&first, mpi_setup, None)?.environment)?;
        }
        self.has_paused_ranks |= plan.stops.on_exec.is_some();
        self.open_files(&plan)?;
        self.start_ranks(&plan, &mpi_setups)?;
        if let Some(limit) = plan.run_limit.take().into_iter().chain(self.settings.timeout).min() {
            self.verdict.limit_time(self.clock.now(), limit);
        }
        self.note_start(&plan);
        Ok(())
    }

    fn mpi_setups(&self, plan: &Plan) -> Vec<MpiSetup> {
        plan.apps
            .iter()
            .map(|app| MpiSetup::of(app, app.program_path(variable).as_deref(), self.settings.pmi, variable))
            .collect()
    }

    /// Makes the files for a job's output, and announces its ranks.
    fn open_files(&mut self, plan: &Plan) -> Result<(), JobError> {
        let is_merged = self.settings.is_merged || plan.io.form.is_merged;
        self.directed_files.open(plan, self.server.hostname(), is_merged)?;
        // Those of the first job are there since the launcher's start.
        if plan.job != FIRST_JOB && !plan.io.files.are_alone() {
            self.output_writer.open_files(plan.job, plan.rank_count())?;
        }
        let file_count = self.output_writer.file_count() + self.directed_files.count();
        self.children.expect(plan.app_of_rank.len(), file_count);
        Ok(())
    }

    fn register(&self, plan: &Plan) -> Result<(), JobError> {
        let description = describe(plan, &self.server)?;
        let local_count = plan.rank_count();
        self.server.register_namespace(&plan.namespace, local_count, description).wait()?;
        let (uid, gid) = (Uid::effective().as_raw(), Gid::effective().as_raw());
        for rank in 0..local_count {
            self.server.register_client(&ProcId::new(plan.namespace.clone(), rank), uid, gid).wait()?;
        }
        Ok(())
    }

    /// The settings with which a rank joins the job. With PMI it inherits its connection, and must not see PMIx: MPICH
    /// 5 refuses to start with both.
    fn set_up<'a>(
        &self,
        proc: &ProcId,
        mpi_setup: &MpiSetup,
        inherited: Option<BorrowedFd<'a>>,
    ) -> Result<RankSetup<'a>, ServerError> {
        let of_pmix = self.server.setup_fork(proc)?;
        let mut suggested = mpi_setup.settings.clone();
        let is_merged = self.settings.is_merged;
        Ok(match mpi_setup.protocol {
            Protocol::Pmix => {
                let removed = not_for_ranks().collect();
                if variable(TRANSPORT_KEY_VARIABLE).is_none() {
                    let key = self.server.transport_key(Uid::effective().as_raw());
                    suggested.push((TRANSPORT_KEY_VARIABLE, key.into()));
                }
                RankSetup { removed, suggested, environment: of_pmix, is_merged, ..RankSetup::default() }
            }
            Protocol::Pmi => {
                let names = of_pmix.into_iter().map(|(name, _)| name);
                let removed = names.chain(not_for_ranks()).collect();
                let number = inherited.map_or(0, |end| end.as_raw_fd());
                let environment = self.server.pmi_variables(proc, number)?;
                RankSetup { removed, suggested, environment, inherited, is_merged, ..RankSetup::default() }
            }
        })
    }

    /// Starts all ranks of a registered job.
    fn start_ranks(&mut self, plan: &Plan, mpi_setups: &[MpiSetup]) -> Result<(), JobError> {
        let mut inputs = Vec::new();
        for (id, app) in plan.ranks() {
            let (Some(app), Some(mpi_setup)) = (plan.apps.get(app), mpi_setups.get(app)) else { continue };
            inputs.extend(self.start_rank(plan, id, app, mpi_setup)?);
        }
        if !inputs.is_empty() {
            // Reading a terminal blocks; see `copy_input`.
            Builder::new()
                .name("modex-input".to_owned())
                .spawn(move || copy_input(inputs))
                .map_err(|reason| JobError::System { doing: "start a thread that passes its input on", reason })?;
        }
        Ok(())
    }

    /// Starts one rank, and returns its input if it reads the launcher's.
    fn start_rank(
        &mut self,
        plan: &Plan,
        id: RankId,
        app: &App,
        mpi_setup: &MpiSetup,
    ) -> Result<Option<InputPipe>, JobError> {
        let proc = ProcId::new(plan.namespace.clone(), id.rank);
        let channel = match mpi_setup.protocol {
            Protocol::Pmix => None,
            Protocol::Pmi => Some(self.server.open_pmi(&proc)?),
        };
        let mut setup = self.set_up(&proc, mpi_setup, channel.as_ref().map(|channel| channel.rank_end().as_fd()))?;
        setup.program = app.program_to_start(variable);
        setup.place = plan.place(id.rank);
        setup.has_input = plan.io.input.has(id.rank);
        setup.is_merged |= plan.io.form.is_merged;
        setup.stops_on_exec = plan.stops.stops_on_exec(id.rank);
        self.mark(id, ProcessPhase::Spawned, self.clock.now());
        let pipes = self.children.spawn(id, app, &setup)?;
        self.server.describe_process(&proc, pipes.pid, &app.program.to_string_lossy()).wait()?;
        if let Some(channel) = channel {
            self.speaks_pmi.insert(id);
            self.server.serve_pmi(channel, pipes.pid)?;
        }
        self.watch(pipes.out, (id, pipes.pid), Channel::Out, plan)?;
        pipes.error.map_or(Ok(()), |error| self.watch(error, (id, pipes.pid), Channel::Error, plan))?;
        let input = self.keep_input(plan, id, pipes.input)?;
        if id.rank == 0 {
            self.report_start(&plan.namespace, false);
        }
        Ok(input)
    }

    /// Notes a moment for the report, which is about the first job.
    fn mark(&mut self, id: RankId, phase: ProcessPhase, at: Time) {
        if id.job == FIRST_JOB {
            self.timeline.mark(id.rank, phase, at);
        }
    }

    /// Watches the output of a rank with this process number.
    fn watch(
        &mut self,
        source: OwnedFd,
        (rank, pid): (RankId, u32),
        channel: Channel,
        plan: &Plan,
    ) -> Result<(), JobError> {
        let proc = ProcId::new(plan.namespace.clone(), rank.rank);
        let tag = plan.io.form.source(rank, &proc, (self.server.hostname(), pid));
        let form = LineForm::new(plan.io.form.marks(self.settings.marks), &proc, &tag, channel);
        let form = if plan.io.form.has_origin { form.with_origin(self.server.hostname(), pid) } else { form };
        let files = &plan.io.files;
        let usual = || self.output_writer.destination(rank, channel);
        let destination = if files.are_alone() { Destination::Nowhere } else { usual() };
        let index = self.next_stream;
        self.next_stream += 1;
        self.stream_of.insert((rank, channel), index);
        let mut stream = ForwardedStream::new(source, destination, form, (rank, channel), proc);
        stream.set_raw(plan.io.form.is_raw);
        if let Some(file) = self.directed_files.take(rank, channel) {
            stream.copy_to(file, !files.is_pattern);
        }
        stream.is_kept = plan.io.keeps(channel);
        stream.redirected_to = plan.parent.clone().filter(|_| stream.is_kept && plan.io.is_redirected);
        // A tool gets the output of its job without a pull.
        stream.is_redirected = stream.redirected_to.is_some() && plan.io.is_of_tool;
        let is_file = matches!(destination, Destination::File(_));
        stream.set_alone(is_file || (plan.job == FIRST_JOB && plan.rank_count() == 1));
        if plan.job != FIRST_JOB {
            self.streams.values_mut().for_each(ForwardedStream::note_others);
        }
        // A tool that watches the spawner gets the output of the spawned job, too.
        stream.is_pulled = self.forwarding.is_pulled || stream.is_kept || plan.parent.is_some();
        self.streams.insert(index, stream);
        // After a pause the loop listens to all streams.
        if self.is_paused { Ok(()) } else { self.listen(index) }
    }

    /// Waits for the end, cleans up and returns the exit status.
    pub(super) fn finish(mut self) -> Result<u8, JobError> {
        let outcome = self.run();
        self.read_news();
        // The rest of the last requests: a rank may end without waiting for the answer.
        while outcome.is_ok() && self.serve_logs()? {}
        self.complete_all();
        self.output_writer.hand_over();
        let advice = self.advice_if_alone().filter(|_| outcome.is_ok()).unwrap_or_default();
        let Self { server, directory, mut children, streams, poller, output_writer, timeline, hold, .. } = self;
        drop(hold);
        // In this order the guardian, which ends with the ranks' group, outlives everything that it cleans up.
        // A thread that connects to a tool may have the server, too.
        server.close(Duration::ZERO);
        drop(directory);
        children.finish();
        drop(self.guardian);
        let (report, is_complete) = match &outcome {
            Ok(()) => self.settings.reports.write(&timeline, self.plan.namespace.as_str()),
            Err(_) => (String::new(), true),
        };
        let last = LastOutput { poller, output_writer, verdict: self.verdict, clock: self.clock };
        let status = last.pass_on(streams, &(advice + &report));
        outcome.map(|()| if status == 0 && !is_complete { REPORT_LOST } else { status })
    }

    fn run(&mut self) -> Result<(), JobError> {
        while self.is_held() || self.verdict.running() > 0 {
            let of_lock = if self.is_paused { None } else { self.output_locks.next_tick() };
            let next_ticks =
                [self.verdict.next_tick(), of_lock, self.spawning.next_tick(self.is_paused), self.next_control()];
            let next_tick = next_ticks.into_iter().flatten().min();
            let limit = next_tick.map(|at| at.since(self.clock.now()));
            self.turn(limit)?;
        }
        let end = self.clock.now() + LAST_OUTPUT_TIME;
        while !self.streams.is_empty() && self.clock.now() < end {
            self.turn(Some(end.since(self.clock.now())))?;
        }
        Ok(())
    }

    fn turn(&mut self, limit: Option<Duration>) -> Result<(), JobError> {
        let before_look = self.look_at.since(self.clock.now());
        let of_tools = self.tool_pace.next_look();
        let limit = [Some(before_look), limit, of_tools].into_iter().flatten().min();
        self.output_writer.hand_over();
        let mut wakeups = self.poller.wait(limit).map_err(|reason| JobError::System { doing: "wait", reason })?;
        if self.look_at <= self.clock.now() {
            wakeups.extend([Wakeup::Child, Wakeup::News]);
            self.look_at = self.clock.now() + LOOKS_AFTER;
            self.children.reap_orphans();
            self.look_for_mpi();
        }
        for wakeup in wakeups {
            match wakeup {
                Wakeup::Child => self.collect_ended()?,
                Wakeup::News => {
                    self.read_news();
                    self.settle_output()?;
                }
                Wakeup::Stop { signal } => {
                    let action = self.verdict.stop(self.clock.now(), Cause::Signal(signal));
                    self.act(action);
                }
                Wakeup::Forward { signal } => {
                    if signal == Signal::SIGUSR1 {
                        self.say_what_waits(true);
                    }
                    self.children.forward(signal);
                }
                Wakeup::Suspend => self.suspend(),
                Wakeup::Stream { index } => {
                    if !self.is_paused {
                        self.last_read = index;
                    }
                    self.pump(index)?;
                }
                Wakeup::Input { rank } => {
                    self.forwarding.inputs.write(rank, &self.poller);
                    self.forwarding.can_push = true;
                }
            }
        }
        if self.tool_pace.is_waiting() {
            self.look_at_tools();
            self.settle_output()?;
        }
        self.start_released()?;
        self.answer_queries();
        self.go_on_spawning();
        self.end_unheard();
        self.close_ended()?;
        let now = self.clock.now();
        let silent = if self.is_paused { None } else { self.output_locks.silent(now) };
        silent.map_or(Ok(()), |index| self.cut(index))?;
        // Logs may have waited for the end of the line.
        self.can_log = self.serve_logs()?;
        self.serve_pull();
        self.serve_pushes();
        self.serve_controls();
        self.end_overdue();
        self.end_terminations();
        let action = self.verdict.tick(now);
        self.act(action);
        Ok(())
    }

    /// Looks for the MPI library of a rank if no rank has joined. A library that a program loads late, as Python does,
    /// is visible only while the process lives.
    fn look_for_mpi(&mut self) {
        self.read_news();
        if self.verdict.is_joined_by_nobody()
            && let Some(process) = self.children.first_running()
        {
            self.mpi_search.look_at(process);
        }
    }

    /// The line for a job whose ranks ran alone although they use an MPI library.
    fn advice_if_alone(&self) -> Option<String> {
        if !self.verdict.is_joined_by_nobody() || self.verdict.is_cut_short() {
            return None;
        }
        self.mpi_search.advice(variable)
    }

    fn collect_ended(&mut self) -> Result<(), JobError> {
        // The message of an abort counts more than the rank's exit status.
        self.read_news();
        let now = self.clock.now();
        let mut ended = self.children.take_ended();
        // Several ranks ended at once: the first rank that left the job is the cause for the others.
        ended.sort_by_key(|(rank, _)| self.verdict.order_of_leaving(*rank));
        for (rank, ending) in ended {
            self.mark(rank, ProcessPhase::Ended, now);
            // A tool that leaves at the event about the end has the output. Processes that the rank has left behind may
            // write more.
            for channel in [Channel::Out, Channel::Error] {
                if let Some(&index) = self.stream_of.get(&(rank, channel)) {
                    self.pass_written_on(index)?;
                }
            }
            self.forwarding.inputs.remove(rank, &self.poller);
            // PMI has no answer to an abort, so its rank may end before the server has read it.
            if ending.is_success() || self.speaks_pmi.contains(&rank) {
                self.await_loss(rank, now + LOSS_TIME);
            }
            let end = self.rank_end(rank, ending);
            self.forget(rank);
            let ready = self.awaited_stops.ended(rank);
            self.checkpoints.remove(rank);
            let action = self.verdict.ended(now, rank, ending);
            self.report_rank_end(rank, end);
            self.act(action);
            if !self.verdict.is_over(rank.job) {
                ready.iter().for_each(|breakpoint| self.report_stop(rank.job, breakpoint));
            } else {
                self.report_job_end(rank.job);
                if rank.job != FIRST_JOB {
                    self.end_spawned(rank.job);
                }
            }
        }
        Ok(())
    }

    /// Passes on what has been written to a stream so far, a pipe of any size.
    fn pass_written_on(&mut self, index: usize) -> Result<(), JobError> {
        for _ in 0..LAST_TURNS_MAX {
            if self.is_paused || !self.streams.get(&index).is_some_and(ForwardedStream::has_unread) {
                break;
            }
            self.pump(index)?;
        }
        Ok(())
    }

    /// Waits until the server has reported the lost connection of a rank that did not finalize. The server reports
    /// nothing about a rank that it was told to forget.
    fn await_loss(&mut self, rank: RankId, until: Time) {
        while self.verdict.is_in(rank) && !self.verdict.has_left(rank) {
            let Ok(news) = self.news.recv_timeout(until.since(self.clock.now())) else { return };
            self.take_news(news);
        }
    }

    /// Tells the server that a rank has ended, so that nobody waits for a rank that never joined.
    fn forget(&self, rank: RankId) {
        let Some(proc) = self.jobs.proc(rank) else { return };
        if let Err(error) = self.server.deregister_client(&proc).wait() {
            tracing::warn!(%proc, %error, "the launcher cannot report the end of a rank to the server");
        }
    }

    fn read_news(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            self.take_news(news);
        }
    }

    fn take_news(&mut self, news: News) {
        match news {
            News::Abort { requester, status, message } => self.abort(&requester, status, message),
            News::Query { requester, query, reply } => self.queries.push(requester, QueryCall::new(query, reply)),
            News::Spawn(call) => self.spawning.add(self.clock.now(), call),
            News::Control { requester, request, reply } => {
                self.controls.push(requester, ControlCall { request, reply });
            }
            News::Log { requester, request, reply } => {
                self.logs.push(requester, LogCall::new(&request, self.settings.record.is_some(), reply))
            }
            News::Pull { requester, request, reply } => {
                self.forwarding.pulls.push(requester, PullCall { request, reply })
            }
            News::Push { requester, request, reply } => {
                self.forwarding.pushes.push(requester, PushCall::new(*request, reply))
            }
            News::Stopped { proc, breakpoint } => {
                if let Some(rank) = self.jobs.rank(&proc)
                    && self.awaited_stops.reached(rank, &breakpoint)
                {
                    self.report_stop(rank.job, &breakpoint);
                }
            }
            News::Tool(news) => self.take_tool_news(news),
            News::Process { proc, moment } => {
                self.forwarding.note_tool(&proc, moment, &self.jobs);
                let Some(rank) = self.jobs.rank(&proc) else { return };
                match moment {
                    ProcessNews::Connected => self.verdict.connected(rank),
                    ProcessNews::Finalized => self.verdict.finalized(rank),
                    ProcessNews::Left => self.verdict.left(rank),
                    ProcessNews::Reached { phase, at } => self.mark(rank, phase, at),
                    ProcessNews::ToolAdmitted | ProcessNews::ToolGone => {}
                }
            }
        }
    }

    fn abort(&mut self, proc: &ProcId, status: i32, message: String) {
        let (rank, requester) = (self.jobs.rank(proc), self.name_of(proc));
        if !self.verdict.is_stopped() {
            self.report_abort(proc, status, &message);
        }
        let action = self.verdict.stop(self.clock.now(), Cause::Abort { requester, rank, status, message });
        self.act(action);
    }

    /// The words about the ranks that have to end for this cause.
    fn notice(&self, cause: &Cause) -> String {
        let count = self.verdict.others(cause);
        let not_started = if self.hold.is_waiting() { "; the job was not started" } else { "" };
        if count == 0 || cause.request() == Signal::SIGKILL {
            return not_started.to_owned();
        }
        let ranks = if count == 1 { "rank gets" } else { "ranks get" };
        let those = if cause.is_of_a_rank() { "the other " } else { "" };
        format!("{not_started}; {those}{count} {ranks} {} s to end", self.verdict.grace().as_secs_f64())
    }

    fn act(&mut self, action: Option<Action>) {
        match action {
            None => {}
            Some(Action::Stop { cause, running }) => {
                self.say(&format!("modex: {cause}{}\n", self.notice(&cause)));
                match cause {
                    Cause::Timeout(_) => self.say_what_waits(!self.verdict.is_joined_by_nobody()),
                    Cause::Signal(_) => self.say_what_waits(false),
                    _ => {}
                }
                if running > 0 {
                    self.ask_to_end(cause.request());
                }
            }
            Some(Action::Insist { running }) => {
                let ranks = if running == 1 { "rank has" } else { "ranks have" };
                let grace = self.verdict.grace().as_secs_f64();
                self.say(&format!("modex: {running} {ranks} not ended on SIGINT; SIGTERM, and {grace} s more\n"));
                self.ask_to_end(Signal::SIGTERM);
            }
            Some(Action::Kill) => self.children.signal(Signal::SIGKILL),
        }
    }

    fn ask_to_end(&self, signal: Signal) {
        self.children.signal(signal);
        if self.has_paused_ranks {
            // A paused process gets its signal when it goes on.
            self.children.signal(Signal::SIGCONT);
        }
    }

    /// Says which operations wait, and for which ranks. `says_none`: also if there is none.
    fn say_what_waits(&mut self, says_none: bool) {
        let mut texts = self.waiting_operations();
        if self.is_held() {
            texts.push(WAITS.to_owned());
        }
        if texts.is_empty() && says_none {
            self.say("modex: no operation of the ranks waits\n");
        }
        if !texts.is_empty() {
            self.say(&texts.iter().map(|text| format!("modex: {text}\n")).collect::<String>());
        }
    }

    fn waiting_operations(&self) -> Vec<String> {
        // Without a server no operation waits.
        let operations = self.server.open_operations().unwrap_or_default();
        waiting::texts(&operations, &self.jobs, |rank| self.children.running(rank))
    }

    /// Stops the ranks and then the launcher, until somebody continues the launcher.
    fn suspend(&mut self) {
        if can_be_continued() {
            self.output_writer.hand_over();
            self.children.signal(Signal::SIGTSTP);
            stop_this_process();
            self.children.signal(Signal::SIGCONT);
        }
    }

    /// Prints a message for the user. A rank's long line on standard error is ended first.
    fn say(&mut self, text: &str) {
        let holder = self.output_locks.holder(Destination::Error).and_then(|index| self.streams.get_mut(&index));
        let line_end = holder.map_or("", ForwardedStream::cut);
        self.output_writer.say(&format!("{line_end}{text}"));
    }

    /// Passes on a rank's output.
    fn pump(&mut self, index: usize) -> Result<(), JobError> {
        // A wake-up from just before the pause must not add to the queued output.
        if self.is_paused {
            return Ok(());
        }
        if !std::mem::replace(&mut self.has_output, true) {
            self.look_for_mpi();
        }
        let Some(stream) = self.streams.get_mut(&index) else { return Ok(()) };
        let destination = stream.destination();
        if !self.output_locks.admits(index, destination) {
            // A waiting stream in the poll set would wake the loop again and again.
            let _ = self.poller.forget(stream.fd());
            return Ok(());
        }
        let mut lines = ReadyLines::default();
        let progress =
            if stream.is_pulled { read_and_offer(stream, &self.server, &mut lines) } else { stream.read(&mut lines) };
        let must_look = stream.is_pulled && self.tool_pace.offer();
        let has_ended = !matches!(progress, Ok(ForwardProgress::Open | ForwardProgress::Empty));
        if has_ended {
            lines.own_mut().extend_from_slice(stream.cut().as_bytes());
        }
        let is_mid_line = stream.is_mid_line();
        self.push(index, destination, lines)?;
        if has_ended {
            self.close(index)?;
        } else {
            self.hand_on(index, destination, is_mid_line)?;
        }
        if must_look {
            self.look_at_tools();
        }
        if self.tool_pace.is_waiting() || !self.output_writer.has_room() {
            self.pause();
        }
        Ok(())
    }

    fn push(&mut self, index: usize, destination: Destination, lines: impl Into<ReadyLines>) -> Result<(), JobError> {
        let stream = self.streams.get_mut(&index);
        let to_file = stream.map_or(Ok(()), |stream| self.output_writer.push_to_file(index, stream));
        let pushed = to_file.and_then(|()| self.output_writer.push(index, destination, lines));
        pushed.map_err(|reason| JobError::System { doing: "start a thread that writes the output", reason })
    }

    /// Ends a rank's long line, so that others can write.
    fn cut(&mut self, index: usize) -> Result<(), JobError> {
        let Some(stream) = self.streams.get_mut(&index) else { return Ok(()) };
        let (destination, line_end) = (stream.destination(), stream.cut());
        self.push(index, destination, Vec::from(line_end))?;
        self.hand_on(index, destination, false)
    }

    /// Listens again to the streams that waited for the end of this rank's line, if the line has ended.
    fn hand_on(&mut self, index: usize, destination: Destination, is_mid_line: bool) -> Result<(), JobError> {
        let waiting = self.output_locks.wrote(self.clock.now(), index, destination, is_mid_line);
        // After a pause the loop listens to all of them.
        if self.is_paused { Ok(()) } else { waiting.into_iter().try_for_each(|index| self.listen(index)) }
    }

    fn close(&mut self, index: usize) -> Result<(), JobError> {
        let Some(mut stream) = self.streams.remove(&index) else { return Ok(()) };
        self.stream_of.remove(&stream.origin());
        complete(&stream, &self.server);
        // Closing the descriptor removes it from the poll set as well; this only keeps the order clear.
        let _ = self.poller.forget(stream.fd());
        self.output_writer.close_files_of(&mut stream);
        self.hand_on(index, stream.destination(), false)
    }

    fn listen(&self, index: usize) -> Result<(), JobError> {
        let Some(stream) = self.streams.get(&index) else { return Ok(()) };
        let watched = self.poller.watch(index, stream.fd());
        watched.map_err(|reason| JobError::System { doing: "watch a rank's output", reason })
    }

    /// Leaves the output in the ranks' pipes until the queued output has been written. Ranks with a full pipe wait.
    fn pause(&mut self) {
        self.is_paused = true;
        for stream in self.streams.values() {
            // A stream in the poll set would only cost time now.
            let _ = self.poller.forget(stream.fd());
        }
        self.output_writer.ask_for_ring();
    }

    /// Looks whether tools have fallen behind or caught up.
    fn look_at_tools(&mut self) {
        // A server that has ended has no tools.
        let unread_bytes = self.server.unread_output_bytes().unwrap_or_default();
        self.tool_pace.look(self.clock.now(), unread_bytes);
    }

    /// A rank whose output can't be passed on loses its pipe, as in a shell, unless a file gets the output, too. The
    /// loop listens to the others when there is room.
    fn settle_output(&mut self) -> Result<(), JobError> {
        for index in self.output_writer.take_failed() {
            let Some(stream) = self.streams.get_mut(&index) else { continue };
            let destination = stream.destination();
            if stream.leave_to_file() {
                self.hand_on(index, destination, false)?;
            } else {
                self.close(index)?;
            }
        }
        if self.is_paused && self.output_writer.has_room() && !self.tool_pace.is_waiting() {
            self.is_paused = false;
            self.output_locks.resume(self.clock.now());
            // The system reports them in this order. The first ones may fill the queue again.
            let next = self.last_read.saturating_add(1);
            let mut in_turn = self.streams.range(next..).chain(self.streams.range(..next));
            in_turn.try_for_each(|(index, _)| self.listen(*index))?;
        }
        Ok(())
    }
}

/// Variables that are for the launcher alone. A launcher in a rank can't have the port of this one.
fn not_for_ranks() -> impl Iterator<Item = String> {
    let parameters = [IPV4_PORTS, IPV6_PORTS, REPORT_URI].map(|name| format!("PMIX_MCA_{name}"));
    PMI_VARIABLES.iter().chain(&hold::VARIABLES).copied().map(str::to_owned).chain(parameters)
}

/// A variable that ranks inherit from the launcher.
#[expect(clippy::disallowed_methods, reason = "ranks inherit the launcher's own variables")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
