//! Exhaustive check of the publication protocol: every interleaving and every outcome the memory model allows.
//!
//! Run by `RUSTFLAGS="--cfg loom" cargo test --lib --release loom_`. The model uses `publication` itself; only the
//! memory is loom's, whose cells notice every access that is not ordered with a write.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;

use super::publication::{self, Watermark};
use super::sync::{Ordering, Word32, Word64};

/// A segment of two blocks. Block `n` ends at `n + 1` and holds `VALUES[n]`; offset `n + 1` stands for block `n`.
struct Model {
    published: AtomicU64,
    root: AtomicU64,
    generation: AtomicU32,
    blocks: [UnsafeCell<u64>; 2],
}

const VALUES: [u64; 2] = [11, 22];

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            published: AtomicU64::new(0),
            root: AtomicU64::new(0),
            generation: AtomicU32::new(0),
            blocks: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    fn fill(&self, block: usize) {
        self.blocks[block].with_mut(|at| {
            // SAFETY: loom fails the test if this is not exclusive.
            unsafe { *at = VALUES[block] }
        });
    }

    fn check(&self, block: usize) {
        let found = self.blocks[block].with(|at| {
            // SAFETY: loom fails the test if this races with `fill`.
            unsafe { *at }
        });
        assert_eq!(
            found, VALUES[block],
            "block {block} was found before it was written"
        );
    }
}

/// Follows the root to a block and reads it, through a watermark.
fn follow_and_read(model: &Model, watermark: &Watermark) {
    let end = publication::follow(&model.root);
    if end == 0 {
        return;
    }
    if !watermark.covers(end) {
        let readable = watermark
            .refresh(&model.published, || Ok::<_, ()>(2))
            .unwrap()
            .unwrap();
        assert!(
            readable >= end,
            "offset {end} was found but only {readable} is published"
        );
    }
    model.check(usize::try_from(end).unwrap() - 1);
}

fn write_block(model: &Model, block: usize) {
    let end = block as u64 + 1;
    model.fill(block);
    publication::publish(&model.published, end);
    publication::link(&model.root, end);
}

#[test]
fn loom_what_a_root_points_to_is_there() {
    loom::model(|| {
        let model = Model::new();
        let shared = Arc::clone(&model);
        let writer = thread::spawn(move || {
            write_block(&shared, 0);
            write_block(&shared, 1);
        });
        let watermark = Watermark::new();
        follow_and_read(&model, &watermark);
        follow_and_read(&model, &watermark);
        writer.join().unwrap();
    });
}

#[test]
fn loom_everything_below_published_is_there() {
    loom::model(|| {
        let model = Model::new();
        let shared = Arc::clone(&model);
        let writer = thread::spawn(move || {
            write_block(&shared, 0);
            write_block(&shared, 1);
        });
        let published = publication::observe(&model.published);
        for block in 0..usize::try_from(published).unwrap() {
            model.check(block);
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_a_new_generation_and_the_end_of_life_announce_what_was_linked() {
    loom::model(|| {
        let model = Model::new();
        let state = Arc::new(AtomicU32::new(0));
        let (shared, ending) = (Arc::clone(&model), Arc::clone(&state));
        let writer = thread::spawn(move || {
            write_block(&shared, 0);
            assert_eq!(publication::advance(&shared.generation), 1);
            publication::set_state(&*ending, 1);
        });
        if publication::state(&*state) == 1 {
            assert_eq!(publication::generation(&model.generation), 1);
        }
        if publication::generation(&model.generation) == 1 {
            assert_eq!(publication::follow(&model.root), 1);
            model.check(0);
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_threads_of_a_reader_share_one_watermark() {
    loom::model(|| {
        let model = Model::new();
        let watermark = Arc::new(Watermark::new());
        let (shared, known) = (Arc::clone(&model), Arc::clone(&watermark));
        // The reader's second thread relies on the watermark alone, as it would with an offset it got elsewhere.
        let other = thread::spawn(move || {
            if known.covers(1) {
                shared.check(0);
            }
        });
        let writing = Arc::clone(&model);
        let writer = thread::spawn(move || write_block(&writing, 0));
        let _ = watermark
            .refresh(&model.published, || Ok::<_, ()>(2))
            .unwrap()
            .unwrap();
        other.join().unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn loom_a_watermark_never_covers_more_than_the_object_has() {
    loom::model(|| {
        let model = Model::new();
        let shared = Arc::clone(&model);
        let writer = thread::spawn(move || publication::publish(&shared.published, 2));
        let watermark = Watermark::new();
        let outcome = watermark
            .refresh(&model.published, || Ok::<_, ()>(1))
            .unwrap();
        assert!(outcome.is_err() || outcome == Ok(0));
        assert!(!watermark.covers(1));
        writer.join().unwrap();
    });
}

/// The model would notice a writer that forgets the Release: this is the proof that the tests above can fail.
#[test]
#[should_panic]
fn loom_a_relaxed_publication_is_caught() {
    loom::model(|| {
        let model = Model::new();
        let shared = Arc::clone(&model);
        let writer = thread::spawn(move || {
            shared.fill(0);
            Word64::store(&shared.published, 1, Ordering::Relaxed);
        });
        if publication::observe(&model.published) == 1 {
            model.check(0);
        }
        writer.join().unwrap();
    });
}

/// As above, for a writer that links before it publishes.
#[test]
#[should_panic(expected = "is published")]
fn loom_a_link_before_its_publication_is_caught() {
    loom::model(|| {
        let model = Model::new();
        let shared = Arc::clone(&model);
        let writer = thread::spawn(move || {
            shared.fill(0);
            publication::link(&shared.root, 1);
            publication::publish(&shared.published, 1);
        });
        follow_and_read(&model, &Watermark::new());
        writer.join().unwrap();
    });
}

/// As above, for a reader that does not acquire: it finds the new generation, but not what that announces.
#[test]
#[should_panic(expected = "was not announced")]
fn loom_a_relaxed_generation_is_caught() {
    loom::model(|| {
        let model = Model::new();
        let shared = Arc::clone(&model);
        let writer = thread::spawn(move || {
            write_block(&shared, 0);
            publication::advance(&shared.generation);
        });
        if Word32::load(&model.generation, Ordering::Relaxed) == 1 {
            assert_eq!(
                publication::follow(&model.root),
                1,
                "the block was not announced"
            );
        }
        writer.join().unwrap();
    });
}
