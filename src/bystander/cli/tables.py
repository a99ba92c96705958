"""How commands show tables and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def open_console(width: int = 120) -> Console:
    """Return the console that tables are printed to: as wide as the terminal, and `width` in a file or a pipe."""
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False)
    if not console.is_terminal:
        console.width = width
    return console


def format_mb(size: int) -> str:
    """Return a size in bytes as megabytes, without the unit."""
    return f"{size / 1e6:,.1f}"
