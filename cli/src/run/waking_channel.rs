//! A channel whose receiver sleeps as soon as there is nothing to receive.
//!
//! The receivers of the libraries first give up the processor a few times. Where all processors are busy, as with a job
//! on its node, each time another process runs instead, and the channel costs more than its messages.

use std::thread::{Thread, park};

use crossbeam::channel::{Receiver, SendError, Sender, TryRecvError};

/// The sending end. It wakes the thread of the receiver up.
#[derive(Debug)]
pub(super) struct WakingSender<T> {
    /// The drop takes it out.
    sender: Option<Sender<T>>,
    receiver: Thread,
}

impl<T> WakingSender<T> {
    /// `receiver`: the thread that calls [`wait_for_next`].
    pub(super) const fn new(sender: Sender<T>, receiver: Thread) -> Self {
        Self { sender: Some(sender), receiver }
    }

    /// Sends a message. It waits for room if the channel has a bound.
    ///
    /// # Errors
    /// The message, if the receiver has gone.
    pub(super) fn send(&self, message: T) -> Result<(), SendError<T>> {
        let Some(sender) = &self.sender else { return Err(SendError(message)) };
        sender.send(message)?;
        self.receiver.unpark();
        Ok(())
    }
}

impl<T> Clone for WakingSender<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), receiver: self.receiver.clone() }
    }
}

impl<T> Drop for WakingSender<T> {
    fn drop(&mut self) {
        // The receiver has to see that it was the last one.
        drop(self.sender.take());
        self.receiver.unpark();
    }
}

/// Waits for the next message. `None`: all senders have gone. Only the thread that the senders wake up may call this.
pub(super) fn wait_for_next<T>(receiver: &Receiver<T>) -> Option<T> {
    loop {
        match receiver.try_recv() {
            Ok(message) => return Some(message),
            // A message after the look ends this at once.
            Err(TryRecvError::Empty) => park(),
            Err(TryRecvError::Disconnected) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{Builder, current};

    use crossbeam::channel::bounded;

    use super::*;

    #[test]
    fn all_messages_come_in_order_and_then_the_end() {
        let (sender, receiver) = bounded(2);
        let sender = WakingSender::new(sender, current());
        let send = move || (0..1000).for_each(|number| sender.send(number).unwrap());
        let thread = Builder::new().spawn(send).unwrap();
        let received: Vec<i32> = std::iter::from_fn(|| wait_for_next(&receiver)).collect();
        assert_eq!(received, (0..1000).collect::<Vec<i32>>());
        thread.join().unwrap();
    }

    #[test]
    fn a_sender_hears_that_the_receiver_has_gone() {
        let (sender, receiver) = bounded(1);
        let sender = WakingSender::new(sender, current());
        drop(receiver);
        assert_eq!(sender.clone().send(1), Err(SendError(1)));
    }
}
