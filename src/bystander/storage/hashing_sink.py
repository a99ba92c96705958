"""A file that is written and digested in one go."""

from __future__ import annotations

import hashlib
import io
from typing import IO, Any


class HashingSink(io.RawIOBase):
    """Passes bytes on and digests them."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self._hash = hashlib.sha256()
        self._count = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        view = memoryview(data)
        self._sink.write(view)
        self._hash.update(view)
        self._count += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._count

    def digest(self) -> str:
        return self._hash.hexdigest()
