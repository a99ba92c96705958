"""From finished builds to a tuned model, and from that to scores: trained, killed and taken up again, evaluated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("peft")

from bystander.flows.check_train_tpi import check_train_tpi
from bystander.flows.listeners import SilentListener, listening
from bystander.flows.train_tpi import run_train_tpi
from bystander.schemas.errors import UserError
from bystander.schemas.train_tpi_config import SpeechLmConfig, TrainTpiConfig
from bystander.schemas.train_tpi_profiles import load_train_tpi_config
from bystander.storage.filesystem import open_store
from bystander.storage.training_manifest import read_training
from bystander.tasks.engines.speech_lm_model import encode_prompts
from bystander.tasks.training.speech_lm import find_speech_lm, open_reader
from bystander.tasks.training.speech_lm_batches import SpeechLmReader
from evaluations import configure as configure_evaluation
from evaluations import evaluate, write_bench
from tiny_omni import save_qwen_omni
from training_rows import make_va_row, write_tpi, write_va

pytestmark = pytest.mark.usefixtures("prefect_server")


class Stopped(Exception):
    """Stands for a signal."""


class StopsAt(SilentListener):
    """Stops the process when it is told a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_phase(self, phase: str) -> None:
        if f"step {self.step}," in phase:
            raise Stopped


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that hears six seconds, a build of 32 rows, 8 dyadic ones and a bench."""
    folder = tmp_path_factory.mktemp("places")
    save_qwen_omni(folder / "omni", heard_s=6)
    write_tpi(folder / "build", 24, 8)
    write_va(folder / "va.parquet", [make_va_row(index) for index in range(8)])
    write_bench(folder / "bench")
    return folder


def configure(places: Path, to: Path, **fields: Any) -> TrainTpiConfig:
    asked = {} if "model" in fields else {"model.model": str(places / "omni"), "model.user_prompt": "Answer."}
    given: dict[str, Any] = {
        **asked,
        "data": [str(places / "build")],
        "dyadic": [{"path": str(places / "va.parquet")}],
        "store": str(to),
        "name": "tuned",
        "optimisation.learning_rate": 0.02,
        "seed": 5,
    }
    return load_train_tpi_config("fake", (), given | {name.replace("__", "."): v for name, v in fields.items()})


@pytest.fixture(scope="module")
def store(places: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run that nothing stopped."""
    store = tmp_path_factory.mktemp("store")
    assert run_train_tpi(configure(places, store)).is_new
    return store


def test_what_is_published_says_what_it_was_made_of(places: Path, store: Path) -> None:
    folder = store / "trained" / "tuned"
    manifest = read_training(open_store(folder))
    assert (manifest.kind, manifest.architecture, manifest.data.mixture) == ("tpi", "speech_lm", "full")
    assert {name: part.rows + part.held_out for name, part in manifest.data.parts.items()} == {
        "two_speaker": 24,
        "dyadic": 8,
        "hard_negative": 8,
    }
    assert manifest.base_model is not None
    assert (manifest.base_model.name, len(manifest.base_model.digest or "")) == ("omni", 64)
    [phase] = manifest.phases
    assert phase.steps == 8
    assert phase.last_loss is not None
    assert phase.first_loss is not None
    assert phase.last_loss < 0.8 * phase.first_loss
    assert phase.last_held_out_loss is not None
    assert phase.first_held_out_loss is not None
    assert phase.last_held_out_loss < phase.first_held_out_loss
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {
        "README.md",
        "history/training.jsonl",
        "manifest.json",
        "model/adapter_config.json",
        "model/adapter_model.safetensors",
        "model/speech_lm.json",
        "report.html",
    }
    assert manifest.figures == {"trained_weights": 7232}
    assert manifest.data.left_out == {}
    assert "adapter: THIS_FOLDER" in (folder / "README.md").read_text()
    assert not run_train_tpi(configure(places, store)).is_new


def test_a_killed_run_ends_with_the_same_bytes(places: Path, store: Path, tmp_path: Path) -> None:
    config = configure(places, tmp_path, loader_workers=0)
    with listening(StopsAt(6)), pytest.raises(Stopped):
        run_train_tpi(config)
    outcome = run_train_tpi(config)
    assert outcome.manifest.phases[0].resumed_from == (4,)
    for name in ("model/adapter_model.safetensors", "model/adapter_config.json", "history/training.jsonl"):
        assert (tmp_path / "trained/tuned" / name).read_bytes() == (store / "trained/tuned" / name).read_bytes(), name


