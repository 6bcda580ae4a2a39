//! Directives for output on its way through the server: the part that is kept, and the size of deliveries.

use std::time::Duration;

use crate::keys;
use crate::types::{Info, InfoFlags, Status, Value};

/// Bounds of kept output, and the size of deliveries. `None`: no directive.
///
/// The server's start gives defaults, a spawn those of its job, and a pull its own. The later has precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputSettings {
    /// Bytes that are kept for each source and channel while no process has pulled them (`PMIX_IOF_CACHE_SIZE`).
    pub cache_bytes_max: Option<usize>,
    /// Whether the oldest kept bytes make room for new ones (`PMIX_IOF_DROP_OLDEST`), or new bytes are dropped
    /// (`PMIX_IOF_DROP_NEWEST`, the default).
    pub drops_oldest: Option<bool>,
    /// Bytes that a delivery waits for (`PMIX_IOF_BUFFERING_SIZE`).
    pub buffered_bytes: Option<usize>,
    /// The longest wait for them (`PMIX_IOF_BUFFERING_TIME`).
    pub buffering_time: Option<Duration>,
}

/// Most bytes that the deliveries of one pull wait for.
pub(crate) const PULL_BUFFER_BYTES_MAX: usize = 1 << 20;

/// Bytes of output without a pull that a server keeps, unless its limits say otherwise.
pub(super) const KEPT_BYTES_MAX: usize = 1 << 20;

/// Directives of [`OutputSettings`].
pub(crate) const OUTPUT_DIRECTIVES: [&str; 5] = [
    keys::IOF_CACHE_SIZE.name(),
    keys::IOF_DROP_OLDEST.name(),
    keys::IOF_DROP_NEWEST.name(),
    keys::IOF_BUFFERING_SIZE.name(),
    keys::IOF_BUFFERING_TIME.name(),
];

impl OutputSettings {
    /// Whether a key is one of these directives.
    #[must_use]
    pub fn is_directive(key: &str) -> bool {
        OUTPUT_DIRECTIVES.contains(&key)
    }

    /// Reads directives. Others are ignored.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a value of another type, and for both ways to drop at once.
    pub fn of<'a>(infos: impl IntoIterator<Item = &'a Info>) -> Result<Self, Status> {
        let mut settings = Self::default();
        for info in infos {
            settings.take(info.key.as_str(), &info.value)?;
        }
        Ok(settings)
    }

    /// Takes one directive. Others are ignored.
    ///
    /// # Errors
    /// As [`OutputSettings::of`].
    pub fn take(&mut self, key: &str, value: &Value) -> Result<(), Status> {
        let size = || value.as_u32().map(|size| size as usize).ok_or(Status::ERR_BAD_PARAM);
        if key == keys::IOF_CACHE_SIZE.name() {
            self.cache_bytes_max = Some(size()?);
        } else if key == keys::IOF_BUFFERING_SIZE.name() {
            self.buffered_bytes = Some(size()?);
        } else if key == keys::IOF_BUFFERING_TIME.name() {
            let seconds = value.as_u32().ok_or(Status::ERR_BAD_PARAM)?;
            self.buffering_time = Some(Duration::from_secs(seconds.into()));
        } else if OUTPUT_DIRECTIVES.contains(&key) {
            let is_set = value.as_bool().ok_or(Status::ERR_BAD_PARAM)?;
            let drops_oldest = is_set == (key == keys::IOF_DROP_OLDEST.name());
            if self.drops_oldest.is_some_and(|other| other != drops_oldest) {
                return Err(Status::ERR_BAD_PARAM);
            }
            self.drops_oldest = Some(drops_oldest);
        }
        Ok(())
    }

    /// These settings, and the weaker ones for the rest.
    #[must_use]
    pub fn or(self, weaker: Self) -> Self {
        Self {
            cache_bytes_max: self.cache_bytes_max.or(weaker.cache_bytes_max),
            drops_oldest: self.drops_oldest.or(weaker.drops_oldest),
            buffered_bytes: self.buffered_bytes.or(weaker.buffered_bytes),
            buffering_time: self.buffering_time.or(weaker.buffering_time),
        }
    }

    /// Whether a delivery waits for more bytes.
    pub(crate) fn collects(&self) -> bool {
        match (self.buffered_bytes, self.buffering_time) {
            (Some(size), time) => size > 1 && time != Some(Duration::ZERO),
            (None, Some(time)) => time > Duration::ZERO,
            (None, None) => false,
        }
    }

    /// Reads the directives of a request, and takes the mark off those that the server honours. The host need not know
    /// them.
    ///
    /// # Errors
    /// As [`OutputSettings::of`]; `ERR_NOT_SUPPORTED` for a required size beyond a bound of the server.
    pub(crate) fn honoured(directives: &mut [Info], kept_bytes_max: usize) -> Result<Self, Status> {
        let settings = Self::within(directives, kept_bytes_max)?;
        for info in directives.iter_mut().filter(|info| Self::is_directive(info.key.as_str())) {
            info.flags &= !InfoFlags::REQUIRED.bits();
        }
        Ok(settings)
    }

    /// As [`OutputSettings::honoured`], but the marks stay.
    pub(crate) fn within(directives: &[Info], kept_bytes_max: usize) -> Result<Self, Status> {
        let is_refused = |info: &Info| {
            info.flags().contains(InfoFlags::REQUIRED) && is_beyond(info.key.as_str(), &info.value, kept_bytes_max)
        };
        let settings = Self::of(directives)?;
        if directives.iter().any(is_refused) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(settings) }
    }

    /// Whether a directive asks for more than a server of this library has room for.
    #[doc(hidden)]
    #[must_use]
    pub fn is_beyond_bounds(key: &str, value: &Value) -> bool {
        is_beyond(key, value, KEPT_BYTES_MAX)
    }
}

