//! `modex inspect`: placeholder until the branch lands.
#[derive(clap::Args, Debug)]
pub(super) struct Options {}
pub(super) fn run(_: &Options) -> super::Outcome {
    Err("not merged".into())
}
