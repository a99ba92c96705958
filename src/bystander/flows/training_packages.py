"""Whether the packages are installed that training needs, seen before anything is read."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from bystander.schemas.errors import EngineSetupError

PACKAGES = ("torch", "transformers", "accelerate")


def require_packages(names: Iterable[str] = PACKAGES) -> None:
    """Do nothing if the packages that training needs are installed.

    Raises:
        EngineSetupError: one is missing; the message says how to install it.
    """
    if missing := [name for name in names if find_spec(name) is None]:
        raise EngineSetupError(f"training needs {', '.join(missing)}; run: pip install 'bystander[train]'")
