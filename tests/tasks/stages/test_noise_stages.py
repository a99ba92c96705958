"""Silence and noise: planned from recordings, folders and generators, and rendered."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.errors import ConfigError, StageContractError
from bystander.schemas.sid import NOISE_CLIP, NOISE_PLAN, TURNS_FOUND
from bystander.schemas.sid_config import NoiseSource
from bystander.schemas.sid_params import MakeNoiseClips
from bystander.tasks.audio.channels import encode_channels
from bystander.tasks.audio.coding import decode_audio, encode_flac, quantise
from bystander.tasks.audio.levels import measure_peak, measure_rms_dbfs
from bystander.tasks.stages.make_noise_clips import STAGE
from bystander.tasks.stages.plan_noise import list_noise_files, plan_noise, read_noise_plan
from bystander.tasks.stages.plan_silence import Silence, cut_silences, list_silences, plan_silences
from scripted_engines import make_context
from tpi_rows import make_rows

SHORT = MakeNoiseClips(silence_s=2.0)
NO_FILES = NoiseSource()


def stretch(recording, channel, start_s, length_s, licence="CC0"):
    return Silence(recording, licence, False, channel, start_s, start_s + length_s)


def render(table, seed=1, **params):
    return STAGE(table, make_context(MakeNoiseClips(**params), seed))


# ---- silence ------------------------------------------------------------------------------------------------


def test_a_clip_keeps_to_one_channel_of_one_recording_while_it_can():
    silences = [stretch("a", c, 10 * k, 1.5) for c in (0, 1) for k in range(4)] + [stretch("b", 0, 0, 1.2)]
    plans = plan_silences(silences, 10, SHORT, 1)
    places = [{(piece.recording_id, piece.channel) for piece in plan.pieces} for plan in plans]
    # Of a channel's 6 s two clips are made; the rests of both channels and the other recording's make the rest.
    assert [len(place) for place in places[:4]] == [1, 1, 1, 1]
    assert all(len(place) > 1 for place in places[4:])
    assert len(plan_silences(silences, 3, SHORT, 1)) == 3
    assert plan_silences(silences, 3, SHORT, 1) == plans[:3]


def test_recordings_take_turns():
    silences = [stretch(recording, 0, 0, 30) for recording in "abcd"]
    plans = plan_silences(silences, 6, SHORT, 1)
    counts = Counter(plan.pieces[0].recording_id for plan in plans)
    assert sorted(counts.values()) == [1, 1, 2, 2]
    assert len({plan.id for plan in plans}) == 6


LENGTHS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 1), st.floats(0.1, 9)), min_size=0, max_size=25, unique=True
)


@given(lengths=LENGTHS, count=st.integers(0, 12), seed=st.integers(0, 99), shuffled=st.randoms())
def test_no_stretch_is_used_twice_and_every_clip_is_full(lengths, count, seed, shuffled):
    silences = [stretch(name, channel, 20.0 * at, length) for at, (name, channel, length) in enumerate(lengths)]
    plans = plan_silences(silences, count, SHORT, seed)
    assert len(plans) <= count
    used = [piece for plan in plans for piece in plan.pieces]
    for plan in plans:
        total = sum(piece.length_s for piece in plan.pieces) - SHORT.crossfade_s * (len(plan.pieces) - 1)
        assert total >= SHORT.silence_s
        assert all(piece.length_s >= 2 * SHORT.crossfade_s - 1e-9 for piece in plan.pieces)
    for at, one in enumerate(used):
        home = [s for s in silences if s.recording_id == one.recording_id and s.channel == one.channel]
        assert any(s.start_s <= one.start_s and one.end_s <= s.end_s for s in home)
        for other in used[at + 1 :]:
            if (one.recording_id, one.channel) == (other.recording_id, other.channel):
                assert one.end_s <= other.start_s + 1e-9 or other.end_s <= one.start_s + 1e-9
    shuffled.shuffle(silences)
    assert plan_silences(silences, count, SHORT, seed) == plans


def test_leaves_little_behind():
    silences = [stretch(name, 0, 10.0 * k, 1.0) for name in "abc" for k in range(5)]
    # 15 pieces of 1 s, less the fades: clips of 2 s take three pieces, of which a rest of 0.95 s goes on.
    assert len(plan_silences(silences, 99, SHORT, 1)) >= 6


def make_recordings(rate=8000):
    rows = []
    for name in "ab":
        values = quantise(0.002 * np.random.default_rng(ord(name)).standard_normal((6 * rate, 2)).astype(np.float32))
        spans = [{"channel": k % 2, "start_s": 0.5 + 1.1 * k, "end_s": 1.5 + 1.1 * k} for k in range(4)]
        rows.append(
            {
                "recording_id": name,
                "licence": "CC0" if name == "a" else None,
                "audio": {"bytes": encode_channels(values, rate), "path": f"{name}.flac"},
                "silences": spans,
            }
        )
    return make_rows(TURNS_FOUND, rows), values


def test_silence_is_cut_joined_and_rendered_to_the_length_asked_for():
    table, _ = make_recordings()
    plans = plan_silences(list_silences(table), 4, MakeNoiseClips(silence_s=1.5), 1)
    planned = cut_silences(plans, (table.slice(k, 1) for k in range(2)))
    assert planned.schema == NOISE_PLAN
    assert planned["id"].to_pylist() == [plan.id for plan in plans]
    licences = dict(zip(planned["source"].to_pylist(), planned["licence"].to_pylist(), strict=True))
    assert licences["a"] == "CC0"
    assert licences["b"] is None
    output = render(planned, silence_s=1.5)
    assert output.kept.schema == NOISE_CLIP
    assert len(output.kept) == len(plans) >= 4
    for row in output.kept.to_pylist():
        samples, rate = decode_audio(row["audio"]["bytes"])
        assert (rate, len(samples), row["duration_s"]) == (16000, 24000, 1.5)
        assert row["category"] == "silence"
        assert measure_rms_dbfs(samples) == pytest.approx(-54, abs=1.5)


def test_pieces_are_the_recordings_own_samples():
    table, values = make_recordings()
    (plan,) = plan_silences([stretch("b", 1, 2.0, 1.0)], 1, MakeNoiseClips(silence_s=0.9), 1)
    (row,) = cut_silences([plan], [table]).to_pylist()
    samples, _ = decode_audio(row["pieces"][0]["bytes"])
    assert np.array_equal(quantise(samples), values[16000 : 16000 + len(samples), 1])
    assert len(samples) == round(0.91 * 8000)


def test_a_missing_recording_is_said():
    with pytest.raises(StageContractError, match="1 recordings are missing, such as z"):
        cut_silences(plan_silences([stretch("z", 0, 0, 9)], 1, SHORT, 1), [make_recordings()[0]])


# ---- noise --------------------------------------------------------------------------------------------------


def write(path, seconds=1.0, level=0.05, rate=8000):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, level * np.random.default_rng(len(path.name)).standard_normal(round(seconds * rate)), rate)


def make_esc(root):
    kinds = ["rain", "dog", "laughing", "rain", "clock_tick"]
    for at, _ in enumerate(kinds):
        write(root / f"audio/1-{at}.wav")
    (root / "meta").mkdir()
    lines = ["filename,fold,target,category,esc10,src_file,take"]
    lines += [f"1-{at}.wav,1,0,{kind},False,1,A" for at, kind in enumerate(kinds)]
    (root / "meta/esc50.csv").write_text("\n".join(lines))
    return root


def test_reads_the_layout_of_esc_50(tmp_path):
    files = list_noise_files(str(make_esc(tmp_path / "ESC-50")), frozenset({"laughing"}))
    assert [(file.name, file.category) for file in files] == [
        ("ESC-50/audio/1-0.wav", "rain"),
        ("ESC-50/audio/1-1.wav", "dog"),
        ("ESC-50/audio/1-3.wav", "rain"),
        ("ESC-50/audio/1-4.wav", "clock_tick"),
    ]


def test_reads_the_layout_of_musan_and_any_other(tmp_path):
    for name in ("noise/free-sound/n1.wav", "noise/sound-bible/n2.wav", "speech/librivox/s.wav", "music/fma/m.wav"):
        write(tmp_path / "musan" / name)
    files = list_noise_files(str(tmp_path / "musan"))
    assert [(f.name, f.category) for f in files] == [
        ("musan/noise/free-sound/n1.wav", "free-sound"),
        ("musan/noise/sound-bible/n2.wav", "sound-bible"),
    ]
    write(tmp_path / "mine/street/a.flac")
    write(tmp_path / "mine/b.wav")
    assert [file.category for file in list_noise_files(str(tmp_path / "mine"))] == ["mine", "street"]


def test_names_what_is_wrong_with_a_folder(tmp_path):
    with pytest.raises(ConfigError, match=r"noise\.folders: .*none is not a folder"):
        plan_noise(1, NoiseSource(folders=(str(tmp_path / "none"),)), 1)
    root = make_esc(tmp_path / "ESC-50")
    with pytest.raises(ConfigError, match="skip_categories"):
        list_noise_files(str(root), frozenset({"rain", "dog", "laughing", "clock_tick"}))
    (root / "audio/1-3.wav").unlink()
    with pytest.raises(ConfigError, match=r"esc50\.csv, line 5: there is no audio/1-3\.wav"):
        list_noise_files(str(root))
    (root / "meta/esc50.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match="no columns filename and category"):
        list_noise_files(str(root))
    (root / "meta/esc50.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read as CSV"):
        list_noise_files(str(root))
    with pytest.raises(ConfigError, match=r"noise\.generators: no generator thunder; there are rain, keyboard, fan"):
        plan_noise(1, NoiseSource(generators=("thunder",)), 1)


def test_files_come_first_spread_over_folders_and_categories(tmp_path):
    for kind in ("street", "kitchen"):
        for at in range(6):
            write(tmp_path / f"mine/{kind}/{at}.wav")
    esc = make_esc(tmp_path / "ESC-50")
    source = NoiseSource(folders=(str(tmp_path / "mine"), str(esc)), licence="CC-BY-4.0")
    plan = plan_noise(30, source, 1)
    assert len({item.id for item in plan}) == 30
    files = [item.file for item in plan[:16]]
    assert None not in files
    assert {file.category for file in files[:6]} == {"street", "kitchen", "rain", "dog", "clock_tick"}
    assert {item.licence for item in plan[:16]} == {"CC-BY-4.0"}
    assert Counter(item.source for item in plan[16:]) == {
        "generated/rain": 5,
        "generated/keyboard": 5,
        "generated/fan": 4,
    }
    assert plan_noise(7, source, 1) == plan[:7]
    assert plan_noise(30, source, 2) != plan
    taken = {item.id for item in plan[:20]}
    assert plan_noise(10, source, 1, taken) == plan[20:]
    assert len(plan_noise(30, source.model_copy(update={"generators": ()}), 1)) == 16


def test_files_of_one_name_in_two_folders_are_two_and_one_file_is_one(tmp_path):
    write(tmp_path / "one/noise/a.wav", 1.0)
    write(tmp_path / "two/noise/a.wav", 1.2)
    write(tmp_path / "three/noise/a.wav", 1.0)
    folders = tuple(str(tmp_path / name / "noise") for name in ("one", "two", "three"))
    plan = plan_noise(9, NoiseSource(folders=folders, generators=()), 1)
    assert [item.file.path.parts[-3] for item in plan] == ["one", "two"]


def test_noise_is_rendered_from_files_and_generators(tmp_path):
    write(tmp_path / "mine/a.wav", 1.5)
    plan = plan_noise(7, NoiseSource(folders=(str(tmp_path / "mine"),)), 1)
    table = read_noise_plan(plan)
    assert table.schema == NOISE_PLAN
    kept = render(table, generated_s=(1.0, 2.0)).kept.to_pylist()
    assert [row["id"] for row in kept] == [item.id for item in plan]
    for row in kept:
        samples, rate = decode_audio(row["audio"]["bytes"])
        assert rate == row["sampling_rate"] == 16000
        assert row["duration_s"] == len(samples) / rate
        assert measure_peak(samples) < 1
        assert row["audio"]["path"] == f"{row['id']}.flac"
        if row["source"] == "mine/a.wav":
            assert row["duration_s"] == 1.5
            assert measure_rms_dbfs(samples) == pytest.approx(-26, abs=1)
        else:
            assert 1 <= row["duration_s"] <= 2
            assert -50 < measure_rms_dbfs(samples) < -24.9
    alone = [row for item in plan for row in render(read_noise_plan([item]), generated_s=(1.0, 2.0)).kept.to_pylist()]
    assert alone == kept
    assert render(table, seed=2, generated_s=(1.0, 2.0)).kept["duration_s"].to_pylist()[1:] != [
        row["duration_s"] for row in kept[1:]
    ]


def test_lengths_and_levels_of_generated_noise_spread_over_their_ranges():
    rows = render(
        read_noise_plan(plan_noise(60, NoiseSource(generators=("fan",)), 1)), generated_s=(0.2, 0.4), sampling_rate=8000
    ).kept.to_pylist()
    levels = np.array([measure_rms_dbfs(decode_audio(row["audio"]["bytes"])[0]) for row in rows])
    lengths = np.array([row["duration_s"] for row in rows])
    assert (levels.min(), levels.max()) == (pytest.approx(-45, abs=2), pytest.approx(-25, abs=2))
    assert (lengths.min(), lengths.max()) == (pytest.approx(0.2, abs=0.02), pytest.approx(0.4, abs=0.02))


def plan_row(data, category="noise", source="x.wav"):
    pieces = [] if data is None else [{"bytes": data, "path": "x.wav"}]
    return make_rows(NOISE_PLAN, [{"id": "n", "category": category, "source": source, "pieces": pieces, "draw": 0}])


def test_long_files_are_cut_and_faded():
    data = encode_flac(np.full(8 * 16000, 0.25, np.float32), 16000)
    (row,) = render(plan_row(data), max_file_s=2.0).kept.to_pylist()
    samples, _ = decode_audio(row["audio"]["bytes"])
    assert len(samples) == 32000
    assert samples[0] == 0
    assert samples[16000] == 0.25


@settings(max_examples=10)
@given(level=st.floats(0.9, 1.0), rate=st.sampled_from([8000, 44100]))
def test_resampling_does_not_clip(level, rate):
    square = level * np.sign(np.sin(2 * np.pi * 441 * np.arange(rate) / rate + 0.1))
    (row,) = render(plan_row(encode_flac(square.astype(np.float32), rate))).kept.to_pylist()
    assert measure_peak(decode_audio(row["audio"]["bytes"])[0]) < 0.9999


@pytest.mark.parametrize(
    ("data", "category", "source", "reason"),
    [
        (b"RIFF", "noise", "x.wav", "unreadable_noise"),
        (encode_flac(np.zeros(8000, np.float32), 8000), "noise", "x.wav", "digital_silence"),
        (encode_flac(np.ones(800, np.float32), 8000), "noise", "x.wav", "too_short"),
        (encode_flac(np.ones(8000, np.float32), 8000), "silence", "rec", "too_short"),
        (None, "noise", "generated/thunder", "unknown_generator"),
        (None, "noise", "fan", "unknown_generator"),
    ],
)
def test_refuses_what_makes_no_clip(data, category, source, reason):
    (row,) = render(plan_row(data, category, source)).rejected.to_pylist()
    assert row["reject_reason"] == reason
    assert reason in STAGE.reasons


def test_settings_that_cannot_be_met_are_refused():
    for params in ({"crossfade_s": 0.6}, {"generated_s": (3.0, 1.0)}, {"generated_dbfs": (-20.0, -40.0)}):
        with pytest.raises(ValueError, match=next(iter(params)) if "crossfade_s" not in params else "min_piece_s"):
            MakeNoiseClips(**params)
    assert len(render(make_rows(NOISE_PLAN, [])).kept) == 0
