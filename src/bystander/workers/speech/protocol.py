"""The speech worker protocol, version 1: how bystander talks to a text-to-speech model in another process.

A worker is a small HTTP/1.1 server around one model on one device. bystander starts workers itself, in an environment
of their own, or attaches to some that run already (containers). Chatterbox is the first worker; another model needs
either a `SpeechModel` (see `model.py`) in this program, or any program that answers as told here.

**Values.** JSON is UTF-8. Samples are mono, 32-bit IEEE floats, little-endian, in [-1, 1], without a header. A *voice
key* names a reference clip: `make_voice_key` of its sampling rate and samples, 64 hex digits. Where a worker was given
a token (the environment variable `SPEECH_WORKER_TOKEN`), every request but `GET /health` has to bring it, as
`Authorization: Bearer TOKEN`; 401 otherwise.

**GET /health** answers at all times: 200 and `{"state": "loading" | "ready" | "speaking", "pid": 7,
"memory": {"rss_mib": 812.0, "device_mib": 0.0}}`. `rss_mib` is the process's resident memory, `device_mib` what the
model has allocated on its device.

**GET /hello**: 503 while the model loads, then 200 and

    {"protocol": 1, "name": "chatterbox", "model": "english", "revision": "<digest of the weights>",
     "sampling_rate": 24000, "languages": ["en"],
     "facts": {"package": "0.1.7", "torch": "2.6.0", "device": "cuda", "dtype": "float32", "watermark": "perth 1.0.1"}}

`facts` is whatever else decides the samples, as strings: who compares two workers' hellos knows whether they would
speak the same. A worker serves one protocol version; a client refuses others.

**GET /voices/KEY**: 200 if the worker can speak in that voice now (prepared in this process, or kept on its disk), else
404. **PUT /voices/KEY** with the query `?sampling_rate=HZ` and the clip's samples as the body prepares it: 200; 400 if
the body does not have that key; 422 and a fault if no voice can be made of it. Preparing a known key again is harmless.

**POST /speak** takes a batch. A worker speaks one request at a time, in an order of its own (voices together).

    {"settings": {"temperature": 0.8}, "requests": [{"index": 0, "text": "Hello.", "voice": "KEY", "language": "en",
     "seed": 7}]}

`settings` are the model's own, for the whole batch; an unknown name or a bad value is 400. Indices are the client's and
differ from each other; seeds lie in [0, 2**63). The same model, voice, text, language, seed and settings give the same
samples. The answer is 200, chunked, and holds frames, each sent as soon as it is there: one line of JSON, and where it
has `samples`, so many samples right after the line's end.

    {"index": 0, "state": "started"}
    {"index": 0, "state": "spoken", "sampling_rate": 24000, "samples": 31200, "seconds": 1.9}
    {"index": 1, "state": "fault", "reason": "empty_text", "detail": "nothing in '...' can be spoken"}
    {"state": "end", "memory": {"rss_mib": 820.0, "device_mib": 0.0}}

Each request gets `started` and then `spoken` or `fault`; the last frame is `end`. A stream that stops without it means
that the worker died, and the request that was started but not answered is what it died of. `seconds` is the time that
the model took. Reasons of faults: `FAULT_REASONS`.

**POST /shutdown**: 200, and the worker ends. A client that hangs up ends its own batch only.

**Errors** are `{"fault": {"reason": "...", "detail": "..."}}` with the status.

**Starting.** A worker that is started with `--announce` writes lines of JSON to its standard output, and nothing else:
`{"event": "listening", "port": 41234}`, then `{"event": "ready"}` once it can speak, or `{"event": "failed", "detail":
"..."}` before it ends with status 1. With `--exit-with-stdin` it ends when its standard input is closed or its parent
is gone, so that a killed client leaves no worker behind. `--describe` writes the hello as one line and ends, without
loading a model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

VERSION = 1
TOKEN_VARIABLE = "SPEECH_WORKER_TOKEN"

FAULT_REASONS = frozenset(
    {
        "empty_text",
        "text_too_long_to_speak",
        "unsupported_language",
        "unknown_voice",
        "unusable_reference",
        "runaway_speech",
        "no_speech",
        "out_of_memory",
        "synthesis_failed",
    }
)
"""What a worker may say of one request or voice.

`unknown_voice`: not prepared; send the reference. `unusable_reference`: no voice can be made of that clip.
`runaway_speech`: the model went on past any plausible length; `no_speech`: it ended before it began. `out_of_memory`:
the device's, twice. `synthesis_failed`: any other failure of this request alone.
"""

MAX_BODY_BYTES = 256 << 20
_MAX_LINE_BYTES = 1 << 20

Samples = npt.NDArray[np.float32]


class ProtocolError(ValueError):
    """The other side does not keep to the protocol."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What a worker says of its model: everything that decides the samples, and what it can speak."""

    name: str
    model: str
    revision: str
    sampling_rate: int
    languages: tuple[str, ...]
    facts: Mapping[str, str]
    protocol: int = VERSION

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode("utf-8")

    @classmethod
    def decode(cls, data: bytes) -> Hello:
        """Return the hello in a body.

        Raises:
            ProtocolError: it is none, or of another version of the protocol.
        """
        fields = read_object(data)
        if fields.get("protocol") != VERSION:
            raise ProtocolError(f"version {fields.get('protocol')!r} of the speech worker protocol, not {VERSION}")
        try:
            facts = {str(name): str(value) for name, value in fields["facts"].items()}
            languages = tuple(str(language) for language in fields["languages"])
            name, model, revision = (str(fields[key]) for key in ("name", "model", "revision"))
            return cls(name, model, revision, int(fields["sampling_rate"]), languages, facts)
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise ProtocolError(f"no hello of a speech worker ({exc!r})") from exc


