"""Rows of a SID build by quotas."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import StageContractError
from bystander.schemas.sid_config import SidTargets
from bystander.tasks.stages.select_sid import select_sid

QUOTAS = {"beginning": 4, "middle": 6, "uninterrupted": 2}


def make_table(rows):
    names = ("id", "language", "category", "recording_id", "speaker")
    columns = {name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate(names)}
    return pa.table({**columns, "synthetic": pa.array([row[0].startswith("made-") for row in rows], pa.bool_())})


def make_turns(language, category, recordings, each, prefix=""):
    return [
        (f"{prefix}{language}-{category}-{recording}-{k}", language, category, recording, "AB"[k % 2])
        for recording in recordings
        for k in range(each)
    ]


def choose(rows, seed=1, **targets):
    settings = {"languages": ("en",), "per_language": QUOTAS, "silence": 0, "noise": 0, **targets}
    return select_sid(make_table(rows), SidTargets(**settings), seed)


def test_meets_the_quotas_and_says_what_is_left():
    rows = [row for category in QUOTAS for row in make_turns("en", category, "pqr", 3)]
    rows += [(f"s{k}", None, "silence", None, None) for k in range(5)]
    rows += [(f"n{k}", None, "noise", None, None) for k in range(2)]
    chosen = choose(rows, silence=3, noise=2)
    categories = Counter(row[2] for row in rows if row[0] in chosen.ids)
    assert categories == {**QUOTAS, "silence": 3, "noise": 2}
    assert chosen.shortfalls == ()
    assert chosen.missing == {}
    assert chosen.surplus == {
        (None, "silence"): 2,
        ("en", "beginning"): 5,
        ("en", "middle"): 3,
        ("en", "uninterrupted"): 7,
    }
    assert list(chosen.ids) == sorted(chosen.ids)


def test_says_what_quotas_lack():
    chosen = choose(make_turns("en", "middle", "pq", 2), noise=1)
    assert chosen.missing == {
        (None, "noise"): 1,
        ("en", "beginning"): 4,
        ("en", "middle"): 2,
        ("en", "uninterrupted"): 2,
    }
    assert [one.sentence for one in chosen.shortfalls][:2] == [
        "noise: 0 of 1 rows, 1 short.",
        "beginning in 'en': 0 of 4 rows, 4 short.",
    ]


def test_no_recording_dominates():
    rows = make_turns("en", "middle", ["big"], 50) + make_turns("en", "middle", "pqrst", 1)
    chosen = choose(rows)
    assert Counter(row[3] for row in rows if row[0] in chosen.ids) == dict.fromkeys(["big", *"pqrst"], 1)


def test_spreads_over_all_cells_and_speakers():
    rows = [row for category in QUOTAS for row in make_turns("en", category, "pqrs", 6)]
    chosen = [row for row in rows if row[0] in choose(rows).ids]
    assert set(Counter(row[3] for row in chosen).values()) == {3}
    assert max(Counter((row[3], row[4]) for row in chosen).values()) == 2


def test_synthetic_turns_fill_up_what_real_ones_leave_open():
    rows = make_turns("en", "middle", "p", 4) + make_turns("en", "middle", "qrstuv", 2, "made-")
    chosen = choose(rows)
    assert Counter(row_id.startswith("made-") for row_id in chosen.ids) == {False: 4, True: 2}


def test_a_limit_a_recording_holds_and_is_named():
    rows = [row for category in QUOTAS for row in make_turns("en", category, "pq", 6)]
    chosen = choose(rows, max_per_recording=4)
    assert Counter(row[3] for row in rows if row[0] in chosen.ids) == {"p": 4, "q": 4}
    assert sum(chosen.missing.values()) == 4
    assert any("kept out by max_per_recording" in one.sentence for one in chosen.shortfalls)


def test_without_quotas_all_turns_of_the_languages_are_taken():
    rows = make_turns("en", "middle", "pq", 3) + make_turns("zh", "middle", "r", 2)
    assert len(choose(rows, per_language=None).ids) == 6
    assert len(choose(rows, per_language=None, languages=("en", "zh")).ids) == 8
    assert len(choose(rows, per_language=None, max_per_recording=2).ids) == 4
    assert choose(rows, per_language=None).surplus == {("zh", "middle"): 2}


def test_an_id_that_occurs_twice_is_refused():
    with pytest.raises(StageContractError, match="1 row ids occur more than once, such as a"):
        choose([("a", "en", "middle", "p", "A")] * 2)


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["en", "zh", "de"]),
        st.sampled_from(["beginning", "middle", "uninterrupted", "silence", "noise"]),
        st.sampled_from(["p", "q", "r"]),
        st.sampled_from(["A", "B"]),
    ),
    max_size=60,
)


@given(rows=ROWS, most=st.none() | st.integers(1, 8), seed=st.integers(0, 9), shuffled=st.randoms())
def test_never_takes_too_many_and_never_leaves_what_it_could_take(rows, most, seed, shuffled):
    full = [
        (f"r{at}", None, category, None, None)
        if category in ("silence", "noise")
        else (f"r{at}", language, category, *rest)
        for at, (language, category, *rest) in enumerate(rows)
    ]
    targets = {"languages": ("en", "zh"), "silence": 2, "noise": 3, "max_per_recording": most}
    chosen = choose(full, seed, **targets)
    taken = [row for row in full if row[0] in chosen.ids]
    assert len(taken) == len(chosen.ids)
    by_recording = Counter(row[3] for row in taken if row[3])
    assert max(by_recording.values(), default=0) <= (most or 99)
    quotas = {(language, category): n for language in ("en", "zh") for category, n in QUOTAS.items()}
    quotas |= {(None, "silence"): 2, (None, "noise"): 3}
    got = Counter(row[1:3] for row in taken)
    assert all(got[cell] <= quotas.get(cell, 0) for cell in got)
    for row in full:
        if row[0] not in chosen.ids and got[row[1:3]] < quotas.get(row[1:3], 0):
            assert by_recording[row[3]] == most
    assert chosen.missing == {cell: n - got[cell] for cell, n in quotas.items() if got[cell] < n}
    available = Counter(row[1:3] for row in full)
    assert chosen.surplus == {cell: n - got[cell] for cell, n in available.items() if got[cell] < n}
    shuffled.shuffle(full)
    assert choose(full, seed, **targets) == chosen
