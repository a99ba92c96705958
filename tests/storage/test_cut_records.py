import pyarrow as pa

from bystander.storage.cut_records import find_cuts, remember_cuts
from bystander.storage.filesystem import open_store
from bystander.storage.part_use import BASES_FOLDER
from bystander.storage.parts import write_part_by_content


def test_cuts_are_found_until_one_of_their_parts_is_gone_or_cut_short(tmp_path):
    store = open_store(str(tmp_path))
    refs = [write_part_by_content(store, BASES_FOLDER, pa.table({"id": [name]})) for name in ("a", "b")]
    assert find_cuts(store, "key") is None
    remember_cuts(store, "key", refs)
    assert find_cuts(store, "key") == refs
    part = tmp_path / refs[1].path
    whole = part.read_bytes()
    part.write_bytes(whole[:-1])
    assert find_cuts(store, "key") is None
    part.write_bytes(whole)
    assert find_cuts(store, "key") == refs
    part.unlink()
    assert find_cuts(store, "key") is None


def test_no_turn_at_all_is_remembered_too(tmp_path):
    store = open_store(str(tmp_path))
    remember_cuts(store, "none", [])
    assert find_cuts(store, "none") == []


def test_a_damaged_record_is_no_record(tmp_path):
    store = open_store(str(tmp_path))
    remember_cuts(store, "key", [])
    (tmp_path / "cache/cuts/key.json").write_text('{"rows": 1}')
    assert find_cuts(store, "key") is None
