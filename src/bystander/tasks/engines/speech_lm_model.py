"""A speech-language model of `transformers` and its processor: found, opened, asked. Evaluation and training share it.

torch and transformers are imported where they are used: a configuration is checked without them.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bystander.schemas.engines import Samples
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.trained_speech_lm import WEIGHTS_FOLDER
from bystander.tasks.engines.hub_models import reach_hub_model
from bystander.tasks.engines.model_revision import read_revision
from bystander.tasks.engines.package_check import load_packages, require_packages

_CONFIG_FILE = "config.json"
_WEIGHT_SUFFIXES = frozenset({".safetensors", ".bin", ".pt", ".pth"})
_LOADING_PACKAGES = ("torch", "transformers")
_EYES = ("image_processor", "video_processor")
_PASS_OVER_PADDING = {"Qwen2_5OmniProcessor", "Qwen3OmniMoeProcessor"}
"""Classes of processors whose models take any number of frames and leave out those that the mask does."""
_LOADING_ERRORS = (OSError, ValueError, KeyError, RuntimeError, ImportError, AttributeError, TypeError)


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model comes from: a folder, or a name on the hub."""

    source: str
    """Path of the folder, or the name."""
    name: str
    """For identities: the folder's last part, or the name."""
    revision: str
    """As configured, else a digest of the folder's files; empty for a name of the hub without one."""
    hub_revision: str | None
    """What the hub is asked for; None in a folder."""
    digest: str = ""
    """Of the files of a folder whose revision is not configured."""
    kept_only: bool = False
    """Whether only what is kept of it on this machine is to be had, since the hub does not answer."""

    @property
    def options(self) -> dict[str, Any]:
        """What `from_pretrained` is given besides."""
        revision = {"revision": self.hub_revision} if self.hub_revision else {}
        return {**revision, **({"local_files_only": True} if self.kept_only else {})}


def find_model(model: str, revision: str | None, packages: Sequence[str], extra: str) -> ModelSource:
    """Look for the packages, and for the model's files where it is a folder.

    A training run of ours that made a whole model stands for that.

    Raises:
        EngineSetupError: a package is missing (`extra` of ours has it), or `model` is a path without a folder.
    """
    require_packages(packages, f"transformers model {model}:", extra)
    folder = Path(model).expanduser()
    if folder.is_dir():
        name = folder.resolve().name
        if not (folder / _CONFIG_FILE).is_file() and (folder / WEIGHTS_FOLDER / _CONFIG_FILE).is_file():
            folder = folder / WEIGHTS_FOLDER  # a training run of ours
        digest = "" if revision else read_revision(model, folder)
        return ModelSource(str(folder), name, revision or digest, None, digest)
    if folder.is_absolute() or model.startswith((".", "~")):
        raise EngineSetupError(f"transformers model {model}: no such folder; check the field `model`")
    return ModelSource(model, model, revision or "", revision or None)


@dataclass(frozen=True, slots=True)
class ChatPrompts:
    """What is said to the model beside the clip."""

    system: str = ""
    user: str = ""

    def write_messages(self, clip: Samples, reply: str | None = None) -> list[dict[str, Any]]:
        """Return the chat with the clip as the user's turn, and with the reply as the assistant's where there is one.

        `clip` has the sampling rate of the processor.
        """
        parts: list[dict[str, Any]] = [{"type": "audio", "audio": clip}]
        if self.user:
            parts.append({"type": "text", "text": self.user})
        messages = [{"role": "user", "content": parts}]
        if self.system:
            messages.insert(0, {"role": "system", "content": [{"type": "text", "text": self.system}]})
        if reply is not None:
            messages.append({"role": "assistant", "content": [{"type": "text", "text": reply}]})
        return messages


def encode_prompts(processor: Any, prompts: ChatPrompts, clips: Sequence[Samples]) -> Any:
    """Return what the model is given to answer these clips, padded to one length: a `BatchFeature` of tensors."""
    return processor.apply_chat_template(
        [prompts.write_messages(clip) for clip in clips],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={"padding": True} | _bound_sound(processor, clips),
    )


