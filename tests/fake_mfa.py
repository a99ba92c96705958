"""A stand-in for the program `mfa`, for its adapter's tests: spreads the words of a corpus over its clips.

`FAKE_MFA` says how it goes wrong: `missing` and `blank` for the second clip, `garbage`, `overlap`, `unfinished`,
`fail`, `hang`. It knows words without digits; others are `<unk>`, and words with a hyphen are two.
What it was asked is kept in `FAKE_MFA_LOG`, and the variables that it ran with in `FAKE_MFA_VARIABLES`. Its version is
`FAKE_MFA_VERSION`.
"""

import json
import os
import sys
import time
import wave
from pathlib import Path

from praatio import textgrid


def align(arguments, mode):
    corpus, output = Path(arguments[0]), Path(arguments[3])
    if mode == "fail":
        sys.stderr.write("reading corpus\nKaldiProcessingError: there was an error\n  see the log\n")
        return 1
    if mode == "hang":
        time.sleep(60)
    for number, wav in enumerate(sorted(corpus.glob("*.wav"))):
        if number == 1 and mode == "missing":
            continue
        with wave.open(str(wav)) as clip:
            duration = clip.getnframes() / clip.getframerate()
        words = wav.with_suffix(".lab").read_text("utf-8").replace("-", " ").split()
        target = output / f"{wav.stem}.json"
        if mode == "garbage":
            target.write_text("{", "utf-8")
            continue
        labels = ["<unk>" if any(c.isdigit() for c in word) else word for word in words]
        step = 0.8 * duration / len(words)
        edges = [0.1 * duration + k * step for k in range(len(words) + 1)]
        entries = [(a, b, label) for a, b, label in zip(edges, edges[1:], labels, strict=False)]
        if mode == "unfinished":
            entries = entries[:-1]
        halves = []
        for start, end, label in entries:
            middle = (start + end) / 2
            halves += [(start, middle, label[0].upper()), (middle, end, "AH0")]
        if number == 1 and mode == "blank":
            entries, halves = [(0, duration, "")], [(0, duration, "sil")]
        if mode == "overlap":
            tiers = {k: {"type": "interval", "entries": [[0, 1, "a"], [0.5, 2, "b"]]} for k in ("words", "phones")}
            target.write_text(json.dumps({"start": 0, "end": duration, "tiers": tiers}), "utf-8")
            continue
        grid = textgrid.Textgrid(0, duration)
        grid.addTier(textgrid.IntervalTier("words", entries, 0, duration))
        grid.addTier(textgrid.IntervalTier("phones", halves, 0, duration))
        grid.save(str(target), format="json", includeBlankSpaces=mode == "blank")
    return 0


def main():
    command, arguments = sys.argv[1], sys.argv[2:]
    if "FAKE_MFA_LOG" in os.environ:
        with Path(os.environ["FAKE_MFA_LOG"]).open("a", encoding="utf-8") as log:
            log.write(json.dumps([command, *arguments]) + "\n")
    if "FAKE_MFA_VARIABLES" in os.environ:
        Path(os.environ["FAKE_MFA_VARIABLES"]).write_text(json.dumps(dict(os.environ)), "utf-8")
    if command == "version":
        sys.stdout.write(os.environ.get("FAKE_MFA_VERSION", "3.4.3") + "\n")
        return 0
    return align(arguments, os.environ.get("FAKE_MFA", ""))


if __name__ == "__main__":
    sys.exit(main())
