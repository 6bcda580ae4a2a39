//! Each form of text, and what is refused with which words.

use proptest::prelude::*;

use super::hostlist::{excerpt, expand};
use super::*;
use crate::fabric::{DeviceDescription, Fabric, Plane};
use crate::log_lines::LogLines;
use crate::topo::inventory::{self, Inventories, Inventory};

fn plane(fabric: &Fabric) -> &Plane {
    &fabric.planes()[0]
}

fn cost(fabric: &Fabric, one: &str, other: &str) -> u16 {
    let index = |node| plane(fabric).devices_of_node(node).next().unwrap().index;
    plane(fabric).cost(index(one), index(other)).unwrap()
}

fn slurm(text: &str) -> Result<Fabric, ProviderError> {
    SlurmTopology::default().read(text)
}

/// The text of the error. It is short, whatever the text was.
fn error(result: Result<Fabric, ProviderError>) -> String {
    let text = result.unwrap_err().to_string();
    assert!(text.len() < 700, "{text}");
    text
}

#[test]
fn the_tutorials_fabric_has_a_device_for_each_node_in_each_plane() {
    let fabric = TestFabric.read("nodes:5;plane:d:3;plane:s:2;plane:d:4").unwrap();
    let devices = |plane: usize| {
        let plane = &fabric.planes()[plane];
        let of = |index| plane.device(index).map(|device| format!("{} {}", device.name, &device.switch[9..]));
        (0..).map_while(of).collect::<Vec<_>>()
    };
    let dense = ["test000:nic000", "test001:nic001", "test002:nic002", "test003:nic003", "test004:nic004"];
    let dense = dense.iter().zip([0, 0, 1, 1, 2]).map(|(name, switch)| format!("{name} switch00{switch}"));
    assert_eq!(devices(0), dense.collect::<Vec<_>>());
    assert_eq!(devices(1)[3..], ["test003:nic008 switch001", "test004:nic009 switch000"]);
    assert_eq!(devices(2)[4..], ["test004:nic014 switch002"], "two ports are as few as the nodes need");
    assert_eq!((0..5).map(|other| fabric.planes()[0].cost(0, other).unwrap()).collect::<Vec<_>>(), [0, 2, 3, 3, 3]);
}

/// Regression: a `topology.conf` that Slurm reads was refused if it had spaces around `=` or quotes.
#[test]
fn slurms_lines_may_have_spaces_and_quotes() {
    let plain = slurm("SwitchName=s0 Nodes=a,b\nSwitchName=s1 Nodes=c\nSwitchName=top Switches=s[0-1]\n").unwrap();
    let text =
        "SwitchName = s0 Nodes= \"a,b\"\n SwitchName=\"s1\"\tNodes =c\nSwitchName=top Switches=\"s[0-1]\"LinkSpeed=1\n";
    assert_eq!(slurm(text).unwrap(), plain);
    for (line, text) in [("a b=c", "a b=c"), ("SwitchName=s0 Nodes", "Nodes"), ("= s0", "= s0")] {
        let found = error(slurm(&format!("\n{line}\n")));
        assert!(found.contains(&format!("line 2: {text:?} has none of the known forms")), "{found}");
    }
}

#[test]
fn a_wide_fabric_has_a_device_for_each_node_and_switch() {
    let fabric = TestFabric.read("wide:5;plane:d:3").unwrap();
    let plane = plane(&fabric);
    assert_eq!((fabric.identifier(), plane.name(), plane.vendor()), ("TEST-1", "plane000", "TEST"));
    assert_eq!((plane.device_count(), plane.switches().len()), (15, 3));
    // Device 8 of node 2 is the last but one of the second switch.
    let device = plane.device(8).unwrap();
    assert_eq!((device.node, device.name, device.switch), ("test002", "test002:nic002", "plane000:switch001"));
    assert_eq!(plane.device_by_name("test002", "test002:nic002"), Some(device));
    let row: Vec<u16> = (0..15).map(|other| plane.cost(8, other).unwrap()).collect();
    assert_eq!(row, [3, 3, 3, 3, 3, 2, 2, 2, 0, 2, 3, 3, 3, 3, 3]);
    assert_eq!(plane.groups(), "0:test000,test001;1:test001,test002,test003;2:test003,test004");
}

#[test]
fn a_sparse_plane_deals_devices_to_switches_in_turn_and_planes_continue_the_numbers() {
    let fabric = TestFabric.read("wide:2; plane:s:2;plane:4").unwrap();
    let of_node = |plane: usize, node| {
        let devices = fabric.planes()[plane].devices_of_node(node);
        devices.map(|device| (device.name.to_owned(), device.switch.to_owned())).collect::<Vec<_>>()
    };
    let pair = |node, nic, plane, switch| (format!("{node}:nic00{nic}"), format!("plane00{plane}:switch00{switch}"));
    assert_eq!(of_node(0, "test001"), [pair("test001", 0, 0, 0), pair("test001", 1, 0, 1)]);
    let dense = [(2, 2), (3, 2), (4, 3), (5, 3)].map(|(nic, switch)| pair("test001", nic, 1, switch));
    assert_eq!(of_node(1, "test001"), dense);
    // The ring of four switches has a shorter way round.
    assert_eq!(fabric.planes()[1].cost(0, 7), Some(3));
}

#[test]
fn named_nodes_have_one_device_in_each_plane_and_full_switches_get_one_more_in_turn() {
    let fabric = TestFabric.read("names:a,b,n[0-5];plane:d:3:2;plane:s:2;plane:5").unwrap();
    let switches = |plane: usize| {
        let plane = &fabric.planes()[plane];
        let of = |index| plane.device(index).map(|device| device.switch[device.switch.len() - 1..].to_owned());
        (0..).map_while(of).collect::<String>()
    };
    // Two ports for each of three switches: the last two of eight nodes find all of them taken.
    assert_eq!([switches(0), switches(1), switches(2)], ["00112201", "01010101", "00011122"]);
    let device = fabric.planes()[1].device(1).unwrap();
    assert_eq!((device.node, device.name, device.switch), ("b", "b:nic.plane001.0", "plane001:switch001"));
}

