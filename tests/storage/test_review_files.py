from __future__ import annotations

import json
from pathlib import Path

import pytest

from bystander.schemas.errors import InputError, StorageError
from bystander.schemas.review import (
    AnnotatorVerdict,
    JournalHeader,
    ReviewDecision,
    ReviewEntry,
    RowEdits,
    RowReview,
    list_reasons,
    normalise_annotator,
)
from bystander.storage import review_files
from bystander.storage.review_files import ReviewJournal, list_journals, read_decisions, read_journal, write_decisions

DIGEST, OTHER = "a" * 64, "b" * 64


def make_header(annotator: str = "ada", digest: str = DIGEST) -> JournalHeader:
    return JournalHeader(dataset="tpi-bench", build="demo", build_digest=digest, annotator=annotator)


def make_entry(seq: int, row_id: str = "row-1", client: str = "tab", **changes: object) -> ReviewEntry:
    return ReviewEntry(row_id=row_id, client=client, seq=seq, changes=RowReview.model_validate(changes))


def make_decision(row_id: str = "row-1", **fields: object) -> ReviewDecision:
    values = {"verdict": "accept", "annotators": {"ada": AnnotatorVerdict(verdict="accept")}} | fields
    return ReviewDecision.model_validate({"row_id": row_id, "build_digest": DIGEST, **values})


def test_the_last_value_of_each_field_counts_and_null_takes_it_back(tmp_path: Path) -> None:
    journal = ReviewJournal(tmp_path, make_header())
    segment = {"speaker": "primary", "start_s": 0.0, "end_s": 1.5}
    journal.append([make_entry(1, verdict="reject", reason="bad_audio"), make_entry(2, row_id="row-2", note="hm")])
    journal.append([make_entry(3, verdict="accept", reason=None), make_entry(4, segments=[segment])])
    journal.append([make_entry(5, primary_text="so it is"), make_entry(6, primary_text=None)])
    journal.close()
    content = read_journal(journal.path)
    assert content.reviews["row-1"].model_dump(exclude_none=True) == {"verdict": "accept", "segments": (segment,)}
    assert content.reviews["row-2"].note == "hm"
    assert (content.last_seq, content.torn_bytes) == ({"tab": 6}, 0)
    assert list_journals(tmp_path) == ["ada"]


def test_what_is_sent_twice_counts_once_for_each_client(tmp_path: Path) -> None:
    journal = ReviewJournal(tmp_path, make_header())
    assert journal.append([make_entry(1, note="a"), make_entry(2, note="b")]) == 2
    assert journal.append([make_entry(1, note="a"), make_entry(2, note="b"), make_entry(3, note="c")]) == 1
    assert journal.append([make_entry(1, client="phone", note="d")]) == 1
    assert journal.append([make_entry(3, note="c")]) == 0
    journal.close()
    again = ReviewJournal(tmp_path, make_header())
    assert again.append([make_entry(3, note="c")]) == 0
    assert again.content.reviews["row-1"].note == "d"
    assert len(again.path.read_text().splitlines()) == 5
    again.close()


@pytest.mark.parametrize("cut", range(1, 100, 7))
def test_a_torn_last_line_is_dropped_and_the_next_one_is_whole(tmp_path: Path, cut: int) -> None:
    journal = ReviewJournal(tmp_path, make_header())
    journal.append([make_entry(1, verdict="accept")])
    whole = journal.path.stat().st_size
    journal.append([make_entry(2, verdict="reject", note="zoë " * 20)])
    journal.close()
    data = journal.path.read_bytes()
    journal.path.write_bytes(data[: whole + cut])
    assert read_journal(journal.path).torn_bytes == cut
    again = ReviewJournal(tmp_path, make_header())
    assert (again.content.torn_bytes, again.content.reviews["row-1"].verdict) == (cut, "accept")
    again.append([make_entry(2, verdict="reject")])
    again.close()
    content = read_journal(journal.path)
    assert (content.torn_bytes, content.reviews["row-1"].verdict) == (0, "reject")


def test_a_journal_torn_in_its_first_line_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "ada.jsonl").write_text('{"format": "bystander-rev')
    ReviewJournal(tmp_path, make_header()).close()
    assert read_journal(tmp_path / "ada.jsonl").header == make_header()


def test_a_write_that_fails_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = ReviewJournal(tmp_path, make_header())
    before = journal.path.read_bytes()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(review_files.os, "fsync", fail)
        with pytest.raises(StorageError, match=r"ada\.jsonl: cannot be written \(No space left on device\)"):
            journal.append([make_entry(1, note="lost")])
    assert journal.path.read_bytes() == before
    assert journal.append([make_entry(1, note="kept")]) == 1
    journal.close()
    assert read_journal(journal.path).reviews["row-1"].note == "kept"


