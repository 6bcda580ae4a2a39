//! A tool: it connects to a running server and lists the jobs that the server knows.
//!
//! ```console
//! $ cargo build --example tool && target/debug/examples/tool 4711
//! ```
//!
//! The argument is the process number of the server. Without an argument the tool takes the only server that it finds.

use modex::types::Query;
use modex::{Tool, keys};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = Tool::builder();
    if let Some(pid) = std::env::args().nth(1) {
        builder = builder.pid(pid.parse()?);
    }
    let tool = builder.connect()?;
    let query = Query { keys: vec![keys::QUERY_NAMESPACES.name().into()], qualifiers: Vec::new() };
    let client = tool.client()?;
    let answer = client.query(vec![query]).wait()?;
    for info in &answer.results {
        println!("{} on {}: {:?}", info.key, client.server(), info.value);
    }
    tool.finalize()?;
    Ok(())
}
