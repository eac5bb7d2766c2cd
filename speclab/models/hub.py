"""Questions to the Hugging Face hub: is a model there, how large is it, under which licence."""

from __future__ import annotations

import os
from dataclasses import dataclass

from speclab.core.errors import ModelUnavailable

TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel:
    """What the hub says about a repository."""

    repo: str
    revision: str
    licence: str
    weight_bytes: int


def offline() -> bool:
    """Whether the user forbade network access."""
    return os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")


def ask_hub(repo: str) -> HubModel:
    """Return revision, licence and size of a repository's weights.

    Raises:
        ModelUnavailable: if there is no such repository, it is gated, or the hub does not answer.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    if offline():
        raise ModelUnavailable(
            f"{repo} is not on this machine and HF_HUB_OFFLINE is set.",
            "Unset it to download.",
            code="hub_offline",
            values={"repo": repo},
        )
    try:
        info = HfApi().model_info(repo, files_metadata=True, timeout=TIMEOUT_S)
    except HFValidationError as error:
        raise ModelUnavailable(
            f"{repo!r} is neither a local folder nor a hub id.",
            "A hub id looks like Qwen/Qwen3-0.6B.",
            code="not_a_model",
            values={"repo": repo},
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelUnavailable(
            f"The hub has no model {repo!r} that you may read.",
            "Check the spelling; for a gated model log in with `hf auth login`.",
            code="hub_unknown",
            values={"repo": repo},
        ) from error
    except Exception as error:
        raise ModelUnavailable(
            f"The hub could not be reached for {repo} ({type(error).__name__}).",
            "Check the network, or use the bundled pair `pocket`, which needs none.",
            code="hub_unreachable",
            values={"repo": repo, "kind": type(error).__name__},
        ) from error
    sizes = [s.size or 0 for s in info.siblings or () if s.rfilename.endswith(".safetensors")]
    card = info.card_data.to_dict() if info.card_data else {}
    return HubModel(
        repo=repo,
        revision=info.sha or "",
        licence=str(card.get("license", "unknown")),
        weight_bytes=sum(sizes),
    )


def hub_has(repo: str) -> bool:
    """Whether `repo` is cached already, or the hub answers for it."""
    from huggingface_hub import try_to_load_from_cache

    if isinstance(try_to_load_from_cache(repo, "config.json"), str):
        return True
    try:
        ask_hub(repo)
    except ModelUnavailable:
        return False
    return True


def weight_bytes(repo: str) -> int:
    """Return the bytes of a repository's safetensors.

    Raises:
        ModelUnavailable: see `ask_hub`.
    """
    return ask_hub(repo).weight_bytes
