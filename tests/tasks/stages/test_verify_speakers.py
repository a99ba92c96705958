"""One voice or two: on the tracks, and on the finished mixture."""

import numpy as np
import pytest

from bystander.schemas.engines import RowFault
from bystander.schemas.tpi import CHECKED, MIXED, SYNTHESISED, VERIFIED
from bystander.schemas.tpi_params import VerifySpeakers
from bystander.tasks.audio.coding import encode_flac
from bystander.tasks.stages import speaker_verdicts, verify_mixture, verify_speakers
from scripted_engines import LoudnessVerifier, make_context
from tpi_rows import make_pair, make_rows, make_tone, make_track

LIMITS = {"max_pair_similarity": 0.75, "min_single_similarity": 0.7}


def cosine(one, other):
    return float(np.cos((one - other) * np.pi / 2))


def run(stage, schema, rows, verifier=None, **params):
    context = make_context(VerifySpeakers(**{**LIMITS, **params}), verifier=verifier or LoudnessVerifier())
    return stage.STAGE(make_rows(schema, rows), context)


def make_single(*parts):
    return {"n_speakers": 1, "third_party_voice": None, "tracks": [make_track(np.concatenate(parts))]}


def check_tracks(rows, verifier=None, **params):
    return run(verify_speakers, SYNTHESISED, rows, verifier, **params)


def test_keeps_a_pair_of_different_voices():
    output = check_tracks([{"tracks": make_pair(make_tone(1, 0.1), make_tone(1, 0.8))}])
    assert output.kept.schema == VERIFIED
    assert output.kept["track_similarity"][0].as_py() == pytest.approx(cosine(0.1, 0.8), abs=1e-3)


def test_rejects_a_pair_that_sounds_alike():
    output = check_tracks([{"tracks": make_pair(make_tone(1, 0.5), make_tone(1, 0.6))}])
    assert output.rejected["reject_reason"].to_pylist() == ["voices_too_alike"]
    assert output.rejected["reject_detail"][0].as_py() == (
        f"the two tracks: similarity {cosine(0.5, 0.6):.3f}, at most 0.75 is allowed"
    )


def test_compares_the_halves_of_a_hard_negative():
    verifier = LoudnessVerifier()
    output = check_tracks([make_single(make_tone(1, 0.5), make_tone(1, 0.6))], verifier)
    assert output.kept["track_similarity"][0].as_py() == pytest.approx(cosine(0.5, 0.6), abs=1e-3)
    assert [len(request.samples) for request in verifier.requests] == [24000, 24000]


def test_rejects_a_hard_negative_whose_voice_drifts():
    output = check_tracks([make_single(make_tone(1, 0.1), make_tone(1, 0.8))])
    assert output.rejected["reject_reason"].to_pylist() == ["voice_drifts"]
    assert "at least 0.7 is asked for" in output.rejected["reject_detail"][0].as_py()


def test_accepts_both_limits_themselves():
    assert len(check_tracks([{"tracks": make_pair(make_tone(1), make_tone(1))}], max_pair_similarity=1.0).kept) == 1
    assert len(check_tracks([make_single(make_tone(1), make_tone(1))], min_single_similarity=0.99).kept) == 1


def test_leaves_what_is_too_short_unmeasured_or_rejects_it():
    rows = [{"tracks": make_pair(make_tone(1, 0.1), make_tone(0.1, 0.8))}, make_single(make_tone(0.3))]
    assert check_tracks(rows).kept["track_similarity"].to_pylist() == [None, None]
    output = check_tracks(rows, reject_unmeasured=True)
    assert output.rejected["reject_reason"].to_pylist() == ["too_short_to_verify"] * 2
    assert output.rejected["reject_detail"].to_pylist() == ["0.10 s", "0.15 s"]


def test_rejects_a_row_on_which_the_verifier_fails():
    verifier = LoudnessVerifier(RowFault("non_finite_audio", "bad"))
    output = check_tracks([{"tracks": make_pair(make_tone(1), make_tone(1))}], verifier)
    assert output.rejected["reject_reason"].to_pylist() == ["verifier_fault"]
    assert output.rejected["reject_detail"].to_pylist() == ["non_finite_audio: bad"]


def test_works_in_batches(monkeypatch):
    monkeypatch.setattr(speaker_verdicts, "_BATCH_ROWS", 2)
    verifier = LoudnessVerifier()
    rows = [{"tracks": make_pair(make_tone(1, 0.1), make_tone(1, 0.8 + k / 10))} for k in range(3)]
    similarities = check_tracks(rows, verifier).kept["track_similarity"].to_pylist()
    assert similarities == pytest.approx([cosine(0.1, 0.8), cosine(0.1, 0.9), cosine(0.1, 1.0)], abs=1e-3)
    assert verifier.batches == [4, 2]


