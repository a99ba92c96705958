"""How somebody who looks at a run in Prefect gets to hear the rows of its build."""

from __future__ import annotations

import shlex
from pathlib import Path

from bystander.storage.build_manifest import REPORT_NAME


def find_report_address(location: str) -> str:
    """Return the address of a build's report: a `file:` URL where the build lies on a disk, else the store's own."""
    address = f"{location.rstrip('/')}/{REPORT_NAME}"
    return address if "://" in location else Path(address).absolute().as_uri()


def make_listen_command(location: str) -> str:
    """Return the command that plays all rows and rejects of a build."""
    return f"bystander listen {shlex.quote(location)}"


def say_how_to_listen(location: str) -> str:
    """Return a line of Markdown with the command."""
    return f"To hear all rows and rejects, run `{make_listen_command(location)}`."
