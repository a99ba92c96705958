"""Two builds of the same requests with two packs: what `pack diff` and `pack preview` say of them."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from bystander.cli.main import main
from bystander.pages.pack_diff import render_pack_diff
from bystander.schemas.engines import TextRequest
from bystander.schemas.errors import BuildError
from bystander.schemas.pack_diff import PackDiff
from bystander.tasks.compare_costs import count_calls
from bystander.tasks.compare_packs import compare_packs
from bystander.tasks.compared_rows import read_compared_build
from bystander.tasks.engines.fake_text import FakeTextEngine
from bystander.tasks.preview_pack import preview_pack
from html_pages import Page
from tpi_builds import Built, build, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")

ROWS = 20
CHANGED = "Answer in one cheerful sentence."


@dataclass
class Builds:
    a: Built
    b: Built
    pack: Path
    calls: list[Counter[str]]
    """Requests that each build put to the text engine, by task."""


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """A build with the reference pack, and one with a copy that asks about `ignorable`, and words replies otherwise."""
    folder = tmp_path_factory.mktemp("packs")
    pack = folder / "cheerful"
    with resources.as_file(resources.files("bystander.prompts").joinpath("packs/reference")) as reference:
        shutil.copytree(reference, pack)
    data = yaml.safe_load((pack / "pack.yaml").read_text("utf-8"))
    data["name"] = "cheerful"
    # The last class is the default, so that now the judge is asked about the other one.
    data["classes"].reverse()
    data["classes"][0]["criteria"] = "The remark is talk that has nothing to do with the task."
    (pack / "pack.yaml").write_text(yaml.safe_dump(data, sort_keys=False), "utf-8")
    template = pack / "write_reply.j2"
    template.write_text(template.read_text("utf-8").replace("=== system\n", f"=== system\n{CHANGED} ", 1), "utf-8")
    queries = write_queries(folder / "queries.jsonl")
    calls: list[Counter[str]] = []
    generate = FakeTextEngine.generate
    tries: Counter[str] = Counter()

    def overhear(engine: FakeTextEngine, requests: Sequence[TextRequest], on_reply: Any = None) -> Any:
        calls[-1].update(request.task for request in requests)
        replies = generate(engine, requests, on_reply)
        for at, request in enumerate(requests):
            if request.task == "write_reply" and "kettle" in request.variables["third_party"]:
                tries[request.variables["third_party"]] += 1
                if tries[request.variables["third_party"]] == 1:  # a first try that is no reply
                    replies[at] = type(replies[at])(text="", value={})
        return replies

    built = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeTextEngine, "generate", overhear)
        for name, source in (("a", "reference"), ("b", str(pack))):
            calls.append(Counter())
            tries.clear()
            # Each in a store of its own, where no other build has left results.
            built.append(build(make_config(folder / f"store-{name}", queries, ROWS, build=name, pack=source)))
    return Builds(*built, pack=pack, calls=calls)


@pytest.fixture(scope="module")
def found(builds: Builds) -> PackDiff:
    return compare_packs(str(builds.a.folder), str(builds.b.folder), limit=4)


def read_labelled(built: Built) -> pd.DataFrame:
    """Return all rows with a label, as pandas reads them: those of the shards and those that quotas left out."""
    columns = ["id", "n_speakers", "label", "label_score", "kind", "reply", "request", "third_party_text"]
    files = [built.folder / shard.file for shard in built.outcome.manifest.shards]
    frames = [pd.read_parquet(path, columns=columns) for path in files]
    surplus = built.folder / "rejects/select_quotas.parquet"
    if surplus.exists():
        frames.append(pd.read_parquet(surplus, columns=columns))
    rows = pd.concat(frames)
    return rows[rows["n_speakers"] == 2].set_index("id")


def test_flips_are_those_that_pandas_counts(builds: Builds, found: PackDiff) -> None:
    a, b = read_labelled(builds.a), read_labelled(builds.b)
    both = a.merge(b, left_index=True, right_index=True, suffixes=("_a", "_b"))
    expected = pd.crosstab(both["label_a"], both["label_b"])
    for one, row in found.labels.matrix.items():
        for other, count in row.items():
            assert count == expected.loc[one, other], (one, other)
    assert found.shared.compared == len(both)
    assert found.shared.other_words == 0
    flipped = (both["label_a"] != both["label_b"]).mean()
    assert 0 < flipped < 1
    assert found.labels.flipped.mean == pytest.approx(flipped)
    for row in found.flip_examples:
        assert row.a.label == both.loc[row.id, "label_a"] != row.b.label == both.loc[row.id, "label_b"]
        assert (row.a.reply, row.b.reply) == (both.loc[row.id, "reply_a"], both.loc[row.id, "reply_b"])
    same = both[(both["label_a"] == "actionable") & (both["label_b"] == "actionable")]
    alike = next(group for group in found.replies if group.group == "actionable")
    assert (alike.rouge_l.n, alike.identical.mean) == (len(same), (same["reply_a"] == same["reply_b"]).mean())


def test_rows_of_one_build_are_found_in_the_other(builds: Builds, found: PackDiff) -> None:
    ids = {}
    for name, built in (("a", builds.a), ("b", builds.b)):
        rows = built.read_rows().select(["id", "n_speakers"]).to_pylist()
        ids[name] = {row["id"] for row in rows if row["n_speakers"] == 2}
    assert found.membership_a.in_both == len(ids["a"] & ids["b"])
    assert found.membership_a.only_here == len(ids["a"] - ids["b"]) == sum(found.membership_a.elsewhere.values())
    assert found.membership_b.only_here == len(ids["b"] - ids["a"]) == sum(found.membership_b.elsewhere.values())


def test_calls_are_those_that_were_made(builds: Builds, found: PackDiff) -> None:
    for built, calls in zip((builds.a, builds.b), builds.calls, strict=True):
        counted = count_calls(read_compared_build(str(built.folder)))
        assert {task: pytest.approx(number) for task, number in calls.items()} == counted
    assert {task.task: task.calls_a for task in found.cost.tasks} == count_calls(
        read_compared_build(str(builds.a.folder))
    )


def test_prompts_have_the_size_of_their_packs(builds: Builds, found: PackDiff) -> None:
    sizes = {task.task: task for task in found.cost.tasks}
    reply = sizes["write_reply"]
    assert reply.characters_a is not None
    # Quotas ended the builds at different rows, so that the texts in the prompts are not all the same.
    assert reply.characters_b == pytest.approx(reply.characters_a + len(CHANGED) + 1, abs=3)
    assert sizes["check_realism"].characters_a == pytest.approx(sizes["check_realism"].characters_b, abs=3)
    assert found.cost.pack_fault_a is None
    assert found.cost.tokens_per_row_a is not None


def test_a_pack_that_has_changed_is_not_measured(builds: Builds, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.move(builds.pack, kept)
    try:
        found = compare_packs(str(builds.a.folder), str(builds.b.folder))
        assert "cannot be loaded any more" in str(found.cost.pack_fault_b)
        shutil.copytree(kept, builds.pack)
        (builds.pack / "write_reply.j2").write_text((kept / "write_reply.j2").read_text("utf-8") + "\n.", "utf-8")
        found = compare_packs(str(builds.a.folder), str(builds.b.folder))
        assert "has changed since b was made" in str(found.cost.pack_fault_b)
        assert all(task.tokens_b is None for task in found.cost.tasks)
        assert found.cost.tokens_per_row_b is None
    finally:
        shutil.rmtree(builds.pack, ignore_errors=True)
        shutil.move(kept, builds.pack)


def test_a_build_against_itself_says_so(builds: Builds) -> None:
    found = compare_packs(str(builds.a.folder), str(builds.a.folder))
    assert found.notes == ("Both builds have the very same pack: whatever differs comes from elsewhere.",)
    assert found.labels.flipped.mean == 0
    assert not found.flip_examples
    assert not found.reply_examples
    assert {group.identical.mean for group in found.replies} == {1.0}


def test_the_page_shows_it_and_loads_nothing(found: PackDiff) -> None:
    page = Page(render_pack_diff(found))
    assert render_pack_diff(found) == render_pack_diff(found)
    assert not [a for a in (*page.find("script"), *page.find("link"), *page.find("img")) if a]
    for row in (*found.flip_examples, *found.reply_examples):
        assert row.id in page.text
    assert "A: reference" in page.text
    assert "B: cheerful" in page.text


def test_the_command_writes_json_and_a_page(
    builds: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["bystander", "pack", "diff", str(builds.a.folder), str(builds.b.folder), "--limit", "1"]
    monkeypatch.setattr(sys, "argv", [*command, "--json", "--out", str(tmp_path / "pages")])
    with pytest.raises(SystemExit) as end:
        main()
    out, _ = capfd.readouterr()
    assert end.value.code == 0
    assert PackDiff.model_validate(json.loads(out)).shared.compared > 0
    assert (tmp_path / "pages" / "pack_diff.html").read_text("utf-8").startswith("<!doctype html>")
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit):
        main()
    out, _ = capfd.readouterr()
    assert "Labels in A (rows) and in B (columns)" in out
    assert "Cohen's kappa" in out


def test_a_preview_of_a_build_s_rows_says_what_the_build_has(builds: Builds, tmp_path: Path) -> None:
    config = make_config(tmp_path / "store", Path("unread.jsonl"), seed=5)
    preview = preview_pack(
        str(builds.pack), rows_from=str(builds.b.folder), limit=6, config=config, against=["reference"]
    )
    mine, reference = preview.answers
    for answers, built in ((mine, builds.b), (reference, builds.a)):
        rows = read_labelled(built)
        known = [answer for answer in answers.answers if answer.row in rows.index]
        assert len(known) >= 3
        for answer in known:
            row = rows.loc[answer.row]
            assert (answer.label, answer.label_score, answer.kind, answer.reply) == (
                row["label"],
                pytest.approx(row["label_score"]),
                row["kind"] if pd.notna(row["kind"]) else None,
                row["reply"],
            )


def test_builds_of_other_requests_have_nothing_in_common(builds: Builds, tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    texts = [f"Remind me to call my aunt about {what}." for what in ("the boat", "the garden", "a cake", "the fence")]
    queries.write_text("".join(json.dumps({"question": text}) + "\n" for text in texts), "utf-8")
    other = build(make_config(builds.a.folder.parents[1], queries, 4, build="other"))
    with pytest.raises(BuildError, match="have no row in common; packs are compared over builds of the same requests"):
        compare_packs(str(builds.a.folder), str(other.folder))
