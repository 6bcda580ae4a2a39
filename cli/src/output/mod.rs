//! `modex output`: shows what the ranks of a running job print, and passes on input to them, as a tool
//! (`PMIx_IOF_pull`, `PMIx_IOF_push`).
//!
//! - [`lines`]: the output of each rank as whole lines

mod lines;

use std::io;
use std::sync::Arc;
use std::thread::Builder;

use clap::Args;
use crossbeam::channel::{Receiver, Sender, unbounded};
use modex::types::codes::iof_channel;
use modex::types::{AsStatus, Info, Key, ProcId, Rank, Status};
use modex::{Client, EventCall, GetOptions, IofOutput, keys};
use parking_lot::Mutex;

use super::ask::Target;
use super::ctl::{self, CtlError};
use super::freed_memory::keep_freed_memory;
use super::run::pass_input_on;
use super::{Outcome, printing};
use lines::{Outputs, Shown};

#[derive(Args, Debug)]
#[command(after_long_help = HELP)]
pub(super) struct OutputOptions {
    /// Job, as `modex ps` names it
    #[arg(value_name = "JOB", required_unless_present_any = ["namespace", "pid", "uri", "file", "server"])]
    job: Option<String>,
    /// Job, as the first word
    #[arg(short, long, value_name = "JOB", conflicts_with = "job")]
    namespace: Option<String>,
    #[command(flatten)]
    target: Target,
    /// Ranks of the job, such as 0,4-7; all ranks by default
    #[arg(short, long, value_name = "RANKS")]
    ranks: Option<String>,
    /// Put "[rank,channel] " in front of every line, with the job's name if a rank has spawned the job
    #[arg(long)]
    tag_output: bool,
    /// Take the output away from the launcher, which shows it again when this command ends (PMIX_IOF_REDIRECT)
    #[arg(long)]
    redirect: bool,
    /// Pass on this command's standard input to the ranks
    #[arg(long)]
    stdin: bool,
}

const HELP: &str = "\
Examples:
  modex output modex-4711
  modex output modex-4711 -r 0,4-7 --tag-output
  modex output modex-4711 -r 0 --redirect > rank.0.out
  echo go | modex output modex-4711 -r 0 --stdin
  modex io -n modex-4711 -r 0
  modex output --pid 4711
  modex output --uri file:dvm.uri

Without a job, all jobs of the server are meant.
The command shows what the ranks print from now on, and ends when all of it has ended. Standard output
goes to standard output, standard error to standard error. Lines up to 64 KiB come whole, unless one rank alone is
asked for. A reader that is too slow misses output: it never holds up the job. A line on standard error
says how much.

Jobs that these ranks spawn meanwhile are shown, too, in whole lines. A spawn that keeps output for its
own rank (PMIX_FWD_STDOUT) is not, and neither is one with PMIX_IOF_INHERIT = false. The command ends with the
ranks that it was started for, and with spawned ranks that have printed before.

A rank takes input if it reads the launcher's own, or if its launcher runs with `--stdin tools`. Rank 0 of a job
that a tool spawned takes some, too. The end of this command's input is the end of theirs.

Exit status:
  0  The output has ended, or its reader has gone
  1  The launcher refuses, there is no such job, or the connection broke
  2  The command line makes no sense

Environment:
  TMPDIR, TEMP, TMP, PMIX_SERVER_TMPDIR, PMIX_SYSTEM_TMPDIR
      Directories in which servers are searched. Those of this user's other processes are
      searched, too";

/// News for the main thread.
enum News {
    /// All output has ended.
    Ended,
    /// The output can't be written.
    Unwritten(io::Error),
    /// The ranks' input is refused.
    Refused(Status),
    /// The connection broke.
    Lost,
}

pub(super) fn run(options: &OutputOptions) -> Outcome {
    let job = options.job.as_deref().or(options.namespace.as_deref());
    let (tool, targets) = ctl::connect(job, &options.target, options.ranks.as_deref())?;
    let client = tool.client()?;
    let named = ctl::named(&targets, options.ranks.as_deref());
    keep_freed_memory();
    let (sender, news) = unbounded();
    watch_connection(&client, sender.clone())?;
    let choice = if options.redirect { keys::IOF_REDIRECT } else { keys::IOF_COPY };
    let directives = vec![Info::new(Key::from_static(choice.name()), true)];
    let channels = iof_channel::FWD_STDOUT_CHANNEL | iof_channel::FWD_STDERR_CHANNEL;
    let shown = Shown { is_tagged: options.tag_output, is_whole: !is_single(&targets) };
    let jobs = targets.iter().map(|target| target.namespace.clone()).collect();
    let outputs = Arc::new(Mutex::new(Outputs::new(shown, jobs, sources(&client, &targets))));
    let pulled = client.iof_pull(targets.clone(), directives, channels, show(Arc::clone(&outputs), sender.clone()));
    let refused = |status| CtlError::Refused { named: named.clone(), reason: ctl::reason(status) };
    pulled.wait().map_err(|error| refused(error.status()))?;
    if options.stdin {
        let client = Arc::clone(&client);
        Builder::new().name("modex-input".to_owned()).spawn(move || push_input(&client, &targets, &sender))?;
    } else {
        drop(sender);
    }
    wait_for_end(&news, &outputs, refused)
}

