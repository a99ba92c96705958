"""What people said in the TPI paper's own studies, to stand beside one's own figures."""

from __future__ import annotations

from dataclasses import dataclass

from bystander.schemas.study import StudyKind

SOURCE = "TPI paper, arXiv 2604.17358"


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A figure of a study with as many ratings as are said to have been collected; `where` it stands in the paper."""

    kind: StudyKind
    name: str
    value: str
    ratings: int
    where: str


PUBLISHED = (
    PublishedFigure("realism", "Scenario as text, 1 to 3", "2.87 (2.836 to 2.904)", 1000, "Table 1, appendix E"),
    PublishedFigure("naturalness", "Scenario and audio, 1 to 3", "2.63 (2.61 to 2.65)", 2000, "Table 1, appendix E"),
    PublishedFigure("reply", "RSF, Pearson's r with the judge", "0.87", 250, "Table 8, appendix E"),
    PublishedFigure("reply", "OH, Pearson's r with the judge", "0.69", 250, "Table 8, appendix E"),
    PublishedFigure(
        "preference",
        "TPI-Full against Qwen2.5-Omni-7B: for, no difference, against",
        "60.5 %, 11.5 %, 28.0 %",
        200,
        "Table 5, section 5.3.2",
    ),
    PublishedFigure(
        "satisfaction",
        "Reference replies: for, neither, against",
        "64.75 %, 5.50 %, 29.75 %",
        400,
        "Table 5, section 5.3.2",
    ),
    PublishedFigure(
        "satisfaction", "TPI-Full: for, neither, against", "66.05 %, 7.63 %, 26.32 %", 400, "Table 5, section 5.3.2"
    ),
)
"""The shares of TPI-Full fit 380 ratings (251, 29, 100), not 400."""
