"""`bystander build real-world`: mistakes in what it is told are found before Prefect starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bystander.cli.build_real_world import build_real_world
from bystander.schemas.errors import ConfigError, InputError
from real_world_builds import write_talk


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "corpora"),
        ({"corpus": ["a"], "audio": ["b", "c"]}, "audio: is given 2 times for 1 corpora; once each at most"),
        ({"corpus": ["a/"], "profile": "playbook"}, "no profile 'playbook'; there are fake, laptop, paper"),
        ({"corpus": ["a"], "set_": ["undecided=perhaps"]}, "undecided"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_real_world(**{"profile": "fake", **options})  # type: ignore[arg-type]


def test_what_is_named_must_be_there(tmp_path: Path) -> None:
    corpus = str(write_talk(tmp_path / "corpus"))
    out = str(tmp_path / "store")
    with pytest.raises(InputError, match=r"corpus .*nowhere: there is no file"):
        build_real_world(corpus=[str(tmp_path / "nowhere")], profile="fake", out=out)
    with pytest.raises(InputError, match=r"audio .*nowhere: there is no such folder"):
        build_real_world(corpus=[corpus], audio=[str(tmp_path / "nowhere")], profile="fake", out=out)
    (tmp_path / "d.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"decisions .*d.jsonl: line 1: "):
        build_real_world(corpus=[corpus], decisions=str(tmp_path / "d.jsonl"), profile="fake", out=out)
    (tmp_path / "rubrics.yaml").write_text("name: sid\ntasks: {}\n")
    with pytest.raises(Exception, match="rubrics"):
        build_real_world(corpus=[corpus], set_=[f"prompts={tmp_path}"], profile="fake", out=out)
