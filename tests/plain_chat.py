"""A chat server that answers as the fake text engine does, and the pack whose prompts tell it what is asked."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

import yaml

from bystander.prompts.new_pack import write_new_pack
from bystander.schemas.engines import TextReply, TextRequest
from bystander.tasks.engines.fake_text import FakeTextEngine
from tasks.engines.scripted_chat_server import Scripted

_OPTIONS = {
    "check_realism": ("A", "B"),
    "label_class": ("A", "B"),
    "label_kind": ("A", "B", "C", "D"),
    "score_ambiguity": ("1", "2", "3", "4", "5"),
}


def write_plain_pack(folder: Path) -> Path:
    """Write the reference pack with prompts that are JSON: the task, and its variables."""
    write_new_pack("plain", "reference", folder)
    tasks = yaml.safe_load((folder / "pack.yaml").read_text("utf-8"))["tasks"]
    for task, names in ((task, entry["variables"]) for task, entry in tasks.items()):
        values = ", ".join(
            f'"{name}": {{{{ {name}.key | tojson }}}}'
            if name in ("scenario", "class")
            else f'"{name}": {{{{ {name} | tojson }}}}'
            for name in names
        )
        if task == "write_reply":  # what a class asks of its replies, for engines that read no prompts
            values += ', "conduct": {{ class.conduct | tojson }}'
        (folder / f"{task}.j2").write_text(f'=== user\n{{"task": "{task}", {values}}}\n', "utf-8")
    return folder


class PlainChat:
    """A script for `serve_script` that takes `delay_s` for each answer; `reached` is set at the `signal_at`th call."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.signal_at = 0
        self.reached = threading.Event()
        self._engine = FakeTextEngine()
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any], number: int) -> Scripted:
        if number + 1 == self.signal_at:
            self.reached.set()
        asked, _ = json.JSONDecoder().raw_decode(body["messages"][-1]["content"])  # a repair adds text to it
        task = asked.pop("task")
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        request = TextRequest(
            task=task,
            messages=(),
            seed=body["seed"],
            variables=asked,
            reply_schema=schema,
            options=_OPTIONS.get(task, ()),
        )
        with self._lock:
            (reply,) = self._engine.generate([request])
        assert isinstance(reply, TextReply), reply
        logprobs = [(option, math.log(p)) for option, p in (reply.option_probs or {}).items() if p > 0]
        return Scripted(reply.text, delay_s=self.delay_s, logprobs=logprobs or None)
