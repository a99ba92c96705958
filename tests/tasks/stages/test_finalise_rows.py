import json
from types import SimpleNamespace

import pyarrow as pa
import pytest

from bystander.schemas.errors import StageContractError
from bystander.schemas.tpi import CHECKED, FINAL
from bystander.tasks.stages.finalise_rows import finalise_rows


def make_track(speaker, recognised, wer, attempts):
    return {
        "speaker": speaker, "voice": "v", "text": "t", "audio": b"flac", "sampling_rate": 24000, "duration_s": 1.0,
        "level_dbfs": -20.0, "recognised": recognised, "wer_raw": wer + 0.5, "wer": wer, "attempts": attempts,
        "recognition_temperature": wer / 2, "tts_seed": 1,
    }  # fmt: skip


def make_row(row_id, tracks, **fields):
    defaults = {pa.string(): "x", pa.int32(): 1, pa.int64(): 2, pa.float64(): 0.25}
    row = {field.name: defaults.get(field.type) for field in CHECKED}
    row |= {
        "id": row_id,
        "tracks": tracks,
        "n_speakers": len(tracks),
        "twin_id": None,
        "label": "ignorable",
        "kind": "k",
    }
    row |= {"audio": {"bytes": b"mix", "path": f"{row_id}.flac"}, "segments": []}
    return row | fields


PAIR = make_row("row-1", [make_track("primary", "stop it", 0.0, 1), make_track("third_party", "do not", 0.1, 3)])
ALONE = make_row(
    "neg-1",
    [make_track("primary", "stop it do not", 0.2, 2)],
    twin_id="row-1",
    third_party_voice=None,
    offset_asked_s=None,
)
OTHER = make_row("row-2", [make_track("primary", "a", 0.0, 1), make_track("third_party", "b", 0.0, 1)])
ENGINES = {"writer": {"name": "w"}, "judge": {"name": "é"}}
PACK = SimpleNamespace(name="polite", digest="d" * 64)


def finalise(*rows, twins):
    return finalise_rows(pa.Table.from_pylist(list(rows), CHECKED), "train", 7, ENGINES, PACK, twins)


def test_tracks_labels_and_twins():
    table = finalise(PAIR, ALONE, OTHER, twins={"neg-1": "row-1"})
    assert table.schema == FINAL
    pair, alone, other = table.to_pylist()
    assert (pair["primary_recognised"], pair["third_party_recognised"]) == ("stop it", "do not")
    assert (pair["primary_wer_raw"], pair["primary_wer"], pair["third_party_wer"]) == (0.5, 0.0, 0.1)
    assert (pair["primary_attempts"], pair["third_party_attempts"]) == (1, 3)
    assert [pair[f"{who}_recognition_temperature"] for who in ("primary", "third_party")] == [0.0, 0.05]
    assert (alone["primary_recognition_temperature"], alone["third_party_recognition_temperature"]) == (0.1, None)
    assert (pair["label"], pair["kind"], pair["twin_id"]) == ("ignorable", "k", "neg-1")
    assert (alone["label"], alone["kind"], alone["twin_id"]) == ("hard_negative", None, "row-1")
    assert alone["primary_recognised"] == "stop it do not"
    assert [alone[f"third_party_{name}"] for name in ("recognised", "wer_raw", "wer", "attempts", "voice")] == [
        None
    ] * 5
    assert other["twin_id"] is None
    assert other["primary_recognised"] == "a"
    assert {row["split"] for row in (pair, alone, other)} == {"train"}
    assert pair["seed"] == 7
    assert json.loads(pair["engines"]) == ENGINES
    assert pair["audio"] == {"bytes": b"mix", "path": "row-1.flac"}


def test_a_part_of_the_build_gives_the_same_rows():
    twins = {"neg-1": "row-1"}
    whole = finalise(PAIR, ALONE, OTHER, twins=twins)
    rows = pa.Table.from_pylist([PAIR, ALONE, OTHER], CHECKED)
    parts = [finalise_rows(rows.slice(i, 1), "train", 7, ENGINES, PACK, twins) for i in range(3)]
    assert pa.concat_tables(parts).to_pylist() == whole.to_pylist()
    assert len(finalise_rows(rows.slice(0, 0), "train", 7, ENGINES, PACK, twins)) == 0


def test_broken_rows_are_refused():
    with pytest.raises(StageContractError, match="neg-1 has no two-speaker twin"):
        finalise(ALONE, twins={})
    with pytest.raises(StageContractError, match="row row-1 has 2 tracks"):
        finalise(PAIR | {"n_speakers": 1}, twins={"row-1": "row-0"})
    with pytest.raises(StageContractError, match="reads"):
        finalise_rows(pa.table({"id": ["x"]}), "train", 7, ENGINES, PACK, {})


def test_a_hard_negative_whose_pair_is_not_published_has_no_twin():
    rows = pa.Table.from_pylist([ALONE, OTHER], CHECKED)
    final = finalise_rows(rows, "janus_test", 7, ENGINES, PACK, {}, frozenset({"neg-1"})).to_pylist()
    assert [row["twin_id"] for row in final] == [None, None]
    assert final[0]["label"] == "hard_negative"
