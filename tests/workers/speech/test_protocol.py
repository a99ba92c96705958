from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.workers.speech.protocol import (
    Frame,
    Hello,
    ProtocolError,
    SpeakRequest,
    decode_batch,
    decode_samples,
    encode_batch,
    make_voice_key,
    read_frames,
)

HELLO = Hello("chatterbox", "english", "abc", 24000, ("en",), {"dtype": "float32"})
FLOATS = st.lists(st.floats(-1, 1, width=32), max_size=40).map(lambda values: np.array(values, np.float32))
END = Frame({"state": "end"})


class Dribble(io.BytesIO):
    """A stream that gives a byte at a time, as a network may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(1 if size else 0)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.text(), st.none() | FLOATS), max_size=5))
def test_frames_come_out_as_they_went_in(frames):
    sent = [Frame({"index": i, "detail": text}, samples) for i, (text, samples) in enumerate(frames)]
    stream = Dribble(b"".join(frame.encode() for frame in [*sent, END]))
    *got, end = read_frames(stream)
    assert end.head == END.head
    assert [frame.head["detail"] for frame in got] == [text for text, _ in frames]
    for before, after in zip(sent, got, strict=True):
        if before.samples is None:
            assert after.samples is None
        else:
            np.testing.assert_array_equal(before.samples, after.samples)


@pytest.mark.parametrize("cut", [1, 5, 30, 52])
def test_a_stream_without_its_end_is_a_dead_worker(cut):
    data = Frame({"index": 0, "state": "spoken"}, np.zeros(3, np.float32)).encode() + END.encode()
    with pytest.raises(EOFError):
        list(read_frames(io.BytesIO(data[:cut])))


@pytest.mark.parametrize("line", [b"GARBAGE\n", b"[1]\n", b'{"samples": -1}\n', b'{"samples": "x"}\n'])
def test_what_is_no_frame_is_refused(line):
    with pytest.raises(ProtocolError):
        list(read_frames(io.BytesIO(line)))


@given(st.lists(st.tuples(st.text(), st.integers(0, 2**63 - 1)), max_size=4))
def test_batches_come_out_as_they_went_in(texts):
    requests = [SpeakRequest(i, text, "k", "en", seed) for i, (text, seed) in enumerate(texts)]
    assert decode_batch(encode_batch({"temperature": 0.5}, requests)) == ({"temperature": 0.5}, requests)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", "requests"),
        (b'{"requests": [{"index": 0}]}', r"requests\[0\]: 'text'"),
        (b'{"requests": [{"index": true, "text": "", "voice": "", "language": "", "seed": 0}]}', "'index' is True"),
        (b'{"requests": [{"index": 0, "text": "", "voice": "", "language": "", "seed": -1}]}', "'seed' is -1"),
        (b'{"settings": [], "requests": []}', "settings"),
        (b"\xff", "no JSON"),
    ],
)
def test_bad_batches_are_named(body, message):
    with pytest.raises(ProtocolError, match=message):
        decode_batch(body)
    request = SpeakRequest(0, "a", "k", "en", 1)
    with pytest.raises(ProtocolError, match="same index"):
        decode_batch(encode_batch({}, [request, request]))


def test_hello_comes_out_as_it_went_in_and_other_versions_are_refused():
    assert Hello.decode(HELLO.encode()) == HELLO
    with pytest.raises(ProtocolError, match="version 2"):
        Hello.decode(HELLO.encode().replace(b'"protocol": 1', b'"protocol": 2'))
    with pytest.raises(ProtocolError, match="no hello"):
        Hello.decode(b'{"protocol": 1}')


def test_a_voice_key_is_that_of_rate_and_samples():
    clip = np.array([0.5, -0.25], np.float32)
    assert make_voice_key(clip, 16000) == make_voice_key(clip.astype(">f4").astype(np.float32), 16000)
    assert len({make_voice_key(clip, 16000), make_voice_key(clip, 8000), make_voice_key(-clip, 16000)}) == 3
    with pytest.raises(ProtocolError):
        decode_samples(b"abc")
