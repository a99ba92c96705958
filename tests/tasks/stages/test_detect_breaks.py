"""Stage `detect_breaks`, with detectors that follow a script."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bystander.schemas.detector_configs import FakeDetectorConfig, SidEvaluationEngines, parse_detectors
from bystander.schemas.engines import EngineIdentity, Samples
from bystander.schemas.errors import InputError
from bystander.schemas.sid import SID_CLIP, SID_DETECTED
from bystander.schemas.sid_evaluation_params import DetectBreaks
from bystander.schemas.stage_job import StageJob
from bystander.schemas.stages import StageContext
from bystander.tasks.audio.coding import encode_flac
from bystander.tasks.engines.fake_detector import FakeDetector
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.stages import get_stage
from bystander.tasks.stages.detect_breaks import find_stop, listen


class CountingDetector:
    """Stops at the n-th chunk of 100 samples at 1,000 Hz, and keeps what it was fed."""

    identity = EngineIdentity("detector", "counting", "counting", "1")
    sampling_rate, chunk_samples = 1000, 100

    def __init__(self, stop_at: int) -> None:
        self.stop_at = stop_at
        self.chunks: list[Samples] = []

    def open_stream(self) -> CountingDetector:
        self.chunks = []
        return self

    def accept(self, chunk: Samples) -> bool:
        self.chunks.append(chunk)
        return len(self.chunks) >= self.stop_at

    def close(self) -> None: ...


def make_table(*clips: tuple[str, Samples, int]) -> pa.Table:
    rows = [
        {
            "id": name,
            "audio": {"bytes": encode_flac(samples, rate), "path": f"{name}.flac"},
            "sampling_rate": rate,
            "duration_s": len(samples) / rate,
        }
        for name, samples, rate in clips
    ]
    return pa.Table.from_pylist(rows, SID_CLIP)


def make_context(detector: Any) -> StageContext:
    return StageContext(
        build_seed=1,
        params=DetectBreaks(),
        taxonomy=None,  # type: ignore[arg-type]
        pack=None,  # type: ignore[arg-type]
        engines={"detector": detector},
    )


def test_stop_is_the_end_of_the_last_chunk_heard_and_nothing_is_fed_after_it() -> None:
    detector = CountingDetector(3)
    assert find_stop(np.ones(950, np.float32), 1000, detector) == pytest.approx(0.3)
    assert [len(chunk) for chunk in detector.chunks] == [100, 100, 100]


def test_last_chunk_is_shorter_and_ends_with_the_clip() -> None:
    detector = CountingDetector(10)
    assert find_stop(np.ones(950, np.float32), 1000, detector) == pytest.approx(0.95)
    assert len(detector.chunks[-1]) == 50
    assert find_stop(np.ones(850, np.float32), 1000, detector) is None
    assert find_stop(np.zeros(0, np.float32), 1000, detector) is None


def test_resampled_clips_count_what_the_filter_hears_ahead_but_never_more_than_the_clip() -> None:
    heard = [end_s for end_s, _ in listen(np.ones(1900, np.float32), 2000, CountingDetector(99))]
    assert heard[0] == pytest.approx(0.1 + 0.01)  # ten samples of the lower rate
    assert heard[-1] == pytest.approx(0.95)


def test_rows_keep_their_columns_and_gain_the_stop() -> None:
    quiet, loud = np.zeros(16000, np.float32), np.zeros(16000, np.float32)
    loud[8000:] = 0.5
    rows = make_table(("quiet", quiet, 16000), ("loud", loud, 16000))
    stage = get_stage("detect_breaks")
    output = stage(rows, make_context(FakeDetector()))
    assert output.kept.schema == SID_DETECTED
    assert output.kept["id"].to_pylist() == ["quiet", "loud"]
    assert output.kept["stop_time_s"].to_pylist() == [None, pytest.approx(0.52)]
    assert len(output.rejected) == 0
    lean = stage(rows.select(["id", "audio"]), make_context(FakeDetector()))
    assert lean.kept["stop_time_s"] == output.kept["stop_time_s"]


def test_no_rows_are_no_rows() -> None:
    output = get_stage("detect_breaks")(SID_CLIP.empty_table(), make_context(FakeDetector()))
    assert output.kept.schema == SID_DETECTED


def test_clip_that_cannot_be_decoded_is_named() -> None:
    rows = make_table(("bad", np.zeros(10, np.float32), 16000))
    rows = rows.set_column(1, SID_CLIP.field("audio"), pa.array([{"bytes": b"no", "path": None}], SID_CLIP[1].type))
    with pytest.raises(InputError, match=r"row bad.*build the bench again"):
        get_stage("detect_breaks")(rows, make_context(FakeDetector()))


def test_environment_opens_the_detector_and_keeps_its_totals_beside_the_rows(tmp_path: Any) -> None:
    engines = SidEvaluationEngines(detector=FakeDetectorConfig(level=0.2))
    job = StageJob.of_detector(str(tmp_path), engines)
    assert StageJob.model_validate_json(job.model_dump_json()) == job
    environment = StageEnvironment(job)
    assert environment.compute_totals() is None
    stage = get_stage("detect_breaks")
    opened = environment.engines_of(stage)
    assert opened["detector"].identity.settings == (("level", "0.2"),)
    loud = np.zeros(16000, np.float32)
    loud[8000:] = 0.5
    stage(make_table(("a", loud, 16000), ("b", np.zeros(8000, np.float32), 16000)), make_context(opened["detector"]))
    totals = environment.compute_totals()
    assert totals is not None
    assert totals.clips == 2
    assert totals.heard_s == pytest.approx(0.52 + 0.5)
    assert totals.compute_s >= 0
    environment.close()
    assert environment.compute_totals() is None


def test_model_files_of_detectors_within_detectors_are_listed(tmp_path: Any) -> None:
    (config,) = parse_detectors("k3:lexicon_words").values()
    job = StageJob.of_detector(str(tmp_path), SidEvaluationEngines(detector=config))
    names = {file.name.split("/")[0] for file in StageEnvironment(job).list_model_files()}
    assert names == {"silero-vad-v6", "whisper-tiny.en-ct2"}
