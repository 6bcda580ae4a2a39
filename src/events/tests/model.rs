//! Compares the order of the chain with a plain list, and checks the rules that every history must keep.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Operation {
    Register {
        codes: Vec<usize>,
        place: Place,
        is_once: bool,
    },
    Deregister(usize),
    Raise {
        code: usize,
        is_non_default: bool,
    },
    /// Takes the next call, if there is one, and holds it.
    Take,
    /// Completes a held call, or an already completed one.
    Complete {
        which: usize,
        ends: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Front,
    Back,
    First,
    Last,
    FirstOfCategory,
    LastOfCategory,
    Before(usize),
    After(usize),
}

const CODES: [Status; 3] = [A, B, Status::from_raw(-1003)];

/// One handler of the model.
#[derive(Clone, Debug)]
struct Handler {
    id: usize,
    codes: Vec<usize>,
    place: Place,
    is_once: bool,
}

impl Handler {
    /// Coarse order: first of all, then by category its first, the others, its last; then the last of all.
    fn class(&self) -> usize {
        let category = 3 * self.codes.len().checked_sub(1).map_or(2, |more| more.min(1));
        match self.place {
            Place::First => 0,
            Place::Last => 10,
            Place::FirstOfCategory => 1 + category,
            Place::LastOfCategory => 3 + category,
            _ => 2 + category,
        }
    }

    fn takes(&self, code: usize, is_non_default: bool) -> bool {
        if self.codes.is_empty() { !is_non_default } else { self.codes.contains(&code) }
    }
}

/// All handlers in one list, sorted by class; the order within a class is the list's.
#[derive(Default)]
struct Model {
    handlers: Vec<Handler>,
}

impl Model {
    fn can_register(&self, new: &Handler) -> bool {
        let is_single = matches!(new.class(), 0 | 10) || matches!(new.class() % 3, 1 | 0);
        let find = |id| self.handlers.iter().find(|handler| handler.id == id).map(Handler::class);
        match new.place {
            Place::Before(id) => find(id).is_some_and(|class| class >= new.class()),
            Place::After(id) => find(id).is_some_and(|class| class <= new.class()),
            _ => !is_single || self.handlers.iter().all(|handler| handler.class() != new.class()),
        }
    }

    fn register(&mut self, new: Handler) {
        let start = self.handlers.partition_point(|handler| handler.class() < new.class());
        let end = self.handlers.partition_point(|handler| handler.class() <= new.class());
        let position = |id| self.handlers.iter().position(|handler| handler.id == id).unwrap();
        let index = match new.place {
            Place::Back => end,
            Place::Before(id) => position(id).clamp(start, end),
            Place::After(id) => (position(id) + 1).clamp(start, end),
            _ => start,
        };
        self.handlers.insert(index, new);
    }

