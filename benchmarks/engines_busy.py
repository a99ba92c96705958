"""Does the pipeline keep its engines busy? A real build against engines whose capacity is known.

Usage: python benchmarks/engines_busy.py [--case llm tts balanced] [--rows 250] [--limits writer=2,speech=1]

Each case starts `bystander simulate llm` (fixed slots, first-token time and token rates; it computes nothing) and
builds TPI-Train with it, in a process of its own: the real flow under Prefect, the real HTTP client, real trimming,
mixing, FLAC and Parquet; speech and recognition are the fakes, which take a fixed time a clip. In `llm` the language
model is the bottleneck, in `tts` the voices, in `balanced` both would take about equally long.

Utilisation is busy slot-seconds by all slot-seconds of a window. The steady window of the language model ends when the
last partition of the wave has been written: until then there is work for it at any time. That of the speech engine goes
from its first clip to the moment when its last partition of the wave begins. Both are also given from first request to
last answer, in which engines fill up and run empty. There is one wave, so builds end short of their quotas.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline_throughput import write_queries

CASES = {
    # slots and tokens a second of the model; workers and seconds a clip of the voices
    "llm": {"slots": 16, "generate_rate": 10.0, "tts_workers": 8, "seconds_per_clip": 0.8},
    "tts": {"slots": 16, "generate_rate": 20.0, "tts_workers": 4, "seconds_per_clip": 1.4},
    "balanced": {"slots": 16, "generate_rate": 10.0, "tts_workers": 8, "seconds_per_clip": 1.7},
}
FIRST_TOKEN_S = 0.4
SECONDS_PER_HEARD_CLIP = 0.2
HEARD_AT_ONCE = 2


def find_case(arguments: argparse.Namespace, name: str | None = None) -> dict[str, Any]:
    """Return the settings of a case, slowed down as asked."""
    case, factor = CASES[name or arguments.case[0]], arguments.slowdown
    return {
        **case,
        "generate_rate": case["generate_rate"] / factor,
        "seconds_per_clip": case["seconds_per_clip"] * factor,
        "first_token_s": FIRST_TOKEN_S * factor,
        "seconds_per_heard_clip": SECONDS_PER_HEARD_CLIP * factor,
    }


# ---- the build, in a process of its own -----------------------------------------------------------------------------


def build(arguments: argparse.Namespace) -> None:
    """Build, and write what was seen of the speech engine and of the stages to a file."""
    folder: Path = arguments.folder
    os.environ["PREFECT_HOME"] = str(folder / "prefect")
    from bystander.flows.prefect_settings import configure_prefect

    configure_prefect()
    from bystander.flows import harvest
    from bystander.flows.build_tpi_train import run_build_tpi_train
    from bystander.flows.listeners import SilentListener, listening
    from bystander.schemas.config import load_config, parse_override
    from bystander.tasks.environment import StageEnvironment

    if arguments.limits:
        harvest.ROLE_LIMITS = {**harvest.ROLE_LIMITS, **parse_limits(arguments.limits)}  # type: ignore[misc]
    engines: dict[str, Any] = {}
    real = StageEnvironment._open

    def open_kept(self: StageEnvironment, role: Any) -> Any:
        engines[role] = real(self, role)
        return engines[role]

    StageEnvironment._open = open_kept  # type: ignore[method-assign]
    results: list[tuple[str, float]] = []
    phases: list[tuple[str, float]] = []

    class Clock(SilentListener):
        def on_phase(self, phase: str) -> None:
            phases.append((phase, time.monotonic()))

        def on_result(self, stage: str, *_: Any) -> None:
            results.append((stage, time.monotonic()))

    case = find_case(arguments)
    settings = {
        "queries.path": str(folder / "queries.jsonl"),
        "store": str(folder / "store"),
        "build": "b",
        "pack": str(folder / "pack"),
        "workers": arguments.workers,
        "partition_rows": arguments.partition_rows,
        "max_waves": 1,
        "engines.writer": {
            "engine": "openai",
            "base_url": arguments.base_url,
            "model": "simulated",
            "max_in_flight": arguments.max_in_flight or 2 * case["slots"],
        },
        "engines.speech.workers": case["tts_workers"],
        "engines.speech.seconds_per_clip": case["seconds_per_clip"],
        "engines.recogniser.workers": HEARD_AT_ONCE,
        "engines.recogniser.seconds_per_clip": case["seconds_per_heard_clip"],
        **dict(parse_override(text) for text in arguments.set),
    }
    config = load_config("fake", (), settings)
    config = config.model_copy(update={"targets": config.targets.scaled_to(arguments.rows)})
    with listening(Clock()):
        outcome = run_build_tpi_train(config)
    figures = {
        "rows": outcome.manifest.counts.rows,
        "results": results,
        "phases": phases,
        "speech_spans": engines["speech"].slots.spans,
        "speech_slots": engines["speech"].slots.slots,
        "processor_s": time.process_time(),
    }
    (folder / "build.json").write_text(json.dumps(figures))


def parse_limits(text: str) -> dict[str, int]:
    return {role: int(count) for role, count in (item.split("=") for item in text.split(","))}


# ---- the server, and the figures ------------------------------------------------------------------------------------


@contextmanager
def simulated_llm(folder: Path, case: dict[str, Any]) -> Iterator[str]:
    command = [sys.executable, "-m", "bystander.cli.main", "simulate", "llm", "--port", "0"]
    command += ["--marked-pack", str(folder / "pack"), "--slots", str(case["slots"])]
    command += ["--first-token-s", str(case["first_token_s"]), "--generate-rate", str(case["generate_rate"])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        process.stdout.readline()  # the pack
        yield process.stdout.readline().split()[0]
    finally:
        process.terminate()
        process.wait()


def run_case(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run one case and return its figures."""
    folder = Path(tempfile.mkdtemp(prefix="bystander-busy-", dir=arguments.scratch))
    try:
        write_queries(folder / "queries.jsonl", round(1.6 * arguments.rows))
        with simulated_llm(folder, find_case(arguments, name)) as base_url:
            command = [sys.executable, __file__, "--child", "--case", name, "--folder", str(folder)]
            command += ["--slowdown", str(arguments.slowdown)]
            command += ["--base-url", base_url, *list_options(arguments)]
            began = time.monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            wall_s = time.monotonic() - began
            with urllib.request.urlopen(base_url.removesuffix("/v1") + "/occupancy") as answer:
                server = json.load(answer)
        return {**measure(json.loads((folder / "build.json").read_text()), server), "wall_s": wall_s}
    finally:
        shutil.rmtree(folder)


