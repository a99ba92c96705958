"""What every deployment is told: where its store is, and what is laid over the profile. The form in Prefect's UI.

Prefect keeps the parameters of a deployment as JSON beside the JSON schema of these models, shows that schema as a
form, and refuses values that do not fit it before a run is made. So bounds, choices and patterns stand in the schema,
and every field says what it is in a title and a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import Field, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema

from bystander.schemas.errors import ConfigError
from bystander.schemas.field_faults import describe_field_faults
from bystander.schemas.field_types import MAX_ROWS, MAX_SEED, PLACE
from bystander.schemas.stages import Params

_T = TypeVar("_T")

MaybeText = Annotated[str | None, Field(min_length=1)]
MaybeRows = Annotated[int | None, Field(ge=1, le=MAX_ROWS)]
MaybeSeed = Annotated[int | None, Field(ge=0, le=MAX_SEED)]


_FIRST = ("profile", "store")
_LAST = (
    "seed",
    "release",
    "publish_to",
    "public",
    "require_all",
    "allow_missing",
    "name",
    "files",
    "overrides",
    "workers",
    "retries",
    "retry_after_s",
)


class DeployedRun(Params):
    """What all deployments are told. Fields that are left empty are as the profile says."""

    store: str = Field(
        title="Store",
        description="Folder or URL of builds and caches, the same on every worker: an absolute path or a URL.",
        pattern=PLACE,
        examples=["/data/store", "s3://bucket/store"],
    )
    files: list[str] = Field(
        default_factory=list,
        title="Configuration files",
        description="YAML files laid over the profile, as absolute paths on the worker; the last one wins.",
        examples=[["/data/site.yaml"]],
    )
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        title="Single fields",
        description="Fields laid over profile and files, by their dotted names, as `--set` takes them.",
        examples=[{"stages.mix_speakers.offset_sd_s": 0.2, "workers": 8}],
    )
    workers: int | None = Field(
        None,
        ge=1,
        le=256,
        title="Workers",
        description="Partitions in work at once. Changes the speed, never a row or a score.",
    )
    retries: int = Field(
        3,
        ge=0,
        le=20,
        title="Retries",
        description="How often the run starts over by itself when an engine or a store is out of reach; it goes on "
        "from what is finished. What is wrong with the settings or the input is never retried.",
    )
    retry_after_s: int = Field(
        60, ge=0, le=86_400, title="Seconds before a retry", description="How long it waits before it starts over."
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Make a readable form: what is seldom set comes last, and a field that may be left out has its plain type.

        `null` beside it would make two fields of one in the form, and "is not valid under any of the given schemas" of
        what is wrong with a value. Prefect's server takes a null for it all the same.
        """
        schema: dict[str, Any] = handler(core_schema)
        shown = handler.resolve_ref_schema(schema)
        fields = shown["properties"]
        shown["properties"] = {name: fields[name] for name in sorted(fields, key=_rank)}
        for position, field in enumerate(shown["properties"].values()):
            field["position"] = position
            match field:
                case {"anyOf": [dict(plain), {"type": "null"}], "default": None}:
                    del field["anyOf"], field["default"]
                    field.update(plain)
        return schema

    def lay_over(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the single fields, and over them the fields of the form that were `given` a value."""
        form = {"store": self.store, "workers": self.workers, **given}
        return {**self.overrides, **{name: value for name, value in form.items() if value is not None}}


def _rank(field: str) -> tuple[int, int]:
    """Return where a field stands in the form; the others, which are a deployment's own, keep their order."""
    for rank, names in ((0, _FIRST), (2, _LAST)):
        if field in names:
            return rank, names.index(field)
    return 1, 0


_Run = TypeVar("_Run", bound=DeployedRun)


def parse_run(kind: type[_Run], given: Any) -> _Run:
    """Return the parameters of a run as the model of its deployment.

    Raises:
        ConfigError: names the fields that are wrong.
    """
    try:
        return kind.model_validate(given)
    except ValidationError as exc:
        raise ConfigError(f"parameters: {describe_field_faults(kind, exc)}") from exc


def list_or_none(values: Sequence[_T]) -> list[_T] | None:
    """Return the values, or None where there are none, so that those of the profile hold."""
    return list(values) or None
