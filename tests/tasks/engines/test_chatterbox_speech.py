"""The engine of worker processes against real ones, whose model makes tones and fails when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from pydantic import ValidationError

from bystander.schemas.engines import RowFault, SpeechReply, SpeechRequest, Voice
from bystander.schemas.errors import EngineSetupError, EngineUnavailableError
from bystander.schemas.speech_engine_configs import ChatterboxSpeechConfig
from bystander.tasks.engines import registry
from bystander.tasks.engines.chatterbox_speech import ChatterboxSpeechEngine
from bystander.workers.speech.protocol import TOKEN_VARIABLE
from voice_banks import MemoryVoiceBank, make_bank, make_hum
from workers.speech.test_worker_program import FOLDER, Worker, end, start

FAULTY = (sys.executable, str(Path(__file__).with_name("faulty_worker.py")))
Open = Callable[..., ChatterboxSpeechEngine]


@pytest.fixture
def open_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    monkeypatch.setenv("FAULTY_WORKER_FOLDER", str(tmp_path))
    opened: list[ChatterboxSpeechEngine] = []

    def open_one(bank: Any = None, **fields: Any) -> ChatterboxSpeechEngine:
        given = {"bank": "memory", "model": "tone", "python": FAULTY, "devices": ("cpu",), "startup_timeout_s": 60}
        folders = {"cache_folder": str(tmp_path / "cache"), "log_folder": str(tmp_path / "logs")}
        config = ChatterboxSpeechConfig(**{**given, **folders, **fields})
        opened.append(ChatterboxSpeechEngine(config, bank or make_bank()))
        return opened[-1]

    yield open_one
    for engine in opened:
        engine.close()


@pytest.fixture
def start_workers() -> Iterator[Callable[[int], list[Worker]]]:
    started: list[Worker] = []

    def start_some(count: int) -> list[Worker]:
        started.extend(start(token="open sesame") for _ in range(count))
        return started

    yield start_some
    for worker in started:
        end(worker)


def ask(*texts: str, voice: str = "hum_00") -> list[SpeechRequest]:
    return [SpeechRequest(text, voice, seed) for seed, text in enumerate(texts)]


def read_spoken(folder: Path) -> list[tuple[int, str]]:
    lines = (folder / "spoken.txt").read_text().splitlines()
    return [(int(pid), text) for pid, _, text in (line.partition(" ") for line in lines)]


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for_end(pid: int) -> None:
    """Wait until a process that is not ours ends; pytest's time limit ends the wait."""
    while is_running(pid):
        threading.Event().wait(0.02)


def test_nothing_starts_before_the_first_call_and_closing_leaves_nothing(open_engine, tmp_path):
    engine = open_engine()
    assert engine.identity.kind == "speech"
    assert not (tmp_path / "logs").exists()
    (reply,) = engine.synthesise(ask("Hello."))
    assert isinstance(reply, SpeechReply)
    ((pid, _),) = read_spoken(tmp_path)
    assert is_running(pid)
    engine.close()
    assert not is_running(pid)
    engine.close()
    with pytest.raises(EngineSetupError, match="closed"):
        engine.synthesise(ask("Hello."))


def test_workers_speak_at_once_and_the_same(open_engine, tmp_path):
    engine = open_engine(devices=("cpu", "cpu"), batch_size=1)
    requests = [SpeechRequest(f"[meet 2] number {i}", f"hum_{i:02d}", 7) for i in range(2)]
    both = engine.synthesise(requests)
    pids = {pid for pid, _ in read_spoken(tmp_path)}
    assert len(pids) == 2
    again = open_engine(devices=("cpu",)).synthesise(requests)
    for one, other in zip(both, again, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)


def test_calls_from_several_threads_share_the_workers(open_engine):
    engine = open_engine(devices=("cpu", "cpu"), batch_size=3)
    results: dict[int, list[Any]] = {}

    def call(number: int) -> None:
        requests = [SpeechRequest(f"call {number} text {i}", f"hum_{i % 4:02d}", i) for i in range(9)]
        results[number] = engine.synthesise(requests)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for replies in results.values():
        assert [len(reply.samples) for reply in replies] == [13 * 1440] * 9
    assert len(results) == 4


