"""Checks the published figures of SID-Bench against each other, and the scorer against the authors' own output.

Usage: python benchmarks/published_sid_scores.py [--references zh_test_lines.jsonl --predictions zh_our_res.jsonl]

Without files: what the groups of the paper's Table II and the counts of its Table III give as averages, beside those
that it prints. With the files of the authors' repository (not shipped here): FIR, IRL and APT of their predictions,
which their notebook prints as 0.1375, 0.33837436932391457 and 0.6561522135416662.
"""

from __future__ import annotations

import argparse
import time

from bystander.storage.sid_jsonl import read_predictions, read_references
from bystander.tasks.metrics.published_sid import load_published_sid
from bystander.tasks.metrics.sid_summary import weight_by_cases
from bystander.tasks.score_sid import ScoreSettings, score_system


def compare_averages() -> None:
    published = load_published_sid()
    print("| system | figure | from groups | printed | from Table III | printed |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for system in published.systems:
        silence, noise = system.silence, system.noise
        for metric in ("fir", "apt"):
            means = {name: getattr(one, metric) for name, one in system.groups.items() if name != "average"}
            alarms = (silence.false_alarms + noise.false_alarms) / published.cases["noise_silence"]
            apt = weight_by_cases({"silence": silence.apt, "noise": noise.apt}, published.cases)
            cells = (
                weight_by_cases(means, published.cases),
                getattr(system.groups["average"], metric),
                alarms if metric == "fir" else apt,
                means["noise_silence"],
            )
            print(f"| {system.name} | {metric.upper()} | {' | '.join(f'{cell:.4f}' for cell in cells)} |")


def score_files(references: str, predictions: str) -> None:
    cases, found = read_references(references).cases, read_predictions(predictions)
    started = time.process_time()
    # The authors average over their predictions, so clips without one are no cases here either.
    predicted = [case for case in cases if case.audio in found.stops]
    average = score_system("authors", predicted, found.stops, ScoreSettings()).groups[-1]
    print(f"FIR {average.fir.mean} IRL {average.irl.mean} APT {average.apt.mean}, {average.cases} cases")
    print(f"{time.process_time() - started:.1f} CPU s with all breakdowns and intervals")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--references")
    parser.add_argument("--predictions")
    options = parser.parse_args()
    compare_averages()
    if options.references and options.predictions:
        score_files(options.references, options.predictions)


if __name__ == "__main__":
    main()
