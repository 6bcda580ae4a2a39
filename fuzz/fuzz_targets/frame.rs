//! The byte stream of a connection: its handshake and its frames.
//!
//! Input: size of the pieces, largest payload (in 16 bytes), then the peer's bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use modex::proto::frame::{self, FrameBuffer, FrameError, FrameHeader};
use modex::proto::handshake::{
    CONNECT_HEADER_BYTES, Connect, HandshakeAnswer, HandshakeError, ToolAnswer, connect_body_size,
};

fuzz_target!(|input: &[u8]| {
    let [piece, payload_max, stream @ ..] = input else { return };
    frames(*piece, usize::from(*payload_max) * 16, stream);
    handshake(stream);
});

/// A stream gives the same messages at once and in pieces, and each message is written as it was read.
fn frames(piece: u8, payload_max: usize, stream: &[u8]) {
    let mut at_once = FrameBuffer::new(payload_max);
    at_once.feed(stream);
    let expected = take_all(&mut at_once);

    let mut in_pieces = FrameBuffer::new(payload_max);
    let (mut found, mut error) = (Vec::new(), None);
    for bytes in (Pieces { stream, seed: piece }) {
        in_pieces.feed(bytes);
        let (frames, end) = take_all(&mut in_pieces);
        found.extend(frames);
        error = end;
        if error.is_some() {
            break;
        }
        assert!(in_pieces.pending() < FrameHeader::SIZE_BYTES + payload_max.max(1), "more held than one message");
    }
    assert_eq!((&found, &error), (&expected.0, &expected.1));

    let mut rest = stream;
    for (header, payload) in found {
        let written = frame::encode(header.index, header.tag, &payload).expect("a payload that was read can be framed");
        let (read, behind) = rest.split_at(written.len());
        // The last four bytes of a header are padding.
        assert_eq!((&written[..12], &written[16..]), (&read[..12], &read[16..]));
        rest = behind;
    }
}

fn take_all(buffer: &mut FrameBuffer) -> (Vec<(FrameHeader, Vec<u8>)>, Option<FrameError>) {
    let mut frames = Vec::new();
    loop {
        match buffer.next_frame() {
            Ok(Some(frame)) => frames.push((frame.header, frame.payload.to_vec())),
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error)),
        }
    }
}

/// Cuts a stream into pieces of changing sizes.
struct Pieces<'a> {
    stream: &'a [u8],
    seed: u8,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.stream.is_empty() {
            return None;
        }
        self.seed = self.seed.wrapping_mul(5).wrapping_add(11);
        let size = usize::from(self.seed % 40).clamp(1, self.stream.len());
        let (piece, rest) = self.stream.split_at(size);
        self.stream = rest;
        Some(piece)
    }
}

/// An accepted handshake is written as bytes that read as the same handshake.
fn handshake(stream: &[u8]) {
    let mut bodies = vec![stream];
    if let Some((header, body)) = stream.split_first_chunk::<CONNECT_HEADER_BYTES>()
        && let Ok(declared) = connect_body_size(*header)
        && let Some(body) = body.get(..declared)
    {
        bodies.push(body);
    }
    for body in bodies {
        let Ok(connect) = Connect::decode(body) else { continue };
        connect_survives(&connect);
        if let Ok(Some((answer, size))) = ToolAnswer::decode(stream, &connect.role) {
            let again = ToolAnswer::decode(&answer.encode(), &connect.role);
            assert_eq!(again, Ok(Some((answer.clone(), answer.encode().len()))));
            assert_eq!(size, answer.encode().len());
        }
    }
    if let Some((answer, size)) = HandshakeAnswer::decode(stream) {
        assert_eq!(answer.encode(), stream[..size]);
    }
}

fn connect_survives(connect: &Connect) {
    let written = match connect.encode() {
        Ok(written) => written,
        // Numbers in scientific notation are written in full, so the message may become too long.
        Err(HandshakeError::TooLong { .. }) => return,
        Err(error) => panic!("{connect:?} was read but cannot be written: {error}"),
    };
    let (header, body) = written.split_first_chunk::<CONNECT_HEADER_BYTES>().expect("a header comes first");
    assert_eq!(connect_body_size(*header), Ok(body.len()));
    let again = Connect::decode(body).expect("what was written can be read");
    // Writing may cut fractions of numbers off, but only once. A NaN never equals itself.
    let topologies = format!("{connect:?}").contains("Topology");
    assert!(topologies || again.encode() == Ok(written), "{connect:?} became {again:?}");
    assert_eq!((&again.role, &again.store, &again.version), (&connect.role, &connect.store, &connect.version));
}
