"""Opens the detector that a configuration asks for. Adapters are imported only when one is opened."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from bystander.schemas.detection import Detector
from bystander.schemas.detector_configs import (
    DetectorConfig,
    EnergyVadConfig,
    FakeDetectorConfig,
    FsmnVadConfig,
    KConsecutiveConfig,
    LexiconWordsConfig,
    RecurrentDetectorConfig,
    SidLmDetectorConfig,
    SileroVadConfig,
    SmartTurnConfig,
    TenVadConfig,
    WebrtcVadConfig,
)
from bystander.tasks.engines.model_revision import ResolveModel
from bystander.tasks.engines.recurrent_detector import find_settings
from bystander.tasks.engines.registry import open_recogniser

_ADAPTERS: dict[type[Any], tuple[str, str]] = {
    EnergyVadConfig: ("energy_vad_detector", "EnergyVadDetector"),
    WebrtcVadConfig: ("webrtc_vad_detector", "WebrtcVadDetector"),
    SileroVadConfig: ("silero_vad_detector", "SileroVadDetector"),
    TenVadConfig: ("ten_vad_detector", "TenVadDetector"),
    FsmnVadConfig: ("fsmn_vad_detector", "FsmnVadDetector"),
    RecurrentDetectorConfig: ("recurrent_detector", "RecurrentDetector"),
    FakeDetectorConfig: ("fake_detector", "FakeDetector"),
    SidLmDetectorConfig: ("sid_lm_detector", "SidLmDetector"),
}
"""Module and class of each adapter that is made from its configuration and a `ResolveModel`."""


def open_detector(config: DetectorConfig, resolve_model: ResolveModel) -> Detector:
    """Open a detector of interruptions.

    Raises:
        EngineSetupError: a package, library, model file or setting is missing or wrong.
        ModelStoreError: a model is not in the store (from `resolve_model`).
    """
    if isinstance(config, KConsecutiveConfig):
        inner = open_detector(config.of, resolve_model)
        return cast(Detector, _find_adapter("k_consecutive_detector", "KConsecutiveDetector")(config, inner))
    if isinstance(config, SmartTurnConfig):
        vad = open_detector(config.vad, resolve_model)
        return cast(Detector, _find_adapter("smart_turn_detector", "SmartTurnDetector")(config, resolve_model, vad))
    if isinstance(config, LexiconWordsConfig):
        vad, recogniser = open_detector(config.vad, resolve_model), open_recogniser(config.recogniser, resolve_model)
        return cast(Detector, _find_adapter("lexicon_words_detector", "LexiconWordsDetector")(config, recogniser, vad))
    return cast(Detector, _find_adapter(*_ADAPTERS[type(config)])(config, resolve_model))


def computes_elsewhere(config: DetectorConfig) -> bool:
    """Whether a detector computes on threads of its own, so that the CPU time of the thread that asks says little.

    Raises:
        EngineSetupError: a trained detector's folder is not there.
    """
    inner = config.of if isinstance(config, KConsecutiveConfig) else config
    if isinstance(inner, RecurrentDetectorConfig):
        return find_settings(inner).features == "recogniser"
    return isinstance(inner, LexiconWordsConfig | SidLmDetectorConfig)


def _find_adapter(module: str, name: str) -> Any:
    return getattr(import_module(f"bystander.tasks.engines.{module}"), name)
