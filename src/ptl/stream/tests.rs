use std::fs::File;
use std::io::{Read, Write};

use super::*;

fn pair(limits: StreamLimits) -> (Stream, Stream) {
    let (a, b) = UnixStream::pair().unwrap();
    (Stream::new(a, limits), Stream::new(b, limits))
}

fn taking(descriptors_max: usize) -> StreamLimits {
    StreamLimits { descriptors_max, ..StreamLimits::default() }
}

/// A descriptor that a reader recognises by its contents.
fn marked(mark: &[u8]) -> Arc<OwnedFd> {
    let (read, mut write) = std::io::pipe().unwrap();
    write.write_all(mark).unwrap();
    Arc::new(read.into())
}

fn mark_of(descriptor: OwnedFd) -> Vec<u8> {
    let mut mark = Vec::new();
    File::from(descriptor).read_to_end(&mut mark).unwrap();
    mark
}

fn receive_all(stream: &mut Stream, count: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 1000];
    while all.len() < count {
        match stream.receive(&mut buffer).unwrap() {
            Received::Bytes(n) => all.extend_from_slice(&buffer[..n]),
            Received::Nothing => panic!("{} of {count} bytes came", all.len()),
            Received::End => break,
        }
    }
    all
}

#[test]
fn descriptors_arrive_in_order_with_their_messages() {
    let (mut a, mut b) = pair(taking(3));
    a.queue(b"plain".to_vec(), None).unwrap();
    a.queue(b"first".to_vec(), Some(marked(b"1"))).unwrap();
    a.queue(b"second".to_vec(), Some(marked(b"2"))).unwrap();
    a.queue(b"end".to_vec(), None).unwrap();
    assert_eq!(a.flush(), Ok(Flushed::All));
    assert_eq!(receive_all(&mut b, 19), b"plainfirstsecondend");
    assert_eq!(b.take_descriptor().map(mark_of), Some(b"1".to_vec()));
    assert_eq!(b.take_descriptor().map(mark_of), Some(b"2".to_vec()));
    assert!(b.take_descriptor().is_none());
}

#[test]
fn a_descriptor_is_there_with_the_first_byte_of_its_message() {
    let (mut a, mut b) = pair(taking(1));
    a.queue(b"xy".to_vec(), Some(marked(b"m"))).unwrap();
    a.flush().unwrap();
    assert_eq!(b.receive(&mut [0; 1]), Ok(Received::Bytes(1)));
    assert_eq!(b.take_descriptor().map(mark_of), Some(b"m".to_vec()));
}

/// An admission and the segment behind it wake the client once.
#[test]
fn messages_around_a_descriptor_go_out_together() {
    let (mut a, mut b) = pair(taking(1));
    a.queue(b"admission".to_vec(), None).unwrap();
    a.queue(b"segment".to_vec(), Some(marked(b"m"))).unwrap();
    a.queue(b"reply".to_vec(), None).unwrap();
    a.flush().unwrap();
    let mut buffer = [0; 100];
    assert_eq!(b.receive(&mut buffer), Ok(Received::Bytes(21)));
    assert_eq!(&buffer[..21], b"admissionsegmentreply");
    assert_eq!(b.take_descriptor().map(mark_of), Some(b"m".to_vec()));
}

/// Regression: a peer that read as fast as the server wrote got a reply of 15 MiB in one turn.
#[test]
fn a_flush_with_a_limit_ends_after_it() {
    let (mut a, mut b) = pair(taking(0));
    (0..10).for_each(|_| a.queue(vec![1; 10], None).unwrap());
    a.queue(vec![1; 1000], None).unwrap();
    let mut buffer = [0; 2000];
    for bytes in [15, 500] {
        assert_eq!(a.flush_some(bytes, &mut SpentMessages::default()), Ok(Flushed::Blocked));
        assert_eq!(b.receive(&mut buffer), Ok(Received::Bytes(bytes)));
    }
    assert_eq!(a.flush(), Ok(Flushed::All));
    assert_eq!(b.receive(&mut buffer), Ok(Received::Bytes(585)));
}

