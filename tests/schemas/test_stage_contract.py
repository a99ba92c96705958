"""What a stage must be handed, and what it must give back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from bystander.schemas.engines import RowFault
from bystander.schemas.errors import StageContractError
from bystander.schemas.stages import Stage, StageContext, StageOutput, reject_schema, split_rows

READS = pa.schema([("id", pa.string()), ("audio", pa.binary()), ("n", pa.int64())])
WRITES = pa.schema([*READS, pa.field("half", pa.int64())])
ROWS = pa.table({"id": ["a", "b", "c"], "audio": [b"1", b"2", b"3"], "n": pa.array([1, 2, 4])}, schema=READS)
CONTEXT: Any = SimpleNamespace()


def halve(rows: pa.Table, context: StageContext) -> StageOutput:
    outcomes = [RowFault("odd") if n % 2 else {"half": n // 2} for n in rows["n"].to_pylist()]
    return split_rows("halve", rows, outcomes, WRITES)


def make_stage(run: Any = halve, uses: tuple[str, ...] = ("n",)) -> Stage:
    return Stage("halve", 1, READS, WRITES, frozenset({"odd"}), run, uses=uses)


def test_all_columns_are_carried_over() -> None:
    output = make_stage()(ROWS, CONTEXT)
    assert output.kept.to_pylist() == [
        {"id": "b", "audio": b"2", "n": 2, "half": 1},
        {"id": "c", "audio": b"3", "n": 4, "half": 2},
    ]
    assert output.rejected.schema == reject_schema(READS)


def test_columns_that_it_does_not_use_may_be_left_out() -> None:
    output = make_stage()(ROWS.select(["n"]), CONTEXT)
    assert output.kept.to_pylist() == [{"n": 2, "half": 1}, {"n": 4, "half": 2}]
    assert [row["reject_reason"] for row in output.rejected.to_pylist()] == ["odd"]
    assert output.rejected.column_names[:2] == ["n", "reject_stage"]


def test_no_row_kept_of_fewer_columns() -> None:
    output = make_stage()(ROWS.select(["n"]).slice(0, 1), CONTEXT)
    assert (len(output.kept), len(output.rejected)) == (0, 1)


@pytest.mark.parametrize("names", [["id", "audio"], ["n", "id"], []])
def test_columns_that_it_uses_must_be_there_in_order(names: list[str]) -> None:
    with pytest.raises(StageContractError, match="was given"):
        make_stage()(ROWS.select(names), CONTEXT)


def test_without_uses_all_columns_are_needed() -> None:
    assert make_stage(uses=()).needed == ("id", "audio", "n")
    assert make_stage(uses=("n", "id")).needed == ("id", "n")
    with pytest.raises(StageContractError, match="was given"):
        make_stage(uses=())(ROWS.select(["n"]), CONTEXT)


def test_column_that_nobody_gives_is_a_fault() -> None:
    def forget(rows: pa.Table, context: StageContext) -> StageOutput:
        return split_rows("halve", rows, [{}] * len(rows), WRITES)

    with pytest.raises(StageContractError, match="another schema"):
        make_stage(forget)(ROWS, CONTEXT)


def test_column_that_was_handed_must_come_back() -> None:
    def drop(rows: pa.Table, context: StageContext) -> StageOutput:
        output = halve(rows, context)
        kept = output.kept.drop_columns(["audio"])
        return StageOutput(kept, output.rejected, output.kept_at, output.rejected_at)

    with pytest.raises(StageContractError, match="another schema"):
        make_stage(drop)(ROWS, CONTEXT)
