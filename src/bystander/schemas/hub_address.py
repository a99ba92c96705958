"""How datasets of the Hugging Face hub are addressed: `hf://datasets/NAME/DATASET`."""

from __future__ import annotations

import re

from bystander.schemas.errors import InputError

HUB = "hf://"
"""How addresses on the hub begin."""
_DATASETS = "hf://datasets/"
_NOT_IN_REFS = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[-/.]|[/.]$|^@?$")
"""What `git check-ref-format --branch` refuses."""


def parse_hub_address(address: str) -> str:
    """Return the `NAME/DATASET` of an address.

    Raises:
        InputError: it is written otherwise, or the hub takes no such names.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    repo = address.removeprefix(_DATASETS).rstrip("/")
    if not address.startswith(_DATASETS) or repo.count("/") != 1:
        raise InputError(f"{address}: write it as hf://datasets/NAME/DATASET, NAME being a user or an organisation")
    try:
        validate_repo_id(repo)
    except HFValidationError as exc:
        raise InputError(f"{address}: is no name for a dataset on the hub ({str(exc).rstrip('.')})") from exc
    return repo


def is_ref_name(name: str) -> bool:
    """Tell whether a branch or tag may be called so: the rules of `git check-ref-format`."""
    return _NOT_IN_REFS.search(name) is None