/// Regression: the server's thread freed replies of 15 MiB between the requests of others.
#[test]
fn large_messages_are_left_to_be_freed_elsewhere() {
    let (mut a, _b) = pair(taking(0));
    let mut spent = SpentMessages::default();
    a.queue(vec![1; 1000], None).unwrap();
    assert_eq!(a.flush_some(usize::MAX, &mut spent), Ok(Flushed::All));
    a.queue(vec![1; 1000], None).unwrap();
    a.discard(&mut spent);
    assert!(spent.is_empty(), "a small message is freed at once");
    a.queue(vec![1; 4 << 20], None).unwrap();
    assert_eq!(a.flush_some(usize::MAX, &mut spent), Ok(Flushed::Blocked));
    assert!(spent.is_empty(), "the message is needed");
    a.discard(&mut spent);
    assert!(!spent.is_empty());
    let shared: Arc<[u8]> = vec![1; 4 << 20].into();
    a.queue_shared(Vec::new(), &[Arc::clone(&shared)]).unwrap();
    a.discard(&mut spent);
    assert_eq!(Arc::strong_count(&shared), 1, "what many peers share is counted while it lives");
}

/// The bytes behind a head are the peer's own for the limits, although others share them.
#[test]
fn a_message_with_shared_bytes_counts_as_a_whole_and_goes_in_order() {
    let (mut a, mut b) = pair(StreamLimits { queued_bytes_max: 12, ..StreamLimits::default() });
    let shared = Arc::new(b"not shared, not".to_vec());
    let part = || SharedBytes::part(&shared, 4..10);
    a.queue_copied(vec![(b"head ".to_vec(), part())]).unwrap();
    assert_eq!((a.queued_bytes(), a.queue_copied(vec![(b"h".to_vec(), part())]).is_err()), (11, true));
    assert_eq!(Arc::strong_count(&shared), 2, "a message that does not fit is not kept in part");
    assert_eq!(a.flush(), Ok(Flushed::All));
    let mut buffer = [0; 64];
    assert_eq!(b.receive(&mut buffer), Ok(Received::Bytes(11)));
    assert_eq!((&buffer[..11], a.queued_bytes()), (&b"head shared"[..], 0));
    assert_eq!(Arc::strong_count(&shared), 1);
    a.queue_copied(vec![(Vec::new(), SharedBytes::part(&shared, 10..16))]).unwrap();
    assert_eq!(a.queued_bytes(), 0, "there is no such part");
    a.queue_copied(vec![(Vec::new(), SharedBytes::part(&shared, 0..12))]).unwrap();
    a.discard(&mut SpentMessages::default());
    assert_eq!(Arc::strong_count(&shared), 1);
}

/// The second part of a large piece of output exceeded the queue, and the connection of a process that read broke.
#[test]
fn messages_that_belong_together_count_as_one() {
    let (mut a, mut b) = pair(StreamLimits { queued_bytes_max: 12, ..StreamLimits::default() });
    let shared = Arc::new(b"firstsecond".to_vec());
    let parts = || {
        vec![(b"1:".to_vec(), SharedBytes::part(&shared, 0..5)), (b"2:".to_vec(), SharedBytes::part(&shared, 5..11))]
    };
    a.queue_copied(parts()).unwrap();
    assert_eq!((a.queued_bytes(), a.queue_copied(parts()).is_err()), (15, true));
    assert_eq!(a.flush(), Ok(Flushed::All));
    let mut buffer = [0; 64];
    assert_eq!(b.receive(&mut buffer), Ok(Received::Bytes(15)));
    assert_eq!(&buffer[..15], b"1:first2:second");
}

/// The kernel takes a part of the bytes; the descriptor goes with that part and with no other.
#[test]
fn a_descriptor_goes_once_when_its_message_has_yet_to_go() {
    let (mut a, mut b) = pair(taking(3));
    a.queue(vec![1; 4 << 20], None).unwrap();
    a.queue(b"segment".to_vec(), Some(marked(b"m"))).unwrap();
    assert_eq!(a.flush(), Ok(Flushed::Blocked));
    let mut received = 0;
    let mut buffer = vec![0; 1 << 20];
    while received < (4 << 20) + 7 {
        match b.receive(&mut buffer).unwrap() {
            Received::Bytes(count) => received += count,
            Received::Nothing => assert!(a.flush().is_ok()),
            Received::End => panic!("the other end is open"),
        }
    }
    assert_eq!(b.take_descriptor().map(mark_of), Some(b"m".to_vec()));
    assert!(b.take_descriptor().is_none());
}