    fn chain(&self, code: usize, is_non_default: bool) -> Vec<usize> {
        let called = self.handlers.iter().filter(|handler| handler.takes(code, is_non_default));
        called.map(|handler| handler.id).collect()
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let place = prop_oneof![
        4 => Just(Place::Front),
        3 => Just(Place::Back),
        1 => Just(Place::First),
        1 => Just(Place::Last),
        1 => Just(Place::FirstOfCategory),
        1 => Just(Place::LastOfCategory),
        3 => (0..8_usize).prop_map(Place::Before),
        3 => (0..8_usize).prop_map(Place::After),
    ];
    let codes = proptest::sample::subsequence(vec![0, 1, 2], 0..=3);
    prop_oneof![
        4 => (codes, place, prop::bool::weighted(0.1))
            .prop_map(|(codes, place, is_once)| Operation::Register { codes, place, is_once }),
        1 => (0..8_usize).prop_map(Operation::Deregister),
        3 => (0..3_usize, any::<bool>())
            .prop_map(|(code, is_non_default)| Operation::Raise { code, is_non_default }),
        4 => Just(Operation::Take),
        4 => (0..16_usize, prop::bool::weighted(0.1)).prop_map(|(which, ends)| Operation::Complete { which, ends }),
    ]
}

fn directives(new: &Handler) -> Vec<Info> {
    let name = info(keys::EVENT_HDLR_NAME.name(), new.id.to_string());
    let place = match new.place {
        Place::Front => None,
        Place::Back => Some(flag(keys::EVENT_HDLR_APPEND)),
        Place::First => Some(flag(keys::EVENT_HDLR_FIRST)),
        Place::Last => Some(flag(keys::EVENT_HDLR_LAST)),
        Place::FirstOfCategory => Some(flag(keys::EVENT_HDLR_FIRST_IN_CATEGORY)),
        Place::LastOfCategory => Some(flag(keys::EVENT_HDLR_LAST_IN_CATEGORY)),
        Place::Before(id) => Some(info(keys::EVENT_HDLR_BEFORE.name(), id.to_string())),
        Place::After(id) => Some(info(keys::EVENT_HDLR_AFTER.name(), id.to_string())),
    };
    let once = new.is_once.then(|| flag(keys::EVENT_ONESHOT));
    [Some(name), place, once].into_iter().flatten().collect()
}

/// One chain of the model: its event, its remaining handlers, its results so far.
struct Chain {
    rest: Vec<usize>,
    said: Vec<Info>,
}

/// The dispatcher and the model side by side.
struct World {
    dispatcher: Dispatcher<usize>,
    model: Model,
    /// Chains by the number that their event carries.
    chains: Vec<Chain>,
    /// Calls taken, with their chain and whether they are completed.
    calls: Vec<(HandlerCall<usize>, usize, bool)>,
    next_id: usize,
}

impl World {
    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Register { codes, place, is_once } => self.register(codes, place, is_once),
            Operation::Deregister(id) => {
                let known = self.model.handlers.iter().any(|handler| handler.id == id);
                assert_eq!(self.dispatcher.remove(id).map(|(_, handler)| handler), known.then_some(id));
                self.model.handlers.retain(|handler| handler.id != id);
            }
            Operation::Raise { code, is_non_default } => self.raise(code, is_non_default),
            Operation::Take => {
                self.take();
            }
            Operation::Complete { which, ends } if !self.calls.is_empty() => {
                self.complete(which % self.calls.len(), ends);
            }
            Operation::Complete { .. } => {}
        }
    }

    fn register(&mut self, codes: Vec<usize>, place: Place, is_once: bool) {
        let new = Handler { id: self.next_id, codes, place, is_once };
        let codes: Vec<Status> = new.codes.iter().map(|code| CODES[*code]).collect();
        let registration = Registration::parse(&codes, &directives(&new)).unwrap();
        let inserted = self.dispatcher.insert(registration, new.id);
        assert_eq!(
            inserted.is_ok(),
            self.model.can_register(&new),
            "{new:?} into {:?}: {inserted:?}",
            self.model.handlers
        );
        if let Ok(id) = inserted {
            assert_eq!(id, self.next_id);
            self.dispatcher.activate(Time::ZERO, id);
            self.next_id += 1;
            self.model.register(new);
        }
    }

    fn raise(&mut self, code: usize, is_non_default: bool) {
        let number = info("number", u32::try_from(self.chains.len()).unwrap());
        let non_default = info(keys::EVENT_NON_DEFAULT.name(), is_non_default);
        let event = with(CODES[code], &[number, non_default, flag(keys::EVENT_DO_NOT_CACHE)]);
        self.dispatcher.raise(Time::ZERO, event);
        self.chains.push(Chain { rest: self.model.chain(code, is_non_default), said: Vec::new() });
    }

    /// Takes a call, which must be the next one of its chain that is still registered.
    fn take(&mut self) -> bool {
        let Some(call) = self.dispatcher.poll_call() else { return false };
        let number = usize::try_from(call.info[0].value.as_u32().unwrap()).unwrap();
        let chain = &mut self.chains[number];
        let is_registered = |id: &usize| self.model.handlers.iter().any(|handler| handler.id == *id);
        let passed_over = chain.rest.iter().position(is_registered).expect("nobody is left to call");
        let expected = chain.rest.drain(..=passed_over).next_back().unwrap();
        assert_eq!(call.handler, expected);
        assert_eq!(call.id, expected);
        assert_eq!(call.results, chain.said);
        assert!(!self.calls.iter().any(|(_, of, done)| *of == number && !done), "two calls of one chain");
        let once = self.model.handlers.iter().position(|handler| handler.id == expected && handler.is_once);
        assert_eq!(call.ended.is_some(), once.is_some());
        if let Some(index) = once {
            self.model.handlers.remove(index);
        }
        self.calls.push((call, number, false));
        true
    }

    fn complete(&mut self, which: usize, ends: bool) {
        let (call, number, is_done) = &mut self.calls[which];
        let said = info("said", u64::try_from(*number).unwrap());
        let status = if ends { Status::EVENT_ACTION_COMPLETE } else { Status::EVENT_NO_ACTION_TAKEN };
        let goes_on = self.dispatcher.complete(call.token, status, vec![said.clone()]);
        let chain = &mut self.chains[*number];
        if *is_done {
            return assert!(!goes_on, "a second completion changes nothing");
        }
        *is_done = true;
        if ends {
            chain.rest.clear();
        }
        assert_eq!(goes_on, !chain.rest.is_empty());
        chain.said.push(info(&call.handler.to_string(), Value::Status(status.to_raw())));
        chain.said.push(said);
    }

    /// Completes all held calls; then nothing may be left.
    fn end(&mut self) {
        loop {
            for which in 0..self.calls.len() {
                self.complete(which, false);
            }
            if !self.take() {
                break;
            }
        }
        let is_registered = |id: &usize| self.model.handlers.iter().any(|handler| handler.id == *id);
        assert!(self.chains.iter().all(|chain| !chain.rest.iter().any(is_registered)), "somebody was not called");
        assert_eq!(self.dispatcher.chain_count(), 0);
        assert_eq!(self.dispatcher.handler_count(), self.model.handlers.len());
    }
}

proptest! {
    #[test]
    fn the_chain_is_the_models(operations in vec(operation(), 0..60)) {
        let dispatcher = Dispatcher::new(own(), 0);
        let (chains, calls) = (Vec::new(), Vec::new());
        let mut world = World { dispatcher, model: Model::default(), chains, calls, next_id: 0 };
        operations.into_iter().for_each(|operation| world.apply(operation));
        world.end();
    }
}
