"""Mixing: placement, levels, ceiling, surroundings; and rows that do not depend on their neighbours."""

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.errors import ConfigError
from bystander.schemas.tpi import MIXED, VERIFIED
from bystander.schemas.tpi_params import MixSpeakers
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.audio.levels import measure_rms_dbfs
from bystander.tasks.audio.loudness import measure_loudness
from bystander.tasks.stages.mix_speakers import STAGE
from scripted_engines import make_context
from tpi_rows import make_pair, make_rows, make_tone, make_track

RATE = 24000
LONG = {"tracks": make_pair(make_tone(2, 0.2, 300), make_tone(1.5, 0.1, 500))}


def run(rows, seed=1, **params):
    return STAGE(make_rows(VERIFIED, rows), make_context(MixSpeakers(**params), seed))


def mix(row, seed=1, **params):
    """Return the one kept row and its samples."""
    (kept,) = run([row], seed, **params).kept.to_pylist()
    return kept, decode_audio(kept["audio"]["bytes"])[0]


def test_places_the_third_party_at_the_offset_drawn():
    kept, samples = mix(LONG)
    primary, third_party = kept["segments"]
    assert (primary["speaker"], primary["start_s"], primary["end_s"]) == ("primary", 0, 2.0)
    assert third_party["speaker"] == "third_party"
    assert third_party["start_s"] - 2.0 == pytest.approx(kept["offset_asked_s"], abs=1 / RATE)
    assert third_party["end_s"] - third_party["start_s"] == pytest.approx(1.5)
    assert kept["overlap_s"] == pytest.approx(-kept["offset_asked_s"], abs=1 / RATE)
    assert kept["duration_s"] == len(samples) / RATE == pytest.approx(third_party["end_s"])
    assert kept["audio"]["path"] == "row-0000.flac"
    assert kept["sampling_rate"] == RATE
    assert kept["tracks"] == LONG["tracks"]


def test_a_hard_negative_is_its_one_track():
    row = {"n_speakers": 1, "third_party_voice": None, "tracks": [make_track(make_tone(1.5))]}
    kept, samples = mix(row)
    assert kept["segments"] == [{"speaker": "primary", "start_s": 0, "end_s": 1.5}]
    assert (kept["offset_asked_s"], kept["overlap_s"], kept["loudness_difference_db"]) == (None, None, None)
    assert kept["duration_s"] == 1.5
    assert measure_loudness(samples, RATE, "ebu_r128") == pytest.approx(-23, abs=0.05)


def test_a_positive_offset_leaves_a_pause():
    kept, samples = mix(LONG, offset_mean_s=0.5, offset_sd_s=0)
    assert kept["overlap_s"] == 0
    assert kept["segments"][1]["start_s"] == 2.5
    assert not np.any(samples[round(2.01 * RATE) : round(2.49 * RATE)])


def test_cuts_an_overlap_that_a_short_track_cannot_hold():
    row = {"tracks": make_pair(make_tone(2), make_tone(0.4, 0.3, 500))}
    kept, _ = mix(row, offset_mean_s=-1.0, offset_sd_s=0, max_overlap_share=0.5)
    assert kept["offset_asked_s"] == -1.0
    assert kept["overlap_s"] == pytest.approx(0.2)
    assert kept["segments"][1]["start_s"] == pytest.approx(1.8)


@pytest.mark.parametrize("method", ["ebu_r128", "rms"])
def test_sets_the_level_of_each_track(method):
    params = {"loudness": method, "offset_mean_s": 0.5, "offset_sd_s": 0, "target_level": -26.0}
    kept, samples = mix(LONG, **params)
    primary, third_party = (samples[round(s["start_s"] * RATE) : round(s["end_s"] * RATE)] for s in kept["segments"])
    assert measure_loudness(primary, RATE, method) == pytest.approx(-26, abs=0.05)
    assert kept["loudness_difference_db"] != 0
    expected = -26 + kept["loudness_difference_db"]
    assert measure_loudness(third_party, RATE, method) == pytest.approx(expected, abs=0.05)


