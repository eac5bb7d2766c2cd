"""The table of engines; each has a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from speclab.core.errors import BadInput
from speclab.core.protocols import LocalText
from speclab.deploy import llama_cpp, sglang, tensorrt_llm, tgi, transformers_generate, vllm
from speclab.deploy.plans import Configuration, Refusal, Wish

SOURCE = LocalText("source read", "已读源码")
DOCUMENTED = LocalText("documentation only", "仅依据文档")
LEGACY = LocalText("source read, maintenance mode", "已读源码，处于维护模式")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine.

    Attributes:
        name: key. title: for people. version: that was checked. checked: how.
        configure: wish -> configuration or refusal.
    """

    name: str
    title: str
    version: str
    checked: LocalText
    configure: Callable[[Wish], Configuration | Refusal]


ENGINES: dict[str, Engine] = {
    module.NAME: Engine(
        name=module.NAME,
        title=module.TITLE,
        version=module.VERSION,
        checked=checked,
        configure=module.configure,
    )
    for module, checked in (
        (vllm, SOURCE),
        (sglang, SOURCE),
        (llama_cpp, SOURCE),
        (tensorrt_llm, DOCUMENTED),
        (tgi, LEGACY),
        (transformers_generate, SOURCE),
    )
}
"""Every engine by name."""


def engine_named(name: str) -> Engine:
    """Return an engine.

    Raises:
        BadInput: for an unknown one.
    """
    if name not in ENGINES:
        known = ", ".join(ENGINES)
        raise BadInput(
            f"There is no engine {name[:80]!r} here.",
            f"Engines: {known}.",
            code="deploy_engine",
            values={"name": name[:80], "known": known},
        )
    return ENGINES[name]
