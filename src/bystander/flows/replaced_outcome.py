"""Says that what lies under a name will be replaced, before the work begins that replaces it."""

from __future__ import annotations

from collections.abc import Callable

from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.filesystem import Store


def tell_replaced(folder: Store, tell: Callable[[str], None]) -> None:
    """Tell if a finished run or evaluation lies in a folder; to be called where it is not the one that is asked for."""
    if folder.exists(MANIFEST_NAME):
        tell(
            f"{folder.uri}: will be replaced, since what lies there comes of other settings or data, or is damaged; "
            "another --name would keep both"
        )
