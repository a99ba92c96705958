"""Failed speech and refused recordings, heard again out of what the stages of real builds left in their store."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from bystander.schemas.engines import SpeechReply, SpeechRequest
from bystander.schemas.row_sounds import Sound
from bystander.schemas.speech_engine_configs import FakeSpeechConfig
from bystander.storage.call_cache import locate_call_cache
from bystander.storage.filesystem import open_store
from bystander.storage.placed_rows import PlacedRows
from bystander.tasks import environment
from bystander.tasks.engines import fake_speech
from bystander.tasks.engines.fake_speech import FakeSpeechEngine, SpeechFlaw
from bystander.tasks.reject_sounds import RejectSounds
from direct_builds import build_directly
from tpi_builds import make_config, write_queries

Heard = list[tuple[dict[str, Any], list[Sound], str]]


def hear_rejects(folder: Path) -> Heard:
    """Return every reject with its sounds, or why there are none."""
    rows = PlacedRows(str(folder))
    sounds = RejectSounds(rows.store, rows.manifest)
    places = [place for place, row in rows.list() if row.get("reject_stage")]
    return [(row, *sounds.find(row)) for row in map(rows.read, places)]


def spoil(request: SpeechRequest) -> SpeechFlaw | None:
    """Some texts come out silent whenever they are spoken."""
    return SpeechFlaw.SILENT if len(request.text) % 4 == 0 else None


class SpoiltSpeechEngine(FakeSpeechEngine):
    """Notes what it is asked for."""

    asked: list[SpeechRequest]

    def __init__(self, config: FakeSpeechConfig) -> None:
        super().__init__(config, spoil)

    def synthesise(self, requests: Any, on_reply: Any = None) -> Any:
        self.asked.extend(requests)
        return super().synthesise(requests, on_reply)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build of which each track is spoken twice at most, with all calls kept."""
    folder = tmp_path_factory.mktemp("spoken")
    SpoiltSpeechEngine.asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "_INSTANT", frozenset())
        patch.setattr(fake_speech, "FakeSpeechEngine", SpoiltSpeechEngine)
        queries = write_queries(folder / "queries.jsonl")
        fields = {"stages__synthesise_speech__max_attempts": 2, "targets__hard_negatives": 2}
        built = build_directly(make_config(folder / "store", queries, 10, **fields))
    return built.folder


def decode(audio: bytes) -> np.ndarray:
    return soundfile.read(io.BytesIO(audio), dtype="float32")[0]


def test_every_attempt_of_failed_speech_is_heard(spoken: Path) -> None:
    failed = [one for one in hear_rejects(spoken) if one[0]["reject_stage"] == "synthesise_speech"]
    assert len(failed) > 3
    engine = FakeSpeechEngine(FakeSpeechConfig(), spoil)
    for row, sounds, _ in failed:
        mine = [
            request
            for text, voice in (("primary_text", "primary_voice"), ("third_party_text", "third_party_voice"))
            for request in SpoiltSpeechEngine.asked
            if row["n_speakers"] == 2 and (request.text, request.voice) == (row[text], row[voice])
        ]
        if row["n_speakers"] == 1:  # one voice says both texts
            mine = [one for one in SpoiltSpeechEngine.asked if one.text.endswith(row["third_party_text"])]
            mine = [one for one in mine if one.voice == row["primary_voice"]]
        replies = [reply for reply in engine.synthesise(mine) if isinstance(reply, SpeechReply)]
        assert 2 <= len(replies) <= 4
        assert len(sounds) == len(replies)
        for sound, reply in zip(sounds, replies, strict=True):
            np.testing.assert_allclose(decode(sound.audio), reply.samples, atol=1.1 / 32768)
        assert any(not decode(sound.audio).any() for sound in sounds if sound.title.endswith("attempt 2"))


def test_looking_for_failed_speech_changes_no_cache(spoken: Path) -> None:
    cache = locate_call_cache(open_store(spoken.parents[1]))
    before = cache.read_bytes()
    hear_rejects(spoken)
    assert cache.read_bytes() == before


def test_without_its_store_failed_speech_is_silent_and_says_so(spoken: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(spoken, moved)
    silent = [one for one in hear_rejects(moved) if one[0]["reject_stage"] == "synthesise_speech"]
    assert silent
    for _, sounds, why in silent:
        assert (sounds, "Failed speech is not kept with a build" in why) == ([], True)


def test_a_damaged_cache_is_said(spoken: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    folder = store / spoken.parent.name / spoken.name
    shutil.copytree(spoken, folder)
    cache = locate_call_cache(open_store(store))
    cache.parent.mkdir(parents=True)
    cache.write_bytes(b"no database " * 1000)
    for row, sounds, why in hear_rejects(folder):
        if row["reject_stage"] == "synthesise_speech":
            assert (sounds, why.startswith("The store's cache cannot be read: ")) == ([], True)
