//! A host: it embeds a server, registers a job on this machine and starts the processes of the job.
//!
//! ```console
//! $ cargo build --examples && target/debug/examples/host 4 target/debug/examples/client
//! ```

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use modex::registration::JobDescription;
use modex::types::{Namespace, ProcId};
use modex::{LocalHost, Server, ToolAdmission, ToolSupport};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(size), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err("usage: host PROCESSES PROGRAM [ARGUMENT]...".into());
    };
    let (size, arguments): (u32, Vec<String>) = (size.parse()?, arguments.collect());

    // LocalHost answers for one machine. A host of several nodes implements `modex::Host`.
    let tools = ToolSupport { admission: ToolAdmission::Assigned, ..ToolSupport::default() };
    let name = format!("host-{}", std::process::id()); // Two servers of one name would be in each other's way.
    let server = Server::builder().namespace(name).tools(tools).start(LocalHost)?;
    let job = Namespace::new("job-1")?;
    let description =
        JobDescription::new(&job).nodes([server.hostname()]).ranks_by_node(std::iter::once(0..size)).build()?;
    server.register_namespace(&job, size, description).wait()?;

    let user = std::fs::metadata("/proc/self")?; // The processes run as this user.
    let mut children = Vec::new();
    for rank in 0..size {
        let proc = ProcId::new(job.clone(), rank);
        server.register_client(&proc, user.uid(), user.gid()).wait()?;
        let child = Command::new(&program).args(&arguments).envs(server.setup_fork(&proc)?).spawn()?;
        children.push((proc, child));
    }
    let mut failed = 0;
    for (proc, mut child) in children {
        failed += i32::from(!child.wait()?.success());
        server.deregister_client(&proc).wait()?;
    }
    server.deregister_namespace(&job).wait()?;
    println!("{size} processes have ended, {failed} of them with an error");
    std::process::exit(failed)
}