def test_draws_offsets_and_levels_from_their_distributions():
    pair = make_pair(make_tone(0.7, rate=8000), make_tone(0.7, rate=8000), 8000)
    kept = run([{"id": f"r{k}", "tracks": pair} for k in range(2000)], sampling_rate=8000, loudness="rms").kept
    offsets = np.array(kept["offset_asked_s"].to_pylist())
    assert offsets.mean() == pytest.approx(-0.5, abs=0.01)  # 4.5 standard errors
    assert offsets.std() == pytest.approx(0.1, abs=0.008)
    levels = np.array(kept["loudness_difference_db"].to_pylist())
    assert levels.mean() == pytest.approx(0, abs=0.2)
    assert levels.std() == pytest.approx(1.92, abs=0.15)  # a normal clipped at 2 sd has 0.96 of its sd
    assert np.abs(levels).max() == pytest.approx(4.0)
    assert abs(np.corrcoef(offsets, levels)[0, 1]) < 0.1


TRACK_S = st.floats(0.05, 1.2)


@settings(max_examples=60, deadline=None)
@given(
    first_s=TRACK_S,
    second_s=TRACK_S,
    amplitude=st.floats(0.01, 0.99),
    mean=st.floats(-2, 0.5),
    rate=st.sampled_from([8000, 16000, 24000]),
    ceiling=st.floats(-20, 0),
    target=st.floats(-40, 0),
    seed=st.integers(0, 10**6),
)
def test_holds_its_invariants(first_s, second_s, amplitude, mean, rate, ceiling, target, seed):
    row = {"tracks": make_pair(make_tone(first_s, amplitude, 300), make_tone(second_s, 0.5, 700))}
    params = {"offset_mean_s": mean, "sampling_rate": rate, "peak_ceiling_dbfs": ceiling, "target_level": target}
    kept, samples = mix(row, seed, **params)
    primary, third_party = kept["segments"]
    measured = max(0.0, min(primary["end_s"], third_party["end_s"]) - third_party["start_s"])
    assert kept["overlap_s"] == pytest.approx(measured, abs=1e-9)
    shorter = min(primary["end_s"] - primary["start_s"], third_party["end_s"] - third_party["start_s"])
    assert kept["overlap_s"] <= 0.8 * shorter + 1e-9
    assert kept["overlap_s"] == pytest.approx(max(0, min(-kept["offset_asked_s"], 0.8 * shorter)), abs=2 / rate)
    assert third_party["start_s"] >= 0
    assert third_party["end_s"] == pytest.approx(kept["duration_s"]) == len(samples) / rate
    assert np.abs(samples).max() <= 10 ** (ceiling / 20) + 1e-7


def test_turns_down_the_whole_mixture_at_the_ceiling():
    kept, samples = mix(LONG, target_level=0.0, peak_ceiling_dbfs=-6.0, offset_mean_s=0.2, offset_sd_s=0)
    assert np.abs(samples).max() == pytest.approx(10 ** (-6 / 20), abs=1e-4)
    primary, third_party = (
        measure_rms_dbfs(samples[round(s["start_s"] * RATE) : round(s["end_s"] * RATE)]) for s in kept["segments"]
    )
    # 300 and 500 Hz weigh nearly the same, so the difference survives.
    assert third_party - primary == pytest.approx(kept["loudness_difference_db"], abs=0.2)


