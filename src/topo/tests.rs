use zerocopy::IntoBytes;

use super::format::{NONE, TopologyHead, layout};
use super::*;
use crate::shmem::{Align, RootIndex, SegmentOptions, SegmentWriter};
use crate::types::{Text, Topology};

/// hwloc's XML of two packages with two cores, memory and a device each.
const TWO_PACKAGES: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000000f" gp_index="1">
    <info name="HostName" value="n0 &amp; more"/>
    <object type="Package" os_index="0" cpuset="0x00000003" gp_index="2">
      <info name="CPUModel" value="made up"/>
      <object type="NUMANode" os_index="0" cpuset="0x00000003" gp_index="3" local_memory="1000">
        <page_type size="4096" count="10"/>
      </object>
      <object type="L3Cache" cpuset="0x00000003" cache_size="8388608" depth="3">
        <object type="Core" os_index="0" cpuset="0x00000001"><object type="PU" os_index="0" cpuset="0x00000001"/></object>
        <object type="Core" os_index="1" cpuset="0x00000002"><object type="PU" os_index="1" cpuset="0x00000002"/></object>
      </object>
      <object type="Bridge" gp_index="9" bridge_type="0-1" depth="0" bridge_pci="0000:[00-01]">
        <object type="PCIDev" gp_index="10" name="made up" pci_busid="0000:01:00.0" pci_type="0200 [8086:1572] [8086:0001] 02" pci_link_speed="1.0">
          <object type="OSDev" gp_index="11" name="eth0" osdev_type="2"><info name="Address" value="52:54:00:12:34:56"/></object>
        </object>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x0000000c">
      <object type="NUMANode" os_index="1" cpuset="0x0000000c" local_memory="2000"/>
      <object type="L3Cache" cpuset="0x0000000c" cache_size="8388608" depth="3">
        <object type="Core" os_index="2" cpuset="0x00000004"><object type="PU" os_index="2" cpuset="0x00000004"/></object>
        <object type="Core" os_index="3" cpuset="0x00000008"><object type="PU" os_index="3" cpuset="0x00000008"/></object>
      </object>
      <object type="OSDev" name="card0" subtype="CUDA" osdev_type="1"/>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="2" kind="5"><info name="not" value="an object's"/>
    <indexes length="4">0 1 </indexes><u64values length="12">10 20 20 10 </u64values>
  </distances2>
</topology>
"#;

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn topology(xml: &str) -> Topology {
    Topology { xml: Some(Text::from(xml)), support: vec![1, 0, 1] }
}

fn shared(xml: &str) -> SharedMachine {
    SharedMachine::publish(&topology(xml), &SegmentOptions::new("", "srv.0")).unwrap()
}

#[test]
fn a_machine_is_what_its_text_says() {
    let machine = Machine::of_xml(TWO_PACKAGES).unwrap();
    let names = |kind| machine.of_kind(kind).map(|object| object.name().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(Kind::OsDevice), ["eth0", "card0"]);
    let top = machine.objects().next().unwrap();
    assert_eq!((top.kind(), top.remark("HostName"), top.remarks().count()), (Kind::Machine, Some("n0 & more"), 1));
    let memory: Vec<u64> = machine.of_kind(Kind::NumaNode).map(|node| node.size_bytes()).collect();
    assert_eq!(memory, [1000, 2000]);
    let cores: Vec<_> = machine.of_kind(Kind::Core).map(|core| (core.logical_index(), core.depth())).collect();
    assert_eq!(cores, [(0, Some(3)), (1, Some(3)), (2, Some(3)), (3, Some(3))]);
    let device = machine.of_kind(Kind::PciDevice).next().unwrap();
    assert_eq!(device.pci_numbers(), Some([0x200, 0x8086, 0x1572, 2]));
    assert_eq!((device.remark("pci_busid"), device.parent().unwrap().kind()), (Some("0000:01:00.0"), Kind::Bridge));
    assert_eq!(device.depth(), None);
}

#[test]
fn localities_and_packages_come_from_the_processors() {
    let machine = Machine::of_xml(TWO_PACKAGES).unwrap();
    assert_eq!(machine.locality(&set("1")), Some("hwloc:SK0:L30:CR1:HT1:NM0".to_owned()));
    assert_eq!(machine.locality(&set("1-2")), Some("hwloc:SK0-1:L30-1:CR1-2:HT1-2:NM0-1".to_owned()));
    assert_eq!(["0-3", "0-63", "9", ""].map(|list| machine.locality(&set(list))), [const { None }; 4]);
    assert_eq!(["0-1", "3", "1-2", "9"].map(|list| machine.package_of(&set(list))), [Some(0), Some(1), None, None]);
}

