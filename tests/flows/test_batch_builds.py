"""A build whose language model is asked by files: it waits, is started again, and ends as any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bystander.schemas.errors import BatchPendingError
from bystander.schemas.text_engine_configs import VllmBatchTextConfig
from bystander.simulation.chat_answers import SimulatedModel
from bystander.simulation.marked_pack import write_marked_pack
from bystander.tasks.stages import PAIR_STAGES
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


def test_build_goes_on_from_batch_to_batch(tmp_path: Path) -> None:
    write_marked_pack("reference", tmp_path / "pack")
    queries = write_queries(tmp_path / "queries.jsonl", count=20)
    batches = tmp_path / "batches"
    fields: dict[str, Any] = {"pack": str(tmp_path / "pack"), "build": "b", "max_waves": 1, "partition_rows": 2}
    config = make_config(
        tmp_path / "store",
        queries,
        **{"engines.writer": {"engine": "vllm_batch", "model": "m", "mode": "files", "folder": str(batches)}},
        **fields,
    )
    assert isinstance(config.engines.writer, VllmBatchTextConfig)
    model, starts, built = SimulatedModel(), 0, None
    while built is None and starts < MAX_STARTS:
        starts += 1
        waiting = 0
        try:
            built = build(config)
        except BatchPendingError as pending:
            waiting = pending.requests
        assert answer_requests(batches, model) == waiting
    assert isinstance(built, Built)
    # All partitions asked together: one start for each time that a stage asks, not one for each partition.
    assert starts <= 16 < 4 * len(PAIR_STAGES)
    manifest = built.outcome.manifest
    assert manifest.counts.rows > 0
    fake = build(make_config(tmp_path / "fake", queries, **fields))
    assert [row["primary_text"] for row in built.read_rows().to_pylist()] == [
        row["primary_text"] for row in fake.read_rows().to_pylist()
    ]
