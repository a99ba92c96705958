"""Whether the packages are there that training needs: installed, before anything is read, and fit to be loaded."""

from __future__ import annotations

from collections.abc import Iterable

from bystander.tasks.engines import package_check

PACKAGES = ("torch", "transformers", "accelerate")


def require_packages(names: Iterable[str] = PACKAGES) -> None:
    """Do nothing if the packages that training needs are installed.

    Raises:
        EngineSetupError: one is missing; the message says how to install it.
    """
    package_check.require_packages(names, "training", "train")


def load_packages(names: Iterable[str] = PACKAGES) -> None:
    """Load the packages that training needs, which takes seconds: so it comes after all other checks.

    Raises:
        EngineSetupError: one is missing, or broken; the message has the cause.
    """
    package_check.load_packages(names, "training", "train")
