"""Published figures of interruption detection, for showing them beside one's own.

How the figures of the SID paper fit together, which the tests of this module hold:

- The averages of FIR and APT in Table II are the groups' figures weighted by cases (EN 1600, ZH 1600, noise and silence
  500; Moshi without ZH: 1600 and 500), to the last digit that rounding leaves open, for all five systems.
- FIR is false interruptions by all cases, as formula 1 has it, and stops before a break count. The authors' README
  divides by the clips without a break instead: then the average of FSMN-VAD would weight 500, 500, 500 and be 0.738,
  not 0.840. Of 1600 English clips its 0.906 is 1450, three times the clips without a break. The output that the
  authors' notebook shows for the ZH file (0.1375, 0.3384, 0.6562) is SID-model's row there, by all cases too.
- Averages of IRL lie nearer the language with more true positives, as a mean pooled over true positives does. They fit
  no weighting of the two languages by cases.
- Table III's false alarms and APT on 300 silence and 200 noise clips give Table II's noise and silence columns for all
  but one: Moshi's 7.810 there is its figure for noise alone. From Table III it is 6.556, which makes its average 2.893,
  not 3.192.
- The table in the README of SID-Bench has other figures for APT on noise and silence (4.148, 1.908, 2.502, 7.810,
  0.315) beside the same averages, which they do not yield (4.148 would make FSMN-VAD's 3.540). They are not used here.
- Moshi's average FIR, the lowest of the table, is over 2100 cases, the others' over 3700.
"""

from __future__ import annotations

from importlib import resources
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from bystander.tasks.metrics.published_results import PublishedSource

_BUILTIN = "data/published_sid_results.yaml"

PublishedGroupName = Literal["en", "zh", "noise_silence", "average"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PublishedScores(_Frozen):
    """Figures of a group: mean latency in seconds, share of false interruptions, mean penalty in seconds."""

    irl: float | None = Field(None, ge=0)
    fir: float = Field(ge=0, le=1)
    apt: float = Field(ge=0)


class PublishedAlarms(_Frozen):
    """False alarms on clips without speech, and the mean penalty in seconds over all of them."""

    false_alarms: int = Field(ge=0)
    apt: float = Field(ge=0)


class PublishedSidSystem(_Frozen):
    """A row of Table II with its row of Table III. `remark` says what of it does not fit together."""

    name: str = Field(min_length=1)
    groups: dict[PublishedGroupName, PublishedScores]
    silence: PublishedAlarms
    noise: PublishedAlarms
    remark: str = ""


class PublishedSid(_Frozen):
    """Systems in the order of the source's tables, and the numbers of cases of each group."""

    source: PublishedSource
    cases: dict[Literal["en", "zh", "noise_silence", "silence", "noise"], int]
    systems: tuple[PublishedSidSystem, ...] = Field(min_length=1)


def load_published_sid() -> PublishedSid:
    """Return Tables II and III of the SID paper, which ship with the package."""
    text = resources.files("bystander.tasks.metrics").joinpath(_BUILTIN).read_text("utf-8")
    return PublishedSid.model_validate(yaml.safe_load(text))
