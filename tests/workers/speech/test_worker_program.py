"""The worker as a process: the program that a container or bystander runs, with the model that needs no weights."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bystander.workers.speech
from bystander.workers.speech.protocol import (
    TOKEN_VARIABLE,
    Frame,
    Hello,
    SpeakRequest,
    encode_batch,
    encode_samples,
    make_voice_key,
    read_frames,
)
from voice_banks import RATE, make_hum

FOLDER = Path(bystander.workers.speech.__file__).parent
CLIP = make_hum(120)
KEY = make_voice_key(CLIP, RATE)
OTHER = make_hum(210)
OTHER_KEY = make_voice_key(OTHER, RATE)


@dataclass
class Worker:
    process: subprocess.Popen[bytes]
    port: int
    token: str = ""

    def call(self, method: str, path: str, body: bytes | None = None, token: str | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = self.token if token is None else token
        connection.request(method, path, body, {"Authorization": f"Bearer {given}"} if given else {})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, json.loads(data)

    def prepare(self, clip: Any = CLIP) -> None:
        path = f"/voices/{make_voice_key(clip, RATE)}?sampling_rate={RATE}"
        assert self.call("PUT", path, encode_samples(clip))[0] == 200

    def speak(self, requests: list[SpeakRequest], **settings: float) -> list[Frame]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(
            "POST", "/speak", encode_batch(settings, requests), {"Authorization": f"Bearer {self.token}"}
        )
        frames = list(read_frames(connection.getresponse()))
        connection.close()
        return frames


def start(*arguments: str, folder: Path = FOLDER, token: str = "", command: tuple[str, ...] = ()) -> Worker:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", TOKEN_VARIABLE)}
    process = subprocess.Popen(
        [sys.executable, *command, str(folder), "--model", "tone", "--announce", "--exit-with-stdin", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**environment, TOKEN_VARIABLE: token} if token else environment,
        start_new_session=True,
    )
    assert process.stdout is not None
    listening = json.loads(process.stdout.readline())
    assert listening["event"] == "listening"
    assert json.loads(process.stdout.readline()) == {"event": "ready"}
    return Worker(process, listening["port"], token)


def end(worker: Worker) -> None:
    assert worker.process.stdin is not None
    assert worker.process.stdout is not None
    worker.process.stdin.close()
    worker.process.stdout.close()
    worker.process.wait(20)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    started = start(token="secret")
    yield started
    end(started)


def test_a_copy_of_the_folder_runs_where_there_is_no_bystander(tmp_path):
    copied = shutil.copytree(FOLDER, tmp_path / "anywhere" / "speech", ignore=shutil.ignore_patterns("__pycache__"))
    site = Path(np.__file__).parents[1]
    code = (
        f"import sys, runpy; sys.path.append({str(site)!r}); sys.argv[0] = {str(copied)!r}\n"
        f"runpy.run_path({str(copied)!r}, run_name='__main__')\n"
        "print(sorted(m for m in sys.modules if m.partition('.')[0] in ('bystander', 'torch', 'pydantic', 'prefect')))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, "--model", "tone", "--describe"],
        capture_output=True,
        text=True,
        check=True,
    )
    hello = Hello.decode(done.stdout.splitlines()[0].encode())
    assert (hello.name, hello.languages) == ("tone", ("en", "zh"))
    assert done.stderr.strip() == "[]"  # after it started, prints go where the log is


def test_health_is_open_and_the_rest_wants_the_token(worker):
    status, health = worker.call("GET", "/health", token="")
    assert status == 200
    assert health["state"] == "ready"
    assert health["pid"] == worker.process.pid
    assert 10 < health["memory"]["rss_mib"] < 2000
    for method, path in (("GET", "/hello"), ("PUT", f"/voices/{KEY}"), ("POST", "/speak"), ("POST", "/shutdown")):
        status, body = worker.call(method, path, b"" if method != "GET" else None, token="wrong")
        assert (status, body["fault"]["reason"]) == (401, "unauthorised")
    status, hello = worker.call("GET", "/hello")
    assert (status, hello["sampling_rate"]) == (200, 24000)


def test_voices_are_known_once_they_were_sent(worker):
    clip = make_hum(333)
    key = make_voice_key(clip, RATE)
    assert worker.call("GET", f"/voices/{key}")[0] == 404
    worker.prepare(clip)
    assert worker.call("GET", f"/voices/{key}")[0] == 200
    worker.prepare(clip)


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        (f"/voices/{KEY}?sampling_rate={RATE}", encode_samples(OTHER), 400, "bad_request"),
        (f"/voices/{KEY}?sampling_rate={RATE}", b"abc", 400, "bad_request"),
        (f"/voices/{KEY}", encode_samples(CLIP), 400, "bad_request"),
        (f"/voices/{KEY}?sampling_rate=7", encode_samples(CLIP), 400, "bad_request"),
        ("/voices/../../etc/passwd?sampling_rate=16000", encode_samples(CLIP), 404, "unknown_path"),
        (f"/voices/{make_voice_key(CLIP[:99], RATE)}?sampling_rate={RATE}", encode_samples(CLIP[:99]), 422,
         "unusable_reference"),
    ],
)  # fmt: skip
def test_bad_voices_are_refused(worker, path, body, status, reason):
    got, answer = worker.call("PUT", path, body)
    assert (got, answer["fault"]["reason"]) == (status, reason)


def test_a_batch_is_answered_request_by_request_with_voices_together(worker):
    worker.prepare(CLIP)
    worker.prepare(OTHER)
    texts = ["Hello there.", "Bye.", "?!", "Hello there.", "你好。"]
    keys = [OTHER_KEY, KEY, KEY, OTHER_KEY, KEY]
    languages = ["en", "en-GB", "en", "en", "zh_CN"]
    requests = [
        SpeakRequest(10 + i, text, key, language, 2**63 - 1)
        for i, (text, key, language) in enumerate(zip(texts, keys, languages, strict=True))
    ]
    *frames, last = worker.speak(requests)
    assert last.head["state"] == "end"
    assert last.head["memory"]["rss_mib"] > 10
    started = [frame.head["index"] for frame in frames if frame.head["state"] == "started"]
    answered = {frame.head["index"]: frame for frame in frames if frame.head["state"] != "started"}
    assert started == sorted(started, key=lambda index: keys[index - 10])
    assert sorted(answered) == [10, 11, 12, 13, 14]
    assert answered[12].head["reason"] == "empty_text"
    np.testing.assert_array_equal(answered[10].samples, answered[13].samples)
    assert len(answered[10].samples) == 12 * 0.06 * 24000
    assert answered[14].head["sampling_rate"] == 24000


@pytest.mark.parametrize(
    ("text", "voice", "language", "reason"),
    [
        ("Hello.", "0" * 64, "en", "unknown_voice"),
        ("x" * 601, KEY, "en", "text_too_long_to_speak"),
        ("Hello.", KEY, "de", "unsupported_language"),
    ],
)
def test_faults_have_reasons(worker, text, voice, language, reason):
    worker.prepare(CLIP)
    _, frame, _ = worker.speak([SpeakRequest(0, text, voice, language, 0)])
    assert frame.head["reason"] == reason


@pytest.mark.parametrize("settings", [{"colour": 1.0}, {"temperature": "warm"}, {"temperature": True}])
def test_settings_that_are_none_are_refused(worker, settings):
    status, body = worker.call("POST", "/speak", encode_batch(settings, []))
    assert status == 400
    assert next(iter(settings)) in body["fault"]["detail"]


def test_seed_voice_and_settings_decide_the_samples(worker):
    worker.prepare(CLIP)
    worker.prepare(OTHER)

    def speak(seed: int, key: str = KEY, **settings: float) -> bytes:
        return worker.speak([SpeakRequest(0, "Hello.", key, "en", seed)], **settings)[1].samples.tobytes()

    assert speak(1) == speak(1)
    assert len({speak(1), speak(2), speak(1, OTHER_KEY), speak(1, temperature=0.1)}) == 4


def test_voices_on_disk_outlive_the_worker(tmp_path):
    first = start("--cache", str(tmp_path))
    first.prepare()
    before = first.speak([SpeakRequest(0, "Hello.", KEY, "en", 1)])[1].samples
    assert first.call("POST", "/shutdown", b"")[0] == 200
    assert first.process.wait(20) == 0
    end(first)
    second = start("--cache", str(tmp_path))
    assert second.call("GET", f"/voices/{KEY}")[0] == 200
    np.testing.assert_array_equal(second.speak([SpeakRequest(0, "Hello.", KEY, "en", 1)])[1].samples, before)
    end(second)


def test_a_worker_without_weights_says_what_is_missing(tmp_path):
    command = [sys.executable, str(FOLDER), "--model", "english", "--weights", str(tmp_path), "--device", "cpu"]
    done = subprocess.run([*command, "--announce"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    *_, failed = (json.loads(line) for line in done.stdout.splitlines())
    assert failed["event"] == "failed"
    assert f"{tmp_path} has no ve.safetensors" in failed["detail"]
    described = subprocess.run([*command, "--describe"], capture_output=True, text=True, check=False)
    assert described.returncode == 1
    assert failed["detail"] in described.stderr
    assert "Traceback" not in described.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_quietly_when_it_is_told_to(number, capfd):
    worker = start()
    worker.process.send_signal(number)
    assert worker.process.wait(20) == 0
    end(worker)
    assert "Traceback" not in capfd.readouterr().err
