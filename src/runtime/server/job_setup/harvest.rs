//! The environment of jobs: variables that the user and the host forward, variables of programming models, changes by
//! the host, and those of parent jobs.
//!
//! ```text
//! parent jobs (PMIX_PARENT_ID) ─┐
//! variables of this process  ───┼──> changes of the environment, in this order
//! changes among the infos  ─────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::str::FromStr;

use parking_lot::Mutex;

use super::environment::EnvironmentChange;
use super::models::{DRIVERS, models_of, names_model};
use super::patterns::EnvironmentPatterns;
use super::{SetupError, changes_of};
use crate::keys;
use crate::ptl::ServerEnvironment;
use crate::runtime::shared::parameters::{FORWARD_ENVARS, PNET, PREFIX, ParameterFiles, names_module};
use crate::types::{Info, InfoFlags, Namespace, Value};

/// Environments of the jobs that this process sets up.
#[derive(Default)]
pub(super) struct Harvest {
    jobs: Mutex<Jobs>,
}

#[derive(Default)]
struct Jobs {
    environments: BTreeMap<Namespace, JobEnvironment>,
    /// Number of the newest job.
    newest: u64,
}

#[derive(Default)]
struct JobEnvironment {
    /// Order of the jobs.
    number: u64,
    wanted: EnvironmentPatterns,
    unwanted: EnvironmentPatterns,
    /// Changes collected for the job. Its children may get them, too.
    changes: Vec<EnvironmentChange>,
    /// Memory of the changes.
    size_bytes: usize,
}

