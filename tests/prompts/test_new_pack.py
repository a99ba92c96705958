"""Beginning a pack: the skeleton and copies, and what is refused."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from bystander.prompts.load import load_pack
from bystander.prompts.manifest import PackManifest, TaskManifest
from bystander.prompts.new_pack import write_new_pack
from bystander.schemas.errors import PackError
from bystander.schemas.packs import PackClass
from bystander.tasks.check_pack import check_pack

PACKS = Path(str(resources.files("bystander.prompts")))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_skeleton_is_sound_and_bears_the_name(here):
    assert write_new_pack("my-strategy") == Path("my-strategy")
    report = check_pack("my-strategy")
    assert (report.name, report.faults) == ("my-strategy", ())
    assert [path.name for path in here.iterdir()] == ["my-strategy"]


def test_the_skeleton_explains_every_field_and_variable():
    text = (PACKS / "skeleton" / "pack.yaml").read_text("utf-8")
    fields = {*PackManifest.model_fields, *TaskManifest.model_fields, *PackClass.model_fields}
    explained = [line.strip() for line in text.splitlines()]
    for name in fields:
        at = next(
            i for i, line in enumerate(explained) if line.removeprefix("- ").startswith((f"{name}:", f"#   {name} "))
        )
        assert any(line.startswith(("#", "- #")) for line in explained[max(0, at - 2) : at + 1]), name
    for task, entry in load_pack(str(PACKS / "skeleton")).describe_manifest()["tasks"].items():
        comment = (PACKS / "skeleton" / entry["template"]).read_text("utf-8").partition("#}")[0]
        assert comment.startswith("{#")
        assert all(variable in comment for variable in entry["variables"]), task


def test_a_copy_keeps_comments_and_changes_the_name_only(here):
    write_new_pack("mine", "reference", here / "deep" / "copy")
    for file in (PACKS / "packs" / "reference").iterdir():
        wanted = file.read_text("utf-8").replace("name: reference", "name: mine")
        assert (here / "deep" / "copy" / file.name).read_text("utf-8") == wanted
    assert load_pack(str(here / "deep" / "copy")).name == "mine"


def test_a_copy_of_a_folder_whose_name_stands_behind_other_letters(here):
    write_new_pack("first")
    manifest = here / "first" / "pack.yaml"
    manifest.write_text(
        "# ünïcödé 😀\n" + manifest.read_text("utf-8").replace("name: first", "name:   'first'  # mine")
    )
    write_new_pack("second", "./first")
    assert "\nname:   second  # mine\n" in (here / "second" / "pack.yaml").read_text("utf-8")
    assert load_pack("./second").name == "second"


@pytest.mark.parametrize("name", ["My", "1a", "", "a/b", "../a", "a b", "ä", "-a"])
def test_names(name, here):
    with pytest.raises(PackError, match="cannot be a pack's name"):
        write_new_pack(name)
    assert not list(here.iterdir())


def test_a_built_in_packs_name():
    with pytest.raises(PackError, match="'reference' is the name of a built-in pack"):
        write_new_pack("reference")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_nothing_is_overwritten(here, kind):
    target = here / "mine"
    if kind == "file":
        target.write_text("precious")
    else:
        target.mkdir()
        (target / "notes").write_text("precious")
    with pytest.raises(PackError, match="mine: is there already; nothing was written"):
        write_new_pack("mine")
    kept = target if kind == "file" else target / "notes"
    assert kept.read_text() == "precious"
    assert [path.name for path in here.iterdir()] == ["mine"]


def test_an_empty_folder_is_taken(here):
    (here / "mine").mkdir()
    write_new_pack("mine")
    assert load_pack("./mine").name == "mine"


def test_a_place_that_cannot_be_written(here):
    (here / "file").write_text("")
    with pytest.raises(PackError, match="cannot be written"):
        write_new_pack("mine", folder=here / "file" / "mine")


def test_a_faulty_pack_is_not_copied(here):
    write_new_pack("first")
    (here / "first" / "label_class.j2").unlink()
    with pytest.raises(PackError, match=r"pack \./first: pack\.yaml:\d+: tasks\.label_class\.template"):
        write_new_pack("second", "./first")
    assert not (here / "second").exists()
