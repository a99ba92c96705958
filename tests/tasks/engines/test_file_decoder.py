"""Real files of every kind: what is decoded, and the reason for what is not."""

from __future__ import annotations

import hashlib
import resource
import struct
import sys
from pathlib import Path
from typing import Any

import av
import fsspec
import numpy as np
import pytest
import soundfile

from bystander.schemas.engines import RowFault
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.recordings import DECODER_REASONS, DecodedAudio, DecodeRequest
from bystander.schemas.sid_engine_configs import FileDecoderConfig
from bystander.tasks.engines.file_decoder import FileDecoder
from shared_data import find_shared
from web_folder import serve_folder

RATE = 16000


def decode(*paths: Path | str, digests: tuple[str, ...] | None = None, **settings: Any) -> DecodedAudio | RowFault:
    asked = DecodeRequest(tuple(map(str, paths)), digests or ("",) * len(paths))
    (reply,) = FileDecoder(FileDecoderConfig(**settings)).decode([asked])
    return reply


def hear(*paths: Path | str, **settings: Any) -> tuple[tuple[int, ...], int]:
    reply = decode(*paths, **settings)
    assert isinstance(reply, DecodedAudio), reply
    return reply.samples.shape, reply.sampling_rate


def refuse(*paths: Path | str, **settings: Any) -> tuple[str, str]:
    reply = decode(*paths, **settings)
    assert isinstance(reply, RowFault)
    assert reply.reason in DECODER_REASONS
    return reply.reason, reply.detail


def make_tones(seconds: float = 1.0, rate: int = RATE) -> np.ndarray:
    times = np.arange(round(seconds * rate)) / rate
    return (0.3 * np.stack([np.sin(2 * np.pi * 440 * times), np.sin(2 * np.pi * 880 * times)], axis=1)).astype("f4")


def find_tones(samples: np.ndarray, rate: int) -> list[float]:
    """Return the strongest frequency of each channel, in Hz."""
    middle = samples[rate // 4 : rate * 3 // 4]
    return [float(np.argmax(np.abs(np.fft.rfft(middle[:, c])))) * rate / len(middle) for c in range(middle.shape[1])]


# What each file of the folder is: samples, channels and rate, or why it is refused.
_HEADERS = "crash-24728523 crash-b8447179 crash-cbd75742 crash-e879de4e oom-48ae4cd0"
_EXPECTED: dict[str, tuple[int, int, int] | str] = {
    **{f"pluck-{kind}": (3307, 2, 11025) for kind in ("pcm8", "pcm16", "pcm24", "pcm32", "alaw", "ulaw")},
    **dict.fromkeys(_HEADERS.split(), "bad_audio_header"),
    "crash-e5471f5b": (4, 1, 44100),
    "nonstandard-01": (1, 2, 48000),
    "nonstandard-02": (2, 2, 48000),
    "pcmwaveformat-16bit": (4, 1, 44100),
    "pcmwaveformat-24bit": (2, 2, 48000),
    "pcmwaveformat-8bit": (4, 1, 44100),
    "pop": (100, 1, 44100),
    "waveformatex-16bit-44100Hz-mono": (4, 1, 44100),
    "waveformatex-16bit-44100Hz-stereo": (4, 2, 44100),
    "waveformatex-8bit": (4, 1, 11025),
    "waveformatex-ieeefloat": (4, 1, 44100),
    "waveformatextensible-24bit-192kHz": (1, 1, 48000),
    "waveformatextensible-24bit-4byte": (2, 2, 48000),
    "waveformatextensible-32bit": (2, 2, 48000),
    "waveformatextensible-ieeefloat": (4, 1, 44100),
    "big_buck_bunny_small": (254976, 6, 48000),
    "mono_c0.opus": (4043, 1, 8000),
    "mono_c": (4000, 1, 8000),
    "stereo.opus": (8043, 2, 8000),
    "stereo": (8000, 2, 8000),
    "supervision": "not_audio",
    "license": "not_audio",
    "test-1234Hz": "sampling_rate_too_low",
    "test-44100Hz-2ch-32bit-float": (441, 2, 44100),
    "test-44100Hz-be-1ch-4bytes": (4410, 1, 44100),
    "test-44100Hz-le-1ch-4bytes-early-eof-no-data": "bad_audio_header",
    "test-44100Hz-le-1ch-4bytes-early-eof.wav": "audio_truncated",
    "test-44100Hz-le-1ch-4bytes-incomplete-chunk": "bad_audio_header",
    "test-44100Hz-le-1ch-4bytes": (4410, 1, 44100),
    "test-48000Hz-2ch-64bit-float": (480, 2, 48000),
    "test-8000Hz-be-3ch": (5, 3, 8000),
    "test-8000Hz-le-1ch-1byte-ulaw": (9, 1, 8000),
    "test-8000Hz-le-2ch-1byteu": (800, 2, 8000),
    "test-8000Hz-le-3ch-5S-24bit": (5, 3, 8000),
    "test-8000Hz-le-3ch-5S-64bit": (5, 3, 8000),
    "test-8000Hz-le-3ch-5S-": "unsupported_codec",
    "test-8000Hz-le-4ch": (9, 4, 8000),
    "test-8000Hz-le-5ch": (9, 5, 8000),
}


def test_every_awkward_file_is_decoded_or_has_its_reason() -> None:
    files = [file for file in sorted(find_shared("awkward_audio").rglob("*")) if file.is_file()]
    assert len(files) >= 69
    for file in files:
        name = max((start for start in _EXPECTED if file.name.startswith(start)), key=len, default=None)
        assert name is not None, file.name
        reply = decode(file, digests=(hashlib.sha256(file.read_bytes()).hexdigest(),))
        if isinstance(reply, RowFault):
            assert reply.reason == _EXPECTED[name], (file.name, reply.detail)
            assert reply.detail.startswith(f"{file.name}: ")
            assert str(file.parent) not in reply.detail
        else:
            assert (*reply.samples.shape, reply.sampling_rate) == _EXPECTED[name], file.name
            assert np.isfinite(reply.samples).all()
            assert np.abs(reply.samples).max() <= 1


def test_a_header_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "huge.wav"
    path.write_bytes(make_header(0xFFFFFFF0, 0xFFFFFF00) + bytes(4 * RATE))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reason, detail = refuse(path)
    assert reason == "audio_truncated"
    assert f"declares {0xFFFFFF00} bytes of audio and there are {4 * RATE}" in detail
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF])
def test_reads_to_the_end_where_a_pipe_left_no_length(tmp_path: Path, size: int) -> None:
    path = tmp_path / "piped.wav"
    path.write_bytes(make_header(size, size) + (make_tones() * 32767).astype("<i2").tobytes())
    assert hear(path) == ((RATE, 2), RATE)


