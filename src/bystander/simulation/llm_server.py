"""A language model server without a model: OpenAI's protocol, deterministic answers, and a capacity that is known.

It computes when a request would be done and sleeps until then, so two cores stand in for a box of accelerators. It
notes when its slots were busy: a client that keeps it busy shows a `utilisation` near 1.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from aiohttp import web

from bystander.simulation.chat_answers import SimulatedModel
from bystander.simulation.llm_speed import LlmSpeed, PrefixCache
from bystander.tasks.engines.simulated_slots import SimulatedSlots, measure_utilisation

MODEL = "simulated"
"""Name of the model; any other is answered with 404, as vLLM does."""
_MAX_BODY_BYTES = 16 * 1024**2


@dataclass(slots=True)
class LlmTotals:
    """What a simulated server has counted since it started."""

    answered: int = 0
    open: int = 0
    """Requests that have arrived and are not answered yet: at work or waiting."""
    most_open: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt tokens, those at a beginning that was known."""
    generated_tokens: int = 0


class SimulatedLlm:
    """The server's state: counters, and the slots, which log when they are busy. `build_app` serves it."""

    def __init__(self, speed: LlmSpeed) -> None:
        self.speed = speed
        self.totals = LlmTotals()
        self.slots = SimulatedSlots(speed.slots)
        self._model = SimulatedModel()
        self._prefixes = PrefixCache(speed)

    async def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a chat completion once it would be done. A client that leaves early frees no slot."""
        prompt = "\n".join(f"{message['role']}: {message['content']}" for message in body["messages"])
        answer = self._model.answer(body)
        limit = int(body.get("max_completion_tokens") or body.get("max_tokens") or 2**31)
        wanted = self.speed.reasoning_tokens + self.speed.count_tokens(answer.content)
        prompt_tokens = self.speed.count_tokens(prompt)
        cached_tokens = min(self._prefixes.admit(prompt), prompt_tokens)
        generated = min(wanted, limit)
        duration_s = self.speed.time_request(prompt_tokens, cached_tokens, generated)
        now_s = time.monotonic()
        _, end_s = self.slots.book(now_s, duration_s)
        self.totals.open += 1
        self.totals.most_open = max(self.totals.most_open, self.totals.open)
        try:
            await asyncio.sleep(end_s - now_s)
        finally:
            self.totals.open -= 1
        self.totals.prompt_tokens += prompt_tokens
        self.totals.cached_tokens += cached_tokens
        self.totals.generated_tokens += generated
        self.totals.answered += 1
        message: dict[str, Any] = {"role": "assistant", "content": answer.content}
        if self.speed.reasoning_tokens:
            message["reasoning_content"] = "This is simulated thinking."
        # An answer to an option request is cut to its first token, which is all that is read of it.
        cut = generated < wanted and not body.get("logprobs")
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "length" if cut else "stop"}
        if body.get("logprobs") and answer.first_tokens:
            listed = [{"token": token, "logprob": logprob, "bytes": None} for token, logprob in answer.first_tokens]
            choice["logprobs"] = {"content": [{**listed[0], "top_logprobs": listed}]}
        return {
            "id": f"simulated-{self.totals.answered}",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [choice],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": generated,
                "total_tokens": prompt_tokens + generated,
                "prompt_tokens_details": {"cached_tokens": cached_tokens},
            },
        }

    def describe(self) -> dict[str, Any]:
        """Return speed, counters, busy spans and utilisation (from the first request's start to the last one's end)."""
        spans, now_s = self.slots.spans, time.monotonic()
        window = (min(s for s, _ in spans), max(e for _, e in spans)) if spans else None
        return {
            "speed": self.speed.model_dump(),
            "totals": asdict(self.totals),
            "running": sum(start <= now_s < end for start, end in spans),
            "processor_s": time.process_time(),
            "utilisation": measure_utilisation(spans, self.speed.slots, *window) if window else None,
            "spans": spans,
        }


def build_app(llm: SimulatedLlm) -> web.Application:
    """Return the HTTP application: `/v1/chat/completions`, `/v1/models`, `/health`, `/metrics` and `/occupancy`.

    `/metrics` has the counters in Prometheus' text format, `/occupancy` what `SimulatedLlm.describe` returns.
    """

    async def complete(request: web.Request) -> web.Response:
        try:
            body = json.loads(await request.read())
            messages = body["messages"]
            well_formed = bool(messages) and all({"role", "content"} <= set(message) for message in messages)
        except (ValueError, KeyError, TypeError):
            well_formed = False
        if not well_formed:
            return _refuse(400, "the body must be JSON with messages, each with role and content")
        if body.get("model") != MODEL:
            return _refuse(404, f"The model {body.get('model')!r} does not exist; there is {MODEL!r}.")
        return web.json_response(await llm.complete(body))

    async def list_models(_request: web.Request) -> web.Response:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "bystander", "max_model_len": 32_768}
        return web.json_response({"object": "list", "data": [model]})

    async def report_health(_request: web.Request) -> web.Response:
        return web.Response()

    async def count(_request: web.Request) -> web.Response:
        found = llm.describe()
        values = {**found["totals"], "running": found["running"], "slots": llm.speed.slots}
        return web.Response(text="".join(f"simulated_llm_{name} {value}\n" for name, value in values.items()))

    async def describe(_request: web.Request) -> web.Response:
        return web.json_response(llm.describe())

    app = web.Application(client_max_size=_MAX_BODY_BYTES)
    app.add_routes(
        [
            web.post("/v1/chat/completions", complete),
            web.get("/v1/models", list_models),
            web.get("/health", report_health),
            web.get("/metrics", count),
            web.get("/occupancy", describe),
        ]
    )
    return app


@contextmanager
def serve_simulated_llm(speed: LlmSpeed, host: str = "127.0.0.1", port: int = 0) -> Iterator[tuple[str, SimulatedLlm]]:
    """Serve for the length of a `with` block, in a thread; yields the address to be used as `base_url`, and the state.

    Port 0 takes any that is free.

    Raises:
        OSError: the port is taken.
    """
    loop = asyncio.new_event_loop()
    llm = SimulatedLlm(speed)
    runner = web.AppRunner(build_app(llm), access_log=None, shutdown_timeout=0.1)
    thread = threading.Thread(target=loop.run_forever, name="simulated-llm", daemon=True)
    thread.start()

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, host, port)
        await site.start()
        return int(runner.addresses[0][1])

    try:
        taken = asyncio.run_coroutine_threadsafe(start(), loop).result()
        yield f"http://{host}:{taken}/v1", llm
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _refuse(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "code": status}}, status=status)