def list_options(arguments: argparse.Namespace) -> list[str]:
    options = [("rows", arguments.rows), ("workers", arguments.workers), ("partition-rows", arguments.partition_rows)]
    options += [("max-in-flight", arguments.max_in_flight), ("limits", arguments.limits)]
    words = [word for name, value in options if value for word in (f"--{name}", str(value))]
    return words + [word for text in arguments.set for word in ("--set", text)]


def measure(found: dict[str, Any], server: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a finished case."""
    from bystander.tasks.engines.simulated_slots import measure_busy_together, measure_utilisation

    asked, spoken = server["spans"], found["speech_spans"]
    slots, workers = server["speed"]["slots"], found["speech_slots"]
    waves = [at for phase, at in found["phases"] if phase.startswith("wave ")]
    end_of_first_wave = waves[1] if len(waves) > 1 else float("inf")

    def times_of(stage: str) -> list[float]:
        return [at for name, at in found["results"] if name == stage and at < end_of_first_wave]

    first_request, last_answer = min(s for s, _ in asked), max(e for _, e in asked)
    first_clip, last_clip = min(s for s, _ in spoken), max(e for _, e in spoken)
    written = max(times_of("write_interruptions"))
    speaking = max(times_of("choose_voices"))
    llm = (first_request, written)
    tts = (first_clip, max(speaking, sorted(times_of("synthesise_speech"))[-2]))
    both = (first_clip, written)

    def measure_both(share: float) -> float:
        levels = [(asked, share * slots), (spoken, share * workers)]
        return measure_busy_together(levels, *both) if both[1] > both[0] else float("nan")

    totals = server["totals"]
    return {
        "rows": found["rows"],
        "requests": totals["answered"],
        "requests_per_s": totals["answered"] / (last_answer - first_request),
        "cached_share": totals["cached_tokens"] / totals["prompt_tokens"],
        "most_open": totals["most_open"],
        "llm_steady": measure_utilisation(asked, slots, *llm),
        "llm_steady_s": llm[1] - llm[0],
        "llm_whole": measure_utilisation(asked, slots, first_request, last_answer),
        "tts_steady": measure_utilisation(spoken, workers, *tts),
        "tts_steady_s": tts[1] - tts[0],
        "tts_whole": measure_utilisation(spoken, workers, first_clip, last_clip),
        "both_any": measure_both(1e-9),
        "both_half": measure_both(0.5),
        "both_s": both[1] - both[0],
        "llm_both": measure_utilisation(asked, slots, *both) if both[1] > both[0] else float("nan"),
        "tts_both": measure_utilisation(spoken, workers, *both) if both[1] > both[0] else float("nan"),
        "client_ms": 1000 * found["processor_s"] / totals["answered"],
        "server_ms": 1000 * server["processor_s"] / totals["answered"],
    }


HEAD = (
    "| case | limits | rows | requests (a second) | LLM busy: steady (whole) | TTS busy: steady (whole) "
    "| both busy (both half full) | then LLM, TTS | cached prompt | CPU ms a request: build, server |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def describe(name: str, limits: str, run: dict[str, Any]) -> str:
    """Return a table row."""
    cells = [
        name,
        limits or "default",
        run["rows"],
        f"{run['requests']} ({run['requests_per_s']:.0f})",
        f"{run['llm_steady']:.1%} of {run['llm_steady_s']:.0f} s ({run['llm_whole']:.1%})",
        f"{run['tts_steady']:.1%} of {run['tts_steady_s']:.0f} s ({run['tts_whole']:.1%})",
        f"{run['both_any']:.1%} ({run['both_half']:.1%}) of {run['both_s']:.0f} s",
        f"{run['llm_both']:.1%}, {run['tts_both']:.1%}",
        f"{run['cached_share']:.0%}",
        f"{run['client_ms']:.1f}, {run['server_ms']:.1f}",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs="+", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--rows", type=int, default=250)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--slowdown", type=float, default=1.0, help="factor of all durations, for a busy machine")
    parser.add_argument("--partition-rows", type=int, default=64)
    parser.add_argument("--max-in-flight", type=int, help="default: twice the slots")
    parser.add_argument("--limits", help="partitions that may use an engine at once, as in writer=2,judge=2")
    parser.add_argument("--set", action="append", default=[], help="a field of the configuration")
    parser.add_argument("--scratch", help="folder for the builds, which are removed; default: the system's own")
    parser.add_argument("--out", type=Path, help="file that all figures are added to, a JSON object a line")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--base-url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        build(arguments)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the processes below must not outlive this one
    print("\n".join(HEAD), flush=True)
    for name in arguments.case:
        run = run_case(name, arguments)
        print(describe(name, arguments.limits, run), flush=True)
        if arguments.out:
            with arguments.out.open("a") as sink:
                sink.write(json.dumps({"case": name, "limits": arguments.limits, **run}) + "\n")
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    print(f"{machine}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
