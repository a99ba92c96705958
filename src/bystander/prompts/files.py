"""Files of packs and rubrics: read within their folder, and parsed. All faults are `PackError`s."""

from __future__ import annotations

import os
import stat
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import IO, TypeVar

from pydantic import BaseModel, ValidationError

from bystander.prompts.pack_yaml import read_yaml
from bystander.schemas.errors import PackError
from bystander.schemas.field_faults import describe_field_faults

MAX_FILE_BYTES = 64 * 1024

_Manifest = TypeVar("_Manifest", bound=BaseModel)


def read_text(folder: Traversable, name: str) -> str:
    """Return a UTF-8 text file of a pack's folder, with line feeds only.

    Reads no more than `MAX_FILE_BYTES`, nothing outside the folder, whatever links lead there, and nothing but regular
    files: opening a pipe would wait for ever.

    Raises:
        PackError: says what is wrong with the file, without naming it.
    """
    try:
        with _open_inside(folder, name) as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, KeyError) as exc:  # KeyError: no such member of a zipped package
        raise PackError(f"cannot be read ({getattr(exc, 'strerror', None) or 'no such file'})") from exc
    except (ValueError, RuntimeError) as exc:  # a null character in the name; a circle of links
        raise PackError(f"cannot be read ({exc})") from exc
    if len(raw) > MAX_FILE_BYTES:
        raise PackError(f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        raise PackError(f"is not UTF-8 text (at byte {exc.start})") from exc


def _open_inside(folder: Traversable, name: str) -> IO[bytes]:
    if not isinstance(folder, Path):
        # Within a zipped package there are no links, so it is enough to look at the name.
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or name.startswith("/"):
            raise PackError("lies outside the pack's folder")
        return folder.joinpath(*parts).open("rb")
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise PackError("lies outside the pack's folder")
    # Not blocking, for what was a file a moment ago may be a pipe now.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise PackError("cannot be read (it is no regular file)")
    return os.fdopen(descriptor, "rb")


def read_pack_file(folder: Traversable, name: str, where: str) -> str:
    """Return a text file as `read_text` does.

    Raises:
        PackError: names `where`, the file and what is wrong with it.
    """
    try:
        return read_text(folder, name)
    except PackError as exc:
        raise PackError(f"{where}: {name}: {exc}") from exc


def parse_manifest(kind: type[_Manifest], text: str, where: str) -> _Manifest:
    """Parse a YAML manifest into its typed form.

    Raises:
        PackError: it is no YAML of the kind that `read_yaml` takes, or does not fit the form.
    """
    found = read_yaml(text)
    if found.faults:
        said = [
            ": ".join(filter(None, (".".join(map(str, path)), f"{message}{f' (line {line})' if line else ''}")))
            for line, path, message in found.faults
        ]
        raise PackError(f"{where}: {'; '.join(said)}")
    try:
        return kind.model_validate(found.data)
    except ValidationError as exc:
        raise PackError(f"{where}: {describe_field_faults(kind, exc)}") from exc
