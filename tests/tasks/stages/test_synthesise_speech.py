"""The acceptance loop: every check, its reason, and the next attempt."""

import numpy as np
import pytest

from bystander.schemas.engines import RecognitionReply, RowFault
from bystander.schemas.identity import derive_seed
from bystander.schemas.tpi import SYNTHESISED, VOICED
from bystander.schemas.tpi_params import SynthesiseSpeech
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.audio.levels import measure_rms_dbfs
from bystander.tasks.stages import synthesise_speech
from bystander.tasks.stages.synthesise_speech import STAGE
from scripted_engines import PitchReader, TonesInOrder, make_context
from tpi_rows import make_rows

PRIMARY, THIRD = "turn on the kitchen...", "no wait please"
PAUSE = np.zeros(60000, np.float32)


def run(flaws=None, answers=None, rows=({},), seed=1, **params):
    speech = TonesInOrder(flaws)
    recogniser = PitchReader(speech, answers)
    table = make_rows(VOICED, rows)
    output = STAGE(table, make_context(SynthesiseSpeech(**params), seed, speech=speech, recogniser=recogniser))
    return output, speech, recogniser


def add_noise_spike(samples):
    spoiled = samples.copy()
    spoiled[3000] = np.nan
    return spoiled


def cut_in(samples):
    middle = len(samples) // 2
    return np.concatenate([samples[:middle], PAUSE, samples[middle:]])


FLAWS = {
    "not_finite": add_noise_spike,
    "silent": np.zeros_like,
    "too_quiet": lambda samples: samples * 0.005,
    "clipped": lambda samples: np.clip(samples * 10, -1, 1),
    "too_fast": lambda samples: samples[:5000],
    "too_slow": lambda samples: np.tile(samples, 6),
    "inner_silence": cut_in,
    "empty_text": RowFault("empty_text", "nothing to say"),
    "text_too_long_to_speak": RowFault("text_too_long_to_speak"),
    "unsupported_language": RowFault("unsupported_language"),
    "speech_engine_fault": RowFault("out_of_breath", "coughed"),
}
ANSWERS = {
    "misrecognised": "no wait cheese",
    "nothing_recognised": " ...",
    "recogniser_fault": RowFault("empty_audio", "no samples"),
}


def test_speaks_both_tracks_of_a_pair():
    output, speech, _ = run()
    assert output.kept.schema == SYNTHESISED
    primary, third_party = output.kept["tracks"][0].as_py()
    assert (primary["speaker"], primary["voice"], primary["text"]) == ("primary", "ann", PRIMARY)
    assert (third_party["speaker"], third_party["voice"], third_party["text"]) == ("third_party", "bob", THIRD)
    assert (primary["recognised"], primary["wer"], primary["wer_raw"], primary["attempts"]) == (PRIMARY, 0, 0, 1)
    for track in (primary, third_party):
        samples, rate = decode_audio(track["audio"])
        assert (rate, track["sampling_rate"]) == (24000, 24000)
        assert track["duration_s"] == len(samples) / rate
        assert track["duration_s"] == pytest.approx(0.06 * len(track["text"]) + 0.04, abs=0.03)
        assert track["level_dbfs"] == pytest.approx(measure_rms_dbfs(samples), abs=1e-6)
    assert [request.text for request in speech.requests] == [PRIMARY, THIRD]


def test_speaks_the_whole_transcript_of_a_hard_negative_in_one_voice():
    output, speech, _ = run(rows=[{"n_speakers": 1, "third_party_voice": None}])
    (track,) = output.kept["tracks"][0].as_py()
    assert (track["speaker"], track["voice"]) == ("primary", "ann")
    assert track["text"] == f"{PRIMARY} {THIRD}"
    assert [request.text for request in speech.requests] == ["turn on the kitchen, no wait please"]
    assert track["wer"] == 0


def test_keeps_a_complete_primary_as_it_stands_in_a_hard_negative():
    row = {"n_speakers": 1, "third_party_voice": None, "primary_text": "turn it on.", "third_party_text": "Wait..."}
    _, speech, _ = run(rows=[row])
    assert [request.text for request in speech.requests] == ["turn it on. Wait..."]


@pytest.mark.parametrize("reason", FLAWS)
def test_rejects_a_row_whose_track_never_passes(reason):
    output, speech, _ = run({THIRD: [FLAWS[reason]] * 3}, max_attempts=3)
    assert len(output.kept) == 0
    (row,) = output.rejected.to_pylist()
    assert (row["reject_stage"], row["reject_reason"]) == ("synthesise_speech", reason)
    assert row["reject_detail"].startswith(f"third_party, attempt 3 of 3, {THIRD!r}: ")
    assert len(speech.requests) == 4


@pytest.mark.parametrize("reason", ANSWERS)
def test_rejects_a_row_whose_track_is_never_understood(reason):
    output, _, _ = run(answers={THIRD: [ANSWERS[reason]] * 2}, max_attempts=2)
    (row,) = output.rejected.to_pylist()
    assert row["reject_reason"] == reason
    assert "third_party, attempt 2 of 2" in row["reject_detail"]
    if reason == "misrecognised":
        assert row["raw_output"] == "no wait cheese"
        assert "'no wait cheese', word error rate 0.33" in row["reject_detail"]


