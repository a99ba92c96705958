"""Packs by path, by name among the built-ins, and by an installed package's entry point."""

from __future__ import annotations

import shutil
import sys
import zipfile
from importlib import resources
from pathlib import Path

import pytest

from bystander.prompts.find_packs import ENTRY_POINT_GROUP, list_built_in_packs, list_packs
from bystander.prompts.load import load_pack
from bystander.schemas.errors import PackError

REFERENCE = Path(str(resources.files("bystander.prompts"))) / "packs" / "reference"


def write_pack(folder: Path, name: str) -> Path:
    shutil.copytree(REFERENCE, folder)
    manifest = folder / "pack.yaml"
    manifest.write_text(manifest.read_text("utf-8").replace("name: reference", f"name: {name}"), "utf-8")
    return folder


class Site:
    """A folder on `sys.path` in which distributions are installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, distribution: str, points: dict[str, str], version: str = "1.0") -> None:
        info = self.folder / f"{distribution}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        lines = [f"{name} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{ENTRY_POINT_GROUP}]", *lines, ""]))

    def write_module(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a site whose modules are forgotten again afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    known = set(sys.modules)
    (tmp_path / "site").mkdir()
    yield Site(tmp_path / "site")
    for name in set(sys.modules) - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def find(source):
    return next(found for found in list_packs() if found.source == source)


class TestEntryPoints:
    def test_a_package_is_the_folder_of_its_pack(self, site):
        site.write_module("acme_pack/__init__.py", "")
        for file in write_pack(site.folder / "tmp", "acme").iterdir():
            shutil.copy(file, site.folder / "acme_pack")
        site.install("acme-packs", {"acme": "acme_pack"})
        assert load_pack("acme").name == "acme"
        assert (find("acme").origin, find("acme").place) == ("installed", "acme-packs 1.0")
        assert "acme" not in list_built_in_packs()

    @pytest.mark.parametrize(
        "value",
        [
            "__import__('os').path.join(__import__('os').path.dirname(__file__), 'packs', 'acme')",
            "__import__('pathlib').Path(__file__).parent / 'packs' / 'acme'",
            "__import__('importlib.resources').resources.files(__name__).joinpath('packs').joinpath('acme')",
        ],
        ids=["text", "path", "traversable"],
    )
    def test_an_attribute_leads_to_the_folder(self, site, value):
        site.write_module("acme/__init__.py", f"FOLDER = {value}\n")
        write_pack(site.folder / "acme" / "packs" / "acme", "acme")
        site.install("acme", {"acme": "acme:FOLDER"})
        assert load_pack("acme").name == "acme"

    def test_a_zipped_package(self, site, tmp_path, monkeypatch):
        pack = write_pack(tmp_path / "pack", "zipped")
        with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
            archive.writestr("zipped_pack/__init__.py", "")
            for file in sorted(pack.iterdir()):
                archive.write(file, f"zipped_pack/{file.name}")
        monkeypatch.syspath_prepend(str(tmp_path / "zipped.zip"))
        site.install("zipped", {"zipped": "zipped_pack"})
        assert load_pack("zipped").digest == load_pack(str(pack)).digest

    def test_a_zipped_pack_stays_within_its_folder(self, site, tmp_path, monkeypatch):
        manifest = (REFERENCE / "pack.yaml").read_text("utf-8").replace("name: reference", "name: zipped")
        with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
            archive.writestr("zipped_pack/__init__.py", "")
            archive.writestr("zipped_pack/pack.yaml", manifest.replace("label_kind.j2", "../secret.j2"))
            archive.writestr("secret.j2", "=== user\nsecret")
        monkeypatch.syspath_prepend(str(tmp_path / "zipped.zip"))
        site.install("zipped", {"zipped": "zipped_pack"})
        with pytest.raises(PackError) as caught:
            load_pack("zipped")
        assert "../secret.j2: lies outside the pack's folder" in str(caught.value)
        assert "label_class.j2: cannot be read" in str(caught.value)

    def test_a_built_in_name_is_not_taken_over(self, site, tmp_path):
        site.write_module("thief.py", f"FOLDER = {str(write_pack(tmp_path / 'pack', 'thief'))!r}\n")
        site.install("thief", {"reference": "thief:FOLDER"})
        assert load_pack("reference").name == "reference"
        built_in, stolen = (found for found in list_packs() if found.source == "reference")
        assert built_in.origin == "built-in"
        assert "thief 1.0 offers a pack by the name of a built-in one" in stolen.fault

    def test_one_name_of_two_distributions(self, site, tmp_path):
        site.write_module("acme.py", f"FOLDER = {str(write_pack(tmp_path / 'pack', 'acme'))!r}\n")
        site.install("first", {"acme": "acme:FOLDER"})
        site.install("second", {"acme": "acme:FOLDER"}, "2.5")
        with pytest.raises(PackError, match=r"pack 'acme': first 1\.0 and second 2\.5 each offer a pack"):
            load_pack("acme")

    def test_a_name_that_is_a_folder_too(self, site, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        site.write_module("acme.py", f"FOLDER = {str(write_pack(tmp_path / 'pack', 'acme'))!r}\n")
        site.install("acme", {"acme": "acme:FOLDER"})
        write_pack(tmp_path / "acme", "mine")
        with pytest.raises(PackError, match=r"is a folder here and a pack of acme 1\.0; write \./acme"):
            load_pack("acme")
        assert load_pack("./acme").name == "mine"

    @pytest.mark.parametrize(
        ("module", "value", "part"),
        [
            ("raise RuntimeError('no licence')", "broken", "cannot be loaded (RuntimeError: no licence)"),
            ("import sys; sys.exit(3)", "broken", "cannot be loaded (SystemExit: 3)"),
            ("syntax error", "broken", "cannot be loaded (SyntaxError"),
            ("", "broken:nothing", "cannot be loaded (AttributeError"),
            ("", "missing_module", "cannot be loaded (ModuleNotFoundError"),
            ("F = 3", "broken:F", "gives a int; name a package"),
            ("F = '/no/such/folder'", "broken:F", "which is no folder"),
        ],
    )
    def test_one_that_fails_is_named_and_breaks_no_other(self, site, tmp_path, module, value, part):
        site.write_module("broken.py", module)
        site.write_module("acme.py", f"FOLDER = {str(write_pack(tmp_path / 'pack', 'acme'))!r}\n")
        site.install("broken-packs", {"bad": value})
        site.install("acme", {"acme": "acme:FOLDER"})
        with pytest.raises(PackError) as caught:
            load_pack("bad")
        assert part in str(caught.value)
        assert "broken-packs 1.0" in str(caught.value)
        assert part in find("bad").fault
        assert not find("acme").fault
        assert load_pack("acme").name == "acme"

    def test_the_entry_points_name_is_the_packs(self, site, tmp_path):
        site.write_module("acme.py", f"FOLDER = {str(write_pack(tmp_path / 'pack', 'other'))!r}\n")
        site.install("acme", {"acme": "acme:FOLDER"})
        with pytest.raises(PackError, match=r"pack\.yaml:2: name: 'other' must be the name of the entry point, 'acme'"):
            load_pack("acme")

    def test_what_there_is_is_named_where_a_pack_is_not_found(self, site):
        site.install("acme", {"acme": "acme:FOLDER"})
        with pytest.raises(PackError, match=r"nor one of an installed package \(acme\)"):
            load_pack("acne")

    def test_a_file_is_no_folder(self):
        with pytest.raises(PackError, match=r"pack\.yaml': is a file; give the folder that it lies in"):
            load_pack(str(REFERENCE / "pack.yaml"))

    @pytest.mark.parametrize("source", ["", "a\0b", "x" * 5000, "no/such"])
    def test_odd_names(self, source):
        with pytest.raises(PackError):
            load_pack(source)
