"""Hugging Face's description of an Arrow schema, for Parquet metadata and for a dataset card's YAML head."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from bystander.schemas.errors import StorageError
from bystander.schemas.tpi import AUDIO

METADATA_KEY = b"huggingface"


def attach_features(schema: pa.Schema, sampling_rate: int | None) -> pa.Schema:
    """Return the schema with the metadata that makes `datasets` and the Hub's viewer play its audio columns.

    All columns become nullable, because `datasets` ignores the description of a column that is not.
    `sampling_rate` is what players resample to, in Hz; None leaves every clip at its own rate.
    """
    features = {column.name: _describe_feature(column.type, sampling_rate) for column in schema}
    text = json.dumps({"info": {"features": features}})
    return pa.schema([column.with_nullable(True) for column in schema]).with_metadata(
        {**(schema.metadata or {}), METADATA_KEY: text.encode()}
    )


def describe_card_features(schema: pa.Schema, sampling_rate: int | None) -> list[dict[str, Any]]:
    """Return the `dataset_info.features` of a dataset card."""
    return [{"name": column.name, **_describe_card_type(column.type, sampling_rate)} for column in schema]


def _describe_feature(kind: pa.DataType, sampling_rate: int | None) -> Any:
    if kind == AUDIO:
        return {"sampling_rate": sampling_rate, "_type": "Audio"}
    if pa.types.is_list(kind):
        # A bare JSON list is read by every version of `datasets`; `List` only by 4 and later.
        return [_describe_feature(kind.value_type, sampling_rate)]
    if pa.types.is_struct(kind):
        return {field.name: _describe_feature(field.type, sampling_rate) for field in kind}
    return {"dtype": _name_dtype(kind), "_type": "Value"}


def _describe_card_type(kind: pa.DataType, sampling_rate: int | None) -> dict[str, Any]:
    if kind == AUDIO:
        return {"dtype": {"audio": {"sampling_rate": sampling_rate}} if sampling_rate else "audio"}
    if pa.types.is_list(kind):
        item = _describe_card_type(kind.value_type, sampling_rate)
        return {"list": item.get("struct", item.get("dtype", item))}
    if pa.types.is_struct(kind):
        return {"struct": describe_card_features(pa.schema(list(kind)), sampling_rate)}
    return {"dtype": _name_dtype(kind)}


_DTYPES = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "bool",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.float32(): "float32",
    pa.float64(): "float64",
}


def _name_dtype(kind: pa.DataType) -> str:
    if kind not in _DTYPES:
        raise StorageError(f"Arrow type {kind} has no Hugging Face feature here; add it to hf_features")
    return _DTYPES[kind]
