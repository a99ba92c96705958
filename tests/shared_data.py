"""The data for development, which lies beside the repository on machines that have it."""

from __future__ import annotations

from pathlib import Path

import pytest


def find_shared(*parts: str) -> Path:
    """Return a path of `shared/data` beside the repository (or above, for a work tree); skip the test without it."""
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "data").is_dir():
            return folder.joinpath("shared", "data", *parts)
    pytest.skip("the data for development is not on this machine")
