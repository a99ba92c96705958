"""What the Hugging Face hub's client raises, as our errors: one sentence that says what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from bystander.schemas.errors import BystanderError, InputError, StorageError, StoreAccessError, StoreUnavailableError

_AGAIN = "run the same command again, which goes on from there"


@contextlib.contextmanager
def wrap_hub_errors(repo: str, doing: str) -> Iterator[None]:
    """Translate what is raised in the block; `doing` says what was tried, such as `upload data/x.parquet`.

    Raises:
        InputError: a name is none that the hub takes.
        StoreAccessError: the token is missing, wrong or may not do this, or there is no such repository.
        StoreUnavailableError: the hub cannot be reached, is overloaded, or the repository was changed meanwhile.
        StorageError: the hub refused it for another reason.
    """
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled, RepositoryNotFoundError

    http_error = HfHubHTTPError.__mro__[1]  # of whatever HTTP client this version uses

    try:
        yield
    except BystanderError:
        raise
    except HFValidationError as exc:
        raise InputError(f"{repo}: is no name for a dataset on the hub ({exc})") from exc
    except OfflineModeIsEnabled as exc:
        raise StoreAccessError(f"{repo}: cannot {doing}, since HF_HUB_OFFLINE is set; unset it") from exc
    except Exception as exc:  # its HTTP client has errors of its own, and threads of it wrap them once more
        causes = [*_list_causes(exc)]
        refusal = next((cause for cause in causes if isinstance(cause, HfHubHTTPError)), None)
        if isinstance(refusal, RepositoryNotFoundError):
            raise _translate(404, refusal, repo, doing) from exc
        if refusal is not None:
            raise _translate(refusal.response.status_code, refusal, repo, doing) from exc
        if any(isinstance(cause, (http_error, OSError)) for cause in causes):
            raise StoreUnavailableError(f"{repo}: cannot {doing} ({_shorten(exc)}); {_AGAIN}") from exc
        raise StorageError(f"{repo}: cannot {doing} ({_shorten(exc)})") from exc


def _translate(status: int, exc: Exception, repo: str, doing: str) -> BystanderError:
    if status == 401:
        return StoreAccessError(
            f"{repo}: cannot {doing}: the token is not taken; log in again with `hf auth login`, or set HF_TOKEN anew"
        )
    if status == 404:
        return StoreAccessError(
            f"{repo}: cannot {doing}: there is no such dataset, or the token may not see it; check the name, and log "
            "in with `hf auth login` or set HF_TOKEN"
        )
    if status == 403:
        return StoreAccessError(
            f"{repo}: cannot {doing}: the token may not write there; publish to a name of your own or of an "
            "organisation that lets you, with a token that has the right to write"
        )
    if status in (409, 412):
        return StoreUnavailableError(f"{repo}: cannot {doing}: it was changed meanwhile; {_AGAIN}")
    if status == 429 or status >= 500:
        return StoreUnavailableError(f"{repo}: cannot {doing}: the hub answers {status}; {_AGAIN}")
    return StorageError(f"{repo}: cannot {doing}: the hub answers {status} ({_shorten(exc)})")


def _list_causes(exc: BaseException | None) -> Iterator[BaseException]:
    while exc is not None:
        yield exc
        exc = exc.__cause__ or exc.__context__


def _shorten(exc: BaseException) -> str:
    cause = [*_list_causes(exc)][-1] if isinstance(exc, RuntimeError) else exc
    text = " ".join(str(cause).split())
    return (text[:200] or type(cause).__name__).rstrip(".")
