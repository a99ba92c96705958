"""Fits a build's targets and thresholds to the classes of its pack, where they are only those of a profile."""

from __future__ import annotations

from typing import TypeVar

from bystander.prompts.load import load_pack
from bystander.schemas.config import TpiBenchConfig, TpiConfig, list_profiles, load_bench_config, load_config
from bystander.schemas.packs import PackClass
from bystander.schemas.tpi_params import deal_out

_Config = TypeVar("_Config", bound=TpiConfig)


def fit_to_pack(config: _Config) -> _Config:
    """Return a configuration whose targets are for the classes of its pack.

    A profile names classes of the pack `reference`. With a pack of other classes, its number of two-speaker rows is
    dealt to them in proportion to their `share` (largest remainders), and its thresholds are left out. What somebody
    has set in place of the profile's stays as it is: `check_tpi_build` refuses what does not fit. So it goes before
    `resize`, which changes the profile's numbers.

    Raises:
        PackError: the pack cannot be loaded.
    """
    classes = load_pack(config.pack).classes
    profile = _load_profile(config)
    targets, label_actionability = config.targets, config.stages.label_actionability
    known = profile.stages.label_actionability if profile is not None else None
    usual = profile.targets if profile is not None else type(targets)()
    if targets.labels == usual.labels and set(targets.labels) != {item.key for item in classes}:
        targets = type(targets)(labels=deal_to_classes(targets.pairs, classes), hard_negatives=targets.hard_negatives)
    if known is not None and label_actionability.thresholds == known.thresholds:
        asked = {item.key for item in classes[:-1]}
        kept = {key: value for key, value in known.thresholds.items() if key in asked}
        label_actionability = label_actionability.model_copy(update={"thresholds": kept})
    stages = config.stages.model_copy(update={"label_actionability": label_actionability})
    return config.model_copy(update={"targets": targets, "stages": stages})


def deal_to_classes(rows: int, classes: tuple[PackClass, ...]) -> dict[str, int]:
    """Return how many of `rows` each class has, in proportion to the classes' shares."""
    return deal_out(rows, {item.key: item.share for item in classes})


def _load_profile(config: TpiConfig) -> TpiConfig | None:
    """Return the profile that a configuration is of, with nothing laid over it; None if it is of none."""
    if config.profile not in list_profiles():
        return None
    return (load_bench_config if isinstance(config, TpiBenchConfig) else load_config)(config.profile)
