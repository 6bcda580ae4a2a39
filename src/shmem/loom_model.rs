//! Exhaustive check of the publication protocol: every interleaving and every outcome the memory model allows.
//!
//! Run by `RUSTFLAGS="--cfg loom" cargo test --lib --release loom_`. The model uses `publication` itself; only the
//! memory is loom's, whose cells notice every access that is not ordered with a write.
//!
//! Each model counts how often the reader reaches the claim under test: a model that never reaches it proves nothing.
//! Loom misses interleavings in which a thread loads a word just before its own store to it. So the writer keeps copies
//! of its stored values, here and in the real code.

use core::sync::atomic::AtomicUsize;
use std::sync::Arc as StdArc;

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
    state: AtomicU32,
    blocks: [UnsafeCell<u64>; 2],
}

const VALUES: [u64; 2] = [11, 22];

impl Model {
    fn new() -> Self {
        Self {
            published: AtomicU64::new(0),
            root: AtomicU64::new(0),
            generation: AtomicU32::new(0),
            state: AtomicU32::new(0),
            blocks: [UnsafeCell::new(0), UnsafeCell::new(0)],
        }
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
        assert_eq!(found, VALUES[block], "block {block} was found before it was written");
    }

    /// The writer's whole protocol for one block.
    fn write_block(&self, block: usize) {
        let end = block as u64 + 1;
        self.fill(block);
        publication::publish(&self.published, end);
        publication::link(&self.root, end);
    }

    /// Reader: follows the root to a block and reads it, through a watermark. Returns the block's end.
    fn follow_and_read(&self, watermark: &Watermark) -> u64 {
        let end = publication::follow(&self.root);
        if end == 0 {
            return 0;
        }
        if !watermark.covers(end) {
            let readable = refresh(self, watermark, 2);
            assert!(readable >= end, "offset {end} was found but only {readable} is published");
        }
        self.check(usize::try_from(end).unwrap() - 1);
        end
    }
}

/// Refreshes a watermark over an object of `size` bytes, which holds all published bytes.
fn refresh(model: &Model, watermark: &Watermark, size: u64) -> u64 {
    watermark.refresh(&model.published, || Ok::<_, ()>(size)).unwrap().unwrap()
}

/// Runs `writer` and `reader` concurrently in every interleaving. `reader` returns whether it reached its claim, which
/// must happen at least once.
fn explore(writer: fn(&Model), reader: fn(&Model) -> bool) {
    let reached = StdArc::new(AtomicUsize::new(0));
    let counter = StdArc::clone(&reached);
    loom::model(move || {
        let model = Arc::new(Model::new());
        let shared = Arc::clone(&model);
        let writing = thread::spawn(move || writer(&shared));
        if reader(&model) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        writing.join().unwrap();
    });
    assert_ne!(reached.load(Ordering::Relaxed), 0, "the model never reached its check");
}

fn write_both(model: &Model) {
    model.write_block(0);
    model.write_block(1);
}

#[test]
fn loom_what_a_root_points_to_is_there() {
    explore(write_both, |model| {
        let watermark = Watermark::new();
        let first = model.follow_and_read(&watermark);
        let second = model.follow_and_read(&watermark);
        assert!(second >= first, "a root went back");
        (first, second) == (1, 2)
    });
}

#[test]
fn loom_everything_below_published_is_there() {
    explore(write_both, |model| {
        let published = publication::observe(&model.published);
        for block in 0..usize::try_from(published).unwrap() {
            model.check(block);
        }
        published == 2
    });
}

#[test]
fn loom_a_new_generation_announces_what_was_linked() {
    explore(
        |model| {
            model.write_block(0);
            publication::announce(&model.generation, 1);
        },
        |model| {
            let announced = publication::generation(&model.generation) == 1;
            if announced {
                assert_eq!(model.follow_and_read(&Watermark::new()), 1);
            }
            announced
        },
    );
}

#[test]
fn loom_the_end_of_life_announces_what_was_published() {
    explore(
        |model| {
            model.write_block(0);
            publication::set_state(&model.state, 1);
        },
        |model| {
            let retired = publication::state(&model.state) == 1;
            if retired {
                assert_eq!(model.follow_and_read(&Watermark::new()), 1);
            }
            retired
        },
    );
}

#[test]
fn loom_threads_of_a_reader_share_one_watermark() {
    let reached = StdArc::new(AtomicUsize::new(0));
    let counter = StdArc::clone(&reached);
    loom::model(move || {
        let model = Arc::new(Model::new());
        let watermark = Arc::new(Watermark::new());
        let (shared, known, counter) = (Arc::clone(&model), Arc::clone(&watermark), StdArc::clone(&counter));
        // The reader's second thread relies on the watermark alone, as with an offset from elsewhere.
        let other = thread::spawn(move || {
            if known.covers(1) {
                shared.check(0);
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        let shared = Arc::clone(&model);
        let writing = thread::spawn(move || shared.write_block(0));
        refresh(&model, &watermark, 2);
        other.join().unwrap();
        writing.join().unwrap();
    });
    assert_ne!(reached.load(Ordering::Relaxed), 0, "the second thread never read");
}

/// How `cells` lists tables: with relaxed stores before the publication that covers them.
#[test]
fn loom_what_was_listed_before_a_publication_is_found_after_it() {
    explore(
        |model| {
            Word64::store(&model.root, 7, Ordering::Relaxed);
            publication::publish(&model.published, 1);
        },
        |model| {
            let watermark = Watermark::new();
            let readable = refresh(model, &watermark, 2) == 1;
            if readable {
                assert_eq!(Word64::load(&model.root, Ordering::Relaxed), 7);
            }
            readable
        },
    );
}

#[test]
fn loom_a_watermark_never_covers_more_than_the_object_has() {
    explore(
        |model| publication::publish(&model.published, 2),
        |model| {
            let watermark = Watermark::new();
            let outcome = watermark.refresh(&model.published, || Ok::<_, ()>(1)).unwrap();
            assert!(outcome.is_err() || outcome == Ok(0));
            assert!(!watermark.covers(1));
            outcome.is_err()
        },
    );
}

/// The model detects a writer without the Release. This test and the next ones prove that the tests above can fail.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_a_relaxed_publication_is_caught() {
    explore(
        |model| {
            model.fill(0);
            Word64::store(&model.published, 1, Ordering::Relaxed);
        },
        |model| {
            let published = publication::observe(&model.published) == 1;
            if published {
                model.check(0);
            }
            published
        },
    );
}

#[test]
#[should_panic(expected = "is published")]
fn loom_a_link_before_its_publication_is_caught() {
    explore(
        |model| {
            model.fill(0);
            publication::link(&model.root, 1);
            publication::publish(&model.published, 1);
        },
        |model| model.follow_and_read(&Watermark::new()) == 1,
    );
}

#[test]
#[should_panic(expected = "was not announced")]
fn loom_a_reader_that_does_not_acquire_is_caught() {
    explore(
        |model| {
            model.write_block(0);
            publication::announce(&model.generation, 1);
        },
        |model| {
            let announced = Word32::load(&model.generation, Ordering::Relaxed) == 1;
            if announced {
                assert_eq!(publication::follow(&model.root), 1, "the block was not announced");
            }
            announced
        },
    );
}
