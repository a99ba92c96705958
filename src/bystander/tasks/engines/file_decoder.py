"""Reads audio files by libsndfile, and by ffmpeg's libraries what libsndfile cannot read.

A file is what its content says, whatever its name ends in. Nothing is allocated by what a header declares: files are
read block by block, and reading stops at the longest duration allowed.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
from fsspec.implementations.local import LocalFileSystem

from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.recordings import Channels, DecodedAudio, DecodeRequest
from bystander.schemas.sid_engine_configs import FileDecoderConfig
from bystander.tasks.engines.audio_headers import HEAD_BYTES, is_cut_ogg, is_shortened_sphere, read_declared_audio
from bystander.tasks.engines.ffmpeg_audio import FfmpegError, describe_version, open_with_ffmpeg
from bystander.tasks.engines.pydub_audio import describe_program, open_with_pydub

MIN_SAMPLING_RATE = 8000
"""Of telephony; what is below it has no fricatives, and no engine here is made for it."""
MAX_SAMPLING_RATE = 48000
"""Higher rates are lowered to it: speech has nothing above 24 kHz."""
MAX_PLAUSIBLE_RATE = 768_000
MAX_PLAUSIBLE_CHANNELS = 32
MAX_LENGTH_DIFFERENCE = 0.02
"""Share by which the files of two speakers may differ in length; or by half a second, where that is more."""

_MIN_DIFFERENCE_S = 0.5
_CODEC_PADDING_S = 0.2
_BLOCK = 1 << 16
_UNKNOWN_FRAMES = 1 << 60  # libsndfile says about twice that where it cannot know
_REVISION = "1"  # raise when the same file would give other samples


class _RefusedError(Exception):
    """Carries a fault out of the reading of one file."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.fault = RowFault(reason, detail)


