"""`bystander pack`: list, new and check as a user runs them."""

from __future__ import annotations

import json

import pytest

from bystander.cli.main import app
from bystander.prompts.load import load_pack
from bystander.schemas.errors import PackError


def run(capsys, *words):
    """Return (exit code, output) of a command run in this process."""
    code = app([*words], standalone_mode=False)
    return (code if isinstance(code, int) else 0), capsys.readouterr().out


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_list_says_where_packs_are_from(capsys):
    code, out = run(capsys, "pack", "list")
    digest = load_pack("reference").digest[:12]
    assert code == 0
    line = f"reference: built-in (bystander), language en, classes actionable, ignorable, digest {digest}"
    assert line in out.splitlines()


def test_list_names_what_cannot_be_loaded(capsys, here, monkeypatch):
    info = here / "site" / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[bystander.packs]\nacme = no_such_module\n")
    monkeypatch.syspath_prepend(str(here / "site"))
    code, out = run(capsys, "pack", "list")
    assert code == 0
    assert "acme: installed (acme 1.0), cannot be loaded: pack 'acme': acme 1.0: its entry point acme" in out
    assert "reference: built-in" in out


def test_new_then_check(capsys, here):
    assert run(capsys, "pack", "new", "my-strategy") == (
        0,
        "wrote ./my-strategy; after each change: bystander pack check ./my-strategy\n"
        "build with it: bystander build tpi-train --pack ./my-strategy\n",
    )
    code, out = run(capsys, "pack", "check", "./my-strategy")
    assert code == 0
    assert out.splitlines()[-1].startswith("./my-strategy: sound; digest ")
    with pytest.raises(PackError, match="is there already"):
        app(["pack", "new", "my-strategy"], standalone_mode=False)


def test_check_prints_every_fault_and_exits_with_1(capsys, here):
    run(capsys, "pack", "new", "mine")
    manifest = here / "mine" / "pack.yaml"
    manifest.write_text(manifest.read_text().replace("language: en", "language: en\ncolour: red"))
    (here / "mine" / "label_kind.j2").write_text("=== user\n{{ nothing }}\n")
    code, out = run(capsys, "pack", "check", "mine")
    assert code == 1
    lines = [line for line in out.splitlines() if line.startswith("error: ")]
    assert lines[0].startswith("error: pack.yaml:13: colour: no such field")
    assert "error: label_kind.j2:2: uses nothing, which is not declared among the task's variables" in lines
    assert out.splitlines()[-1].startswith(f"mine: {len(lines)} errors and 0 warnings")


def test_strict_and_json(capsys, here):
    run(capsys, "pack", "new", "mine")
    manifest = here / "mine" / "pack.yaml"
    manifest.write_text(manifest.read_text().partition("\n  judge_helpfulness:")[0])
    code, out = run(capsys, "pack", "check", "mine")
    assert code == 0
    line = manifest.read_text().splitlines().index("tasks:") + 1
    assert (
        f"warning: pack.yaml:{line}: tasks: no judge_helpfulness, judge_one_speaker_helpfulness: the pack builds" in out
    )
    assert run(capsys, "pack", "check", "mine", "--strict")[0] == 1
    code, out = run(capsys, "pack", "check", "mine", "--json", "--strict")
    report = json.loads(out)
    assert code == 1
    assert (report["name"], report["passed"], report["digest"]) == ("mine", False, load_pack("./mine").digest)
    (fault,) = report["faults"]
    assert (fault["level"], fault["file"], fault["field"]) == ("warning", "pack.yaml", "tasks")
    assert report["prompts"]["write_reply"]["reply_tokens"] == 160
