"""Every layout is read as it is published, and a wrong row is a fault of that row."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bystander.schemas.errors import InputError
from bystander.schemas.real_world_config import CorpusSource
from bystander.storage.corpora.read_corpora import read_corpus
from shared_data import find_shared

NITE = 'xmlns:nite="http://nite.sourceforge.net/"'
MEETINGS = """<meetings>
 <meeting observation="ES9999a">
  <speaker channel="0" nxt_agent="A" global_name="FEE001"/>
  <speaker channel="2" nxt_agent="B" global_name="MEE002"/>
 </meeting>
</meetings>"""
WORDS_A = f"""<?xml version="1.0" encoding="ISO-8859-1"?>
<nite:root {NITE} nite:id="ES9999a.A.words">
 <w nite:id="ES9999a.A.words0" starttime="1.5" endtime="1.7">What</w>
 <w nite:id="ES9999a.A.words1" starttime="1.7" endtime="1.9">caf\xe9</w>
 <w nite:id="ES9999a.A.words2" starttime="1.9" endtime="2.25">o-</w>
 <w nite:id="ES9999a.A.words3" starttime="2.25" endtime="2.5" trunc="true">op</w>
 <w nite:id="ES9999a.A.words4" starttime="2.5" endtime="2.5" punc="true">?</w>
 <vocalsound nite:id="ES9999a.A.words5" starttime="4.0" endtime="4.5" type="laugh"/>
 <disfmarker nite:id="ES9999a.A.words6"/>
 <w nite:id="ES9999a.A.words7">Lost</w>
</nite:root>"""
SEGMENTS_A = f"""<?xml version="1.0" encoding="ISO-8859-1"?>
<nite:root {NITE} nite:id="ES9999a.A.segs">
 <segment nite:id="s1" transcriber_start="1.4" transcriber_end="2.6">
  <nite:child href="ES9999a.A.words.xml#id(ES9999a.A.words0)..id(ES9999a.A.words4)"/>
 </segment>
 <segment nite:id="s2" transcriber_start="4.0" transcriber_end="4.5">
  <nite:child href="ES9999a.A.words.xml#id(ES9999a.A.words5)..id(ES9999a.A.words6)"/>
 </segment>
 <segment nite:id="s3"><nite:child href="ES9999a.A.words.xml#id(ES9999a.A.words99)"/></segment>
 <segment nite:id="s4"><nite:child href="ES9999a.A.words.xml#id(ES9999a.A.words7)"/></segment>
</nite:root>"""
WORDS_B = f"""<nite:root {NITE}>
 <w nite:id="ES9999a.B.words0" starttime="2.4" endtime="2.6">No</w>
 <w nite:id="ES9999a.B.words1" starttime="2.6" endtime="2.6" punc="true">.</w>
 <w nite:id="ES9999a.B.words2" starttime="9.0" endtime="9.3">Right</w>
