"""`README.md` of a training run: the model card, with the YAML head that Hugging Face reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from bystander.storage.card_parts import load_card_template, render_table
from bystander.storage.training_manifest import TrainingManifest

_WHAT = {
    "tpi": "A model trained on speech in which a bystander cuts in on somebody who talks to a voice assistant.",
    "sid": "A detector of interruptions: it hears a stream and says whether the speaker means to take the turn.",
}
_HUB = "hf://datasets/"


def render_training_card(manifest: TrainingManifest, usage: str = "") -> str:
    """Return the card of a run; `usage` is Markdown on how its model is loaded and evaluated."""
    data = manifest.data
    return load_card_template("training_card.md.j2").render(
        head=yaml.safe_dump(_describe_head(manifest), sort_keys=False, allow_unicode=True, width=120),
        manifest=manifest,
        what=f"{_WHAT[manifest.kind]} Architecture: `{manifest.architecture}`.",
        base_model=manifest.base_model,
        usage=usage,
        source_table=render_table(
            ("Source", "Rows", "Digest"), ((s.address, s.rows, f"`{s.rows_digest[:12]}…`") for s in data.sources)
        ),
        part_table=render_table(
            ("Part", "Rows", "Proportion", "Examples an epoch", "Held out"),
            ((name, p.rows, f"{p.proportion:g}", p.an_epoch, p.held_out) for name, p in data.parts.items()),
        ),
        held_out=_describe_held_out(manifest),
        left_out=tell_counts(data.left_out),
        phase_table=render_table(
            ("Phase", "Examples", "Steps", "Batch", "Learning rate", "Loss", "Held-out loss", "Lowest"),
            (
                (
                    p.phase,
                    p.examples,
                    p.steps,
                    p.optimisation["batch_size"],
                    f"{p.optimisation['learning_rate']:g}, {p.optimisation['schedule']}",
                    tell_change(p.first_loss, p.last_loss),
                    tell_change(p.first_held_out_loss, p.last_held_out_loss),
                    "" if p.best_held_out_loss is None else f"{p.best_held_out_loss:.4f} at step {p.best_step}",
                )
                for p in manifest.phases
            ),
        ),
        figure_table=render_table(("Figure", "Value"), manifest.figures.items()) if manifest.figures else "",
        packages=", ".join(f"{name} {version}" for name, version in manifest.packages.items()),
    )


def tell_change(first: float | None, last: float | None) -> str:
    """Return how a loss changed, as `2.1000 to 0.3000`; empty where there is none."""
    return "" if first is None or last is None else f"{first:.4f} to {last:.4f}"


def tell_counts(counts: Mapping[str, int]) -> str:
    """Return counts of rows by reason, as `12 too_long, 2 unreadable_audio`."""
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())


def _describe_head(manifest: TrainingManifest) -> dict[str, Any]:
    names = {info.file for info in manifest.files}
    head: dict[str, Any] = {}
    base = manifest.base_model
    if base is not None and not base.is_local:  # the hub knows no folder of this machine
        relation = "adapter" if "adapter_config.json" in names else "finetune"
        head = {"base_model": base.name, "base_model_relation": relation}
    if base is None:
        head["library_name"] = "bystander"
    elif "adapter_config.json" in names:
        head["library_name"] = "peft"
    else:
        head["library_name"] = "transformers" if "config.json" in names else "bystander"
    on_hub = [s.address.removeprefix(_HUB) for s in manifest.data.sources if s.address.startswith(_HUB)]
    datasets = sorted({"/".join(address.split("@")[0].split("/")[:2]) for address in on_hub})
    if datasets:
        head["datasets"] = datasets
    task = "audio-text-to-text" if manifest.kind == "tpi" else "audio-classification"
    return {**head, "pipeline_tag": task, "tags": ["speech", "interruption", "bystander"]}


def _describe_held_out(manifest: TrainingManifest) -> str:
    held_out = sum(part.held_out for part in manifest.data.parts.values())
    if not held_out:
        return "No rows were held out."
    whole = "a recording, and as far as they can be told all of a voice," if manifest.kind == "sid" else "a query"
    return f"{held_out} rows were held out; all rows of {whole} are on one side."
