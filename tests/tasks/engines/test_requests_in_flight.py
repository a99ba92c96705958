"""As many requests are with a server as may be, whatever calls they belong to: by meeting, not by the clock."""

from __future__ import annotations

import threading
from typing import Any

from scripted_chat_server import Scripted, serve_script

from bystander.schemas.engines import Message, TextReply, TextRequest
from bystander.schemas.text_engine_configs import OpenAiTextConfig
from bystander.tasks.engines.openai_text import OpenAiTextEngine

IN_FLIGHT = 6
PATIENCE_S = 60


def ask(text: str) -> TextRequest:
    return TextRequest("t", (Message("user", text),), seed=1)


def run_calls(*calls: list[TextRequest]) -> list[Any]:
    """Make calls at once, to a server that answers nobody before `IN_FLIGHT` requests are there."""
    meeting = threading.Barrier(IN_FLIGHT, timeout=PATIENCE_S)

    def wait_for_the_others(_body: dict[str, Any], _number: int) -> Scripted:
        meeting.wait()
        return Scripted("ok")

    replies: list[Any] = []
    with serve_script(wait_for_the_others) as server:
        config = OpenAiTextConfig(
            base_url=server.base_url, model="m", max_in_flight=IN_FLIGHT, max_retries=0, timeout_s=2 * PATIENCE_S
        )
        engine = OpenAiTextEngine(config)
        threads = [threading.Thread(target=lambda call=call: replies.extend(engine.generate(call))) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        engine.close()
        assert server.most_open == IN_FLIGHT
    return replies


def test_one_call_fills_what_may_be_in_flight() -> None:
    replies = run_calls([ask(str(i)) for i in range(3 * IN_FLIGHT)])
    assert [type(reply) for reply in replies] == [TextReply] * 3 * IN_FLIGHT


def test_a_call_that_runs_out_is_filled_up_by_another() -> None:
    """Two thirds of what may be in flight are this call's at most; only with the other's does the server answer."""
    small, large = IN_FLIGHT * 2 // 3, IN_FLIGHT * 4 // 3
    replies = run_calls([ask(f"a {i}") for i in range(small)], [ask(f"b {i}") for i in range(large)])
    assert [type(reply) for reply in replies] == [TextReply] * (small + large)