def test_the_tuned_model_is_evaluated_by_the_name_of_its_run(places: Path, store: Path, tmp_path: Path) -> None:
    engine = {"engine": "transformers_audio", "max_tokens": 12, "device": "cpu"}
    systems = {
        "base": {**engine, "model": str(places / "omni"), "user_prompt": "Answer."},
        "tuned": {**engine, "adapter": str(store / "trained" / "tuned")},
    }
    evaluated = evaluate(
        configure_evaluation(places / "bench", tmp_path, systems=systems, allow_missing=True, workers=1)
    )
    answers = [
        dict(zip(table["id"].to_pylist(), table["answer"].to_pylist(), strict=True))
        for table in (pq.read_table(evaluated.folder / "answers" / f"{system}.parquet") for system in systems)
    ]
    assert answers[0].keys() == answers[1].keys()
    assert sum(answers[0][row] != answers[1][row] for row in answers[0]) >= 8  # of 11
    assert evaluated.score("tuned", "tpi_test", "rsf").estimate.n == 8
    assert evaluated.score("tuned", "janus_test", "rsf").estimate.n == 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data": []}, "data: name at least one finished TPI-Train build, with --data FOLDER"),
        ({"dyadic": []}, r"dyadic: the mixture full has requests of one speaker .* or take the mixture base"),
        ({"data": ["{places}/nowhere"]}, "nowhere"),
        ({"dyadic": [{"path": "{places}/other.parquet"}]}, r"other\.parquet"),
        (
            {"proportions": {"dyadic": 0.0}, "mixture": "base"},
            r"proportions\.dyadic: the mixture base has no such part",
        ),
        ({"model.model": "{places}/nowhere"}, "no such folder; check the field `model`"),
        ({"model.model": "{places}"}, "cannot be loaded"),
        ({"model": {"architecture": "two_input", "speaker_model": "no-such-encoder"}}, "no-such-encoder"),
        ({"store": "{places}/va.parquet"}, r"store .*va\.parquet"),
    ],
)
def test_mistakes_are_found_before_anything_is_started(
    places: Path, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    filled = json.loads(json.dumps(fields).replace("{places}", str(places)))
    with pytest.raises(UserError, match=message):
        check_train_tpi(
            configure(places, tmp_path).model_copy() if not filled else configure(places, tmp_path, **filled)
        )


def test_a_part_without_rows_is_a_mistake(places: Path, tmp_path: Path) -> None:
    write_tpi(tmp_path / "pairs", 6, 0)
    with pytest.raises(
        UserError, match="mixture full: there is no hard-negative row; name a TPI-Train build in `data`"
    ):
        check_train_tpi(configure(places, tmp_path, data=[str(tmp_path / "pairs")]))


def test_rows_that_are_too_long_are_listed_and_not_cut(places: Path, tmp_path: Path) -> None:
    config = configure(places, tmp_path, mixture="base", **{"held_out.share": 0.0, "optimisation.max_steps": 6})
    assert isinstance(config.model, SpeechLmConfig)
    reader = open_reader(config.model, find_speech_lm(config.model))
    # Clips last from 4.3 to 4.9 s, replies are alike: what lasts up to 4.6 s fits.
    reply = "A table for 10 at seven; someone suggested eight, shall I change it?"
    tokens = len(reader.encode_reply(reply)) + count_prompt_tokens(reader, 4.6)
    outcome = run_train_tpi(config.model_copy(update={"model": config.model.model_copy(update={"max_length": tokens})}))
    assert outcome.manifest.data.left_out == {"longer_than_max_length": sum(i % 7 > 3 for i in range(24))}
    lines = (tmp_path / "trained/tuned/left_out.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["row"] for line in lines) == [i for i in range(24) if i % 7 > 3]
    assert "9 longer_than_max_length" in "".join(outcome.summary)


def count_prompt_tokens(reader: SpeechLmReader, duration_s: float) -> int:
    clip = np.zeros(round(duration_s * reader.sampling_rate), np.float32)
    return int(encode_prompts(reader.processor, reader.prompts, [clip])["input_ids"].shape[1])
