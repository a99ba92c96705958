"""What a text-to-speech model has to offer so that the worker can serve it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from .protocol import Hello, Samples, SpeakRequest


class RequestFault(Exception):  # noqa: N818 - not the model's error: what it answers to one request
    """One request, or one reference clip, cannot be served; the others can."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        """One of `protocol.FAULT_REASONS`."""
        self.detail = detail


class ModelFault(Exception):  # noqa: N818 - ends the program with its message
    """The model cannot be loaded; the message says why and what to do."""


class SpeechModel(Protocol):
    """A loaded model on one device. Only one thread at a time calls it."""

    def describe(self) -> Hello: ...

    def read_settings(self, raw: Mapping[str, Any]) -> Any:
        """Return the settings of a batch in the model's own form.

        Raises:
            ValueError: a name is unknown or a value is wrong.
        """
        ...

    def prepare_voice(self, samples: Samples, sampling_rate: int) -> Any:
        """Return what the model needs of a reference clip to speak in its voice.

        Raises:
            RequestFault: nothing can be made of it.
        """
        ...

    def save_voice(self, voice: Any, path: Path) -> None:
        """Write a prepared voice to a file; read back it speaks the same samples.

        Raises:
            OSError: it cannot be written.
        """
        ...

    def load_voice(self, path: Path) -> Any:
        """Return the prepared voice in a file.

        Raises:
            ValueError: the file is damaged.
        """
        ...

    def speak(self, request: SpeakRequest, voice: Any, settings: Any) -> Samples:
        """Return speech of shape (n,), float32, at the model's rate. `request.seed` decides all that is drawn.

        Raises:
            RequestFault: this request cannot be spoken.
        """
        ...

    def measure_device_memory(self) -> float:
        """Return the MiB that the model has allocated on its device; 0 where it shares the process's."""
        ...


def check_text(text: str, max_characters: int) -> None:
    """Refuse texts that no model speaks sensibly: Chatterbox, given none, says a sentence of its own.

    Raises:
        RequestFault: `empty_text`, `text_too_long_to_speak`.
    """
    if not any(character.isalnum() for character in text):
        raise RequestFault("empty_text", f"nothing in {text[:40]!r} can be spoken")
    if len(text) > max_characters:
        raise RequestFault("text_too_long_to_speak", f"{len(text)} characters, {max_characters} at most")


def find_language(tag: str, languages: tuple[str, ...]) -> str:
    """Return the language of a tag such as `zh-CN`.

    Raises:
        RequestFault: `unsupported_language`.
    """
    language = tag.replace("_", "-").split("-")[0].lower()
    if language not in languages:
        raise RequestFault("unsupported_language", f"the model speaks {', '.join(languages)}, not {tag!r}")
    return language


def read_numbers(raw: Mapping[str, Any], defaults: Mapping[str, float]) -> dict[str, float]:
    """Return settings that are all numbers, defaults for those not given.

    Raises:
        ValueError: a name is unknown, or a value is no finite number.
    """
    unknown = sorted(set(raw) - set(defaults))
    if unknown:
        raise ValueError(f"unknown setting {unknown[0]!r}; there are {', '.join(sorted(defaults))}")
    for name, value in raw.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or value != value
            or abs(value) == float("inf")
        ):
            raise ValueError(f"setting {name!r} is {value!r}, not a number")
    return {name: float(raw.get(name, default)) for name, default in defaults.items()}
