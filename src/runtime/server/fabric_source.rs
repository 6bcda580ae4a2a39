//! The place of a fabric's description.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fabric::providers::{
    INVENTORIES, IbNetDiscover, Provider, ProviderError, SlurmTopology, SlurmYaml, SysListing, TEXT_BYTES_MAX,
    TestFabric,
};
use crate::fabric::{Fabric, FabricError};
use crate::runtime::shared::parameters::{
    PNET_TEST_NODES, PNET_TEST_NVERTS, PNET_TEST_PLANES, is_pnet_module_named, parameter_value,
};
use crate::runtime::shared::regular_file;
use crate::topo::inventory::Inventories;
use crate::types::{AsStatus, Status};

/// The place of a fabric's description, and the form in which it is written.
#[derive(Clone, Debug)]
pub struct FabricSource(Source);

#[derive(Clone, Debug)]
enum Source {
    Text(Arc<dyn Provider>, Place),
    /// The inventories that are delivered to the server.
    Inventories,
}

#[derive(Clone, Debug)]
enum Place {
    File(PathBuf),
    Text(String),
    /// The parameters of the test fabric. A C program changes them in its environment.
    Parameters,
}

/// Why a fabric could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FabricSourceError {
    /// The file can't be read.
    #[error("the description of the fabric in {path:?} can't be read: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The text is wrong.
    #[error("the description of the fabric in {place}: {error}")]
    Text {
        /// The file or parameter.
        place: String,
        /// The reason.
        error: ProviderError,
    },
    /// A source is written in no known form.
    #[error("{text:?} is no source of a fabric; say FORM:PATH, with a form of {FORMS}, test:DESCRIPTION, or inventory")]
    Form {
        /// The text.
        text: String,
    },
}

impl AsStatus for FabricSourceError {
    fn status(&self) -> Status {
        match self {
            Self::File { error, .. } => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Status::ERR_NOT_FOUND,
                io::ErrorKind::PermissionDenied => Status::ERR_NO_PERMISSIONS,
                io::ErrorKind::InvalidInput => Status::ERR_BAD_PARAM,
                _ => Status::ERROR,
            },
            Self::Text { .. } => Status::ERR_UNPACK_FAILURE,
            Self::Form { .. } => Status::ERR_BAD_PARAM,
        }
    }
}

const FORMS: &str = "slurm, slurm-dragonfly, ibnetdiscover and sysfs";

impl FabricSource {
    /// A file that a provider reads. [`Self::parse`] knows the providers of this library.
    pub fn file(provider: impl Provider + 'static, path: impl Into<PathBuf>) -> Self {
        Self(Source::Text(Arc::new(provider), Place::File(path.into())))
    }

    /// The inventories of [`Server::deliver_inventory`](crate::Server::deliver_inventory). The fabric has no planes
    /// before the first network device was delivered. A thread reads all inventories after deliveries with other
    /// network devices, once for all of them. [`Server::fabric`](crate::Server::fabric) reads them itself if that has
    /// not happened yet.
    #[must_use]
    pub const fn inventories() -> Self {
        Self(Source::Inventories)
    }

    /// Reads `FORM:PATH`, with the forms `slurm`, `slurm-dragonfly`, `ibnetdiscover` and `sysfs`, or `test:` with the
    /// description of a test fabric, such as `test:nodes:5;plane:d:3`. A path of `slurm` that ends with `.yaml` is a
    /// `topology.yaml`. `inventory` is [`Self::inventories`].
    ///
    /// # Errors
    /// [`FabricSourceError::Form`].
    pub fn parse(text: &str) -> Result<Self, FabricSourceError> {
        match text.split_once(':') {
            Some(("slurm", path)) if path.ends_with(".yaml") => Ok(Self::file(SlurmYaml, path)),
            Some(("slurm", path)) => Ok(Self::file(SlurmTopology::default(), path)),
            Some(("slurm-dragonfly", path)) => Ok(Self::file(SlurmTopology { is_dragonfly: true }, path)),
            Some(("ibnetdiscover", path)) => Ok(Self::file(IbNetDiscover, path)),
            Some(("sysfs", path)) => Ok(Self::file(SysListing, path)),
            Some(("test", text)) => Ok(Self::of_test(Place::Text(text.to_owned()))),
            None if text == INVENTORIES => Ok(Self::inventories()),
            _ => Err(FabricSourceError::Form { text: text.to_owned() }),
        }
    }

    /// The test fabric of the parameters `pnet` = `test` and `pnet_test_nverts`, or else `pnet_test_planes` and
    /// `pnet_test_nodes`.
    #[must_use]
    pub fn of_parameters() -> Option<Self> {
        Self::of_test_parameters(is_pnet_module_named("test"), |name| parameter_value(name).is_some())
    }

