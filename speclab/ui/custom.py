"""A visitor's own two models: what they are, how large, and whether they may be named here."""

from __future__ import annotations

import html
import ipaddress
import re
from dataclasses import dataclass

from speclab.core.errors import BadInput, ModelUnavailable, SpeclabError
from speclab.models.catalogue import CUSTOM, local_path, on_space
from speclab.ui.backend import Lab
from speclab.ui.texts import WORDS, byte_size
from speclab.ui.texts_errors import error_text

HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
BUNDLED = re.compile(r"bundled:[\w-]+(/[\w-]+)?")
WEIGHTS = (".safetensors", ".gguf")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def models_of(pair: str) -> tuple[str, ...]:
    """Return target and draft of "custom:TARGET|DRAFT"; nothing for a pair of the catalogue.

    Raises:
        BadInput: if one of the two is missing, or there is a third.
    """
    if not pair.startswith(CUSTOM):
        return ()
    names = tuple(name.strip() for name in pair.removeprefix(CUSTOM).split("|"))
    if len(names) == 3 and all(names):
        raise BadInput(
            "A second draft can be named on the command line only.",
            "Give one target and one draft here.",
            code="custom_two_drafts",
        )
    if len(names) != 2 or not all(names):
        raise BadInput(
            "Your own pair needs a target and a draft.",
            "Fill in two hub ids such as Qwen/Qwen3-0.6B.",
            code="custom_malformed",
        )
    return names


def check_allowed(lab: Lab, pair: str) -> None:
    """Refuse folders of this machine unless the lab allows them.

    What is refused does not depend on what exists on the disk, so nobody can probe it.

    Raises:
        BadInput: if one of the two models is missing.
        ModelUnavailable: naming why local folders are off.
    """
    for name in models_of(pair):
        if lab.allow_local or BUNDLED.fullmatch(name):
            continue
        if name.startswith(".") or ".." in name or not HUB_ID.fullmatch(name) or _here(name):
            raise _local_off()


def _local_off() -> ModelUnavailable:
    if on_space():
        return ModelUnavailable(
            "Local folders are switched off on a Space.",
            "Give a hub id such as Qwen/Qwen3-0.6B.",
            code="local_off_space",
        )
    return ModelUnavailable(
        "Local folders are switched off: this server also answers other machines.",
        "Give a hub id such as Qwen/Qwen3-0.6B, or start the server with --allow-local.",
        code="local_off",
    )


def _here(name: str) -> bool:
    """Whether loading would take `name` for a folder of this machine."""
    return local_path(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a model costs before it is loaded."""

    name: str
    weight_bytes: int
    licence: str


def facts_of(lab: Lab, name: str) -> Facts:
    """Return size and licence of a local folder or file, else ask the hub.

    Raises:
        ModelUnavailable: if the hub does not answer, or there are no weights.
    """
    local = local_path(name)
    if lab.allow_local and local is not None:
        files = [local] if local.is_file() else sorted(local.iterdir())
        sizes = [file.stat().st_size for file in files if file.suffix in WEIGHTS]
        if not sizes:
            raise ModelUnavailable(
                f"{name} holds no safetensors or GGUF weights.",
                "Check the path.",
                code="no_weights",
                values={"path": name},
            )
        return Facts(name=name, weight_bytes=sum(sizes), licence="")
    found = lab.ask_hub(name)
    return Facts(name=name, weight_bytes=found.weight_bytes, licence=found.licence)


def facts_html(lab: Lab, pair: str, lang: str) -> str:
    """Return size, memory and licence of both models; what is wrong, if something is."""
    words = WORDS[lang]
    try:
        check_allowed(lab, pair)
        names = models_of(pair)
    except SpeclabError as error:
        return _note(error_text(error, lang))
    rows, total, faults = [], 0, []
    for role, name in zip(("custom_target", "custom_draft"), names, strict=True):
        try:
            facts = facts_of(lab, name)
        except SpeclabError as error:
            faults.append(_note(error_text(error, lang)))
            continue
        total += facts.weight_bytes
        licence = facts.licence or words["licence_unknown"]
        size = byte_size(facts.weight_bytes) if facts.weight_bytes else words["size_unknown"]
        rows.append((words[role], f"{name} · {size} · {licence}"))
    if rows and not faults and total:
        rows.append((words["memory"], words["custom_memory"].format(size=byte_size(total))))
    cells = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in rows)
    return f'<dl class="sl-facts">{cells}</dl>{"".join(faults)}'


def _note(text: str) -> str:
    return f'<p class="sl-about sl-fault" role="alert">{html.escape(text)}</p>'
