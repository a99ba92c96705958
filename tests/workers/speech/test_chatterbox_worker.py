"""The worker with upstream's real classes and random weights, in Chatterbox's environment.

    BYSTANDER_CHATTERBOX_PYTHON=/path/of/its/python pytest -m chatterbox

`envs/chatterbox/make_cpu_test_env.sh` makes such an environment.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bystander.schemas.engines import RowFault, SpeechReply, SpeechRequest
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.speech_engine_configs import ChatterboxSpeechConfig
from bystander.tasks.engines.chatterbox_speech import ChatterboxSpeechEngine
from bystander.tasks.engines.speech_worker_process import PROGRAM
from bystander.workers.speech import chatterbox_model
from bystander.workers.speech.chatterbox_weights import LANGUAGES
from voice_banks import MemoryVoiceBank, make_hum

PYTHON = os.environ.get("BYSTANDER_CHATTERBOX_PYTHON", "")
HERE = Path(__file__).parent
TINY = str(HERE / "tiny_chatterbox.py")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "TQDM_DISABLE": "1"}

pytestmark = [
    pytest.mark.chatterbox,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not PYTHON, reason="BYSTANDER_CHATTERBOX_PYTHON names no Python of Chatterbox's environment"),
]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chatterbox") / "weights"
    subprocess.run([PYTHON, TINY, "save", str(folder)], check=True, capture_output=True, env=ENVIRONMENT)
    return folder


@pytest.fixture(scope="module")
def inspected(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    scratch = str(tmp_path_factory.mktemp("scratch"))
    command = [PYTHON, str(HERE / "inspect_chatterbox.py"), str(PROGRAM), str(weights), scratch]
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def open_engine(weights: Path, tmp_path: Path) -> Iterator[Callable[..., ChatterboxSpeechEngine]]:
    opened: list[ChatterboxSpeechEngine] = []
    bank = MemoryVoiceBank({"low": make_hum(110, 2.0), "high": make_hum(220, 2.0)}, languages=("en", "en"))

    def open_one(**fields: Any) -> ChatterboxSpeechEngine:
        given = {"bank": "memory", "python": (PYTHON, TINY), "devices": ("cpu",), "threads": 1, "max_s": 10.0}
        folders = {"cache_folder": str(tmp_path / "cache"), "log_folder": str(tmp_path / "logs")}
        config = ChatterboxSpeechConfig(**{**given, **folders, "weights": str(weights), **fields})
        opened.append(ChatterboxSpeechEngine(config, bank))
        return opened[-1]

    yield open_one
    for engine in opened:
        engine.close()


def test_a_clip_is_the_same_from_every_worker_and_with_kept_voices(open_engine, tmp_path):
    takes = [(voice, seed) for voice in ("low", "high") for seed in (1, 2)]
    requests = [SpeechRequest("Turn the lights on.", voice, seed) for voice, seed in takes]
    requests.append(SpeechRequest("", "high", 1))
    first = open_engine()
    replies = first.synthesise(requests)
    first.close()
    kept = list((tmp_path / "cache").glob("chatterbox-english-*/*.voice"))
    assert len(kept) == 2
    times = [path.stat().st_mtime_ns for path in kept]
    again = open_engine(batch_size=1).synthesise(requests)
    assert [path.stat().st_mtime_ns for path in kept] == times
    fresh = open_engine(cache_folder=str(tmp_path / "empty")).synthesise(requests[:2])
    assert replies[4] == RowFault("empty_text", "nothing in '' can be spoken")
    spoken = [reply for reply in replies if isinstance(reply, SpeechReply)]
    assert len(spoken) >= 2  # some takes of a random model end before they begin
    for one, other in [*zip(replies, again, strict=True), *zip(replies, fresh, strict=False)]:
        if isinstance(one, RowFault):
            assert one == other
            continue
        assert one.sampling_rate == 24000
        assert 0.05 < len(one.samples) / 24000 <= 10
        assert np.isfinite(one.samples).all()
        np.testing.assert_array_equal(one.samples, other.samples)
    assert len({reply.samples.tobytes() for reply in spoken}) == len(spoken)


def test_the_identity_names_weights_packages_and_precision(open_engine):
    engine = open_engine()
    settings = dict(engine.identity.settings)
    assert engine.identity.name == "chatterbox"
    assert engine.identity.model == "english"
    assert len(engine.identity.revision) == 64
    assert settings["watermark"].startswith("perth ")
    assert (settings["device"], settings["dtype"], settings["package"]) == ("cpu", "float32", "0.1.7")
    half = open_engine(dtype="bfloat16").identity
    assert half.digest() != engine.identity.digest()
    assert half.revision == engine.identity.revision


def test_a_device_that_is_not_there_is_named(open_engine):
    engine = open_engine(devices=("cuda:0",))
    with pytest.raises(EngineSetupError, match="there is no device cuda:0"):
        engine.synthesise([SpeechRequest("Hello.", "low", 1)])


def test_defaults_and_languages_are_upstreams(inspected):
    ours = {name: chatterbox_model._DEFAULTS[name] for name in chatterbox_model._SAMPLING}
    assert inspected["english_defaults"] == ours
    assert inspected["multilingual_defaults"] == {**ours, "repetition_penalty": 2.0}
    assert tuple(inspected["languages"]) == LANGUAGES["multilingual"]


def test_seeds_and_settings_decide_and_conditionals_are_kept_exactly(inspected):
    english = inspected["english"]
    spoken = english["spoken"]
    assert spoken == english["repeated"] == english["reloaded"]
    clips = [clip for clip in spoken if clip != "fault"]  # some takes of a random model end before they begin
    assert len(set(clips)) == len(clips) >= 1
    assert all(changed != spoken for changed in english["changed"])
    assert english["voice_is_as_fresh"]
    assert english["damaged"] == "refused"
    assert english["limited_tokens"] == 3
    assert english["out_of_memory"] == ["as ever", "out_of_memory", "4 tries"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_that_of_the_language_model_alone(inspected, dtype):
    found = inspected[dtype]
    assert (found["dtype"], found["vocoder"], found["finite"]) == (f"torch.{dtype}", "torch.float32", True)
    assert found["seconds"] > 0


def test_mandarin_is_spoken_by_its_characters_and_no_hook_stays(inspected):
    found = inspected["multilingual"]
    first, second, _english = found["spoken"]  # a random model heeds its seed more than its text
    assert first == second
    unknown, codes = found["tokens"]["en"], found["tokens"]["zh"]
    assert unknown[0] != codes[0]  # the language
    assert len(set(unknown[1:])) == 1
    assert len(set(codes[1:])) == 7  # o n f v d and the end of a code, and the space between two words
    assert found["hooks"][0] == found["hooks"][1]
    assert found["sampling"]["repetition_penalty"] == 2.0