#[test]
fn a_wrong_test_fabric_is_refused_with_the_entry() {
    let of = |text| error(TestFabric.read(text));
    assert_eq!(of("nodes:5;plain:3"), "entry 2: \"plain:3\" has none of the known forms");
    assert_eq!(of("nodes:0;plane:3"), "entry 1: \"0\" is no number from 1 to 100000");
    assert_eq!(of("nodes:5;plane:x:3"), "entry 2: \"x:3\" has none of the known forms");
    let ports = "entry 2: 4 ports are no choice here: the number of nodes decides; name the nodes";
    assert_eq!(of("nodes:5;plane:d:3:4"), ports);
    assert_eq!(of("names:a;plane:d:3:4:5"), "entry 2: \"4:5\" is no number from 1 to 100000");
    assert_eq!(of("names:,;plane:1"), "entry 1: \",\" has no name, or one of more than 255 bytes");
    assert_eq!(of("names:a,a;plane:1"), "node 'a' has two devices with the name 'a:nic.plane000.0'");
    assert_eq!(of("names:a;nodes:1;plane:1"), "entry 2: \"nodes:1\" has none of the known forms");
    assert_eq!(of("wide:100000;plane:11"), "entry 1: \"11\" is no number from 1 to 10");
    assert_eq!(of("plane:3"), "entry 1: 'nodes' is missing");
    assert_eq!(of("nodes:5"), "the fabric has no plane");
    assert_eq!(of("nodes:5;nodes:6;plane:1"), "entry 2: \"nodes:6\" has none of the known forms");
}

#[test]
fn hostlists_expand_with_widths_and_several_brackets() {
    let of = |list| expand(list, 100).unwrap().join(" ");
    assert_eq!(of("tux[0-3,12,18-20]"), "tux0 tux1 tux2 tux3 tux12 tux18 tux19 tux20");
    assert_eq!(of("n[08-11],login,r[1-2]n[0-1]x"), "n08 n09 n10 n11 login r1n0x r1n1x r2n0x r2n1x");
    let refused = |list: &str| expand(list, 100).unwrap_err().to_string();
    for list in ["a[1", "a]1", "a[[1]]", "a[1]]"] {
        assert_eq!(refused(list), format!("{list:?} has a bracket without its partner"));
    }
    for range in ["", "3-1", "1-", "a", "1-2-3", "4294967296", "-"] {
        assert_eq!(refused(&format!("a[{range}]")), format!("{range:?} is no range of numbers"));
    }
    for list in [" ,", "", &format!("{}[1-2]", "x".repeat(256))] {
        assert!(refused(list).contains("has no name, or one of more than 255 bytes"), "{list}");
    }
    // Slurm reads such lists.
    assert_eq!(of("a[1-2], b\tc\n  d,,e[3,4] "), "a1 a2 b c d e3 e4");
    assert_eq!(expand("a[1-10]b[1-10]", 100).unwrap().len(), 100);
    for list in ["a[0-100]", "a[0-4294967295]", "a[1-10]b[1-10],c", "a[1-10]b[1-10]c[1-10]"] {
        assert_eq!(refused(list), format!("{list:?} has more than 100 names"));
    }
}

#[test]
fn slurms_tree_counts_links_through_the_nearest_common_switch() {
    let text = "# a comment\n\
        SwitchName=s0 Nodes=tux[0-3] LinkSpeed=900 # another\n\
        switchname=s1 nodes=tux[4-5],\\\ntux[6-7]\n\
        SwitchName=s2 Nodes=tux8\n\
        SwitchName=s3 Switches=s[0-1]\n\
        SwitchName=s4 Switches=s[2-3]\n";
    let fabric = slurm(text).unwrap();
    assert_eq!((plane(&fabric).device_count(), plane(&fabric).switches().len()), (9, 5));
    let costs = ["tux0", "tux1", "tux7", "tux8"].map(|other| cost(&fabric, "tux0", other));
    assert_eq!(costs, [0, 2, 4, 5]);
    let apart = slurm("SwitchName=a Nodes=n0\nSwitchName=b Nodes=n1").unwrap();
    assert_eq!(cost(&apart, "n0", "n1"), crate::fabric::UNREACHABLE);
}

#[test]
fn a_switch_below_two_switches_has_the_shorter_way() {
    let text = "SwitchName=a Nodes=n0\nSwitchName=b Nodes=n1\nSwitchName=c Nodes=n2\n\
        SwitchName=up Switches=a,b\nSwitchName=top Switches=up,c\nSwitchName=other Switches=a,c\n";
    let fabric = slurm(text).unwrap();
    assert_eq!([cost(&fabric, "n0", "n1"), cost(&fabric, "n0", "n2"), cost(&fabric, "n1", "n2")], [4, 4, 5]);
}

