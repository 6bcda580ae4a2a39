//! The choice of an address of this node on which a server listens for other machines.

use std::io;
use std::net::{IpAddr, Ipv6Addr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// The network interfaces of this node that a server may use, by name or by subnet.
///
/// ```
/// use modex::Interfaces;
///
/// let all = Interfaces::default();
/// let some = Interfaces::parse("ib0,10.1.0.0/16", "10.1.7.0/24")?;
/// assert_ne!(all, some);
/// assert!(Interfaces::parse("10.1.0.0/33", "").is_err());
/// # Ok::<(), modex::InterfacesError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces {
    include: Vec<Selector>,
    exclude: Vec<Selector>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Selector {
    Name(String),
    Subnet(IpAddr, u32),
}

/// Why a list of interfaces can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?} is neither the name of a network interface nor a subnet such as 10.1.0.0/16")]
pub struct InterfacesError {
    /// The entry.
    entry: String,
}

impl Interfaces {
    /// Reads lists with commas between names and subnets (`address/bits`). Without an included entry all interfaces
    /// count except the loopback ones.
    ///
    /// # Errors
    /// [`InterfacesError`].
    pub fn parse(include: &str, exclude: &str) -> Result<Self, InterfacesError> {
        let entries = |list: &str| -> Result<Vec<_>, _> {
            list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(Selector::parse).collect()
        };
        Ok(Self { include: entries(include)?, exclude: entries(exclude)? })
    }

    /// Addresses of this node on these interfaces, in the kernel's order. An address that counts on one link alone
    /// needs the number of its interface, which no address of a server has: these are left out.
    pub(super) fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        let mut addresses = Vec::new();
        for interface in getifaddrs()? {
            let Some(address) = interface.address else { continue };
            let ipv4 = address.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
            let ipv6 = || address.as_sockaddr_in6().map(|address| IpAddr::from(address.ip()));
            let is_up = interface.flags.contains(InterfaceFlags::IFF_UP);
            let found = ipv4.or_else(ipv6).filter(|address| is_up && self.admits(&interface.interface_name, *address));
            addresses.extend(found);
        }
        Ok(addresses)
    }

    fn admits(&self, name: &str, address: IpAddr) -> bool {
        let is_of_link = matches!(address, IpAddr::V6(address) if Ipv6Addr::is_unicast_link_local(&address));
        let is_among = |selectors: &[Selector]| selectors.iter().any(|selector| selector.selects(name, address));
        // A wide subnet means other machines, which reach no loopback address.
        let means = |selector: &Selector| {
            !address.is_loopback() || !matches!(selector, Selector::Subnet(net, _) if !net.is_loopback())
        };
        let includes = |selector: &Selector| selector.selects(name, address) && means(selector);
        let is_included =
            if self.include.is_empty() { !address.is_loopback() } else { self.include.iter().any(includes) };
        is_included && !is_of_link && !is_among(&self.exclude)
    }
}

impl Selector {
    fn parse(entry: &str) -> Result<Self, InterfacesError> {
        let wrong = || InterfacesError { entry: entry.to_owned() };
        let Some((address, bits)) = entry.split_once('/') else {
            let is_name = entry.bytes().all(|byte| byte.is_ascii_graphic());
            return if is_name { Ok(Self::Name(entry.to_owned())) } else { Err(wrong()) };
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits: u32 = bits.parse().map_err(|_| wrong())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        if bits <= bits_max { Ok(Self::Subnet(address, bits)) } else { Err(wrong()) }
    }

    fn selects(&self, name: &str, address: IpAddr) -> bool {
        match (self, address) {
            (Self::Name(wanted), _) => wanted == name,
            (Self::Subnet(IpAddr::V4(net), bits), IpAddr::V4(address)) => {
                let differing = net.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= *bits
            }
            (Self::Subnet(IpAddr::V6(net), bits), IpAddr::V6(address)) => {
                let differing = net.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= *bits
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(include: &str, exclude: &str, name: &str, address: &str) -> bool {
        Interfaces::parse(include, exclude).unwrap().admits(name, address.parse().unwrap())
    }

    #[test]
    fn interfaces_are_selected_by_name_and_by_subnet() {
        for (include, exclude, expected) in [
            ("", "", [false, true, true, true, false]),
            ("eth0", "", [false, true, false, true, false]),
            ("10.2.0.0/16", "", [false, false, true, false, false]),
            ("", "10.2.0.0/15", [false, true, false, true, false]),
            ("", "eth0 , ib0", [false; 5]),
            ("lo,2001:db8::/32", "", [true, false, false, true, false]),
            ("0.0.0.0/0", "", [false, true, true, false, false]),
            ("127.0.0.0/8", "", [true, false, false, false, false]),
        ] {
            let addresses = [
                ("lo", "127.0.0.1"),
                ("eth0", "10.1.0.7"),
                ("ib0", "10.2.255.7"),
                ("eth0", "2001:db8::7"),
                ("eth0", "fe80::7"),
            ];
            let found = addresses.map(|(name, address)| admits(include, exclude, name, address));
            assert_eq!(found, expected, "{include:?} {exclude:?}");
        }
    }

    #[test]
    fn a_text_that_is_neither_interface_nor_subnet_is_refused() {
        for wrong in ["10.1.0.0/33", "10.1/16", "::/129", "a/b", "10.0.0.0/-1", "eth 0"] {
            assert!(Interfaces::parse(wrong, "").unwrap_err().to_string().contains(&format!("{wrong:?}")), "{wrong}");
            assert!(Interfaces::parse("", wrong).is_err());
        }
    }
}
