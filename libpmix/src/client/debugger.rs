//! Waiting for a debugger inside `PMIx_Init`.

use std::sync::mpsc;

use modex::Client;
use modex::keys;
use modex::types::AsStatus;
use modex::types::codes::range;
use modex::types::{Info, Key, ProcId, Rank, Status, Value};

/// Holds this process, if the job's description says so, until a debugger releases it.
///
/// # Errors
/// When the release can't arrive: a held process must not run on.
pub(crate) fn wait_if_told(client: &Client) -> Result<(), Status> {
    let own = client.proc();
    let told = [Rank::Wildcard, own.rank].into_iter().any(|rank| {
        let found = client.peek_value(rank, keys::DEBUG_STOP_IN_INIT.name());
        found.and_then(|found| found.into_value().ok()).is_some_and(|value| concerns(own, &value))
    });
    if !told {
        return Ok(());
    }
    let (sender, receiver) = mpsc::channel();
    let codes = [Status::DEBUGGER_RELEASE, Status::ERR_LOST_CONNECTION];
    let id = client.register_event_handler(&codes, &[], move |call| {
        // The waiting thread may have gone on already.
        let _ = sender.send(call.status);
        call.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    });
    let id = id.wait().map_err(|error| error.status())?;
    let breakpoint = Info::new(Key::from_static(keys::BREAKPOINT.name()), "pmix-init");
    let told = client.notify_event(Status::READY_FOR_DEBUG, None, range::RANGE_RM, &[breakpoint]).wait();
    let outcome = match told {
        Ok(()) => receiver.recv().map_err(|_| Status::ERR_LOST_CONNECTION),
        Err(error) => Err(error.status()),
    };
    // A wait for the end of a handler does not fail.
    let _ = client.deregister_event_handler(id).wait();
    match outcome? {
        Status::DEBUGGER_RELEASE => Ok(()),
        other => Err(other),
    }
}

/// Whether this process is to be held: `told` names all, a rank, a process, or a list of these.
fn concerns(own: &ProcId, told: &Value) -> bool {
    match told {
        Value::Bool(all) => *all,
        Value::ProcRank(rank) => *rank == Rank::Wildcard || *rank == own.rank,
        Value::Proc(proc) => proc.covers(own),
        Value::DataArray(array) => array.elements.iter().any(|element| concerns(own, element)),
        number => number.as_u32().is_some_and(|rank| Rank::Process(rank) == own.rank),
    }
}

#[cfg(test)]
mod tests {
    use modex::types::{DataArray, DataType, Namespace};

    use super::*;

    #[test]
    fn those_named_are_held() {
        let own = ProcId::new(Namespace::new("job").unwrap(), 3);
        let other = ProcId::new(Namespace::new("job").unwrap(), 4);
        let ranks = |ranks: [u32; 2]| {
            let elements = ranks.map(|rank| Value::ProcRank(Rank::Process(rank))).to_vec();
            Value::DataArray(Box::new(DataArray { element_type: DataType::ProcRank, elements }))
        };
        for told in [Value::Bool(true), Value::ProcRank(Rank::Wildcard), Value::from(own.clone()), ranks([1, 3])] {
            assert!(concerns(&own, &told), "{told:?}");
        }
        for told in [Value::Bool(false), Value::ProcRank(Rank::Process(4)), Value::from(other), ranks([0, 1])] {
            assert!(!concerns(&own, &told), "{told:?}");
        }
    }
}
