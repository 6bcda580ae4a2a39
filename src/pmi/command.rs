//! Lines to commands.

use super::lines::{LineBuffer, LineTooLong};
use super::spawn::{OpenSpawn, Spawn, SpawnLinesError};

/// A command of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The rank begins, and names its release of the protocol.
    Init {
        /// The release; 2 is another protocol.
        version: u32,
    },
    /// Question for the longest names and values.
    GetMaxes,
    /// Question for the number of its application in the job.
    GetAppnum,
    /// Question for the name of the job's key space.
    GetMyKvsname,
    /// Question for the number of processes that may exist.
    GetUniverseSize,
    /// A value for all ranks, after the next barrier.
    Put {
        /// The key space.
        kvsname: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Question for a value that any rank has put.
    Get {
        /// The key space.
        kvsname: String,
        /// The key.
        key: String,
    },
    /// A wait for all ranks.
    BarrierIn,
    /// An address to publish under the name of a service.
    PublishName {
        /// The name.
        service: String,
        /// The address.
        port: String,
    },
    /// Question for the address of a service.
    LookupName {
        /// The name.
        service: String,
    },
    /// The end of a published address.
    UnpublishName {
        /// The name.
        service: String,
    },
    /// Further processes.
    Spawn(Spawn),
    /// The end of the job.
    Abort {
        /// The exit status of the job.
        exit_code: i32,
        /// The reason, for people; empty if it gave none.
        message: String,
    },
    /// The end of the rank's use of PMI.
    Finalize,
    /// Another command.
    Unknown {
        /// Its name: lower-case letters, digits, underscores and hyphens.
        name: String,
    },
}

/// Why a line is no command. The connection has no further use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// A line without end.
    #[error(transparent)]
    TooLong(#[from] LineTooLong),
    /// Lines that are no spawn.
    #[error(transparent)]
    Spawn(#[from] SpawnLinesError),
    /// Bytes that are no text.
    #[error("a line is not UTF-8")]
    NotText,
    /// A line that begins otherwise.
    #[error("a line does not begin with \"cmd=\" and the name of a command; is another protocol spoken?")]
    NoCommand,
    /// A command without one of its fields.
    #[error("the command {command:?} lacks the field {field:?}")]
    Lacks {
        /// The command.
        command: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A field that should be a number.
    #[error("the field {field:?} of the command {command:?} is not a number")]
    NoNumber {
        /// The command.
        command: &'static str,
        /// The field.
        field: &'static str,
    },
}

/// Takes the bytes of a rank and gives its commands.
#[derive(Debug, Default)]
pub struct CommandReader {
    lines: LineBuffer,
    /// The command that takes several lines, if one is open.
    spawn: Option<OpenSpawn>,
}

impl CommandReader {
    /// Appends bytes in the order of their arrival.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.lines.feed(bytes);
    }

    /// Whether lines, or an error, wait.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.lines.is_ready()
    }

    /// Bytes of memory for what waits.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.lines.pending_bytes() + self.spawn.as_ref().map_or(0, OpenSpawn::memory_bytes)
    }

    /// The next command; `None`: its end has not come, or it takes a further call ([`CommandReader::is_ready`]).
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn next_command(&mut self) -> Result<Option<Command>, CommandError> {
        for _ in 0..SPAWN_LINES_MAX {
            let Some(line) = self.lines.next_line()? else { break };
            let line = std::str::from_utf8(&line).map_err(|_| CommandError::NotText)?;
            match &mut self.spawn {
                Some(open) => {
                    if let Some(spawn) = open.take(line)? {
                        self.spawn = None;
                        return Ok(Some(Command::Spawn(spawn)));
                    }
                }
                None if line.trim_end_matches(' ') == "mcmd=spawn" => self.spawn = Some(OpenSpawn::begin()),
                None => return parse(line.trim_end_matches(' ')).map(Some),
            }
        }
        Ok(None)
    }
}

/// Limit of the lines of a spawn that one call takes.
const SPAWN_LINES_MAX: usize = 256;

