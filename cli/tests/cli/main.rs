//! The command as its users run it: real launchers, real ranks, real signals.
//!
//! Every launcher here gets its own temporary directory, and a mark in its environment. Its ranks, their children and
//! the guardian inherit the mark. So each test can see that a job leaves no file and no process.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test binary is an edge; it has no configuration object")]

mod ask;
mod attrs;
mod bench;
mod cleanup;
mod control;
mod ctl;
mod debug_stops;
mod demo;
mod endings;
mod events;
mod features;
mod forwarding;
mod generate;
mod hold;
mod host;
mod info;
mod install;
mod job_control;
mod launch;
mod log;
mod monitor;
mod mpi_advice;
mod names;
mod output;
mod output_files;
mod pmi;
mod programs;
mod services;
mod shortage;
mod sim;
mod spawn;
mod top;
mod unread;
mod who_is_missing;

/// Plays the role named by the environment when a launcher runs this binary as a rank; does nothing otherwise.
#[test]
fn client_process() {
    match std::env::var(launch::ROLE).as_deref() {
        Ok("abort") => endings::abort_as_rank_one(),
        Ok("leave") => endings::leave_as_rank_one(),
        Ok("keep values") => ask::keep_values(),
        Ok("spawn scripts") => spawn::spawn_scripts(),
        Ok("spawn clients") => spawn::spawn_clients(),
        Ok("meet the parent") => spawn::meet_the_parent(),
        Ok("spawn what can not be") => spawn::spawn_what_can_not_be(),
        Ok("spawn behind much output") => spawn::spawn_behind_much_output(),
        Ok("spawn for a tool") => forwarding::spawn_for_a_tool(),
        Ok("spawn under a tool's eyes") => forwarding::spawn_under_a_tools_eyes(),
        Ok("spawn a last line") => spawn::spawn_a_last_line(),
        Ok("leave a daemon") => spawn::leave_a_daemon(),
        Ok("abort a child") => spawn::abort_a_child(),
        Ok("spawn a failure") => spawn::spawn_a_failure(),
        Ok("control another") => control::control_another(),
        Ok("stop and terminate another") => control::stop_and_terminate_another(),
        Ok("terminate another") => control::terminate_another(),
        Ok("checkpoint another") => control::checkpoint_another(),
        Ok("end all") => control::end_all(),
        Ok("end a spawned job") => control::end_a_spawned_job(),
        Ok("log and print") => log::log_and_print(),
        Ok("log to several") => log::log_to_several(),
        Ok("log to the record") => log::log_to_the_record(),
        Ok("flood the log") => log::flood_the_log(),
        Ok("speak among others") => log::speak_among_others(),
        Ok("spawn one after the other") => spawn::spawn_one_after_the_other(),
        Ok("hear the end of another") => events::hear_the_end_of_another(),
        Ok("raise what nobody honours") => events::raise_what_nobody_honours(),
        Ok("ask for what can not be") => forwarding::ask_for_what_can_not_be(),
        Ok("pull what has ended") => forwarding::pull_what_has_ended(),
        Ok("talk to a spawned job") => forwarding::talk_to_a_spawned_job(),
        Ok("spawn and do not listen") => forwarding::spawn_and_do_not_listen(),
        Ok("fall silent") => monitor::fall_silent(),
        Ok("spawn stopped at exec") => debug_stops::spawn_stopped_at_exec(),
        Ok("spawn stopped in init") => debug_stops::spawn_stopped_in_init(),
        Ok("wait for a debugger") => debug_stops::wait_for_a_debugger(),
        Ok("spawn with time limits") => debug_stops::spawn_with_time_limits(),
        Ok("spawn daemons beside a job") => debug_stops::spawn_daemons(),
        Ok("measure resources") => services::measure_resources(),
        Ok("exchange credentials") => services::exchange_credentials(),
        Ok("share names") => names::share_names(),
        Ok(other) => panic!("unknown role {other}"),
        Err(_) => {}
    }
}
