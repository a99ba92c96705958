from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bystander.schemas.errors import EngineSetupError
from bystander.schemas.text_engine_configs import FakeTextConfig, LlamaCppTextConfig, OpenAiTextConfig
from bystander.tasks.engines import registry
from bystander.tasks.engines.fake_text import FakeTextEngine
from bystander.tasks.engines.llama_cpp import LlamaCppServer, LlamaCppTextEngine
from bystander.tasks.engines.openai_text import OpenAiTextEngine


def test_config_types_choose_the_adapter():
    assert isinstance(registry.open_text_engine(FakeTextConfig(), Path), FakeTextEngine)
    openai = registry.open_text_engine(OpenAiTextConfig(base_url="http://127.0.0.1:1/v1", model="m"), Path)
    assert isinstance(openai, OpenAiTextEngine)


def test_known_digest_spares_reading_the_file(tmp_path):
    engine = registry.open_text_engine(
        LlamaCppTextConfig(model="x"), lambda name: tmp_path / f"{name}.gguf", lambda name: f"digest of {name}"
    )
    assert isinstance(engine, LlamaCppTextEngine)
    assert engine.identity.revision == "digest of x"
    assert engine.generate([]) == []
    engine.close()


def test_llama_cpp_is_named_by_the_bytes_of_the_file(tmp_path):
    model = tmp_path / "m.gguf"
    model.write_bytes(b"abc")
    engine = LlamaCppTextEngine(LlamaCppTextConfig(model=str(model), slots=1), Path)
    assert engine.identity.revision == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    other = LlamaCppTextEngine(LlamaCppTextConfig(model=str(model), slots=8, threads=1), Path)
    assert engine.identity.digest() == other.identity.digest()
    with pytest.raises(EngineSetupError, match=r"no\.gguf.*bystander models fetch"):
        LlamaCppTextEngine(LlamaCppTextConfig(model=str(tmp_path / "no.gguf")), Path)


def test_server_refuses_what_is_no_model(tmp_path):
    server = LlamaCppServer(LlamaCppTextConfig(slots=1))
    with pytest.raises(EngineSetupError, match="no model file"):
        server.start(tmp_path / "no.gguf")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\0" * 64)
    with pytest.raises(EngineSetupError, match="cannot load"):
        server.start(broken)
    server.close()


def test_missing_adapter_is_one_sentence():
    with pytest.raises(EngineSetupError, match="engine not_there"):
        registry._find_adapter("not_there", "X")


def test_every_listed_adapter_is_where_the_registry_says():
    folder = Path(registry.__file__).parent
    for module, name in registry._ADAPTERS.values():
        if (folder / f"{module}.py").exists():
            assert callable(registry._find_adapter(module, name))


def test_importing_the_registry_loads_no_engine_package():
    packages = ("openai", "xllamacpp", "onnxruntime", "faster_whisper", "soundfile", "jsonschema")
    code = f"import sys, bystander.tasks.engines.registry; print([m for m in {packages} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
