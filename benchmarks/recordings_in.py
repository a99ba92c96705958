"""How well the channels of recordings are judged, and what reading them costs.

    python benchmarks/recordings_in.py --first a.flac b.flac --second c.wav d.wav [--minutes 10]

Makes conversations from clips of two speakers (turns of 1 to 6 s, half of them with a backchannel of the other, noise
at -60 dBFS), puts a known leakage, a mix or a room's echo on the channels, and prints the separation measured, the
verdict of `decode_recordings`, and the share of each channel's speech that is found as its own. Then the time and
memory of both stages for a telephone call of 8 kHz, and of ffmpeg's two ways for a compressed one.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import soundfile
import soxr
from scipy.signal import fftconvolve

from bystander.schemas.recordings import DecodedAudio, DecodeRequest
from bystander.schemas.sid_config import RecordingSource
from bystander.schemas.sid_engine_configs import FileDecoderConfig
from bystander.schemas.sid_params import DecodeRecordings, TranscribeRecordings
from bystander.schemas.stages import StageContext
from bystander.storage.recording_files import read_recordings
from bystander.tasks.audio.coding import quantise
from bystander.tasks.audio.speech_activity import mark_spans
from bystander.tasks.engines.file_decoder import FileDecoder
from bystander.tasks.stages import decode_recordings, transcribe_recordings
from bystander.tasks.stages.own_speech import OwnSpeech, find_own_speech

RATE = 8000
LEVEL = 0.05


def load_clips(paths: Sequence[Path]) -> list[Any]:
    clips = []
    for path in paths:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
        clip = soxr.resample(samples[:, 0], rate, RATE)
        clips.append(clip * LEVEL / np.sqrt(np.mean(clip**2)))
    return clips


def talk(speakers: Sequence[list[Any]], seconds: float, seed: int) -> tuple[Any, list[tuple[int, float, float]]]:
    """Return samples of two channels, and the channel, start and end of what is said."""
    rng = np.random.default_rng(seed)
    samples = (1e-3 * rng.standard_normal((round(seconds * RATE), 2))).astype(np.float32)
    said, at, channel = [], 0, 0

    def say(who: int, start: int, length: int, gain: float) -> None:
        clip = speakers[who][rng.integers(len(speakers[who]))]
        length = min(length, len(clip) - 1, len(samples) - start)
        first = rng.integers(len(clip) - length)
        samples[start : start + length, who] += gain * clip[first : first + length]
        said.append((who, start / RATE, (start + length) / RATE))

    while at < len(samples) - 6 * RATE:
        length = round(rng.uniform(1, 6) * RATE)
        say(channel, at, length, 1.0)
        if rng.random() < 0.5:
            say(1 - channel, at + round(rng.uniform(0.3, 0.8) * length), round(0.4 * RATE), 0.5)
        at += length + round(rng.uniform(-0.3, 0.8) * RATE)
        channel = 1 - channel
    return samples, said


def leak(level_db: float) -> Callable[[Any], Any]:
    return lambda samples: samples + 10 ** (level_db / 20) * np.roll(samples[:, ::-1], 16, axis=0)


def echo(level_db: float) -> Callable[[Any], Any]:
    """One room, RT60 .3 s, a microphone for each speaker; the other arrives `level_db` below, as reverberation."""

    def place(samples: Any) -> Any:
        rng = np.random.default_rng(0)
        length = round(0.3 * RATE)
        out = np.zeros_like(samples)
        for microphone in (0, 1):
            for speaker in (0, 1):
                response = rng.standard_normal(length) * np.exp(-6.9 * np.arange(length) / length)
                response /= np.sqrt(np.sum(response**2))
                response[0] += microphone == speaker
                gain = 1 if microphone == speaker else 10 ** (level_db / 20)
                out[:, microphone] += gain * fftconvolve(samples[:, speaker], response)[: len(samples)]
        return out

    return place


CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "apart": lambda samples: samples,
    **{f"leak {level} dB": leak(level) for level in (-30, -20, -15, -12, -10, -6, -3)},
    "speaker 2 at -20 dB": lambda samples: samples * [1, 0.1],
    "room, other at -12 dB": echo(-12),
    "room, other at -6 dB": echo(-6),
    "room, other at 0 dB": echo(0),
    "mix": lambda samples: np.repeat(samples.sum(axis=1, keepdims=True), 2, axis=1),
    "mix, one at -10 dB": lambda samples: samples.sum(axis=1, keepdims=True) * [1, 0.3],
}


def judge_channels(speakers: Sequence[list[Any]], seconds: float) -> None:
    print("| channels | separation, dB | verdict | found of own speech | of other time |\n|---|---|---|---|---|")
    for name, change in CONDITIONS.items():
        rows = []
        for seed in range(3):
            samples, said = talk(speakers, seconds, seed)
            changed = change(samples)
            values = np.stack([quantise(changed[:, c].astype(np.float32)) for c in (0, 1)], axis=1)
            speech = find_own_speech(values, RATE)
            assert isinstance(speech, OwnSpeech)
            fault = decode_recordings._check_channels(values, RATE, DecodeRecordings())
            masks = [
                mark_spans(np.array([(s, e) for who, s, e in said if who == c]), len(speech.speech[c])) for c in (0, 1)
            ]
            found = np.mean([own[mask].mean() for own, mask in zip(speech.speech, masks, strict=True)])
            extra = np.mean([own[~mask].mean() for own, mask in zip(speech.speech, masks, strict=True)])
            rows.append((speech.separation.separation_db, fault.reason if fault else "kept", found, extra))
        separation, found, extra = (np.mean([row[at] for row in rows]) for at in (0, 2, 3))
        verdicts = ", ".join(sorted({row[1] for row in rows}))
        print(f"| {name} | {separation:.1f} | {verdicts} | {found:.0%} | {extra:.0%} |")


def time_stages(speakers: Sequence[list[Any]], minutes: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        samples, said = talk(speakers, 60 * minutes, 0)
        soundfile.write(Path(folder) / "call.sph", samples, RATE, format="NIST", subtype="ULAW")
        lines = [f"[{start} {end}] {'AB'[who]}: so it goes\n" for who, start, end in said]
        (Path(folder) / "call.txt").write_text("".join(lines))
        started = time.process_time()
        (rows,) = read_recordings(RecordingSource(path=folder))
        listed = time.process_time()
        context = {"build_seed": 0, "taxonomy": None, "pack": None}
        decoder = {"decoder": FileDecoder(FileDecoderConfig())}
        kept = decode_recordings.STAGE(rows, StageContext(params=DecodeRecordings(), engines=decoder, **context)).kept
        decoded = time.process_time()
        output = transcribe_recordings.STAGE(kept, StageContext(params=TranscribeRecordings(), **context))
        checked = time.process_time()
        assert len(output.kept) == 1
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        size = len(kept["audio"][0].as_py()["bytes"]) / 2**20
    print(
        f"\n{minutes:g} minutes of two channels, SPHERE mu-law, 8 kHz: listed {listed - started:.2f} s, decoded and "
        f"judged {decoded - listed:.2f} s, checked {checked - decoded:.2f} s of CPU; FLAC {size:.1f} MiB; "
        f"peak {peak:.0f} MiB"
    )


def time_ffmpeg(speakers: Sequence[list[Any]], minutes: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "call.m4a"
        samples, _ = talk(speakers, 60 * minutes, 0)
        with av.open(str(path), "w") as container:
            stream: Any = container.add_stream("aac", rate=RATE, layout="stereo")
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples.T), format="fltp", layout="stereo")
            frame.rate = RATE
            sizes = stream.codec_context.frame_size
            resampler = av.AudioResampler(stream.codec_context.format, "stereo", RATE, frame_size=sizes)
            for part in (*resampler.resample(frame), *resampler.resample(None)):
                container.mux(stream.encode(part))
            container.mux(stream.encode(None))
        for way in ("pyav", "pydub"):
            decoder = FileDecoder(FileDecoderConfig(ffmpeg=way))
            started, before = time.perf_counter(), time.process_time()
            (reply,) = decoder.decode([DecodeRequest((str(path),), ("",))])
            assert isinstance(reply, DecodedAudio)
            wall, own = time.perf_counter() - started, time.process_time() - before
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"AAC, {minutes:g} minutes, {way}: {wall:.2f} s, {own:.2f} s of them here; peak so far {peak:.0f} MiB"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", nargs="+", type=Path, required=True, help="clips of one speaker")
    parser.add_argument("--second", nargs="+", type=Path, required=True, help="clips of another")
    parser.add_argument("--minutes", type=float, default=10)
    arguments = parser.parse_args()
    speakers = load_clips(arguments.first), load_clips(arguments.second)
    judge_channels(speakers, 60)
    time_stages(speakers, arguments.minutes)
    time_ffmpeg(speakers, arguments.minutes)


if __name__ == "__main__":
    main()