    fn of_test_parameters(is_named: bool, is_set: impl Fn(&str) -> bool) -> Option<Self> {
        let is_described = [PNET_TEST_NVERTS, PNET_TEST_PLANES].into_iter().any(is_set);
        if is_named && !is_described {
            tracing::warn!(
                "PMIX_MCA_pnet=test describes no test fabric; set PMIX_MCA_pnet_test_nverts, too, such as nodes:5;plane:d:3"
            );
        }
        (is_named && is_described).then(|| Self::of_test(Place::Parameters))
    }

    fn of_test(place: Place) -> Self {
        Self(Source::Text(Arc::new(TestFabric), place))
    }

    /// Whether the fabric comes from inventories.
    pub(super) const fn is_of_inventories(&self) -> bool {
        matches!(self.0, Source::Inventories)
    }

    /// Reads the fabric.
    ///
    /// # Errors
    /// [`FabricSourceError`].
    pub(super) fn read(&self, inventories: &Inventories) -> Result<Fabric, FabricSourceError> {
        let Source::Text(provider, place) = &self.0 else { return read_inventories(inventories) };
        let (text, place) = match place {
            Place::File(path) => {
                let text = read_file(path);
                (
                    text.map_err(|error| FabricSourceError::File { path: path.clone(), error })?,
                    path.display().to_string(),
                )
            }
            Place::Text(text) => (text.clone(), "the test fabric".to_owned()),
            Place::Parameters => text_of_parameters(),
        };
        provider.read(&text).map_err(|error| FabricSourceError::Text { place, error })
    }
}

fn read_inventories(inventories: &Inventories) -> Result<Fabric, FabricSourceError> {
    match inventories.read("") {
        Err(ProviderError::Fabric(FabricError::NoPlane)) => Ok(Fabric::unknown(INVENTORIES.to_owned())),
        read => read.map_err(|error| FabricSourceError::Text { place: "the inventories".to_owned(), error }),
    }
}

/// The description of the test fabric, and the names of its parameters.
fn text_of_parameters() -> (String, String) {
    let value = |name| parameter_value(name).map(|value| value.to_string_lossy().into_owned());
    if let Some(text) = value(PNET_TEST_NVERTS) {
        return (text, PNET_TEST_NVERTS.to_owned());
    }
    let planes = value(PNET_TEST_PLANES).unwrap_or_default().replace(',', ";");
    let text = value(PNET_TEST_NODES).map_or_else(|| planes.clone(), |nodes| format!("names:{nodes};{planes}"));
    (text, format!("{PNET_TEST_NODES} and {PNET_TEST_PLANES}"))
}

/// Reads a text up to one byte more than the limit, so that the provider refuses a longer one.
fn read_file(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    regular_file::open(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    // Only comments and descriptions of adapters may hold other bytes.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_lines::LogLines;

    fn read(text: &str) -> Result<Fabric, FabricSourceError> {
        FabricSource::parse(text).unwrap().read(&Inventories::default())
    }

    #[test]
    fn a_source_is_a_form_and_a_path() {
        let fabric = read("test:nodes:5;plane:d:3").unwrap();
        assert_eq!(fabric.planes()[0].device_count(), 5);
        let unknown = read("inventory").unwrap();
        assert_eq!((unknown.identifier(), unknown.planes().len()), ("inventory", 0));
        for text in ["", "slurm", "lsf:/etc/x"] {
            let error = FabricSource::parse(text).unwrap_err().to_string();
            assert!(error.contains("is no source of a fabric; say FORM:PATH"), "{error}");
        }
        let missing = read("slurm:/no/such/file").unwrap_err();
        assert!(missing.to_string().contains("\"/no/such/file\" can't be read: No such file"), "{missing}");
        assert_eq!(missing.status(), Status::ERR_NOT_FOUND);
        // A pipe without a writer held up the start of the server.
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [directory.path(), &*pipe, Path::new("/dev/zero")] {
            let error = read(&format!("slurm:{}", path.display())).unwrap_err();
            assert!(error.to_string().ends_with("can't be read: it is not a regular file"), "{error}");
            assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        }
        let path = directory.path().join("topology.yaml");
        std::fs::write(&path, "- {topology: t, tree: {switches: [{switch: s, nodes: n}]}}").unwrap();
        let fabric = read(&format!("slurm:{}", path.display())).unwrap();
        assert_eq!(fabric.planes()[0].name(), "t");
        let wrong = read("test:nodes:5").unwrap_err().to_string();
        assert_eq!(wrong, "the description of the fabric in the test fabric: the fabric has no plane");
    }

    #[test]
    fn a_test_fabric_without_a_description_has_a_line_in_the_log() {
        let lines = LogLines::default();
        tracing::subscriber::with_default(lines.subscriber(), || {
            let of = |is_named, set: &str| FabricSource::of_test_parameters(is_named, |name| name == set).is_some();
            let found = [of(false, ""), of(true, PNET_TEST_NVERTS), of(true, PNET_TEST_PLANES), of(true, "")];
            assert_eq!(found, [false, true, true, false]);
        });
        let lines = lines.taken();
        assert!(lines.len() == 1 && lines[0].contains("PMIX_MCA_pnet_test_nverts"), "{lines:?}");
    }
}
