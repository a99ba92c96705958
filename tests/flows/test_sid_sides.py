"""SID builds that share nothing: out of the box by sides, and of recordings by --disjoint-from."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from bystander.schemas.errors import BuildError, ConfigError
from bystander.schemas.sid_config import SidTrainConfig
from bystander.storage.verify_build import verify_build
from bystander.tasks.verify_disjointness import verify_disjointness
from sid_builds import TALK, build_sid, make_sid_config, write_talk
from tpi_builds import Built

pytestmark = pytest.mark.usefixtures("prefect_server")

OTHER_TALK = (
    (0, "The museum opens at ten and the last tour begins at four in the afternoon.", 0.5),
    (1, "Can I bring my dog along?", 1.5),
    (0, "Pictures may be taken in all of the rooms, but without any light of your own.", 9.0),
    (1, "Right.", 10.5),
)
BORROWED = (*OTHER_TALK[:2], TALK[2], TALK[3])
"""One turn of its own, and one that says what a turn of `TALK` says."""
NATURAL = {
    "conversations__use": False,
    "targets__per_language": None,
    "targets__languages": ["en"],
    "targets__silence": 0,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def train(store: Path) -> Built:
    return build_sid(make_sid_config(store, SidTrainConfig, build="train"))


@pytest.fixture(scope="module")
def bench(store: Path) -> Built:
    return build_sid(make_sid_config(store, build="bench"))


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("talks")


@pytest.fixture(scope="module")
def of_talk(store: Path, talks: Path) -> Built:
    write_talk(talks / "one", "talk")
    return build_sid(make_sid_config(store, build="one", recordings__path=str(talks / "one"), **NATURAL))


def test_a_train_build_and_a_bench_of_one_seed_share_nothing(train: Built, bench: Built) -> None:
    rows = [built.read_rows().drop_columns(["audio"]).to_pylist() for built in (train, bench)]
    for column in ("id", "recording_id", "speaker", "context_text"):
        one, other = ({row[column] for row in part if row[column] is not None} for part in rows)
        assert one, column
        assert other, column
        assert not one & other, column
    assert {row["category"] for row in rows[0]} == {row["category"] for row in rows[1]}
    for built, other in ((train, bench), (bench, train)):
        assert verify_disjointness(built.folder, [str(other.folder)]).findings == []
        assert verify_build(built.folder) == []


def test_where_both_sides_are_used_rows_are_shared_and_verify_says_so(store: Path, bench: Built) -> None:
    everything = {"stages__write_conversations__use": "all", "stages__speak_conversations__use": "all"}
    built = build_sid(make_sid_config(store, SidTrainConfig, build="all", noise__use="held_out", **everything))
    found = Counter(finding.field for finding in verify_disjointness(built.folder, [str(bench.folder)]).findings)
    assert found["id"] == 3  # the noise
    assert found["context_text"] > 0
    kept = build_sid(
        make_sid_config(
            store,
            SidTrainConfig,
            build="kept",
            disjoint_from=[str(bench.folder)],
            noise__use="held_out",
            **everything,
        )
    )
    assert verify_disjointness(kept.folder, [str(bench.folder)]).findings == []
    assert {row["reject_reason"] for row in kept.read_rejects("check_known_turns")} == {"text_in_other_build"}
    [listed] = kept.outcome.manifest.disjoint_from
    assert (listed.dataset, listed.build) == ("sid-bench", "bench")
    assert kept.outcome.manifest.counts.by_category["noise"] == 3
    assert not kept.outcome.manifest.shortfalls


def test_a_voice_of_the_other_side_is_found(train: Built, tmp_path: Path) -> None:
    folder = shutil.copytree(train.folder, tmp_path / "copy")
    manifest = folder / "manifest.json"
    text = manifest.read_text("utf-8")
    assert '"use": "rest"' in text
    manifest.write_text(text.replace('"use": "rest"', '"use": "held_out"'), "utf-8")
    problems = [str(finding) for finding in verify_disjointness(folder).findings]
    assert problems
    assert all("is not on the side 'held_out'" in problem for problem in problems)


def test_a_recording_that_the_other_build_has_is_not_even_read(store: Path, talks: Path, of_talk: Built) -> None:
    write_talk(talks / "two", "other", OTHER_TALK)
    shutil.copy(talks / "one" / "talk.wav", talks / "two" / "renamed.wav")
    built = build_sid(
        make_sid_config(
            store,
            SidTrainConfig,
            build="two",
            recordings__path=str(talks / "two"),
            disjoint_from=[str(of_talk.folder)],
            **NATURAL,
        )
    )
    [known] = built.read_rejects("check_known_recordings")
    assert (known["source"], known["reject_reason"]) == ("renamed.wav", "recording_in_other_build")
    counts = {stage.stage: stage.rows_in for stage in built.outcome.manifest.stages}
    assert (counts["check_known_recordings"], counts["decode_recordings"]) == (2, 1)
    assert verify_disjointness(built.folder).findings == []
    assert "Can I bring my dog along?" in built.read_rows()["text"].to_pylist()


def test_words_that_the_other_build_has_are_known_in_another_recording(
    store: Path, talks: Path, of_talk: Built
) -> None:
    write_talk(talks / "three", "borrowed", BORROWED)
    config = make_sid_config(
        store, build="three", recordings__path=str(talks / "three"), disjoint_from=[str(of_talk.folder)], **NATURAL
    )
    built = build_sid(config)
    rejected = built.read_rejects("check_known_turns")
    assert {row["reject_reason"] for row in rejected} == {"text_in_other_build"}
    assert {row["text"] for row in rejected} == {"Yeah, but how much is the ticket?"}
    assert [text for text in built.read_rows()["text"].to_pylist() if text] == ["Can I bring my dog along?"]


def test_acknowledgements_are_everybodys(store: Path, talks: Path, of_talk: Built) -> None:
    assert "Right." in of_talk.read_rows()["text"].to_pylist()
    write_talk(talks / "four", "again", OTHER_TALK)
    config = make_sid_config(
        store, build="four", recordings__path=str(talks / "four"), disjoint_from=[str(of_talk.folder)], **NATURAL
    )
    assert "Right." in build_sid(config).read_rows()["text"].to_pylist()


def test_a_build_that_is_none_is_refused_at_once(store: Path, tmp_path: Path, bench: Built) -> None:
    with pytest.raises(ConfigError, match="disjoint_from"):
        build_sid(make_sid_config(store, build="x", disjoint_from=[str(tmp_path)]))
    with pytest.raises(BuildError, match="not a finished build"):
        verify_disjointness(bench.folder, [str(tmp_path)])
