//! The thread that writes output, so that a slow terminal or file does not delay the host.
//!
//! Pieces wait in a queue. A caller waits only while the queue is full. [`OutputWriter::finish`] returns when
//! everything is written.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use modex::output::write_whole;
use modex::runtime::spawn_thread;
use modex::types::{Namespace, ProcId};
use nix::libc;
use parking_lot::{Condvar, Mutex};

use super::files::{JobOutput, OpenedPaths, OutputFiles};
use super::lines::Lines;
use super::questions::Questions;
use super::stream::{Channel, Stream};
use super::style::{Origin, OutputStyle};

/// Looks up the origin of a source.
pub(crate) type FindOrigin = fn(&ProcId) -> Option<Origin>;

/// Writes output on a thread of its own, which the first piece starts.
pub(crate) struct OutputWriter {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    find_origin: FindOrigin,
    paths: OpenedPaths,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Announces work to the thread, and room to callers.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    size_bytes: usize,
    is_closed: bool,
}

enum Work {
    Piece {
        job: Arc<JobOutput>,
        channel: Channel,
        bytes: Vec<u8>,
    },
    /// The job is over: its open lines are written.
    End(Namespace),
}

impl Queue {
    fn push(&mut self, work: Work) {
        self.size_bytes = self.size_bytes.saturating_add(work.size_bytes());
        self.work.push_back(work);
    }
}

impl Work {
    fn size_bytes(&self) -> usize {
        let own = size_of::<Self>();
        match self {
            Self::Piece { bytes, .. } => own.saturating_add(bytes.len()),
            Self::End(_) => own,
        }
    }
}

impl OutputWriter {
    pub(crate) fn new(find_origin: FindOrigin) -> Self {
        Self::sharing(OpenedPaths::default(), find_origin)
    }

    /// A writer that shares files with others.
    pub(crate) fn sharing(paths: OpenedPaths, find_origin: FindOrigin) -> Self {
        let shared = Shared { queue: Mutex::default(), changed: Condvar::new() };
        Self { shared: Arc::new(shared), thread: Mutex::default(), find_origin, paths }
    }

    /// Puts a piece into the queue. No bytes are the end of the stream. A piece after [`OutputWriter::finish`] is lost.
    pub(crate) fn write(&self, job: Arc<JobOutput>, source: ProcId, stream: Stream, bytes: Vec<u8>) {
        if !self.is_started() {
            return;
        }
        let mut queue = self.shared.queue.lock();
        while queue.size_bytes >= QUEUE_BYTES_MAX && !queue.is_closed {
            self.shared.changed.wait(&mut queue);
        }
        if queue.is_closed {
            return;
        }
        queue.push(Work::Piece { job, channel: (source, stream), bytes });
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// As [`OutputWriter::write`], and never waits. Returns whether there was room.
    pub(crate) fn offer(&self, job: Arc<JobOutput>, source: ProcId, stream: Stream, bytes: Vec<u8>) -> bool {
        if !self.is_started() {
            return false;
        }
        let mut queue = self.shared.queue.lock();
        let has_room = queue.size_bytes < QUEUE_BYTES_MAX && !queue.is_closed;
        if has_room {
            queue.push(Work::Piece { job, channel: (source, stream), bytes });
            self.shared.changed.notify_all();
        }
        has_room
    }

    /// Writes the open lines of a job.
    pub(crate) fn end(&self, namespace: Namespace) {
        if self.thread.lock().is_some() {
            self.shared.queue.lock().push(Work::End(namespace));
            self.shared.changed.notify_all();
        }
    }

    /// Writes everything, and ends the thread.
    pub(crate) fn finish(&self) {
        self.shared.queue.lock().is_closed = true;
        self.shared.changed.notify_all();
        let Some(thread) = self.thread.lock().take() else { return };
        if thread.join().is_err() {
            tracing::error!("the thread that writes output has failed; some output is lost");
        }
    }

    /// Starts the thread if necessary. Without it the output is lost.
    fn is_started(&self) -> bool {
        let mut thread = self.thread.lock();
        if thread.is_some() || self.shared.queue.lock().is_closed {
            return thread.is_some();
        }
        let (shared, sinks) = (Arc::clone(&self.shared), Sinks::new(Arc::clone(&self.paths), self.find_origin));
        match spawn_thread("modex-output", move || sinks.run(&shared)) {
            Ok(started) => *thread = Some(started),
            Err(error) => tracing::error!(%error, "no thread can be started to write output, so it is lost"),
        }
        thread.is_some()
    }
}

/// Open files and lines.
struct Sinks {
    lines: Lines,
    questions: Questions,
    jobs: BTreeMap<Channel, Arc<JobOutput>>,
    files: OutputFiles,
    origins: BTreeMap<ProcId, Origin>,
    find_origin: FindOrigin,
}

impl Sinks {
    fn new(paths: OpenedPaths, find_origin: FindOrigin) -> Self {
        let (jobs, origins) = (BTreeMap::new(), BTreeMap::new());
        let (lines, questions) = (Lines::default(), Questions::default());
        Self { lines, questions, jobs, files: OutputFiles::new(paths), origins, find_origin }
    }

