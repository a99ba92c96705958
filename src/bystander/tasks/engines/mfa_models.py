"""The dictionaries and models that the Montreal Forced Aligner has: files of the user's, or in its own folder.

What goes by name lies at `<root>/pretrained_models/<kind>/<name>` with one of a few endings, where
`mfa model download` puts it. The root is the variable MFA_ROOT_DIR, else Documents/MFA at home.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, get_args

from bystander.schemas.errors import EngineSetupError

ModelKind = Literal["acoustic", "dictionary", "g2p"]
MODEL_KINDS: tuple[ModelKind, ...] = get_args(ModelKind)

_ENDINGS: dict[ModelKind, tuple[str, ...]] = {
    "acoustic": (".zip", ".am"),
    "dictionary": (".dict", ".txt", ".yaml", ".yml"),
    "g2p": (".zip", ".g2p"),
}


def locate_root(root_dir: str | None) -> Path:
    """Return MFA's own folder: `root_dir`, or where MFA has it by default."""
    return Path(root_dir or os.environ.get("MFA_ROOT_DIR") or "~/Documents/MFA").expanduser().absolute()


def list_models(kind: ModelKind, root: Path) -> list[str]:
    """Return the names of the models of a kind that MFA has, in order."""
    folder = root / "pretrained_models" / kind
    return sorted({path.stem for path in folder.glob("*") if path.suffix in _ENDINGS[kind]})


def find_model(kind: ModelKind, name: str, root: Path) -> Path:
    """Return the file or folder of a model that is given by name or by path.

    Raises:
        EngineSetupError: MFA has none of that name, and there is no such file.
    """
    for ending in _ENDINGS[kind]:
        path = root / "pretrained_models" / kind / f"{name}{ending}"
        if path.exists():
            return path
    own = Path(name).expanduser()
    if own.exists() and (own.is_dir() or own.suffix in _ENDINGS[kind]):
        return own.absolute()
    if own.exists():
        endings = ", ".join(_ENDINGS[kind])
        raise EngineSetupError(f"mfa: {kind} {name}: must end in one of {endings}")
    if os.sep in name:
        raise EngineSetupError(f"mfa: {kind} {name}: no such file")
    names = ", ".join(list_models(kind, root)) or "none"
    raise EngineSetupError(
        f"mfa: no {kind} model is called {name!r} in {root} (there: {names}); run: mfa model download {kind} {name}; "
        "or give the path of one, or leave the language out"
    )
