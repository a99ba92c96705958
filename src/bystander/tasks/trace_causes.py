"""Why rows that two builds have in common differ: which stage's settings changed, going by the builds' manifests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bystander.schemas.build_differences import PROVENANCE, Cause
from bystander.schemas.description_changes import ABSENT, Change, list_changes
from bystander.storage.build_manifest import ManifestBase
from bystander.tasks.row_ways import CUT, PLAN_SILENCES, SELECT, SPLIT, Way

_Root = tuple[int, tuple[Change, ...]]
"""Place of a step in its way (`_INPUT` for what comes before it), and what of it changed; nothing: unexplained."""
_INPUT = -1
_ONE_OF_MANY = ("build_seed", "engines", "prompts", "classes", "pack", "taxonomy", "exclusions")
"""Fields that several stages share: that one changed is said of the first stage that it changed for."""
_SHOWN = 3


class StageChanges:
    """What decides the results of each stage, and differs between the manifests of two builds."""

    def __init__(self, before: ManifestBase, after: ManifestBase) -> None:
        self.before = before
        self.after = after
        self._known: dict[str, tuple[Change, ...]] = {}

    @property
    def manifests(self) -> tuple[ManifestBase, ManifestBase]:
        """Those of the two builds."""
        return self.before, self.after

    @property
    def are_known(self) -> bool:
        """Whether both manifests have fingerprints."""
        return bool(self.before.fingerprints) and bool(self.after.fingerprints)

    def of(self, step: str) -> tuple[Change, ...]:
        """Return what changed of a stage or step.

        The digest of the whole pack is left out: it ends up in a column, and decides nothing else.
        """
        if step not in self._known:
            self._known[step] = self._name_pack(change for change in self._compare(step) if change.field != "pack")
        return self._known[step]

    def _name_pack(self, changes: Iterable[Change]) -> tuple[Change, ...]:
        """Return changes with those of texts and classes as one, where it is another pack altogether."""
        listed = tuple(changes)
        renamed = list_changes(*({"pack.name": _find_pack_name(manifest)} for manifest in self.manifests))
        others = tuple(change for change in listed if change.field.partition(".")[0] not in ("prompts", "classes"))
        return (*others, *renamed) if len(others) < len(listed) and renamed else listed

    def _compare(self, step: str) -> tuple[Change, ...]:
        if step in (SELECT, SPLIT, CUT, PLAN_SILENCES):
            return list_changes(_describe_step(step, self.before), _describe_step(step, self.after))
        old, new = self.before.fingerprints.get(step), self.after.fingerprints.get(step)
        if old is None or new is None:
            there = [ABSENT if one is None else step for one in (old, new)]
            return () if old is new else (Change("stage", *there),)
        return list_changes(old, new)


def _find_pack_name(manifest: ManifestBase) -> str | None:
    """Return the name of the pack, or of the prompts of a SID build."""
    section = getattr(manifest, "pack", None) or getattr(manifest, "prompts", None)
    return getattr(section, "name", None)


def _describe_step(step: str, manifest: ManifestBase) -> dict[str, Any]:
    """Return what decides a step that is no stage, from what its build's manifest has of it."""
    stages = manifest.config.get("stages")
    params = stages.get(CUT) if isinstance(stages, dict) else None
    match step:
        case "cut_turns":
            return {"params": params}
        case "plan_silences":
            return {"build_seed": manifest.seed}
        case "split":
            parts = getattr(manifest, "parts_of", None)
            asked = {"shares": parts.shares, "seed": parts.seed} if parts is not None else {}
            return {"kind": getattr(manifest, "kind", ""), **asked}
    return {}