def test_says_that_a_recording_was_never_finished(tmp_path: Path) -> None:
    (tmp_path / "x.wav").write_bytes(make_header(0, 0) + bytes(4 * RATE))
    reason, detail = refuse(tmp_path / "x.wav")
    assert reason == "bad_audio_header"
    assert f"declares no audio and there are {4 * RATE} bytes of it" in detail


def test_a_header_of_many_channels_takes_no_memory(tmp_path: Path) -> None:
    form = struct.pack(
        "<4sI8sIHHIIHH4sI", b"RIFF", 36, b"WAVEfmt ", 16, 1, 1000, RATE, 2000 * RATE, 2000, 16, b"data", 2000
    )
    (tmp_path / "x.wav").write_bytes(form + bytes(2000))
    assert refuse(tmp_path / "x.wav") == ("bad_audio_header", "x.wav: its header declares 1000 channels")


def test_opens_nothing_that_a_playlist_names(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "secret.wav", make_tones(), RATE)
    (tmp_path / "list.wav").write_text(f"ffconcat version 1.0\nfile {tmp_path}/secret.wav\n")
    (tmp_path / "live.wav").write_text("#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/x.ts\n")
    assert refuse(tmp_path / "list.wav")[0] == "not_audio"
    assert refuse(tmp_path / "live.wav")[0] == "not_audio"


def make_header(riff_size: int, data_size: int) -> bytes:
    form = (16, 1, 2, RATE, 4 * RATE, 4, 16)  # 16-bit PCM, two channels
    return struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", riff_size, b"WAVEfmt ", *form, b"data", data_size)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("x.wav", {"subtype": "PCM_16"}),
        ("x.wav", {"subtype": "ULAW"}),
        ("x.wav", {"subtype": "IMA_ADPCM"}),
        ("x.wav", {"subtype": "FLOAT"}),
        ("x.flac", {}),
        ("x.mp3", {}),
        ("x.ogg", {}),
        ("x.opus", {"format": "OGG", "subtype": "OPUS"}),
        ("x.sph", {"format": "NIST", "subtype": "ALAW"}),
        ("x.caf", {}),
        ("x.w64", {}),
        ("x.wav", {"format": "FLAC"}),  # whatever its name says
        ("x.txt", {"format": "MP3"}),
    ],
)
def test_decodes_what_libsndfile_reads(tmp_path: Path, name: str, settings: dict[str, str]) -> None:
    soundfile.write(tmp_path / name, make_tones(), RATE, **settings)
    reply = decode(tmp_path / name)
    assert isinstance(reply, DecodedAudio)
    assert reply.sampling_rate == RATE
    assert abs(len(reply.samples) - RATE) <= 2400
    assert find_tones(reply.samples, RATE) == pytest.approx([440, 880], abs=4)