def test_a_worker_that_is_killed_is_started_again_and_nothing_is_lost(open_engine, tmp_path):
    engine = open_engine()
    texts = ["one", "two [die once]", "three", "four"]
    seen: list[int] = []
    replies = engine.synthesise(ask(*texts), lambda index, reply: seen.append(index))
    assert all(isinstance(reply, SpeechReply) for reply in replies)
    assert sorted(seen) == [0, 1, 2, 3]
    assert engine.restarts == 1
    spoken = read_spoken(tmp_path)
    assert [text for _, text in spoken] == [texts[0], texts[1], *texts[1:]]  # what was answered is not repeated
    assert len({pid for pid, _ in spoken}) == 2
    engine.synthesise(ask("five"))
    os.kill(read_spoken(tmp_path)[-1][0], signal.SIGKILL)
    (reply,) = engine.synthesise(ask("six"))
    assert isinstance(reply, SpeechReply)
    assert engine.restarts == 2


def test_a_request_that_kills_two_workers_is_given_up_and_the_others_are_spoken(open_engine):
    engine = open_engine()
    replies = engine.synthesise(ask("one", "two [die]", "three"))
    assert [type(reply) for reply in replies] == [SpeechReply, RowFault, SpeechReply]
    assert replies[1].reason == "speech_worker_died"
    assert engine.restarts == 2


def test_a_worker_that_hangs_counts_as_dead(open_engine):
    engine = open_engine(timeout_s=0.5)
    replies = engine.synthesise(ask("one", "two [hang]"))
    assert isinstance(replies[0], SpeechReply)
    assert replies[1].reason == "speech_worker_died"
    assert "did not answer in 0.5 s" in replies[1].detail


def test_workers_that_die_all_the_time_are_an_error_and_come_back(open_engine, tmp_path):
    engine = open_engine(max_restarts=1, devices=("cpu", "cpu"), batch_size=1)
    texts = [f"text {i} [die]" for i in range(8)]
    with pytest.raises(EngineUnavailableError, match="no speech worker is left"):
        engine.synthesise([SpeechRequest(text, "hum_00", 1) for text in texts])
    (reply,) = engine.synthesise(ask("better now"))
    assert isinstance(reply, SpeechReply)


def test_a_failing_request_is_a_fault_and_costs_no_worker(open_engine, tmp_path):
    engine = open_engine()
    fault, good = engine.synthesise(ask("[fail]", "fine"))
    assert (fault.reason, fault.detail) == ("synthesis_failed", "RuntimeError: the model fails")
    assert isinstance(good, SpeechReply)
    assert engine.restarts == 0
    (log,) = (tmp_path / "logs").iterdir()
    assert "at length" in log.read_text()


def test_a_worker_that_grew_is_started_again_between_batches(open_engine, tmp_path):
    engine = open_engine(max_worker_memory_mib=180, batch_size=2)
    replies = engine.synthesise(ask("one", "two [grow]", "three", "four"))
    assert all(isinstance(reply, SpeechReply) for reply in replies)
    assert engine.restarts == 1
    first, second, third, fourth = (pid for pid, _ in read_spoken(tmp_path))
    assert first == second != third == fourth


def test_a_memory_bound_below_the_model_is_an_error(open_engine):
    engine = open_engine(max_worker_memory_mib=5)
    with pytest.raises(EngineSetupError, match="max_worker_memory_mib is 5, but a worker takes"):
        engine.synthesise(ask("Hello."))


def test_a_reference_is_read_and_prepared_once(open_engine, tmp_path):
    bank = make_bank()
    engine = open_engine(bank)
    engine.synthesise(ask("one", "two", voice="hum_01"))
    engine.synthesise(ask("three", voice="hum_01"))
    assert bank.reads == ["hum_01"]
    (folder,) = (path for path in (tmp_path / "cache").iterdir() if path.is_dir())
    (kept,) = folder.iterdir()
    before = kept.stat().st_mtime_ns
    engine.close()
    again = make_bank()
    open_engine(again).synthesise(ask("one", voice="hum_01"))
    assert again.reads == ["hum_01"]  # its key is computed from it; the worker had it
    assert kept.stat().st_mtime_ns == before


def test_voices_that_cannot_be_had_are_faults_of_their_rows(open_engine):
    class Gap(MemoryVoiceBank):
        def __init__(self) -> None:
            super().__init__({"good": make_hum(100), "short": make_hum(100, 0.01)})
            self.voices = (*self.voices, Voice("lost", "en"))

    replies = open_engine(Gap()).synthesise([SpeechRequest("Hello.", voice, 0) for voice in ("lost", "good", "short")])
    assert replies[0].reason == "unreadable_reference"
    assert "voice lost: the bank has no voice 'lost'" in replies[0].detail
    assert isinstance(replies[1], SpeechReply)
    assert replies[2].reason == "unusable_reference"