#[test]
fn a_device_is_as_far_as_the_levels_between() {
    let machine = Machine::of_xml(TWO_PACKAGES).unwrap();
    let far =
        |list| machine.distances(&set(list)).into_iter().map(|d| (d.uuid, d.nearest, d.farthest)).collect::<Vec<_>>();
    let (network, card) = ("ipv4://52:54:00:12:34:56".to_owned(), "gpu://n0 & more::card0".to_owned());
    assert_eq!(far("0"), [(network.clone(), 3, 3), (card.clone(), 4, 4)]);
    assert_eq!(far("1-2"), [(network.clone(), 3, 4), (card.clone(), 3, 4)]);
    assert_eq!(far(""), [(network, u16::MAX, u16::MAX), (card, u16::MAX, u16::MAX)]);
    assert_eq!(machine.distances(&set("0")).iter().map(|d| d.device_types).collect::<Vec<_>>(), [4, 2]);
}

#[test]
fn a_reader_of_the_segment_sees_what_the_server_read() {
    let written = shared(TWO_PACKAGES);
    let read = Machine::attach(written.handle().unwrap()).unwrap();
    let told = Machine::of_xml(TWO_PACKAGES).unwrap();
    assert!(read.is_shared() && !told.is_shared());
    assert_eq!((read.xml(), read.support()), (TWO_PACKAGES, &[1_u8, 0, 1][..]));
    assert_eq!(format!("{:?}", read.rows()), format!("{:?}", told.rows()));
    assert_eq!(read.locality(&set("3")), told.locality(&set("3")));
}

/// Levels consist of one kind at any depth: here the cores of one package have their own caches, and those of another
/// share one.
#[test]
fn objects_of_one_kind_are_one_level_on_uneven_machines() {
    let core = |number: u32| {
        let mask = format!("0x{:x}", 1 << number);
        format!(
            r#"<object type="Core" cpuset="{mask}"><object type="PU" os_index="{number}" cpuset="{mask}"/></object>"#
        )
    };
    let xml = format!(
        r#"<topology version="2.0"><object type="Machine" cpuset="0xf"><object type="Package" cpuset="0xc">{}{}</object>
           <object type="Package" cpuset="0x3"><object type="L2Cache" cpuset="0x3">{}{}</object></object></object></topology>"#,
        core(2),
        core(3),
        core(0),
        core(1),
    );
    let machine = Machine::of_xml(&xml).unwrap();
    let depths = |kind| machine.of_kind(kind).map(|object| object.depth()).collect::<Vec<_>>();
    assert_eq!((depths(Kind::L2Cache), depths(Kind::Core)), (vec![Some(2)], vec![Some(3); 4]));
    assert_eq!(depths(Kind::Processor), [Some(4); 4]);
}

#[test]
fn a_malformed_topology_is_refused_with_its_error() {
    let refused = |xml: &str| Machine::of_xml(xml).unwrap_err();
    assert!(matches!(refused(""), DigestError::Rows(RowError::Empty)));
    assert!(matches!(refused("<topology><object/></topology>"), DigestError::Version { .. }));
    assert!(matches!(refused("<object type=\"Machine\"/>"), DigestError::Version { .. }));
    let inside = |text: &str| format!("<topology version=\"2.0\">{text}</topology>");
    assert!(matches!(refused(&inside("<object/><object/>")), DigestError::Rows(RowError::Parent { index: 1, .. })));
    assert!(matches!(refused(&inside("<object os_index='x'/>")), DigestError::Number { attribute: "os_index", .. }));
    assert!(matches!(refused(&inside("<object cpuset='0xf...f'/>")), DigestError::Set(_)));
    assert!(matches!(refused(&inside(&"<object>".repeat(1000))), DigestError::Depth));
    let groups: String = (0..65).map(|kind| format!("<object type='Group' subkind='{kind}'/>")).collect();
    let groups = inside(&format!("<object type='Machine'>{groups}</object>"));
    assert!(matches!(refused(&groups), DigestError::TooMany { what: "kinds of groups", .. }));
    assert!(matches!(refused(&" ".repeat(XML_BYTES_MAX + 1)), DigestError::TooLong { .. }));
    let absent = SharedMachine::publish(&Topology { xml: None, support: Vec::new() }, &SegmentOptions::new("", "s.0"));
    assert!(matches!(absent, Err(ShareError::Absent)));
}

