use hwlocality::Topology;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::TypeFilter;
use hwlocality::topology::export::xml::XMLExportFlags;

use super::TopologyError;
use crate::types;

pub(super) fn read() -> Result<types::Topology, TopologyError> {
    let builder =
        Topology::builder().with_io_type_filter(TypeFilter::KeepImportant).map_err(|error| detection(&error))?;
    let topology = builder.build().map_err(|error| detection(&error))?;
    let xml = topology.export_xml(XMLExportFlags::empty()).map_err(|error| detection(&error))?;
    Ok(types::Topology { xml: Some(types::Text::from(xml.as_str())), support: Vec::new() })
}

fn detection(error: &dyn std::fmt::Display) -> TopologyError {
    TopologyError::Detection { reason: error.to_string() }
}

pub(super) fn cores() -> Result<Vec<Vec<usize>>, TopologyError> {
    let topology = Topology::new().map_err(|error| detection(&error))?;
    let cores: Vec<Vec<usize>> = topology
        .objects_with_type(ObjectType::Core)
        .filter_map(|core| core.cpuset())
        .map(|cpuset| cpuset.iter_set().map(usize::from).collect())
        .filter(|processors: &Vec<usize>| !processors.is_empty())
        .collect();
    if cores.is_empty() { Err(TopologyError::NoCores) } else { Ok(cores) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_processor_belongs_to_one_core() {
        let mut processors: Vec<usize> = cores().unwrap().into_iter().flatten().collect();
        let count = processors.len();
        processors.sort_unstable();
        processors.dedup();
        assert_eq!(processors.len(), count);
        assert!(count > 0);
    }
}