class CauseTracer:
    """Traces columns that differ back to the stages that made them differ; each combination of columns once."""

    def __init__(self, changes: StageChanges) -> None:
        self._changes = changes
        self._known: dict[tuple[str, frozenset[str]], tuple[Cause, ...]] = {}

    def trace(self, way: Way, columns: frozenset[str]) -> tuple[Cause, ...]:
        """Return why a row differs in these columns, in the order of the stages; nothing if it is provenance alone.

        A column differs because its stage changed, or because a column that the stage uses may differ for such a
        reason. Columns that are published are seen to differ or not; of others it is taken that they do wherever
        their stage changed, or something that it uses.
        """
        key = (way.name, columns)
        if key not in self._known:
            self._known[key] = tuple(self._explain(way, columns))
        return self._known[key]

    def _explain(self, way: Way, columns: frozenset[str]) -> Iterable[Cause]:
        content = {way.sources.get(name, name) for name in columns - PROVENANCE}
        if not content:
            return []
        if not self._changes.are_known:
            return [self._name_stage(way, content)]
        roots = self._find_roots(way, content)
        return [self._describe(way, *root) for root in _say_once(roots)]

    def _find_roots(self, way: Way, content: set[str]) -> list[_Root]:
        reasons: dict[str, dict[int, tuple[Change, ...]]] = {
            name: {_INPUT: ()} for name in way.inputs if name in content
        }
        last = {name: place for place, step in enumerate(way.steps) for name in step.writes}
        found: dict[int, tuple[Change, ...]] = {}
        for place, step in enumerate(way.steps):
            roots = {p: changes for name in step.uses for p, changes in reasons.get(name, {}).items()}
            if own := self._changes.of(step.name):
                roots[place] = own
            for name in step.writes:
                differs = name in content and last[name] == place
                if differs:
                    reasons[name] = roots or {place: ()}
                    found |= reasons[name]
                elif roots and name not in way.visible[place]:
                    reasons[name] = roots
                else:
                    reasons.pop(name, None)
        # What only the first stage looks at changes nothing after it.
        return sorted(found.items()) or [(_INPUT if content & way.inputs else len(way.steps) - 1, ())]

    def _describe(self, way: Way, place: int, changes: tuple[Change, ...]) -> Cause:
        if place == _INPUT:
            return Cause("input", "input", "", "the same request or recording stands otherwise in the input")
        step = way.steps[place].name
        if step == SELECT:
            return Cause("twin", SELECT, "twin_id", "the other row of the same transcript is in only one of the builds")
        if changes:
            return Cause(
                "setting", step, ", ".join(change.field for change in changes), describe_changes(step, changes)
            )
        return Cause("unexplained", step, "", self._describe_nothing(way, place))

    def _describe_nothing(self, way: Way, place: int) -> str:
        after = self._changes.after
        roles = dict.fromkeys(role for step in _list_suspects(way, place) for role in step.roles)
        engines = {
            f"{after.engines[role].name} {after.engines[role].model}".strip() for role in roles if role in after.engines
        }
        why = f"; an engine is not deterministic ({', '.join(sorted(engines))})" if engines else ""
        versions = list_version_changes(self._changes.before, after)
        others = f"; versions differ: {', '.join(c.sentence for c in versions[:_SHOWN])}" if versions else ""
        name = way.steps[place].name
        return f"{name}: unexplained: equal inputs and settings gave another result{why}{others}"

    def _name_stage(self, way: Way, content: set[str]) -> Cause:
        for step in way.steps:
            if step.writes & content:
                break
        lacking = [m.build for m in self._changes.manifests if not m.fingerprints]
        which = " and ".join(dict.fromkeys(lacking))
        return Cause(
            "no_fingerprints",
            step.name,
            "",
            f"{step.name}: what of it changed cannot be known, since the manifest of {which} has no fingerprints",
        )


def describe_changes(step: str, changes: Iterable[Change]) -> str:
    """Say what changed of a step, the first few fields of it."""
    said = [change.sentence for change in changes]
    more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return f"{step}: {'; '.join(said[:_SHOWN])}{more}"


def list_version_changes(before: ManifestBase, after: ManifestBase) -> list[Change]:
    """Return the versions of this package and others that differ."""
    return [
        *list_changes({"bystander": before.code_version}, {"bystander": after.code_version}),
        *list_changes(before.packages, after.packages),
    ]


def _list_suspects(way: Way, place: int) -> list[Any]:
    """Return a step, and those before it whose results it uses and nobody can see."""
    suspects, wanted = [way.steps[place]], set(way.steps[place].uses)
    for earlier in range(place - 1, -1, -1):
        step = way.steps[earlier]
        if (step.writes - way.visible[earlier]) & wanted:
            suspects.append(step)
            wanted |= step.uses
    return suspects


def _say_once(roots: Iterable[_Root]) -> list[_Root]:
    """Return the roots without changes of shared fields that an earlier one has named."""
    named: set[Change] = set()
    said: list[_Root] = []
    for place, changes in roots:
        left = tuple(change for change in changes if change not in named)
        named.update(change for change in changes if change.field.partition(".")[0] in _ONE_OF_MANY)
        if left or not changes:
            said.append((place, left))
    return said
