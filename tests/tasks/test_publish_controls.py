"""Controls of a finished build: `controls.json`, the card's section, and a build that stays sound."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bystander.cli.main import main
from bystander.schemas.errors import BuildError, CorruptPartError
from bystander.schemas.evaluate_config import ControlsConfig
from bystander.schemas.evaluation_scores import BuildControls
from bystander.schemas.recogniser_configs import FakeVerifierConfig
from bystander.schemas.text_engine_configs import FakeTextConfig
from bystander.storage.build_manifest import EngineInfo, read_manifest
from bystander.storage.dataset_card import write_card
from bystander.storage.filesystem import Store, open_store
from bystander.storage.verify_build import verify_build
from bystander.tasks.publish_controls import publish_controls
from control_rows import make_bench_rows
from final_rows import ENGINES, write_build

HEARS = ControlsConfig(verifier=FakeVerifierConfig())
FAKE_VERIFIER = EngineInfo(kind="verifier", name="fake_verifier", model="tones", revision="2")
FAKES = {
    "writer": {"engine": "fake_text"},
    "speech": {"engine": "fake_speech"},
    "recogniser": {"engine": "fake_recogniser"},
    "verifier": {"engine": "fake_verifier"},
}


def build(folder: Path) -> Store:
    store = write_build(
        folder,
        make_bench_rows(pairs=12, alone=4),
        engines={**ENGINES, "verifier": FAKE_VERIFIER},
        config={"engines": FAKES, "pack": "reference"},
        content_digest="c" * 64,
    )
    write_card(store, read_manifest(store))
    return store


def test_figures_go_beside_the_build_and_on_its_card(tmp_path: Path) -> None:
    store = build(tmp_path)
    before = {str(finding) for finding in verify_build(store)}
    card, manifest = store.read_bytes("README.md").decode(), store.read_bytes("manifest.json")
    found = publish_controls(store, HEARS, seed=3)
    assert BuildControls.model_validate_json(store.read_bytes("controls.json")) == found
    assert (found.rows, found.content_digest, found.pack) == (28, "c" * 64, None)
    assert [engine.name for engine in found.engines] == ["verifier"]
    figures = {control.name: control.auc for control in found.controls}
    assert (figures["transcript classifier, twins"], figures["speaker verifier, twins"]) == (0.5, 1)
    assert all(("build's own verifier" in control.note) == control.hears for control in found.controls)
    now = store.read_bytes("README.md").decode()
    assert "| speaker verifier, twins | yes | 1.000 (1.000 to 1.000) | 12 |" in now
    assert store.read_bytes("manifest.json") == manifest
    assert {str(finding) for finding in verify_build(store)} == before
    publish_controls(store, HEARS, seed=3)
    assert store.read_bytes("README.md").decode() == now
    assert now.startswith(card[: card.index("## How it was built")])


def test_judges_are_asked_with_the_pack(tmp_path: Path) -> None:
    config = ControlsConfig(transcript_classifier=False, transcript_judges=True)
    found = publish_controls(build(tmp_path), config, judges={"fake": FakeTextConfig()})
    assert [(control.name, control.auc) for control in found.controls][:1] == [("transcript judge fake, twins", 0.5)]
    assert (found.pack, [engine.name for engine in found.engines]) == ("reference", ["fake"])


def test_another_verifier_is_no_check_of_its_own_work(tmp_path: Path) -> None:
    store = build(tmp_path)
    manifest = json.loads(store.read_bytes("manifest.json"))
    manifest["engines"]["verifier"]["revision"] = "1"
    store.write_bytes("manifest.json", json.dumps(manifest).encode())
    assert not any("own verifier" in control.note for control in publish_controls(store, HEARS).controls)


def test_what_is_no_whole_build_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="not a finished build"):
        publish_controls(open_store(tmp_path / "nothing"), HEARS)
    store = build(tmp_path / "a")
    store.remove("README.md")
    with pytest.raises(BuildError, match=r"README\.md: is missing"):
        publish_controls(store, HEARS)
    store = build(tmp_path / "b")
    (shard,) = store.list("data")
    store.write_bytes(shard, b"PAR1 no more")
    with pytest.raises(CorruptPartError, match="is no shard of TPI rows"):
        publish_controls(store, HEARS)
    assert not store.exists("controls.json")


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["bystander", "evaluate", "controls", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capfd.readouterr()

    store = build(tmp_path / "build")
    code, out, err = run(store.uri, "--judge")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("transcript classifier, twins: 0.500 (0.500 to 0.500); 12 pairs; both twins")
    assert lines[2].startswith("transcript judge fake_text, twins: 0.500")
    assert lines[-1] == f"{store.uri_of('controls.json')}: written, and the card's section with it."
    assert len(lines) == 7
    code, out, _ = run(store.uri, "--profile", "fake", "--text-only")
    assert (code, len(out.splitlines())) == (0, 3)
    code, _, err = run(str(tmp_path / "nowhere"))
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    manifest = json.loads(store.read_bytes("manifest.json"))
    del manifest["config"]["engines"]
    store.write_bytes("manifest.json", json.dumps(manifest).encode())
    code, _, err = run(store.uri)
    assert code == 2
    assert "give --profile" in err
