"""What the user can set: RCLL_* variables over rcll.toml over the defaults."""

import os
import re
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from rcll.errors import InputError
from rcll.pauses import PauseWindow

DEFAULT_HOME = Path(".rcll")
_EXAMPLES = {
    "tunnel_pairs": '[["team-*", "team-*"]]',
    "private": '["alice"]',
    "pauses": '["22:00-06:00"]',
    "prices": '{"model": [0.15, 0.6]}',
}
DEFAULT_CONFIG = "rcll.toml"
Share = Annotated[float, Field(ge=0, le=1)]


class Settings(BaseSettings):
    """Every setting of rcll, each with its reason; ``RCLL_CONFIG`` names another file than ./rcll.toml."""

    model_config = SettingsConfigDict(env_prefix="RCLL_", extra="forbid", frozen=True)

    home: Path = DEFAULT_HOME
    """Everything that rcll keeps on this machine: embedded data, plans, Prefect's own files."""
    database_url: SecretStr | None = None
    """PostgreSQL 15+ with pgvector 0.8+; unset means the embedded server under ``home``."""
    database: str = "rcll"
    """Database on the embedded server; the demo's is rcll_demo."""
    storage: str | None = None
    """Where plans and Parquet files lie; default ``home``/storage."""
    taxonomy: str | None = None
    """A user's TOML file that extends or replaces the shipped taxonomy."""
    layers: bool = False
    """Let layer rules decide; the specification's default is layer 2 for all."""
    quality_general: Share = 0.5
    """Share of units in room general above which a run warns."""
    quality_largest_room: Share = 0.6
    """Share of units in the largest other room above which a run warns."""
    quality_changed: Share = 0.2
    """Share of known units whose room or hall changes above which a run warns."""
    quality_unsupported: Share = 0.05
    """Share of units in a language without rules above which a run warns."""
    rate: Annotated[float, Field(gt=0)] | None = None
    """Units that may be written in a second at most; unset means as fast as short transactions allow."""
    batch: Annotated[int, Field(ge=1)] = 5_000
    """Units that one transaction may write at most; the loader stays below it by itself."""
    vacuum: bool = False
    """VACUUM memory_units between ranges of pages: heap growth +7 % in place of +19 %; given up when anybody waits."""
    pauses: tuple[str, ...] = ()
    """Times of day in which nothing is written, e.g. ["22:00-06:00", "12:00-13:00 Europe/Berlin"]; a run waits."""
    max_latency: Annotated[float, Field(gt=0)] = 0.1
    """Seconds that the smallest query may take while rcll writes; above, the pauses between transactions grow."""
    max_lag: Annotated[int, Field(ge=1)] = 256
    """Megabytes of WAL that the slowest standby may be behind; above, the pauses grow as well."""
    task_runner: Literal["threads", "dask"] = "threads"
    """Where partitions are computed: in this process, or on the workers of a Dask scheduler."""
    dask_address: str | None = None
    """Scheduler of those workers, e.g. tcp://scheduler:8786; unset starts two workers on this machine."""
    excerpts: bool = True
    """Titles of closets and evidence of tunnels in Prefect's artifacts; false keeps them to numbers and names."""
    log_format: Literal["text", "json"] | None = None
    """Lines on standard error about what a run does, for people or for log collectors; unset for none."""
    plans_kept: Annotated[int, Field(ge=1)] = 50
    """Plans that stay under ``storage``; the oldest beyond go when a new one is made."""
    undo_days: Annotated[int, Field(ge=1)] = 90
    """How far back an undo reaches: rcll_changes forgets older runs, rcll_labels units that are gone for longer."""

    closet_threshold: Annotated[int, Field(ge=3)] = 200
    """Units in one bank and room above which closets are made."""
    by_hall: bool = False
    """Keep halls apart in closets; off, since one matter often has a fact, a warning and an event."""
    archive_sources: bool = False
    """Move the sources of closets, less the most central of each, to layer 3, so that recall shows the closet."""
    summary_model: str | None = None
    """Chat model that writes closets; unset means extractive summaries and no text leaves the machine."""
    summary_base_url: str | None = None
    summary_api_key: SecretStr | None = None
    max_calls: Annotated[int, Field(ge=0)] = 200
    """Model calls that one run may make at most."""
    max_tokens: Annotated[int, Field(ge=0)] = 1_000_000
    """Tokens, in and out, that one run may spend at most."""
    prices: dict[str, tuple[float, float]] = {}
    """Price of a million tokens in and out, by model, for the preview; e.g. {"some-model" = [0.15, 0.6]}."""
    embed_model: str | None = None
    """Embedder of closets and queries; unset means wordllama in own banks, centroids elsewhere."""
    embed_base_url: str | None = None
    embed_api_key: SecretStr | None = None

    tunnel_pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of bank patterns between which tunnels may be found, e.g. [["team-*", "team-*"]]."""
    private: tuple[str, ...] = ()
    """Bank patterns that never take part in automatic tunnels."""
    tunnels_per_unit: Annotated[int, Field(ge=1)] = 3

    @field_validator("database_url", "taxonomy", "storage", "dask_address", mode="before")
    @classmethod
    def _blank_is_unset(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("pauses", mode="after")
    @classmethod
    def _are_windows(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for window in value:
            PauseWindow.parse(window)
        return value

    @field_validator("home", mode="before")
    @classmethod
    def _blank_is_default(cls, value: Any) -> Any:
        return DEFAULT_HOME if value == "" else value

    @field_validator("home", mode="after")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - no .env files: secrets come by environment
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then environment, then the file."""
        toml = TomlConfigSettingsSource(settings_cls, os.environ.get("RCLL_CONFIG") or DEFAULT_CONFIG)
        return init_settings, env_settings, toml

    @property
    def storage_dir(self) -> str:
        """Folder or URL under which plans and intermediate files lie."""
        return self.storage or str(self.home / "storage")

    @property
    def snapshots(self) -> str:
        """Folder or URL under which snapshots lie unless a command names another."""
        return f"{self.storage_dir.rstrip('/')}/snapshots"


def load_settings(**overrides: Any) -> Settings:
    """Read the settings.

    Raises:
        InputError: a value cannot be used; the message names the variable and never shows a value.
    """
    _refuse_mistyped(os.environ)
    config = os.environ.get("RCLL_CONFIG")
    if config and not Path(config).is_file():
        raise InputError(f"RCLL_CONFIG names '{config}', which is no file; expected a TOML file of settings")
    try:
        return Settings(**{k: v for k, v in overrides.items() if v is not None})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = str(first["loc"][0])
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"setting '{where}' cannot be used: {first['msg']}; correct RCLL_{name.upper()} or rcll.toml"
        ) from None
    except SettingsError as error:
        found = re.search(r'field "(\w+)"', str(error))
        name = found[1] if found else "?"
        raise InputError(
            f"RCLL_{name.upper()} is no JSON; expected a value such as {_EXAMPLES.get(name, '[]')}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise InputError(f"{config or DEFAULT_CONFIG} cannot be read: {reason}; expected a TOML file") from None


def _refuse_mistyped(variables: Iterable[str]) -> None:
    """Variables of other programs may begin like ours; one that is nearly ours was meant for us."""
    ours = {*(name.upper() for name in Settings.model_fields), "CONFIG"}
    for found in sorted(name.removeprefix("RCLL_") for name in variables if name.startswith("RCLL_")):
        meant = get_close_matches(found, ours, 1, 0.8) if found not in ours else []
        if meant:
            raise InputError(f"RCLL_{found} is no setting; expected RCLL_{meant[0]}; correct or unset it")
