"""The engine that starts vLLM itself, over a small program with its command line; the real one: `test_real_vllm`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from bystander.schemas.engines import Message, TextReply, TextRequest
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.text_engine_configs import VllmTextConfig
from bystander.tasks.engines import vllm_server
from bystander.tasks.engines.vllm_text import VllmTextEngine

PROGRAM = (sys.executable, str(Path(__file__).with_name("small_vllm.py")))


def make_config(folder: Path, environment: dict[str, str] | None = None, **fields: object) -> VllmTextConfig:
    given = {
        "model": "tiny",
        "command": PROGRAM,
        "log_folder": str(folder),
        "environment": environment or {},
        "startup_timeout_s": 60.0,
        "max_retries": 0,
        **fields,
    }
    return VllmTextConfig(**given)  # type: ignore[arg-type]


@contextmanager
def open_engine(folder: Path, environment: dict[str, str] | None = None, **fields: object) -> Iterator[VllmTextEngine]:
    engine = VllmTextEngine(make_config(folder, environment, **fields))
    try:
        yield engine
    finally:
        engine.close()


def ask(text: str) -> TextRequest:
    return TextRequest("write_line", (Message("system", "Be brief."), Message("user", text)), seed=5)


def list_processes(engine: VllmTextEngine) -> list[psutil.Process]:
    """The guards and all below them."""
    guards = [psutil.Process(replica.pid) for replica in engine.servers.replicas if replica.pid]
    return [process for guard in guards for process in (guard, *guard.children(recursive=True))]


def are_gone(processes: list[psutil.Process]) -> bool:
    """Whether they end: who is killed is gone some moments later."""
    return not psutil.wait_procs(processes, timeout=20)[1]


def test_server_starts_at_the_first_call_and_ends_with_the_engine(tmp_path):
    with open_engine(tmp_path, dtype="bfloat16", max_model_len=2048) as engine:
        assert not engine.servers.replicas
        assert engine.generate([]) == []
        assert not engine.servers.replicas
        replies = engine.generate([ask(str(i)) for i in range(5)])
        assert all(isinstance(reply, TextReply) for reply in replies)
        processes = list_processes(engine)
        assert len(processes) == 2
        (log,) = tmp_path.iterdir()
    assert are_gone(processes)
    said = log.read_text("utf-8")
    assert "serve tiny --served-model-name tiny --host 127.0.0.1" in said
    assert "--dtype bfloat16" in said
    with pytest.raises(EngineSetupError, match="was closed"):
        engine.generate([ask("again")])


def test_what_the_log_says_of_a_failed_start(tmp_path):
    with open_engine(tmp_path, {"SMALL_VLLM_FAIL": "1"}) as engine:
        with pytest.raises(EngineSetupError) as caught:
            engine.generate([ask("a")])
        assert not caught.value.retryable
    said = str(caught.value)
    assert said.startswith("vllm serve tiny ended before it answered (exit status 3, log ")
    assert "ValueError: no such quantization" in said
    assert said.endswith("RuntimeError: Engine core initialization failed. See root cause above.")
    assert "\x1b" not in said


def test_start_that_takes_too_long(tmp_path):
    with open_engine(tmp_path, {"SMALL_VLLM_SILENT": "1"}, startup_timeout_s=0.5) as engine:
        with pytest.raises(EngineSetupError, match=r"did not answer within startup_timeout_s = 0\.5 s"):
            engine.generate([ask("a")])
        assert not [replica for replica in engine.servers.replicas if replica.pid and psutil.pid_exists(replica.pid)]


def test_server_that_dies_is_started_again_and_the_call_goes_on(tmp_path, caplog):
    mortal = tmp_path / "lives"
    mortal.write_text("x")
    heard: list[int] = []
    with open_engine(tmp_path / "logs", {"SMALL_VLLM_MORTAL": str(mortal)}, max_in_flight=1) as engine:
        requests = [ask(text) for text in ("a", "b", "die now", "x", "y")]
        replies = engine.generate(requests, lambda index, reply: heard.append(index))
        assert all(isinstance(reply, TextReply) for reply in replies)
        assert engine.generate(requests) == replies
    assert sorted(heard) == [0, 1, 2, 3, 4]
    assert "vllm serve tiny died (exit status 137" in caplog.text
    assert "CUDA error" in caplog.text
    assert "starting it again (1 of 3)" in caplog.text


def test_server_that_dies_too_often_ends_the_call(tmp_path):
    mortal = tmp_path / "lives"
    mortal.write_text("xxxxx")
    with open_engine(tmp_path / "logs", {"SMALL_VLLM_MORTAL": str(mortal)}, max_restarts=1) as engine:
        with pytest.raises(EngineError, match="CUDA error: an illegal memory access") as caught:
            engine.generate([ask("die")])
        assert not caught.value.retryable
        with pytest.raises(EngineError):
            engine.generate([ask("a")])
    assert mortal.read_text() == "xxx"


def test_replicas_share_the_requests_and_stand_in_for_each_other(tmp_path):
    with open_engine(tmp_path, replicas=2, devices=("0,1", "2,3"), max_in_flight=4, max_retries=3) as engine:
        requests = [ask(str(i)) for i in range(24)]
        replies = engine.generate(requests)
        client = engine.client
        assert client is not None
        client.endpoints.probe_pauses_s = (0.01,)
        first, second = client.endpoints.endpoints
        assert min(first.answered, second.answered) >= 6
        lost = engine.servers.replicas[0]
        assert lost.pid is not None
        psutil.Process(lost.pid).children()[0].kill()
        assert engine.generate(requests) == replies
        assert second.answered > 24
        waited = threading.Event()
        while not (lost.healthy and first.fault is None):
            waited.wait(0.01)
        before = first.answered
        assert engine.generate(requests) == replies
        assert first.answered > before
    logs = sorted(tmp_path.iterdir())
    assert ["devices 0,1" in log.read_text("utf-8") for log in logs] == [True, False]


def test_what_ignores_the_request_to_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(vllm_server, "_GRACE_S", 0.3)
    with open_engine(tmp_path, {"SMALL_VLLM_STUBBORN": "1"}) as engine:
        engine.generate([ask("a")])
        processes = list_processes(engine)
        assert len(processes) == 3
    assert are_gone(processes)


def test_closing_ends_a_start_in_another_thread(tmp_path):
    faults: list[str] = []
    with open_engine(tmp_path, {"SMALL_VLLM_SILENT": "1"}) as engine:

        def call() -> None:
            try:
                engine.generate([ask("a")])
            except EngineSetupError as exc:
                faults.append(str(exc))

        thread = threading.Thread(target=call)
        thread.start()
        waited = threading.Event()
        while not (engine.servers.replicas and engine.servers.replicas[0].pid):
            waited.wait(0.01)
        engine.close()
        thread.join(30)
    assert faults == ["vllm serve tiny was stopped"]


BUILD = """
import sys, threading
sys.path[:0] = [{tests!r}]
from pathlib import Path
from test_vllm_text import ask, list_processes, open_engine
with open_engine(Path({folder!r}), {{"SMALL_VLLM_STUBBORN": "1"}}) as engine:
    engine.generate([ask("a")])
    print(*[process.pid for process in list_processes(engine)], flush=True)
    threading.Event().wait()