def make_mixture(parts, segments, **cells):
    samples = np.concatenate(parts)
    return {
        "audio": {"bytes": encode_flac(samples, 24000), "path": "x.flac"},
        "segments": [dict(zip(("speaker", "start_s", "end_s"), segment, strict=True)) for segment in segments],
        **cells,
    }


def check_mixtures(rows, verifier=None, **params):
    return run(verify_mixture, MIXED, rows, verifier, **params)


PAIR = [("primary", 0.0, 1.5), ("third_party", 1.0, 2.5)]


def test_compares_the_mixture_before_and_after_the_overlap():
    verifier = LoudnessVerifier()
    parts = (make_tone(1, 0.1), make_tone(0.5, 1.0), make_tone(1, 0.8), make_tone(0.5, 0.9))  # the last is the room's
    output = check_mixtures([make_mixture(parts, PAIR)], verifier)
    assert output.kept.schema == CHECKED
    assert output.kept["mixture_similarity"][0].as_py() == pytest.approx(cosine(0.1, 0.8), abs=1e-3)
    assert [len(request.samples) for request in verifier.requests] == [24000, 24000]


def test_leaves_the_gap_out_where_nobody_speaks():
    verifier = LoudnessVerifier()
    parts = (make_tone(1, 0.1), make_tone(0.5, 1.0), make_tone(1, 0.8))
    segments = [("primary", 0.0, 1.0), ("third_party", 1.5, 2.5)]
    output = check_mixtures([make_mixture(parts, segments)], verifier)
    assert output.kept["mixture_similarity"][0].as_py() == pytest.approx(cosine(0.1, 0.8), abs=1e-3)


def test_rejects_a_mixture_that_sounds_like_one():
    parts = (make_tone(1, 0.5), make_tone(0.5, 1.0), make_tone(1, 0.5))
    output = check_mixtures([make_mixture(parts, PAIR)])
    assert output.rejected["reject_reason"].to_pylist() == ["mixture_sounds_like_one"]


def test_splits_a_hard_negative_at_the_seam_of_its_texts():
    cells = {"n_speakers": 1, "primary_text": "abc def...", "third_party_text": "gh"}  # 6 of 8 characters
    parts = (make_tone(1.5, 0.5), make_tone(0.5, 0.6))
    verifier = LoudnessVerifier()
    output = check_mixtures([make_mixture(parts, [("primary", 0.0, 2.0)], **cells)], verifier)
    assert output.kept["mixture_similarity"][0].as_py() == pytest.approx(cosine(0.5, 0.6), abs=1e-3)
    assert [len(request.samples) for request in verifier.requests] == [36000, 12000]


def test_rejects_a_hard_negative_that_sounds_like_two():
    cells = {"n_speakers": 1, "primary_text": "abcd", "third_party_text": "efgh"}
    parts = (make_tone(1, 0.1), make_tone(1, 0.9))
    output = check_mixtures([make_mixture(parts, [("primary", 0.0, 2.0)], **cells)])
    assert output.rejected["reject_reason"].to_pylist() == ["mixture_sounds_like_two"]


def test_mixture_too_short_before_the_overlap_is_unmeasured():
    parts = (make_tone(0.1, 0.1), make_tone(1, 0.8))
    segments = [("primary", 0.0, 0.6), ("third_party", 0.1, 1.1)]
    assert check_mixtures([make_mixture(parts, segments)]).kept["mixture_similarity"].to_pylist() == [None]
    output = check_mixtures([make_mixture(parts, segments)], reject_unmeasured=True)
    assert output.rejected["reject_reason"].to_pylist() == ["too_short_to_verify"]
    output = check_mixtures([make_mixture(parts, segments)], LoudnessVerifier(RowFault("broken")))
    assert output.rejected["reject_reason"].to_pylist() == ["verifier_fault"]


def test_both_stages_take_an_empty_table():
    assert len(check_tracks([]).kept) == len(check_mixtures([]).kept) == 0


def test_declare_the_reasons_that_are_tested():
    common = {"too_short_to_verify", "verifier_fault"}
    assert verify_speakers.STAGE.reasons == common | {"voices_too_alike", "voice_drifts"}
    assert verify_mixture.STAGE.reasons == common | {"mixture_sounds_like_one", "mixture_sounds_like_two"}
