"""Builds of real recordings in this thread, without Prefect, and a corpus to build from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile

from bystander.flows.build_runs import BuildOutcome
from bystander.flows.curate_real_world import RealWorldBuild
from bystander.schemas.real_world_config import RealWorldConfig, load_real_world_config
from bystander.schemas.stage_job import StageJob
from bystander.storage.build_manifest import BuildManifest
from direct_builds import stages_in_this_thread
from tpi_builds import Recorder

RATE = 16000
# Who says what from when to when: three requests that are cut into, and what every rule or pairing drops.
TALK = (
    ("A", 1.0, 3.0, "How many calories are in an avocado?"),
    ("B", 2.6, 4.2, "Nobody counts that any more."),
    ("A", 8.0, 10.0, "What is the capital of Slovenia?"),
    ("C", 10.2, 11.6, "Ljubljana, I was there once."),
    ("B", 15.0, 17.0, "Remind me to water the plants tonight."),
    ("A", 16.8, 18.4, "It will rain tonight anyway."),
    ("C", 22.0, 23.4, "I like that idea a lot."),
    ("A", 23.6, 25.0, "So do I, it is cheap."),
    ("B", 30.0, 31.6, "What is the tallest mountain on Mars?"),
    ("C", 31.8, 32.3, "Mm-hmm."),
    ("A", 36.0, 37.4, "Did she find her old bicycle?"),
    ("B", 37.5, 39.0, "No, it is gone for good."),
    ("C", 44.0, 44.6, "[laughter]"),
)
LENGTH_S = 46.0


@dataclass(frozen=True)
class Curated:
    """A finished build."""

    folder: Path
    outcome: BuildOutcome[BuildManifest]
    heard: Recorder

    @property
    def manifest(self) -> BuildManifest:
        return self.outcome.manifest

    def read_rows(self) -> list[dict[str, Any]]:
        """Return all rows, with their audio."""
        files = sorted((self.folder / "data").glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    def read_rejects(self, stage: str) -> list[dict[str, Any]]:
        """Return the rejects of a stage."""
        table: pa.Table = pq.read_table(self.folder / "rejects" / f"{stage}.parquet")
        return list(table.to_pylist())


def write_talk(folder: Path, recording: str = "talk") -> Path:
    """Write TALK as SegLST."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{recording}.json"
    segments = [
        {
            "session_id": recording,
            "speaker": who,
            "start_time": start,
            "end_time": end,
            "words": said,
            "channel": "ABC".index(who),
        }
        for who, start, end, said in TALK
    ]
    path.write_text(json.dumps(segments))
    return path


def write_headsets(folder: Path, recording: str = "talk") -> Path:
    """Write a headset of each speaker: a tone of 200, 300 or 400 Hz while they speak, as loud as 0.2, else silence."""
    folder.mkdir(parents=True, exist_ok=True)
    t = np.arange(round(LENGTH_S * RATE)) / RATE
    for number, who in enumerate("ABC"):
        spoken = np.zeros(len(t), bool)
        for speaker, start, end, _ in TALK:
            if speaker == who:
                spoken |= (t >= start) & (t < end)
        samples = np.where(spoken, 0.2 * np.sin(2 * np.pi * (200 + 100 * number) * t), 0.0)
        soundfile.write(folder / f"{recording}.Headset-{number}.wav", samples, RATE, subtype="PCM_16")
    return folder


def configure(store: Path, corpus: Path, audio: Path | None = None, **fields: Any) -> RealWorldConfig:
    """Return a configuration with the fake judge, who lets everything through; `__` stands for a dot."""
    corpora = [{"path": str(corpus), "name": "talks", "licence": "CC0", "audio": audio and str(audio)}]
    given = {name.replace("__", "."): value for name, value in fields.items()}
    open_ = {f"stages.score_pairs.min_{name}": 1 for name in ("query", "interruption", "answerable")}
    overrides = {"store": str(store), "corpora": corpora, "report_rows": 2, **open_, **given}
    return load_real_world_config("fake", overrides=overrides)


def curate_directly(config: RealWorldConfig) -> Curated:
    """Make a build as its flow does."""
    heard = Recorder()
    with stages_in_this_thread(StageJob.of_real_world(config)) as environment:
        outcome = RealWorldBuild(config, environment, heard).run()
    return Curated(Path(outcome.location), outcome, heard)
