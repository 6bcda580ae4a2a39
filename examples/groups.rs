//! Groups: the processes with an even rank form one, agree in a fence of their own, and read its number.
//!
//! ```console
//! $ cargo build --example groups && modex run -n 4 -- target/debug/examples/groups
//! ```

use modex::types::{Info, Key, ProcId, Rank};
use modex::{Client, FenceOptions, keys};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The error is a sentence for people.
    let client = Client::connect().map_err(|error| error.to_string())?;
    let me = client.proc().clone();
    let size = client.get(Rank::Wildcard, keys::JOB_SIZE)?;
    if me.rank.process().is_some_and(|rank| rank % 2 == 0) {
        let members: Vec<ProcId> = (0..size).step_by(2).map(|rank| ProcId::new(me.namespace.clone(), rank)).collect();
        let wish = Info::new(Key::new(keys::GROUP_ASSIGN_CONTEXT_ID.name())?, true);
        let formed = client.group_construct("even", members.clone(), vec![wish]).wait()?;
        client.fence(&FenceOptions::new().procs(members)).wait()?;
        let group = formed.results;
        println!("{me} is one of {} members of group {:?}", group.members.len(), group.context_id);
        client.group_destruct("even", Vec::new()).wait()?;
    }
    client.finalize()?;
    Ok(())
}
