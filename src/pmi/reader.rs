//! Bytes of a rank to commands, and answers to bytes, in the release that the rank speaks.

use super::answer::Answer;
use super::command::{Command, CommandError};
use super::messages::{Framing, MessageBuffer};
use super::spawn::OpenSpawn;
use super::version_2::{MessageFields, ReplyHead};
use super::{version_1, version_2};

/// Takes the bytes of a rank and gives its commands.
#[derive(Debug, Default)]
pub struct CommandReader {
    messages: MessageBuffer,
    /// The command that takes several lines, if one is open.
    spawn: Option<OpenSpawn>,
    /// The begin of the answer to the last command of PMI-2.
    reply_head: ReplyHead,
}

impl CommandReader {
    /// Appends bytes in the order of their arrival.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.messages.feed(bytes);
    }

    /// Whether a message, or the error of one, waits.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.messages.is_ready()
    }

    /// Bytes of memory for what waits.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.messages.pending_bytes() + self.spawn.as_ref().map_or(0, OpenSpawn::memory_bytes)
    }

    /// The next command; `None`: its end has not come, or it takes a further call ([`CommandReader::is_ready`]).
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn next_command(&mut self) -> Result<Option<Command>, CommandError> {
        for _ in 0..SPAWN_LINES_MAX {
            let Some(message) = self.messages.next_message()? else { break };
            let line = std::str::from_utf8(&message).map_err(|_| CommandError::NotText)?;
            if self.messages.framing() == Framing::Lengths {
                let fields = MessageFields::read(line)?;
                self.reply_head = ReplyHead::of(&fields);
                return version_2::parse(&fields).map(Some);
            }
            match &mut self.spawn {
                Some(open) => {
                    if let Some(spawn) = open.take(line)? {
                        self.spawn = None;
                        return Ok(Some(Command::Spawn(spawn)));
                    }
                }
                None if line.trim_end_matches(' ') == "mcmd=spawn" => self.spawn = Some(OpenSpawn::begin()),
                None => {
                    let command = version_1::parse(line.trim_end_matches(' '))?;
                    if matches!(command, Command::Init { version: 2 }) {
                        self.messages.set_framing(Framing::Lengths);
                    }
                    return Ok(Some(command));
                }
            }
        }
        Ok(None)
    }

    /// The answer to the last command, in the form of the rank's release.
    ///
    /// ```
    /// use modex::pmi::{Answer, CommandReader};
    ///
    /// let mut reader = CommandReader::default();
    /// reader.feed(b"cmd=init pmi_version=2 pmi_subversion=0\n25    cmd=kvs-put;key=a;value=;");
    /// reader.next_command().unwrap();
    /// reader.next_command().unwrap();
    /// assert_eq!(reader.answer(Answer::Put(Ok(()))), "26    cmd=kvs-put-response;rc=0;");
    /// ```
    #[must_use]
    pub fn answer(&self, answer: Answer<'_>) -> String {
        match (answer, self.messages.framing()) {
            // The begin has the form of PMI-1 in both.
            (Answer::Begun(_), _) | (_, Framing::Lines) => answer.line(),
            (_, Framing::Lengths) => answer.message(&self.reply_head),
        }
    }
}

/// Limit of the lines of a spawn that one call takes.
const SPAWN_LINES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::messages::MessageError;
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
        let put = Command::Put { kvsname: Some("k_1".into()), key: "-bcast-1-0".into(), value: "4d2==,x=y".into() };
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
                Command::Get { kvsname: Some("k_1".into()), key: "PMI_process_mapping".into() },
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
        assert_eq!(commands(&[b'a'; 1 << 16]), Err(CommandError::Message(MessageError::LineTooLong)));
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
            prop_assert_eq!(found, Ok(Command::Put { kvsname: Some("job".into()), key, value }));
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
