"""A build whose language model is asked by files: it waits, is started again, and ends as any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bystander.schemas.errors import BatchPendingError
from bystander.simulation.chat_answers import SimulatedModel
from bystander.simulation.llm_server import MODEL, serve_simulated_llm
from bystander.simulation.llm_speed import LlmSpeed
from bystander.simulation.marked_pack import write_marked_pack
from tpi_builds import Built, build, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")

ROWS = 6
MAX_STARTS = 40


def answer_requests(folder: Path, model: SimulatedModel) -> int:
    """Answer all requests that have no results yet, as vLLM would, and return how many there were."""
    answered = 0
    for requests in folder.glob("*/requests-*.jsonl"):
        results = requests.with_name(requests.name.replace("requests-", "results-"))
        if results.exists():
            continue
        lines = [_answer(json.loads(line), model) for line in requests.read_text("utf-8").splitlines()]
        results.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        answered += len(lines)
    return answered


def _answer(asked: dict[str, Any], model: SimulatedModel) -> dict[str, Any]:
    answer = model.answer(asked["body"])
    listed = [{"token": token, "logprob": logprob} for token, logprob in answer.first_tokens]
    choice = {
        "message": {"role": "assistant", "content": answer.content},
        "finish_reason": "stop",
        "logprobs": {"content": [{"top_logprobs": listed}]} if listed and asked["body"].get("logprobs") else None,
    }
    response = {"status_code": 200, "request_id": "r", "body": {"choices": [choice]}}
    return {"id": "i", "custom_id": asked["custom_id"], "response": response, "error": None}


def test_build_goes_on_from_batch_to_batch_and_gives_what_a_server_would_have_given(tmp_path: Path) -> None:
    write_marked_pack("reference", tmp_path / "pack")
    queries = write_queries(tmp_path / "queries.jsonl", count=12)
    fields: dict[str, Any] = {"pack": str(tmp_path / "pack"), "build": "b", "max_waves": 1, "partition_rows": 2}

    def build_with(name: str, writer: dict[str, Any]) -> Built:
        return build(make_config(tmp_path / name, queries, ROWS, **fields, **{"engines.writer": writer}))

    batches = tmp_path / "batches"
    writer = {"engine": "vllm_batch", "model": MODEL, "mode": "files", "folder": str(batches)}
    model, starts, built = SimulatedModel(), 0, None
    while built is None and starts < MAX_STARTS:
        starts += 1
        waiting = 0
        try:
            built = build_with("offline", writer)
        except BatchPendingError as pending:
            waiting = pending.requests
        assert answer_requests(batches, model) == waiting
    assert built is not None
    # All partitions ask together: a start for each time that a stage asks, not for each partition.
    assert starts <= 16
    speed = LlmSpeed(first_token_s=0, generated_tokens_per_s=1e6)
    with serve_simulated_llm(speed) as (base_url, _):
        online = build_with("online", {"engine": "openai", "base_url": base_url, "model": MODEL})
    texts = ["id", "primary_text", "third_party_text", "label", "kind", "reply", "ambiguity_score"]
    assert built.read_rows().select(texts).equals(online.read_rows().select(texts))
    assert built.outcome.manifest.counts.rows > 0