@pytest.mark.parametrize(
    ("name", "codec", "rate"),
    [
        ("x.m4a", "aac", 16000),
        ("x.wav", "libmp3lame", 16000),
        ("x.mka", "ac3", 48000),
        ("x.webm", "libopus", 48000),
        ("x.mov", "pcm_s16be", 22050),
    ],
)
def test_decodes_what_only_ffmpeg_reads(tmp_path: Path, name: str, codec: str, rate: int) -> None:
    write_with_ffmpeg(tmp_path / name, codec, rate)
    reply = decode(tmp_path / name)
    assert isinstance(reply, DecodedAudio)
    assert reply.sampling_rate == rate
    assert find_tones(reply.samples, rate) == pytest.approx([440, 880], abs=4)


def test_pydub_decodes_the_same_by_the_program(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    write_with_ffmpeg(tmp_path / "x.m4a", "aac", RATE)
    by_program, by_library = (decode(tmp_path / "x.m4a", ffmpeg=way) for way in ("pydub", "pyav"))
    assert isinstance(by_program, DecodedAudio)
    assert isinstance(by_library, DecodedAudio)
    length = min(len(by_program.samples), len(by_library.samples))
    assert by_program.samples[:length] == pytest.approx(by_library.samples[:length], abs=2e-4)
    identities = {FileDecoder(FileDecoderConfig(ffmpeg=way)).identity.digest() for way in ("pydub", "pyav")}  # type: ignore[arg-type]
    assert len(identities) == 2
    (tmp_path / "page.wav").write_text("<html>404</html>")
    assert refuse(tmp_path / "page.wav", ffmpeg="pydub")[0] == "not_audio"


def test_says_that_pydub_needs_ffmpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(EngineSetupError, match=r"pip install 'bystander\[pydub\]'"):
        FileDecoder(FileDecoderConfig(ffmpeg="pydub"))


@pytest.mark.parametrize("name", ["x.wav", "x.flac", "x.mp3", "x.ogg", "x.opus", "x.sph", "x.au", "x.aiff", "x.m4a"])
def test_refuses_what_is_cut_off(tmp_path: Path, name: str) -> None:
    if name == "x.m4a":
        write_with_ffmpeg(tmp_path / name, "aac", RATE)
    else:
        noise = 0.1 * np.random.default_rng(0).standard_normal((2 * RATE, 2))
        kind = {"x.opus": {"format": "OGG", "subtype": "OPUS"}, "x.sph": {"format": "NIST"}}.get(name, {})
        soundfile.write(tmp_path / name, noise, RATE, **kind)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) * 3 // 5])
    reason, detail = refuse(tmp_path / name)
    assert reason in {"audio_truncated", "audio_damaged", "not_audio"}
    assert (reason == "not_audio") == (name == "x.m4a")  # its index, without which it is none, stands at its end
    assert detail.startswith(name)


def test_refuses_shorten_and_says_how_to_unpack_it(tmp_path: Path) -> None:
    fields = "channel_count -i 2\nsample_rate -i 8000\nsample_count -i 100\nsample_n_bytes -i 2\n"
    head = f"NIST_1A\n   1024\n{fields}sample_coding -s26 pcm,embedded-shorten-v2.00\nend_head\n"
    (tmp_path / "sw02001.sph").write_bytes(head.encode().ljust(1024) + b"ajkg" + bytes(100))
    reason, detail = refuse(tmp_path / "sw02001.sph")
    assert reason == "unsupported_codec"
    assert "sph2pipe -f wav" in detail


