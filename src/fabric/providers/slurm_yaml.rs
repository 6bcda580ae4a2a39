use super::hostlist::{expand, name};
use super::provider::{Fault, Provider, ProviderError};
use super::slurm::{Part, SLURM, blocks, check_names, plane, rings, torus_plane, tree};
use super::yaml::{Fields, Node, VALUES_MAX, parse};
use crate::fabric::{DEVICES_MAX, FabricDescription, PlaneDescription, SWITCHES_MAX};

/// Slurm's `topology.yaml`. Each topology is a plane or several.
///
/// - A `tree` or `block` topology is a plane with the topology's name, read as in `topology.conf`.
/// - Each ring of a `ring` topology and each torus of a `torus3d` topology is a plane, named `TOPOLOGY/RING`.
/// - A `flat` topology names no nodes, so it gives no plane. The same holds for topologies and rings whose nodes are dynamic.
///
/// The topology with `cluster_default` is the first, as in Slurm. A node has the device `nic0` in the first topology,
/// `nic1` in the second, and so on. Placements in a torus are for the choice of nodes and are not read. A torus with
/// `regions` is refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlurmYaml;

/// A topology before its kind is read.
struct Topology {
    name: String,
    is_default: bool,
    kind: &'static str,
    content: Node,
}

const KINDS: [&str; 5] = ["tree", "block", "flat", "ring", "torus3d"];

impl Provider for SlurmYaml {
    fn describe(&self, text: &str) -> Result<FabricDescription, ProviderError> {
        let listed = parse(text, VALUES_MAX)?.map_or_else(|| Ok(Vec::new()), Node::list)?;
        let mut topologies = listed.into_iter().map(topology).collect::<Result<Vec<_>, _>>()?;
        topologies.sort_by_key(|topology| !topology.is_default);
        let mut reader = Reader { name_count: 0 };
        let mut planes = Vec::new();
        for (number, topology) in topologies.into_iter().enumerate() {
            planes.extend(reader.planes(topology, number)?);
        }
        Ok(FabricDescription { identifier: SLURM.to_owned(), planes })
    }
}

/// The name and kind of a topology.
fn topology(node: Node) -> Result<Topology, ProviderError> {
    let line = node.line;
    let mut fields = node.fields()?;
    let name = name_of(&fields.need("topology")?)?;
    let is_default = fields.take("cluster_default").map_or(Ok(false), |value| truth(&value))?;
    let mut kinds = KINDS.into_iter().filter_map(|kind| Some((kind, fields.take(kind)?)));
    let (Some((kind, content)), None) = (kinds.next(), kinds.next()) else {
        return Err(Fault::TopologyKind { name }.on_line(line));
    };
    fields.finish()?;
    Ok(Topology { name, is_default, kind, content })
}

/// A reader that counts the names of the whole file.
struct Reader {
    name_count: usize,
}

impl Reader {
    fn planes(&mut self, topology: Topology, number: usize) -> Result<Vec<PlaneDescription>, ProviderError> {
        let Topology { name, kind, content, .. } = topology;
        if kind == "flat" {
            return Ok(Vec::new());
        }
        let mut fields = content.fields()?;
        let mut planes: Vec<_> = match kind {
            "tree" => {
                let switches = self.parts(&mut fields, "switches", "switch")?;
                let links = tree(&switches)?;
                vec![plane(name, number, &switches, links)]
            }
            "block" => {
                let sizes = fields.take("block_sizes").map(sizes).transpose()?;
                let described = self.parts(&mut fields, "blocks", "block")?;
                let links = blocks(&described, sizes.as_ref())?;
                vec![plane(name, number, &described, links)]
            }
            "ring" => rings(&name, number, &self.parts(&mut fields, "rings", "ring")?),
            _ => {
                let tori = fields.need("toruses")?.list()?;
                tori.into_iter().map(|torus| self.torus(&name, number, torus)).collect::<Result<_, _>>()?
            }
        };
        fields.finish()?;
        planes.retain(|plane| !plane.devices.is_empty());
        Ok(planes)
    }

    /// The switches, blocks or rings of a topology.
    fn parts(
        &mut self,
        fields: &mut Fields,
        list: &'static str,
        name: &'static str,
    ) -> Result<Vec<Part>, ProviderError> {
        let listed = fields.need(list)?.list()?;
        let parts = listed.into_iter().map(|node| self.part(node, name)).collect::<Result<Vec<_>, _>>()?;
        check_names(&parts)?;
        Ok(parts)
    }

    fn part(&mut self, node: Node, kind: &'static str) -> Result<Part, ProviderError> {
        let line = node.line;
        let mut fields = node.fields()?;
        let name = name_of(&fields.need(kind)?)?;
        let nodes = self.names(fields.take("nodes"))?;
        let switches = if kind == "switch" { self.names(fields.take("children"))? } else { Vec::new() };
        fields.finish()?;
        Ok(Part { line, name, nodes, switches })
    }

    /// A list of names; none without a value.
    fn names(&mut self, list: Option<Node>) -> Result<Vec<String>, ProviderError> {
        let Some(list) = list else { return Ok(Vec::new()) };
        let text = text(&list)?;
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let room = (DEVICES_MAX + SWITCHES_MAX).saturating_sub(self.name_count);
        let names = expand(text, room).map_err(|error| Fault::from(error).on_line(list.line))?;
        self.name_count += names.len();
        Ok(names)
    }

    /// A torus with a node at each switch. The first coordinate changes fastest with the place in the list.
    fn torus(&mut self, topology: &str, number: usize, torus: Node) -> Result<PlaneDescription, ProviderError> {
        let mut fields = torus.fields()?;
        let name = name_of(&fields.need("name")?)?;
        let dims = fields.need("dims")?;
        let line = dims.line;
        let mut dims = dims.fields()?;
        let mut size = |key| {
            let size = dims.need(key)?;
            size.number(1, SWITCHES_MAX).map_err(|fault| fault.on_line(size.line))
        };
        let sizes = [size("z")?, size("y")?, size("x")?];
        dims.finish()?;
        let nodes = self.names(fields.take("nodes"))?;
        drop(fields.take("placements"));
        fields.finish()?;
        if sizes.iter().try_fold(1_usize, |product, &size| product.checked_mul(size as usize)) != Some(nodes.len()) {
            return Err(Fault::Places { name, nodes: nodes.len(), sizes: sizes.to_vec() }.on_line(line));
        }
        Ok(torus_plane(format!("{topology}/{name}"), number, &nodes, sizes.to_vec()))
    }
}

fn text(node: &Node) -> Result<&str, ProviderError> {
    node.text().map_err(|fault| fault.on_line(node.line))
}

fn name_of(node: &Node) -> Result<String, ProviderError> {
    name(text(node)?).map_err(|error| Fault::from(error).on_line(node.line))
}

/// A truth value as YAML 1.1 has them.
fn truth(node: &Node) -> Result<bool, ProviderError> {
    let text = text(node)?;
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Ok(true),
        "false" | "no" | "off" => Ok(false),
        _ => Err(Fault::form(text).on_line(node.line)),
    }
}

/// The sizes of blocks, with their line.
fn sizes(list: Node) -> Result<(usize, Vec<u32>), ProviderError> {
    let line = list.line;
    let size = |size: Node| size.number(1, DEVICES_MAX).map_err(|fault| fault.on_line(size.line));
    Ok((line, list.list()?.into_iter().map(size).collect::<Result<_, _>>()?))
}