#[test]
fn references_are_read_and_text_comments_and_declarations_are_passed_over() {
    let machine = Machine::of_xml(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\" [<!ENTITY e 'e'>]>\n<!-- <object> -->\
         <topology version='2.0'>text<object type='Machine' name='1 &amp; &#10;2' subtype='&lt;&quot;&gt;&#x41;'/></topology>",
    )
    .unwrap();
    let object = machine.of_kind(Kind::Machine).next().unwrap();
    assert_eq!((object.name(), object.subtype()), ("1 & \n2", "<\">A"));
}

#[test]
fn xml_that_does_not_end_or_is_damaged_is_refused_with_its_place() {
    let refused = |xml: &str| match Machine::of_xml(xml).unwrap_err() {
        DigestError::Malformed { offset, reason } => (offset, reason),
        other => panic!("{xml}: {other}"),
    };
    assert_eq!(refused("<a/><b").0, 4);
    assert_eq!(refused("<a/><b></a>").0, 7);
    for text in
        ["<!-- <a>", "<!DOCTYPE a", "<a b>", "<a b=c>", "<a b=\"c>", "<a =\"1\">", "<a b c=\"1\">", "<a b='&e;'>"]
    {
        assert_eq!(refused(text).0, 0, "{text}");
    }
    // Entities that a document declares are not expanded.
    let declared = "<!DOCTYPE a [<!ENTITY e 'e'>]>";
    assert_eq!(refused(&format!("{declared}<a b='&e;'/>")).0, declared.len() as u64);
}

/// The rows of a segment are untrusted: for any value of one byte the reader answers or refuses.
#[test]
fn a_damaged_segment_is_an_error_and_no_crash() {
    let xml = TWO_PACKAGES;
    let digest = super::digest::Digest::of_xml(xml).unwrap();
    let mut refusals = 0;
    let rows = [digest.objects.as_bytes().len(), digest.remarks.as_bytes().len(), size_of::<TopologyHead>()];
    for (part, length) in rows.into_iter().enumerate() {
        for position in 0..length {
            match attach_damaged(&digest, part, position) {
                Err(
                    MachineError::Corrupt(_)
                    | MachineError::Rows(_)
                    | MachineError::Count { .. }
                    | MachineError::NotText,
                ) => {
                    refusals += 1;
                }
                Err(other) => panic!("{other}"),
                Ok(machine) => {
                    let everything =
                        machine.objects().map(|object| object.remarks().count() + object.ancestors().count());
                    assert!(everything.sum::<usize>() > 0);
                    let _ = (machine.locality(&set("1")), machine.distances(&set("0-3")), machine.xml().len());
                }
            }
        }
    }
    assert!(refusals > 100, "{refusals}");
}

/// Attaches a segment with one byte changed.
fn attach_damaged(digest: &super::digest::Digest, part: usize, position: usize) -> Result<Machine, MachineError> {
    let mut bytes = [digest.objects.as_bytes().to_vec(), digest.remarks.as_bytes().to_vec(), Vec::new()];
    let damage = |bytes: &mut [u8]| bytes[position] ^= 0x80;
    if part < 2 {
        damage(&mut bytes[part]);
    }
    let mut writer = SegmentWriter::create(&SegmentOptions::new(LABEL, "srv.0"), layout()).unwrap();
    let mut put = |bytes: &[u8]| writer.append(bytes, Align::Eight).unwrap().get();
    let count = |length: usize| u32::try_from(length).unwrap();
    let head = TopologyHead {
        objects: put(&bytes[0]),
        remarks: put(&bytes[1]),
        sets: put(digest.sets.as_bytes()),
        texts: put(&digest.texts),
        xml: put(b"<xml/>\0"),
        support: put(&[1]),
        object_count: count(digest.objects.len()),
        remark_count: count(digest.remarks.len()),
        set_count: count(digest.sets.len() / digest.set_words as usize),
        set_words: digest.set_words,
        text_bytes: count(digest.texts.len()),
        xml_bytes: 6,
        support_bytes: 1,
        reserved: 0,
    };
    let mut head = head.as_bytes().to_vec();
    if part == 2 {
        damage(&mut head);
    }
    let head = writer.append(&head, Align::Eight).unwrap();
    writer.publish();
    writer.set_root(RootIndex::of::<0>(), head).unwrap();
    Machine::attach(writer.handle().unwrap())
}

