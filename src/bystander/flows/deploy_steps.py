"""Steps of `prefect deploy`, as `prefect.yaml` names them."""

from __future__ import annotations

import re

from bystander.schemas.field_types import PATTERNS_IN_WORDS, PLACE


def check_store(store: str) -> None:
    """End `prefect deploy` in one line where BYSTANDER_STORE is missing, or no place that every worker finds.

    The server refuses such a store as well, in some hundred lines.
    """
    if not re.match(PLACE, store):
        raise SystemExit(f"error: BYSTANDER_STORE is {store!r}; set it to {PATTERNS_IN_WORDS[PLACE]}")
