"""Single parts of pretrained models: the files of a folder or of the Hugging Face hub, and only the weights needed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.hub_models import reach_hub_model

WEIGHTS, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
_CHUNK_BYTES = 1 << 20


class PretrainedFiles:
    """The files of a model: a folder of this machine, or a name on the hub at a revision."""

    def __init__(self, model: str, revision: str | None = None) -> None:
        """Tell the two apart; nothing is read or fetched yet.

        Raises:
            EngineSetupError: `model` is a path without a folder.
        """
        folder = Path(model).expanduser()
        if not folder.is_dir() and (folder.is_absolute() or model.startswith((".", "~"))):
            raise EngineSetupError(f"{model}: no such folder; check the model's path")
        self.model = model
        self.folder = folder if folder.is_dir() else None
        self.revision = revision
        self._opened: dict[str, Path] = {}

    @property
    def source(self) -> str:
        """What `from_pretrained` is given."""
        return str(self.folder) if self.folder is not None else self.model

    @property
    def options(self) -> dict[str, Any]:
        """What `from_pretrained` is given besides: the revision, and that the hub is not asked where it is silent.

        Raises:
            EngineSetupError: as `find`.
        """
        if self.folder is not None:
            return {}
        revision = {"revision": self.revision} if self.revision else {}
        return {**revision, **({} if self._is_reached else {"local_files_only": True})}

    @property
    def _lacks(self) -> str:
        is_whole = self.folder is not None or self._is_reached
        return "it has no" if is_whole else "the hub does not answer, and what is kept of it on this machine has no"

    @cached_property
    def _is_reached(self) -> bool:
        return reach_hub_model(self.model, self.revision)

    def find(self, name: str) -> Path | None:
        """Return a file's path on this machine, fetched if it must be, or None if the model has none of that name.

        Raises:
            EngineSetupError: the hub cannot be reached, or does not know the model.
        """
        if name not in self._opened:
            path = self._find_in_folder(name) if self.folder is not None else self._fetch(name)
            if path is None:
                return None
            self._opened[name] = path
        return self._opened[name]

    def read_json(self, name: str) -> dict[str, Any]:
        """Return what a JSON file of the model says.

        Raises:
            EngineSetupError: it is missing or no JSON object.
        """
        path = self.find(name)
        if path is None:
            raise EngineSetupError(f"{self.model}: {self._lacks} {name}; name a folder or a hub model in safetensors")
        try:
            data = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as exc:
            raise EngineSetupError(f"{self.model}: {name} cannot be read; fetch the model again") from exc
        if not isinstance(data, dict):
            raise EngineSetupError(f"{self.model}: {name} is no JSON object; fetch the model again")
        return data

    def read_part(self, marker: str) -> dict[str, Any]:
        """Return the tensors of one part, by their names within it: those behind `marker`, as `audio_tower.`.

        Of a model in several files, only those that hold some of the part are fetched and opened, and of these only
        the part's tensors are read. An empty marker stands for the whole model.

        Raises:
            EngineSetupError: there are no safetensors, a file is damaged, or the model has no such part.
        """
        from safetensors import SafetensorError, safe_open

        found: dict[str, Any] = {}
        for name in self._list_weight_files(marker):
            path = self.find(name)
            if path is None:
                raise EngineSetupError(f"{self.model}: its index names {name}, which is missing; fetch the model again")
            try:
                with safe_open(path, framework="pt") as weights:
                    for key in weights.keys():  # noqa: SIM118 - it is no mapping
                        inner = find_inner_name(key, marker)
                        if inner is not None:
                            found[inner] = weights.get_tensor(key)
            except (SafetensorError, OSError) as exc:
                raise EngineSetupError(f"{self.model}: {name} cannot be read ({exc}); fetch the model again") from exc
        if not found:
            raise EngineSetupError(f"{self.model}: it holds no weights of a part {marker!r}; name another model")
        return found

    def check_weights(self, marker: str = "") -> None:
        """See in a folder whether the files are there that hold a part; of a model on the hub, ask for nothing more.

        Raises:
            EngineSetupError: one is missing.
        """
        if self.folder is None:
            return
        for name in self._list_weight_files(marker):
            if self.find(name) is None:
                raise EngineSetupError(f"{self.model}: its index names {name}, which is missing; fetch the model again")

    def digest_part(self, marker: str) -> str:
        """Return the SHA-256 of the names and bytes of the files that hold a part, and of the configuration.

        Raises: as `read_part`.
        """
        digest = hashlib.sha256()
        for name in (CONFIG, *self._list_weight_files(marker)):
            path = self.find(name)
            if path is None:
                raise EngineSetupError(f"{self.model}: {self._lacks} {name}; fetch the model again")
            digest.update(name.encode() + b"\0")
            with path.open("rb") as handle:
                while chunk := handle.read(_CHUNK_BYTES):
                    digest.update(chunk)
        return digest.hexdigest()

    def _list_weight_files(self, marker: str) -> list[str]:
        if self.find(INDEX) is None:
            if self.find(WEIGHTS) is None:
                raise EngineSetupError(f"{self.model}: {self._lacks} {WEIGHTS}; name a model in safetensors")
            return [WEIGHTS]
        places: Mapping[str, str] = self.read_json(INDEX).get("weight_map", {})
        return sorted({file for key, file in places.items() if find_inner_name(key, marker) is not None})

    def _find_in_folder(self, name: str) -> Path | None:
        path = Path(self.source) / name
        return path if path.is_file() else None

    def _fetch(self, name: str) -> Path | None:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        reached = self._is_reached
        try:
            return Path(hf_hub_download(self.model, name, revision=self.revision, local_files_only=not reached))
        except LocalEntryNotFoundError as exc:
            if not reached:
                return None  # whether the model has it cannot be known; whoever needs it says that it is not here
            raise EngineSetupError(
                f"{self.model}: {name} is not on this machine, and the hub cannot be reached; name a folder"
            ) from exc
        except EntryNotFoundError:
            return None
        except Exception as exc:  # what a client raises for want of a network, a name or a right, is of many kinds
            line = " ".join(str(exc).split())[:200]
            raise EngineSetupError(f"{self.model}: cannot be fetched from the hub ({line}); name a folder") from exc


def find_inner_name(key: str, marker: str) -> str | None:
    """Return a tensor's name within the part behind `marker`, or None if it is of another part."""
    if not marker:
        return key
    before, found, inner = key.partition(marker)
    return inner if found and (not before or before.endswith(".")) else None
