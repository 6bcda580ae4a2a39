//! Ports at which a server may listen.

use std::ops::RangeInclusive;
use std::str::FromStr;

/// Ports in the order in which a server tries them. Without any, the kernel chooses one.
///
/// ```
/// use modex::Ports;
///
/// let ports: Ports = "5000-5010,6000".parse()?;
/// assert_ne!(ports, Ports::default());
/// assert_eq!("0".parse::<Ports>()?, Ports::default());
/// assert!("5010-5000".parse::<Ports>().is_err());
/// # Ok::<(), modex::PortsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports(Vec<RangeInclusive<u16>>);

/// Why a list of ports can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?} is neither a port nor a range of ports such as 5000-5010")]
pub struct PortsError {
    /// The entry.
    entry: String,
}

impl Ports {
    /// Whether the kernel chooses the port.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ports to try; 0: the kernel's choice.
    pub(super) fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().cloned().flatten().chain(self.is_empty().then_some(0))
    }
}

impl FromStr for Ports {
    type Err = PortsError;

    /// Reads ports and ranges with commas between them. 0 and -1 leave the choice to the kernel, as in OpenPMIx.
    fn from_str(text: &str) -> Result<Self, PortsError> {
        let entries = text.split(',').map(str::trim).filter(|entry| !["", "0", "-1"].contains(entry));
        let range = |entry: &str| port_range(entry).ok_or_else(|| PortsError { entry: entry.to_owned() });
        entries.map(range).collect::<Result<_, _>>().map(Self)
    }
}

/// A port, or a range of ports such as `5000-5010`.
pub(crate) fn port_range(entry: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port != 0);
    let ends = port(first).zip(port(last)).filter(|(first, last)| first <= last);
    ends.map(|(first, last)| first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_tried_in_the_order_of_the_list() {
        let ports = |text: &str| text.parse::<Ports>().map(|ports| ports.iter().collect::<Vec<_>>());
        assert_eq!(ports("6000, 5000-5002,"), Ok(vec![6000, 5000, 5001, 5002]));
        for any in ["", "0", "-1"] {
            assert_eq!(ports(any), Ok(vec![0]));
        }
        for wrong in ["a", "70000", "5002-5000", "0-3", "1-2-3", "-2"] {
            assert!(ports(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
        }
    }
}
