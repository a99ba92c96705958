from test_finalise_rows import ALONE, ENGINES, PACK, PAIR, finalise

from bystander.schemas.identity import make_id
from bystander.schemas.tpi import CHECKED, VOICED
from bystander.tasks.stages.build_hard_negatives import name_hard_negative
from bystander.tasks.stages.finalise_rows import finalise_rows
from bystander.tasks.stages.restore_rows import (
    PUBLISHED_TEXTS,
    Origin,
    find_origin,
    replace_columns,
    restore_checked,
    restore_voiced,
)

ORIGINS = {"row-1": Origin("row-1", 3, 7), "neg-1": Origin("row-1", 3, 7)}


def test_a_row_is_found_by_its_query_and_draw():
    pair = make_id("row", "query-x", 5)
    assert find_origin(pair, "query-x", 2, 4, 26) == Origin(pair, 5, 4)
    assert find_origin(name_hard_negative(pair), "query-x", 1, 4, 26) == Origin(pair, 5, 4)
    assert find_origin(pair, "query-x", 2, 4, 5) is None
    assert find_origin(pair, "query-x", 1, 4, 26) is None
    assert find_origin(pair, "query-y", 2, 4, 26) is None


def test_rows_that_are_published_again_are_the_same():
    published = finalise(PAIR, ALONE, twins={"neg-1": "row-1"})
    checked = restore_checked(published, ORIGINS)
    assert checked.schema == CHECKED
    assert finalise_rows(checked, "train", 7, ENGINES, PACK, {"neg-1": "row-1"}).equals(published)


def test_the_tracks_and_the_origin_are_there_again():
    checked = restore_checked(finalise(PAIR, ALONE, twins={"neg-1": "row-1"}), ORIGINS)
    pair, alone = checked.to_pylist()
    assert [(row["draw"], row["query_line"], row["twin_id"]) for row in (pair, alone)] == [
        (3, 7, None),
        (3, 7, "row-1"),
    ]
    assert [track["speaker"] for track in pair["tracks"]] == ["primary", "third_party"]
    assert pair["tracks"][1]["recognised"] == PAIR["tracks"][1]["recognised"]
    assert pair["tracks"][0]["audio"] is None
    assert [track["text"] for track in alone["tracks"]] == ["x x"]


def test_texts_alone_make_voiced_rows():
    published = finalise(PAIR, ALONE, twins={"neg-1": "row-1"})
    voiced = restore_voiced(published.select(PUBLISHED_TEXTS), ORIGINS)
    assert voiced.schema == VOICED
    assert voiced["twin_id"].to_pylist() == [None, "row-1"]
    assert voiced["reply"].to_pylist() == published["reply"].to_pylist()


def test_columns_are_replaced_in_their_type():
    rows = restore_voiced(finalise(PAIR, twins={}).select(PUBLISHED_TEXTS), ORIGINS)
    other = replace_columns(rows, {"label": ["act"], "kind": [None]})
    assert other.schema == rows.schema
    assert (other["label"].to_pylist(), other["kind"].to_pylist()) == (["act"], [None])