fn parse(line: &str) -> Result<Command, CommandError> {
    let rest = line.strip_prefix("cmd=").ok_or(CommandError::NoCommand)?;
    let name = rest.split(' ').next().unwrap_or_default();
    let fields = |command| Fields { command, text: rest.get(name.len()..).unwrap_or_default() };
    Ok(match name {
        "init" => Command::Init { version: fields("init").number("pmi_version")? },
        "get_maxes" => Command::GetMaxes,
        "get_appnum" => Command::GetAppnum,
        "get_my_kvsname" => Command::GetMyKvsname,
        "get_universe_size" => Command::GetUniverseSize,
        "put" => {
            let fields = fields("put");
            let [kvsname, key, value] = ["kvsname", "key", "value"].map(|field| fields.word(field));
            Command::Put { kvsname: kvsname?, key: key?, value: value? }
        }
        "get" => {
            let fields = fields("get");
            Command::Get { kvsname: fields.word("kvsname")?, key: fields.word("key")? }
        }
        "barrier_in" => Command::BarrierIn,
        "publish_name" => {
            let fields = fields("publish_name");
            Command::PublishName { service: fields.text("service", Some("port"))?, port: fields.text("port", None)? }
        }
        "lookup_name" => Command::LookupName { service: fields("lookup_name").text("service", None)? },
        "unpublish_name" => Command::UnpublishName { service: fields("unpublish_name").text("service", None)? },
        "abort" => {
            let fields = fields("abort");
            // A job that is to end ends, whatever the line lacks.
            let exit_code = fields.number("exitcode").unwrap_or(1);
            Command::Abort { exit_code, message: fields.text("message", None).unwrap_or_default() }
        }
        "finalize" => Command::Finalize,
        name if is_name(name) => Command::Unknown { name: name.to_owned() },
        _ => return Err(CommandError::NoCommand),
    })
}

/// Whether a text can be the name of a command.
fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_part)
}

/// Longest name of a command in bytes.
const NAME_BYTES_MAX: usize = 32;

/// The fields of a command, each with a blank in front of it.
#[derive(Clone, Copy)]
struct Fields<'a> {
    command: &'static str,
    text: &'a str,
}

