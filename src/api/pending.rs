//! Operations of clients and servers, written once for callers that wait, that have a callback, and that `await`.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// An operation of a client or server that has not begun. [`Pending::wait`], [`Pending::then`] or `.await` begins it.
///
/// ```no_run
/// # use modex::Client;
/// # use modex::types::{Info, Key};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect()?;
/// let port = Info::new(Key::new("service.port")?, "eth0:4711");
/// client.publish(vec![port.clone()]).wait()?;
/// client.unpublish(vec![port.key.clone()], Vec::new()).then(|result| println!("withdrawn: {result:?}"))?;
/// client.publish(vec![port]).await?;
/// # Ok(())
/// # }
/// ```
///
/// The compiler warns of an operation that nothing begins:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # fn example(server: &modex::Server, job: &modex::types::Namespace) {
/// server.deregister_namespace(job);
/// # }
/// ```
#[must_use = "the operation begins with `wait`, `then` or `await`"]
#[derive(Debug)]
pub struct Pending<O>(pub(super) O);

/// An operation of a client or server. Only this library implements it.
pub trait Operation: sealed::Sealed + Sized + Send + 'static {
    /// The result of success.
    type Output: Send + 'static;
    /// The reason of a failure.
    type Error: Send + 'static;

    /// Begins the operation and waits for its end.
    #[doc(hidden)]
    fn run(self) -> Result<Self::Output, Self::Error>;

    /// Begins the operation; `callback` gets its result on a thread of the library.
    #[doc(hidden)]
    fn run_with(
        self,
        callback: impl FnOnce(Result<Self::Output, Self::Error>) + Send + 'static,
    ) -> Result<(), Self::Error>;
}

impl<O: Operation> Pending<O> {
    /// Begins the operation and waits for its end.
    ///
    /// # Errors
    /// The operation's error.
    pub fn wait(self) -> Result<O::Output, O::Error> {
        self.0.run()
    }

    /// Begins the operation, without waiting. The result goes to `callback`, never from inside this function. A client
    /// runs it on a thread that the first callback starts, a server on the thread of the host's functions.
    ///
    /// # Errors
    /// The operation's error: it has not begun, and the callback will not run.
    pub fn then(self, callback: impl FnOnce(Result<O::Output, O::Error>) + Send + 'static) -> Result<(), O::Error> {
        self.0.run_with(callback)
    }
}

/// `.await` begins the operation before the first poll.
impl<O: Operation> IntoFuture for Pending<O> {
    type Output = Result<O::Output, O::Error>;
    type IntoFuture = PendingFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let meeting = Arc::new(Mutex::new(Meeting { result: None, waker: None }));
        let other = Arc::clone(&meeting);
        let begun = self.then(move |result| {
            let waker = other.lock().arrive(result);
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        if let Err(error) = begun {
            // Nobody polls before this function returns.
            let _ = meeting.lock().arrive(Err(error));
        }
        PendingFuture { meeting }
    }
}

/// A begun operation as a future. Dropping it does not cancel the operation.
#[derive(Debug)]
pub struct PendingFuture<T> {
    meeting: Arc<Mutex<Meeting<T>>>,
}

/// The place where a result meets the task that awaits it.
#[derive(Debug)]
struct Meeting<T> {
    result: Option<T>,
    waker: Option<Waker>,
}

impl<T> Meeting<T> {
    /// Returns the waker, to be called without the lock: it may poll at once.
    #[must_use]
    fn arrive(&mut self, result: T) -> Option<Waker> {
        self.result = Some(result);
        self.waker.take()
    }
}

impl<T> Future for PendingFuture<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut meeting = self.meeting.lock();
        match meeting.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                meeting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

pub(super) mod sealed {
    pub trait Sealed {}
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;

    /// A task that its waker polls at once, as some executors do.
    struct Task(Mutex<PendingFuture<u32>>, Mutex<Option<u32>>);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            let waker = Waker::from(Arc::clone(&self));
            let polled = Pin::new(&mut *self.0.lock()).poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(result) = polled {
                *self.1.lock() = Some(result);
            }
        }
    }

    #[test]
    fn a_waker_may_poll_at_once() {
        let meeting = Arc::new(Mutex::new(Meeting { result: None, waker: None }));
        let task = Arc::new(Task(Mutex::new(PendingFuture { meeting: Arc::clone(&meeting) }), Mutex::new(None)));
        Arc::clone(&task).wake();
        let waker = meeting.lock().arrive(7);
        waker.unwrap().wake();
        assert_eq!(*task.1.lock(), Some(7));
    }
}
