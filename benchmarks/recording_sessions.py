"""How well `bystander session import` reads a session: takes found, faults caught, cut-ins measured.

    bystander session sheet STORE/tpi-bench/demo --out sheet --takes 14
    python benchmarks/recording_sessions.py sheet --out spoken

Kokoro's voices read the sheet with faults planted (`spoken_session.py`): as one long mono file, as one long file with a
channel a person, and as a file a take. Each is imported. Printed: rows of good takes, faults by what came of them, and
how far the measured cut-in (the third party's start minus the primary's end) is from the truth; with one channel only
when the primary begins and the third party ends is measured.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import pyarrow.parquet as pq
from spoken_session import EXPECTED, RATE, Said, Speaker, say_session, write_recordings

from bystander.schemas.recording_session import ImportSettings
from bystander.storage.filesystem import open_store
from bystander.storage.session_files import read_session
from bystander.tasks.session.import_session import import_session


def main() -> None:
    """Speak, import, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sheet")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    sheet = read_session(open_store(arguments.sheet))
    tries = list(say_session(sheet, arguments.seed))
    write_recordings(tries, Speaker(sheet, arguments.seed), arguments.out, arguments.seed)
    planted = {said.take.code: said.fault for said in tries}
    planted |= {take.code: "missing" for take in sheet.takes if take.code not in planted}
    for name, audio in (("mono", "mono.wav"), ("two_channels", "two.flac"), ("file_a_take", "takes")):
        published = import_session(
            arguments.sheet, [str(arguments.out / audio)], str(arguments.out / "store"), name, ImportSettings()
        )
        compare(name, Path(published.location), tries, planted)


def compare(name: str, build: Path, tries: list[Said], planted: dict[str, str | None]) -> None:
    """Print what came of each take, and errors against the truth."""
    rows = [row for shard in sorted((build / "data").rglob("*.parquet")) for row in pq.read_table(shard).to_pylist()]
    last = {said.take.row["third_party_text"]: said for said in tries}
    reasons: dict[str, set[str]] = {}
    for file in sorted((build / "rejects").glob("*.parquet")):
        for reject in pq.read_table(file).to_pylist():
            reasons.setdefault(reject["id"] or "no take", set()).add(reject["reject_reason"])
    kept = {last[row["third_party_text"]].take.code for row in rows}
    good = [code for code, fault in planted.items() if fault in (None, "swapped", "repeated")]
    print(f"\n{name}: {len(kept & set(good))} of {len(good)} good takes are rows, {len(kept - set(good))} bad ones are")
    for code in sorted(set(good) - kept):
        print(f"  lost: {code} ({', '.join(sorted(reasons.get(code, ())))})")
    for code, fault in sorted(planted.items()):
        if fault is not None:
            wanted = EXPECTED[fault]
            own = reasons.get(code, set())
            # In a long file, what is not the script and has no slate cannot be filed under a take: the take is missing.
            caught = (
                (wanted in own or ("missing_take" in own and not own - {"missing_take"})) if wanted else code in kept
            )
            outcome = ", ".join([*sorted(reasons.get(code, ())), *(["a row"] if code in kept else [])])
            print(f"  {'caught' if caught else 'MISSED'}: {fault} {code}: {outcome or 'nothing'}")
    if "no take" in reasons:
        print(f"  stretches of no take: {', '.join(sorted(reasons['no take']))}")
    cut_ins, lengths = [], []
    for row in rows:
        said = last[row["third_party_text"]]
        first, second = row["segments"]
        cut_ins.append(second["start_s"] - first["end_s"] - said.offset_s)
        lengths.append(second["end_s"] - first["start_s"] - len(said.clean) / RATE)
    report("cut-in" if rows[0]["overlap_s"] is not None else "cut-in, one channel", cut_ins)
    report("length of the exchange", lengths)


def report(what: str, errors: list[float]) -> None:
    """Print the median and worst magnitude, and the median with its sign, in ms."""
    sizes = [abs(error) * 1000 for error in errors]
    print(
        f"  {what}: median error {statistics.median(sizes):.0f} ms, worst {max(sizes):.0f} ms, "
        f"bias {statistics.median(errors) * 1000:+.0f} ms ({len(errors)} takes)"
    )


if __name__ == "__main__":
    main()
