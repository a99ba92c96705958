"""Where in the user's home the servers of engines keep what outlives a build."""

from __future__ import annotations

import os
from pathlib import Path


def find_cache_folder() -> Path:
    """Return our folder below `XDG_CACHE_HOME`, or where that lies by default."""
    return _find_folder("XDG_CACHE_HOME", ".cache")


def find_log_folder(chosen: str | None) -> Path:
    """Return the folder of logs that a configuration names, or else ours below `XDG_STATE_HOME`."""
    return Path(chosen).expanduser() if chosen else _find_folder("XDG_STATE_HOME", ".local/state") / "logs"


def _find_folder(variable: str, otherwise: str) -> Path:
    named = os.environ.get(variable)
    return (Path(named) if named else Path.home() / otherwise) / "bystander"
