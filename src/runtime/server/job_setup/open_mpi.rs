//! The variables by which Open MPI's `mpirun` tells each process its place. Scripts read them, for instance to choose a
//! GPU.
//!
//! Source: the manual of Open MPI's `mpirun`, and the `ompi` component of OpenPMIx.

use crate::keys;
use crate::types::Value;

/// The part of a job that a value describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Described {
    /// The whole job.
    Job,
    /// The process.
    Process,
    /// The application of this number.
    App(u32),
}

/// Variables with a value of the job.
const OF_JOB: [(&str, &[&str]); 4] = [
    (keys::UNIV_SIZE.name(), &["OMPI_UNIVERSE_SIZE"]),
    (keys::JOB_SIZE.name(), &["OMPI_COMM_WORLD_SIZE", "OMPI_WORLD_SIZE", "OMPI_MCA_num_procs"]),
    (keys::LOCAL_SIZE.name(), &["OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_WORLD_LOCAL_SIZE"]),
    (keys::JOB_NUM_APPS.name(), &["OMPI_NUM_APP_CTX"]),
];

/// Variables with a value of the process.
const OF_PROCESS: [(&str, &str); 4] = [
    (keys::LOCAL_RANK.name(), "OMPI_COMM_WORLD_LOCAL_RANK"),
    (keys::NODE_RANK.name(), "OMPI_COMM_WORLD_NODE_RANK"),
    (keys::PROCDIR.name(), "OMPI_FILE_LOCATION"),
    (keys::REINCARNATION.name(), "OMPI_MCA_num_restarts"),
];

/// Variables with a value for each application of the job, if there are several.
const OF_EACH_APP: [(&str, &str); 2] =
    [(keys::APP_SIZE.name(), "OMPI_APP_CTX_NUM_PROCS"), (keys::APPLDR.name(), "OMPI_FIRST_RANKS")];

/// Limit of the applications whose sizes the variables list. Each is looked up for each process.
const APPS_MAX: u32 = 256;

/// The variables of the process with this rank. Without a value for one, it is left out.
pub fn variables_of_open_mpi(
    rank: u32,
    find: impl Fn(Described, &'static str) -> Option<Value>,
) -> Vec<(String, String)> {
    let text = |described, key| find(described, key).as_ref().and_then(text_of);
    let number = |described, key| find(described, key).and_then(|value| value.as_u32());
    let mut found = vec![("OMPI_COMM_WORLD_RANK", rank.to_string())];
    for (key, names) in OF_JOB {
        let value = text(Described::Job, key);
        found.extend(names.iter().flat_map(|name| value.clone().map(|value| (*name, value))));
    }
    found.extend(OF_PROCESS.iter().filter_map(|(key, name)| Some((*name, text(Described::Process, key)?))));
    let app = Described::App(number(Described::Process, keys::APPNUM.name()).unwrap_or(0));
    found.extend(text(app, keys::WDIR.name()).map(|directory| ("OMPI_MCA_initial_wdir", directory)));
    if let Some(command) = text(app, keys::APP_ARGV.name()) {
        let (program, arguments) = command.split_once(' ').unwrap_or((&command, ""));
        found.extend([("OMPI_COMMAND", program.to_owned()), ("OMPI_ARGV", arguments.to_owned())]);
    }
    let apps = number(Described::Job, keys::JOB_NUM_APPS.name()).filter(|count| (2..=APPS_MAX).contains(count));
    for (key, name) in OF_EACH_APP {
        let each = (0..apps.unwrap_or(0)).map(|app| text(Described::App(app), key)).collect::<Option<Vec<_>>>();
        found.extend(each.filter(|each| !each.is_empty()).map(|each| (name, each.join(" "))));
    }
    found.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|number| number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_several_applications_learns_its_place() {
        let variables = variables_of_open_mpi(3, |described, key| {
            Some(match (described, key) {
                (Described::Job, key) if key == keys::JOB_SIZE.name() => Value::Uint32(6),
                (Described::Job, key) if key == keys::JOB_NUM_APPS.name() => Value::Uint32(2),
                (Described::Process, key) if key == keys::LOCAL_RANK.name() => Value::Uint16(1),
                (Described::Process, key) if key == keys::APPNUM.name() => Value::Uint32(1),
                (Described::App(app), key) if key == keys::APP_SIZE.name() => Value::Uint32(app * 4 + 1),
                (Described::App(app), key) if key == keys::APPLDR.name() => Value::ProcRank(app.into()),
                (Described::App(1), key) if key == keys::APP_ARGV.name() => Value::from("./b -x 1"),
                _ => return None,
            })
        });
        let expected = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "6"),
            ("OMPI_WORLD_SIZE", "6"),
            ("OMPI_MCA_num_procs", "6"),
            ("OMPI_NUM_APP_CTX", "2"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMMAND", "./b"),
            ("OMPI_ARGV", "-x 1"),
            ("OMPI_APP_CTX_NUM_PROCS", "1 5"),
            ("OMPI_FIRST_RANKS", "0 1"),
        ];
        assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_process_without_a_description_has_its_rank_alone() {
        assert_eq!(variables_of_open_mpi(0, |_, _| None), [("OMPI_COMM_WORLD_RANK".to_owned(), "0".to_owned())]);
    }
}