    fn run(mut self, shared: &Shared) {
        loop {
            match next(shared, self.questions.next_look()) {
                Next::Work(Work::Piece { job, channel, bytes }) => self.write(&job, channel, &bytes),
                Next::Work(Work::End(namespace)) => self.end(&namespace),
                Next::Look => self.show_questions(),
                Next::Over => break,
            }
        }
        self.end_lines(None);
    }

    fn show_questions(&mut self) {
        while let Some(channel) = self.questions.take_due(now()) {
            let question = self.lines.take_open(&channel);
            if let Some(job) = self.jobs.get(&channel).cloned().filter(|_| !question.is_empty()) {
                self.put(&job, &channel, [&question, &[]]);
            }
        }
    }

    fn write(&mut self, job: &Arc<JobOutput>, channel: Channel, bytes: &[u8]) {
        let origin = job.style.needs_origin().then(|| self.origin(&channel.0)).flatten();
        let time_text = if job.style.needs_time() { time() } else { String::new() };
        let (start, rest) = self.lines.take(&job.style, &channel, bytes, origin.as_ref(), &time_text);
        self.put(job, &channel, [&start, rest]);
        if job.style.shows_questions {
            self.questions.note(&channel, self.lines.is_open(&channel), now());
        }
        if bytes.is_empty() {
            self.files.close(&(channel.0.clone(), job.stream_of_file(channel.1)));
        }
        self.jobs.insert(channel, Arc::clone(job));
    }

    fn origin(&mut self, source: &ProcId) -> Option<Origin> {
        if let Some(origin) = self.origins.get(source) {
            return Some(origin.clone());
        }
        let origin = (self.find_origin)(source)?;
        self.origins.insert(source.clone(), origin.clone());
        Some(origin)
    }

    fn put(&mut self, job: &JobOutput, channel: &Channel, formed: [&[u8]; 2]) {
        if formed.iter().all(|part| part.is_empty()) {
            return;
        }
        let (source, stream) = channel;
        let stream = job.stream_of_file(*stream);
        if job.style.files.place.is_some() {
            let file = self.files.open(job, source, stream);
            if let Some(Err(error)) = file.map(|file| write_whole(file.as_fd(), formed)) {
                self.files.give_up(source, stream, &error);
            }
            if !job.is_copied {
                return;
            }
        }
        job.style.write_to_own(stream, formed);
    }

    fn end(&mut self, namespace: &Namespace) {
        self.end_lines(Some(namespace));
        self.jobs.retain(|(source, _), _| source.namespace != *namespace);
        let lives = |namespace: &Namespace| self.jobs.keys().any(|(source, _)| source.namespace == *namespace);
        self.files.end(namespace, lives);
        self.origins.retain(|source, _| source.namespace != *namespace);
    }

