//! Programming models, and the variables that tune their libraries.

use crate::keys;
use crate::types::Info;

/// A library of a programming model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Model {
    /// Its name in the parameters `PMIX_MCA_pmdl_<name>_include_envars` and `_exclude_envars`. Open MPI's are
    /// OpenPMIx's.
    pub(super) name: &'static str,
    /// Parts of its names in lower case.
    names: &'static [&'static str],
    /// Its variables.
    pub(super) variables: &'static str,
    /// Variables of one process. A process of another job must not get them.
    pub(super) of_process: &'static str,
    is_mpi: bool,
}

/// The known libraries. `OPAL_*` is of Open MPI, as in OpenPMIx.
const MODELS: [Model; 4] = [
    Model {
        name: "ompi",
        names: &["ompi", "openmpi", "open mpi", "open-mpi"],
        variables: "OMPI_*;OPAL_*",
        of_process: "OMPI_COMM_WORLD_*;OMPI_UNIVERSE_SIZE;OMPI_APP_CTX_NUM_PROCS;OMPI_FIRST_RANKS;OMPI_NUM_APP_CTX;\
                     OMPI_FILE_LOCATION;OMPI_COMMAND;OMPI_ARGV",
        is_mpi: true,
    },
    Model { name: "oshmem", names: &["shmem"], variables: "SHMEM_*;OSHMEM*", of_process: "", is_mpi: false },
    Model { name: "mpich", names: &["mpich"], variables: "MPICH_*;MPIR_*;HYDRA_*", of_process: "", is_mpi: true },
    Model { name: "impi", names: &["intel", "impi"], variables: "I_MPI_*", of_process: "", is_mpi: true },
];

/// Modules for fabrics that collect variables, with the variables of their drivers. OpenPMIx has the same. `tcp` has
/// none.
pub(super) const DRIVERS: [(&str, &str); 3] =
    [("nvd", "UCX_*;HCOLL_*;UCC_*;SHARP_*;NCCL_*"), ("opa", "HFI_*;PSM2_*"), ("tcp", "")];

/// The libraries that infos of a job name: its programming model, the name of the library, and its personality. The
/// model "MPI" without a known library stands for every MPI library.
pub(super) fn models_of(infos: &[Info]) -> Vec<Model> {
    let texts = |key: &'static str| infos.iter().filter(move |info| info.key.as_str() == key).flat_map(parts);
    let libraries: Vec<Model> = texts(keys::MODEL_LIBRARY_NAME.name()).flat_map(|text| named(&text)).collect();
    let mut found = libraries.clone();
    for text in texts(keys::PROGRAMMING_MODEL.name()).chain(texts(keys::PERSONALITY.name())) {
        let is_any_mpi = text == "mpi" && !libraries.iter().any(|library| library.is_mpi);
        found.extend(MODELS.into_iter().filter(|model| is_any_mpi && model.is_mpi));
        found.extend(named(&text));
    }
    MODELS.into_iter().filter(|model| found.contains(model)).collect()
}

/// The personality of Open MPI's jobs.
pub(super) const PERSONALITY_OF_OPEN_MPI: &str = "ompi";

/// Whether infos of a job name Open MPI.
pub(super) fn is_of_open_mpi<'a>(infos: impl IntoIterator<Item = &'a Info>) -> bool {
    let is_named = |info: &Info| parts(info).iter().any(|text| named(text).contains(&MODELS[0]));
    infos.into_iter().any(|info| names_model(info) && is_named(info))
}

/// Whether an info names a programming model.
pub(super) fn names_model(info: &Info) -> bool {
    let names = [keys::PROGRAMMING_MODEL.name(), keys::MODEL_LIBRARY_NAME.name(), keys::PERSONALITY.name()];
    names.contains(&info.key.as_str())
}

/// Whether an info names a programming model whose variables are unknown.
pub(super) fn is_unknown_model(info: &Info) -> bool {
    names_model(info) && !parts(info).iter().any(|text| text == "mpi" || !named(text).is_empty())
}

fn parts(info: &Info) -> Vec<String> {
    let text = info.value.as_str().unwrap_or_default().to_ascii_lowercase();
    text.split([',', ';']).map(|part| part.trim().to_owned()).collect()
}

fn named(text: &str) -> Vec<Model> {
    MODELS.into_iter().filter(|model| model.names.iter().any(|name| text.contains(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Key;

    fn found(infos: &[(&'static str, &str)]) -> Vec<&'static str> {
        let infos: Vec<Info> = infos.iter().map(|(key, value)| Info::new(Key::from_static(key), *value)).collect();
        models_of(&infos).into_iter().map(|model| model.name).collect()
    }

    #[test]
    fn a_model_is_found_by_the_names_that_launchers_and_users_give_it() {
        let model = |text: &str| found(&[(keys::PROGRAMMING_MODEL.name(), text)]);
        for name in ["ompi", "Open MPI", "OpenMPI", "ompi5,slurm"] {
            assert_eq!(model(name), ["ompi"], "{name}");
        }
        assert_eq!(model("OpenSHMEM"), ["oshmem"]);
        assert_eq!(model("MPICH"), ["mpich"]);
        assert_eq!(model("Intel MPI"), ["impi"]);
        assert_eq!(model("MPI"), ["ompi", "mpich", "impi"]);
        assert_eq!(model("OpenMP"), [""; 0]);
        assert_eq!(found(&[(keys::PERSONALITY.name(), "ompi")]), ["ompi"]);
        let library = (keys::MODEL_LIBRARY_NAME.name(), "MPICH");
        assert_eq!(found(&[(keys::PROGRAMMING_MODEL.name(), "MPI"), library]), ["mpich"]);
    }

    #[test]
    fn each_model_and_driver_has_its_parameters_in_the_table() {
        let models = MODELS.iter().map(|model| format!("pmdl_{}", model.name));
        for module in models.chain(DRIVERS.iter().map(|(name, _)| format!("pnet_{name}"))) {
            for word in ["include", "exclude"] {
                let name = format!("{module}_{word}_envars");
                assert!(crate::runtime::shared::parameters::parameter(&name).is_some(), "{name}");
            }
        }
    }
}