def test_resamples_tracks_to_the_rate_asked_for():
    pair = make_pair(make_tone(2, 0.2, 300, 22050), make_tone(1.5, 0.1, 500, 22050), 22050)
    kept, samples = mix({"tracks": pair}, sampling_rate=16000, offset_sd_s=0)
    assert kept["sampling_rate"] == 16000
    assert kept["overlap_s"] == pytest.approx(0.5, abs=1e-4)
    assert len(samples) == pytest.approx(3.0 * 16000, abs=2)
    spectrum = np.abs(np.fft.rfft(samples[: 16000 // 2], 16000))
    assert np.argmax(spectrum) == pytest.approx(300, abs=1)


def test_rejects_a_track_that_is_too_quiet_to_measure():
    output = run([{"tracks": make_pair(make_tone(1), make_tone(1) * 1e-4)}, LONG])
    assert len(output.kept) == 1
    assert output.rejected["reject_reason"].to_pylist() == ["unmeasurable_loudness"] == list(STAGE.reasons)
    assert "third_party" in output.rejected["reject_detail"][0].as_py()


def write_clip(path, samples, rate=RATE):
    path.parent.mkdir(exist_ok=True)
    soundfile.write(path, samples, rate)


def test_a_room_adds_its_tail_and_leaves_the_segments(tmp_path):
    response = np.zeros(2400)
    response[[10, 2399]] = 0.5, 0.2
    write_clip(tmp_path / "rooms/a.wav", response)
    dry, _ = mix(LONG)
    wet, samples = mix(LONG, room_responses=str(tmp_path / "rooms"))
    assert wet["segments"] == dry["segments"]
    assert (wet["offset_asked_s"], wet["overlap_s"]) == (dry["offset_asked_s"], dry["overlap_s"])
    assert wet["duration_s"] == pytest.approx(dry["duration_s"] + 2389 / RATE)
    echo = samples[round(wet["segments"][1]["end_s"] * RATE) + 100 :]
    assert np.abs(echo).max() > 0.001


def test_noise_lies_below_the_speech_as_asked(tmp_path):
    write_clip(tmp_path / "noises/n.wav", 0.01 * np.random.default_rng(0).standard_normal(7000))
    _, clean = mix(LONG)
    _, noisy = mix(LONG, noises=str(tmp_path / "noises"), noise_snr_db=(12.0, 12.0))
    snr_db = 10 * np.log10(np.sum(clean**2) / np.sum((noisy - clean) ** 2))
    assert snr_db == pytest.approx(12, abs=0.1)


def test_draws_rooms_and_noises_by_row(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(6):
        write_clip(tmp_path / f"rooms/{k}.wav", np.r_[1, np.zeros(100 * k), 0.1])
        write_clip(tmp_path / f"noises/{k}.flac", 0.1 * rng.standard_normal(1000))
    params = {"room_responses": str(tmp_path / "rooms"), "noises": str(tmp_path / "noises")}
    rows = [{"id": f"r{k}", **LONG} for k in range(12)]
    whole = run(rows, **params).kept
    assert len(set(whole["duration_s"].to_pylist())) > 6
    single = [run([row], **params).kept["audio"][0].as_py() for row in rows]
    assert whole["audio"].to_pylist() == single


@pytest.mark.parametrize("setting", ["room_responses", "noises"])
def test_names_a_folder_or_file_that_is_wrong(tmp_path, setting):
    with pytest.raises(ConfigError, match=rf"mix_speakers\.{setting}: .*none is not a folder"):
        run([LONG], **{setting: str(tmp_path / "none")})
    with pytest.raises(ConfigError, match=rf"mix_speakers\.{setting}: .* holds no audio file"):
        run([LONG], **{setting: str(tmp_path)})
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    with pytest.raises(ConfigError, match=rf"mix_speakers\.{setting}: .*broken\.wav cannot be read"):
        run([LONG], **{setting: str(tmp_path)})


def test_a_row_does_not_depend_on_its_neighbours():
    rows = [
        {"id": f"r{k}", "tracks": make_pair(make_tone(1 + k / 10, 0.2), make_tone(1.5 - k / 10, 0.1, 500))}
        for k in range(6)
    ]
    rows.insert(2, {"id": "quiet", "tracks": make_pair(make_tone(1) * 1e-5, make_tone(1))})
    whole = run(rows).kept
    singles = [row for one in rows for row in run([one]).kept.to_pylist()]
    assert whole.schema == MIXED
    assert whole.to_pylist() == singles
    assert run(rows[::-1]).kept.to_pylist() == singles[::-1]
    assert run(rows, seed=2).kept["offset_asked_s"].to_pylist() != whole["offset_asked_s"].to_pylist()


def test_takes_an_empty_table():
    assert len(run([]).kept) == 0
