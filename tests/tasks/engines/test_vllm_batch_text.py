"""vLLM offline: files out, files in, by a stand-in program, and (marker `vllm`) by the real one."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import fake_vllm
from bystander.schemas.engines import Message, RowFault, TextReply, TextRequest
from bystander.schemas.errors import BatchPendingError, EngineError, EngineSetupError, InputError
from bystander.schemas.text_engine_configs import VllmBatchTextConfig
from bystander.tasks.engines.vllm_batch_text import VllmBatchTextEngine
from tasks.engines.test_openai_text import SCHEMA

PROGRAM = (sys.executable, fake_vllm.__file__)


def ask(text: str = "Say it.", **fields: Any) -> TextRequest:
    return TextRequest("write_line", (Message("system", "Be brief."), Message("user", text)), seed=5, **fields)


def make_engine(**fields: Any) -> VllmBatchTextEngine:
    return VllmBatchTextEngine(VllmBatchTextConfig(**{"model": "m", "command": PROGRAM, **fields}))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAKE_VLLM_LOG", str(tmp_path / "log.jsonl"))
    return tmp_path / "log.jsonl"


def read_log(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def test_a_call_is_one_batch_and_answers_find_their_requests(log: Path) -> None:
    engine = make_engine(args=("--max-model-len", "4096"), speed_args=("--tensor-parallel-size", "2"), revision="main")
    heard: list[int] = []
    requests = [ask(f"{i}", reply_schema=SCHEMA, max_tokens=33) for i in range(4)] + [
        ask("Is it?", options=("Yes", "No"))
    ]
    replies = engine.generate(requests, lambda index, _: heard.append(index))
    engine.close()
    assert [r.value for r in replies[:4] if isinstance(r, TextReply)] == [{"line": f"{i} 5"} for i in range(4)]
    assert isinstance(replies[4], TextReply)
    assert (replies[4].text, replies[4].option_source) == ("Yes", "logprobs")
    assert sorted(heard) == [0, 1, 2, 3, 4]
    [run] = read_log(log)
    words = run["words"]
    assert words[0] == "run-batch"
    assert words[5:] == ["--model", "m", "--revision", "main", "--max-model-len", "4096", "--tensor-parallel-size", "2"]
    first, *_, last = run["requests"]
    assert first["body"]["model"] == "m"
    assert (first["body"]["seed"], first["body"]["max_tokens"]) == (5, 33)
    assert first["body"]["response_format"]["json_schema"]["schema"] == SCHEMA
    assert (last["body"]["logprobs"], last["body"]["top_logprobs"], last["body"]["max_tokens"]) == (True, 20, 1)
    assert len({request["custom_id"] for request in run["requests"]}) == 5


def test_equal_requests_are_asked_once(log: Path) -> None:
    engine = make_engine()
    first, second, _ = engine.generate([ask(), ask(), ask("Else.")])
    engine.close()
    assert first == second
    assert len(read_log(log)[0]["requests"]) == 2


def test_what_cannot_be_read_is_asked_again_in_a_second_batch(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VLLM", "unreadable")
    engine = make_engine()
    replies = engine.generate([ask("a", reply_schema=SCHEMA), ask("b", options=("Yes", "No")), ask("c")])
    engine.close()
    assert all(isinstance(reply, TextReply) for reply in replies)
    assert [reply.repaired for reply in replies if isinstance(reply, TextReply)] == [True, False, False]
    first, second = read_log(log)
    [again] = second["requests"]
    assert again["body"]["seed"] == first["requests"][0]["body"]["seed"] + 1


def test_a_refused_request_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VLLM", "refuse")
    engine = make_engine()
    replies = engine.generate([ask("soft"), ask("loud")])
    engine.close()
    assert isinstance(replies[0], TextReply)
    assert replies[1] == RowFault("request_refused", "status 400 it is")


@pytest.mark.parametrize(
    ("mode", "kind", "said"),
    [
        ("fail", EngineError, r"run-batch: exit status 1: .*No available memory for the cache blocks\. \(log: "),
        ("silent", EngineError, r"wrote no results: INFO loading the model \(log: "),
        ("missing", EngineError, r"1 requests were not answered: INFO loading the model"),
        ("broken", EngineError, r"failed with status 500 \(status 500 it is\)"),
        ("unknown_model", EngineSetupError, r"not known there \(status 404 it is\); check `model`"),
    ],
)
def test_failures_say_what_the_program_said(
    mode: str, kind: type[Exception], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VLLM", mode)
    engine = make_engine(folder=str(tmp_path))
    with pytest.raises(kind, match=said) as caught:
        engine.generate([ask("a"), ask("b")])
    engine.close()
    assert type(caught.value) is kind
    assert not caught.value.retryable  # type: ignore[attr-defined]


def test_replies_beside_a_missing_one_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VLLM", "missing")
    kept: list[int] = []
    engine = make_engine(folder=str(tmp_path))
    with pytest.raises(EngineError):
        engine.generate([ask(str(i)) for i in range(5)], lambda index, _: kept.append(index))
    engine.close()
    assert sorted(kept) == [0, 1, 2, 3]


def test_program_that_is_not_there(tmp_path: Path) -> None:
    engine = make_engine(command=("no-such-vllm",), folder=str(tmp_path))
    with pytest.raises(EngineSetupError, match=r"no-such-vllm: cannot be started .* in `command`"):
        engine.generate([ask()])
    engine.close()


def test_run_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VLLM", "hang")
    engine = make_engine(timeout_s=0.2, folder=str(tmp_path))
    with pytest.raises(EngineError, match=r"not done after 0\.2 s .*raise `timeout_s`"):
        engine.generate([ask()])
    engine.close()


def test_closing_ends_a_run_in_another_thread(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VLLM", "hang")
    faults: list[str] = []
    engine = make_engine(folder=str(tmp_path))

    def call() -> None:
        try:
            engine.generate([ask()])
        except EngineSetupError as exc:
            faults.append(str(exc))

    thread = threading.Thread(target=call)
    thread.start()
    while not log.exists():  # the program writes it before it hangs
        thread.join(0.01)
    engine.close()
    thread.join()
    assert faults == ["text engine 'm' was closed while it answered"]
    with pytest.raises(EngineSetupError, match="was closed"):
        engine.generate([ask()])


def test_a_temporary_folder_is_removed_when_all_went_well(log: Path) -> None:
    engine = make_engine()
    engine.generate([ask()])
    folder = Path(read_log(log)[0]["words"][2]).parent
    assert list(folder.iterdir()) == []  # what was answered is kept by the caller's cache
    engine.close()
    engine.close()
    assert not folder.exists()


# ---- files that somebody else has answered ---------------------------------------------------------------------------


def answer_files(error: BatchPendingError) -> str:
    done = subprocess.run([error.script], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


def test_files_are_written_the_script_answers_them_and_the_same_call_goes_on(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VLLM", "unreadable")
    folder = tmp_path / "a folder"
    requests = [ask("a", reply_schema=SCHEMA), ask("b", options=("Yes", "No"))]
    seen: list[BatchPendingError] = []
    for _ in range(2):  # what was asked, then the repair
        with pytest.raises(BatchPendingError) as caught:
            make_engine(mode="files", folder=str(folder)).generate(requests)
        seen.append(caught.value)
        answer_files(caught.value)
    assert [error.requests for error in seen] == [2, 1]
    assert str(seen[0]) == (
        f"2 requests wait for a language model: run {seen[0].script} where vLLM is and can see this folder, then the "
        "same command again, which goes on from there"
    )
    replies = make_engine(mode="files", folder=str(folder)).generate(requests)
    assert [reply.repaired for reply in replies if isinstance(reply, TextReply)] == [True, False]
    assert len(read_log(log)) == 2
    assert answer_files(seen[1]) == "nothing to answer\n"


def test_script_answers_the_files_of_several_partitions_in_one_run(tmp_path: Path, log: Path) -> None:
    batches = [[ask(f"{part} {i}") for i in range(3)] for part in range(3)]
    for batch in batches:
        with pytest.raises(BatchPendingError) as caught:
            make_engine(mode="files", folder=str(tmp_path)).generate(batch)
    answer_files(caught.value)
    assert [len(run["requests"]) for run in read_log(log)] == [9]
    engine = make_engine(mode="files", folder=str(tmp_path))
    assert all(isinstance(reply, TextReply) for batch in batches for reply in engine.generate(batch))


def test_asking_again_before_the_answers_are_there_writes_nothing_new(tmp_path: Path) -> None:
    engine = make_engine(mode="files", folder=str(tmp_path))
    for _ in range(2):
        with pytest.raises(BatchPendingError):
            engine.generate([ask("a"), ask("b")])
    assert len(list(tmp_path.glob("*/requests-*.jsonl"))) == 1


def test_results_that_are_still_written_are_read_up_to_there(tmp_path: Path) -> None:
    engine = make_engine(mode="files", folder=str(tmp_path))
    with pytest.raises(BatchPendingError) as caught:
        engine.generate([ask("a"), ask("b")])
    answer_files(caught.value)
    [results] = tmp_path.glob("*/results-*.jsonl")
    whole = results.read_bytes()
    results.write_bytes(whole[:-10])
    with pytest.raises(BatchPendingError) as again:
        engine.generate([ask("a"), ask("b")])
    assert again.value.requests == 1
    results.write_bytes(whole)
    assert all(isinstance(reply, TextReply) for reply in engine.generate([ask("a"), ask("b")]))


@pytest.mark.parametrize("line", ["no JSON", "[]", '{"id": "x"}', '{"custom_id": "x", "response": 3}'])
def test_damaged_results_are_named(tmp_path: Path, line: str) -> None:
    engine = make_engine(mode="files", folder=str(tmp_path))
    with pytest.raises(BatchPendingError) as caught:
        engine.generate([ask()])
    (Path(caught.value.script).parent / "results-1.jsonl").write_text(f"\n{line}\n", "utf-8")
    with pytest.raises(InputError, match=r"results-1\.jsonl, line 2: is no result of a batch; delete the file"):
        engine.generate([ask()])


def test_error_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(BatchPendingError("/x/run-batches.sh", 7)))
    assert (error.script, error.requests, str(error)[:10]) == ("/x/run-batches.sh", 7, "7 requests")


def test_files_need_a_folder() -> None:
    with pytest.raises(ValidationError, match="folder: is needed with mode files"):
        VllmBatchTextConfig(model="m", mode="files")


def test_identity_is_that_of_the_model_and_of_what_decides_answers() -> None:
    def identify(**fields: Any) -> str:
        return VllmBatchTextEngine(VllmBatchTextConfig(**{"model": "m", **fields})).identity.digest()

    assert identify(command="/opt/vllm", speed_args=("-tp", "8"), folder="/x", mode="files", timeout_s=1) == identify()
    others = [identify(args=("--quantization", "fp8")), identify(revision="2"), identify(reasoning_tokens=9)]
    assert len({identify(), *others}) == 4


# ---- the real program ------------------------------------------------------------------------------------------------


@pytest.mark.vllm
@pytest.mark.skipif("BYSTANDER_VLLM" not in os.environ, reason="BYSTANDER_VLLM does not name the program vllm")
@pytest.mark.skipif(
    "BYSTANDER_VLLM_MODEL" not in os.environ, reason="BYSTANDER_VLLM_MODEL does not name a model folder"
)
def test_real_vllm_reads_and_writes_these_files(tmp_path: Path) -> None:
    engine = VllmBatchTextEngine(
        VllmBatchTextConfig(
            model=os.environ["BYSTANDER_VLLM_MODEL"],
            command=os.environ["BYSTANDER_VLLM"],
            folder=str(tmp_path),
            args=tuple(os.environ.get("BYSTANDER_VLLM_ARGS", "").split()),
            timeout_s=900,
        )
    )
    requests = [
        ask("Write a line.", reply_schema=SCHEMA, max_tokens=64),
        ask("Yes or No?", options=("Yes", "No")),
        ask("too long " * 5000),
    ]
    written, chosen, refused = engine.generate(requests)
    engine.close()
    # A random model writes anything, but in the form that was asked for, or not to an end.
    assert isinstance(written, TextReply | RowFault)
    assert written.value if isinstance(written, TextReply) else written.reason in ("unparsable_reply", "reply_too_long")
    assert isinstance(chosen, TextReply)
    assert chosen.option_probs is not None
    assert sum(chosen.option_probs.values()) == pytest.approx(1)
    assert isinstance(refused, RowFault)
    assert refused.reason == "request_refused"
