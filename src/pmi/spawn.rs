//! The command that starts further processes. It takes many lines, and a group of them for each program.

/// Longest spawn in bytes, with all of its lines.
pub const SPAWN_BYTES_MAX: usize = 1 << 20;

/// Further processes, as one job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spawn {
    /// The programs, in the order of their ranks.
    pub programs: Vec<Program>,
    /// Keys and values in the key space of the new job from its begin.
    pub values: Vec<(String, String)>,
    /// The memory that it takes, in bytes.
    pub memory_bytes: usize,
}

/// One program of a spawn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// The program.
    pub command: String,
    /// Its arguments, without its name.
    pub arguments: Vec<String>,
    /// The number of its processes.
    pub count: i32,
    /// Hints of the caller, such as `wdir`.
    pub info: Vec<(String, String)>,
}

/// Why lines are no spawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpawnLinesError {
    /// Too many lines.
    #[error("a spawn is longer than {SPAWN_BYTES_MAX} bytes")]
    TooLong,
    /// A field that should be a number.
    #[error("the field {field:?} of a spawn is not a number")]
    NoNumber {
        /// The field.
        field: &'static str,
    },
}

/// A spawn whose last line has not come.
#[derive(Debug)]
pub(super) struct OpenSpawn {
    spawn: Spawn,
    program: Program,
    /// The key that waits for its value.
    key: Option<String>,
    group_count: u32,
    group: u32,
    /// The bytes of the lines.
    line_bytes: usize,
    /// The memory of what they say.
    memory_bytes: usize,
}

impl OpenSpawn {
    /// A spawn has begun.
    pub(super) fn begin() -> Self {
        let (spawn, program) = (Spawn::default(), Program::default());
        Self { spawn, program, key: None, group_count: 1, group: 1, line_bytes: 0, memory_bytes: 0 }
    }

    /// The memory that the spawn takes.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Takes a line. Returns the spawn if it is the last line of the last group.
    pub(super) fn take(&mut self, line: &str) -> Result<Option<Spawn>, SpawnLinesError> {
        self.line_bytes = self.line_bytes.saturating_add(line.len() + 1);
        if self.line_bytes > SPAWN_BYTES_MAX {
            return Err(SpawnLinesError::TooLong);
        }
        self.memory_bytes = self.memory_bytes.saturating_add(line.len() + size_of::<(String, String)>());
        if line == "endcmd" {
            self.memory_bytes = self.memory_bytes.saturating_add(size_of::<Program>());
            self.spawn.programs.push(std::mem::take(&mut self.program));
            let is_whole = self.group >= self.group_count;
            self.spawn.memory_bytes = self.memory_bytes;
            return Ok(is_whole.then(|| std::mem::take(&mut self.spawn)));
        }
        let Some((name, value)) = line.split_once('=') else { return Ok(None) };
        let number = |field| SpawnLinesError::NoNumber { field };
        match name {
            "nprocs" => self.program.count = value.parse().map_err(|_| number("nprocs"))?,
            "execname" => self.program.command = value.to_owned(),
            "totspawns" => self.group_count = value.parse().map_err(|_| number("totspawns"))?,
            "spawnssofar" => self.group = value.parse().map_err(|_| number("spawnssofar"))?,
            _ if is_numbered(name, "arg") => self.program.arguments.push(value.to_owned()),
            _ if is_numbered(name, "preput_key_") || is_numbered(name, "info_key_") => {
                self.key = Some(value.to_owned())
            }
            _ if is_numbered(name, "preput_val_") => {
                self.spawn.values.extend(self.key.take().map(|key| (key, value.to_owned())));
            }
            _ if is_numbered(name, "info_val_") => {
                self.program.info.extend(self.key.take().map(|key| (key, value.to_owned())));
            }
            // The numbers of arguments, values and hints follow from the lines.
            _ => {}
        }
        Ok(None)
    }
}

/// Whether a name is this one with a number behind it.
pub(super) fn is_numbered(name: &str, start: &str) -> bool {
    name.strip_prefix(start)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs and values of a whole spawn.
    type Whole = (Vec<Program>, Vec<(String, String)>);

    fn read(text: &str) -> Result<Option<Whole>, SpawnLinesError> {
        let mut open = OpenSpawn::begin();
        for line in text.lines() {
            if let Some(spawn) = open.take(line)? {
                return Ok(Some((spawn.programs, spawn.values)));
            }
        }
        Ok(None)
    }

    #[test]
    fn a_spawn_of_two_programs_is_read_as_mpich_writes_it() {
        let text = "nprocs=2\nexecname=./a b\ntotspawns=2\nspawnssofar=1\nargcnt=2\narg1=-x=1\narg2=two words\n\
                    preput_num=1\npreput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0$x=y$\n\
                    info_num=1\ninfo_key_0=wdir\ninfo_val_0=/tmp\nendcmd\n\
                    mcmd=spawn\nnprocs=1\nexecname=c\ntotspawns=2\nspawnssofar=2\nargcnt=0\ninfo_num=0\nendcmd\n";
        let text_of = |text: &str| text.to_owned();
        let first = Program {
            command: text_of("./a b"),
            arguments: vec![text_of("-x=1"), text_of("two words")],
            count: 2,
            info: vec![(text_of("wdir"), text_of("/tmp"))],
        };
        let second = Program { command: text_of("c"), count: 1, ..Program::default() };
        let values = vec![(text_of("PARENT_ROOT_PORT_NAME"), text_of("tag#0$x=y$"))];
        assert_eq!(read(text), Ok(Some((vec![first, second], values))));
    }

    /// Seven bytes of a line become a program of many more.
    #[test]
    fn the_memory_of_a_spawn_is_counted_while_it_comes() {
        let mut open = OpenSpawn::begin();
        for line in ["totspawns=1000", "endcmd", "endcmd", "execname=a"] {
            assert_eq!(open.take(line), Ok(None));
        }
        assert!(open.memory_bytes() > 2 * size_of::<Program>(), "{}", open.memory_bytes());
    }

    #[test]
    fn a_spawn_has_a_bound_and_real_numbers() {
        let no_number = |field| Err(SpawnLinesError::NoNumber { field });
        assert_eq!(read("nprocs=many\n"), no_number("nprocs"));
        assert_eq!(read("nprocs=1\ntotspawns=\n"), no_number("totspawns"));
        let argument = format!("arg1={}\n", "a".repeat(1000));
        assert_eq!(read(&argument.repeat(1100)), Err(SpawnLinesError::TooLong));
        assert_eq!(read("argument=a\narg=b\npreput_val_0=x\nendcmd\n"), Ok(Some((vec![Program::default()], vec![]))));
    }
}