@pytest.mark.parametrize("attached", [False, True])
def test_closing_ends_calls_that_are_waiting(open_engine, tmp_path, attached):
    worker = start(command=FAULTY[1:]) if attached else None
    fields = {"python": (), "endpoints": (f"127.0.0.1:{worker.port}",)} if worker is not None else {}
    engine = open_engine(**fields)
    errors: list[BaseException] = []

    def call() -> None:
        try:
            engine.synthesise(ask("one", "two [hang]", "three"))
        except EngineSetupError as exc:
            errors.append(exc)

    thread = threading.Thread(target=call)
    thread.start()
    while not (tmp_path / "spoken.txt").exists() or len(read_spoken(tmp_path)) < 2:
        threading.Event().wait(0.02)
    engine.close()
    thread.join()
    assert "closed" in str(errors[0])
    if worker is not None:
        end(worker)


def test_an_error_while_a_reply_is_kept_reaches_the_caller(open_engine):
    def refuse(index: int, reply: SpeechReply) -> None:
        raise OSError("disk full")

    engine = open_engine()
    with pytest.raises(OSError, match="disk full"):
        engine.synthesise(ask("one", "two"), refuse)
    (reply,) = engine.synthesise(ask("three"))
    assert isinstance(reply, SpeechReply)


def test_a_worker_ends_with_its_parent(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from bystander.schemas.engines import SpeechRequest\n"
        "from bystander.schemas.speech_engine_configs import ChatterboxSpeechConfig\n"
        "from bystander.tasks.engines.chatterbox_speech import ChatterboxSpeechEngine\n"
        "from voice_banks import make_bank\n"
        f"config = ChatterboxSpeechConfig(bank='b', model='tone', python={FAULTY!r}, devices=('cpu',),\n"
        f"    cache_folder={str(tmp_path)!r}, log_folder={str(tmp_path)!r})\n"
        "ChatterboxSpeechEngine(config, make_bank()).synthesise([SpeechRequest('Hello.', 'hum_00', 0)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = os.pathsep.join([str(FOLDER.parents[2]), str(Path(__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": path, "FAULTY_WORKER_FOLDER": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    ((pid, _),) = read_spoken(tmp_path)
    wait_for_end(pid)


def test_workers_that_run_already_are_attached_to(open_engine, start_workers, monkeypatch):
    workers = start_workers(2)
    endpoints = tuple(f"127.0.0.1:{worker.port}" for worker in workers)
    monkeypatch.setenv("TOKEN_OF_WORKERS", "open sesame")
    engine = open_engine(python=(), endpoints=endpoints, token_env="TOKEN_OF_WORKERS", startup_timeout_s=1)
    requests = [SpeechRequest(f"text {i}", f"hum_{i % 4:02d}", i) for i in range(12)]
    replies = engine.synthesise(requests)
    ours = open_engine(python=()).synthesise(requests)
    for one, other in zip(replies, ours, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)
    engine.close()
    assert all(worker.process.poll() is None for worker in workers)  # they are somebody else's

    engine = open_engine(
        python=(), endpoints=endpoints, token_env="TOKEN_OF_WORKERS", startup_timeout_s=1, max_restarts=0
    )
    end(workers[0])
    assert all(isinstance(reply, SpeechReply) for reply in engine.synthesise(requests))  # by the one that is left
    assert (
        open_engine(python=(), endpoints=endpoints, token_env="TOKEN_OF_WORKERS", startup_timeout_s=1).identity
        == engine.identity
    )
    end(workers[1])
    with pytest.raises(EngineUnavailableError, match="no speech worker is left"):
        engine.synthesise(requests)
    with pytest.raises(EngineUnavailableError):
        open_engine(python=(), endpoints=endpoints, token_env="TOKEN_OF_WORKERS", startup_timeout_s=0.1)


def test_a_wrong_token_or_model_is_an_error(open_engine, start_workers, monkeypatch):
    (worker,) = start_workers(1)
    endpoints = (f"127.0.0.1:{worker.port}",)
    with pytest.raises(EngineSetupError, match="401"):
        open_engine(python=(), endpoints=endpoints)
    monkeypatch.setenv("TOKEN_OF_WORKERS", "open sesame")
    with pytest.raises(EngineSetupError, match="run the model 'tone', not 'english'"):
        open_engine(python=(), endpoints=endpoints, token_env="TOKEN_OF_WORKERS", model="english")
    monkeypatch.delenv("TOKEN_OF_WORKERS")
    with pytest.raises(EngineSetupError, match=r"TOKEN_OF_WORKERS .* is not set"):
        open_engine(python=(), endpoints=endpoints, token_env="TOKEN_OF_WORKERS")


def test_the_token_of_started_workers_is_theirs_alone(open_engine, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "of somebody else")
    (reply,) = open_engine().synthesise(ask("Hello."))
    assert isinstance(reply, SpeechReply)


def test_a_python_that_cannot_run_is_named(open_engine, tmp_path):
    with pytest.raises(EngineSetupError, match="no_such_python cannot be run"):
        open_engine(python="no_such_python")
    quitter = tmp_path / "quitter.py"
    quitter.write_text("import sys; sys.exit('no module named numpy')")
    with pytest.raises(EngineSetupError, match=r"^speech worker by .*: no module named numpy$"):
        open_engine(python=(sys.executable, str(quitter)))
    for program, said in (("false", "ends with status 1"), ("true", "does not answer as a Python would")):
        with pytest.raises(EngineSetupError, match=f"{program} {said}.*must be the Python of the environment in envs/"):
            open_engine(python=program)
    with pytest.raises(EngineSetupError, match=r"has no ve\.safetensors"):
        open_engine(python=sys.executable, model="english", weights=str(tmp_path))


def test_a_worker_that_dies_while_starting_is_tried_again_and_its_last_words_are_told(open_engine, tmp_path):
    starter = tmp_path / "starter.py"
    starter.write_text(
        "import runpy, sys\n"
        "sys.argv = sys.argv[1:]\n"
        "if '--describe' not in sys.argv: sys.exit('cannot allocate memory')\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    engine = open_engine(python=(sys.executable, str(starter)), max_restarts=1)
    with pytest.raises(EngineUnavailableError, match="died while starting: cannot allocate memory"):
        engine.synthesise(ask("Hello."))
    assert engine.restarts == 1


def test_only_voices_that_the_model_can_speak_are_offered(open_engine):
    bank = make_bank(4, languages=("en-GB", "de", "zh"))
    engine = open_engine(bank)
    assert [voice.id for voice in engine.voices] == ["hum_00", "hum_02", "hum_03"]
    with pytest.raises(EngineSetupError, match="no voice 'hum_01'"):
        engine.synthesise(ask("Hallo.", voice="hum_01"))
    with pytest.raises(EngineSetupError, match="no voice whose language is one of en, zh"):
        open_engine(make_bank(2, languages=("de",)))


def test_identity_is_that_of_bank_model_and_settings_only(open_engine, tmp_path):
    base = open_engine().identity
    same = open_engine(
        devices=("cpu", "cpu", "cpu"), batch_size=1, max_restarts=9, cache_folder=str(tmp_path / "other"), timeout_s=9
    )
    assert same.identity == base
    assert dict(base.settings)["bank"] == make_bank().digest
    assert open_engine(make_bank(5)).identity != base
    assert open_engine(temperature=0.7).identity != base


def test_the_registry_opens_it_with_a_bank():
    config = ChatterboxSpeechConfig(bank="somewhere", model="tone", devices=("cpu",))
    asked: list[str] = []

    def open_bank(uri: str) -> MemoryVoiceBank:
        asked.append(uri)
        return make_bank()

    engine = registry.open_speech_engine(config, Path, open_bank)
    assert asked == ["somewhere"]
    assert len(engine.voices) == 4
    engine.close()
    with pytest.raises(EngineSetupError, match="voice bank somewhere"):
        registry.open_speech_engine(config, Path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "python is missing"),
        ({"python": "p", "endpoints": ("a:1",)}, "endpoints run already"),
        ({"endpoints": ("a",)}, "endpoint 'a' is not host:port"),
        ({"endpoints": ("a:99999",)}, "is not host:port"),
        ({"python": "p", "devices": ("cpu", "cuda:0")}, "devices of different kinds"),
        ({"python": "p", "cfg_weight": 0.0}, "greater than 0"),
        ({"python": "p", "devices": ()}, "at least 1 item"),
    ],
)
def test_wrong_configurations_say_what_is_wrong(fields, message):
    with pytest.raises(ValidationError, match=message):
        ChatterboxSpeechConfig(bank="b", **fields)


def test_settings_sent_are_those_of_the_model():
    english = ChatterboxSpeechConfig(bank="b", python="p")
    assert "repetition_penalty" not in english.sampling
    assert english.sampling["cfg_weight"] == 0.5
    assert ChatterboxSpeechConfig(bank="b", python="p", repetition_penalty=1.5).sampling["repetition_penalty"] == 1.5
    assert set(ChatterboxSpeechConfig(bank="b", model="tone").sampling) == {"max_characters", "temperature"}
