"""All speech stages in a row on the package's own fakes, whose audio really carries text and voice."""

import numpy as np
import pyarrow as pa
import pytest

from bystander.schemas.recogniser_configs import FakeRecogniserConfig, FakeVerifierConfig
from bystander.schemas.speech_engine_configs import FakeSpeechConfig
from bystander.schemas.tpi import CHECKED, SCORED, VOICED
from bystander.schemas.tpi_params import TpiStages
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.engines import fake_speech as fakes
from bystander.tasks.stages import get_stage
from scripted_engines import make_context
from tpi_rows import make_rows

TEXTS = [
    ("Could you set the oven to...", "Wait, it should be fifty degrees lower."),
    ("What's the weather like tomorrow?", "Tell it to check the coast too."),
    ("Book a table for two at 7.30", "No, there are three of us now!"),
    ("How do I remove a wine stain?", "I always use salt and hot water."),
    ("Play the new album by...", "Not that one again please."),
    ("Add milk to my shopping list.", "We still have two bottles of it."),
]
SPEECH_STAGES = ("choose_voices", "synthesise_speech", "verify_speakers", "mix_speakers", "verify_mixture")


def make_engines(flaw_of=None):
    return {
        "speech": fakes.FakeSpeechEngine(FakeSpeechConfig(voices=6), flaw_of),
        "recogniser": fakes.FakeRecogniser(FakeRecogniserConfig()),
        "verifier": fakes.FakeVerifier(FakeVerifierConfig()),
    }


def run_stages(rows, names=SPEECH_STAGES, flaw_of=None):
    """Return what is left after all stages, and (stage, reason) of what is not."""
    rejected = []
    for name in names:
        stage = get_stage(name)
        output = stage(rows, make_context(getattr(TpiStages(), name), 7, **make_engines(flaw_of)))
        rejected += [(name, reason) for reason in output.rejected["reject_reason"].to_pylist()]
        rows = output.kept
    return rows, rejected


def make_pairs():
    return make_rows(SCORED, [{"primary_text": one, "third_party_text": other} for one, other in TEXTS])


def make_singles():
    cells = {"n_speakers": 1, "primary_voice": "fake_02", "third_party_voice": None, "twin_id": "row"}
    return make_rows(VOICED, [{"primary_text": one, "third_party_text": other, **cells} for one, other in TEXTS])


def test_keeps_every_pair():
    kept, rejected = run_stages(make_pairs())
    assert rejected == []
    assert kept.schema == CHECKED
    for row, texts in zip(kept.to_pylist(), TEXTS, strict=True):
        assert tuple(track["text"] for track in row["tracks"]) == texts
        assert [track["wer"] for track in row["tracks"]] == [0, 0]
        assert row["track_similarity"] < 0.2
        assert row["mixture_similarity"] is None or row["mixture_similarity"] < 0.2
        assert 0.2 < row["overlap_s"] < 0.8


def test_hears_the_primary_alone_in_the_mixture_before_the_overlap():
    kept, _ = run_stages(make_pairs())
    for row in kept.to_pylist():
        samples, rate = decode_audio(row["audio"]["bytes"])
        alone = samples[: int(row["segments"][1]["start_s"] * rate)]
        heard = fakes.decode_speech(alone, rate)
        assert len(heard) > 5
        assert row["primary_text"].startswith(heard[:-1])


def test_keeps_every_hard_negative():
    kept, rejected = run_stages(make_singles(), SPEECH_STAGES[1:])
    assert rejected == []
    for row in kept.to_pylist():
        assert row["tracks"][0]["text"] == f"{row['primary_text']} {row['third_party_text']}"
        assert row["track_similarity"] > 0.95 < row["mixture_similarity"]
        assert row["overlap_s"] is None


def test_a_row_is_the_same_alone_and_in_a_table():
    for rows, names in ((make_pairs(), SPEECH_STAGES), (make_singles(), SPEECH_STAGES[1:])):
        whole, _ = run_stages(rows, names)
        alone = [run_stages(rows.slice(i, 1), names)[0] for i in range(len(rows))]
        assert pa.concat_tables(alone).to_pylist() == whole.to_pylist()
        turned, _ = run_stages(rows.take(list(range(len(rows)))[::-1]), names)
        assert turned.to_pylist() == whole.to_pylist()[::-1]


@pytest.mark.parametrize(
    ("flaw", "reason"),
    [
        ("gibberish", "misrecognised"),
        ("dropped_word", "misrecognised"),
        ("long_silence", "inner_silence"),
        ("clipped", "clipped"),
        ("silent", "silent"),
    ],
)
def test_catches_what_engines_do_wrong(flaw, reason):
    kept, rejected = run_stages(make_pairs(), flaw_of=lambda request: fakes.SpeechFlaw(flaw))
    assert len(kept) == 0
    assert rejected == [("synthesise_speech", reason)] * len(TEXTS)


def test_mends_what_goes_wrong_now_and_then():
    kept, rejected = run_stages(make_pairs(), flaw_of=fakes.flaw_by_seed(fakes.SpeechFlaw.GIBBERISH, 3))
    assert rejected == []
    attempts = [track["attempts"] for row in kept["tracks"].to_pylist() for track in row]
    assert max(attempts) > 1
    assert np.mean(attempts) < 3
