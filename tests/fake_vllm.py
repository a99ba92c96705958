"""A stand-in for the program `vllm`, for the tests of its batch adapter: `run-batch` as vLLM 0.32 reads and writes it.

Answers are those of the scripted chat server, written from the last to the first. `FAKE_VLLM` says how it goes wrong:
`fail`, `hang`, `silent` (no file), `missing` (one line less), `refuse` (the prompts with "loud"), `unknown_model`,
`broken` (status 500), `unreadable` (prose, until it is asked again). What it was asked is kept in `FAKE_VLLM_LOG`.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "tasks" / "engines"))
from scripted_chat_server import Scripted, _render, answer_well


def answer(line, number, mode):
    asked = json.loads(line)
    assert (asked["method"], asked["url"]) == ("POST", "/v1/chat/completions")
    prompt = asked["body"]["messages"][-1]["content"]
    result = {"id": f"vllm-{number}", "custom_id": asked["custom_id"], "error": None}
    statuses = {"unknown_model": 404, "broken": 500, "refuse": 400 if "loud" in prompt else 200}
    status = statuses.get(mode, 200)
    body = None
    if status == 200:
        asked["body"]["messages"][-1]["content"] = prompt.split("\n")[0]  # without what a repair adds
        scripted = answer_well(asked["body"], number)
        if mode == "unreadable" and not asked["body"].get("logprobs") and "could not be read" not in prompt:
            scripted = Scripted("Sure, here you are!")
        body = _render(scripted)
    else:
        result["error"] = {"error": {"message": f"status {status} it is", "type": "Error", "code": status}}
    result["response"] = {"status_code": status, "request_id": f"vllm-batch-{number}", "body": body}
    return json.dumps(result)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("-i", required=True)
    parser.add_argument("-o", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--revision")
    parser.add_argument("--max-model-len")
    parser.add_argument("--tensor-parallel-size")
    arguments = parser.parse_args()
    mode = os.environ.get("FAKE_VLLM", "")
    lines = Path(arguments.i).read_text("utf-8").splitlines()
    if "FAKE_VLLM_LOG" in os.environ:
        with Path(os.environ["FAKE_VLLM_LOG"]).open("a", encoding="utf-8") as log:
            log.write(json.dumps({"words": sys.argv[1:], "requests": [json.loads(line) for line in lines]}) + "\n")
    sys.stderr.write("INFO loading the model\n")
    if mode == "fail":
        sys.stderr.write("ValueError: No available memory for the cache blocks.\n")
        return 1
    if mode == "hang":
        time.sleep(60)
    if mode == "silent":
        return 0
    results = [answer(line, number, mode) for number, line in enumerate(lines)][::-1]
    Path(arguments.o).write_text("".join(f"{line}\n" for line in results[mode == "missing" :]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
