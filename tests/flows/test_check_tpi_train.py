"""What stops a build before anything is paid for: errors that only rendering a pack's prompts shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from bystander.flows.check_tpi_train import check_tpi_build, check_tpi_settings
from bystander.prompts.load import load_pack
from bystander.prompts.new_pack import write_new_pack
from bystander.schemas.config import load_bench_config, load_config
from bystander.schemas.errors import PackError
from bystander.tasks.check_pack import check_pack
from tpi_builds import write_queries


@pytest.fixture
def mine(tmp_path):
    return write_new_pack("mine", folder=tmp_path / "mine")


def configure(load, folder, **overrides):
    queries = str(write_queries(folder.parent / "queries.jsonl", 4))
    store = str(folder.parent / "store")
    return load("fake", overrides={"pack": str(folder), "queries.path": queries, "store": store, **overrides})


def edit(folder: Path, old, new, file):
    text = (folder / file).read_text("utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new), "utf-8")


@pytest.mark.parametrize("load", [load_config, load_bench_config])
@pytest.mark.parametrize("check", [check_tpi_build, check_tpi_settings])
def test_a_pack_that_loads_but_cannot_be_rendered(mine, load, check):
    edit(mine, "class.criteria", "class.critera", "label_class.j2")
    load_pack(str(mine))
    errors = check_pack(str(mine)).errors
    with pytest.raises(PackError) as caught:
        check(configure(load, mine))
    assert str(caught.value) == f"pack {mine}: {'; '.join(map(str, errors))}"
    assert any(fault.file == "label_class.j2" and fault.line for fault in errors)


def test_prompts_are_rendered_for_the_builds_own_taxonomy(mine, tmp_path):
    taxonomy = tmp_path / "taxonomy.yaml"
    taxonomy.write_text(
        """\
name: mine
scenarios:
  - key: worried
    category: veto
    definition: Somebody is worried.
    examples: [{primary: "Open the gate.", third_party: "No, the dog.", request: open the gate}]
""",
        "utf-8",
    )
    condition = "{{ request if scenario.key != 'worried' }}"
    edit(mine, "{{ request }}", condition, "write_interruption.j2")
    check_tpi_build(configure(load_config, mine))
    with pytest.raises(PackError, match=r"write_interruption\.j2: section 4 .* is empty \(for scenario worried\)"):
        check_tpi_build(configure(load_config, mine, taxonomy=str(taxonomy)))


def test_warnings_stop_nothing(mine):
    edit(mine, "class.policy", "class.key", "write_reply.j2")
    assert check_pack(str(mine)).warnings
    check_tpi_build(configure(load_config, mine))