impl Fields<'_> {
    /// The place behind `NAME=` of a field.
    fn behind(&self, field: &'static str) -> Result<&str, CommandError> {
        let mut places = self.text.match_indices(field).map(|(at, _)| at);
        let found = places.find_map(|at| {
            self.text.get(..at)?.ends_with(' ').then_some(())?;
            self.text.get(at..)?.strip_prefix(field)?.strip_prefix('=')
        });
        found.ok_or(CommandError::Lacks { command: self.command, field })
    }

    /// A value without blanks.
    fn word(&self, field: &'static str) -> Result<String, CommandError> {
        self.behind(field).map(|value| value.split(' ').next().unwrap_or_default().to_owned())
    }

    fn number<T: std::str::FromStr>(&self, field: &'static str) -> Result<T, CommandError> {
        let value = self.word(field)?;
        value.parse().map_err(|_| CommandError::NoNumber { command: self.command, field })
    }

    /// A value that may have blanks: up to the last place of the next field, or to the end of the line.
    fn text(&self, field: &'static str, next: Option<&'static str>) -> Result<String, CommandError> {
        let value = self.behind(field)?;
        let end = next.and_then(|next| value.rfind(&format!(" {next}="))).unwrap_or(value.len());
        Ok(value.get(..end).unwrap_or_default().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The commands of these lines, until the first error.
    fn commands(text: &[u8]) -> Result<Vec<Command>, CommandError> {
        let mut reader = CommandReader::default();
        reader.feed(text);
        std::iter::from_fn(|| reader.next_command().transpose()).collect()
    }

    fn one(line: &str) -> Result<Command, CommandError> {
        commands(format!("{line}\n").as_bytes()).map(|mut commands| commands.pop().unwrap())
    }

    #[test]
    fn the_lines_of_mpich_and_intel_mpi_are_understood() {
        let put = Command::Put { kvsname: "k_1".into(), key: "-bcast-1-0".into(), value: "4d2==,x=y".into() };
        let publish = Command::PublishName { service: "my srv".into(), port: "tag#0$ifname#10.0.0.1$".into() };
        for (line, expected) in [
            ("cmd=init pmi_version=1 pmi_subversion=1", Command::Init { version: 1 }),
            ("cmd=get_maxes", Command::GetMaxes),
            ("cmd=get_maxes ", Command::GetMaxes),
            ("cmd=get_appnum", Command::GetAppnum),
            ("cmd=get_my_kvsname", Command::GetMyKvsname),
            ("cmd=get_universe_size", Command::GetUniverseSize),
            ("cmd=put kvsname=k_1 key=-bcast-1-0 value=4d2==,x=y", put),
            (
                "cmd=get kvsname=k_1 key=PMI_process_mapping",
                Command::Get { kvsname: "k_1".into(), key: "PMI_process_mapping".into() },
            ),
            ("cmd=barrier_in", Command::BarrierIn),
            ("cmd=publish_name service=my srv port=tag#0$ifname#10.0.0.1$", publish),
            ("cmd=lookup_name service=my srv", Command::LookupName { service: "my srv".into() }),
            ("cmd=unpublish_name service=s", Command::UnpublishName { service: "s".into() }),
            ("cmd=abort exitcode=7", Command::Abort { exit_code: 7, message: String::new() }),
            (
                "cmd=abort exitcode=-1 message=no more memory",
                Command::Abort { exit_code: -1, message: "no more memory".into() },
            ),
            ("cmd=finalize", Command::Finalize),
            ("cmd=get_ranks2hosts", Command::Unknown { name: "get_ranks2hosts".into() }),
        ] {
            assert_eq!(one(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn several_lines_in_one_read_are_several_commands() {
        let found = commands(b"cmd=get_maxes\ncmd=get_appnum\ncmd=barr");
        assert_eq!(found, Ok(vec![Command::GetMaxes, Command::GetAppnum]));
    }

    #[test]
    fn a_spawn_is_one_command_whatever_its_lines_say() {
        let group = |number| format!("mcmd=spawn\nnprocs=2\ntotspawns=2\nspawnssofar={number}\nargcnt=0\nendcmd\n");
        let text = [&group(1), &group(2), "cmd=finalize\n"].concat();
        let found = commands(text.as_bytes()).unwrap();
        assert!(
            matches!(&found[..], [Command::Spawn(spawn), Command::Finalize] if spawn.programs.len() == 2),
            "{found:?}"
        );
        let text = "mcmd=spawn\narg1=cmd=abort exitcode=1\narg2=x \nendcmd\n";
        let found = commands(text.as_bytes()).unwrap();
        let [Command::Spawn(spawn)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(spawn.programs[0].arguments, ["cmd=abort exitcode=1", "x "]);
    }

    #[test]
    fn a_line_that_is_no_command_names_its_fault() {
        let lacks = |command, field| CommandError::Lacks { command, field };
        for (line, expected) in [
            ("", CommandError::NoCommand),
            ("hello", CommandError::NoCommand),
            ("cmd=", CommandError::NoCommand),
            ("cmd=Rm -rf", CommandError::NoCommand),
            ("cmd=init", lacks("init", "pmi_version")),
            ("cmd=init pmi_version=", CommandError::NoNumber { command: "init", field: "pmi_version" }),
            ("cmd=put kvsname=k key=a", lacks("put", "value")),
            ("cmd=get kvsname=k akey=a", lacks("get", "key")),
            ("cmd=publish_name service=a", lacks("publish_name", "port")),
        ] {
            assert_eq!(one(line), Err(expected), "{line:?}");
        }
        assert_eq!(commands(b"cmd=\xff\n"), Err(CommandError::NotText));
        assert_eq!(commands(&[b'a'; 1 << 16]), Err(CommandError::TooLong(LineTooLong)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(pieces in prop::collection::vec(piece(), 0..30)) {
            let mut reader = CommandReader::default();
            for piece in pieces {
                reader.feed(&piece);
                while let Ok(Some(_)) = reader.next_command() {}
            }
        }

        #[test]
        fn a_put_arrives_as_it_was_written(key in "[!-~]{1,64}", value in "[!-~]{0,1024}") {
            let found = one(&format!("cmd=put kvsname=job key={key} value={value}"));
            prop_assert_eq!(found, Ok(Command::Put { kvsname: "job".into(), key, value }));
        }
    }

    /// Pieces of valid commands, and noise.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let words = ["cmd=", "put", "get", " key=", " value=", "abort", " exitcode=", "mcmd=spawn\n", "endcmd\n", "\n"];
        prop_oneof![
            prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..8),
        ]
    }
}