#[test]
fn descriptors_beyond_the_limit_are_closed() {
    let (mut a, mut b) = pair(taking(1));
    let (read, write) = std::io::pipe().unwrap();
    let write = Arc::new(OwnedFd::from(write));
    for _ in 0..3 {
        a.queue(b"x".to_vec(), Some(write.clone())).unwrap();
    }
    a.flush().unwrap();
    drop(write);
    receive_all(&mut b, 3);
    assert!(b.take_descriptor().is_some());
    assert!(b.take_descriptor().is_none());
    // The reader sees the end of file only when no copy of the writing end is left anywhere.
    assert!(mark_of(read.into()).is_empty());
}

#[test]
fn a_received_descriptor_does_not_survive_exec() {
    let (mut a, mut b) = pair(taking(1));
    a.queue(b"x".to_vec(), Some(marked(b""))).unwrap();
    a.flush().unwrap();
    b.receive(&mut [0; 1]).unwrap();
    let flags = nix::fcntl::fcntl(b.take_descriptor().unwrap(), nix::fcntl::FcntlArg::F_GETFD).unwrap();
    assert_ne!(flags & nix::fcntl::FdFlag::FD_CLOEXEC.bits(), 0);
}

/// Holds even if another process has the peer's end, as a copy from an ended process.
#[test]
fn an_ended_direction_yields_earlier_bytes_and_no_later_ones() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut ours, mut theirs) = (Stream::new(ours, StreamLimits::default()), theirs);
    theirs.write_all(b"last").unwrap();
    ours.shutdown_receiving();
    let mut buffer = [0; 8];
    assert_eq!(ours.receive(&mut buffer), Ok(Received::Bytes(4)));
    assert_eq!(&buffer[..4], b"last");
    assert_eq!(theirs.write_all(b"more").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    assert_eq!(ours.receive(&mut buffer), Ok(Received::End));
}

#[test]
fn a_peer_that_does_not_read_fills_its_queue_and_is_reported() {
    let (mut a, _b) = pair(StreamLimits { queued_bytes_max: 10_000, descriptors_max: 0 });
    let refused = loop {
        a.flush().unwrap();
        if let Err(refused) = a.queue(vec![7; 4000], None) {
            break refused;
        }
    };
    assert!(refused.queued_bytes > 6000 && refused.size_bytes == 4000, "{refused}");
    assert!(a.has_queued());
}

#[test]
fn one_message_may_exceed_the_limit_when_nothing_waits() {
    let (mut a, mut b) = pair(StreamLimits { queued_bytes_max: 10, descriptors_max: 0 });
    a.queue(vec![1; 100], None).unwrap();
    assert!(a.queue(vec![1], None).is_err());
    a.flush().unwrap();
    assert_eq!(receive_all(&mut b, 100), [1; 100]);
}

#[test]
fn writing_to_a_closed_peer_is_an_error_and_no_signal() {
    let (mut a, b) = pair(StreamLimits::default());
    drop(b);
    a.queue(b"x".to_vec(), None).unwrap();
    assert_eq!(a.flush(), Err(StreamError { doing: "sending", source: Errno::PIPE }));
    assert_eq!(a.receive(&mut [0; 8]), Ok(Received::End));
}

#[test]
fn large_transfers_arrive_whole_through_a_socket_that_fills_up() {
    let (mut a, mut b) = pair(StreamLimits::default());
    let messages: Vec<Vec<u8>> = (0..40_u8).map(|i| vec![i; 20_000 + usize::from(i)]).collect();
    for message in &messages {
        a.queue(message.clone(), None).unwrap();
    }
    let expected = messages.concat();
    let mut received = Vec::new();
    let mut buffer = vec![0; 30_000];
    while received.len() < expected.len() {
        a.flush().unwrap();
        while let Received::Bytes(n) = b.receive(&mut buffer).unwrap() {
            received.extend_from_slice(&buffer[..n]);
        }
    }
    assert!(received == expected);
}

