"""Whether a model's name on the Hugging Face hub leads anywhere, asked once, before its client retries for minutes.

The client waits and asks again where the hub does not answer and nothing is kept, for each file anew. Here one question
is put, within the time that `HF_HUB_ETAG_TIMEOUT` sets (10 s); `HF_HUB_OFFLINE` and `HF_ENDPOINT` hold as everywhere.
"""

from __future__ import annotations

import re
import threading

from bystander.schemas.errors import EngineSetupError

_ASKED_FILE = "config.json"
"""A file that every model of `transformers` has."""
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_FOLDER_NAME = "name its folder on this machine; `hf download {model} --local-dir FOLDER` makes one where the hub is"


def reach_hub_model(model: str, revision: str | None = None) -> bool:
    """Return whether the hub gives a model; False where it does not answer and files of the model are kept here.

    Raises:
        EngineSetupError: the hub knows no such model or does not let this user have it, or it does not answer or is not
            to be asked, and nothing of the model is kept on this machine.
    """
    from huggingface_hub import constants, try_to_load_from_cache

    if not _HUB_NAME.fullmatch(model):
        raise EngineSetupError(f"{model}: there is no such folder, and no model on the hub can have that name")
    if constants.HF_HUB_OFFLINE:
        silence = "HF_HUB_OFFLINE is set"
    else:
        fault = _ask(model, revision, constants.HF_HUB_ETAG_TIMEOUT)
        if fault is None:
            return True
        silence = fault
    if isinstance(try_to_load_from_cache(model, _ASKED_FILE, revision=revision), str):
        return False
    raise EngineSetupError(
        f"{model}: there is no such folder, nothing of a model of that name is kept on this machine, and {silence}; "
        f"{_FOLDER_NAME.format(model=model)}"
    )


def _ask(model: str, revision: str | None, limit_s: float) -> str | None:
    """Ask for the headers of a file; return None where the hub answers, and else what it did, as words.

    Raises:
        EngineSetupError: the hub answers that it will not give it.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    faults: list[Exception] = []
    done = threading.Event()

    def ask() -> None:
        try:
            get_hf_file_metadata(hf_hub_url(model, _ASKED_FILE, revision=revision), timeout=limit_s)
        except EntryNotFoundError:
            pass  # whoever reads the file says what its absence means
        except Exception as exc:  # what the client raises for want of a network depends on its HTTP client
            faults.append(exc)
        done.set()

    # In a thread, since the look-up of a name knows no time limit.
    threading.Thread(target=ask, name="ask-hub", daemon=True).start()
    if not done.wait(limit_s):
        return f"the hub does not answer within {limit_s:g} s"
    if not faults:
        return None
    fault = faults[0]
    if isinstance(fault, GatedRepoError):
        raise EngineSetupError(
            f"{model}: the hub gives it to nobody who has not agreed to its terms; agree on its page, and log in with "
            "`hf auth login` or set HF_TOKEN"
        ) from fault
    if isinstance(fault, RevisionNotFoundError):
        raise EngineSetupError(f"{model}: the hub has no revision {revision} of it; check the name") from fault
    if isinstance(fault, RepositoryNotFoundError):
        raise EngineSetupError(
            f"{model}: there is no such folder, and no such model on the hub that this user may see; check the name, "
            "or log in with `hf auth login` or set HF_TOKEN"
        ) from fault
    if isinstance(fault, HfHubHTTPError):
        return f"the hub answers {fault.response.status_code}"
    return f"the hub cannot be reached ({' '.join(str(fault).split())[:120] or type(fault).__name__})"
