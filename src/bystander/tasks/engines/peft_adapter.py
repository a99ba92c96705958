"""Adapters of a speech-language model, as peft saves them: found, held against their base model, laid over it."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bystander.schemas.errors import EngineSetupError
from bystander.schemas.identity import digest_json
from bystander.schemas.trained_speech_lm import TRAINED_FILE, WEIGHTS_FOLDER, TrainedSpeechLm
from bystander.tasks.engines.model_revision import read_revision
from bystander.tasks.engines.package_check import load_packages, require_packages
from bystander.tasks.engines.speech_lm_model import ModelSource, shorten

CONFIG_FILE = "adapter_config.json"
_WEIGHTS_FILE = "adapter_model.safetensors"


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter on this machine."""

    folder: Path
    base_model: str
    """As its training named it: a folder, or a name on the hub."""
    base_revision: str | None
    trained: TrainedSpeechLm | None
    """What one of our runs says beside it."""
    digest: str
    """Of its bytes."""

    def check_base(self, model: ModelSource) -> None:
        """Raise where it was trained on another model, as far as names and digests tell.

        Raises:
            EngineSetupError: it was.
        """
        digest = self.trained.base_digest if self.trained else ""
        revisions = self.base_revision, model.hub_revision
        if digest and model.digest:
            other = digest != model.digest
        elif model.source == model.name and "/" in self.base_model and not Path(self.base_model).is_absolute():
            other = self.base_model != model.source or (all(revisions) and len(set(revisions)) > 1)
        else:  # one is a folder, the other a name
            other = False
        if other:
            revision = self.base_revision or digest[:12]
            raise EngineSetupError(
                f"adapter {self.folder}: was trained on {self.base_model}{' ' + revision if revision else ''}, not on "
                f"{model.source}{' ' + model.revision[:12] if model.revision else ''}; name that one as `model`"
            )


def find_adapter(path: str) -> Adapter:
    """Find an adapter in its own folder, or in that of the training run that made it.

    Raises:
        EngineSetupError: peft is missing, or there is no adapter.
    """
    require_packages(("peft",), f"adapter {path}:", "train")
    given = Path(path).expanduser()
    folder = next((one for one in (given, given / WEIGHTS_FOLDER) if (one / CONFIG_FILE).is_file()), None)
    if folder is None:
        raise EngineSetupError(
            f"adapter {path}: there is no {CONFIG_FILE}; name the folder of a training run on this machine, or of an "
            "adapter that peft saved"
        )
    if not (folder / _WEIGHTS_FILE).is_file():
        raise EngineSetupError(f"adapter {path}: there is no {_WEIGHTS_FILE} beside its configuration")
    try:
        fields = json.loads((folder / CONFIG_FILE).read_text("utf-8"))
        trained = read_trained(folder)
        base, revision = str(fields.get("base_model_name_or_path") or ""), fields.get("revision")
    except (ValueError, AttributeError, OSError) as exc:
        raise EngineSetupError(f"adapter {path}: its {CONFIG_FILE} cannot be read ({shorten(exc)})") from exc
    if trained is not None:
        base, revision = trained.base_model, trained.base_revision
    digest = digest_json([read_revision("", folder / name) for name in (CONFIG_FILE, _WEIGHTS_FILE)])
    return Adapter(folder, base, revision, trained, digest)


def read_trained(folder: Path) -> TrainedSpeechLm | None:
    """Return what one of our runs says beside the weights that it made, None where there is nothing.

    Raises:
        EngineSetupError: it cannot be read.
    """
    path = folder / TRAINED_FILE
    if not path.is_file():
        return None
    try:
        return TrainedSpeechLm.model_validate_json(path.read_bytes())
    except (ValidationError, OSError) as exc:
        raise EngineSetupError(f"{path}: cannot be read ({shorten(exc)}); train again or remove it") from exc


def lay_adapter(model: Any, adapter: Adapter) -> Any:
    """Return the model with the adapter in its layers, beside their weights and not merged into them.

    Raises:
        EngineSetupError: the adapter does not fit the model, or peft is broken.
    """
    load_packages(("peft",), f"adapter {adapter.folder}:", "train")
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors import safe_open

    try:
        with quiet_peft():
            adapted = PeftModel.from_pretrained(model, adapter.folder)
        with safe_open(adapter.folder / _WEIGHTS_FILE, "pt") as file:
            saved = set(file.keys())
        wanted = set(get_peft_model_state_dict(adapted, save_embedding_layers=False))
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError) as exc:
        raise EngineSetupError(f"adapter {adapter.folder}: does not fit the model ({shorten(exc)})") from exc
    if saved != wanted:
        raise EngineSetupError(
            f"adapter {adapter.folder}: does not fit the model: {len(wanted - saved)} of its weights are missing, "
            f"{len(saved - wanted)} belong to layers that the model does not have"
        )
    return adapted.get_base_model().eval()


@contextlib.contextmanager
def quiet_peft() -> Iterator[None]:
    """Keep back what peft makes transformers say of its own coming versions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield
