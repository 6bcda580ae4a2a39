//! Forwarded output and input.

use std::sync::{Arc, OnceLock};

use modex::runtime::understood::OF_INPUT;
use modex::types::codes::iof_channel;
use modex::types::{Info, InfoFlags, ProcId, Status};
use modex::{IofPush, OutputSettings};

use super::asynchronous::{start_or_wait, start_with};
use crate::argument::{Count, In, Items};
use crate::callback::Callback;
use crate::client_request::{Answer, ClientRequest, OutputHandler, Results};
use crate::guard::{Failure, guard_status};
use crate::output::OutputStyle;
use crate::pointer::CallerData;
use crate::process::Member;
use crate::stdin::{self, StdinDirective};
use crate::to_c;
use crate::types::{
    pmix_byte_object_t, pmix_hdlr_reg_cbfunc_t, pmix_info_t, pmix_iof_cbfunc_t, pmix_iof_channel_t, pmix_op_cbfunc_t,
    pmix_proc_t, pmix_status_t,
};
use crate::{call, from_c, process};

/// Asks for output of processes, which goes to `cbfunc` piece by piece. With `regcbfunc` the callback gets the
/// registration's number, before any output; without it the call waits and returns the number.
///
/// Without `cbfunc` the library writes the output: to this process's own output, or to the files that the directives
/// name. `PMIX_IOF_TAG_OUTPUT` and its like give lines a form. Output is written line by line. Without such a directive
/// a line whose end does not come is written, too. With `cbfunc` such a directive is refused if it is marked as
/// required. A server's own process gets the output that its host delivers. See the standard's function of the same
/// name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_IOF_pull<'a>(
    procs: Items<'a, pmix_proc_t>,
    nprocs: Count<'a, pmix_proc_t>,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
    channel: pmix_iof_channel_t,
    cbfunc: Callback<pmix_iof_cbfunc_t>,
    regcbfunc: Callback<pmix_hdlr_reg_cbfunc_t>,
    regcbdata: CallerData,
) -> pmix_status_t {
    guard_status(|| {
        let own = process::member()?.proc().namespace;
        let procs = from_c::procs(procs.counted(nprocs), Some(&own))?;
        let mut directives = from_c::infos(directives.counted(ndirs))?;
        if channel & iof_channel::FWD_STDIN_CHANNEL != 0 {
            return Err(Failure(Status::ERR_NOT_SUPPORTED));
        }
        if procs.is_empty() || channel == 0 {
            return Err(Failure(Status::ERR_BAD_PARAM));
        }
        let style = OutputStyle::of_parameters().and(&directives);
        style.refuse_unmet(&directives)?;
        take_style_mark(&mut directives, cbfunc.is_none())?;
        let id = Arc::new(OnceLock::new());
        // A waiting caller may set the number late, so the handler waits for it. A callback gets the number on the
        // handler's thread, before any output.
        let number_of: NumberOf = if regcbfunc.is_none() { |id| Some(*id.wait()) } else { |id| id.get().copied() };
        let handler = handler(cbfunc, style, Arc::clone(&id), number_of)?;
        let request = ClientRequest::IofPull { procs, directives, channels: channel, handler, id };
        let Some(registered) = regcbfunc.with(regcbdata) else {
            return id_of(&call::run(request)?);
        };
        start_with(request, move |result| {
            registered.call(result.and_then(|answer| match answer.results {
                Results::Number(id) => Ok(usize::try_from(id).unwrap_or(usize::MAX)),
                _ => Err(Status::ERROR),
            }));
        })?;
        Ok(Status::SUCCESS)
    })
}

/// A registration's number in the form of a status.
fn id_of(answer: &Answer) -> Result<Status, Failure> {
    match answer.results {
        Results::Number(id) => i32::try_from(id).map(Status::from_raw).map_err(|_| Failure(Status::ERROR)),
        _ => Err(Failure(Status::ERROR)),
    }
}

/// Lookup of a registration's number by its handler.
type NumberOf = fn(&OnceLock<u64>) -> Option<u64>;

/// Takes the mark off the directives that this process honours itself, because it writes the output. Otherwise nobody
/// does. Nor does this process know where a source runs.
fn take_style_mark(directives: &mut [Info], is_written_here: bool) -> Result<(), Failure> {
    for info in directives.iter_mut().filter(|info| OutputStyle::is_directive(info.key.as_str())) {
        let is_honoured = is_written_here && !OutputStyle::is_of_origin(info.key.as_str());
        if !is_honoured && info.flags().contains(InfoFlags::REQUIRED) {
            return Err(Failure(Status::ERR_NOT_SUPPORTED));
        }
        info.flags &= !InfoFlags::REQUIRED.bits();
    }
    Ok(())
}

/// The handler for each piece of output.
fn handler(
    cbfunc: Callback<pmix_iof_cbfunc_t>,
    style: OutputStyle,
    id: Arc<OnceLock<u64>>,
    number_of: NumberOf,
) -> Result<OutputHandler, Failure> {
    let Some(callback) = cbfunc.for_output() else { return writing(style) };
    Ok(Box::new(move |output| {
        let id = number_of(&id).and_then(|id| usize::try_from(id).ok()).unwrap_or(usize::MAX);
        let (Ok(bytes), Ok(infos)) = (to_c::byte_object(&output.bytes), to_c::infos(&output.info)) else {
            tracing::warn!(source = %output.source, "no memory for forwarded output; it is lost");
            return;
        };
        callback.call(id, output.channel, to_c::proc(&output.source), bytes, infos);
    }))
}