def test_a_journal_is_held_by_one_and_is_of_one_build(tmp_path: Path) -> None:
    journal = ReviewJournal(tmp_path, make_header())
    with pytest.raises(StorageError, match="another `bystander review` is writing it"):
        ReviewJournal(tmp_path, make_header())
    journal.close()
    with pytest.raises(InputError, match="had other rows"):
        ReviewJournal(tmp_path, make_header(digest=OTHER))
    ReviewJournal(tmp_path, make_header()).close()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "line 3: is no JSON object"),
        ('{"row_id": "r", "client": "a", "seq": 0, "changes": {}}', "line 3: seq: "),
        ('{"row_id": "r", "client": "a", "seq": 1, "changes": {"verdict": "maybe"}}', r"line 3: changes\.verdict: "),
        ('{"row_id": "r", "client": "a", "seq": 1, "changes": {"mood": 1}}', r"line 3: changes\.mood: no such field"),
    ],
)
def test_faults_of_a_journal_name_line_and_field(tmp_path: Path, line: str, message: str) -> None:
    journal = ReviewJournal(tmp_path, make_header())
    journal.append([make_entry(1, note="x")])
    journal.close()
    with journal.path.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(InputError, match=message):
        read_journal(journal.path)


def test_decisions_come_back_as_they_were_written(tmp_path: Path) -> None:
    edits = RowEdits.model_validate(
        {"third_party_text": "Nein, «zwei»!", "segments": [{"speaker": "third_party", "start_s": 0.1, "end_s": 2}]}
    )
    decisions = [
        make_decision("row-2", edits=edits),
        make_decision("row-1", verdict="reject", reason="other", note="<b>", rule="majority"),
        make_decision("row-3", verdict="conflict"),
    ]
    path = tmp_path / "deep" / "decisions.jsonl"
    assert write_decisions(str(path), decisions) == 3
    assert read_decisions(str(path), DIGEST) == decisions
    assert json.loads(path.read_text().splitlines()[0])["edits"]["third_party_text"] == "Nein, «zwei»!"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"verdict": "perhaps"}, "line 2: verdict: "),
        ({"annotators": {}}, "line 2: annotators: "),
        ({"verdict": "reject", "reason": "boring"}, "line 2: reason: "),
        ({"reason": "other"}, "a reason is for rows that are rejected"),
        ({"verdict": "conflict", "edits": {"primary_text": "a"}}, "edits are for rows that are accepted"),
        ({"edits": {"segments": [{"speaker": "primary", "start_s": 2, "end_s": 1}]}}, r"edits\.segments\.0: .*2 s"),
        ({"edits": {"text_with_break": "a <break> b <break> c"}}, r"edits\.text_with_break: has 2 breaks"),
        ({"row_id": "row-1"}, "line 2: row_id: row-1 was decided in line 1 already"),
        ({"build_digest": OTHER}, "line 2: build_digest: is that of other rows"),
    ],
)
def test_faults_of_decisions_name_line_and_field(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    path = tmp_path / "decisions.jsonl"
    good = make_decision().model_dump(mode="json")
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (good, good | {"row_id": "row-2"} | changes)))
    with pytest.raises(InputError, match=message):
        read_decisions(str(path))


def test_decisions_of_other_rows_are_refused(tmp_path: Path) -> None:
    write_decisions(str(tmp_path / "d.jsonl"), [make_decision()])
    with pytest.raises(InputError, match="export the decisions of the build"):
        read_decisions(str(tmp_path / "d.jsonl"), OTHER)
    with pytest.raises(InputError, match=r"missing\.jsonl"):
        read_decisions(str(tmp_path / "missing.jsonl"))


def test_names_of_annotators_are_safe_as_files() -> None:
    assert [normalise_annotator(name) for name in (" Ada ", "Zoë", "张三", "a.b-c_1")] == [
        "ada",
        "zoë",
        "张三",
        "a.b-c_1",
    ]
    for name in ("", "..", ".ada", "a/b", "a\\b", "a b", "x" * 41, "Unanimous", "majority", "a\0", "<script>"):
        with pytest.raises(ValueError, match="annotator"):
            normalise_annotator(name)


def test_each_kind_has_reasons_for_ten_digits_at_most() -> None:
    assert len(list_reasons("tpi")) == 10
    assert "wrong_break" not in list_reasons("tpi")
    assert {"wrong_break", "bad_audio"} < {*list_reasons("sid")}
    assert "needs_context" not in list_reasons("sid")
