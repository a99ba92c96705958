"""Real speech with real TextGrids, from files to recordings that can be annotated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from bystander.schemas.sid_config import RecordingSource
from bystander.schemas.sid_engine_configs import FileDecoderConfig
from bystander.schemas.sid_params import DecodeRecordings, TranscribeRecordings
from bystander.schemas.stages import StageOutput
from bystander.storage.recording_files import read_recordings
from bystander.storage.transcripts.read_transcript import parse_transcript
from bystander.tasks.engines.file_decoder import FileDecoder
from bystander.tasks.stages import decode_recordings, transcribe_recordings
from scripted_engines import make_context
from shared_data import find_shared

GOOD = "acoustic_corpus"
BAD = "cold_corpus3"
"""A clip whose TextGrid is known to have other times than its audio."""


def lay_out(folder: Path, clip: str = GOOD, late_s: float = 0.0, exchanged: bool = False) -> None:
    """Write a call in which one side says an MFA clip, then the other the same; the words are its TextGrid's."""
    shared = find_shared("speech_aligned", "mfa")
    samples, rate = soundfile.read(shared / "wav" / f"{clip}.wav", dtype="float32", always_2d=True)
    lane, gap = samples[:, 0], np.zeros(len(samples), np.float32)
    soundfile.write(folder / "call_A.wav", np.concatenate([lane, gap]), rate)
    soundfile.write(folder / "call_B.wav", np.concatenate([gap, lane]), rate)
    grid = (shared / "textgrid" / f"{clip}.TextGrid").read_bytes()
    words = [word for one in parse_transcript("x.TextGrid", grid)[1].segments for word in one.words]
    lines = [
        f"call {side} {late_s + start + word.start_s} {word.end_s - word.start_s} {word.word}\n"
        for side, start in zip("BA" if exchanged else "AB", (0.0, len(lane) / rate), strict=True)
        for word in words
    ]
    (folder / "call.ctm").write_text("".join(lines))


def annotate(folder: Path, **params: Any) -> StageOutput:
    (rows,) = read_recordings(RecordingSource(path=str(folder), licence="MIT"))
    assert rows["fault"].to_pylist() == [None]
    decoder = FileDecoder(FileDecoderConfig())
    decoded = decode_recordings.STAGE(rows, make_context(DecodeRecordings(), decoder=decoder))
    assert decoded.rejected["reject_detail"].to_pylist() == []
    return transcribe_recordings.STAGE(decoded.kept, make_context(TranscribeRecordings(**params)))


def test_keeps_right_transcripts(tmp_path: Path) -> None:
    lay_out(tmp_path)
    output = annotate(tmp_path)
    assert output.rejected["reject_detail"].to_pylist() == []
    (row,) = output.kept.to_pylist()
    assert (row["source"], row["transcript_source"]) == ("call_A.wav + call_B.wav", "ctm")
    assert {one["channel"] for one in row["utterances"]} == {0, 1}


@pytest.mark.parametrize(
    ("changes", "reason", "message"),
    [
        ({"exchanged": True}, "channels_swapped", "fits with its speakers exchanged"),
        ({"late_s": 2.0}, "transcript_outside_audio", "ends at"),
        ({"clip": BAD}, "transcript_disagrees", "another recording's transcript, or its times are wrong"),
    ],
)
def test_rejects_wrong_ones(tmp_path: Path, changes: dict[str, Any], reason: str, message: str) -> None:
    lay_out(tmp_path, **changes)
    (row,) = annotate(tmp_path).rejected.to_pylist()
    assert row["reject_reason"] == reason, row["reject_detail"]
    assert message in row["reject_detail"]


def test_says_by_how_much_a_transcript_is_late(tmp_path: Path) -> None:
    lay_out(tmp_path, late_s=2.0)
    (row,) = annotate(tmp_path, max_overrun_s=10.0).rejected.to_pylist()
    assert row["reject_reason"] == "transcript_shifted", row["reject_detail"]
    assert "fit when 2.0 s are taken from them" in row["reject_detail"]