#[test]
fn shared_bytes_are_queued_for_many_peers_without_copies() {
    let shared: Arc<[u8]> = vec![7; 3_000_000].into();
    let tail: Arc<[u8]> = vec![8; 5].into();
    let mut pairs: Vec<_> = (0..3).map(|_| pair(StreamLimits::default())).collect();
    for (a, _) in &mut pairs {
        a.queue(b"before".to_vec(), None).unwrap();
        a.queue_shared(b"head".to_vec(), &[Arc::clone(&shared), Arc::clone(&tail)]).unwrap();
        a.queue(b"after".to_vec(), None).unwrap();
        assert_eq!(a.flush(), Ok(Flushed::Blocked));
    }
    assert_eq!((Arc::strong_count(&shared), Arc::strong_count(&tail)), (4, 4));
    let expected = [&b"beforehead"[..], &shared, &tail, b"after"].concat();
    for (a, b) in &mut pairs {
        let mut all = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        while all.len() < expected.len() {
            a.flush().unwrap();
            while let Received::Bytes(count) = b.receive(&mut buffer).unwrap() {
                all.extend_from_slice(&buffer[..count]);
            }
        }
        assert!(all == expected, "the bytes differ");
    }
    assert_eq!((Arc::strong_count(&shared), Arc::strong_count(&tail)), (1, 1));
}

#[test]
fn a_shared_message_counts_as_one_against_the_limit() {
    let (mut a, _b) = pair(StreamLimits { queued_bytes_max: 10, ..StreamLimits::default() });
    a.queue_shared(b"head".to_vec(), &[vec![0; 100].into()]).unwrap();
    assert!(a.queue_shared(b"head".to_vec(), &[vec![0; 100].into()]).is_err());
}

/// Regression: any process can listen on a dead server's port, answer, and close its half. The client took it for a
/// server of an unknown user.
#[test]
fn a_server_that_half_closes_is_not_believed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
    let client = Stream::connect(&endpoint, StreamLimits::default()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    assert!(client.check_tcp_server(Trust::OwnAndRoot).unwrap(), "the owner is known");
    server.write_all(b"welcome").unwrap();
    server.shutdown(std::net::Shutdown::Write).unwrap();
    let closed = client.check_tcp_server(Trust::OwnAndRoot).unwrap_err();
    assert!(matches!(closed, EndpointError::Unreachable { .. }) && !closed.is_nothing_there(), "{closed}");
}

/// Regression: a stopped server's queue is full, and its kernel does not answer. The client waited until its own kernel
/// gave up.
#[test]
fn a_server_of_this_node_that_takes_no_connection_is_given_up_in_time() {
    use rustix::net::{AddressFamily, SocketType};
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let stopped = std::net::TcpListener::from(socket);
    let endpoint = Endpoint::Tcp(stopped.local_addr().unwrap());
    let connect =
        |_| Stream::connect_within(&endpoint, StreamLimits::default(), Duration::from_millis(200), Trust::OwnAndRoot);
    let outcomes: Vec<_> = (0..8).map(connect).collect();
    let Some(EndpointError::Unreachable { source, .. }) = outcomes.into_iter().find_map(Result::err) else { panic!() };
    assert_eq!(source.kind(), io::ErrorKind::TimedOut);
    assert_eq!(source.raw_os_error(), None, "this process gave up, not the kernel");
}

/// Regression: a stopped server accepts no connection. A client that found its queue full waited until the server went
/// on.
#[test]
fn a_full_queue_holds_nobody_up_for_longer_than_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let endpoint = Endpoint::Unix(path);
    let _first = Stream::connect(&endpoint, taking(0)).unwrap();
    let error = Stream::connect_within(&endpoint, taking(0), Duration::from_millis(20), Trust::OwnAndRoot).unwrap_err();
    let EndpointError::Unreachable { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), io::ErrorKind::TimedOut);
    assert!(!error.may_pass() && !error.is_nobody_there());
    drop(listener);
    assert!(Stream::connect(&endpoint, taking(0)).unwrap_err().is_nobody_there());
}

#[test]
fn only_unshared_bytes_count_as_held_until_they_are_sent() {
    let (mut a, mut b) = pair(taking(0));
    a.queue(vec![1; 1000], None).unwrap();
    a.queue_shared(vec![2; 10], &[vec![3; 5000].into()]).unwrap();
    assert_eq!((a.queued_bytes(), a.held_bytes(), a.shared_bytes()), (6010, 1010, 5000));
    assert_eq!(a.flush(), Ok(Flushed::All));
    assert_eq!((a.queued_bytes(), a.held_bytes(), a.shared_bytes()), (0, 0, 0));
    assert_eq!(receive_all(&mut b, 6010).len(), 6010);
}
