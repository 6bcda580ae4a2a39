//! The launcher as a job of a shell: in the background, stopped and continued.

use crate::launch::on_a_terminal;

/// The launcher read the terminal, so the terminal stopped it when it ran in the background. The ranks went on, and a
/// stopped launcher did not act on SIGTERM.
#[test]
fn a_launcher_in_the_background_runs_on_and_can_be_ended() {
    let body = "mkfifo \"$TMPDIR/words\"
        \"$MODEX\" run -n 1 -- sh -c 'echo ready; exec sleep 1000' >\"$TMPDIR/words\" 2>&1 &
        read -r word <\"$TMPDIR/words\"
        kill -TERM $!
        rm \"$TMPDIR/words\"
        wait $!
        echo \"$word, ended with $?\"";
    let ended = on_a_terminal(body).run();
    assert!(ended.out.contains("ready, ended with 143"), "{ended:?}");
}

/// The tool read the terminal, so the terminal stopped it, and it showed nothing more.
#[test]
fn a_tool_with_input_in_the_background_shows_output_until_its_end() {
    let body = "\"$MODEX\" run -n 1 --stdin tools -- \
            sh -c 'until test -e \"$TMPDIR/end\"; do echo tick; sleep 0.02; done' >\"$TMPDIR/log\" 2>&1 &
        launcher=$!
        until grep -q tick \"$TMPDIR/log\"; do :; done
        \"$MODEX\" output modex-$launcher -r 0 --stdin >\"$TMPDIR/shown\" &
        until grep -q tick \"$TMPDIR/shown\" || grep -q '^State:.T' /proc/$!/status; do :; done
        touch \"$TMPDIR/end\"
        wait $!
        echo \"ended with $?\"
        kill -KILL $!
        wait $launcher
        rm \"$TMPDIR/log\" \"$TMPDIR/shown\" \"$TMPDIR/end\"";
    let ended = on_a_terminal(body).run();
    assert!(ended.out.contains("ended with 0"), "{ended:?}");
}

/// Only the launcher stopped, and the ranks went on.
#[test]
fn a_launcher_that_is_stopped_stops_its_ranks_and_continues_them() {
    let body = "mkfifo \"$TMPDIR/words\"
        \"$MODEX\" run -n 1 --stdin none -- sh -c 'echo $$; exec sleep 1000' >\"$TMPDIR/words\" 2>&1 &
        read -r rank <\"$TMPDIR/words\"
        rm \"$TMPDIR/words\"
        state() { while ! grep -q \"^State:.$1\" /proc/$rank/status; do :; done; }
        kill -TSTP $!
        wait $!
        state T
        kill -CONT $!
        state S
        kill -TERM $!
        wait $!
        echo \"ended with $?\"";
    let ended = on_a_terminal(body).run();
    assert!(ended.out.contains("ended with 143"), "{ended:?}");
}
