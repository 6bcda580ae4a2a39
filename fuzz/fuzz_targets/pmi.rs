//! The messages of a rank that speaks PMI-1 or PMI-2: they are commands or an error, in whatever pieces they come.
//!
//! Input: the size of the pieces, and the bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modex::pmi::{Answer, Command, CommandError, CommandReader, MESSAGE_BYTES_MAX};

fuzz_target!(|input: &[u8]| {
    let Some((size, bytes)) = input.split_first() else { return };
    let whole = commands([bytes].into_iter());
    let pieces = commands(bytes.chunks(usize::from(*size).max(1)));
    assert_eq!(whole, pieces, "the commands depend on the pieces in which they come");
    for command in &whole.0 {
        check(command);
    }
});

/// The commands up to the first error, and the error.
fn commands<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Command>, Option<CommandError>) {
    let (mut reader, mut found) = (CommandReader::default(), Vec::new());
    for piece in pieces {
        reader.feed(piece);
        loop {
            match reader.next_command() {
                Ok(Some(command)) => found.push(command),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
        assert!(!reader.is_ready() && reader.pending_bytes() <= MESSAGE_BYTES_MAX + 6);
    }
    (found, None)
}

/// A text of a rank stays within a line, also in an answer.
fn check(command: &Command) {
    let texts = match command {
        Command::Put { kvsname: Some(kvsname), key, value } => {
            let line = format!("cmd=put kvsname={kvsname} key={key} value={value}\n");
            assert_eq!(commands([line.as_bytes()].into_iter()), (vec![command.clone()], None));
            vec![kvsname, key, value]
        }
        Command::Get { kvsname: Some(kvsname), key } => vec![kvsname, key],
        Command::PutNodeAttribute { key, value } | Command::Put { kvsname: None, key, value } => vec![key, value],
        Command::Get { kvsname: None, key }
        | Command::GetNodeAttribute { key, .. }
        | Command::GetJobAttribute { key } => vec![key],
        Command::PublishName { service, port } => vec![service, port],
        Command::LookupName { service } | Command::UnpublishName { service } => vec![service],
        Command::Abort { message, .. } => vec![message],
        Command::Unknown { name } => vec![name],
        _ => Vec::new(),
    };
    for text in texts {
        assert!(text.len() <= MESSAGE_BYTES_MAX);
        for answer in [Answer::Got(Ok(text)), Answer::Got(Err(text)), Answer::Found(Ok(text)), Answer::Unknown(text)] {
            let line = answer.line();
            assert_eq!(line.find('\n'), Some(line.len() - 1), "{line:?}");
        }
    }
}
