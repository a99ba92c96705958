"""Small SID builds with the fake engines, and recordings to build from."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import soundfile

from bystander.flows.listeners import listening
from bystander.schemas.engines import SpeechReply, SpeechRequest
from bystander.schemas.sid_config import SidBenchConfig, SidConfig, SidTrainConfig, load_sid_config
from bystander.schemas.speech_engine_configs import FakeSpeechConfig
from bystander.tasks.engines.registry import open_speech_engine
from tpi_builds import Built, Recorder

if TYPE_CHECKING:
    from bystander.flows.sid_build import SidOutcome

QUOTAS = {"beginning": 3, "middle": 4, "uninterrupted": 3}
TALK = (
    (0, "The early train leaves at six in the morning and it reaches the coast before noon.", 0.5),
    (1, "Right.", 1.5),
    (0, "There is a later one as well, but it stops at every village along the way.", 9.0),
    (1, "Yeah, but how much is the ticket?", 10.5),
    (0, "A single ticket is twelve pounds, and a return is twenty if you book today.", 17.0),
    (1, "Book the return please.", 19.0),
)
"""Channel, text, and start in seconds: a backchannel, an interruption that follows one, and one at once."""


def make_sid_config(store: Path, kind: type[Any] = SidBenchConfig, **fields: Any) -> Any:
    """Return the `fake` profile's configuration with small quotas; double underscores stand for dots."""
    given = {name.replace("__", "."): value for name, value in fields.items()}
    small = {"targets.per_language": QUOTAS, "targets.silence": 2, "targets.noise": 3, "report_rows": 4}
    return load_sid_config(kind, "fake", overrides={"store": str(store), **small, **given})


def build_sid(config: SidConfig) -> Built:
    """Run the flow of the configuration's kind in this process."""
    from bystander.flows.build_sid_bench import run_build_sid_bench
    from bystander.flows.build_sid_train import run_build_sid_train

    flow: Callable[[Any], SidOutcome]
    flow = run_build_sid_train if isinstance(config, SidTrainConfig) else run_build_sid_bench
    heard = Recorder()
    with listening(heard):
        outcome = flow(config)
    return Built(Path(outcome.location), outcome, heard)


POLITE_TALK = tuple((channel, text, at_s + (5.5 if channel else 0.0)) for channel, text, at_s in TALK[:4])
"""The same, but nobody talks while the other does."""


def write_talk(folder: Path, name: str = "talk", talk: Sequence[tuple[int, str, float]] = TALK) -> Path:
    """Write a two-channel recording of a talk in the fake engine's voices, with a SegLST transcript beside it."""
    engine = open_speech_engine(FakeSpeechConfig(), lambda model: Path(model))
    voices = [voice.id for voice in engine.voices]
    requests = [SpeechRequest(text, voices[channel], seed=1) for channel, text, _ in talk]
    clips = [clip for clip in engine.synthesise(requests) if isinstance(clip, SpeechReply)]
    rate = clips[0].sampling_rate
    ends = [round(at_s * rate) + len(clip.samples) for (_, _, at_s), clip in zip(talk, clips, strict=True)]
    length = max(ends) + rate
    samples = np.random.default_rng(0).normal(0, 3e-4, (length, 2)).astype(np.float32)
    segments = []
    for (channel, text, at_s), clip in zip(talk, clips, strict=True):
        first = round(at_s * rate)
        samples[first : first + len(clip.samples), channel] += clip.samples
        end_s = (first + len(clip.samples)) / rate
        speaker = "AB"[channel]
        segments.append(
            {"session_id": name, "speaker": speaker, "start_time": first / rate, "end_time": end_s, "words": text}
        )
    folder.mkdir(parents=True, exist_ok=True)
    soundfile.write(folder / f"{name}.wav", samples, rate)
    (folder / f"{name}.json").write_text(json.dumps(segments), "utf-8")
    return folder / f"{name}.wav"
