"""The flows of deployments that train: a form in, a run with its page out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prefect import Flow

from bystander.flows.deployed_flows import deploy_train_sid, deploy_train_tpi
from bystander.schemas.sid import MIDDLE, UNINTERRUPTED
from bystander.storage.filesystem import open_store
from bystander.storage.training_manifest import open_training, read_training
from html_pages import Page
from sid_rows import make_sid_row, write_sid_train

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def run(flow: Flow[Any, Any], **form: Any) -> tuple[str, str]:
    """Return name and message of a run's final state."""
    state = flow(**{"training": form}, return_state=True)
    return state.name, state.message


def test_a_detector_is_trained_once_and_has_its_page(tmp_path: Path, prefect_server: None) -> None:
    rows = [make_sid_row(at, category) for at in range(8) for category in (MIDDLE, UNINTERRUPTED)]
    write_sid_train(tmp_path / "store" / "sid-train" / "tiny", rows)
    form = {
        "profile": "miniature",
        "store": str(tmp_path / "store"),
        "data": [str(tmp_path / "store" / "sid-train" / "tiny")],
        "name": "tiny",
        "max_steps": 4,
        "device": "cpu",
        "retry_after_s": 0,
        "overrides": {
            "held_out": {"share": 0.3, "every_steps": 2},
            "model": {"architecture": "recurrent", "folds": 1, "hidden": 8, "mel_bands": 8, "augmentation": None},
        },
    }
    where = f"{tmp_path}/store/trained/tiny"
    assert run(deploy_train_sid, **form) == ("Completed", f"New training: {where}.")
    assert run(deploy_train_sid, **form) == ("Completed", f"Nothing new: {where} is made of just this.")
    manifest = read_training(open_training(open_store(str(tmp_path / "store")), "tiny"))
    assert manifest.phases[0].steps == 4
    assert "report.html" in {info.file for info in manifest.files}
    page = Page((tmp_path / "store" / "trained" / "tiny" / "report.html").read_text("utf-8"))
    labels = [a.get("aria-label", "") for a in page.find("svg")]
    for start in ("Loss. trained on", "Learning rate", "Where crops end", "Share of positive crops", "APT", "FIR"):
        assert any(label.startswith(start) for label in labels), start
    assert sum(label.startswith("Waveform of middle-en") for label in labels) == 2
    assert "every step of a clip is one" in page.text
    trained = sum(part.rows for part in manifest.data.parts.values())
    assert f"{trained} rows trained on" in " ".join(page.text.split())


@pytest.mark.parametrize(
    ("flow", "form", "words"),
    [
        (deploy_train_tpi, {"profile": "fake", "store": "/x"}, "data: Field required"),
        (deploy_train_tpi, {"profile": "fake", "store": "/x", "data": ["/none"]}, "dyadic"),
        (deploy_train_sid, {"profile": "miniature", "store": "/x", "data": ["/no/such/build"]}, "/no/such/build"),
        (deploy_train_sid, {"profile": "miniature", "store": "/x", "data": ["/d"], "overrides": {"k": 0}}, "k: Input"),
    ],
)
def test_mistakes_are_the_message_of_a_run_that_failed(
    flow: Flow[Any, Any], form: dict[str, Any], words: str, prefect_server: None
) -> None:
    name, message = run(flow, **form)
    assert (name, words in message) == ("Failed", True), message
