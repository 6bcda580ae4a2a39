//! Answers to commands.

use super::version_2::ReplyHead;
use super::{KEY_BYTES_MAX, KVSNAME_BYTES_MAX, VALUE_BYTES_MAX};

/// The answer to a command. A failure carries its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Answer to [`Command::Init`](super::Command::Init): the release that is spoken.
    Begun(Result<u32, &'a str>),
    /// Answer to [`Command::FullInit`](super::Command::FullInit).
    Place(Place<'a>),
    /// Answer to [`Command::GetMaxes`](super::Command::GetMaxes).
    Maxes,
    /// Answer to [`Command::GetAppnum`](super::Command::GetAppnum).
    Appnum(u32),
    /// Answer to [`Command::GetMyKvsname`](super::Command::GetMyKvsname).
    Kvsname(&'a str),
    /// Answer to [`Command::GetUniverseSize`](super::Command::GetUniverseSize), if it is known.
    UniverseSize(Option<u32>),
    /// Answer to [`Command::Put`](super::Command::Put) and
    /// [`Command::PutNodeAttribute`](super::Command::PutNodeAttribute).
    Put(Result<(), &'a str>),
    /// Answer to [`Command::Get`](super::Command::Get), [`Command::GetJobAttribute`](super::Command::GetJobAttribute)
    /// and [`Command::GetNodeAttribute`](super::Command::GetNodeAttribute): the value.
    Got(Result<&'a str, &'a str>),
    /// Answer to [`Command::BarrierIn`](super::Command::BarrierIn).
    BarrierOut(Result<(), &'a str>),
    /// Answer to [`Command::PublishName`](super::Command::PublishName).
    Published(Result<(), &'a str>),
    /// Answer to [`Command::LookupName`](super::Command::LookupName): the address.
    Found(Result<&'a str, &'a str>),
    /// Answer to [`Command::UnpublishName`](super::Command::UnpublishName).
    Unpublished(Result<(), &'a str>),
    /// Answer to [`Command::Spawn`](super::Command::Spawn): the key space of the new job.
    Spawned(Result<&'a str, &'a str>),
    /// Answer to [`Command::Finalize`](super::Command::Finalize).
    Finalized,
    /// Answer to [`Command::Unknown`](super::Command::Unknown), with the command's name.
    Unknown(&'a str),
}

/// The place of a rank in its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Its rank.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
    /// The number of its application in the job.
    pub app_number: u32,
    /// The job that spawned its job.
    pub spawner: Option<&'a str>,
}

impl Answer<'_> {
    /// The answer as a line of PMI-1, with its end.
    #[must_use]
    pub fn line(&self) -> String {
        match *self {
            Self::Begun(result) => {
                // PMI-1 has the minor release 1, PMI-2 has 0.
                let (version, minor) = if result == Ok(2) { (2, 0) } else { (1, 1) };
                let outcome = outcome(result.map(|_| ()));
                format!("cmd=response_to_init pmi_version={version} pmi_subversion={minor} {outcome}\n")
            }
            Self::Maxes => format!(
                "cmd=maxes kvsname_max={KVSNAME_BYTES_MAX} keylen_max={KEY_BYTES_MAX} vallen_max={VALUE_BYTES_MAX}\n"
            ),
            Self::Appnum(number) => format!("cmd=appnum appnum={number}\n"),
            Self::Kvsname(name) => format!("cmd=my_kvsname kvsname={}\n", word(name)),
            Self::UniverseSize(size) => {
                format!("cmd=universe_size size={}\n", size.map_or_else(|| "-1".to_owned(), |size| size.to_string()))
            }
            Self::Put(result) => format!("cmd=put_result {}\n", outcome(result)),
            Self::Got(result) => carry("cmd=get_result", "value", result),
            Self::BarrierOut(Ok(())) => "cmd=barrier_out\n".to_owned(),
            Self::BarrierOut(failure) => format!("cmd=barrier_out {}\n", outcome(failure)),
            Self::Published(result) => format!("cmd=publish_result {}{}\n", info(result.is_ok()), outcome(result)),
            Self::Found(result) => carry("cmd=lookup_result", "info=ok port", result),
            Self::Unpublished(result) => format!("cmd=unpublish_result {}{}\n", info(result.is_ok()), outcome(result)),
            Self::Spawned(result) => format!("cmd=spawn_result {}\n", outcome(result.map(|_| ()))),
            // PMI-1 has no such command.
            Self::Place(_) => format!("cmd=fullinit_result {}\n", outcome(Err("unknown command"))),
            Self::Finalized => "cmd=finalize_ack\n".to_owned(),
            Self::Unknown(name) => format!("cmd={}_result {}\n", word(name), outcome(Err("unknown command"))),
        }
    }

    /// The answer as a message of PMI-2, with its length.
    #[must_use]
    pub(super) fn message(&self, head: &ReplyHead) -> String {
        let success = ("rc", "0");
        match *self {
            Self::Place(Place { rank, size, app_number, spawner }) => {
                let [rank, size, app_number] = [rank, size, app_number].map(|number| number.to_string());
                let numbers = [("rank", &rank[..]), ("size", &size), ("appnum", &app_number)];
                // Slurm's library wants the release again.
                let mut fields = vec![success, ("pmi-version", "2"), ("pmi-subversion", "0")];
                fields.extend(numbers);
                fields.extend(spawner.map(|job| ("spawner-jobid", job)));
                head.message(&fields)
            }
            Self::Kvsname(name) => head.message(&[success, ("jobid", name)]),
            Self::Got(Ok(value)) => head.message(&[success, ("found", "TRUE"), ("value", value)]),
            // The absence of a value is no error.
            Self::Got(Err(_)) => head.message(&[success, ("found", "FALSE")]),
            // MPICH reads one of the two, Slurm the other.
            Self::Found(Ok(port)) => head.message(&[success, ("port", port), ("value", port)]),
            Self::Spawned(Ok(job)) => head.message(&[success, ("jobid", job)]),
            Self::Put(Ok(()))
            | Self::BarrierOut(Ok(()))
            | Self::Published(Ok(()))
            | Self::Unpublished(Ok(()))
            | Self::Finalized => head.message(&[success]),
            Self::Put(Err(reason))
            | Self::BarrierOut(Err(reason))
            | Self::Published(Err(reason))
            | Self::Unpublished(Err(reason))
            | Self::Found(Err(reason))
            | Self::Spawned(Err(reason)) => head.message(&[FAILURE, ("errmsg", reason)]),
            // PMI-2 has no commands for these.
            Self::Begun(_) | Self::Maxes | Self::Appnum(_) | Self::UniverseSize(_) | Self::Unknown(_) => {
                head.message(&[FAILURE, ("errmsg", "unknown command")])
            }
        }
    }
}

/// `PMI2_ERR_OTHER`. The libraries have no better number for most reasons.
const FAILURE: (&str, &str) = ("rc", "14");

fn outcome(result: Result<(), &str>) -> String {
    match result {
        Ok(()) => "rc=0 msg=success".to_owned(),
        Err(reason) => format!("rc=1 msg={}", word(reason)),
    }
}

/// Libraries of MPICH 1 to 3 read this field instead of `rc`.
const fn info(is_success: bool) -> &'static str {
    if is_success { "info=ok " } else { "" }
}

/// An answer with a value.
fn carry(head: &str, field: &str, result: Result<&str, &str>) -> String {
    match result.and_then(carriable) {
        Ok(value) => format!("{head} rc=0 msg=success {field}={value}\n"),
        Err(reason) => format!("{head} {}\n", outcome(Err(reason))),
    }
}

/// A value that a line can carry. A process that speaks PMIx may have stored any bytes.
fn carriable(value: &str) -> Result<&str, &str> {
    if is_word(value) { Ok(value) } else { Err("the value has a blank or a line end") }
}

fn is_word(text: &str) -> bool {
    !text.contains(|character: char| character == ' ' || character.is_control())
}

/// A text as one word.
fn word(text: &str) -> String {
    text.replace(|character: char| character == ' ' || character.is_control(), "_")
}

#[cfg(test)]
mod tests {
    use super::super::version_2::MessageFields;
    use super::*;

    #[test]
    fn answers_are_the_lines_that_the_libraries_expect() {
        for (answer, expected) in [
            (Answer::Begun(Ok(1)), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0 msg=success"),
            (Answer::Begun(Ok(2)), "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0 msg=success"),
            (Answer::Begun(Err("no")), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=1 msg=no"),
            (Answer::Maxes, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"),
            (Answer::Appnum(1), "cmd=appnum appnum=1"),
            (Answer::Kvsname("job-1"), "cmd=my_kvsname kvsname=job-1"),
            (Answer::UniverseSize(Some(8)), "cmd=universe_size size=8"),
            (Answer::UniverseSize(None), "cmd=universe_size size=-1"),
            (Answer::Put(Ok(())), "cmd=put_result rc=0 msg=success"),
            (Answer::Put(Err("no room")), "cmd=put_result rc=1 msg=no_room"),
            (Answer::Got(Ok("a=b")), "cmd=get_result rc=0 msg=success value=a=b"),
            (Answer::Got(Err("key not found")), "cmd=get_result rc=1 msg=key_not_found"),
            (Answer::BarrierOut(Ok(())), "cmd=barrier_out"),
            (Answer::BarrierOut(Err("lost")), "cmd=barrier_out rc=1 msg=lost"),
            (Answer::Published(Ok(())), "cmd=publish_result info=ok rc=0 msg=success"),
            (Answer::Found(Ok("p")), "cmd=lookup_result rc=0 msg=success info=ok port=p"),
            (Answer::Found(Err("service_not_found")), "cmd=lookup_result rc=1 msg=service_not_found"),
            (Answer::Unpublished(Ok(())), "cmd=unpublish_result info=ok rc=0 msg=success"),
            (Answer::Spawned(Err("no")), "cmd=spawn_result rc=1 msg=no"),
            (Answer::Finalized, "cmd=finalize_ack"),
            (Answer::Unknown("x"), "cmd=x_result rc=1 msg=unknown_command"),
        ] {
            assert_eq!(answer.line(), format!("{expected}\n"));
        }
    }

    #[test]
    fn answers_are_the_messages_that_the_libraries_expect() {
        let place = Place { rank: 1, size: 4, app_number: 0, spawner: None };
        for (command, answer, expected) in [
            (
                "fullinit",
                Answer::Place(place),
                "fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=4;appnum=0;",
            ),
            (
                "fullinit",
                Answer::Place(Place { spawner: Some("job"), ..place }),
                "fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=4;appnum=0;spawner-jobid=job;",
            ),
            ("job-getid", Answer::Kvsname("job"), "job-getid-response;rc=0;jobid=job;"),
            ("kvs-put;thrid=0x1", Answer::Put(Ok(())), "kvs-put-response;thrid=0x1;rc=0;"),
            ("kvs-get", Answer::Got(Ok("a=1;b")), "kvs-get-response;rc=0;found=TRUE;value=a=1;;b;"),
            ("kvs-get", Answer::Got(Err("no")), "kvs-get-response;rc=0;found=FALSE;"),
            ("kvs-fence", Answer::BarrierOut(Err("lost")), "kvs-fence-response;rc=14;errmsg=lost;"),
            ("name-lookup", Answer::Found(Ok("p")), "name-lookup-response;rc=0;port=p;value=p;"),
            ("spawn", Answer::Spawned(Ok("job-1")), "spawn-response;rc=0;jobid=job-1;"),
            ("ring", Answer::Unknown("ring"), "ring-response;rc=14;errmsg=unknown command;"),
        ] {
            let head = ReplyHead::of(&MessageFields::read(&format!("cmd={command};")).unwrap());
            let expected = format!("cmd={expected}");
            assert_eq!(answer.message(&head), format!("{:<6}{expected}", expected.len()));
        }
    }

    #[test]
    fn a_value_can_not_bring_a_second_line_or_field() {
        for value in ["a\ncmd=barrier_out", "a rc=1", "a\0"] {
            for answer in [Answer::Got(Ok(value)), Answer::Found(Ok(value)), Answer::Kvsname(value)] {
                let line = answer.line();
                assert_eq!(line.find('\n'), Some(line.len() - 1), "{line:?}");
                assert!(!line.contains(" rc=1 ") || line.contains(" msg="), "{line:?}");
            }
        }
        assert_eq!(Answer::Found(Ok("a b")).line(), "cmd=lookup_result rc=1 msg=the_value_has_a_blank_or_a_line_end\n");
    }
}
