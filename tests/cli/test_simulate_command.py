"""`bystander simulate llm`: says where it listens, answers, and when it is stopped, how busy it was."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from bystander.prompts.load import load_pack

COMMAND = [sys.executable, "-m", "bystander.cli.main", "simulate", "llm"]


def test_serves_until_it_is_stopped(tmp_path: Path) -> None:
    words = ["--port", "0", "--slots", "2", "--first-token-s", "0.01", "--marked-pack", str(tmp_path / "pack")]
    process = subprocess.Popen(
        [*COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == f"marked copy of reference: --set pack={tmp_path / 'pack'}\n"
        said = process.stdout.readline()
        assert said.endswith(" (model: simulated, 2 slots); Ctrl-C stops it\n")
        body = {"model": "simulated", "messages": [{"role": "user", "content": "Hello?"}], "seed": 3}
        request = urllib.request.Request(f"{said.split()[0]}/chat/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["choices"][0]["message"]["content"] == "This is a simulated answer."
    finally:
        process.send_signal(signal.SIGINT)
        output, complaints = process.communicate(timeout=60)
    assert (output, complaints) == ("stopped after 1 answers, 50.0% busy in between\n", "")
    assert process.returncode == 0
    assert load_pack(str(tmp_path / "pack")).name == "reference_simulated"


def test_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run([*COMMAND, "--port", str(port)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --host 127.0.0.1 --port {port}: cannot listen there")
