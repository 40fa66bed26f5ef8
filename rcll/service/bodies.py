"""What clients send and get; unknown fields are ignored, as in Hindsight."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from rcll.stages.recall import ARCHIVE_LAYER, ORDINARY_LAYER, Filters
from rcll.stages.retain import Wanted

MAX_ITEMS = 500
MAX_LIMIT = 200
_NAME_CHARS, _QUERY_CHARS, _CONTENT_CHARS = 512, 10_000, 1_000_000


def _storable(text: str) -> str:
    """Refuse what PostgreSQL cannot hold; the text itself is not quoted."""
    if "\x00" in text:
        raise ValueError("holds a NUL character, which cannot be stored")
    if re.search(r"[\ud800-\udfff]", text):
        raise ValueError("holds half of a surrogate pair, which is no character")
    return text


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank; expected a text")
    return text


def _layer_number(value: Any) -> Any:
    """'L2' and '2', as RCLL's clients say it; true is no layer."""
    if isinstance(value, bool):
        raise ValueError("is a truth value; expected a layer from 0 to 3")  # noqa: TRY004 - pydantic reports it
    found = re.fullmatch(r"\s*[lL]?([0-9])\s*", value) if isinstance(value, str) else None
    return int(found[1]) if found else value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, AfterValidator(_storable)]
Name = Annotated[Text, StringConstraints(min_length=1, max_length=_NAME_CHARS)]
Label = Annotated[Text, StringConstraints(min_length=1, max_length=64), AfterValidator(_filled)]
Labels = Annotated[list[Label], BeforeValidator(_listed), Field(max_length=64)]
Layer = Annotated[int, BeforeValidator(_layer_number), Field(ge=0, le=ARCHIVE_LAYER)]
Query = Annotated[Text, StringConstraints(min_length=1, max_length=_QUERY_CHARS), AfterValidator(_filled)]
Content = Annotated[Text, StringConstraints(min_length=1, max_length=_CONTENT_CHARS), AfterValidator(_filled)]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
PageLimit = Annotated[int, Field(ge=1, le=1000)]
PageOffset = Annotated[int, Field(ge=0, le=1_000_000_000)]


class Labelling(BaseModel):
    """Room, hall and layer as a client sets them."""

    room: Label | None = Field(default=None, description="Topic; any text of up to 64 characters.")
    hall: Label | None = Field(default=None, description="Kind of knowledge; any text of up to 64 characters.")
    layer: Layer | None = Field(default=None, description="0 critical, 1 important, 2 normal, 3 archive; 'L2' too.")

    @property
    def wanted(self) -> Wanted:
        """What is asked for."""
        return Wanted(self.room, self.hall, self.layer)


def _plain(metadata: dict[str, Any]) -> dict[str, Any]:
    _check_strings(metadata)
    return metadata


def _check_strings(value: Any) -> None:
    if isinstance(value, str):
        _storable(value)
    elif isinstance(value, dict):
        for pair in value.items():
            _check_strings(list(pair))
    elif isinstance(value, list):
        for each in value:
            _check_strings(each)


class RetainItem(Labelling):
    """One memory, as Hindsight's retain takes it, with an optional label; what is not given the rules decide."""

    model_config = ConfigDict(
        extra="allow",  # what else Hindsight's retain takes is Hindsight's to check
        json_schema_extra={"examples": [{"content": "Never deploy on Friday.", "room": "deployment", "layer": 0}]},
    )

    content: Content
    context: Text | None = None
    timestamp: AwareDatetime | datetime | Literal["unset"] | None = Field(default=None, description="When it happened.")
    document_id: Name | None = None
    metadata: Annotated[dict[str, Any], AfterValidator(_plain)] | None = None
    tags: list[Name] | None = Field(default=None, max_length=100)

    @property
    def happened_at(self) -> datetime | None:
        """The timestamp; without a zone it is UTC."""
        if not isinstance(self.timestamp, datetime):
            return None
        return self.timestamp if self.timestamp.tzinfo else self.timestamp.replace(tzinfo=UTC)


class RetainBatch(BaseModel):
    """Memories, as Hindsight's retain takes them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"items": [{"content": "OAuth2 tokens expire after 15 minutes.", "room": "auth", "layer": 1}]}]
        }
    )

    items: list[RetainItem] = Field(min_length=1, max_length=MAX_ITEMS)


class RecallRequest(BaseModel):
    """What to recall; rooms and halls are filters after the search, and never starve the answer."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "how do tokens expire", "room": ["auth"]}]})

    query: Query = Field(description="What to look for.")
    room: Labels | None = Field(default=None, description="Only these rooms; repeat it for several.")
    hall: Labels | None = Field(default=None, description="Only these halls; repeat it for several.")
    rooms: Labels | None = Field(default=None, description="The same as room.")
    halls: Labels | None = Field(default=None, description="The same as hall.")
    max_layer: Layer | None = Field(default=None, description="Layers up to this one; the archive, 3, on request only.")
    limit: Limit = Field(default=20, description="Results at most.")
    l0_limit: Annotated[int, Field(ge=0, le=MAX_LIMIT)] = Field(default=50, description="Critical units at most.")
    tunnels: bool = Field(default=True, description="Follow tunnels, one hop.")

    @property
    def filters(self) -> Filters:
        """What the results are filtered by."""
        rooms = (*(self.room or ()), *(self.rooms or ()))
        halls = (*(self.hall or ()), *(self.halls or ()))
        layer = ORDINARY_LAYER if self.max_layer is None else self.max_layer
        return Filters(rooms=rooms or None, halls=halls or None, max_layer=layer)


class UnitLabel(Labelling):
    """A new explicit label, or ``clear`` to hand the unit back to the rules."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"room": "auth", "layer": 0}, {"clear": True}]})

    clear: bool = False

    @model_validator(mode="after")
    def _one_of_both(self) -> "UnitLabel":
        if self.clear == self.wanted.is_set:
            raise ValueError("found no label to set, or one beside clear; expected room, hall, layer or clear")
        return self


class Result(BaseModel):
    """A unit, or a closet with its sources and the found units folded under it; further columns as the table has."""

    model_config = ConfigDict(extra="allow")

    kind: Literal["unit", "closet"]
    id: str
    bank_id: str
    text: str
    room: str | None
    hall: str | None
    score: float | None = Field(description="Cosine similarity to the query; null where there is no vector.")


class HopResult(BaseModel):
    """A unit in another bank and the way there: near unit, tunnel, far unit."""

    path: list[str]
    tunnel: dict[str, Any]
    unit: Result


class RecallAnswer(BaseModel):
    """What was recalled."""

    results: list[Result] = Field(description="Nearest first, at most limit.")
    critical: list[Result] = Field(description="Units of layer 0, nearest first, whatever room and hall are asked for.")
    critical_total: int
    tunnels: list[HopResult]


class LabelledUnit(BaseModel):
    """A unit's label, and who decided each field."""

    id: str
    room: str | None
    hall: str | None
    layer: Annotated[int | None, BeforeValidator(_layer_number)]
    room_source: str | None
    hall_source: str | None
    layer_source: str | None
    room_rule: str | None = None
    hall_rule: str | None = None
    layer_rule: str | None = None


class RetainAnswer(BaseModel):
    """What was retained; ``warnings`` name labels that no rule knows."""

    success: bool = True
    bank_id: str
    items_count: int
    units: list[LabelledUnit]
    warnings: list[str] = []


class Page(BaseModel):
    """A part of a list."""

    items: list[dict[str, Any]]
    total: int
    limit: int
    offset: int


class Problem(BaseModel):
    """What is wrong, what was expected, and what to do."""

    detail: Any
