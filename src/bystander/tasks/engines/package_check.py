"""Whether the packages of an optional part are installed, and whether they can be loaded at all."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec

from bystander.schemas.errors import EngineSetupError

_MOST_LETTERS = 200


def require_packages(names: Iterable[str], needed_by: str, extra: str) -> None:
    """Do nothing if packages are installed; none is loaded for that.

    Args:
        names: of modules.
        needed_by: begins the message.
        extra: ours, which brings them.

    Raises:
        EngineSetupError: some are missing; the message says how to install them.
    """
    if missing := [name for name in names if find_spec(name) is None]:
        raise EngineSetupError(f"{needed_by} needs {', '.join(missing)}; run: pip install 'bystander[{extra}]'")


def load_packages(names: Iterable[str], needed_by: str, extra: str) -> None:
    """Load packages, which takes seconds; one may be installed and broken all the same.

    Raises:
        EngineSetupError: one is missing or cannot be loaded; the message has the cause.
    """
    names = tuple(names)
    require_packages(names, needed_by, extra)
    for name in names:
        try:
            import_module(name)
        except Exception as exc:  # a library that does not fit raises OSError, a half installed package nearly anything
            cause = " ".join(str(exc).split())[:_MOST_LETTERS].rstrip(".") or type(exc).__name__
            raise EngineSetupError(
                f"{needed_by} needs {name}, which is installed and cannot be loaded ({cause}); install it anew: "
                f"pip install --force-reinstall {name}"
            ) from exc
