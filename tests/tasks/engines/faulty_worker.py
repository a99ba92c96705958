"""The worker with its model of tones, which does what a text tells it to: for tests of what happens then.

`[die]` kills the process; `[die once]` only the first time that this text comes; `[hang]` never returns; `[grow]` takes
200 MiB and keeps them; `[fail]` raises; `[meet 2]` waits until so many different texts are being spoken. What is
spoken is noted as `pid text` in `spoken.txt`. Files lie in the folder FAULTY_WORKER_FOLDER.

Run as bystander runs a worker's Python: with the path of the worker and its arguments.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(sys.argv[1]).parents[2]))

from bystander.workers.speech import program, tone
from bystander.workers.speech.protocol import Samples, SpeakRequest

_kept: list[bytearray] = []
_speak = tone.ToneModel.speak


def speak(self: tone.ToneModel, request: SpeakRequest, voice: Any, settings: dict[str, float]) -> Samples:
    folder = Path(os.environ["FAULTY_WORKER_FOLDER"])
    mark = folder / hashlib.sha256(request.text.encode("utf-8")).hexdigest()
    came_before = mark.exists()
    mark.touch()
    with (folder / "spoken.txt").open("a") as log:
        log.write(f"{os.getpid()} {request.text}\n")
    if "[die]" in request.text or ("[die once]" in request.text and not came_before):
        os.kill(os.getpid(), signal.SIGKILL)
    if "[hang]" in request.text:
        threading.Event().wait()
    if "[grow]" in request.text:
        _kept.append(bytearray(b"x" * (200 << 20)))
    if "[fail]" in request.text:
        raise RuntimeError("the model fails\nat length")
    if meeting := re.search(r"\[meet (\d+)\]", request.text):
        (folder / f"{mark.name}.meet").touch()
        while len(list(folder.glob("*.meet"))) < int(meeting[1]):
            time.sleep(0.01)
    return _speak(self, request, voice, settings)


if __name__ == "__main__":
    tone.ToneModel.speak = speak  # type: ignore[method-assign]
    program.main(sys.argv[2:])
