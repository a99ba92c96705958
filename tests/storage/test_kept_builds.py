"""Which builds are kept, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import InputError
from bystander.storage.kept_builds import KeepRules, judge_builds
from bystander.storage.releases import Release
from bystander.storage.stored_builds import BuildCondition, StoredBuild


def make(name: str, condition: BuildCondition = "finished", *mentions: str, **fields: object) -> StoredBuild:
    dataset, _, build = name.partition("/")
    values = {"files": {f"{name}/manifest.json": 1}, "mentions": frozenset(mentions)} | fields
    return StoredBuild(dataset, build, condition, **values)  # type: ignore[arg-type]


def release(name: str, *mentions: str) -> StoredBuild:
    return make(name, "finished", *mentions, mark="released")


RELEASES = [release(f"t/2026-11-{day}") for day in ("01", "08", "15", "15.2", "15.10", "22")]
LATEST = {"t": Release(build="2026-11-22")}


def list_going(
    builds: list[StoredBuild], rules: KeepRules, latest: dict[str, Release | None] | None = None
) -> list[str]:
    return [verdict.build.name for verdict in judge_builds(builds, latest or {}, rules) if verdict.goes]


def test_without_rules_only_unfinished_builds_go() -> None:
    builds = [
        *RELEASES,
        make("t/mine"),
        make("t/stopped", "unfinished"),
        make("t/running", "running"),
        make("t/notes", "strange"),
        make("evaluations/e", "evaluation"),
        make("evaluations/half", "unfinished"),
        make("t/mixed", "unfinished", foreign=("t/mixed/notes.txt",)),
    ]
    assert list_going(builds, KeepRules(), LATEST) == ["t/stopped"]
    assert list_going(builds, KeepRules(keep=("stopped",)), LATEST) == []


def test_newest_releases_are_kept_by_date_and_number() -> None:
    def keep_last(number: int, **pointer: object) -> list[str]:
        latest = {"t": Release(build="2026-11-22", **pointer)}  # type: ignore[arg-type]
        return list_going(RELEASES, KeepRules(keep_last=number), latest)

    assert keep_last(2) == ["t/2026-11-01", "t/2026-11-08", "t/2026-11-15", "t/2026-11-15.2"]
    assert keep_last(6) == []
    assert keep_last(5) == ["t/2026-11-01"]
    # One that was taken back is no release; older ones go all the same, and it stays as long as it is newer than they.
    assert keep_last(1, withdrawn=("2026-11-15.10",))[-1] == "t/2026-11-15.10"
    assert keep_last(2, withdrawn=("2026-11-15.10",)) == ["t/2026-11-01", "t/2026-11-08", "t/2026-11-15"]


def test_each_dataset_counts_for_itself_and_what_is_no_release_stays() -> None:
    builds = [*RELEASES, release("u/2026-11-01"), make("t/mine"), release("t/named"), make("t/2026-10-01")]
    going = list_going(builds, KeepRules(keep_last=1), {**LATEST, "u": Release(build="2026-11-01")})
    assert going == [build.name for build in RELEASES[:-1]]


def test_refused_build_goes_with_the_releases_of_its_time() -> None:
    old, new = (make(f"t/{day}", mark="refused") for day in ("2026-11-02", "2026-11-29"))
    assert list_going([*RELEASES, old, new], KeepRules(keep_last=1), LATEST) == [
        *(build.name for build in RELEASES[:-1]),
        "t/2026-11-02",
    ]


def test_latest_stays_though_newer_ones_are_enough() -> None:
    latest: dict[str, Release | None] = {"t": Release(build="2026-11-08")}  # after a rollback
    assert "t/2026-11-08" not in list_going(RELEASES, KeepRules(keep_last=1), latest)
    assert list_going(RELEASES, KeepRules(drop=("t/*",)), latest) == [
        build.name for build in RELEASES if build.build != "2026-11-08"
    ]


def test_what_kept_builds_refer_to_stays_and_what_that_refers_to() -> None:
    builds = [
        make("t/base"),
        make("t/grown", "finished", "/elsewhere/store/t/base"),
        make("b/bench", "finished", "s3://bucket/store/t/grown"),
        make("evaluations/e", "evaluation", "store/b/bench"),
        make("t/alone", "finished", "store/t/base-of-something"),
    ]
    rules = KeepRules(drop=("t/*", "b/*"))
    verdicts = {verdict.build.name: verdict for verdict in judge_builds(builds, {}, rules)}
    assert [name for name, verdict in verdicts.items() if verdict.goes] == ["t/alone"]
    assert verdicts["b/bench"].why == "evaluations/e refers to it"
    assert verdicts["t/grown"].why == "b/bench refers to it"
    assert verdicts["t/base"].why == "t/grown refers to it"
    assert list_going(builds, KeepRules(drop=("t/*", "b/*", "evaluations/*"))) == [
        "t/base",
        "t/grown",
        "b/bench",
        "evaluations/e",
        "t/alone",
    ]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (KeepRules(drop=("mine",)), r"--drop mine: write DATASET/NAME"),
        (KeepRules(drop=("t/none",)), r"--drop t/none: there is no such build in the store"),
        (KeepRules(keep=("x*",)), r"--keep x\*: there is no build in the store"),
        (KeepRules(drop=("t/2026-11-22",)), r"--drop t/2026-11-22: must stay: t/latest points to it"),
        (KeepRules(drop=("t/running",)), r"--drop t/running: must stay: a process is making it"),
        (KeepRules(drop=("t/used",)), r"--drop t/used: must stay: t/running refers to it"),
    ],
)
def test_wrong_rules_are_refused(rules: KeepRules, message: str) -> None:
    builds = [*RELEASES, make("t/mine"), make("t/running", "running", "x/t/used"), make("t/used")]
    with pytest.raises(InputError, match=message):
        judge_builds(builds, LATEST, rules)


NAMES = [f"{dataset}/{build}" for dataset in ("t", "b") for build in ("2026-01-01", "2026-01-02", "2026-01-02.2", "x")]
CONDITIONS: tuple[BuildCondition, ...] = ("finished", "finished", "unfinished", "running", "strange")
BUILDS = st.lists(
    st.builds(
        lambda name, condition, mentions, mark: make(name, condition, *(f"/s/{one}" for one in mentions), mark=mark),
        st.sampled_from(NAMES),
        st.sampled_from(CONDITIONS),
        st.sets(st.sampled_from(NAMES), max_size=2),
        st.sampled_from([None, "released", "refused", "begun"]),
    ),
    unique_by=lambda build: build.name,
    max_size=8,
)


@given(
    BUILDS,
    st.none() | st.integers(1, 3),
    st.lists(st.sampled_from(["*", "x", "t/*"]), max_size=2),
    st.lists(st.sampled_from(["t/*", "b/2026*", "*/*"]), max_size=2),
    st.sampled_from(["2026-01-01", "x"]),
)
def test_nothing_that_is_needed_ever_goes(
    builds: list[StoredBuild], keep_last: int | None, keep: list[str], drop: list[str], pointed: str
) -> None:
    latest = {"t": Release(build=pointed), "b": None}
    try:
        verdicts = judge_builds(builds, latest, KeepRules(keep_last, tuple(keep), tuple(drop)))
    except InputError as exc:
        assert "there is no" in str(exc)  # noqa: PT017
        return
    assert [verdict.build for verdict in verdicts] == builds
    kept = [verdict.build for verdict in verdicts if not verdict.goes]
    for going in (verdict.build for verdict in verdicts if verdict.goes):
        assert going.condition in ("finished", "unfinished")
        assert going.condition == "unfinished" or going.name != f"t/{pointed}"
        assert not any(build.refers_to(going) for build in kept)
        assert going.condition == "unfinished" or drop or keep_last