#[test]
fn a_segment_of_another_layout_is_no_topology() {
    let writer = SegmentWriter::create(&SegmentOptions::new("job", "srv.0"), "another layout").unwrap();
    assert!(matches!(Machine::attach(writer.handle().unwrap()), Err(MachineError::Attach(_))));
    let empty = SegmentWriter::create(&SegmentOptions::new(LABEL, "srv.0"), layout()).unwrap();
    assert!(matches!(Machine::attach(empty.handle().unwrap()), Err(MachineError::Empty)));
}

#[test]
fn an_object_without_a_number_has_none() {
    let machine = Machine::of_xml(TWO_PACKAGES).unwrap();
    let cache = machine.of_kind(Kind::L3Cache).next().unwrap();
    assert_eq!((cache.os_index(), cache.size_bytes()), (None, 8 << 20));
    assert_eq!(machine.objects().next().unwrap().parent().map(|object| object.index()), None);
    assert!(super::rows::Object::at(machine.rows(), NONE).is_none());
}

/// Numbers and levels equal those of hwloc, on this machine and on synthetic ones.
#[cfg(feature = "topology")]
#[test]
fn levels_and_numbers_are_hwlocs() {
    use hwlocality::Topology as Hwloc;
    use hwlocality::object::types::ObjectType;
    use hwlocality::topology::export::xml::XMLExportFlags;

    let kinds = [
        (Kind::Package, ObjectType::Package),
        (Kind::Die, ObjectType::Die),
        (Kind::L3Cache, ObjectType::L3Cache),
        (Kind::L2Cache, ObjectType::L2Cache),
        (Kind::L1Cache, ObjectType::L1Cache),
        (Kind::Core, ObjectType::Core),
        (Kind::Processor, ObjectType::PU),
        (Kind::NumaNode, ObjectType::NUMANode),
    ];
    let synthetic = [
        "pack:2 [numa] l3:2 l2:4 l1d:1 core:1 pu:2",
        "numa:4 pack:1 core:8 pu:1",
        "pack:2 [numa(memory=1GB)] [numa(memory=2GB)] l3:2 [numa] core:3 pu:1",
        "pack:2 die:2 [numa] l3:1 core:2 pu:2(indexes=pack:core)",
        "pack:1 [numa] core:70 pu:1",
    ];
    let made_up = synthetic.map(|text| Hwloc::builder().from_synthetic(text).expect(text).build().expect(text));
    let xml = read().unwrap().xml.unwrap().to_string_lossy();
    let here = Hwloc::builder().from_xml(&xml).unwrap().build().unwrap();
    for hwloc in made_up.iter().chain([&here]) {
        let xml = hwloc.export_xml(XMLExportFlags::empty()).unwrap();
        let machine = Machine::of_xml(xml.as_str()).unwrap();
        for (kind, object_type) in kinds {
            let ours = |object: Object<'_>| {
                let words = object.processors().map(CpuSet::of_words);
                (object.logical_index(), object.os_index(), words.unwrap_or_default().to_string())
            };
            let mut ours: Vec<_> = machine.of_kind(kind).map(ours).collect();
            ours.sort();
            let theirs = hwloc.objects_with_type(object_type).map(|object| {
                let mut set = CpuSet::new();
                for index in object.cpuset().into_iter().flat_map(|set| set.iter_set().collect::<Vec<_>>()) {
                    set.insert(u32::try_from(usize::from(index)).unwrap()).unwrap();
                }
                (
                    u32::try_from(object.logical_index()).unwrap(),
                    object.os_index().map(|i| u32::try_from(i).unwrap()),
                    set.to_string(),
                )
            });
            assert_eq!(ours, theirs.collect::<Vec<_>>(), "{kind:?} of {}", xml.as_str());
            let depth = machine.of_kind(kind).next().and_then(|object| object.depth()).map(usize::from);
            let hwlocs = hwloc.depth_for_type(object_type).ok().and_then(|depth| usize::try_from(depth).ok());
            assert_eq!(depth, hwlocs, "{kind:?} of {}", xml.as_str());
        }
    }
}
