"""The experiment with mixtures, over builds: two seeds, few steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from bystander.cli.main import app
from bystander.flows.compare_mixtures import compare_mixtures
from bystander.flows.train_tpi import train_tpi
from bystander.schemas.errors import ConfigError, InputError
from bystander.schemas.mixture_config import CompareMixturesConfig
from bystander.schemas.mixture_results import MixtureResults
from bystander.schemas.train_tpi_config import TrainTpiConfig
from bystander.storage.filesystem import open_store
from bystander.storage.mixture_files import TABLES_NAME, MixtureManifest
from bystander.storage.stored_builds import list_stored_builds
from bystander.storage.verify_training import verify_training
from bystander.tasks.training.two_input_files import load_two_input
from final_rows import make_rows
from training_rows import make_va_row, write_small_groups, write_va

FEW = {"max_steps": 12, "batch_size": 8, "micro_batch_size": 8, "learning_rate": 0.01}


def write_bench(folder: Path) -> Path:
    rows = [{**row, "query_id": f"bench-{row['query_id']}"} for row in make_rows(8, 8)]
    write_small_groups(folder, rows, dataset="tpi-bench")
    return folder


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("mixtures")
    write_small_groups(root / "train", make_rows(12, 12))
    va = write_va(root / "va.parquet", [make_va_row(index) for index in range(12)])
    return {
        "data": [str(root / "train")],
        "dyadic": [{"path": str(va)}],
        "bench": str(write_bench(root / "bench")),
        "store": str(root / "store"),
        "seeds": 2,
        "model": {"sound": "log_mel", "hidden": 8, "hash_buckets": 128},
        "optimisation": FEW,
        "device": "cpu",
    }


def test_every_model_is_trained_scored_and_written_once(fields: dict[str, Any]) -> None:
    config = CompareMixturesConfig.model_validate(fields)
    told: list[str] = []
    outcome = compare_mixtures(config, told.append)
    results = outcome.results
    folder = Path(outcome.location.removeprefix("file://"))
    assert folder.parent.name == "trained"
    assert MixtureResults.model_validate_json((folder / "results.json").read_text()) == results
    manifest = MixtureManifest.model_validate_json((folder / "manifest.json").read_text())
    assert {info.file for info in manifest.files} == {"results.json", TABLES_NAME, "report.html"}
    assert len(results.runs) == 3 * 3 * 2
    assert {run.seed for run in results.runs} == {0, 1}
    assert all(run.steps == 12 and run.curve for run in results.runs)
    assert (results.bench.rows, results.bench.linked_pairs) == ({"tpi_test": 8, "janus_test": 8}, 8)
    assert {(source.use, source.rows) for source in results.data} == {("tpi", 24), ("dyadic", 12)}
    base = next(s for s in results.summaries if (s.mixture, s.inputs) == ("base", "text_and_sound"))
    assert base.false_interruption.over_seeds.mean == 1  # it has not seen one speaker
    read = [summary for summary in results.summaries if summary.inputs == "text"]
    assert [summary.twin_auc.mean for summary in read] == [0.5, 0.5, 0.5]
    assert {projection.system for projection in results.projections} == {"base", "va", "full"}
    assert {score.mixture for score in results.confounds} == {"va", "full"}
    assert {(one.contrast, one.swaps) for one in results.swaps if one.contrast == "hard_negative"} == {
        ("hard_negative", 16 * 4)
    }
    effects = {(one.mixture, one.inputs): one for one in results.swaps if one.contrast == "hard_negative"}
    assert (
        effects["va", "text"].sound_effect.over_seeds.mean == effects["va", "sound"].words_effect.over_seeds.mean == 0
    )
    assert {one.measure for one in results.swap_comparisons} == {"words_effect", "sound_effect", "words_share"}
    assert any("held-out loss says" in note for note in results.notes)
    assert sum("model" in line for line in told) == 18

    again = compare_mixtures(config, told.append)
    assert again.reused
    assert again.results == results
    assert "nothing new" in told[-1]
    assert verify_training(open_store(str(folder))) == []
    stored = {build.name: build for build in list_stored_builds(open_store(str(folder.parent.parent)))}
    assert stored[f"trained/{folder.name}"].condition == "training"
    shown = CliRunner().invoke(app, ["train", "show", str(folder)])
    assert shown.output == (folder / TABLES_NAME).read_text()

    (folder / "results.json").write_text("{}")
    assert [(finding.file, finding.problem) for finding in verify_training(open_store(str(folder)))] == [
        ("results.json", f"has 2 bytes, the manifest says {manifest.files[0].bytes}")
    ]
    mended = compare_mixtures(config)
    assert not mended.reused
    assert mended.results == results


def test_one_mixture_is_trained_and_published_like_any_run(fields: dict[str, Any]) -> None:
    config = TrainTpiConfig.model_validate(
        {
            **{name: fields[name] for name in ("data", "dyadic", "store", "optimisation", "device")},
            "model": {"architecture": "two_input", **fields["model"]},
            "name": "one",
            "held_out": {"share": 0.3, "every_steps": 6},
        }
    )
    outcome = train_tpi.fn(config)
    assert (outcome.manifest.architecture, outcome.manifest.phases[0].steps) == ("two_input", 12)
    assert {name: part.rows + part.held_out for name, part in outcome.manifest.data.parts.items()} == {
        "two_speaker": 12,
        "dyadic": 12,
        "hard_negative": 12,
    }
    model, about = load_two_input(Path(outcome.location.removeprefix("file://")))
    assert about.classes == ("none", "actionable", "ignorable")
    assert sum(weight.numel() for weight in model.parameters()) == outcome.manifest.figures["parameters"]
    assert not train_tpi.fn(config).is_new


def test_a_bench_that_shares_requests_with_the_data_is_refused(fields: dict[str, Any]) -> None:
    config = CompareMixturesConfig.model_validate({**fields, "bench": fields["data"][0]})
    with pytest.raises(InputError, match=r"12 of its requests are trained on too.*--disjoint-from"):
        compare_mixtures(config)


@pytest.mark.parametrize(
    ("missing", "message"), [("data", "--data"), ("bench", "--bench"), ("dyadic", "--dyadic"), ("mixtures", "mixtures")]
)
def test_what_is_not_named_is_asked_for(fields: dict[str, Any], missing: str, message: str) -> None:
    config = CompareMixturesConfig.model_validate({**fields, missing: "" if missing == "bench" else ()})
    with pytest.raises(ConfigError, match=message):
        compare_mixtures(config)


def test_the_command_gives_what_its_options_say(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    from bystander.cli.train_mixtures import train_mixtures

    app = typer.Typer()
    app.command()(train_mixtures)
    seen: list[CompareMixturesConfig] = []

    def keep(config: CompareMixturesConfig, tell: Any) -> Any:
        del tell
        seen.append(config)
        raise InputError("stop here")

    monkeypatch.setattr("bystander.flows.compare_mixtures.compare_mixtures", keep)
    options = ["--data", "a", "--data", "b", "--dyadic", "c", "--bench", "d", "--bench-dyadic", "e", "--seeds", "3"]
    found = CliRunner().invoke(app, [*options, "--set", "model.sound=log_mel", "--name", "mine"])
    assert isinstance(found.exception, InputError)
    (config,) = seen
    assert (config.data, config.bench, config.seed_list) == (("a", "b"), "d", (0, 1, 2))
    assert ([s.path for s in config.dyadic], [s.path for s in config.bench_dyadic]) == (["c"], ["e"])
    assert (config.model.sound, config.training_name, config.optimisation.epochs) == ("log_mel", "mine", 30)
