"""Mistakes in an evaluation's settings that are found before anything runs."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from bystander.flows.check_evaluate_tpi import check_evaluate_tpi, describe_other_pack
from bystander.prompts.load import load_pack
from bystander.prompts.new_pack import write_new_pack
from bystander.schemas.errors import BuildError, ConfigError, InputError, ModelStoreError, PackError
from bystander.storage.build_manifest import PackInfo, read_manifest
from bystander.storage.filesystem import open_store
from evaluations import configure, make_bench_rows, write_bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bench(tmp_path_factory.mktemp("benches") / "bench")


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_good_settings_pass(bench: Path, tmp_path: Path) -> None:
    check_evaluate_tpi(configure(bench, tmp_path))


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"systems": {}}, ConfigError, "systems: name at least one, with --system"),
        ({"set__judges": {}}, ConfigError, "judges: name at least one, with --judge"),
        ({"bench": "/nowhere"}, BuildError, "is not a finished build"),
        ({"pack": "none"}, PackError, "pack 'none'"),
        ({"judges": {"j": {"engine": "llama_cpp", "model": "no-such-model"}}}, ModelStoreError, "no-such-model"),
        ({"judges": {"j": {"engine": "openai", "model": "m", "base_url": "x"}}}, ConfigError, "judge j at 'x'"),
    ],
)
def test_mistakes(bench: Path, tmp_path: Path, fields: dict[str, Any], error: type[Exception], message: str) -> None:
    emptied = fields.pop("set__judges", None)
    config = configure(Path(fields.pop("bench", bench)), tmp_path, **fields)
    if emptied is not None:
        config = config.model_copy(update={"judges": emptied})
    with pytest.raises(error) as fault:
        check_evaluate_tpi(config)
    assert message in str(fault.value)


def test_no_bench(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name the folder of a finished build with --bench"):
        check_evaluate_tpi(configure(tmp_path, tmp_path).model_copy(update={"bench": ""}))


def test_an_endpoint_that_nobody_listens_at(bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    url = f"http://127.0.0.1:{find_free_port()}/v1"
    systems = {"omni": {"engine": "openai_audio", "model": "m", "base_url": url}}
    with pytest.raises(ConfigError, match=f"system omni at {url}: cannot be reached"):
        check_evaluate_tpi(configure(bench, tmp_path, systems=systems))


def test_a_pack_without_rubrics(bench: Path, tmp_path: Path) -> None:
    folder = write_new_pack("copy", "reference", tmp_path / "pack")
    data = yaml.safe_load((folder / "pack.yaml").read_text("utf-8"))
    del data["tasks"]["judge_helpfulness"]
    (folder / "pack.yaml").write_text(json.dumps(data), "utf-8")
    with pytest.raises(PackError, match="no judge_helpfulness; an evaluation judges by these rubrics"):
        check_evaluate_tpi(configure(bench, tmp_path, pack=str(folder)))


def test_a_pack_whose_rubric_cannot_be_rendered(bench: Path, tmp_path: Path) -> None:
    folder = write_new_pack("mine", folder=tmp_path / "mine")
    template = folder / "judge_strategy.j2"
    lines = template.read_text("utf-8").replace("class.policy", "class.policies").splitlines()
    template.write_text("\n".join(lines), "utf-8")
    line = next(number for number, text in enumerate(lines, start=1) if "class.policies" in text)
    with pytest.raises(PackError, match=rf"judge_strategy\.j2:{line}: cannot be rendered"):
        check_evaluate_tpi(configure(bench, tmp_path, pack=str(folder)))


def test_labels_that_the_pack_does_not_have(tmp_path: Path) -> None:
    rows = make_bench_rows()
    rows[0]["label"] = "urgent"
    bench = write_bench(tmp_path / "bench", rows)
    with pytest.raises(ConfigError, match="has rows labelled urgent, but pack 'reference' has the classes actionable"):
        check_evaluate_tpi(configure(bench, tmp_path))
    check_evaluate_tpi(configure(bench, tmp_path, tests=["janus_test"]))


def test_ratings_of_other_systems_alone(bench: Path, tmp_path: Path) -> None:
    ratings = tmp_path / "people.csv"
    ratings.write_text("id,system,rsf\nrow-0000,other,1\n", "utf-8")
    with pytest.raises(InputError, match="rates other, none of the systems that are evaluated: policy"):
        check_evaluate_tpi(configure(bench, tmp_path, ratings=[{"path": str(ratings)}]))


def test_another_pack_is_worth_a_warning(bench: Path, tmp_path: Path) -> None:
    pack = load_pack("reference")
    assert describe_other_pack(read_manifest(open_store(bench)), pack) is None
    other = write_bench(tmp_path / "other", pack=PackInfo(name="mine", digest="d" * 64, classes={"actionable": ()}))
    warning = describe_other_pack(read_manifest(open_store(other)), pack) or ""
    assert "built with pack mine dddddddddddd, and is judged by pack reference" in warning