def _bound_sound(processor: Any, clips: Sequence[Samples]) -> dict[str, Any]:
    """Return to how many samples clips are padded, where the model passes over what the mask of the sound leaves out.

    Else all are padded to the longest clip that it can hear: 300 s in Qwen2.5-Omni, which takes forty times as long.
    """
    if not {kind.__name__ for kind in type(processor).__mro__} & _PASS_OVER_PADDING:
        return {}
    ears = processor.feature_extractor
    # A second more than there is: frames at the end see what follows, which is to be silence for every clip.
    samples = (max(len(clip) for clip in clips) // ears.sampling_rate + 2) * ears.sampling_rate
    return {"audio_kwargs": {"max_length": min(int(samples), int(ears.n_samples))}}


def find_turn_end(processor: Any) -> str:
    """Return the special token with which the chat template ends an assistant's turn, such as `<|im_end|>`.

    Raises:
        EngineSetupError: it puts something before the reply, or no special token after it.
    """
    import numpy as np

    reply = "Yes."
    chat = ChatPrompts().write_messages(np.zeros(1, np.float32), reply)
    asked: str = processor.apply_chat_template([chat[:-1]], add_generation_prompt=True, tokenize=False)[0]
    whole: str = processor.apply_chat_template([chat], tokenize=False)[0]
    if not whole.startswith(asked + reply):
        raise EngineSetupError(
            "the chat template writes an assistant's turn otherwise than it asks for one; fine-tune another model"
        )
    rest = whole.removeprefix(asked + reply).lstrip()
    tokenizer = processor.tokenizer
    known = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    ends = [token for token in known if rest.startswith(token)]
    if not ends:
        raise EngineSetupError(
            "the chat template ends no assistant's turn with a special token; fine-tune another model"
        )
    longest: str = max(ends, key=len)
    return longest


def open_processor(model: ModelSource) -> Any:
    """Open the processor, set to pad on the left: else a shorter prompt would be continued behind its padding.

    One that also sees is opened without its eyes where the packages for them (torchvision, Pillow) are missing.

    Raises:
        EngineSetupError: it cannot be opened, has no ears or no chat template, or a package is broken.
    """
    load_packages(_LOADING_PACKAGES, f"transformers model {model.source}:", "transformers")
    from transformers import AutoProcessor

    try:
        processor = _open_blind(model) if _lacks_eyes() else None
        if processor is None:
            processor = AutoProcessor.from_pretrained(model.source, **model.options)
    except _LOADING_ERRORS as exc:
        raise EngineSetupError(f"transformers model {model.source}: cannot be loaded ({shorten(exc)})") from exc
    if getattr(processor, "feature_extractor", None) is None or not getattr(processor, "chat_template", None):
        raise EngineSetupError(
            f"transformers model {model.source}: its processor has no ears or no chat template; serve it behind an "
            "endpoint (engine openai_audio), or write its replies to a file (engine predictions)"
        )
    processor.tokenizer.padding_side = "left"
    return processor


def reach_model(model: ModelSource) -> ModelSource:
    """Return the source as it can be had: where the hub does not answer, as what is kept of it on this machine.

    Raises:
        EngineSetupError: the hub has no such model, or does not answer and nothing of it is kept here.
    """
    if Path(model.source).is_dir():
        return model
    return replace(model, kept_only=not reach_hub_model(model.source, model.hub_revision))


def check_model(model: ModelSource) -> None:
    """See whether there is a configuration that transformers knows and, in a folder, a file of weights. None is read.

    Raises:
        EngineSetupError: there is none.
    """
    load_packages(_LOADING_PACKAGES, f"transformers model {model.source}:", "transformers")
    _read_config(model)
    folder = Path(model.source)
    if folder.is_dir() and not any(path.suffix in _WEIGHT_SUFFIXES for path in folder.iterdir()):
        raise EngineSetupError(
            f"transformers model {model.source}: there is no file of weights in this folder; name that of a whole model"
        )


def _read_config(model: ModelSource) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(model.source, **model.options)
    except _LOADING_ERRORS as exc:
        raise EngineSetupError(f"transformers model {model.source}: cannot be loaded ({shorten(exc)})") from exc


def pin_model(model: ModelSource) -> ModelSource:
    """Return the source with the commit that its name on the hub stands for now; a folder as it is.

    Raises:
        EngineSetupError: the hub has no such model, or cannot be reached and nothing of it is kept here.
    """
    if Path(model.source).is_dir():
        return model
    model = reach_model(model)
    commit = getattr(_read_config(model), "_commit_hash", None)
    return replace(model, revision=commit, hub_revision=commit) if commit else model


def open_model(model: ModelSource, dtype: str, device: str) -> Any:
    """Open the model, of one that speaks too only the part that thinks. It is set to evaluate, not to train.

    Raises:
        EngineSetupError: it cannot be loaded, is none that chats, or its files lack weights.
    """
    from transformers import AutoConfig, AutoModelForMultimodalLM

    placed = {} if device == "cpu" else {"device_map": device}
    try:
        config = AutoConfig.from_pretrained(model.source, **model.options)
        # Of the omni models, which also speak: the thinker alone writes the answer.
        config = getattr(config, "thinker_config", None) or config
        opened, found = AutoModelForMultimodalLM.from_pretrained(
            model.source, config=config, dtype=dtype, output_loading_info=True, **placed, **model.options
        )
    except _LOADING_ERRORS as exc:
        raise EngineSetupError(f"transformers model {model.source}: cannot be loaded ({shorten(exc)})") from exc
    if missing := sorted(found["missing_keys"]):
        raise EngineSetupError(
            f"transformers model {model.source}: its files lack {len(missing)} weights, such as {missing[0]}"
        )
    return opened.eval()


def shorten(exc: Exception) -> str:
    """Return an exception's message in one line of at most 300 characters."""
    line = " ".join(str(exc).split()) or type(exc).__name__
    return line if len(line) <= 300 else line[:297] + "..."


def _lacks_eyes() -> bool:
    return any(importlib.util.find_spec(name) is None for name in ("torchvision", "PIL"))


def _open_blind(model: ModelSource) -> Any:
    """Open a processor that sees without what it sees with; None where it has no eyes, or is of no class known here."""
    import transformers
    from transformers import AutoFeatureExtractor, AutoTokenizer, FeatureExtractionMixin, ProcessorMixin

    fields, _ = ProcessorMixin.get_processor_dict(model.source, **model.options)
    kind = fields.get("processor_class")
    if kind is None:
        with contextlib.suppress(OSError):
            heard, _ = FeatureExtractionMixin.get_feature_extractor_dict(model.source, **model.options)
            kind = heard.get("processor_class")
    seeing = getattr(transformers, str(kind), None)
    if seeing is None:
        return None
    parts = seeing.get_attributes()
    if not set(_EYES) & set(parts) or not {"feature_extractor", "tokenizer"} <= set(parts):
        return None

    class Blind(seeing):  # type: ignore[misc, valid-type]
        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            if argument is None and argument_name in _EYES:
                return type(None)
            return super().check_argument_for_proper_class(argument_name, argument)

    return Blind(
        **dict.fromkeys((part for part in parts if part in _EYES), None),
        feature_extractor=AutoFeatureExtractor.from_pretrained(model.source, **model.options),
        tokenizer=AutoTokenizer.from_pretrained(model.source, **model.options),
        chat_template=fields.get("chat_template"),
    )
