"""Beginning a pack: a commented skeleton, or a copy of another pack, under a name of its own."""

from __future__ import annotations

import re
import shutil
import tempfile
from importlib import resources
from pathlib import Path

from bystander.prompts.find_packs import MANIFEST_NAME, FoundPack, find_pack, list_built_in_packs
from bystander.prompts.manifest import PackManifest
from bystander.prompts.read_pack import PackParts, read_pack
from bystander.schemas.errors import PackError

SKELETON = "skeleton"


def write_new_pack(name: str, source: str = SKELETON, folder: Path | None = None) -> Path:
    """Write a pack of this name into a new folder (by default one of that name, here), and return the folder.

    `source` is `SKELETON` or a pack to copy, whose comments stay. The folder appears whole or not at all.

    Raises:
        PackError: the name cannot be one or is a built-in pack's; the source is no sound pack; the folder is there and
            not empty, or cannot be made.
    """
    pattern = next(item.pattern for item in PackManifest.model_fields["name"].metadata if hasattr(item, "pattern"))
    if not re.fullmatch(pattern, name):
        raise PackError(f"{name!r} cannot be a pack's name; use small letters, digits, _ and -, a letter first")
    if name in list_built_in_packs():
        raise PackError(f"{name!r} is the name of a built-in pack; choose another")
    parts = _read_source(source)
    folder = folder or Path(name)
    files = {**parts.files, MANIFEST_NAME: _rename(parts, name)}
    try:
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise PackError(f"{folder}: is there already; nothing was written, choose another folder with --to")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as aside:
            whole = Path(aside) / name
            for file, text in files.items():
                (whole / file).parent.mkdir(parents=True, exist_ok=True)
                (whole / file).write_text(text, "utf-8")
            if folder.exists():
                folder.rmdir()
            shutil.move(whole, folder)
    except OSError as exc:
        raise PackError(f"{folder}: cannot be written ({exc.strerror})") from exc
    return folder


def _read_source(source: str) -> PackParts:
    if source == SKELETON:
        folder = resources.files("bystander.prompts").joinpath(SKELETON)
        found = FoundPack(SKELETON, "built-in", "bystander", folder)
    else:
        found = find_pack(source)
    parts = read_pack(found)
    if parts.errors:
        raise PackError(f"pack {source}: {parts.errors[0]}; see `bystander pack check {source}`")
    return parts


def _rename(parts: PackParts, name: str) -> str:
    assert parts.yaml.name_span is not None
    text = parts.files[MANIFEST_NAME]
    begin, end = parts.yaml.name_span
    return f"{text[:begin]}{name}{text[end:]}"
