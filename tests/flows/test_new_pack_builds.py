"""What `bystander pack new` writes is a pack that a build runs with, as it is."""

from __future__ import annotations

import pytest

from bystander.prompts.load import load_pack
from bystander.prompts.new_pack import write_new_pack
from tpi_builds import build, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_the_skeleton_builds(tmp_path):
    folder = write_new_pack("my-strategy", folder=tmp_path / "my-strategy")
    built = build(make_config(tmp_path / "store", write_queries(tmp_path / "q.jsonl", 30), 8, pack=str(folder)))
    rows = built.read_rows()
    pack = load_pack(str(folder))
    assert rows.num_rows == 8
    assert set(rows["pack"].to_pylist()) == {"my-strategy"}
    assert set(rows["pack_digest"].to_pylist()) == {pack.digest}
    assert set(rows["label"].to_pylist()) == {"actionable", "ignorable", "hard_negative"}
    assert set(rows["kind"].to_pylist()) == {"correction", "addition", None}
    assert built.outcome.manifest.pack.classes == {"actionable": ("correction", "addition"), "ignorable": ()}