def test_declares_every_reason_that_is_tested():
    assert set(FLAWS) | set(ANSWERS) == STAGE.reasons


@pytest.mark.parametrize("reason", FLAWS)
def test_accepts_the_next_attempt(reason):
    output, speech, _ = run({PRIMARY: [FLAWS[reason], FLAWS["silent"]]}, max_attempts=3)
    primary, third_party = output.kept["tracks"][0].as_py()
    assert (primary["attempts"], third_party["attempts"]) == (3, 1)
    assert speech.batches == [2, 1, 1]
    seeds = [request.seed for request in speech.requests if request.text == PRIMARY]
    assert seeds == [derive_seed(1, "row-0000", "synthesise_speech", "primary", k) for k in range(3)]
    assert primary["tts_seed"] == seeds[2]


def test_gives_the_reason_of_the_last_attempt():
    output, _, _ = run({PRIMARY: [FLAWS["clipped"], FLAWS["too_fast"]]}, max_attempts=2)
    assert output.rejected["reject_reason"].to_pylist() == ["too_fast"]


def test_never_lets_quiet_audio_be_recognised():
    _, _, recogniser = run({PRIMARY: [FLAWS["too_quiet"]] * 2}, max_attempts=2)
    assert len(recogniser.requests) == 1  # the third party's


def test_accepts_a_word_error_rate_up_to_the_threshold_and_stores_both():
    output, _, _ = run(answers={THIRD: ["No wait cheese"]}, max_wer=0.34)
    track = output.kept["tracks"][0].as_py()[1]
    assert track["recognised"] == "No wait cheese"
    assert track["wer"] == pytest.approx(1 / 3)
    assert track["wer_raw"] == pytest.approx(2 / 3)


def test_keeps_the_temperature_at_which_it_was_heard():
    output, _, _ = run(answers={THIRD: [RecognitionReply(THIRD, -1.2, 0.1, temperature=0.4)]})
    assert [t["recognition_temperature"] for t in output.kept["tracks"][0].as_py()] == [None, 0.4]


def test_says_which_words_the_recogniser_took_for_made_up():
    made_up = RecognitionReply("", -1.5, 0.9, 0.0, withheld="Thank you for watching.", withheld_as="phantom_phrase")
    output, _, _ = run(answers={THIRD: [made_up]}, max_attempts=1)
    (rejected,) = output.rejected.to_pylist()
    assert (rejected["reject_reason"], rejected["raw_output"]) == ("nothing_recognised", "Thank you for watching.")
    assert rejected["reject_detail"].endswith(
        "the recogniser found no words; it took 'Thank you for watching.' for made up (phantom_phrase)"
    )


def test_takes_a_number_in_digits_for_its_words():
    rows = [{"third_party_text": "make it fifty"}]
    output, _, _ = run(answers={"make it fifty": ["Make it 50."]}, rows=rows)
    track = output.kept["tracks"][0].as_py()[1]
    assert (track["wer"], track["wer_raw"]) == (0, pytest.approx(2 / 3))


def test_accepts_one_short_word():
    output, _, _ = run({"OK.": [lambda samples: np.tile(samples[2400:-2400], 3)]}, rows=[{"third_party_text": "OK."}])
    assert output.kept["tracks"][0].as_py()[1]["attempts"] == 1


@pytest.mark.parametrize("encoding", ["flac", "wav"])
def test_stores_what_was_recognised_to_the_bit(encoding):
    output, _, recogniser = run(track_encoding=encoding)
    for track, heard in zip(output.kept["tracks"][0].as_py(), recogniser.requests, strict=True):
        assert np.array_equal(decode_audio(track["audio"])[0], heard.samples)
    start = b"fLaC" if encoding == "flac" else b"RIFF"
    assert output.kept["tracks"][0].as_py()[0]["audio"].startswith(start)


def test_works_in_batches_over_all_tracks(monkeypatch):
    monkeypatch.setattr(synthesise_speech, "_BATCH_TRACKS", 3)
    rows = [{"third_party_text": f"no wait number {word}"} for word in ("alpha", "bravo", "delta", "gamma")]
    flaws = {row["third_party_text"]: [FLAWS["silent"]] for row in rows}
    output, speech, _ = run(flaws, rows=rows)
    assert len(output.kept) == 4
    assert speech.batches == [3, 3, 2, 3, 1]


def test_keeps_good_rows_beside_bad_ones():
    rows = [{"third_party_text": "no stop there"}, {}, {"third_party_text": "please do wait"}]
    output, _, _ = run({THIRD: [FLAWS["silent"]] * 4}, rows=rows)
    assert output.kept["id"].to_pylist() == ["row-0000", "row-0002"]
    assert output.rejected["id"].to_pylist() == ["row-0001"]


def test_takes_an_empty_table():
    output, _, _ = run(rows=[])
    assert len(output.kept) == len(output.rejected) == 0
