//! Ids of devices, in the form of OpenPMIx. MPI libraries find an adapter's GUIDs in them.

/// The id of a network interface: `ipv4://ADDRESS` for a hardware address of 6 bytes, and `ipv6://ADDRESS` for one of
/// 20. `None` for any other.
pub(crate) fn of_interface(address: &str) -> Option<String> {
    let scheme = match address.matches(':').count() {
        5 => "ipv4",
        19 => "ipv6",
        _ => return None,
    };
    Some(format!("{scheme}://{address}"))
}

/// The id of an adapter: `fab://GUID::GUID`, first its own GUID, then that of its system image.
pub(crate) fn of_adapter(node_guid: &str, system_guid: &str) -> String {
    format!("fab://{node_guid}::{system_guid}")
}

/// The id of a GPU or coprocessor (`gpu`) or of a block device (`blk`), which have no name beyond their node.
pub(super) fn on_node(scheme: &str, node: &str, name: &str) -> String {
    format!("{scheme}://{node}::{name}")
}

/// The hardware address in the id of an interface, or an adapter's own GUID.
pub(crate) fn address(id: &str) -> Option<&str> {
    match id.split_once("://")? {
        ("ipv4" | "ipv6", address) => Some(address),
        ("fab", guids) => guids.split_once("::").map(|(node_guid, _)| node_guid),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_an_id_is_found_again() {
        let infiniband = ["80"; 20].join(":");
        let ids = [
            of_interface("02:fc:00:00:00:05"),
            of_interface(&infiniband),
            Some(of_adapter("b8e9:2403:00ba:a4c8", "b8e9:2403:00ba:a4c9")),
            Some(on_node("gpu", "node0", "cuda0")),
        ];
        let texts = ids.each_ref().map(|id| id.as_deref().unwrap());
        assert_eq!(texts[0], "ipv4://02:fc:00:00:00:05");
        assert_eq!(texts[2], "fab://b8e9:2403:00ba:a4c8::b8e9:2403:00ba:a4c9");
        assert_eq!(texts[3], "gpu://node0::cuda0");
        let addresses = [Some("02:fc:00:00:00:05"), Some(&infiniband), Some("b8e9:2403:00ba:a4c8"), None];
        assert_eq!(texts.map(address), addresses);
        assert_eq!(["fab://node0/eth0", "eth0", ""].map(address), [None; 3]);
        assert_eq!(["", "eth0", "02:fc"].map(of_interface), [const { None }; 3]);
    }
}
