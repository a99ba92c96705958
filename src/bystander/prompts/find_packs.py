"""Where packs come from: the built-in ones, those of installed packages, and folders.

A package offers a pack by an entry point of the group `bystander.packs`: its name is the pack's, its value a package
whose folder is the pack's, or `module:attribute` where the attribute is the folder's path or an `importlib.resources`
`Traversable`. A pack may so lie in a zipped package.
"""

from __future__ import annotations

import importlib.metadata
import os
import types
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

from bystander.schemas.errors import PackError

MANIFEST_NAME = "pack.yaml"
ENTRY_POINT_GROUP = "bystander.packs"

Origin = Literal["built-in", "installed", "folder"]


@dataclass(frozen=True, slots=True)
class FoundPack:
    """A place that a pack can be read from.

    `source` is what `load_pack` is given; `place` names the distribution and its version, or the folder. Where `folder`
    is None the pack cannot be had, and `fault` says why.
    """

    source: str
    origin: Origin
    place: str
    folder: Traversable | None
    fault: str = ""


def list_built_in_packs() -> list[str]:
    """Return the names of the packs that come with Bystander."""
    folder = resources.files("bystander.prompts").joinpath("packs")
    return sorted(entry.name for entry in folder.iterdir() if entry.joinpath(MANIFEST_NAME).is_file())


def list_packs() -> list[FoundPack]:
    """Return the packs that can be loaded by name: the built-in ones, then those of installed packages, by name.

    One that cannot be had, because its entry point fails or its name is taken, is in the list with its `fault`.
    """
    found = [_find_built_in(name) for name in list_built_in_packs()]
    points = _list_entry_points()
    for name in sorted({point.name for point in points}):
        try:
            found.append(_open_entry_points(name, [point for point in points if point.name == name]))
        except PackError as exc:
            places = ", ".join(_describe_owner(point) for point in points if point.name == name)
            found.append(FoundPack(name, "installed", places, None, str(exc)))
    return found


def find_pack(source: str) -> FoundPack:
    """Return where the pack `source` is: a built-in one by its name, a folder by its path, or an installed one by name.

    Raises:
        PackError: there is no such pack; its entry point is broken; or the name is that of several.
    """
    if source in list_built_in_packs():
        return _find_built_in(source)
    path = Path(source)
    is_folder = bool(source) and _is_folder(path)
    points = [point for point in _list_entry_points() if point.name == source]
    if points and is_folder:
        owners = " and ".join(_describe_owner(point) for point in points)
        raise PackError(
            f"pack {source!r}: is a folder here and a pack of {owners}; write .{os.sep}{source} for the folder, "
            "or rename it"
        )
    if points:
        return _open_entry_points(source, points)
    if is_folder:
        return FoundPack(source, "folder", str(path), path)
    installed = sorted({point.name for point in _list_entry_points()})
    also = f", nor one of an installed package ({', '.join(installed)})" if installed else ""
    raise PackError(
        f"pack {source!r}: neither a built-in pack ({', '.join(list_built_in_packs())}) nor a folder with a "
        f"{MANIFEST_NAME}{also}"
    )


def _find_built_in(name: str) -> FoundPack:
    return FoundPack(name, "built-in", "bystander", resources.files("bystander.prompts").joinpath("packs", name))


def _is_folder(path: Path) -> bool:
    try:
        if path.is_file():
            raise PackError(f"pack {str(path)!r}: is a file; give the folder that it lies in")
        return path.is_dir()
    except (OSError, ValueError):  # a name too long, or one with a null character
        return False


def _list_entry_points() -> Sequence[importlib.metadata.EntryPoint]:
    points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    return sorted(points, key=lambda point: (point.name, _describe_owner(point), point.value))


def _describe_owner(point: importlib.metadata.EntryPoint) -> str:
    if point.dist is None:
        return "a package without metadata"
    return f"{point.dist.name} {point.dist.version}"


def _open_entry_points(name: str, points: Sequence[importlib.metadata.EntryPoint]) -> FoundPack:
    owners = " and ".join(_describe_owner(point) for point in points)
    if name in list_built_in_packs():
        raise PackError(
            f"pack {name!r}: {owners} offers a pack by the name of a built-in one, which stays what it is; "
            f"rename the entry point in the group {ENTRY_POINT_GROUP}"
        )
    if len(points) > 1:
        raise PackError(
            f"pack {name!r}: {owners} each offer a pack of this name; uninstall all but one, or give a folder's path"
        )
    (point,) = points
    return FoundPack(name, "installed", owners, _open_entry_point(point, f"pack {name!r}: {owners}"))


def _open_entry_point(point: importlib.metadata.EntryPoint, where: str) -> Traversable:
    said = f"its entry point {point.name} = {point.value}"
    try:
        given = point.load()
        if isinstance(given, types.ModuleType):
            folder = resources.files(given.__name__ if hasattr(given, "__path__") else given.__package__ or "")
        else:
            folder = Path(given) if isinstance(given, str | os.PathLike) else given
    # Importing runs the package's own code, which may fail in any way; other packs are not to suffer from it.
    except (Exception, SystemExit) as exc:
        reason = " ".join(str(exc).split())[:300]
        raise PackError(f"{where}: {said} cannot be loaded ({type(exc).__name__}: {reason})") from exc
    if not isinstance(folder, Traversable):
        raise PackError(
            f"{where}: {said} gives a {type(folder).__name__}; name a package, or an attribute that is the path of the "
            "pack's folder"
        )
    if not folder.is_dir():
        raise PackError(f"{where}: {said} leads to {folder}, which is no folder")
    return folder
