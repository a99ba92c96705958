"""Settings of the stages of an evaluation on SID-Bench."""

from __future__ import annotations

from bystander.schemas.stages import Params


class DetectBreaks(Params):
    """`detect_breaks`: nothing to set beyond the detector itself."""


class SidEvaluationStages(Params):
    """Settings of the stages of an evaluation on SID-Bench."""

    detect_breaks: DetectBreaks = DetectBreaks()