/// Variables of this process, for a job.
#[derive(Clone, Copy)]
pub(super) enum Variables<'a> {
    /// Those that the host, the user or the job's programming model names.
    All(&'a [(OsString, OsString)]),
    /// Those that the host names.
    Forwarded(&'a [(OsString, OsString)]),
}

/// Limit of jobs. A launcher may never deregister its jobs, so the oldest one is forgotten.
const JOBS_MAX: usize = 1024;
/// Limit of changes of one job's environment.
pub(super) const CHANGES_MAX: usize = 65_536;

/// Limit of the memory for changes of one job's environment.
const JOB_BYTES_MAX: usize = 16 << 20;
/// The same for all jobs. The oldest are forgotten.
const ALL_BYTES_MAX: usize = 64 << 20;

/// Patterns of variables that no job gets.
const UNWANTED: &str = "MODEX_EXCLUDE_ENVARS";
/// The same as an info.
pub(in crate::runtime::server) const EXCLUDE: &str = "modex.exclude_envars";

impl Harvest {
    /// Registers variables of this process that a job gets, except the `unwanted` ones. Calls add up.
    pub(super) fn forward(
        &self,
        namespace: &Namespace,
        wanted: &EnvironmentPatterns,
        unwanted: &EnvironmentPatterns,
    ) -> Result<(), SetupError> {
        let refused = |error| SetupError::Pattern { place: "PMIx_Forward_envars".into(), error };
        let mut jobs = self.jobs.lock();
        let job = jobs.job(namespace);
        job.unwanted.add(unwanted).map_err(refused)?;
        job.wanted.add(wanted).map_err(refused)
    }

    /// Collects the changes of a job's environment.
    ///
    /// # Errors
    /// [`SetupError`] for bad names and patterns, for a required parent that is unknown, and for too many changes.
    pub(super) fn collect(
        &self,
        namespace: &Namespace,
        infos: &[Info],
        variables: Variables<'_>,
        files: &ParameterFiles,
    ) -> Result<Vec<EnvironmentChange>, SetupError> {
        let own = changes_of(infos)?;
        let is_required_model = |info: &&Info| names_model(info) && info.flags().contains(InfoFlags::REQUIRED);
        if let (Variables::Forwarded(_), Some(info)) = (&variables, infos.iter().find(is_required_model)) {
            return Err(SetupError::Unknown { key: info.key.clone() });
        }
        let mut jobs = self.jobs.lock();
        let mut changes = jobs.of_parents(infos)?;
        let job = jobs.job(namespace);
        let taken = match variables {
            Variables::All(variables) => harvest(&selections(job, infos, variables, files)?, variables),
            Variables::Forwarded(variables) => harvest(&[(job.wanted.clone(), job.unwanted.clone())], variables),
        };
        EnvironmentChange::add_up(&mut changes, taken);
        EnvironmentChange::add_up(&mut changes, own);
        let size_bytes = changes.iter().map(EnvironmentChange::size_bytes).fold(job.size_bytes, usize::saturating_add);
        if changes.len().saturating_add(job.changes.len()) > CHANGES_MAX || size_bytes > JOB_BYTES_MAX {
            return Err(SetupError::TooManyChanges);
        }
        EnvironmentChange::add_up(&mut job.changes, changes.clone());
        job.size_bytes = job.changes.iter().map(EnvironmentChange::size_bytes).fold(0, usize::saturating_add);
        jobs.forget_old();
        Ok(changes)
    }

    pub(super) fn forget(&self, namespace: &Namespace) {
        self.jobs.lock().environments.remove(namespace);
    }
}

impl Jobs {
    fn job(&mut self, namespace: &Namespace) -> &mut JobEnvironment {
        let Self { environments, newest } = self;
        if environments.len() >= JOBS_MAX && !environments.contains_key(namespace) {
            forget_oldest(environments);
        }
        environments.entry(namespace.clone()).or_insert_with(|| {
            *newest = newest.saturating_add(1);
            JobEnvironment { number: *newest, ..JobEnvironment::default() }
        })
    }

    /// Forgets the oldest jobs until the others fit.
    fn forget_old(&mut self) {
        let sizes = self.environments.values().map(|job| job.size_bytes);
        let mut size_bytes = sizes.fold(0, usize::saturating_add);
        while size_bytes > ALL_BYTES_MAX
            && let Some(forgotten) = forget_oldest(&mut self.environments)
        {
            size_bytes = size_bytes.saturating_sub(forgotten.size_bytes);
        }
    }

    /// Changes collected for the job's parents among the infos, in the order of their names.
    fn of_parents(&self, infos: &[Info]) -> Result<Vec<EnvironmentChange>, SetupError> {
        let mut changes = Vec::new();
        for info in infos.iter().filter(|info| info.key.as_str() == keys::PARENT_ID.name()) {
            for parent in parents(&info.value).ok_or(SetupError::Parent)? {
                match self.environments.get(&parent) {
                    Some(job) => EnvironmentChange::add_up(&mut changes, job.changes.clone()),
                    None if info.flags().contains(InfoFlags::REQUIRED) => {
                        return Err(SetupError::UnknownParent { namespace: parent });
                    }
                    None => {}
                }
            }
        }
        Ok(changes)
    }
}

fn forget_oldest(environments: &mut BTreeMap<Namespace, JobEnvironment>) -> Option<JobEnvironment> {
    let (oldest, _) = environments.iter().min_by_key(|(_, job)| job.number)?;
    let oldest = oldest.clone();
    environments.remove(&oldest)
}

/// The jobs that an info names as parents: a process, a job, or a list of them.
fn parents(value: &Value) -> Option<BTreeSet<Namespace>> {
    match value {
        Value::Proc(proc) => Some(BTreeSet::from([proc.namespace.clone()])),
        Value::ProcNamespace(namespace) => Some(BTreeSet::from([namespace.clone()])),
        Value::DataArray(list) => {
            let namespace = |element: &Value| match element {
                Value::Proc(proc) => Some(proc.namespace.clone()),
                Value::ProcNamespace(namespace) => Some(namespace.clone()),
                _ => None,
            };
            list.elements.iter().map(namespace).collect()
        }
        _ => None,
    }
}

/// Variables that a job gets: those that the first list names and the second one does not.
type Selection = (EnvironmentPatterns, EnvironmentPatterns);

fn selections(
    job: &JobEnvironment,
    infos: &[Info],
    variables: &[(OsString, OsString)],
    files: &ParameterFiles,
) -> Result<Vec<Selection>, SetupError> {
    let parameter = |name: &str| of_parameter(variables, files, name);
    let mut unwanted = variable(variables, UNWANTED)?.unwrap_or_default();
    for info in infos.iter().filter(|info| info.key.as_str() == EXCLUDE) {
        let refused = |error| SetupError::Pattern { place: EXCLUDE.into(), error };
        let patterns = info.value.as_str().unwrap_or_default().parse().map_err(refused)?;
        unwanted.add(&patterns).map_err(refused)?;
    }
    let joined = |patterns: &EnvironmentPatterns| -> Result<EnvironmentPatterns, SetupError> {
        let mut all = unwanted.clone();
        all.add(patterns).map_err(|error| SetupError::Pattern { place: UNWANTED.into(), error })?;
        Ok(all)
    };
    let mut selections = vec![(job.wanted.clone(), joined(&job.unwanted)?)];
    if let Some(wanted) = parameter(FORWARD_ENVARS)? {
        selections.push((wanted, unwanted.clone()));
    }
    for model in models_of(infos) {
        let wanted = parameter(&format!("pmdl_{}_include_envars", model.name))?;
        let excluded = parameter(&format!("pmdl_{}_exclude_envars", model.name))?;
        let mut excluded = joined(&excluded.unwrap_or_default())?;
        // The texts of the table are patterns.
        let fixed = |text: &str| EnvironmentPatterns::from_str(text).unwrap_or_default();
        let of_process = fixed(model.of_process);
        excluded.add(&of_process).map_err(|error| SetupError::Pattern { place: UNWANTED.into(), error })?;
        selections.push((wanted.unwrap_or_else(|| fixed(model.variables)), excluded));
    }
    let modules = text_of_parameter(variables, files, PNET).map_or(String::new(), |(_, text)| text);
    for (name, usual) in DRIVERS {
        let wanted = parameter(&format!("pnet_{name}_include_envars"))?;
        let is_named = names_module(&modules, name);
        // A list of other modules, or one of exceptions with this one, switches it off.
        if !is_named && (wanted.is_none() || !modules.is_empty()) {
            continue;
        }
        let excluded = parameter(&format!("pnet_{name}_exclude_envars"))?.unwrap_or_default();
        let wanted = wanted.unwrap_or_else(|| EnvironmentPatterns::from_str(usual).unwrap_or_default());
        selections.push((wanted, joined(&excluded)?));
    }
    Ok(selections)
}

/// The place and the text of a parameter: of the environment, else of the files.
fn text_of_parameter(
    variables: &[(OsString, OsString)],
    files: &ParameterFiles,
    name: &str,
) -> Option<(String, String)> {
    let of_file = || Some((name.to_owned(), files.value(name)?.to_owned()));
    text_of_variable(variables, &format!("{PREFIX}{name}")).or_else(of_file)
}

/// The name and the text of a variable that is not empty.
fn text_of_variable(variables: &[(OsString, OsString)], name: &str) -> Option<(String, String)> {
    let found = variables.iter().find(|(found, _)| found == name).filter(|(_, text)| !text.is_empty());
    found.map(|(_, text)| (name.to_owned(), text.to_string_lossy().into_owned()))
}

/// The patterns in a parameter.
fn of_parameter(
    variables: &[(OsString, OsString)],
    files: &ParameterFiles,
    name: &str,
) -> Result<Option<EnvironmentPatterns>, SetupError> {
    patterns_of(text_of_parameter(variables, files, name))
}

/// The patterns in a variable of the environment.
fn variable(variables: &[(OsString, OsString)], name: &str) -> Result<Option<EnvironmentPatterns>, SetupError> {
    patterns_of(text_of_variable(variables, name))
}

/// The patterns in a text; an error names its place.
fn patterns_of(found: Option<(String, String)>) -> Result<Option<EnvironmentPatterns>, SetupError> {
    let Some((place, text)) = found else { return Ok(None) };
    text.parse().map(Some).map_err(|error| SetupError::Pattern { place: place.into(), error })
}

/// The variables that a selection names, in the order of their names: the environment has no order, and two calls give
/// the same. A server's own variables are left out, since they would lead the processes to another server.
fn harvest(selections: &[Selection], variables: &[(OsString, OsString)]) -> Vec<EnvironmentChange> {
    let is_selected = |name: &OsStr| {
        let is_named = |(wanted, unwanted): &Selection| wanted.matches(name) && !unwanted.matches(name);
        !ServerEnvironment::is_of_server(name) && selections.iter().any(is_named)
    };
    let mut selected: Vec<&(OsString, OsString)> = variables.iter().filter(|(name, _)| is_selected(name)).collect();
    selected.sort_by_key(|(name, _)| name);
    selected.into_iter().map(|(name, value)| EnvironmentChange::set(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Key, ProcId, Text};

    const WANTED: &str = "PMIX_MCA_forward_envars";
    const VARIABLES: [(&str, &str); 9] = [
        ("OMP_X", "1=2"),
        ("OMP_Y", "\u{1b}"),
        ("OMP_SECRET", "s"),
        ("HOME", "/h"),
        ("PMIX_RANK", "7"),
        ("MODEX_SERVER_URI", "elsewhere"),
        ("OMPI_MCA_btl", "self"),
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("MPIR_CVAR_X", "m"),
    ];

    fn environment(more: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        more.iter().chain(&VARIABLES).map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    fn job(name: &str) -> Namespace {
        Namespace::new(name).unwrap()
    }

    fn patterns(text: &str) -> EnvironmentPatterns {
        text.parse().unwrap()
    }

    fn names(changes: Result<Vec<EnvironmentChange>, SetupError>) -> Vec<String> {
        changes.unwrap().iter().map(|change| change.name().to_str().unwrap().to_owned()).collect()
    }

    /// The changes of a job's environment, without variables beside the usual ones and without files.
    fn collect(harvest: &Harvest, name: &str, infos: &[Info]) -> Result<Vec<EnvironmentChange>, SetupError> {
        harvest.collect(&job(name), infos, Variables::All(&environment(&[])), &ParameterFiles::default())
    }

    fn info(key: &'static str, value: impl Into<Value>) -> Info {
        Info::new(Key::from_static(key), value)
    }

    #[test]
    fn registered_patterns_add_up_and_are_for_their_job_alone() {
        let harvest = Harvest::default();
        harvest.forward(&job("a"), &patterns("OMP_*"), &patterns("OMP_SECRET")).unwrap();
        harvest.forward(&job("a"), &patterns("HO?E"), &EnvironmentPatterns::default()).unwrap();
        assert_eq!(names(collect(&harvest, "a", &[])), ["HOME", "OMP_X", "OMP_Y"]);
        assert_eq!(names(collect(&harvest, "b", &[])), [""; 0]);
        harvest.forget(&job("a"));
        assert_eq!(names(collect(&harvest, "a", &[])), [""; 0]);
    }

    #[test]
    fn the_user_names_variables_and_exceptions_in_the_environment() {
        let harvest = Harvest::default();
        let collect = |more: &[(&str, &str)], infos: &[Info]| {
            harvest.collect(&job("a"), infos, Variables::All(&environment(more)), &ParameterFiles::default())
        };
        assert_eq!(names(collect(&[(WANTED, "OMP_X,HOME")], &[])), ["HOME", "OMP_X"]);
        assert_eq!(names(collect(&[(WANTED, "OMP_*"), (UNWANTED, "OMP_S*;OMP_Y")], &[])), ["OMP_X"]);
        assert_eq!(names(collect(&[(WANTED, "OMP_*"), (UNWANTED, "OMP_S*")], &[])), ["OMP_X", "OMP_Y"]);
        let except = info(EXCLUDE, "OMP_Y");
        assert_eq!(names(collect(&[(WANTED, "OMP_?")], &[except])), ["OMP_X"]);
        let refused = collect(&[(WANTED, "FOO_[A-Z]")], &[]);
        assert!(matches!(&refused, Err(SetupError::Pattern { place, .. }) if &**place == WANTED), "{refused:?}");
    }

    /// Regression: a launcher inside a job forwarded its own rank and server to its processes with `*`.
    #[test]
    fn the_variables_of_a_server_are_never_forwarded() {
        let found = names(Harvest::default().collect(
            &job("a"),
            &[],
            Variables::All(&environment(&[(WANTED, "*")])),
            &ParameterFiles::default(),
        ));
        assert!(!found.iter().any(|name| name == "PMIX_RANK" || name == "MODEX_SERVER_URI"), "{found:?}");
        assert!(found.iter().any(|name| name == "HOME"));
    }

    #[test]
    fn a_programming_model_brings_its_variables() {
        let harvest = Harvest::default();
        let model = |name: &str| info(keys::PROGRAMMING_MODEL.name(), name);
        let collect = |more: &[(&str, &str)], name: &str| {
            harvest.collect(&job("a"), &[model(name)], Variables::All(&environment(more)), &ParameterFiles::default())
        };
        assert_eq!(names(collect(&[], "ompi")), ["OMPI_MCA_btl"]);
        assert_eq!(names(collect(&[], "MPI")), ["MPIR_CVAR_X", "OMPI_MCA_btl"]);
        assert_eq!(names(collect(&[], "OpenMP")), [""; 0]);
        let include = ("PMIX_MCA_pmdl_ompi_include_envars", "HOME,OMPI_*");
        assert_eq!(names(collect(&[include], "ompi")), ["HOME", "OMPI_MCA_btl"]);
        let exclude = ("PMIX_MCA_pmdl_ompi_exclude_envars", "OMPI_MCA_*");
        assert_eq!(names(collect(&[include, exclude], "ompi")), ["HOME"]);
        // Regression: a required model brought nothing to a setup without variables of the user, and succeeded.
        let required = Info { flags: InfoFlags::REQUIRED.bits(), ..model("ompi") };
        let variables = environment(&[]);
        let refused =
            harvest.collect(&job("a"), &[required], Variables::Forwarded(&variables), &ParameterFiles::default());
        assert!(matches!(refused, Err(SetupError::Unknown { .. })), "{refused:?}");
    }

    /// The variables of a fabric's driver: of a named module, or those that the user names.
    #[test]
    fn a_module_for_fabrics_brings_the_variables_of_its_driver() {
        let of = |parameters: &[(&str, &str)]| {
            let drivers = [("UCX_TLS", "rc"), ("NCCL_DEBUG", "1"), ("PSM2_X", "1"), ("OTHER", "1")];
            let environment = environment(&[parameters, &drivers].concat());
            let variables = Variables::All(&environment);
            let asked = [info(keys::SETUP_APP_ENVARS.name(), true)];
            names(Harvest::default().collect(&job("j"), &asked, variables, &ParameterFiles::default()))
        };
        assert_eq!(of(&[]), [""; 0]);
        assert_eq!(of(&[("PMIX_MCA_pnet", "test,nvd")]), ["NCCL_DEBUG", "UCX_TLS"]);
        assert_eq!(of(&[("PMIX_MCA_pnet", "opa")]), ["PSM2_X"]);
        assert_eq!(of(&[("PMIX_MCA_pnet", "tcp")]), [""; 0]);
        let exception = ("PMIX_MCA_pnet_nvd_exclude_envars", "NCCL_*");
        assert_eq!(of(&[("PMIX_MCA_pnet", "nvd"), exception]), ["UCX_TLS"]);
        let named = ("PMIX_MCA_pnet_tcp_include_envars", "OTHER");
        assert_eq!(of(&[named]), ["OTHER"]);
        assert_eq!(of(&[named, ("PMIX_MCA_pnet", "opa")]), ["PSM2_X"], "another module is named");
        assert_eq!(of(&[named, ("PMIX_MCA_pnet", "^tcp")]), [""; 0]);
    }

    #[test]
    fn a_job_gets_the_environment_of_its_parents() {
        let harvest = Harvest::default();
        harvest.forward(&job("parent"), &patterns("OMP_X"), &EnvironmentPatterns::default()).unwrap();
        let set = EnvironmentChange::set("COLOUR".as_ref(), "red".as_ref());
        collect(&harvest, "parent", &[set.info()]).unwrap();
        let parent = |name: &str| info(keys::PARENT_ID.name(), ProcId::new(job(name), 0));
        assert_eq!(names(collect(&harvest, "a", &[parent("parent")])), ["OMP_X", "COLOUR"]);
        assert_eq!(names(collect(&harvest, "b", &[parent("a")])), ["OMP_X", "COLOUR"]);
        assert_eq!(names(collect(&harvest, "c", &[parent("unknown")])), [""; 0]);
        let required = Info { flags: InfoFlags::REQUIRED.bits(), ..parent("unknown") };
        let refused = collect(&harvest, "c", &[required]);
        assert!(matches!(refused, Err(SetupError::UnknownParent { .. })), "{refused:?}");
        let odd = info(keys::PARENT_ID.name(), Text::from("parent"));
        assert!(matches!(collect(&harvest, "c", &[odd]), Err(SetupError::Parent)));
    }

    #[test]
    fn the_oldest_job_is_forgotten_when_there_are_too_many() {
        let harvest = Harvest::default();
        for number in 0..=JOBS_MAX {
            harvest.forward(&job(&format!("j{number}")), &patterns("HOME"), &EnvironmentPatterns::default()).unwrap();
        }
        assert_eq!(harvest.jobs.lock().environments.len(), JOBS_MAX);
        assert_eq!(names(collect(&harvest, "j1", &[])), ["HOME"]);
        assert_eq!(names(collect(&harvest, "j0", &[])), [""; 0]);
    }

    /// Regression: a daemon's own variables won over those that `prun` of PRRTE had collected from its user.
    #[test]
    fn without_the_wish_for_variables_a_job_gets_what_the_host_names() {
        let harvest = Harvest::default();
        harvest.forward(&job("a"), &patterns("HOME"), &EnvironmentPatterns::default()).unwrap();
        let set = EnvironmentChange::set("OMPI_MCA_btl".as_ref(), "tcp".as_ref());
        let infos = [info(keys::PROGRAMMING_MODEL.name(), "ompi"), set.info()];
        let variables = environment(&[(WANTED, "OMP_X")]);
        let found = harvest.collect(&job("a"), &infos, Variables::Forwarded(&variables), &ParameterFiles::default());
        assert_eq!(found.unwrap().last(), Some(&set));
        let found = harvest.collect(&job("a"), &infos, Variables::Forwarded(&variables), &ParameterFiles::default());
        assert_eq!(names(found), ["HOME", "OMPI_MCA_btl"]);
    }

    #[test]
    fn environments_are_bounded_by_their_size() {
        let harvest = Harvest::default();
        let collect = |name: &str, length: usize| {
            let set = EnvironmentChange::set("LONG".as_ref(), "x".repeat(length).as_ref());
            let variables = environment(&[]);
            harvest.collect(&job(name), &[set.info()], Variables::All(&variables), &ParameterFiles::default())
        };
        assert!(matches!(collect("large", JOB_BYTES_MAX), Err(SetupError::TooManyChanges)));
        for number in 0..5 {
            assert_eq!(names(collect(&format!("j{number}"), JOB_BYTES_MAX - 1024)), ["LONG"]);
        }
        let kept: Vec<String> = harvest.jobs.lock().environments.keys().map(ToString::to_string).collect();
        assert_eq!(kept, ["j1", "j2", "j3", "j4"]);
    }

    #[test]
    fn the_environment_has_precedence_over_a_file_of_parameters() {
        let files = ParameterFiles::of_text("forward_envars = HOME\npmdl_ompi_include_envars = OMP_X\n");
        let collect = |more: &[(&str, &str)], infos: &[Info]| {
            Harvest::default().collect(&job("a"), infos, Variables::All(&environment(more)), &files)
        };
        assert_eq!(names(collect(&[], &[])), ["HOME"]);
        assert_eq!(names(collect(&[(WANTED, "OMP_Y")], &[])), ["OMP_Y"]);
        assert_eq!(names(collect(&[], &[info(keys::PROGRAMMING_MODEL.name(), "ompi")])), ["HOME", "OMP_X"]);
        let broken = ParameterFiles::of_text("forward_envars = FOO_[A-Z]\n");
        let refused = Harvest::default().collect(&job("a"), &[], Variables::All(&environment(&[])), &broken);
        assert!(
            matches!(&refused, Err(SetupError::Pattern { place, .. }) if &**place == FORWARD_ENVARS),
            "{refused:?}"
        );
    }
}