fn is_beyond(key: &str, value: &Value, kept_bytes_max: usize) -> bool {
    let bound = match key {
        key if key == keys::IOF_CACHE_SIZE.name() => kept_bytes_max,
        key if key == keys::IOF_BUFFERING_SIZE.name() => PULL_BUFFER_BYTES_MAX,
        _ => return false,
    };
    value.as_u32().is_some_and(|size| size as usize > bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Key;

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    #[test]
    fn the_later_has_precedence_and_contradictions_are_refused() {
        let of = |infos: &[Info]| OutputSettings::of(infos);
        let job = of(&[info("pmix.iof.csize", 5_u32), info("pmix.iof.old", true)]).unwrap();
        let own = of(&[info("pmix.iof.csize", 7_u64), info("pmix.iof.btime", 2_u32)]).unwrap();
        let both = OutputSettings {
            cache_bytes_max: Some(7),
            drops_oldest: Some(true),
            buffered_bytes: None,
            buffering_time: Some(Duration::from_secs(2)),
        };
        assert_eq!(own.or(job), both);
        assert_eq!(of(&[info("pmix.iof.new", false)]).unwrap().drops_oldest, Some(true));
        assert_eq!(of(&[info("pmix.iof.new", true), info("pmix.iof.old", true)]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(of(&[info("pmix.iof.csize", "many")]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(of(&[info("pmix.iof.xml", "no setting")]), Ok(OutputSettings::default()));
    }

    #[test]
    fn a_delivery_waits_only_where_asked() {
        let settings = |size: Option<usize>, seconds: Option<u64>| OutputSettings {
            buffered_bytes: size,
            buffering_time: seconds.map(Duration::from_secs),
            ..OutputSettings::default()
        };
        assert!(settings(Some(2), None).collects() && settings(None, Some(1)).collects());
        for (size, seconds) in [(None, None), (Some(1), None), (Some(9), Some(0)), (None, Some(0)), (Some(0), Some(1))]
        {
            assert!(!settings(size, seconds).collects(), "{size:?} {seconds:?}");
        }
    }

    #[test]
    fn a_required_size_beyond_the_servers_bound_is_refused() {
        let required = |key: &'static str, size: u32| Info { flags: 1, ..info(key, size) };
        let mut fitting = [required("pmix.iof.csize", 100), required("pmix.iof.xml", 1)];
        assert_eq!(OutputSettings::honoured(&mut fitting, 100).unwrap().cache_bytes_max, Some(100));
        assert_eq!(fitting.map(|info| info.flags), [0, 1], "the host must decide about the other");
        assert_eq!(
            OutputSettings::honoured(&mut [required("pmix.iof.csize", 101)], 100),
            Err(Status::ERR_NOT_SUPPORTED)
        );
        assert!(OutputSettings::honoured(&mut [info("pmix.iof.csize", 101_u32)], 100).is_ok());
        let large = u32::try_from(PULL_BUFFER_BYTES_MAX + 1).unwrap();
        assert!(OutputSettings::honoured(&mut [required("pmix.iof.bsize", large)], 100).is_err());
    }
}
