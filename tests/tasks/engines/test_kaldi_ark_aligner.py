"""Alignments that Kaldi left: CTM, and arks of phones."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from alignment_samples import get_reason, get_reply, make_noise, make_request, write_ctm
from bystander.schemas.errors import EngineSetupError, InputError
from bystander.schemas.sid_engine_configs import KaldiArkAlignerConfig
from bystander.tasks.engines.kaldi_ark_aligner import KaldiArkAligner

WORDS = {"clip": [(0.2, 0.5, "right"), (0.9, 1.1, "don't"), (1.1, 1.5, "<unk>")]}
PHONES = {"clip": [(0.0, 0.2, "SIL"), (0.2, 0.3, "R_B"), (0.3, 0.5, "T_E"), (0.9, 1.1, "D_S"), (1.1, 1.5, "SPN_S")]}
REQUEST = make_request(make_noise(2, 0.1), ("Right,", "don’t", "zyx."))
TABLE = "<eps> 0\nSIL 1\nR_B 2\nT_E 3\nD_S 4\nSPN_S 5\n"
FRAMES = [1] * 20 + [2] * 10 + [3] * 20 + [1] * 40 + [4] * 20 + [5] * 40


def _pack(name: str, values: list[int]) -> bytes:
    cells = b"".join(b"\x04" + struct.pack("<i", value) for value in values)
    return name.encode() + b" \0B\x04" + struct.pack("<i", len(values)) + cells


@pytest.fixture
def words_ctm(tmp_path: Path) -> str:
    return str(write_ctm(tmp_path / "words.ctm", WORDS, " 0.75"))


@pytest.mark.parametrize("kind", ["ctm", "binary ark", "text ark"])
def test_words_and_phones_are_read_back(tmp_path: Path, words_ctm: str, kind: str) -> None:
    (tmp_path / "phones.txt").write_text(TABLE, "utf-8")
    if kind == "ctm":
        config = KaldiArkAlignerConfig(words_ctm=words_ctm, phones_ctm=str(write_ctm(tmp_path / "phones.ctm", PHONES)))
    else:
        ark = tmp_path / "phones.ark"
        text = ("clip " + " ".join(map(str, FRAMES)) + "\n").encode()
        ark.write_bytes(_pack("other", [1, 2]) + _pack("clip", FRAMES) if kind == "binary ark" else text)
        config = KaldiArkAlignerConfig(
            words_ctm=words_ctm, phones_ark=str(ark), phone_table=str(tmp_path / "phones.txt")
        )
    aligner = KaldiArkAligner(config)
    reply = get_reply(*aligner.align([REQUEST]))
    assert [(word.word, round(word.start_s, 6), round(word.end_s, 6)) for word in reply.words] == [
        ("Right,", 0.2, 0.5),
        ("don’t", 0.9, 1.1),
        ("zyx.", 1.1, 1.5),
    ]
    assert [[phone.phone for phone in word.phones] for word in reply.words] == [["R", "T"], ["D"], ["SPN"]]
    assert [word.in_vocabulary for word in reply.words] == [True, True, False]
    assert reply.score == 0.75
    other = make_request(REQUEST.samples, REQUEST.words, name="other")
    assert get_reason(*aligner.align([other])) == "no_alignment"


def test_bias_is_taken_out(words_ctm: str) -> None:
    aligner = KaldiArkAligner(KaldiArkAlignerConfig(words_ctm=words_ctm, bias_s=-0.02, languages=("fr",)))
    reply = get_reply(*aligner.align([make_request(REQUEST.samples, REQUEST.words, language="fr")]))
    assert reply.words[0].start_s == pytest.approx(0.22)
    assert get_reason(*aligner.align([REQUEST])) == "language_not_aligned"


@pytest.mark.parametrize(
    "words",
    [("Right,", "don’t"), ("Right,", "don’t", "zyx.", "no"), ("Wrong,", "don’t", "zyx.")],
    ids=len,
)
def test_another_text_is_no_alignment(words_ctm: str, words: tuple[str, ...]) -> None:
    aligner = KaldiArkAligner(KaldiArkAlignerConfig(words_ctm=words_ctm))
    assert get_reason(*aligner.align([make_request(REQUEST.samples, words)])) == "alignment_incomplete"


def test_times_beyond_the_clip_and_phones_off_their_words_are_no_alignment(tmp_path: Path, words_ctm: str) -> None:
    aligner = KaldiArkAligner(KaldiArkAlignerConfig(words_ctm=words_ctm))
    short = make_request(make_noise(1.2, 0.1), REQUEST.words)
    assert get_reason(*aligner.align([short])) == "alignment_incomplete"
    off = write_ctm(tmp_path / "off.ctm", {"clip": [(0.3, 0.5, "R"), *PHONES["clip"][3:]]})
    aligner = KaldiArkAligner(KaldiArkAlignerConfig(words_ctm=words_ctm, phones_ctm=str(off)))
    assert get_reason(*aligner.align([REQUEST])) == "alignment_incomplete"


@pytest.mark.parametrize(
    "path", ["touch {folder}/ran |", "|cat", "ark:words.ctm", "-", "", "{folder}", "{folder}/none"]
)
@pytest.mark.parametrize("setting", ["words_ctm", "phones_ctm", "phones_ark", "phone_table"])
def test_nothing_but_plain_files_is_opened(tmp_path: Path, words_ctm: str, path: str, setting: str) -> None:
    given = {"words_ctm": words_ctm, setting: path.format(folder=tmp_path)}
    if setting == "phones_ark":
        given["phone_table"] = words_ctm
    with pytest.raises(EngineSetupError, match=f"kaldi_ark: {setting}: "):
        KaldiArkAligner(KaldiArkAlignerConfig(**given))
    assert not (tmp_path / "ran").exists()


def test_settings_that_do_not_fit_are_refused(words_ctm: str) -> None:
    with pytest.raises(EngineSetupError, match="needs phone_table"):
        KaldiArkAligner(KaldiArkAlignerConfig(words_ctm=words_ctm, phones_ark=words_ctm))
    with pytest.raises(EngineSetupError, match="not both"):
        KaldiArkAligner(KaldiArkAlignerConfig(words_ctm=words_ctm, phones_ark=words_ctm, phones_ctm=words_ctm))


@pytest.mark.parametrize(
    ("ctm", "ark", "table", "message"),
    [
        (b"clip 1 0.0 right\n", None, "", "words.ctm: line 1 is no CTM entry"),
        (b";; note\nclip 1 0.0 x right\n", None, "", "words.ctm: line 2 is no CTM entry"),
        (b"\xff\xfe\xff", None, "", "words.ctm: cannot be read as text"),
        (b"clip 1 0 1 right\n", _pack("clip", FRAMES)[:-3], TABLE, "phones.ark: is no ark of integer vectors"),
        (b"clip 1 0 1 right\n", b"clip \0BFM \x04", TABLE, "phones.ark: is no ark of integer vectors"),
        (b"clip 1 0 1 right\n", b"clip one two\n", TABLE, "phones.ark: is no ark of integer vectors"),
        (b"clip 1 0 1 right\n", _pack("clip", [77]), TABLE, "phone 77 is not in the phone table"),
        (b"clip 1 0 1 right\n", _pack("clip", FRAMES), "SIL one\n", "phones.txt: line 1 is no symbol and number"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, ctm: bytes, ark: bytes | None, table: str, message: str) -> None:
    paths = {name: tmp_path / name for name in ("words.ctm", "phones.ark", "phones.txt")}
    paths["words.ctm"].write_bytes(ctm)
    given = {"words_ctm": str(paths["words.ctm"])}
    if ark is not None:
        paths["phones.ark"].write_bytes(ark)
        paths["phones.txt"].write_text(table, "utf-8")
        given |= {"phones_ark": str(paths["phones.ark"]), "phone_table": str(paths["phones.txt"])}
    with pytest.raises(InputError, match=message):
        KaldiArkAligner(KaldiArkAlignerConfig(**given)).align([REQUEST])


def test_kaldi_io_leaves_the_environment_alone() -> None:
    assert "kaldi-trunk" not in os.environ.get("KALDI_ROOT", "")
    assert "featbin" not in os.environ["PATH"]