    fn end_lines(&mut self, namespace: Option<&Namespace>) {
        for channel in self.lines.open_channels(namespace) {
            if let Some(job) = self.jobs.get(&channel).cloned() {
                self.write(&job, channel, &[]);
            }
        }
    }
}

/// The next step of the thread.
enum Next {
    Work(Work),
    /// It is time to look at questions.
    Look,
    /// There is no work and will be none.
    Over,
}

/// How much later than planned questions are looked at while there is work.
const LATENESS_MAX: Duration = Duration::from_secs(1);

fn next(shared: &Shared, look_at: Option<Instant>) -> Next {
    let mut queue = shared.queue.lock();
    let is_late = look_at.is_some_and(|at| at + LATENESS_MAX <= now());
    loop {
        // Work without an end must not keep questions from the user.
        if is_late && !queue.is_closed {
            return Next::Look;
        }
        // The rest of an open line may be here already.
        if let Some(work) = queue.work.pop_front() {
            queue.size_bytes = queue.size_bytes.saturating_sub(work.size_bytes());
            drop(queue);
            shared.changed.notify_all();
            return Next::Work(work);
        }
        if queue.is_closed {
            return Next::Over;
        }
        if look_at.is_some_and(|at| at <= now()) {
            return Next::Look;
        }
        match look_at {
            Some(at) => drop(shared.changed.wait_until(&mut queue, at)),
            None => shared.changed.wait(&mut queue),
        }
    }
}

impl OutputStyle {
    /// Writes to a stream of this process.
    pub(crate) fn write_to_own(&self, stream: Stream, formed: [&[u8]; 2]) {
        if stream == Stream::Stdout || self.is_merged {
            report_closed(write_whole(std::io::stdout().as_fd(), formed));
        } else {
            report_closed(write_whole(std::io::stderr().as_fd(), formed));
        }
    }
}

/// The reader of this process's own output may have gone.
fn report_closed(written: io::Result<()>) {
    if let Err(error) = written {
        tracing::debug!(%error, "output can't be written");
    }
}

#[expect(clippy::disallowed_methods, reason = "a question appears after a time")]
fn now() -> Instant {
    Instant::now()
}

/// The time of this machine, as `ctime` writes it.
fn time() -> String {
    let mut text = [0_u8; 32];
    // SAFETY: looks at the clock; NULL is permitted.
    let now = unsafe { libc::time(std::ptr::null_mut()) };
    // SAFETY: the buffer has more than the 26 bytes that the function needs.
    let written = unsafe { libc::ctime_r(&raw const now, text.as_mut_ptr().cast()) };
    if written.is_null() {
        return String::new();
    }
    let text = text.split(|&byte| matches!(byte, 0 | b'\n')).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Bound of the waiting output, in bytes.
const QUEUE_BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use modex::output::Place;

    use super::*;
    use crate::output::files::tests::{job, source};

    /// Regression: with a pattern that names no rank each process emptied the file of the others.
    #[test]
    fn processes_may_share_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut job = job(Place::File(directory.path().join("all")));
        job.style.files.is_pattern = true;
        let (job, writer) = (Arc::new(job), OutputWriter::new(|_| None));
        for rank in 0..3 {
            writer.write(Arc::clone(&job), source(rank), Stream::Stdout, format!("{rank}\n").into_bytes());
        }
        writer.finish();
        assert_eq!(std::fs::read_to_string(directory.path().join("all.out")).unwrap(), "0\n1\n2\n");
    }

    /// Regression: a source that wrote without a pause kept the questions of others from the user.
    #[test]
    fn questions_are_looked_at_in_the_middle_of_work() {
        let shared = Shared { queue: Mutex::default(), changed: Condvar::default() };
        for rank in 0..2 {
            shared.queue.lock().push(Work::End(source(rank).namespace));
        }
        assert!(matches!(next(&shared, Some(now())), Next::Work(_)));
        let long_ago = now().checked_sub(LATENESS_MAX).unwrap();
        assert!(matches!(next(&shared, Some(long_ago)), Next::Look));
        assert!(matches!(next(&shared, None), Next::Work(_)));
    }