class FileDecoder:
    """Decodes recordings; holds no state."""

    def __init__(self, config: FileDecoderConfig) -> None:
        """Raise `EngineSetupError` where libsndfile, PyAV or, where it is asked for, pydub or ffmpeg is missing."""
        try:
            import soundfile

            ffmpeg = describe_version() if config.ffmpeg == "pyav" else describe_program()
        except (ImportError, OSError) as exc:
            raise EngineSetupError(f"audio cannot be decoded ({exc}); run: pip install soundfile av") from exc
        self._config = config
        self._open_with_ffmpeg = open_with_ffmpeg if config.ffmpeg == "pyav" else open_with_pydub
        self._identity = EngineIdentity(
            kind="decoder",
            name="file_decoder",
            model=f"libsndfile {soundfile.__libsndfile_version__}, ffmpeg {ffmpeg}",
            revision=_REVISION,
            settings=(("ffmpeg", config.ffmpeg), ("max_duration_s", f"{config.max_duration_s:g}")),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    def decode(self, requests: Sequence[DecodeRequest]) -> list[DecodedAudio | RowFault]:
        """Decode the requests. Samples beyond full scale are brought within it by one gain for the whole recording.

        Rates from 8 to 48 kHz are kept, higher ones lowered to 48 kHz. Row faults: see `DECODER_REASONS`; their
        details name the file.
        """
        replies: list[DecodedAudio | RowFault] = []
        for request in requests:
            try:
                replies.append(self._decode(request))
            except _RefusedError as exc:
                replies.append(exc.fault)
        return replies

    def close(self) -> None:
        """Nothing is open."""

    def _decode(self, request: DecodeRequest) -> DecodedAudio:
        parts = [self._decode_file(path, digest) for path, digest in zip(request.paths, request.digests, strict=True)]
        samples, rate = parts[0] if len(parts) == 1 else _join_speakers(parts, request.paths)
        peak = max(float(samples.max()), -float(samples.min()))
        if peak > 1:
            samples /= np.float32(peak)
        if rate > MAX_SAMPLING_RATE:
            import soxr

            samples = np.clip(soxr.resample(samples, rate, MAX_SAMPLING_RATE), -1, 1)
            rate = MAX_SAMPLING_RATE
        return DecodedAudio(np.ascontiguousarray(samples, np.float32), rate)

    def _decode_file(self, path: str, digest: str) -> tuple[Channels, int]:
        name = path.replace("\\", "/").rsplit("/", 1)[-1]
        with tempfile.TemporaryDirectory(prefix="bystander-audio-") as folder:
            local = _fetch(path, name, folder)
            try:
                _check_bytes(local, name, digest)
            except OSError as exc:
                raise _RefusedError("audio_unreadable", f"{name}: cannot be read ({_first_line(exc)})") from exc
            samples, rate = self._read(local, name)
        if not len(samples):
            raise _RefusedError("no_samples", f"{name}: has a header and no samples behind it")
        if not np.isfinite(samples).all():
            bad = int(np.count_nonzero(~np.isfinite(samples).all(axis=1)))
            raise _RefusedError("non_finite_audio", f"{name}: {bad} of {len(samples)} samples are NaN or infinite")
        return samples, rate

    def _read(self, local: Path, name: str) -> tuple[Channels, int]:
        import soundfile

        try:
            with soundfile.SoundFile(local) as file:
                rate, channels = int(file.samplerate), int(file.channels)
                self._check_header(rate, channels, name)
                samples = self._collect(_read_blocks(file), rate, channels, name)
                declared_s = file.frames / rate if file.frames < _UNKNOWN_FRAMES else None
        except soundfile.LibsndfileError as exc:
            return self._read_with_ffmpeg(local, name, str(exc))
        _check_length(len(samples) / rate, declared_s, name)
        return samples, rate

    def _read_with_ffmpeg(self, local: Path, name: str, first_fault: str) -> tuple[Channels, int]:
        try:
            with self._open_with_ffmpeg(str(local)) as stream:
                self._check_header(stream.sampling_rate, stream.channels, name)
                samples = self._collect(stream.blocks, stream.sampling_rate, stream.channels, name)
                _check_length(len(samples) / stream.sampling_rate, stream.declared_s, name)
                return samples, stream.sampling_rate
        except FfmpegError as exc:
            said = f"libsndfile: {_shorten(first_fault, local)}; ffmpeg: {exc}"
            if exc.decoded_s:
                raise _RefusedError(
                    "audio_damaged", f"{name}: decoding broke off after {exc.decoded_s:.2f} s ({said}); copy it anew"
                ) from exc
            if exc.is_audio or "unimplemented format" in first_fault:
                raise _RefusedError(
                    "unsupported_codec", f"{name}: its coding cannot be read ({said}); convert it to WAV or FLAC"
                ) from exc
            with local.open("rb") as file:
                head = file.read(16)
            if head[:4] in (b"RIFF", b"RIFX", b"RF64", b"FORM", b"fLaC", b"OggS", b".snd") or head[:7] == b"NIST_1A":
                raise _RefusedError(
                    "bad_audio_header", f"{name}: its header is damaged ({said}); copy it anew"
                ) from exc
            raise _RefusedError(
                "not_audio", f"{name}: holds no audio, whatever its name says ({said}); take it out or replace it"
            ) from exc

    def _check_header(self, rate: int, channels: int, name: str) -> None:
        if channels > MAX_PLAUSIBLE_CHANNELS:
            raise _RefusedError("bad_audio_header", f"{name}: its header declares {channels} channels")
        if not 1 <= rate <= MAX_PLAUSIBLE_RATE:
            raise _RefusedError("bad_audio_header", f"{name}: its header declares a sampling rate of {rate} Hz")
        if rate < MIN_SAMPLING_RATE:
            raise _RefusedError(
                "sampling_rate_too_low", f"{name}: {rate} Hz; at least {MIN_SAMPLING_RATE} Hz are needed for speech"
            )

    def _collect(self, blocks: Iterator[Channels], rate: int, channels: int, name: str) -> Channels:
        held: list[Channels] = []
        count, limit = 0, self._config.max_duration_s * rate
        for block in blocks:
            held.append(block)
            count += len(block)
            if count > limit:
                raise _RefusedError(
                    "audio_too_long",
                    f"{name}: is longer than {self._config.max_duration_s:g} s; cut it, or raise "
                    "engines.decoder.max_duration_s",
                )
        return np.concatenate(held) if held else np.empty((0, channels), np.float32)


def _fetch(path: str, name: str, folder: str) -> Path:
    """Return a local path of the file, which for a remote one is that of a copy in `folder`."""
    try:
        system, inner = fsspec.core.url_to_fs(path)
        if isinstance(system, LocalFileSystem):
            if not Path(inner).is_file():
                raise FileNotFoundError(path)
            return Path(inner)
        copy = Path(folder) / "audio"
        with system.open(inner, "rb", compression=None) as source, copy.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        return copy
    except FileNotFoundError as exc:
        raise _RefusedError("audio_missing", f"{name}: is not there any more") from exc
    except Exception as exc:  # file systems raise errors of their own kind
        raise _RefusedError("audio_unreadable", f"{name}: cannot be read ({_first_line(exc)})") from exc


def _check_bytes(local: Path, name: str, digest: str) -> None:
    size = local.stat().st_size
    if not size:
        raise _RefusedError("empty_audio_file", f"{name}: has no bytes; copy it anew")
    hashed = hashlib.sha256()
    with local.open("rb") as file:
        head = file.read(HEAD_BYTES)
        hashed.update(head)
        while chunk := file.read(1 << 20):
            hashed.update(chunk)
        file.seek(max(0, size - 2 * HEAD_BYTES))
        tail = file.read()
    if digest and hashed.hexdigest() != digest:
        raise _RefusedError(
            "audio_changed", f"{name}: has changed since the recordings were listed; start the build again"
        )
    if is_shortened_sphere(head):
        raise _RefusedError(
            "unsupported_codec",
            f"{name}: is SPHERE compressed by shorten; unpack it with NIST's `w_decode -o pcm` or LDC's "
            "`sph2pipe -f wav`, which are free",
        )
    if head[:4] == b"OggS" and is_cut_ogg(tail):
        raise _RefusedError("audio_truncated", f"{name}: ends in the middle of an Ogg page; copy it anew")
    found = read_declared_audio(head, size)
    if found is not None and found.is_unfinished:
        raise _RefusedError(
            "bad_audio_header",
            f"{name}: its header declares no audio and there are {found.there} bytes of it: the recording was not "
            "finished; repair it, such as by `sox --ignore-length`",
        )
    if found is not None and found.is_cut:
        raise _RefusedError(
            "audio_truncated",
            f"{name}: its header declares {found.declared} bytes of audio and there are {found.there}; copy it anew",
        )


def _read_blocks(file: Any) -> Iterator[Channels]:
    while len(block := file.read(max(1, _BLOCK // file.channels), "float32", always_2d=True)):
        yield block


def _check_length(there_s: float, declared_s: float | None, name: str) -> None:
    """Refuse a coded file that ends long before it declares to; encoders' padding makes small differences."""
    if declared_s is not None and there_s < (1 - MAX_LENGTH_DIFFERENCE) * declared_s - _CODEC_PADDING_S:
        raise _RefusedError(
            "audio_truncated", f"{name}: declares {declared_s:.2f} s and there are {there_s:.2f}; copy it anew"
        )


def _first_line(exc: BaseException) -> str:
    return str(exc).strip().split("\n", 1)[0][:160] or type(exc).__name__


def _join_speakers(parts: Sequence[tuple[Channels, int]], paths: Sequence[str]) -> tuple[Channels, int]:
    names = " and ".join(path.rsplit("/", 1)[-1] for path in paths)
    rates = {rate for _, rate in parts}
    if len(rates) > 1:
        raise _RefusedError(
            "files_disagree", f"{names}: have rates of {' and '.join(map(str, sorted(rates)))} Hz; bring both to one"
        )
    rate = rates.pop()
    lanes = []
    for (samples, _), path in zip(parts, paths, strict=True):
        if samples.shape[1] > 1 and not (samples == samples[:, :1]).all():
            raise _RefusedError(
                "files_disagree",
                f"{path.rsplit('/', 1)[-1]}: has {samples.shape[1]} channels that differ, and is one speaker's file",
            )
        lanes.append(samples[:, 0])
    longest, shortest = max(map(len, lanes)), min(map(len, lanes))
    if longest - shortest > max(_MIN_DIFFERENCE_S * rate, MAX_LENGTH_DIFFERENCE * longest):
        lengths = " and ".join(f"{len(lane) / rate:.2f}" for lane in lanes)
        raise _RefusedError("files_disagree", f"{names}: are {lengths} s long; two sides of one call are of one length")
    joined = np.zeros((longest, len(lanes)), np.float32)
    for place, lane in enumerate(lanes):
        joined[: len(lane), place] = lane
    return joined, rate


def _shorten(message: str, local: Path) -> str:
    return message.replace(str(local), "").replace("Error opening '':", "").strip(" :.")[:160]
