"""Voices that were prepared once: the latest in memory, all on disk."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

from .model import SpeechModel
from .protocol import Samples

_log = logging.getLogger(__name__)


class PreparedVoices:
    """A model's prepared voices by voice key. Only one thread at a time uses it; processes may share the folder."""

    def __init__(self, model: SpeechModel, folder: Path | None, in_memory: int) -> None:
        """Keep `in_memory` voices at hand, and all in `folder` if there is one (it is made)."""
        self._model = model
        self._folder = folder
        self._in_memory = in_memory
        self._recent: OrderedDict[str, Any] = OrderedDict()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def find(self, key: str) -> Any | None:
        """Return a prepared voice, or None. A damaged file counts as none, and is removed."""
        if key in self._recent:
            self._recent.move_to_end(key)
            return self._recent[key]
        path = self._locate(key)
        if path is None or not path.exists():
            return None
        try:
            voice = self._model.load_voice(path)
        except ValueError:
            path.unlink(missing_ok=True)
            return None
        self._remember(key, voice)
        return voice

    def prepare(self, key: str, samples: Samples, sampling_rate: int) -> None:
        """Prepare and keep a voice, unless it is there already.

        Raises:
            RequestFault: the model can make none of this clip.
        """
        if self.find(key) is not None:
            return
        voice = self._model.prepare_voice(samples, sampling_rate)
        path = self._locate(key)
        if path is not None:
            try:
                self._write(voice, path)
            except OSError as exc:  # a full disk costs time, not speech
                _log.warning("voice %s is not kept: %s", key[:12], exc)
        self._remember(key, voice)

    def _remember(self, key: str, voice: Any) -> None:
        self._recent[key] = voice
        while len(self._recent) > self._in_memory:
            self._recent.popitem(last=False)

    def _locate(self, key: str) -> Path | None:
        return self._folder / f"{key}.voice" if self._folder is not None else None

    def _write(self, voice: Any, path: Path) -> None:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix="part-")  # torch writes no file that begins with a dot
        os.close(handle)
        try:
            self._model.save_voice(voice, Path(name))
            Path(name).replace(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                Path(name).unlink()