    /// Regression: on a full disk the output was lost in silence, and each piece was tried again.
    #[test]
    fn a_file_that_can_not_be_written_is_given_up_until_the_end_of_its_stream() {
        let directory = tempfile::tempdir().unwrap();
        let job = Arc::new(job(Place::File(directory.path().join("f"))));
        let mut sinks = Sinks::new(OpenedPaths::default(), |_| None);
        sinks.write(&job, (source(3), Stream::Stdout), b"first\n");
        sinks.files.give_up(&source(3), Stream::Stdout, &io::ErrorKind::StorageFull.into());
        sinks.write(&job, (source(3), Stream::Stdout), b"lost\n");
        assert_eq!(sinks.files.open_count(), 0);
        sinks.write(&job, (source(3), Stream::Stdout), b"");
        sinks.write(&job, (source(3), Stream::Stdout), b"later\n");
        let path = directory.path().join("f.job.03.out");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "first\nlater\n");
    }

    /// Regression: with every other job's end the files of ended streams were forgotten, and emptied.
    #[test]
    fn a_file_is_open_until_the_end_of_its_stream_and_goes_on_in_later_streams_of_the_job() {
        let directory = tempfile::tempdir().unwrap();
        let mut job = job(Place::File(directory.path().join("f")));
        job.style.is_merged = true;
        let job = Arc::new(job);
        let mut sinks = Sinks::new(OpenedPaths::default(), |_| None);
        let write = |sinks: &mut Sinks, stream, bytes| sinks.write(&job, (source(3), stream), bytes);
        write(&mut sinks, Stream::Stdout, b"out\n");
        assert_eq!(sinks.files.open_count(), 1);
        write(&mut sinks, Stream::Stdout, b"");
        assert_eq!(sinks.files.open_count(), 0);
        sinks.end(&Namespace::new("other").unwrap());
        write(&mut sinks, Stream::Stderr, b"error\n");
        let path = directory.path().join("f.job.03.out");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "out\nerror\n");
        sinks.end(&source(3).namespace);
        write(&mut sinks, Stream::Stdout, b"new\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new\n");
    }

    fn questioning(directory: &std::path::Path) -> Arc<JobOutput> {
        let mut job = job(Place::File(directory.join("all")));
        job.style.files.is_pattern = true;
        job.style.shows_questions = true;
        Arc::new(job)
    }

    /// Regression: each piece of unformed output was written as it came, so lines of several sources mixed.
    #[test]
    fn lines_without_a_form_stay_whole() {
        let directory = tempfile::tempdir().unwrap();
        let job = questioning(directory.path());
        let mut sinks = Sinks::new(OpenedPaths::default(), |_| None);
        for (rank, text) in [(0, "half a "), (1, "whole\n"), (0, "line\n")] {
            sinks.write(&job, (source(rank), Stream::Stdout), text.as_bytes());
        }
        assert_eq!(std::fs::read_to_string(directory.path().join("all.out")).unwrap(), "whole\nhalf a line\n");
    }

    #[test]
    fn a_question_appears_before_its_line_has_an_end() {
        let directory = tempfile::tempdir().unwrap();
        let (job, writer) = (questioning(directory.path()), OutputWriter::new(|_| None));
        let read = || std::fs::read_to_string(directory.path().join("all.out")).unwrap_or_default();
        writer.write(Arc::clone(&job), source(0), Stream::Stdout, b"who? ".to_vec());
        while read() != "who? " {
            std::thread::yield_now();
        }
        writer.write(job, source(0), Stream::Stdout, b"I\n".to_vec());
        writer.finish();
        assert_eq!(read(), "who? I\n");
    }

    /// Regression: a piece after the end started a second thread, which emptied the files.
    #[test]
    fn nothing_is_written_after_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let (job, writer) = (Arc::new(job(Place::File(directory.path().join("f")))), OutputWriter::new(|_| None));
        for text in [b"first\n", b"later\n"] {
            writer.write(Arc::clone(&job), source(3), Stream::Stdout, text.to_vec());
            writer.finish();
        }
        assert_eq!(std::fs::read_to_string(directory.path().join("f.job.03.out")).unwrap(), "first\n");
        assert_eq!(writer.shared.queue.lock().work.len(), 0);
    }

    /// Regression: pieces without bytes and the ends of jobs did not count, so the queue had no bound.
    #[test]
    fn each_item_counts() {
        let mut queue = Queue::default();
        queue.push(Work::End(Namespace::new("job").unwrap()));
        assert_eq!(queue.size_bytes, size_of::<Work>());
    }

    #[test]
    fn everything_is_in_the_files_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let writer = OutputWriter::new(|_| None);
        let job = Arc::new(job(Place::Directory(directory.path().join("made"))));
        for number in 0..1000 {
            writer.write(Arc::clone(&job), source(number % 2), Stream::Stdout, format!("{number}\n").into_bytes());
        }
        writer.write(Arc::clone(&job), source(0), Stream::Stderr, b"unfinished".to_vec());
        writer.finish();
        let read = |name: &str| std::fs::read_to_string(directory.path().join("made/job").join(name)).unwrap();
        assert_eq!(read("rank.00/stdout").lines().count(), 500);
        assert!(read("rank.01/stdout").ends_with("997\n999\n"));
        assert_eq!(read("rank.00/stderr"), "unfinished");
    }

    #[test]
    fn the_time_is_in_the_form_of_ctime() {
        assert_eq!(time().len(), "Fri Nov 27 06:40:42 2026".len());
    }
}
