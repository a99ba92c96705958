"""Training runs in a store: what is wrong with one is found, and cleaning knows them and what they mention."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from bystander.schemas.errors import InputError
from bystander.schemas.training_data import LeftOutRow
from bystander.storage.build_lock import lock_build
from bystander.storage.collect_garbage import collect_garbage, find_garbage
from bystander.storage.filesystem import Store, open_store
from bystander.storage.kept_builds import KeepRules
from bystander.storage.part_use import record_part_use
from bystander.storage.release_listing import list_builds
from bystander.storage.training_card import render_training_card
from bystander.storage.training_manifest import (
    BaseModelInfo,
    digest_training,
    find_training,
    locate_work_folder,
    open_training,
)
from bystander.storage.verify_training import verify_training
from bystander.tasks.check_build import check_build
from final_rows import make_rows, write_build
from training_runs import TinyConfig, write_run


def say_findings(store: Store) -> list[str]:
    return [str(finding) for finding in verify_training(open_training(store, "run"))]


def test_every_fault_of_a_run_is_found(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    write_run(tmp_path / "store", tmp_path)
    folder = tmp_path / "store" / "trained" / "run"
    assert say_findings(store) == []
    assert check_build(open_training(store, "run")).findings == ()
    (folder / "weights.bin").write_bytes(bytes(999) + b"x")
    (folder / "adapter_config.json").write_text("{} ")
    (folder / "history" / "training.jsonl").unlink()
    (folder / "notes.txt").write_text("mine")
    found = say_findings(store)
    assert found[0] == "adapter_config.json: has 3 bytes, the manifest says 2."
    assert found[1].startswith("weights.bin: has checksum ")
    assert found[2:] == ["history/training.jsonl: is missing.", "notes.txt: is not in the manifest."]
    (folder / "manifest.json").write_text('{"format": "bystander-training"}')
    assert "is damaged or of another version" in say_findings(store)[0]
    assert check_build(open_training(store, "run")).findings
    with pytest.raises(InputError, match="leave out --against"):
        check_build(open_training(store, "run"), against=["other"])


def test_a_run_is_found_by_its_content_while_its_files_are_there(tmp_path: Path) -> None:
    manifest = write_run(tmp_path, tmp_path / "scratch")
    store = open_store(tmp_path)
    assert find_training(store, "run", manifest.content_digest) == manifest
    assert find_training(store, "run", "0" * 64) is None
    assert find_training(store, "other", manifest.content_digest) is None
    (tmp_path / "trained" / "run" / "weights.bin").write_bytes(b"")
    assert find_training(store, "run", manifest.content_digest) is None


def test_publishing_again_leaves_nothing_of_what_was_there(tmp_path: Path) -> None:
    write_run(tmp_path, tmp_path / "scratch")
    (tmp_path / "trained" / "run" / "old.bin").write_bytes(b"x")
    write_run(tmp_path, tmp_path / "scratch")
    assert say_findings(open_store(tmp_path)) == []


def test_an_adapter_says_so_in_its_card(tmp_path: Path) -> None:
    write_run(tmp_path, tmp_path / "scratch", notes=("It is tiny.",), figures={"accuracy": 0.9}, usage="`load(it)`")
    _, head, text = (tmp_path / "trained" / "run" / "README.md").read_text().split("---\n", 2)
    said = yaml.safe_load(head)
    assert (said["base_model"], said["base_model_relation"], said["library_name"]) == (
        "someone/tiny",
        "adapter",
        "peft",
    )
    assert "license" not in said
    assert "datasets" not in said
    for part in ("`load(it)`", "| accuracy | 0.9 |", "- It is tiny.", "2.0000 to 0.0500", "0.0625 at step 40"):
        assert part in text
    assert "\n\n\n" not in text


def test_a_folder_of_this_machine_stands_in_the_text_of_a_card_and_not_in_its_head(tmp_path: Path) -> None:
    manifest = write_run(tmp_path / "store", tmp_path)
    assert manifest.base_model is not None
    local = manifest.base_model.model_copy(update={"name": "models/qwen", "is_local": True})
    manifest = manifest.model_copy(update={"base_model": local})
    _, head, text = render_training_card(manifest).split("---\n", 2)
    said = yaml.safe_load(head)
    assert not {"base_model", "base_model_relation"} & said.keys()
    assert said["library_name"] == "peft"
    assert "Training began with `models/qwen`" in text
    # What decides a run is the model, not where it lay: runs of before this field stay found.
    digests = {digest_training("tpi", TinyConfig(), manifest.data, one) for one in (local, _forget_place(local))}
    assert len(digests) == 1


def _forget_place(base: BaseModelInfo) -> BaseModelInfo:
    return base.model_copy(update={"is_local": False})


def test_rows_left_out_before_and_while_reading_are_counted_in_one_place(tmp_path: Path) -> None:
    read = [
        LeftOutRow(file="a.parquet", row=row, reason=reason)
        for row, reason in (
            (3, "unreadable_audio"),
            (4, "empty_reply"),
            (3, "unreadable_audio"),
            (3, "too_long_to_align"),
        )
    ]
    manifest = write_run(tmp_path / "store", tmp_path, left_out=tuple(read))
    counts = {"empty_reply": 3, "too_long_to_align": 1, "unreadable_audio": 1}  # two before anything was read
    assert manifest.data.left_out == counts
    folder = tmp_path / "store" / "trained" / "run"
    assert len((folder / "left_out.jsonl").read_text().splitlines()) == 4
    assert "left_out.jsonl" in {info.file for info in manifest.files}
    card, page = ((folder / name).read_text("utf-8") for name in ("README.md", "report.html"))
    assert "Rows that were left out: 3 empty_reply, 1 too_long_to_align, 1 unreadable_audio." in card
    for reason, count in counts.items():
        assert re.search(
            rf"<tr><th scope=\"row\">{reason.replace('_', '(_|<wbr>)+')}</th><td[^>]*>{count}</td>", page
        ), reason
    assert (
        manifest.content_digest
        == write_run(tmp_path / "other", tmp_path, data=f"{tmp_path}/store/tpi-train/one").content_digest
    )


def test_cleaning_keeps_runs_and_the_builds_that_they_mention(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    for build in ("one", "two"):
        with lock_build(store, "tpi-train", build):
            record_part_use(store, "tpi-train", build, ())
            write_build(store.uri_of(f"tpi-train/{build}"), make_rows(2, 0), dataset="tpi-train", build=build)
    write_run(tmp_path / "store", tmp_path)
    with lock_build(store, "trained", "half"):
        store.write_bytes("trained/half/weights.bin", b"x")
    work = locate_work_folder(store, "stopped")
    work.mkdir(parents=True)
    (work / "optimizer.pt").write_bytes(bytes(10))

    rules = KeepRules(drop=("tpi-train/*",))
    garbage = collect_garbage(store, rules)
    verdicts = {verdict.build.name: (verdict.goes, verdict.why) for verdict in garbage.verdicts}
    assert verdicts == {
        "tpi-train/one": (False, "trained/run refers to it"),
        "tpi-train/two": (True, "--drop"),
        "trained/half": (False, "an unfinished training run"),
        "trained/run": (False, "a training run"),
    }
    assert garbage.parts_are_known  # a run is made of no parts, so nothing is unknown of it
    assert garbage.checkpoints == {"stopped": 10}
    assert work.exists()
    assert say_findings(store) == []
    assert [build.dataset for build in list_builds(store).builds] == ["tpi-train"]

    going = {verdict.build.name for verdict in find_garbage(store, KeepRules(drop=("trained/*", "tpi-train/*"))).builds}
    assert going == {"tpi-train/one", "trained/half", "trained/run"}
    collect_garbage(store, KeepRules(drop=("trained/*",)))
    assert not (tmp_path / "store" / "trained" / "run").exists()
