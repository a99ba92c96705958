"""A system that is evaluated, loaded by `transformers` on this machine."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bystander.schemas.engine_configs import TransformersAudioConfig
from bystander.schemas.engines import AnswerReply, AnswerRequest, EngineIdentity, RowFault, Samples
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.identity import digest_json
from bystander.tasks.engines.chat_reply import split_thinking
from bystander.tasks.engines.engine_audio import convert_rate
from bystander.tasks.engines.peft_adapter import Adapter, find_adapter, lay_adapter, read_trained
from bystander.tasks.engines.speech_lm_model import (
    ChatPrompts,
    ModelSource,
    encode_prompts,
    find_model,
    find_turn_end,
    open_model,
    open_processor,
    reach_model,
    shorten,
)

OnReply = Callable[[int, AnswerReply], None]

_READING_VERSION = "2"
"""Part of the identity: raised when the same clip would be put, or the same answer read, in another way."""
_PACKAGES = ("torch", "transformers", "accelerate")


class TransformersAudioCandidate:
    """A chat model with ears (Qwen2-Audio, Qwen2.5-Omni, Qwen3-Omni, Voxtral and others), decoded greedily.

    What `AutoProcessor` and `AutoModelForMultimodalLM` open will do: the processor's own chat template places the clip,
    so a model without one is refused. Of a model that speaks too, only the part that thinks is kept. It is loaded at
    the first call, so an evaluation whose answers are all kept loads nothing.
    """

    def __init__(
        self,
        config: TransformersAudioConfig,
        resolve_model: Callable[[str], Path] | None = None,  # noqa: ARG002 - all adapters are built alike
    ) -> None:
        """Look for the packages, and for the model's files where it is a folder; their content is its revision.

        Raises:
            EngineSetupError: a package is missing, `model` is a path without a folder, or there is no adapter where one
                is named, or it was trained on another model.
        """
        adapter = self._adapter = find_adapter(config.adapter) if config.adapter else None
        model, revision = config.model, config.revision
        if adapter is not None and not model:
            model, revision = adapter.base_model, revision or adapter.base_revision or ""
        self._found = find_model(model, revision, _PACKAGES, "transformers")
        if adapter is not None:
            adapter.check_base(self._found)
        self._prompts = _choose_prompts(config, adapter, self._found)
        self._config = config
        asked = {
            **config.model_dump(mode="json", include={"max_tokens", "dtype"}),
            "system_prompt": self._prompts.system,
            "user_prompt": self._prompts.user,
        }
        self._identity = EngineIdentity(
            kind="candidate",
            name="transformers_audio",
            model=self._found.name,
            revision=self._found.revision,
            settings=(
                ("request", digest_json(asked)),
                ("reading", _READING_VERSION),
                *((("adapter", adapter.digest),) if adapter is not None else ()),
            ),
        )
        self._lock = threading.Lock()
        self._processor: Any = None
        self._model: Any = None
        self._stops: list[int] | None = None
        self._closed = False

    @property
    def identity(self) -> EngineIdentity:
        """Named by the configured revision; without one, by the bytes of the folder's files. An adapter, by its own."""
        return self._identity

    def answer(
        self, requests: Sequence[AnswerRequest], on_reply: OnReply | None = None
    ) -> list[AnswerReply | RowFault]:
        """Return one reply or fault a request, in order. The seed plays no part: decoding is greedy.

        Faults: `request_refused` (the clip is longer than the model hears), `empty_reply` (it says nothing).

        Raises:
            EngineSetupError: the model cannot be loaded or is none that hears and chats, or the engine was closed.
            EngineError: the model fails on a batch, for want of memory for one thing.
        """
        if not requests:
            return []
        with self._lock:  # one model, one batch at a time
            self._open()
            return self._answer_all(requests, on_reply)

    def close(self) -> None:
        """Let the model go; a second call does nothing."""
        with self._lock:
            self._closed = True
            self._model = self._processor = None

    def _answer_all(self, requests: Sequence[AnswerRequest], on_reply: OnReply | None) -> list[AnswerReply | RowFault]:
        replies: dict[int, AnswerReply | RowFault] = {}
        clips: dict[int, Samples] = {}
        for index, request in enumerate(requests):
            fault = self._refuse(request)
            if fault is not None:
                replies[index] = fault
            else:
                clips[index] = convert_rate(request.samples, request.sampling_rate, self._sampling_rate())
        size = self._config.batch_size
        indices = list(clips)
        for batch in (indices[start : start + size] for start in range(0, len(indices), size)):
            for index, text in zip(batch, self._generate([clips[i] for i in batch]), strict=True):
                reply = _read_answer(text)
                replies[index] = reply
                if on_reply is not None and isinstance(reply, AnswerReply):
                    on_reply(index, reply)
        return [replies[index] for index in range(len(requests))]

    def _generate(self, clips: Sequence[Samples]) -> list[str]:
        import torch

        config = self._config
        try:
            inputs = encode_prompts(self._processor, self._prompts, clips)
            inputs = inputs.to(self._model.device, self._model.dtype)
            with torch.inference_mode():
                # The samplers' settings of the model's own generation config would only be warned about.
                tokens = self._model.generate(
                    **inputs,
                    max_new_tokens=config.max_tokens,
                    eos_token_id=self._stops,
                    do_sample=False,
                    num_beams=1,
                    temperature=None,
                    top_p=None,
                    top_k=None,
                )
            written = tokens[:, inputs["input_ids"].shape[1] :]
            texts: list[str] = self._processor.tokenizer.batch_decode(written, skip_special_tokens=True)
        except torch.OutOfMemoryError as exc:
            raise EngineError(
                f"transformers model {config.model}: out of memory at {len(clips)} clips; lower `batch_size` or set "
                "`dtype` to bfloat16"
            ) from exc
        except (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError) as exc:
            raise EngineError(f"transformers model {config.model}: failed on a batch ({shorten(exc)})") from exc
        return texts

    def _refuse(self, request: AnswerRequest) -> RowFault | None:
        """Return the fault of a clip that the model's ears would cut off without a word."""
        limit_s = getattr(self._processor.feature_extractor, "chunk_length", None)
        duration_s = len(request.samples) / request.sampling_rate
        if limit_s is not None and duration_s > limit_s:
            return RowFault("request_refused", f"the clip lasts {duration_s:.1f} s, the model hears {limit_s} s")
        return None

    def _sampling_rate(self) -> int:
        return int(self._processor.feature_extractor.sampling_rate)

    def _open(self) -> None:
        if self._closed:
            raise EngineSetupError(f"transformers model {self._config.model}: was closed and cannot be called again")
        if self._model is not None:
            return
        source = reach_model(self._found)
        self._processor = open_processor(source)
        model = open_model(source, self._config.dtype, self._config.device)
        self._stops = _list_stops(self._processor, model)
        self._model = lay_adapter(model, self._adapter) if self._adapter is not None else model