/// A handler that writes the output in a form. Lines that are still open are written at the end.
fn writing(style: OutputStyle) -> Result<OutputHandler, Failure> {
    let pull = match process::member()? {
        Member::Client(client) => client.outputs.begin(style),
        Member::Server(role) => role.outputs().begin(style),
    };
    Ok(Box::new(move |output| pull.write(output)))
}

/// Ends the forwarding that [`PMIx_IOF_pull`] began; without a callback it waits. See the standard's function of the
/// same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_IOF_deregister<'a>(
    iofhdlr: usize,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard_status(|| {
        process::member()?;
        let directives = from_c::infos(directives.counted(ndirs))?;
        from_c::refuse_required(&directives)?;
        let id = u64::try_from(iofhdlr).unwrap_or(u64::MAX);
        start_or_wait(ClientRequest::IofDeregister { id, directives }, cbfunc, cbdata)
    })
}

/// Sends bytes to the standard input of processes; no bytes mean its end. Without a callback it waits.
///
/// With NULL for `bo` nothing is sent. `PMIX_IOF_PUSH_STDIN` then makes the library read this process's standard input
/// and send it to the targets, with its end. `PMIX_IOF_COMPLETE` or `PMIX_IOF_PUSH_STDIN` = false ends that for the
/// targets, or for all if none are named. The targets' input stays open. With a callback both return
/// `PMIX_OPERATION_SUCCEEDED`, and it is not called. Without one they return `PMIX_SUCCESS`. See the standard's
/// function of the same name.
///
/// Support: passed to the host.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn PMIx_IOF_push<'a>(
    targets: Items<'a, pmix_proc_t>,
    ntargets: Count<'a, pmix_proc_t>,
    bo: In<'a, pmix_byte_object_t>,
    directives: Items<'a, pmix_info_t>,
    ndirs: Count<'a, pmix_info_t>,
    cbfunc: Callback<pmix_op_cbfunc_t>,
    cbdata: CallerData,
) -> pmix_status_t {
    guard_status(|| {
        let own = process::member()?.proc().namespace;
        let targets = from_c::procs(targets.counted(ntargets), Some(&own))?;
        let directives = from_c::infos(directives.counted(ndirs))?;
        let is_refused = |info: &Info| {
            let key = info.key.as_str();
            let is_of_output = OutputSettings::is_directive(key) || OutputStyle::is_directive(key);
            is_of_output && info.flags().contains(InfoFlags::REQUIRED)
        };
        if directives.iter().any(is_refused) {
            return Err(Failure(Status::ERR_NOT_SUPPORTED));
        }
        if bo.is_null() {
            return without_data(targets, directives, cbfunc.is_none());
        }
        let bytes = from_c::byte_object(bo)?;
        start_or_wait(IofPush::new(targets, directives, bytes).into(), cbfunc, cbdata)
    })
}

/// A push without data: it begins or ends the reading of this process's standard input.
fn without_data(targets: Vec<ProcId>, directives: Vec<Info>, waits: bool) -> Result<Status, Failure> {
    from_c::refuse_others(&directives, &OF_INPUT)?;
    match StdinDirective::of(&directives) {
        StdinDirective::Begin if targets.is_empty() => return Err(Failure(Status::ERR_BAD_PARAM)),
        StdinDirective::Begin => stdin::begin(targets, directives)?,
        StdinDirective::End => stdin::end_for(&targets),
        StdinDirective::Nothing => {}
    }
    // A blocking call has only one word for success.
    Ok(if waits { Status::SUCCESS } else { Status::OPERATION_SUCCEEDED })
}

#[cfg(test)]
mod tests {
    use modex::keys;
    use modex::runtime::attributes_of_library;
    use modex::types::Key;

    use super::*;

    /// Regression: the list of attributes had none of the directives for the form and the files of pulled output.
    #[test]
    fn the_honoured_directives_of_a_pull_are_listed() {
        let listed = attributes_of_library("PMIx_IOF_pull");
        for key in attributes_of_library("PMIx_server_init").into_iter().filter(|key| OutputStyle::is_directive(key)) {
            assert_eq!(listed.contains(key), !OutputStyle::is_of_origin(key), "{key}");
        }
        assert!(attributes_of_library("PMIx_IOF_push").contains(keys::IOF_PUSH_STDIN.name()));
    }

    /// Regression: a required `PMIX_IOF_TAG_DETAILED_OUTPUT` gave lines with "unknown".
    #[test]
    fn a_puller_refuses_to_name_the_origin_of_lines() {
        let taken = |key: &'static str, flags, is_written_here| {
            let mut directives = [Info { flags, ..Info::new(Key::from_static(key), true) }];
            take_style_mark(&mut directives, is_written_here).map_err(|Failure(status)| status)?;
            Ok(directives[0].flags)
        };
        let (tag, detailed) = (keys::IOF_TAG_OUTPUT.name(), keys::IOF_TAG_DETAILED_OUTPUT.name());
        let required = InfoFlags::REQUIRED.bits();
        assert_eq!([taken(tag, required, true), taken(detailed, 0, true)], [Ok(0), Ok(0)]);
        for (key, is_written_here) in [(detailed, true), (detailed, false), (tag, false)] {
            assert_eq!(taken(key, required, is_written_here), Err(Status::ERR_NOT_SUPPORTED), "{key}");
        }
    }
}
