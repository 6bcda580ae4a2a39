use std::fmt::Write;

use crate::proto::Version;

/// Contents of a rendezvous file, one item a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Address of the server, as [`ServerAddress`](crate::ptl::ServerAddress) reads it.
    pub address: String,
    /// The server's release, as the server writes it. Servers of release 2.0 write none, and so do people.
    pub version: Option<String>,
    /// The server's process.
    pub pid: Option<u32>,
    /// Its user and group.
    pub owner: Option<(u32, u32)>,
    /// Whether the server holds a lock on the file as long as it lives. Only ours do.
    pub is_locked: bool,
}

impl Contents {
    /// Longest file that is read. Servers write some hundred bytes.
    pub const SIZE_BYTES_MAX: usize = 8 << 10;
    /// Longest line that is read.
    pub const LINE_BYTES_MAX: usize = 1024;

    /// The server's release, if the file has one.
    #[must_use]
    pub fn peer_version(&self) -> Option<Version> {
        self.version.as_deref().map(|text| Version::parse(text.as_bytes()))
    }

    /// Reads a file's bytes. Only the first line is required; other lines that make no sense count as missing.
    ///
    /// # Errors
    /// The problem, as text for people.
    pub fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() > Self::SIZE_BYTES_MAX {
            return Err("it is longer than the file of any server");
        }
        let mut lines = bytes.split(|&byte| byte == b'\n').take(LINES_MAX).map(text);
        let address = lines.next().flatten().filter(|line| !line.is_empty()).ok_or("its first line is not text")?;
        if address.bytes().filter(|&byte| byte == b';').count() != 1 {
            return Err("its first line has no server and place, separated by one semicolon");
        }
        let version = lines.next().flatten().filter(|line| is_version(line)).map(str::to_owned);
        let pid = lines.next().flatten().and_then(number).filter(|&pid| pid > 0);
        let owner = lines.next().flatten().and_then(|line| line.split_once(':'));
        let owner = owner.and_then(|(uid, gid)| Some((number(uid)?, number(gid)?)));
        let is_locked = lines.any(|line| line == Some(LOCKED));
        Ok(Self { address: address.to_owned(), version, pid, owner, is_locked })
    }

    /// The file's text.
    ///
    /// `seconds` since 1970 are the time of writing.
    #[must_use]
    pub fn render(&self, seconds: u64) -> String {
        let mut text = format!("{}\n{}\n", self.address, self.version.as_deref().unwrap_or_default());
        let pid = self.pid.map_or_else(String::new, |pid| pid.to_string());
        let owner = self.owner.map_or_else(String::new, |(uid, gid)| format!("{uid}:{gid}"));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{pid}\n{owner}\n{}\n", date(seconds));
        if self.is_locked {
            text.push_str(LOCKED);
            text.push('\n');
        }
        text
    }
}

/// A line as text, without control characters.
fn text(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line).ok()?;
    let line = line.strip_suffix('\r').unwrap_or(line);
    (line.len() <= Contents::LINE_BYTES_MAX && !line.contains(char::is_control)).then_some(line)
}

fn is_version(line: &str) -> bool {
    line.strip_prefix('v').unwrap_or(line).starts_with(|first: char| first.is_ascii_digit())
}

/// Decimal digits alone.
fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// As `ctime` writes it, in universal time: `Sat Nov 21 01:44:31 2026`.
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    let weekday = WEEKDAYS.get(usize::try_from(days % 7).unwrap_or_default()).copied().unwrap_or_default();
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

/// Year, month and day of the month, `days` after the first of January 1970.
fn civil(mut days: u64) -> (u64, &'static str, u64) {
    // Four hundred years always have the same number of days; the loop below walks the rest year by year.
    let cycles = days / CYCLE_DAYS;
    days %= CYCLE_DAYS;
    let mut year = 1970 + 400 * cycles;
    while days >= year_days(year) {
        days -= year_days(year);
        year += 1;
    }
    for (name, length) in MONTHS {
        let length = if name == "Feb" && year_days(year) == 366 { 29 } else { length };
        if days < length {
            return (year, name, days + 1);
        }
        days -= length;
    }
    // The months' lengths add up to the year's.
    (year, "Dec", 31)
}

const fn year_days(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if is_leap { 366 } else { 365 }
}

const DAY_SECONDS: u64 = 24 * 3600;
const CYCLE_DAYS: u64 = 146_097;
/// The first of January 1970 was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [(&str, u64); 12] = [
    ("Jan", 31),
    ("Feb", 28),
    ("Mar", 31),
    ("Apr", 30),
    ("May", 31),
    ("Jun", 30),
    ("Jul", 31),
    ("Aug", 31),
    ("Sep", 30),
    ("Oct", 31),
    ("Nov", 30),
    ("Dec", 31),
];
/// Bound on the lines read.
const LINES_MAX: usize = 16;
/// Line that other libraries do not read: the server holds a lock.
const LOCKED: &str = "flock";
