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