def test_refuses_files_that_are_empty_gone_or_changed(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").write_bytes(b"")
    assert refuse(tmp_path / "empty.wav")[0] == "empty_audio_file"
    assert refuse(tmp_path / "gone.wav") == ("audio_missing", "gone.wav: is not there any more")
    assert refuse(tmp_path)[0] == "audio_missing"
    soundfile.write(tmp_path / "bare.wav", np.zeros((0, 2)), RATE)
    assert refuse(tmp_path / "bare.wav")[0] == "no_samples"
    soundfile.write(tmp_path / "x.wav", make_tones(), RATE)
    assert refuse(tmp_path / "x.wav", digests=("0" * 64,))[0] == "audio_changed"
    (tmp_path / "page.wav").write_text("<html><body>404 not found</body></html>" * 50)
    assert refuse(tmp_path / "page.wav")[0] == "not_audio"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_refuses_samples_that_are_no_numbers(tmp_path: Path, value: float) -> None:
    samples = make_tones()
    samples[7, 1] = value
    soundfile.write(tmp_path / "x.wav", samples, RATE, subtype="FLOAT")
    assert refuse(tmp_path / "x.wav") == (
        "non_finite_audio",
        f"x.wav: 1 of {RATE} samples are NaN or infinite",
    )


def test_keeps_the_balance_of_channels_that_are_too_loud(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "x.wav", make_tones() * [30000, 3000], RATE, subtype="FLOAT")
    reply = decode(tmp_path / "x.wav")
    assert isinstance(reply, DecodedAudio)
    assert np.abs(reply.samples).max(axis=0) == pytest.approx([1, 0.1], rel=1e-3)


def test_bounds_rates_and_lengths(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "low.wav", make_tones(rate=6000), 6000)
    assert refuse(tmp_path / "low.wav")[0] == "sampling_rate_too_low"
    soundfile.write(tmp_path / "high.wav", make_tones(rate=96000), 96000)
    assert hear(tmp_path / "high.wav") == ((48000, 2), 48000)
    soundfile.write(tmp_path / "x.wav", make_tones(2.0), RATE)
    reason, detail = refuse(tmp_path / "x.wav", max_duration_s=1.5)
    assert reason == "audio_too_long"
    assert "engines.decoder.max_duration_s" in detail


def test_stacks_the_files_of_two_speakers(tmp_path: Path) -> None:
    tones = make_tones()
    soundfile.write(tmp_path / "a.wav", tones[:, 0], RATE)
    soundfile.write(tmp_path / "b.flac", tones[:-800, 1], RATE)
    reply = decode(tmp_path / "a.wav", tmp_path / "b.flac")
    assert isinstance(reply, DecodedAudio)
    assert find_tones(reply.samples, RATE) == pytest.approx([440, 880], abs=4)
    assert not reply.samples[-800:, 1].any()
    soundfile.write(tmp_path / "dual.wav", np.repeat(tones[:, 1:], 2, axis=1), RATE)
    assert hear(tmp_path / "a.wav", tmp_path / "dual.wav") == ((RATE, 2), RATE)


def test_refuses_files_that_are_no_two_sides(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", make_tones()[:, 0], RATE)
    soundfile.write(tmp_path / "rate.wav", make_tones(rate=8000)[:, 0], 8000)
    soundfile.write(tmp_path / "short.wav", make_tones(0.4)[:, 0], RATE)
    soundfile.write(tmp_path / "both.wav", make_tones(), RATE)
    for other, message in (
        ("rate.wav", "have rates of 8000 and 16000 Hz"),
        ("short.wav", "are 1.00 and 0.40 s long"),
        ("both.wav", "has 2 channels that differ"),
    ):
        reason, detail = refuse(tmp_path / "a.wav", tmp_path / other)
        assert reason == "files_disagree"
        assert message in detail


def test_reads_through_fsspec(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "x.wav", make_tones(), RATE)
    fsspec.filesystem("memory").pipe_file("/sounds/x.wav", (tmp_path / "x.wav").read_bytes())
    assert hear("memory://sounds/x.wav") == ((RATE, 2), RATE)
    assert refuse("memory://sounds/y.wav")[0] == "audio_missing"
    with serve_folder(tmp_path) as address:
        assert hear(f"{address}/x.wav") == ((RATE, 2), RATE)
        assert refuse(f"{address}/y.wav")[0] == "audio_missing"
    assert refuse("nothing://x.wav")[0] == "audio_unreadable"


def write_with_ffmpeg(path: Path, codec: str, rate: int) -> None:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=rate, layout="stereo")
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(make_tones(2.0, rate).T), format="fltp", layout="stereo"
        )
        frame.rate = rate
        resampler = av.AudioResampler(
            stream.codec_context.format, "stereo", rate, frame_size=stream.codec_context.frame_size or 0
        )
        for part in (*resampler.resample(frame), *resampler.resample(None)):
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))