#[test]
fn a_dragonflys_groups_are_the_switches_below_one() {
    let text = "SwitchName=top Switches=g[0-1]\nSwitchName=g0 Switches=s[0-1]\nSwitchName=g1 Switches=s[2-3]\n\
        SwitchName=s0 Nodes=n0\nSwitchName=s1 Nodes=n1\nSwitchName=s2 Nodes=n2\nSwitchName=s3 Nodes=n3\n";
    let dragonfly = SlurmTopology { is_dragonfly: true };
    let fabric = dragonfly.read(text).unwrap();
    assert_eq!(plane(&fabric).groups(), "0:n0,n1;1:n2,n3");
    // One link connects the groups: from the first switch of each.
    let costs = ["n1", "n2", "n3"].map(|other| cost(&fabric, "n0", other));
    assert_eq!((costs, cost(&fabric, "n1", "n3")), ([3, 3, 4], 5));
    let mixed = "SwitchName=a Nodes=n0 Switches=b\nSwitchName=b Nodes=n1";
    assert_eq!(error(dragonfly.read(mixed)), "line 1: switch 'a' of a dragonfly has nodes and switches");
}

#[test]
fn blocks_are_below_a_switch_for_each_size() {
    let text = "BlockName=b0 Nodes=n[0-1]\nBlockName=b1 Nodes=n[2-3]\nBlockName=b2 Nodes=n[4-5]\nBlockSizes=2,4\n";
    let fabric = slurm(text).unwrap();
    let costs = ["n1", "n2", "n4"].map(|other| cost(&fabric, "n0", other));
    assert_eq!(costs, [2, 4, 6]);
    let flat = slurm("BlockName=b0 Nodes=n0\nBlockName=b1 Nodes=n1").unwrap();
    assert_eq!(cost(&flat, "n0", "n1"), 4);
    assert_eq!(plane(&slurm("BlockName=b0 Nodes=n0\nBlockSizes=1,2").unwrap()).switches().len(), 1);
}

#[test]
fn a_wrong_topology_is_refused_with_the_line() {
    let of = |text| error(slurm(text));
    let loops = "SwitchName=a Nodes=n0\nSwitchName=b Switches=c,a\nSwitchName=c Switches=b";
    assert_eq!(of(loops), "line 2: switch 'b' is in a loop: it is above itself");
    assert_eq!(of("SwitchName=a Switches=a"), "line 1: switch 'a' is in a loop: it is above itself");
    assert_eq!(of("\nSwitchName=a Nodes=n\nSwitchName=a Nodes=m"), "line 3: 'a' was described before, on line 2");
    assert_eq!(of("SwitchName=a Nodes=n,n"), "line 1: 'n' was described before, on line 1");
    assert_eq!(of("SwitchName=a Nodes=n\nSwitchName=b Switches=a,c"), "line 2: 'c' is described nowhere");
    assert_eq!(of("SwitchName=a Nodes=n[1-"), "line 1: \"n[1-\" has a bracket without its partner");
    assert_eq!(of("SwitchName=a Nods=n"), "line 1: the key 'Nods' is not known here");
    assert_eq!(of("SwitchName=a"), "plane 'slurm' has no devices");
    assert_eq!(of("Nodes=n"), "line 1: 'SwitchName=, BlockName= or RingName=' is missing");
    assert_eq!(of("nonsense"), "line 1: \"nonsense\" has none of the known forms");
    let kinds = "the file has lines of two kinds of topologies: trees, blocks or rings";
    for other in ["BlockName=b Nodes=m", "RingName=b Nodes=m", "BlockSizes=2"] {
        assert_eq!(error(slurm(&format!("SwitchName=a Nodes=n\n{other}"))), format!("line 2: {kinds}"));
    }
    assert_eq!(of("BlockSizes=2\nRingName=a Nodes=n"), format!("line 2: {kinds}"));
    assert_eq!(of("RingName=b Switches=m"), "line 1: the key 'Switches' is not known here");
    assert_eq!(of("RingName=b Nodes=n\nRingName=c Nodes=n"), "line 2: 'n' was described before, on line 1");
    assert_eq!(of("RingName=b"), "the fabric has no plane");
    assert_eq!(of("BlockName=b Switches=m"), "line 1: the key 'Switches' is not known here");
    let sizes = "BlockName=b Nodes=m\nBlockSizes=2,4,6";
    assert_eq!(of(sizes), "line 2: a block of 6 nodes does not consist of whole blocks of 4 nodes");
    assert_eq!(of("# nothing"), "plane 'slurm' has no devices");
    assert_eq!(of("BlockSizes=2"), "plane 'slurm' has no devices");
}

/// The first switch and its nodes were lost, without a word.
#[test]
fn a_line_of_two_switches_is_refused() {
    let of = |text: &str| error(slurm(&format!("\n{text}")));
    assert_eq!(of("SwitchName=a Nodes=n1 SwitchName=b Nodes=n2"), "line 2: the key 'SwitchName' is in the line twice");
    assert_eq!(of("SwitchName=a Nodes=n1 nodes=n2"), "line 2: the key 'nodes' is in the line twice");
    for line in ["BlockName=a BlockSizes=1", "BlockSizes=1 BlockName=a"] {
        assert_eq!(of(&format!("{line} Nodes=n")), "line 2: the key 'BlockSizes' is not known here");
    }
    assert_eq!(of("SwitchName=a BlockName=b Nodes=n"), "line 2: the key 'BlockName' is not known here");
    assert_eq!(of("BlockSizes=1\nBlockSizes=2"), "line 3: 'BlockSizes' was described before, on line 2");
}

/// Such a file was refused: "the key 'RingName' is not known here".
#[test]
fn each_ring_of_slurms_lines_is_a_plane() {
    let fabric = slurm("RingName=r0 Nodes=n[0-3]\nRingName=r1 Nodes=n4,n5\n").unwrap();
    assert_eq!(fabric.planes().iter().map(Plane::name).collect::<Vec<_>>(), ["slurm/r0", "slurm/r1"]);
    assert_eq!(["n1", "n2", "n3"].map(|other| cost(&fabric, "n0", other)), [3, 4, 3]);
    let yaml = "[{topology: slurm, ring: {rings: [{ring: r0, nodes: 'n[0-3]'}, {ring: r1, nodes: 'n[4-5]'}]}}]";
    assert_eq!(SlurmYaml.read(yaml).unwrap(), fabric);
}