@dataclass(frozen=True, slots=True)
class SpeakRequest:
    """One text to be spoken in the voice that `voice`, a voice key, names."""

    index: int
    text: str
    voice: str
    language: str
    seed: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of an answer: the line, and the samples after it if it has some."""

    head: Mapping[str, Any]
    samples: Samples | None = None

    def encode(self) -> bytes:
        head = dict(self.head)
        if self.samples is None:
            return json.dumps(head).encode("utf-8") + b"\n"
        head["samples"] = len(self.samples)
        return json.dumps(head).encode("utf-8") + b"\n" + encode_samples(self.samples)


class Stream(Protocol):
    """What frames are read from."""

    def readline(self, limit: int = -1, /) -> bytes: ...

    def read(self, size: int = -1, /) -> bytes: ...


def read_frames(stream: Stream) -> Iterator[Frame]:
    """Yield the frames of an answer, the one with the state `end` last.

    Raises:
        ProtocolError: what comes is no frame.
        EOFError: the stream stops before its end.
    """
    while True:
        line = stream.readline(_MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise EOFError("the answer stops in the middle")
        head = read_object(line)
        samples = None
        if "samples" in head:
            count = head["samples"]
            if not isinstance(count, int) or not 0 <= count * 4 <= MAX_BODY_BYTES:
                raise ProtocolError(f"a frame of {count!r} samples")
            samples = decode_samples(_read_exactly(stream, count * 4))
        yield Frame(head, samples)
        if head.get("state") == "end":
            return


def encode_batch(settings: Mapping[str, Any], requests: list[SpeakRequest]) -> bytes:
    """Return the body of a batch."""
    body = {"settings": dict(settings), "requests": [asdict(request) for request in requests]}
    return json.dumps(body).encode("utf-8")


def decode_batch(data: bytes) -> tuple[dict[str, Any], list[SpeakRequest]]:
    """Return the settings and requests in the body of a batch.

    Raises:
        ProtocolError: it is none; the message names the request and field.
    """
    body = read_object(data)
    settings, listed = body.get("settings", {}), body.get("requests")
    if not isinstance(settings, dict) or not isinstance(listed, list):
        raise ProtocolError("a batch has an object `settings` and a list `requests`")
    kinds = {"index": int, "text": str, "voice": str, "language": str, "seed": int}
    requests = []
    for position, entry in enumerate(listed):
        for name, kind in kinds.items():
            value = entry.get(name) if isinstance(entry, dict) else None
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ProtocolError(f"requests[{position}]: {name!r} is {value!r}, not of type {kind.__name__}")
        if not 0 <= entry["seed"] < 2**63:
            raise ProtocolError(f"requests[{position}]: 'seed' is {entry['seed']}, not in [0, 2**63)")
        requests.append(SpeakRequest(**{name: entry[name] for name in kinds}))
    if len({request.index for request in requests}) != len(requests):
        raise ProtocolError("two requests have the same index")
    return settings, requests


def make_voice_key(samples: Samples, sampling_rate: int) -> str:
    """Return the name of a reference clip: SHA-256 of the rate in decimal, a line end, and the samples as sent."""
    return hashlib.sha256(f"{sampling_rate}\n".encode("ascii") + encode_samples(samples)).hexdigest()


def encode_samples(samples: Samples) -> bytes:
    """Return samples of shape (n,) as they are sent."""
    return np.ascontiguousarray(samples, dtype="<f4").tobytes()


def decode_samples(data: bytes) -> Samples:
    """Return samples of shape (n,), float32.

    Raises:
        ProtocolError: the length is no multiple of four bytes.
    """
    if len(data) % 4:
        raise ProtocolError(f"{len(data)} bytes are no whole number of samples")
    return np.frombuffer(data, dtype="<f4").astype(np.float32)


def encode_fault(reason: str, detail: str) -> bytes:
    """Return the body of an answer that says what is wrong."""
    return json.dumps({"fault": {"reason": reason, "detail": detail}}).encode("utf-8")


def read_object(data: bytes) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        ProtocolError: the bytes are none.
    """
    try:
        value = json.loads(data)
    except ValueError as exc:
        raise ProtocolError(f"no JSON: {data[:60]!r}") from exc
    if not isinstance(value, dict):
        raise ProtocolError(f"no JSON object: {data[:60]!r}")
    return value


def _read_exactly(stream: Stream, size: int) -> bytes:
    parts: list[bytes] = []
    missing = size
    while missing:
        part = stream.read(missing)
        if not part:
            raise EOFError("the answer stops in the middle")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
