"""What models/catalog.toml may say, checked when it is read."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from app.errors import ModelError

Kind = Literal["llm", "asr", "tts", "turn", "vad", "embedding"]

CATALOGUE_FILE = Path(__file__).resolve().parents[2] / "models" / "catalog.toml"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileSpec(_Record):
    """One file of a model, as it must lie on disk."""

    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class WheelSource(_Record):
    """Files inside wheels of the package index; the members of a file are joined in order."""

    type: Literal["wheel"]
    packages: tuple[str, ...] = Field(min_length=1)
    """Exact requirements, "name==version"."""
    download_bytes: int = Field(gt=0)
    """Size of all wheels together, for the progress bar and the disk check."""
    files: dict[str, tuple[str, ...]]

    def __str__(self) -> str:
        return " + ".join(self.packages)


class HubSource(_Record):
    """Files of a Hugging Face repository; maps our file name to the path in it."""

    type: Literal["huggingface"]
    repo: str
    revision: str
    files: dict[str, str]

    def __str__(self) -> str:
        return f"Hugging Face {self.repo}"


class LocalSource(_Record):
    """A folder on this machine that holds the files under their own names."""

    type: Literal["local"]
    folder: Path

    def __str__(self) -> str:
        return str(self.folder)


class PackageSource(_Record):
    """A folder inside an installed Python package; nothing is fetched."""

    type: Literal["package"]
    package: str
    folder: str

    def __str__(self) -> str:
        return f"installed package {self.package}"


Source = Annotated[WheelSource | HubSource | LocalSource | PackageSource, Field(discriminator="type")]


class Entry(_Record):
    """One model of the catalogue."""

    name: str
    kind: Kind
    summary: str
    licence: str
    homepage: str = ""
    languages: tuple[str, ...]
    default: bool = False
    convert: Literal["none", "gguf"] = "none"
    files: dict[str, FileSpec] = Field(min_length=1)
    sources: tuple[Source, ...] = Field(min_length=1)

    @property
    def bytes(self) -> int:
        """Size of the files as fetched, without a converted copy."""
        return sum(spec.bytes for spec in self.files.values())

    @property
    def package(self) -> PackageSource | None:
        """The installed package that holds the model, if it is not one to fetch."""
        return next((source for source in self.sources if isinstance(source, PackageSource)), None)

    @model_validator(mode="after")
    def _consistent(self) -> Entry:
        for file in self.files:
            path = PurePosixPath(file)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"file {file!r} would leave the model's folder")
        for source in self.sources:
            if isinstance(source, WheelSource | HubSource) and set(source.files) != set(self.files):
                raise ValueError(f"source {source} must give exactly the files {sorted(self.files)}")
        return self


class Catalogue(_Record):
    """All models by name."""

    models: dict[str, Entry]

    @classmethod
    def load(cls, path: Path = CATALOGUE_FILE) -> Catalogue:
        """Read a catalogue; raises ModelError that names the file and what is wrong in it."""
        try:
            tree = tomllib.loads(path.read_text("utf-8"))
            for name, entry in tree.get("models", {}).items():
                entry.setdefault("name", name)
            return cls.model_validate(tree)
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise ModelError(f"Cannot read the model catalogue {path}: {error}") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ModelError(f"Model catalogue {path}: {where}: {first['msg']}") from error

    def __contains__(self, name: object) -> bool:
        return name in self.models

    def get(self, name: str) -> Entry:
        """The entry called ``name``; raises ModelError with the nearest names."""
        if name in self.models:
            return self.models[name]
        raise ModelError(f"No model is called {name!r} in the catalogue.{self.suggestion(name)}")

    def suggestion(self, name: str) -> str:
        """ " Did you mean ...?" or a pointer to the list, to close an error message with."""
        near = difflib.get_close_matches(name, self.models, n=1, cutoff=0.5)
        if near:
            return f" Did you mean {near[0]!r}?"
        return " `python -m app models list` shows the known names."
