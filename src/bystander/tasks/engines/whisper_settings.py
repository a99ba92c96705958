"""How the rules that a Whisper engine follows stand in its identity: not at all where they are off."""

from __future__ import annotations

from bystander.schemas.recogniser_configs import HallucinationGuards, TemperatureFallback
from bystander.schemas.stages import Params
from bystander.tasks.engines import hallucination_guards, temperature_fallback


def describe_rules(
    fallback: TemperatureFallback | None, guards: HallucinationGuards | None
) -> tuple[tuple[str, str], ...]:
    """Return settings of an `EngineIdentity`: the temperature, or those of the fall-back; the guards."""
    settings: list[tuple[str, str]] = []
    if fallback is None:
        settings.append(("temperature", "0"))
    else:
        settings += _describe("fallback", fallback, temperature_fallback.RULES)
    if guards is not None:
        settings += _describe("guards", guards, hallucination_guards.RULES)
    return tuple(settings)


def _describe(name: str, rules: Params, version: str) -> list[tuple[str, str]]:
    values = rules.model_dump(mode="json")
    return [(f"{name}.rules", version), *((f"{name}.{key}", str(value)) for key, value in values.items())]
