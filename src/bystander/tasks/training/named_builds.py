"""Opens the builds that a training names, and says in the user's words where one is of another kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from bystander.schemas.errors import BuildError, InputError
from bystander.schemas.training_data import SourceKind
from bystander.storage.build_manifest import MANIFEST_NAME, ManifestBase, read_build_kind, read_manifest
from bystander.storage.filesystem import Store, open_file, open_store
from bystander.storage.mixture_files import MIXTURES_FORMAT
from bystander.storage.releases import pin_build
from bystander.storage.sid_manifest import read_sid_manifest
from bystander.storage.training_manifest import TRAINING_FORMAT, has_format

_Read = TypeVar("_Read")

_OUTCOMES = (TRAINING_FORMAT, MIXTURES_FORMAT, "bystander-evaluation-manifest")
_WANTED: Mapping[str, str] = {
    "tpi": "a finished TPI build",
    "sid": "a finished build of SID rows",
}
_SAID: Mapping[str, str] = {
    "tpi": "a TPI build",
    "sid": "a build of SID rows",
    "dyadic": "a build of dyadic rows",
}


def open_named_build(
    option: str, address: str, kind: SourceKind, to_train_on: bool = False
) -> tuple[Store, ManifestBase, str]:
    """Return folder and manifest of a finished build, and its address, that of a release in place of `latest`.

    Args:
        option: begins every message: what the user named it with.
        address: folder or URL.
        kind: `tpi` or `sid`.
        to_train_on: whether a bench will not do.

    Raises:
        InputError: it is a bench and is to be trained on.
        BuildError: it is a file, a build of another kind, no finished build, or damaged.
    """
    wanted = f"name the folder of {_WANTED[kind]}, STORE/DATASET/NAME"
    pinned = pin_build(address)
    here = f"{option} {pinned}"
    store = open_store(pinned)
    if not store.exists(MANIFEST_NAME):
        if _is_file(pinned):
            raise BuildError(f"{here}: is a file; {wanted}")
        raise BuildError(f"{here}: there is no {MANIFEST_NAME}, so it is no finished build; {wanted}")
    text = store.read_bytes(MANIFEST_NAME)
    if any(has_format(text, made) for made in _OUTCOMES):
        raise BuildError(f"{here}: is a training run or an evaluation, no build; {wanted}")
    found = _read(option, wanted, read_build_kind, store)
    for other, said in _SAID.items():
        if other != kind and found.startswith(other):
            hint = "; name it with --dyadic" if other == "dyadic" and kind == "tpi" else ""
            raise BuildError(f"{here}: is {said} ({found}); {wanted}{hint}")
    if to_train_on and found == f"{kind}_bench":
        raise InputError(f"{here}: is a bench, which is for scores alone; name a build of {kind}-train rows")
    read: Callable[[Store], ManifestBase] = read_manifest if kind == "tpi" else read_sid_manifest
    return store, _read(option, wanted, read, store), pinned


def _read(option: str, wanted: str, read: Callable[[Store], _Read], store: Store) -> _Read:
    try:
        return read(store)
    except BuildError as exc:
        raise BuildError(f"{option} {exc}; {wanted}") from exc


def _is_file(address: str) -> bool:
    store, name = open_file(address.rstrip("/"))
    path = store.local_path(name)
    return path.is_file() if path is not None else name.lower().endswith((".parquet", ".json", ".jsonl"))
