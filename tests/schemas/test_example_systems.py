"""The documented systems are configurations that load, and say how each is served or made."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bystander.schemas.engine_configs import OpenAiAudioConfig, PredictionsConfig
from bystander.schemas.evaluate_config import EvaluateTpiConfig

FOLDER = Path(__file__).parents[2] / "examples" / "systems"
ENGINES = {
    "gpt-4o-audio": OpenAiAudioConfig,
    "kimi-audio": PredictionsConfig,
    "qwen2.5-omni": OpenAiAudioConfig,
    "qwen3-omni": OpenAiAudioConfig,
    "vita-audio": PredictionsConfig,
}


def test_each_system_has_its_file():
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(ENGINES)


@pytest.mark.parametrize("name", ENGINES)
def test_a_system_loads_and_its_comment_fits_its_fields(name):
    text = (FOLDER / f"{name}.yaml").read_text("utf-8")
    systems = EvaluateTpiConfig.model_validate(yaml.safe_load(text)).systems
    assert list(systems) == [name]
    config = systems[name]
    assert isinstance(config, ENGINES[name])
    assert "Not run by the authors" in text
    if isinstance(config, PredictionsConfig):
        assert '{"id": row["id"], "reply": reply}' in text
    elif config.api_key_env is not None:
        assert f"export {config.api_key_env}=" in text
        assert config.text_only
    else:
        port = config.base_url.removesuffix("/v1").rsplit(":", 1)[1]
        assert f"vllm serve {config.model} --host 127.0.0.1 --port {port} " in text
