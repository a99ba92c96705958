"""A program with the command line of vLLM that answers as a test wants: `python small_vllm.py serve MODEL --port N ...`

Variables: SMALL_VLLM_FAIL ends it at the start; SMALL_VLLM_SILENT never becomes healthy; SMALL_VLLM_STUBBORN ignores
SIGTERM and starts a child that does, too; SMALL_VLLM_MORTAL names a file: a request that says "die" kills the server if
the file is there, and takes a character off it first (an empty file is removed).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from scripted_chat_server import Scripted, ScriptedChatServer, answer_well

say = partial(print, flush=True)


def run(arguments: list[str]) -> None:
    assert arguments[0] == "serve"
    options = dict(pairwise(arguments))
    say("small vllm:", *arguments)
    say("devices", os.environ.get("CUDA_VISIBLE_DEVICES"))
    if os.environ.get("SMALL_VLLM_FAIL"):
        say("\x1b[31mValueError: no such quantization\x1b[0m")
        for line in range(20):
            say(f"  frame {line}")
        say("RuntimeError: Engine core initialization failed. See root cause above.")
        sys.exit(3)
    if os.environ.get("SMALL_VLLM_STUBBORN"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        subprocess.Popen([sys.executable, "-I", "-S", "-c", code])
    models = None if os.environ.get("SMALL_VLLM_SILENT") else [options["--served-model-name"]]
    mortal = Path(os.environ.get("SMALL_VLLM_MORTAL", "/nonexistent"))

    made = threading.Event()

    def answer(body: dict[str, Any], number: int) -> Scripted:
        made.wait()  # it answers before its constructor has returned
        if server.keys[-1] != f"Bearer {os.environ['VLLM_API_KEY']}":
            return Scripted(status=401)
        if "die" in body["messages"][-1]["content"] and mortal.exists():
            lives = mortal.read_text()
            mortal.write_text(lives[1:]) if len(lives) > 1 else mortal.unlink()
            say("RuntimeError: CUDA error: an illegal memory access was encountered")
            os.kill(os.getpid(), signal.SIGKILL)
        return answer_well(body, number)

    server = ScriptedChatServer(answer, models, int(options["--port"]))
    made.set()
    threading.Event().wait()


if __name__ == "__main__":
    run(sys.argv[1:])
