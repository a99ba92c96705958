"""Low-rank adapters of a speech-language model, and which weights are trained without them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bystander.schemas.errors import ConfigError
from bystander.schemas.train_tpi_config import LoraSettings
from bystander.tasks.engines.peft_adapter import quiet_peft
from bystander.tasks.engines.speech_lm_model import ModelSource, shorten

_EYES = re.compile(r"(^|\.)(visual|vision)[^.]*(\.|$)")
"""Modules that no clip and no word passes through."""


def add_lora(model: Any, settings: LoraSettings, source: ModelSource, seed: int) -> Any:
    """Return the model with new adapters, which alone are trained; at first they change nothing of what it says.

    `all-linear` are the linear layers of the language model, of the audio encoder and of what joins them: not the
    output head, and not what sees. The adapters are kept in float32 where the model is in bfloat16.

    Raises:
        ConfigError: the settings name modules that the model does not have, or cannot be adapted.
    """
    import torch
    from peft import LoraConfig, get_peft_model

    names = settings.target_modules
    config = LoraConfig(
        r=settings.r,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list_linear_layers(model) if names == "all-linear" else _keep_pattern(names),
        exclude_modules=_list_seeing(model) or None,
        revision=source.hub_revision,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            with quiet_peft():
                adapted = get_peft_model(model, config)
        except ValueError as exc:
            raise ConfigError(f"model.lora.target_modules: {names!r} does not fit the model ({shorten(exc)})") from exc
    return adapted


def list_linear_layers(model: Any) -> list[str]:
    """Return the full names of the linear layers that `all-linear` stands for, sorted."""
    import torch

    head = model.get_output_embeddings()
    return sorted(
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not head and not _EYES.search(name)
    )


def leave_eyes_out(model: Any) -> None:
    """Let all weights be trained but those that see: no clip passes through them."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not _EYES.search(name))


def save_adapter(model: Any, source: ModelSource, folder: Path) -> None:
    """Write the adapters and their configuration, as peft reads them, the same bytes for the same weights."""
    # Whether embeddings go with them, peft would ask the hub.
    model.save_pretrained(folder, safe_serialization=True, save_embedding_layers=False)
    path = folder / "adapter_config.json"
    fields = json.loads(path.read_text("utf-8"))
    # peft writes sets, in an order that changes from process to process.
    ordered = {key: sorted(value) if isinstance(value, list) else value for key, value in fields.items()}
    ordered["base_model_name_or_path"] = source.name  # a folder's place on this machine tells nobody anything
    path.write_text(json.dumps(ordered, indent=2, sort_keys=True) + "\n", "utf-8")
    (folder / "README.md").unlink(missing_ok=True)  # peft's empty form of a card; the run has one of its own


def _list_seeing(model: Any) -> list[str]:
    import torch

    return sorted(
        name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear) and _EYES.search(name)
    )


def _keep_pattern(names: str | tuple[str, ...]) -> str | list[str]:
    return names if isinstance(names, str) else list(names)