def _choose_prompts(config: TransformersAudioConfig, adapter: Adapter | None, model: ModelSource) -> ChatPrompts:
    """Return what is said beside a clip: as configured, else as one of our runs said it to train the model."""
    trained = adapter.trained if adapter is not None else read_trained(Path(model.source))
    system, user = (trained.system_prompt, trained.user_prompt) if trained is not None else ("", "")
    return ChatPrompts(
        system if config.system_prompt is None else config.system_prompt,
        user if config.user_prompt is None else config.user_prompt,
    )


def _list_stops(processor: Any, model: Any) -> list[int] | None:
    """Return the tokens that end an answer: the model's own, and the one with which the template ends a turn."""
    stops = model.generation_config.eos_token_id
    found = {stops} if isinstance(stops, int) else set(stops or ())
    with contextlib.suppress(EngineSetupError):  # a template that says it otherwise: then the model's own alone
        found.add(int(processor.tokenizer.convert_tokens_to_ids(find_turn_end(processor))))
    return sorted(found) or None


def _read_answer(content: str) -> AnswerReply | RowFault:
    text, thinking = split_thinking(content)
    if text:
        return AnswerReply(text)
    only = "only thought and said nothing; raise `max_tokens`" if thinking else "answered nothing"
    return RowFault("empty_reply", f"the model {only}", content)
