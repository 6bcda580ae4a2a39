//! A program to run under `modex run`: it does the start-up work of an MPI library, and checks every value it gets.

mod pattern;
mod times;

use std::time::Instant;

use clap::Args;
use modex::keys;
use modex::types::AsStatus;
use modex::types::{DataType, ProcId, Scope, Status, Value};
use modex::{Client, FenceOptions, Fetched, GetOptions};
use pattern::{Pattern, PatternContent, VALUE_COUNT};
use times::{DemoPhase, PhaseTimes};

use super::{Outcome, printing};

#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
#[command(after_long_help = HELP)]
pub(super) struct DemoOptions {
    /// Size of the largest value each rank puts, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Self::default().size)]
    pub(super) size: usize,

    /// Number of rounds of put, commit, fence and read
    #[arg(long, value_name = "N", default_value_t = Self::default().rounds)]
    pub(super) rounds: u32,
}

const HELP: &str = "\
Examples:
  modex run -n 4 -- modex demo
  modex run -n 16 -- modex demo --size 65536 --rounds 10

Exit status:
  0  Every value was right
  1  A value was wrong or missing, or no launcher started the program
  2  The command line makes no sense

Environment:
  PMIX_NAMESPACE, PMIX_RANK  Set by the launcher, with the address of its server";

impl Default for DemoOptions {
    fn default() -> Self {
        Self { size: 4096, rounds: 1 }
    }
}

/// Runs one rank.
#[expect(clippy::disallowed_methods, reason = "the demo times itself")]
pub(super) fn run(options: &DemoOptions) -> Outcome {
    let mut times = PhaseTimes::default();
    let mut begun = Instant::now();
    let mut lap = |times: &mut PhaseTimes, phase| {
        times.add(phase, begun.elapsed());
        begun = Instant::now();
    };

    let client = Client::connect()?;
    lap(&mut times, DemoPhase::Init);
    let own = client.proc().clone();
    let rank_count = client.get(modex::types::Rank::Wildcard, keys::JOB_SIZE)?;
    let own_rank = own.rank.process().ok_or("the server gave this process no rank")?;

    let own_node = client.get(own.rank, keys::NODEID)?;
    for round in 0..options.rounds {
        let pattern = Pattern::of(own_rank, round, options.size);
        for (scope, key, content) in pattern.entries() {
            client.put(scope, key, pattern.value(content))?;
        }
        lap(&mut times, DemoPhase::Put);
        client.commit()?;
        lap(&mut times, DemoPhase::Commit);
        client.fence(&FenceOptions::new().collect(true)).wait()?;
        lap(&mut times, DemoPhase::Fence);
        for rank in 0..rank_count {
            let peer = ProcId::new(own.namespace.clone(), rank);
            check_peer(&client, own_node, &peer, round, options.size)?;
        }
        lap(&mut times, DemoPhase::Read);
        if round + 1 < options.rounds {
            // No rank may overwrite a value that another rank still has to read.
            client.fence(&FenceOptions::new()).wait()?;
            lap(&mut times, DemoPhase::Barrier);
        }
    }

    times.put(&client)?;
    client.commit_and_fence(&FenceOptions::new().collect(true))?;
    if own_rank == 0 {
        printing::print(&format!("{}\n", times::table(&client, &own.namespace, rank_count)?))?;
    }
    client.finalize()?;
    if own_rank == 0 {
        let (values, rounds, size) = (VALUE_COUNT, options.rounds, options.size);
        printing::print(&format!("demo ok ranks={rank_count} rounds={rounds} values={values} bytes={size}\n"))?;
    }
    Ok(0)
}

/// Reads everything that a peer put, and compares it with the expected values.
fn check_peer(
    client: &Client,
    own_node: u32,
    peer: &ProcId,
    round: u32,
    size: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let rank = peer.rank.process().ok_or("a peer without rank")?;
    let is_own = peer.rank == client.proc().rank;
    let is_local = client.get(peer.rank, keys::NODEID)? == own_node;
    let pattern = Pattern::of(rank, round, size);
    for (scope, key, expected) in pattern.entries() {
        let is_visible = is_own || if is_local { scope.is_visible_locally() } else { scope.is_visible_remotely() };
        let found = client.get_value(peer, key, &GetOptions::new());
        if is_visible {
            if let Some(found) = difference(found?, &pattern, &expected)? {
                return Err(format!("{peer} put {key} = {expected:?} in round {round}, not {found:?}").into());
            }
        } else if !found.as_ref().is_err_and(|error| error.status() == Status::ERR_EXISTS_OUTSIDE_SCOPE) {
            return Err(format!("{key} of {peer} has scope {scope:?} and must not be visible here").into());
        }
    }
    Ok(())
}

/// The wrong value, if there is one. A right value is not copied, unless it is nested.
fn difference(
    found: Fetched<'_>,
    pattern: &Pattern,
    expected: &PatternContent,
) -> Result<Option<Value>, Box<dyn std::error::Error>> {
    let is_right = match expected {
        PatternContent::Text(text) => found.data_type() == DataType::String && found.as_str() == Some(text.as_str()),
        PatternContent::Bytes(count) => {
            found.data_type() == DataType::ByteObject
                && found.as_bytes().is_some_and(|found| pattern.has_bytes(*count, found))
        }
        PatternContent::Is(expected) => {
            let found = found.into_value()?;
            return Ok((found != *expected).then_some(found));
        }
    };
    if is_right { Ok(None) } else { Ok(Some(found.into_value()?)) }
}

/// Scopes a rank uses; `Internal` would never leave it.
const SCOPES: [Scope; 3] = [Scope::Global, Scope::Local, Scope::Remote];
