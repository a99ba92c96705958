"""64-bit digests of the values of Arrow columns, one a row, so that two tables can be compared without holding them.

Equal values have equal digests; of pairs that differ, one in 2**64 has. Numbers are digested a column at once, texts
once each; what they are nested in is digested from its parts. Floats are compared by their bits, but 0.0 and -0.0 are
one value, as NaN and NaN are. Integers of different widths are one value, an integer and a float are two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Digests = npt.NDArray[np.uint64]
"""Shape (n,), one a value."""

_NULL = np.uint64(0x9E3779B97F4A7C15)
_SALTS = {
    family: np.uint64(int(_NULL) * number % 2**64)
    for number, family in enumerate(("integer", "float", "bool", "list", "struct"), start=1)
}


def digest_values(values: pa.Array | pa.ChunkedArray) -> Digests:
    """Return the digest of each value.

    Raises:
        TypeError: the column is of a type that no build has.
    """
    if isinstance(values, pa.ChunkedArray):
        parts = [digest_values(chunk) for chunk in values.chunks]
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)
    digests = _digest_valid(values)
    if values.null_count:
        digests = np.where(np.asarray(values.is_null()), _NULL, digests)
    return digests


def digest_bytes(value: bytes | memoryview | pa.Buffer) -> np.uint64:
    """Return the digest of one text or binary value."""
    return np.uint64(int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "little"))


def _digest_valid(values: pa.Array) -> Digests:
    """Return digests that are right where a value is not null, and anything where it is."""
    kind = values.type
    if pa.types.is_null(kind):
        return np.full(len(values), _NULL)
    if pa.types.is_dictionary(kind):
        return _digest_valid(values.dictionary_decode())
    if pa.types.is_boolean(kind):
        return _salt(np.asarray(pc.fill_null(values, False)).astype(np.uint64), "bool")
    if pa.types.is_integer(kind):
        return _salt(np.asarray(pc.fill_null(values, 0)).astype(np.int64).view(np.uint64), "integer")
    if pa.types.is_floating(kind):
        numbers = np.asarray(pc.fill_null(values, 0.0)).astype(np.float64) + 0.0  # -0.0 becomes 0.0
        numbers[np.isnan(numbers)] = np.nan  # one NaN of the many
        return _salt(numbers.view(np.uint64), "float")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _digest_texts(values)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return np.array([digest_bytes(one.as_buffer() or b"") for one in values], np.uint64)
    if pa.types.is_struct(kind):
        digests = _salt(np.zeros(len(values), np.uint64), "struct")
        for field, part in zip(kind, values.flatten(), strict=True):
            digests = _mix(digests + digest_bytes(field.name.encode())) ^ digest_values(part)
        return _mix(digests)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _digest_lists(values)
    raise TypeError(f"values of type {kind} cannot be compared")


def _digest_texts(values: pa.Array) -> Digests:
    coded = values.dictionary_encode()
    known = [digest_bytes(text.as_buffer() or b"") for text in coded.dictionary]
    if not known:
        return np.full(len(values), _NULL)
    return np.array(known, np.uint64).take(np.asarray(pc.fill_null(coded.indices, 0)))


def _digest_lists(values: pa.Array) -> Digests:
    lengths = np.asarray(pc.fill_null(pc.list_value_length(values), 0)).astype(np.int64)
    ends = np.cumsum(lengths)
    items = digest_values(values.flatten())
    places = np.arange(len(items), dtype=np.int64) - np.repeat(ends - lengths, lengths)
    sums = np.zeros(len(items) + 1, np.uint64)
    np.cumsum(_mix(items + _mix(places.astype(np.uint64) + np.uint64(1))), out=sums[1:])
    return _salt(_mix(sums[ends] - sums[ends - lengths]) + lengths.astype(np.uint64), "list")


def _salt(values: Digests, family: str) -> Digests:
    """Return digests of numbers that differ from those of the same bits in another family of types."""
    return _mix(values + _SALTS[family])


def _mix(values: Digests) -> Digests:
    """Return the finaliser of SplitMix64 (Steele, Lea and Flood, 2014) of each value, a bijection."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def stack_digests(columns: Sequence[Digests]) -> npt.NDArray[np.uint64]:
    """Return columns of digests as one array of shape (rows, columns)."""
    return np.stack(columns, axis=1)
