"""Finished banks: reading clips, and finding what is wrong."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bystander.schemas.errors import BuildError, InputError
from bystander.schemas.voice_bank import VoiceBank
from bystander.storage.filesystem import open_store
from bystander.storage.voice_bank import open_voice_bank, stack_embeddings, verify_voice_bank
from bystander.tasks.index_voices import index_voices
from voice_corpora import make_config, write_folders

VOICES = {f"spk{i:02d}": i for i in range(1, 20)}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("made")
    write_folders(root / "corpus", VOICES, clips=1, seconds=6.6)
    index_voices(make_config(root / "corpus"), str(root / "bank"))
    return root / "bank"


@pytest.fixture
def bank(made, tmp_path):
    """A copy that a test may damage."""
    for path in made.rglob("*"):
        if path.is_file():
            target = tmp_path / "bank" / path.relative_to(made)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return tmp_path / "bank"


def test_clips_are_read_voice_by_voice(made):
    opened = open_voice_bank(str(made))
    assert isinstance(opened, VoiceBank)
    assert [voice.id for voice in opened.voices] == sorted(VOICES)
    (shard,) = opened.manifest.shards
    with pq.ParquetFile(made / shard.file) as file:
        assert file.num_row_groups == 2  # a clip is read with 15 others at most
    for row in reversed(opened.list_rows()):
        samples, rate = opened.read_reference(row["voice"])
        assert len(samples) / rate == pytest.approx(row["duration_s"])
        assert samples.dtype == np.float32
    with pytest.raises(InputError, match="has no voice 'zoe'"):
        opened.read_reference("zoe")


def test_embeddings_come_with_the_voices(made):
    opened = open_voice_bank(str(made))
    vectors = stack_embeddings(opened.list_rows())
    assert vectors.shape == (19, 32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)
    assert all(
        (np.frombuffer(voice.embedding, "<f4") == vector).all()
        for voice, vector in zip(opened.voices, vectors, strict=True)
    )


def test_hugging_face_plays_the_clips(made):
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_parquet(
        str(next((made / "data").glob("*.parquet"))), cache_dir=str(made.parent / "hf")
    )
    assert type(rows.features["audio"]).__name__ == "Audio"
    assert len(rows) == 19


def test_a_sound_bank_has_no_findings(made):
    assert verify_voice_bank(str(made)) == []


def test_damage_is_found(bank):
    (shard,) = (bank / "data").glob("*.parquet")
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 0xFF
    shard.write_bytes(bytes(data))
    problems = [finding.problem for finding in verify_voice_bank(str(bank))]
    assert any("has checksum" in problem for problem in problems)
    shard.write_bytes(bytes(data[:-10]))
    with pytest.raises(InputError, match="is not of the size that the manifest says"):
        open_voice_bank(str(bank))
    (bank / "data/more.parquet").write_bytes(b"x")
    shard.unlink()
    problems = [finding.problem for finding in verify_voice_bank(str(bank))]
    assert {"is missing", "is not in the manifest"} <= set(problems)
    assert any("says 19 voices, the shards have 0" in problem for problem in problems)


def test_a_changed_voice_is_found_though_all_checksums_are_right(bank):
    (shard,) = (bank / "data").glob("*.parquet")
    table = pq.read_table(shard)
    rows = table.to_pylist()
    rows[3]["audio"] = rows[4]["audio"]
    rows[5]["voice"] = "other"
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), shard)
    store = open_store(bank)
    manifest = json.loads((bank / "manifest.json").read_text())
    manifest["shards"][0] |= {"bytes": shard.stat().st_size, "sha256": store.sha256(f"data/{shard.name}")}
    (bank / "manifest.json").write_text(json.dumps(manifest))
    found = {(finding.row, finding.field, finding.problem) for finding in verify_voice_bank(str(bank))}
    assert ("spk04", "audio", "does not match its checksum") in found
    assert ("", "digest", "has another digest than its voices") in found


def test_counts_that_do_not_add_up_are_found(bank):
    manifest = json.loads((bank / "manifest.json").read_text())
    manifest["counts"] |= {"speakers": 25, "clip_reasons": {"noisy": 2}}
    (bank / "manifest.json").write_text(json.dumps(manifest))
    problems = [finding.problem for finding in verify_voice_bank(str(bank))]
    assert problems == [
        "of 25 speakers, 19 are voices and others not all rejected",
        "says 2 rejected as noisy, the rejects have 0",
    ]


def test_what_is_no_bank_is_said(tmp_path):
    with pytest.raises(InputError, match=r"is missing, so this is not a finished voice bank; make one with"):
        open_voice_bank(str(tmp_path))
    with pytest.raises(BuildError, match="not a finished voice bank"):
        verify_voice_bank(str(tmp_path))