</nite:root>"""
MELD_HEAD = "Sr No.,Utterance,Speaker,Emotion,Sentiment,Dialogue_ID,Utterance_ID,Season,Episode,StartTime,EndTime"


def read(path: Path, **fields: Any) -> list[dict[str, Any]]:
    return list(read_corpus(CorpusSource(path=str(path), **fields)).to_pylist())


def pick(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def write_ami(folder: Path) -> Path:
    root = folder / "ami_public_manual_1.6.2"
    for name, text in (
        ("corpusResources/meetings.xml", MEETINGS),
        ("words/ES9999a.A.words.xml", WORDS_A),
        ("words/ES9999a.B.words.xml", WORDS_B),
        ("segments/ES9999a.A.segments.xml", SEGMENTS_A),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode("latin-1"))
    return root


def test_ami_words_and_segments_become_utterances_with_the_speakers_names_and_headsets(tmp_path: Path) -> None:
    rows = read(write_ami(tmp_path), licence="CC BY 4.0")
    assert pick(rows, "recording", "speaker", "channel", "start_s", "end_s", "text", "source_text", "licence")[:4] == [
        # A segment has the times of its words; where there are no segments, pauses cut.
        ("ES9999a", "FEE001", 0, 1.5, 2.5, "What café o- op-?", "What café o- op-?", "CC BY 4.0"),
        ("ES9999a", "MEE002", 2, 2.4, 2.6, "No.", "No.", "CC BY 4.0"),
        ("ES9999a", "FEE001", 0, 4.0, 4.5, "", "[laugh]", "CC BY 4.0"),
        ("ES9999a", "MEE002", 2, 9.0, 9.3, "Right", "Right", "CC BY 4.0"),
    ]
    assert [row["fault"] for row in rows[4:]] == [
        "points at words that are not there (ES9999a.A.words99)",
        "no word of it has a time",
    ]
    assert rows[4]["place"] == "segments/ES9999a.A.segments.xml: segment s3"


def test_the_zip_of_annotations_is_read_as_it_is(tmp_path: Path) -> None:
    root = write_ami(tmp_path)
    archive = tmp_path / "ami.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(root.rglob("*.xml")):
            file.write(path, path.relative_to(tmp_path))
    assert pick(read(archive), "text", "start_s") == pick(read(root), "text", "start_s")


def test_lhotse_reads_real_segments_of_ami() -> None:
    rows = read(find_shared("multiparty", "ami_lhotse", "ES2011a_sups.jsonl.gz"))
    assert len(rows) == 348
    assert {row["speaker"] for row in rows} == {"FEE041", "FEE042", "FEE043", "FEE044"}
    assert not any(row["fault"] for row in rows)
    assert pick(rows, "recording", "start_s", "end_s", "text")[0] == ("ES2011a", 34.27, 37.14, "HERE WE GO")


def test_a_wrong_row_of_lhotse_names_file_line_and_field(tmp_path: Path) -> None:
    good = {"recording_id": "m", "start": 1, "duration": 2.5, "speaker": "A", "text": "Good.", "channel": [3]}
    lines = [good, {**good, "start": "x"}, {**good, "speaker": None}, {**good, "duration": "2"}, {**good, "start": -1}]
    lines.append({**good, "start": 10**400})
    path = tmp_path / "sups.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join([*map(json.dumps, lines), "{"]).encode()))
    rows = read(path)
    good_rows = [row for row in rows if row["fault"] is None]
    assert pick(good_rows, "channel", "end_s", "text") == [(3, 3.5, "Good.")]
    assert {(row["place"], row["fault"]) for row in rows if row["fault"]} == {
        ("sups.jsonl.gz: line 2", "field 'start' is 'x', no time in seconds"),
        ("sups.jsonl.gz: line 3", "field 'speaker' is missing"),
        ("sups.jsonl.gz: line 4", "field 'duration' is '2', no number of seconds"),
        ("sups.jsonl.gz: line 5", "field 'start' is -1, no time in a recording"),
        ("sups.jsonl.gz: line 6", f"field 'start' is '1{'0' * 39}', no time in seconds"),
        ("sups.jsonl.gz: line 7", "is no JSON object"),
    }


def test_friends_mmc_has_episodes_frames_and_windows_that_repeat_turns(tmp_path: Path) -> None:
    def turn(first: int, last: int, speaker: str, said: str) -> dict[str, Any]:
        span = f"s01e02-{first:06d}-{last:06d}"
        return {"frame": f"s01e02-{first:06d}", "video": span, "speaker": speaker, "content": said, "faces": []}

    talk = [turn(240, 288, "ross", "What is a fossil?"), turn(288, 312, "joey", "Not this again!")]
    path = tmp_path / "5_turns" / "train-metadata.json"
    path.parent.mkdir()
    path.write_text(json.dumps([talk, [talk[1], {"speaker": "ross", "content": "Hey."}]]))
    rows = read(path, frames_per_s=24)
    good = [row for row in rows if not row["fault"]]
    assert pick(good, "recording", "speaker", "start_s", "end_s", "text") == [
        ("s01e02", "ross", 10.0, 12.0, "What is a fossil?"),
        ("s01e02", "joey", 12.0, 13.0, "Not this again!"),
    ]
    assert len(rows) == 3
    (wrong,) = (row for row in rows if row["fault"])
    assert wrong["place"] == "train-metadata.json: conversation 2, turn 2"
    assert "name no episode" in wrong["fault"]


def test_meld_and_emorynlp(tmp_path: Path) -> None:
    meld = tmp_path / "meld.csv"
    meld.write_bytes(
        "\n".join(
            [
                MELD_HEAD,
                '1,"Oh my God, he\x92s lost it.",Phoebe,sadness,negative,0,0,4,7,"00:20:57,256","00:21:00,049"',
                "2,What?,Monica,surprise,negative,0,1,4,7,00:21:xx,00:21:03",
                "3,Hey!,Joey,joy,positive,0,2,four,7,00:21:01,00:21:03",
            ]
        ).encode("latin-1")
    )
    rows = read(meld)
    assert pick([row for row in rows if not row["fault"]], "recording", "speaker", "start_s", "end_s", "text") == [
        ("s04e07", "Phoebe", 1257.256, 1260.049, "Oh my God, he’s lost it.")
    ]
    assert {(row["place"], row["fault"]) for row in rows if row["fault"]} == {
        ("meld.csv: line 3", "field 'starttime' is '00:21:xx', no time such as 00:14:38,127"),
        ("meld.csv: line 4", "field 'season' is 'four', no number"),
    }
    emory = tmp_path / "emory.csv"
    emory.write_text(
        "Utterance,Speaker,Emotion,Scene_ID,Utterance_ID,Season,Episode,StartTime,EndTime\n"
        'Hi!,[\'Monica Geller\'],Joyful,1,1,2,3,"00:00:01,500","00:00:02,000"\n'
        'Bye!,"[\'Ross Geller\', \'Joey Tribbiani\']",Joyful,1,2,2,3,"00:00:02,500","00:00:03,000"\n'
    )
    rows = read(emory)
    assert {(row["speaker"], row["fault"]) for row in rows} == {
        ("Monica Geller", None),
        (None, "field 'speaker' names 2 speakers at once; one must speak"),
    }


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_dialogues_are_read_as_spreadsheets_write_them(tmp_path: Path, delimiter: str, encoding: str) -> None:
    head = ["Utterance", "Speaker", "StartTime", "EndTime", "Season", "Episode"]
    cells = ["Café, anyone?", "Joey", '"00:00:01,500"', '"00:00:02,000"', "1", "2"]
    cells[0] = f'"{cells[0]}"'
    (tmp_path / "a.csv").write_bytes("\r\n".join([delimiter.join(head), delimiter.join(cells)]).encode(encoding))
    rows = read(tmp_path / "a.csv")
    assert pick(rows, "recording", "speaker", "start_s", "text", "fault") == [
        ("s01e02", "Joey", 1.5, "Café, anyone?", None)
    ]


def test_stm_and_seglst_go_on_after_a_wrong_row_and_keep_laughs(tmp_path: Path) -> None:
    (tmp_path / "m1.stm").write_text(
        ";; a comment\nm1 1 A 1.0 2.0 <o,f0> what time is it\nm1 1 B two 3.0 no\nm1 2 B 3.0 2.0 no\n"
        "m1 1 A 5.0 5.5 [laughter]\nm1 1 A 6 7 ignore_time_segment_in_scoring\n"
    )
    (tmp_path / "m2.seglst.json").write_text(
        json.dumps(
            [
                {"session_id": "m2", "speaker": "C", "start_time": 1, "end_time": 2, "words": "hello there"},
                {"session_id": "m2", "speaker": "C", "start_time": 1, "words": "no end"},
                {"session_id": "m2", "speaker": "C", "start_time": 4, "end_time": 5, "words": "<laugh>"},
                "nothing",
            ]
        )
    )
    rows = read(tmp_path)
    assert pick(
        [row for row in rows if not row["fault"]], "recording", "speaker", "start_s", "text", "source_text"
    ) == [
        ("m1", "A", 1.0, "what time is it", "what time is it"),
        ("m1", "A", 5.0, "", "[laughter]"),
        ("m2", "C", 1.0, "hello there", "hello there"),
        ("m2", "C", 4.0, "", "<laugh>"),
    ]
    faults = {row["place"]: row["fault"] for row in rows if row["fault"]}
    assert faults.keys() == {
        "m1.stm: line 3",
        "m1.stm: line 4",
        "m2.seglst.json: segment 2",
        "m2.seglst.json: segment 4",
    }
    assert "start" in faults["m1.stm: line 3"]


def test_rttm_names_the_speakers_of_a_transcript_without_them(tmp_path: Path) -> None:
    corpus, rttm = tmp_path / "text", tmp_path / "rttm"
    corpus.mkdir()
    rttm.mkdir()
    (corpus / "m.json").write_text(
        json.dumps(
            [
                {"start": 0, "end": 2, "text": "what is the time"},
                {"start": 2, "end": 3, "text": "no idea"},
                {"start": 9, "end": 10, "text": "hm well"},
            ]
        )
    )
    (rttm / "m.rttm").write_text(
        "SPEAKER m 1 0.00 1.90 <NA> <NA> spk_a <NA> <NA>\nSPEAKER m 1 1.80 1.50 <NA> <NA> spk_b <NA> <NA>\n"
    )
    rows = read(corpus, rttm=str(rttm))
    assert pick(rows[:2], "speaker", "fault") == [("spk_a", None), ("spk_b", None)]
    assert rows[2]["fault"].startswith("no speaker of the RTTM file speaks most of it")
    with pytest.raises(InputError, match="names no speaker; give a folder of RTTM files"):
        read(corpus)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "Utterance,Speaker\nHi,Joey\n", "has no column starttime, endtime, season, episode"),
        ("a.json", '{"a": 1', "is not valid JSON"),
        ("a.bin", "x", "has no transcript; files that are read end in"),
        ("words/M.A.words.xml", "<root>", "is no XML"),
    ],
)
def test_a_file_of_no_use_is_refused_with_its_name(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read(tmp_path)


def test_a_corpus_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: there is no file"):
        read(tmp_path / "nowhere")
