"""The one place that imports Kaldi's wheels."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from bystander.schemas.errors import EngineSetupError

KALDI_LOCK = threading.RLock()
"""Held around calls of Kaldi's objects: OpenFst's registries and the C random generator are shared by the process."""


@cache
def load_kaldi() -> tuple[Any, Any]:
    """Return the modules `kaldi_hmm_gmm` and `kaldifst`.

    Raises:
        EngineSetupError: one of them is missing.
    """
    try:
        # In this order: the first registers the types of the second.
        import kaldi_hmm_gmm
        import kaldifst
    except ImportError as exc:
        raise EngineSetupError(
            "kaldi_gmm: its packages are missing; run: pip install kaldi_hmm_gmm==1.1.4 kaldifst==1.7.17"
            f" kaldi_native_fbank kaldilm ({exc})"
        ) from exc
    return kaldi_hmm_gmm, kaldifst
