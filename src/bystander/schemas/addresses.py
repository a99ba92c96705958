"""Addresses of model servers: one, or several that serve the same model."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator


def list_addresses(base_url: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the addresses that a configuration names, in its order."""
    return (base_url,) if isinstance(base_url, str) else base_url


def show_addresses(base_url: str | tuple[str, ...]) -> str:
    """Return the addresses as part of a sentence."""
    return ", ".join(list_addresses(base_url))


def _check_addresses(base_url: str | tuple[str, ...]) -> str | tuple[str, ...]:
    addresses = list_addresses(base_url)
    if not addresses:
        raise ValueError("name at least one address")
    if not all(address.strip() for address in addresses):
        raise ValueError("an address is empty")
    bare = [address.strip().rstrip("/") for address in addresses]
    twice = sorted({address for address in bare if bare.count(address) > 1})
    if twice:
        raise ValueError(f"the same address twice: {', '.join(twice)}")
    return base_url


Addresses = Annotated[str | tuple[str, ...], AfterValidator(_check_addresses)]
"""One address such as `http://gpu-box:8000/v1`, or several."""