/// Shows the output in the thread that receives it. While nobody reads what this command writes, it receives no more,
/// and further output waits in the launcher's server.
fn show(outputs: Arc<Mutex<Outputs>>, sender: Sender<News>) -> impl Fn(IofOutput) + Send + Sync + 'static {
    move |output| {
        let mut outputs = outputs.lock();
        if outputs.have_ended() {
            return;
        }
        let news = match outputs.show(&output) {
            Err(error) => News::Unwritten(error),
            Ok(()) if outputs.have_ended() => News::Ended,
            Ok(()) => return,
        };
        // Nobody takes news after the first.
        let _ = sender.send(news);
    }
}

/// Waits until all output has ended.
fn wait_for_end(news: &Receiver<News>, outputs: &Mutex<Outputs>, refused: impl Fn(Status) -> CtlError) -> Outcome {
    if outputs.lock().have_ended() {
        return Ok(0);
    }
    match news.recv() {
        Ok(News::Ended) => Ok(0),
        Ok(News::Unwritten(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Ok(News::Unwritten(error)) => Err(error.into()),
        Ok(News::Refused(status)) => Err(refused(status).into()),
        Ok(News::Lost) | Err(_) => {
            outputs.lock().finish()?;
            printing::complain("the launcher has gone, and perhaps a part of its ranks' output");
            Ok(1)
        }
    }
}

fn watch_connection(client: &Client, sender: Sender<News>) -> Result<(), Box<dyn std::error::Error>> {
    let report = move |call: EventCall| {
        let _ = sender.send(News::Lost);
        call.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    };
    client.register_event_handler(&[Status::ERR_LOST_CONNECTION], &[], report).wait()?;
    Ok(())
}

/// Whether the output is that of one rank.
fn is_single(targets: &[ProcId]) -> bool {
    matches!(targets, [target] if target.rank.process().is_some())
}

/// Each rank that is meant. A job whose size is not known has no list, so its output ends with the connection.
fn sources(client: &Client, targets: &[ProcId]) -> Option<Vec<ProcId>> {
    let mut sources = Vec::new();
    for target in targets {
        if target.rank == Rank::Wildcard {
            let value = client.get_value(target, keys::JOB_SIZE.name(), &GetOptions::default().immediate()).ok()?;
            let size = value.into_value().ok()?.as_u32()?;
            sources.extend((0..size).map(|rank| ProcId::new(target.namespace.clone(), rank)));
        } else {
            sources.push(target.clone());
        }
    }
    Some(sources)
}

/// Pushes this command's input until it ends, or nobody reads it any more. The end of the input is a push, too.
fn push_input(client: &Client, targets: &[ProcId], sender: &Sender<News>) {
    let (mut targets, mut is_taken) = (targets.to_vec(), false);
    let mut push_all = |bytes: &[u8]| {
        let pushed = match push(client, &mut targets, bytes) {
            // Nobody has read anything.
            Ok(()) if targets.is_empty() && !is_taken && !bytes.is_empty() => Err(Status::ERR_IOF_COMPLETE),
            pushed => pushed,
        };
        is_taken = true;
        match pushed {
            Ok(()) => return !targets.is_empty(),
            Err(Status::ERR_LOST_CONNECTION) => {}
            Err(status) => drop(sender.send(News::Refused(status))),
        }
        targets.clear();
        false
    };
    pass_input_on(client.push_bytes_max(), &mut push_all);
    push_all(&[]);
}

/// Pushes bytes to all targets. Removes those that have ended, or have closed their input.
fn push(client: &Client, targets: &mut Vec<ProcId>, bytes: &[u8]) -> Result<(), Status> {
    if targets.is_empty() {
        return Ok(());
    }
    let push_to = |targets: Vec<ProcId>| {
        let pushed = client.iof_push(targets, Vec::new(), bytes.to_vec()).wait().map_err(|error| error.status());
        match pushed {
            Ok(()) => Ok(true),
            Err(Status::ERR_IOF_COMPLETE | Status::ERR_NOT_FOUND) => Ok(false),
            Err(status) => Err(status),
        }
    };
    // A launcher gives the bytes to all or none.
    if push_to(targets.clone())? {
        return Ok(());
    }
    let mut left = Vec::new();
    if targets.len() > 1 {
        for target in targets.iter() {
            if push_to(vec![target.clone()])? {
                left.push(target.clone());
            }
        }
    }
    *targets = left;
    Ok(())
}
