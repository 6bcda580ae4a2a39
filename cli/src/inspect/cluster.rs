//! The inventories of all nodes that servers know.

use std::collections::BTreeMap;
use std::error::Error;

use modex::ptl::rendezvous::Found;
use modex::topo::Inventory;
use modex::types::Value;
use modex::{Server, keys};

use super::error::InspectError;
use super::find;
use super::hardware::{ClusterReport, InventoryReport};
use super::options::Target;
use super::view::{Problem, Report};
use crate::ps::{self, Connection};

/// Asks the servers of this user, or the one of the target.
pub(super) fn report(target: &Target) -> Result<Report, InspectError> {
    let wanted = match &target.socket {
        Some(address) => Some(find::server_at(address)?),
        None => target.pid,
    };
    let mut servers = ps::servers();
    if let Some(pid) = wanted {
        servers.retain(|found| found.contents.pid == Some(pid));
        if servers.is_empty() {
            return Err(InspectError::NoServer { pid });
        }
    }
    let (mut clusters, mut problems) = (Vec::new(), Vec::new());
    for found in servers {
        match ask(&found) {
            Ok(cluster) => clusters.push(cluster),
            // The process has ended meanwhile.
            Err(_) if !found.path.exists() => {}
            Err(error) => {
                problems.push(Problem { place: found.path.display().to_string(), message: error.to_string() })
            }
        }
    }
    Ok(Report::of_clusters(clusters, problems))
}

fn ask(found: &Found) -> Result<ClusterReport, Box<dyn Error>> {
    let connection = Connection::open(found)?;
    let blobs = connection.values(Server::INVENTORY)?;
    let devices = connection.values(keys::FABRIC_DEVICES.name())?;
    let server = connection.server().to_string();
    connection.close();
    let planes: BTreeMap<(&str, &str), &str> = devices.iter().flat_map(elements).filter_map(plane).collect();
    let mut nodes = Vec::new();
    for blob in blobs.iter().flat_map(elements) {
        let Value::ByteObject(blob) = blob else { continue };
        let mut inventory = InventoryReport::new(Inventory::decode(blob)?);
        let node = inventory.node.as_deref().unwrap_or_default();
        for device in &mut inventory.devices {
            device.plane = plane_of(&planes, node, &device.name).map(str::to_owned);
        }
        nodes.push(inventory);
    }
    Ok(ClusterReport { pid: found.contents.pid, server, nodes })
}

fn elements(value: &Value) -> &[Value] {
    match value {
        Value::DataArray(array) => &array.elements,
        _ => &[],
    }
}

/// Node, name and plane of a device.
fn plane(device: &Value) -> Option<((&str, &str), &str)> {
    let Value::Info(device) = device else { return None };
    let text = |key: &str| {
        elements(&device.value).iter().find_map(|fact| match fact {
            Value::Info(fact) if fact.key.as_str() == key => fact.value.as_str(),
            _ => None,
        })
    };
    let name = (text(keys::HOSTNAME.name())?, text(keys::FABRIC_DEVICE_NAME.name())?);
    Some((name, text(keys::FABRIC_PLANE.name())?))
}

/// The plane of a device, or of its first port: `mlx5_0:1` is a port of `mlx5_0`.
fn plane_of<'k, 'p>(planes: &BTreeMap<(&'k str, &'k str), &'p str>, node: &'k str, name: &'k str) -> Option<&'p str> {
    let prefix = format!("{name}:");
    let first_port = || planes.range((node, prefix.as_str())..).next();
    let port =
        || first_port().filter(|((of, port), _)| *of == node && port.starts_with(&prefix)).map(|(_, plane)| *plane);
    planes.get(&(node, name)).copied().or_else(port)
}