const TOPOLOGIES: &str = "---
# a comment
- topology: blocks
  block:
    block_sizes: [2, 4]
    blocks:
      - {block: b0, nodes: 'n[0-1]'}
      - {block: b1, nodes: 'n[2-3]'}
      - {block: b2, nodes: n4}
- topology: switches
  cluster_default: true
  tree:
    switches:
      - switch: top
        children: s[1-2]
      - switch: s1
        nodes: n[0-1]
      - switch: s2
        nodes: n[2-3],n4
- topology: nothing
  flat: true
- topology: rings
  ring:
    rings:
      - ring: r0
        nodes: n[0-2]
      - ring: r1
        nodes: n[3-4]
- topology: tori
  torus3d:
    toruses:
      - name: pod
        dims: {x: 3, y: 2, z: 1}
        nodes: m[0-5]
        placements:
          - dims: {x: 1, y: 1, z: 1}
";

#[test]
fn each_topology_of_slurms_yaml_is_a_plane_and_the_default_is_the_first() {
    let fabric = SlurmYaml.read(TOPOLOGIES).unwrap();
    let names: Vec<_> = fabric.planes().iter().map(Plane::name).collect();
    assert_eq!(names, ["switches", "blocks", "rings/r0", "rings/r1", "tori/pod"]);
    let costs = |plane: usize, from: &str, to: &[&str]| {
        let plane = &fabric.planes()[plane];
        let index = |node: &str| plane.devices_of_node(node).next().unwrap().index;
        to.iter().map(|node| plane.cost(index(from), index(node)).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(costs(0, "n0", &["n0", "n1", "n2", "n4"]), [0, 2, 4, 4]);
    assert_eq!(costs(1, "n0", &["n1", "n2", "n4"]), [2, 4, 6]);
    assert_eq!(costs(2, "n0", &["n1", "n2"]), [3, 3]);
    // The first coordinate changes fastest: m1 and m2 are in the row of m0, and m3 is above it.
    assert_eq!(costs(4, "m0", &["m1", "m2", "m3", "m4"]), [3, 3, 3, 4]);
    let coordinates = |node: &str| {
        let plane = &fabric.planes()[4];
        plane.coordinates(plane.devices_of_node(node).next().unwrap().index).unwrap()
    };
    assert_eq!((coordinates("m2"), coordinates("m4")), (vec![0, 0, 2, 0], vec![0, 1, 1, 0]));
    let devices: Vec<_> = fabric.planes().iter().flat_map(|plane| plane.devices_of_node("n0")).collect();
    assert_eq!(devices.iter().map(|device| device.name).collect::<Vec<_>>(), ["nic0", "nic1", "nic3"]);
}

#[test]
fn a_tree_in_yaml_is_the_tree_of_the_same_lines() {
    let lines = slurm("SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n2\nSwitchName=c Switches=a,b\n").unwrap();
    let yaml = "[{topology: slurm, tree: {switches: [{switch: a, nodes: 'n[0-1]'}, {switch: b, nodes: n2}, \
        {switch: c, children: 'a,b'}]}}]";
    assert_eq!(SlurmYaml.read(yaml).unwrap(), lines);
}

/// Such a file was refused: "'nodes or children' is missing".
#[test]
fn switches_and_blocks_without_nodes_wait_for_slurms_dynamic_nodes() {
    let lines = "SwitchName=a Nodes=n0\nSwitchName=b\nSwitchName=c Nodes=\nSwitchName=top Switches=a,b,c\n";
    let fabric = slurm(lines).unwrap();
    assert_eq!(plane(&fabric).switches().collect::<Vec<_>>(), ["a", "b", "c", "top"]);
    assert_eq!(slurm("BlockName=a Nodes=n0\nBlockName=b\n").unwrap().planes()[0].groups(), "0:n0");
    let tree = "{topology: slurm, tree: {switches: [{switch: a, nodes: n0}, {switch: b}, {switch: c, nodes: ''}, \
        {switch: top, children: 'a,b,c'}]}}";
    assert_eq!(SlurmYaml.read(&format!("[{tree}]")).unwrap(), fabric);
    let others = "{topology: r, ring: {rings: [{ring: r0}, {ring: r1, nodes: n0}]}}, \
        {topology: b, block: {blocks: [{block: b0}]}}";
    let fabric = SlurmYaml.read(&format!("[{tree}, {others}]")).unwrap();
    assert_eq!(fabric.planes().iter().map(Plane::name).collect::<Vec<_>>(), ["slurm", "r/r1"]);
}

#[test]
fn a_wrong_topology_in_yaml_is_refused_with_the_line() {
    let of = |text: &str| error(SlurmYaml.read(text));
    let tree = |switches: &str| of(&format!("- topology: t\n  tree:\n    switches:\n{switches}"));
    assert_eq!(of(""), "the fabric has no plane");
    assert_eq!(of("- topology: t\n  flat: true"), "the fabric has no plane");
    assert_eq!(of("topology: t"), "line 1: a list is needed here");
    assert_eq!(of("- tree"), "line 1: a mapping is needed here");
    assert_eq!(of("- topology: [t]"), "line 1: a text is needed here");
    assert_eq!(of("- tree: 1"), "line 1: 'topology' is missing");
    let kinds = "line 2: topology 't' needs one of tree, block, flat, ring and torus3d";
    assert_eq!(of("\n- topology: t\n  cluster_default: no"), kinds);
    assert_eq!(of("\n- topology: t\n  flat: true\n  ring: {}"), kinds);
    assert_eq!(of("- topology: t\n  flat: true\n  mesh: 1"), "line 3: the key 'mesh' is not known here");
    assert_eq!(of("- topology: t\n  flat: true\n  flat: true"), "line 3: 'flat' was described before, on line 2");
    assert_eq!(
        of("- topology: t\n  flat: 1\n  cluster_default: maybe"),
        "line 3: \"maybe\" has none of the known forms"
    );
    assert_eq!(of("- topology: ''\n  flat: 1"), "line 1: \"\" has no name, or one of more than 255 bytes");
    assert_eq!(tree("      - nodes: n"), "line 4: 'switch' is missing");
    assert_eq!(tree("      - switch: a"), "the fabric has no plane");
    assert_eq!(tree("      - switch: a\n        children: b"), "line 4: 'b' is described nowhere");
    assert_eq!(tree("      - switch: a\n        children: a"), "line 4: switch 'a' is in a loop: it is above itself");
    assert_eq!(tree("      - switch: a\n        nodes: n[1-"), "line 5: \"n[1-\" has a bracket without its partner");
    assert_eq!(
        tree("      - {switch: a, nodes: n}\n      - {switch: a, nodes: m}"),
        "line 5: 'a' was described before, on line 4"
    );
    let block = "- topology: t\n  block:\n    block_sizes:\n    - 2\n    - three\n    blocks: [{block: b, nodes: n}]";
    assert_eq!(of(block), "line 5: \"three\" is no number from 1 to 1048576");
    assert_eq!(
        of(&block.replace("three", "3")),
        "line 4: a block of 3 nodes does not consist of whole blocks of 2 nodes"
    );
    assert_eq!(
        of(&block.replace("three", "4").replace("nodes: n", "nodes: n, ports: 3")),
        "line 6: the key 'ports' is not known here"
    );
    let torus = "- topology: t\n  torus3d: {toruses: [{name: p, dims: {x: 2, y: 2, z: 1}, nodes: 'n[0-2]'}]}";
    assert_eq!(of(torus), "line 2: torus 'p' has 3 nodes, and the sizes [1, 2, 2]");
    let regions = torus.replace("nodes: 'n[0-2]'", "regions: []");
    assert_eq!(of(&regions), "line 2: the key 'regions' is not known here");
}

#[test]
fn yaml_has_bounds_and_no_aliases() {
    let of = |text: &str| error(SlurmYaml.read(text));
    let bomb = "- &a [x, x]\n- &b [*a, *a]\n- [*b, *b]";
    assert_eq!(of(bomb), "line 2: aliases are not read");
    assert_eq!(of("- a\n---\n- b"), "line 2: the file has a second document");
    assert_eq!(of(&"[".repeat(17)), "line 1: a value is in more than 16 lists and mappings");
    assert!(of("\n- {topology: t}}").starts_with("line 2: the text is no YAML: "));
    assert!(of("- topology: 't").starts_with("line 1: the text is no YAML: "));
    let many = yaml::parse("- [1,1]\n- [1,1]\n- [1,1]", 8).unwrap_err().to_string();
    assert_eq!(many, "line 3: the text has more than 8 values");
    let names = "   - {switch: a, nodes: 'n[1-1000000]'}\n   - {switch: b, nodes: 'm[1-1000000]'}";
    let names = format!("- topology: t\n  tree:\n   switches:\n{names}");
    assert_eq!(of(&names), "line 5: \"m[1-1000000]\" has more than 310720 names");
}

const SUBNET: &str = r#"#
# Topology file: generated on Tue Jun  5 14:15:10 2007
#
vendid=0x2c9
devid=0xc738
sysimgguid=0x2000
switchguid=0x2000(2000)
Switch	24 "S-0000000000002000"		# "leaf 1" base port 0 lid 6 lmc 0
[1]	"H-0000000000001000"[1](1001) 		# "n0 mlx5_0" lid 4 4xEDR
[3]	"S-0000000000002001"[3]		# "spine" lid 3 4xEDR
[4][ext 2]	"S-0000000000002001"[4]		# "spine" lid 3 4xEDR

Chassis 1 (guid 0x5442)
switchguid=0x2001(2001)
Switch	24 "S-0000000000002001"		# "spine" base port 0 lid 3 lmc 0
[3]	"S-0000000000002000"[3]		# "leaf 1" lid 6 4xEDR
[9]	"H-0000000000003000"[1](3001)		# "Mellanox Technologies Aggregation Node" lid 9 4xEDR
[5]	"S-0000000000002002"[1]		# "leaf 2" lid 7 4xEDR

switchguid=0x2002(2002)
Switch	24 "S-0000000000002002"		# "leaf 2" base port 0 lid 7 lmc 0
[1]	"S-0000000000002001"[5]		# "spine" lid 3 4xEDR

vendid=0x15b3
sysimgguid=0x1003
caguid=0x1000
Ca	2 "H-0000000000001000"		# "n0 mlx5_0"
[1](1001) 	"S-0000000000002000"[1]		# lid 4 lmc 0 "leaf 1" lid 6 4xEDR
[2](1002) 	"S-0000000000002002"[7]		# lid 5 lmc 0 "leaf 2" lid 7 4xEDR

sysimgguid=0x1007
caguid=0x1004
Ca	1 "H-0000000000001004"		# "MT23108 InfiniHost Mellanox Technologies"
[1](1005) 	"S-0000000000002002"[8]		# lid 8 lmc 0 "leaf 2" lid 7 4xEDR

caguid=0x3000
Ca	1 "H-0000000000003000"		# "Mellanox Technologies Aggregation Node"
[1](3001) 	"S-0000000000002001"[9]		# lid 9 lmc 0 "spine" lid 3 4xEDR
"#;

#[test]
fn ports_of_an_infiniband_subnet_are_devices() {
    let fabric = IbNetDiscover.read(SUBNET).unwrap();
    let plane = plane(&fabric);
    assert_eq!((plane.device_count(), plane.switches().len(), plane.vendor()), (3, 3, "0x15b3"));
    let first = plane.device_by_name("n0", "mlx5_0:1").unwrap();
    assert_eq!((first.switch, first.vendor, first.address), ("S-0000000000002000", "0x15b3", Some("1001")));
    assert_eq!(first.id, Some("fab://0000:0000:0000:1000::0000:0000:0000:1003:1"), "the adapter has two ports");
    assert_eq!((plane.port(0), plane.port(1), plane.port(9)), (Some((0, 1)), Some((2, 7)), None));
    let second = plane.device_by_name("n0", "mlx5_0:2").unwrap();
    let unnamed = plane.device_by_name("H-0000000000001004", "ca:1").unwrap();
    assert_eq!(unnamed.id, Some("fab://0000:0000:0000:1004::0000:0000:0000:1007"));
    assert_eq!(plane.cost(first.index, second.index), Some(4));
    assert_eq!(plane.nearest(second.index, 5), Some(vec![(unnamed.index, 2), (first.index, 4)]));
}

/// A subnet without its last adapters was taken for a smaller one.
#[test]
fn a_truncated_subnet_is_refused_with_a_cable_without_its_end() {
    let until = |end: &str| &SUBNET[..SUBNET.rfind(end).unwrap()];
    let of = |text: &str| error(IbNetDiscover.read(text));
    assert_eq!(of(until("caguid=0x3000")), "line 17: '\"H-0000000000003000\"[1]' is described nowhere");
    assert_eq!(of(until("[1](3001)")), "line 17: '\"H-0000000000003000\"[1]' is described nowhere");
    assert_eq!(of(until("[2](1002)")), "line 17: '\"H-0000000000003000\"[1]' is described nowhere");
    let reordered = SUBNET.replace("[9]\t\"H-0000000000003000\"[1](3001)", "#");
    let cut = &reordered[..reordered.rfind("caguid=0x1000").unwrap()];
    assert_eq!(of(cut), "line 9: '\"H-0000000000001000\"[1]' is described nowhere");
}

#[test]
fn a_wrong_subnet_is_refused_with_the_line() {
    let of = |text: &str| error(IbNetDiscover.read(text));
    let switch = "Switch 8 \"S-1\"\n";
    assert_eq!(of("Ca 1 \"H-1\"\n[1](2) \"S-9\"[1]"), "line 2: 'S-9' is described nowhere");
    assert_eq!(of(&format!("{switch}[1] \"S-2\"[1]")), "line 2: 'S-2' is described nowhere");
    assert_eq!(of(&format!("{switch}{switch}")), "line 2: 'S-1' was described before, on line 1");
    assert_eq!(
        of("Ca 1 \"H-1\" # \"n0 hca0\"\n[1](2) \"H-9\"[1]"),
        "line 2: 'n0 hca0:1' has a link to 'H-9', which is no switch"
    );
    assert_eq!(of("[1] \"S-2\"[1]"), "line 1: 'Switch, Ca or Rt' is missing");
    assert_eq!(of(&format!("{switch}[x] \"S-1\"[1]")), "line 2: \"[x] \\\"S-1\\\"[1]\" has none of the known forms");
    assert_eq!(of("Switch 8"), "line 1: \"Switch 8\" has none of the known forms");
    assert_eq!(of("hello"), "line 1: \"hello\" has none of the known forms");
    assert_eq!(of(switch), "plane 'infiniband' has no devices");
    let again = SUBNET.replace("[4][ext 2]", "[3]");
    assert_eq!(of(&again), "line 11: '\"S-0000000000002000\"[3]' was described before, on line 10");
    let crossed = SUBNET.replace("[1](1001) \t\"S-0000000000002000\"[1]", "[1](1001) \t\"S-0000000000002000\"[3]");
    let expected = "the cable leads to \"S-0000000000002000\"[3], and from there to \"S-0000000000002001\"[3]";
    assert_eq!(of(&crossed), format!("line 28: {expected}"));
}

/// Nodes and names of the devices of a subnet whose adapters, `H-0` and so on, have these descriptions.
fn adapters(descriptions: &[&str]) -> Vec<String> {
    let ports: String = (0..descriptions.len()).map(|id| format!("[{id}] \"H-{id}\"[1]\n")).collect();
    let of_adapter = |(id, text): (usize, &&str)| format!("Ca 1 \"H-{id}\" # \"{text}\"\n[1](2) \"S-1\"[{id}]\n");
    let sections: String = descriptions.iter().enumerate().map(of_adapter).collect();
    let fabric = IbNetDiscover.read(&format!("Switch 8 \"S-1\"\n{ports}{sections}")).unwrap();
    let devices = (0..).map_while(|index| plane(&fabric).device(index));
    devices.map(|device| format!("{} {}", device.node, device.name)).collect()
}

/// Such a subnet was refused: "node 'MT4129' has two devices with the name 'ConnectX7:1'".
#[test]
fn adapters_with_the_description_of_the_factory_have_their_ids() {
    let factory = "MT4129 ConnectX7   Mellanox Technologies";
    assert_eq!(adapters(&[factory, "n0 HCA-6", factory]), ["H-0 ca:1", "n0 HCA-6:1", "H-2 ca:1"]);
    assert_eq!(
        adapters(&["MT4129 ConnectX7", "MT4129a hca0", "n0 hca0 again"]),
        ["H-0 ca:1", "MT4129a hca0:1", "H-2 ca:1"]
    );
}

/// Two hosts of one name ended the fabric of all others.
#[test]
fn adapters_with_the_same_description_have_their_ids_and_the_log_says_so() {
    let lines = LogLines::default();
    tracing::subscriber::with_default(lines.subscriber(), || {
        let devices = adapters(&["localhost mlx5_0", "n0 mlx5_0", "localhost mlx5_0", "localhost mlx5_1"]);
        assert_eq!(devices, ["H-0 ca:1", "n0 mlx5_0:1", "H-2 ca:1", "localhost mlx5_1:1"]);
    });
    let lines = lines.taken();
    assert!(lines.len() == 1 && lines[0].contains("2 InfiniBand adapters are nodes of their own"), "{lines:?}");
    assert!(lines[0].contains("'localhost mlx5_0'"), "{lines:?}");
}

#[test]
fn listings_of_sys_give_a_plane_for_each_class() {
    let text = "n0: /sys/class/net/lo/address:00:00:00:00:00:00\n\
        n0: /sys/class/net/eth0/address:52:54:00:12:34:56\n\
        n0: /sys/class/net/eth0/device/vendor:0x8086\n\
        n1: /sys/class/net/eth0/address:52:54:00:12:34:57\n\
        n1: /sys/class/infiniband/mlx5_0/node_guid:506b:4b03:00c4:8d1c\n\
        n1: /sys/class/infiniband/mlx5_0/sys_image_guid:506b:4b03:00c4:8d1d\n\
        n1: /sys/class/infiniband/mlx5_0/ports/1/state:4: ACTIVE\n\
        n1: /sys/class/infiniband/mlx5_0/ports/1/link_layer:InfiniBand\n\
        n1: /sys/class/infiniband/mlx5_0/ports/2/link_layer:InfiniBand\n";
    let fabric = SysListing.read(text).unwrap();
    let all: Vec<_> = fabric
        .planes()
        .iter()
        .flat_map(|plane| {
            (0..).map_while(|index| plane.device(index)).map(move |d| (plane.name(), d.node, d.name, d.vendor))
        })
        .collect();
    let ports = ["mlx5_0:1", "mlx5_0:2"].map(|name| ("infiniband", "n1", name, "unknown"));
    let net = [("net", "n0", "eth0", "0x8086"), ("net", "n1", "eth0", "unknown")];
    assert_eq!(all, [net, ports].concat());
    let first = plane(&fabric).device(0).unwrap();
    assert_eq!((first.address, first.id), (Some("52:54:00:12:34:56"), Some("ipv4://52:54:00:12:34:56")));
    let port = fabric.planes()[1].device(1).unwrap();
    assert_eq!(port.id, Some("fab://506b:4b03:00c4:8d1c::506b:4b03:00c4:8d1d:2"));
    let of = |text| error(SysListing.read(text));
    assert_eq!(
        of("n0: /sys/class/block/sda/size:1"),
        "line 1: \"n0: /sys/class/block/sda/size:1\" has none of the known forms"
    );
    let twice = "n0: /sys/class/net/e/mtu:1\nn0: /sys/class/net/e/mtu:1";
    assert_eq!(of(twice), "line 2: 'n0 e/mtu' was described before, on line 1");
    assert_eq!(of("n0: /sys/class/net/lo/address:00:00:00:00:00:00"), "the fabric has no plane");
}

/// A file of 300 MiB was reported as one of "268435457 bytes": no more of it is read.
#[test]
fn a_text_that_is_too_long_is_refused_without_its_length() {
    let text = " ".repeat(TEXT_BYTES_MAX + 1);
    assert_eq!(error(slurm(&text)), "the description has more than 268435456 bytes");
}

/// Such names were taken, and broke the lists in which nodes and devices stand; or the error named neither line nor
/// device.
#[test]
fn names_that_no_list_can_hold_are_refused_with_their_line_or_device() {
    let long = "x".repeat(256);
    let of_listing = |node: &str, name: &str| {
        let good = "n0: /sys/class/net/eth0/mtu:1500";
        error(SysListing.read(&format!("{good}\n{node}: /sys/class/net/{name}/mtu:1500")))
    };
    for node in ["", "a b", "a/b", "a,b", "a;b", "a\tb", "a\u{1}b", &long] {
        let error = of_listing(node, "eth0");
        assert!(error.starts_with(&format!("line 2: no node can have the name {:?}", excerpt(node))), "{error}");
    }
    for name in ["", "eth 0", "eth,0", "eth\u{7f}", &long] {
        let error = of_listing("n1", name);
        assert!(error.starts_with(&format!("line 2: no device can have the name {:?}", excerpt(name))), "{error}");
    }
    for odd in ["net/eth0/address:zz", "infiniband/mlx5_0/node_guid:xyz"] {
        let line = format!("n0: /sys/class/{odd}");
        assert_eq!(error(SysListing.read(&line)), format!("line 1: {line:?} has none of the known forms"));
    }
    let port = error(SysListing.read("n0: /sys/class/infiniband/mlx5_0/ports/a b/state:4"));
    assert!(port.starts_with("line 1: no device can have the name \"mlx5_0:a b\""), "{port}");
    let of_subnet = |adapter: &str| {
        let switch = "Switch 8 \"S-1\" # \"\" base port 0 lid 1 lmc 0\n[1] \"H-1\"[1]\n";
        IbNetDiscover.read(&format!("{switch}Ca 1 {adapter}\n[1](2) \"S-1\"[1]\n"))
    };
    let refused = error(of_subnet("\"H 1\""));
    assert!(refused.starts_with("line 3: no node can have the name \"H 1\""), "{refused}");
    // Other machines write descriptions, so odd ones do not count.
    for description in ["n0\u{1} hca0", "a,b hca0", "n0 h/a0", "MT25408/ConnectX Mellanox Technologies"] {
        let fabric = of_subnet(&format!("\"H-1\" # \"{description}\"")).unwrap();
        let device = plane(&fabric).device(0).unwrap();
        assert_eq!((device.node, device.name), ("H-1", "ca:1"), "{description:?}");
    }
    let switch = error(IbNetDiscover.read("Switch 8 \"S\u{1}\""));
    assert!(switch.starts_with("line 1: no switch can have the name"), "{switch}");
    // A provider of a site.
    let device = DeviceDescription {
        node: "n0".to_owned(),
        name: "eth 0".to_owned(),
        vendor: "x".into(),
        ..DeviceDescription::default()
    };
    let refused = Fabric::new(sysfs::of_classes("site", vec![device], Vec::new())).unwrap_err().to_string();
    assert!(refused.starts_with("plane 'net': no device \"eth 0\" of node \"n0\" can be in a fabric"), "{refused}");
}

#[test]
fn inventories_are_a_fabric_of_interfaces_and_adapters() {
    let device = |device_types, name: &str, uuid: &str| inventory::Device {
        device_types,
        name: name.to_owned(),
        uuid: uuid.to_owned(),
        vendor: (name != "lo").then_some(0x15b3),
        ..inventory::Device::default()
    };
    let of_node = |node: &str| Inventory {
        node: node.to_owned(),
        devices: vec![
            device(4, "lo", "ipv4://00:00:00:00:00:00"),
            device(4, "eth0", "ipv4://52:54:00:12:34:56"),
            device(8, "mlx5_0", "mlx5_0"),
            device(2, "card0", "card0"),
        ],
        ..Inventory::default()
    };
    let mut inventories = Inventories::default();
    assert_eq!(error(inventories.read("")), "the fabric has no plane");
    let blobs = ["n1", "n0"].map(|node| of_node(node).encode().unwrap());
    inventories.deliver(blobs.iter().map(Vec::as_slice)).unwrap();
    let fabric = inventories.read("").unwrap();
    let all = fabric.planes().iter().flat_map(|plane| {
        (0..).map_while(|index| plane.device(index)).map(move |d| (plane.name(), d.node, d.name, d.vendor, d.address))
    });
    let net = ["n0", "n1"].map(|node| ("net", node, "eth0", "0x15b3", Some("52:54:00:12:34:56")));
    let adapters = ["n0", "n1"].map(|node| ("infiniband", node, "mlx5_0", "0x15b3", None));
    assert_eq!(all.collect::<Vec<_>>(), [net, adapters].concat());
}

/// Lines of the known words in any order, as they stand in real texts and as they never do.
fn texts() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "SwitchName=a",
        "SwitchName=b",
        "BlockName=c",
        "RingName=d",
        "Nodes=n[0-2]",
        "Nodes=m",
        "Switches=a,b",
        "BlockSizes=2,4",
        "\\",
        "#",
        "Switch",
        "Ca",
        "Rt",
        "8",
        "\"S-1\"",
        "\"S-2\"",
        "\"H-1\"",
        "[1]",
        "[2](3)",
        "vendid=0x1",
        "n0:",
        "nodes:2",
        ";",
        "plane:s:2",
        "/sys/class/net/e/address:1",
        "/sys/class/infiniband/m/ports/1/state:1",
        "[",
        "]",
        "- topology: t",
        "  tree:",
        "switches:",
        "- {switch: a, nodes: n}",
        "children: a",
        "{",
        "}",
        "\u{e9}",
        "=",
        ":",
    ];
    let word = prop_oneof![8 => prop::sample::select(WORDS).prop_map(str::to_owned), 1 => "\\PC{0,6}"];
    let separator = prop::sample::select(&[" ", "\n", ""][..]);
    prop::collection::vec((word, separator), 0..40)
        .prop_map(|parts| parts.into_iter().map(|(word, separator)| word + separator).collect())
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_short_words(text in texts()) {
        let providers: [&dyn Provider; 6] = [
            &SlurmTopology::default(),
            &SlurmTopology { is_dragonfly: true },
            &SlurmYaml,
            &IbNetDiscover,
            &SysListing,
            &TestFabric,
        ];
        for provider in providers {
            match provider.read(&text) {
                Ok(fabric) => prop_assert!(fabric.planes().iter().all(|plane| plane.cost(0, 0) == Some(0))),
                Err(error) => prop_assert!(error.to_string().len() < 700, "{}", error),
            }
        }
    }

    #[test]
    fn a_tree_written_as_slurm_does_is_read_back(above in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let parents: Vec<usize> = above.iter().enumerate().map(|(place, above)| above.index(place + 1)).collect();
        let mut text = String::new();
        for switch in 0..=parents.len() {
            let below: Vec<String> =
                (0..parents.len()).filter(|&place| parents[place] == switch).map(|place| format!("s{}", place + 1)).collect();
            let switches = if below.is_empty() { String::new() } else { format!(" Switches={}", below.join(",")) };
            text += &format!("SwitchName=s{switch} Nodes=n{switch}{switches}\n");
        }
        let fabric = slurm(&text).unwrap();
        let upwards = |mut switch: usize| {
            let mut path = vec![switch];
            while switch > 0 {
                switch = parents[switch - 1];
                path.push(switch);
            }
            path
        };
        for (one, other) in (0..=parents.len()).flat_map(|one| (0..one).map(move |other| (one, other))) {
            let (up, down) = (upwards(one), upwards(other));
            let common = up.iter().rev().zip(down.iter().rev()).take_while(|(one, other)| one == other).count();
            let hops = up.len() + down.len() - 2 * common;
            prop_assert_eq!(usize::from(cost(&fabric, &format!("n{one}"), &format!("n{other}"))), hops + 2);
        }
    }
}