"""


def test_no_server_outlives_a_process_that_is_killed(tmp_path, monkeypatch):
    code = BUILD.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    code = f"from bystander.tasks.engines import vllm_server; vllm_server._GRACE_S = 0.3\n{code}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as build:
        assert build.stdout is not None
        processes = [psutil.Process(int(word)) for word in build.stdout.readline().split()]
        assert len(processes) == 3
        os.kill(build.pid, signal.SIGKILL)
        build.wait()
    assert are_gone(processes)


def test_program_that_is_missing(tmp_path):
    with pytest.raises(EngineSetupError, match="no program 'no-such-vllm'; install vLLM in an environment of its own"):
        VllmTextEngine(make_config(tmp_path, command="no-such-vllm"))


def test_identity_is_that_of_what_is_served():
    def identify(**fields: object) -> str:
        return VllmTextEngine(make_config(Path("/tmp"), **fields)).identity.digest()

    same = identify(replicas=2, port=9000, max_num_seqs=7, command=sys.executable, log_folder=None, max_in_flight=3)
    assert identify() == same
    others = [
        {"model": "n"},
        {"quantization": "fp8"},
        {"max_model_len": 999},
        {"extra_args": ("--x",)},
        {"dtype": "float16"},
    ]
    digests = {identify(**other) for other in others}
    assert len(digests) == len(others)
    assert identify() not in digests
