"""Sample rows for a pack's prompts: each task's template rendered for all classes, scenarios and timings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bystander.schemas.evaluate_config import JudgeReplies
from bystander.schemas.packs import PackClass
from bystander.schemas.taxonomy import Scenario, Taxonomy, Timing
from bystander.schemas.text_tasks import LABEL_CLASS, LABEL_KIND, TextTask
from bystander.schemas.tpi_params import NormaliseQueries, WriteInterruptions

_LETTERS_A_WORD = 7
"""With the space after it; English words have five to six on average."""


@dataclass(frozen=True, slots=True)
class PromptSample:
    """Variables for one prompt of a task, and what they stand for: keys of class and scenario, None where not shown."""

    task: str
    variables: Mapping[str, Any]
    class_key: str | None = None
    scenario_key: str | None = None

    @property
    def case(self) -> str:
        """Say for which class and scenario this is; empty where the task shows none."""
        parts = [f"class {self.class_key}"] if self.class_key else []
        parts += [f"scenario {self.scenario_key}"] if self.scenario_key else []
        return ", ".join(parts)


def list_samples(
    task: TextTask, used: frozenset[str], classes: Sequence[PackClass], taxonomy: Taxonomy
) -> Iterator[PromptSample]:
    """Yield samples of a task for every class, scenario and timing that its template shows.

    The texts are an example of the scenario (or of the first one), with what is longest last: a request, remark and
    answer as long as the stages' settings let them be by default. `used` are the variables that the template declares;
    what it does not show is not varied. `label_class` is never asked of the last class, nor `label_kind` of one with
    fewer than two kinds.
    """
    shown = list(classes)
    if task is LABEL_CLASS:
        shown = shown[:-1]
    elif task is LABEL_KIND:
        shown = [item for item in shown if len(item.kinds) > 1]
    scenarios = taxonomy.scenarios if "scenario" in used else taxonomy.scenarios[:1]
    timings = list(Timing) if "timing" in used else [Timing.AFTER_COMPLETION]
    for scenario in scenarios:
        for timing in timings:
            for texts in (_pick_example(scenario), _make_longest()):
                values = {**texts, "scenario": scenario, "timing": timing.value, "kind": ""}
                given = {name: value for name, value in values.items() if name in task.variables}
                key = scenario.key if "scenario" in used else None
                if "class" not in task.variables:
                    yield PromptSample(task.name, given, None, key)
                    continue
                for item in shown:
                    kinds = [kind.key for kind in item.kinds] if "kind" in used else []
                    for kind in kinds or [""]:
                        variables = {**given, "class": item, **({"kind": kind} if "kind" in given else {})}
                        yield PromptSample(task.name, variables, item.key if "class" in used else None, key)


def _pick_example(scenario: Scenario) -> dict[str, str]:
    example = scenario.examples[0]
    request = example.request or example.primary
    answer = "Okay."
    return {"request": request, "primary": example.primary, "third_party": example.third_party, "answer": answer}


def _make_longest() -> dict[str, str]:
    queries, writing = NormaliseQueries(), WriteInterruptions()
    answer = JudgeReplies.model_fields["max_answer_characters"].default
    return {
        "request": _fill(queries.max_characters),
        "primary": _fill(writing.max_primary_words * _LETTERS_A_WORD),
        "third_party": _fill(writing.max_third_party_words * _LETTERS_A_WORD),
        "answer": _fill(answer),
    }


def _fill(characters: int) -> str:
    return ("letters " * (characters // 8 + 1))[:characters].rstrip() + "."
