"""Asks a model server whether it is well and which models it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from bystander.tasks.engines.endpoint_pool import EndpointFault

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PROBE_TIMEOUT_S = 10.0
_NO_SUCH_PAGE = frozenset({404, 405, 501})
_MOST_MODELS_NAMED = 5
_NAMELESS_OWNERS = frozenset({"llamacpp"})
"""Servers that answer for whatever model they are asked."""


async def probe_server(client: AsyncOpenAI, address: str, model: str) -> EndpointFault | None:
    """Return what is wrong with a server, or None if requests may go there.

    It is well if `/health`, where it has such a page, does not answer with a server's error, and `/v1/models`, where it
    has one, does not either and lists the model. A key that is refused is no fault here: the first request says so.
    """
    import openai

    patient = client.with_options(timeout=PROBE_TIMEOUT_S, max_retries=0)
    listing: object = None
    for url, kind in ((locate_health(address), str), ("/models", object)):
        try:
            listing = await patient.get(url, cast_to=kind)
        except openai.APIStatusError as exc:
            if exc.status_code >= 500 and exc.status_code not in _NO_SUCH_PAGE:
                return EndpointFault(f"it is not well ({url} answers {exc.status_code})")
            listing = None
        except openai.APITimeoutError:
            return EndpointFault(f"it does not answer within {PROBE_TIMEOUT_S:g} s")
        except (openai.OpenAIError, ValueError) as exc:
            return EndpointFault(f"it cannot be reached ({name_cause(exc)})")
    others = find_other_models(listing, model)
    return EndpointFault(others, other_model=True) if others is not None else None


def name_cause(exc: BaseException) -> str:
    """Return what the connection's own library says about a failure."""
    cause = exc.__cause__ or exc
    return str(cause) or type(cause).__name__


def find_other_models(listing: Any, model: str) -> str | None:
    """Return which models a server's list has instead of `model`, as the end of a sentence; None where it has it.

    What is no list of models, an empty list, and one by llama.cpp, which does not look at the name, are no fault.
    """
    entries = listing.get("data") if isinstance(listing, dict) else None
    if not isinstance(entries, list):
        return None
    known = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
    names = [entry["id"] for entry in known]
    if not names or model in names or any(entry.get("owned_by") in _NAMELESS_OWNERS for entry in known):
        return None
    named = ", ".join(sorted(names)[:_MOST_MODELS_NAMED])
    more = f" and {len(names) - _MOST_MODELS_NAMED} more" if len(names) > _MOST_MODELS_NAMED else ""
    return f"it serves {named}{more}, not {model!r}"


def locate_health(address: str) -> str:
    """Return the health page of a server whose API is at `address`."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc, f"{parts.path.rstrip('/').removesuffix('/v1')}/health", "", ""))
