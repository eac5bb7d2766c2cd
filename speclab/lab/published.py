"""Numbers that papers printed, typed in from their tables: published, never measured here.

Tables are named by paper and number; page numbers differ between versions and are not given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from speclab.core.errors import BadInput
from speclab.core.protocols import LocalText

Cell = str | int | float

LEVIATHAN = "Leviathan, Kalman, Matias 2023"
EAGLE_3 = "Li, Wei, Zhang, Zhang 2025 (EAGLE-3)"
DFLASH = "DFlash 2026"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """One table of one paper.

    Attributes:
        name: key. place: table and section. setting: under which it was measured.
        columns: names; rows: one tuple per line, as printed.
    """

    name: str
    paper: str
    arxiv: str
    place: str
    setting: LocalText
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    badge: Literal["published"] = "published"

    def column(self, name: str) -> list[Cell]:
        """Return the values of a column."""
        if name not in self.columns:
            raise BadInput(f"{self.name} has no column {name!r}: {', '.join(self.columns)}.")
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCurve:
    """Speedup against batch size, as printed.

    Attributes:
        speedups: throughput with speculation / without, at each of `batches`.
        plain_tokens_per_s: without; empty where the table has only ratios.
        tau: tokens per pass that the table prints; None where it does not.
    """

    name: str
    title: str
    paper: str
    arxiv: str
    place: str
    setting: LocalText
    batches: tuple[int, ...]
    speedups: tuple[float, ...]
    plain_tokens_per_s: tuple[float, ...] = ()
    tau: float | None = None
    badge: Literal["published"] = "published"


_T5 = LocalText(
    "T5-XXL 11B, one TPU-v4, batch 1, against T5X", "T5-XXL 11B，一块 TPU-v4，批量 1，对比 T5X"
)

_TABLES = (
    PublishedTable(
        name="leviathan-1",
        paper=LEVIATHAN,
        arxiv="2211.17192",
        place="Table 1, section 3.5",
        setting=LocalText("By formula, c = 0", "按公式计算，c = 0"),
        columns=("alpha", "gamma", "operations", "speed"),
        rows=(
            (0.6, 2, 1.53, 1.96),
            (0.7, 3, 1.58, 2.53),
            (0.8, 2, 1.23, 2.44),
            (0.8, 5, 1.63, 3.69),
            (0.9, 2, 1.11, 2.71),
            (0.9, 10, 1.60, 6.86),
        ),
    ),
    PublishedTable(
        name="leviathan-2",
        paper=LEVIATHAN,
        arxiv="2211.17192",
        place="Table 2, section 4.1",
        setting=_T5,
        columns=("task", "draft", "temperature", "gamma", "alpha", "speedup"),
        rows=(
            ("EnDe", "T5-small 77M", 0, 7, 0.75, 3.4),
            ("EnDe", "T5-base 250M", 0, 7, 0.80, 2.8),
            ("EnDe", "T5-large 800M", 0, 7, 0.82, 1.7),
            ("EnDe", "T5-small 77M", 1, 7, 0.62, 2.6),
            ("EnDe", "T5-base 250M", 1, 5, 0.68, 2.4),
            ("EnDe", "T5-large 800M", 1, 3, 0.71, 1.4),
            ("CNNDM", "T5-small 77M", 0, 5, 0.65, 3.1),
            ("CNNDM", "T5-base 250M", 0, 5, 0.73, 3.0),
            ("CNNDM", "T5-large 800M", 0, 3, 0.74, 2.2),
            ("CNNDM", "T5-small 77M", 1, 5, 0.53, 2.3),
            ("CNNDM", "T5-base 250M", 1, 3, 0.55, 2.2),
            ("CNNDM", "T5-large 800M", 1, 3, 0.56, 1.7),
        ),
    ),
    PublishedTable(
        name="leviathan-3",
        paper=LEVIATHAN,
        arxiv="2211.17192",
        place="Table 3, section 4.2",
        setting=LocalText(
            "alpha over 10,000 tokens written by the target",
            "在目标模型写出的 10,000 个词元上的 alpha",
        ),
        columns=("target", "draft", "alpha_t0", "alpha_t1"),
        # Every line compared with the same table in a full-text copy of arXiv 2211.17192; other
        # values circulate for the n-grams on CNN/DM at temperature 1, the paper has .08 and .16.
        rows=(
            ("GPT-like 97M", "unigram", 0.03, 0.03),
            ("GPT-like 97M", "bigram", 0.05, 0.05),
            ("GPT-like 97M", "GPT-like 6M", 0.88, 0.89),
            ("T5-XXL EnDe", "unigram", 0.08, 0.07),
            ("T5-XXL EnDe", "bigram", 0.20, 0.19),
            ("T5-XXL EnDe", "T5-small", 0.75, 0.62),
            ("T5-XXL EnDe", "T5-base", 0.80, 0.68),
            ("T5-XXL EnDe", "T5-large", 0.82, 0.71),
            ("T5-XXL CNNDM", "unigram", 0.13, 0.08),
            ("T5-XXL CNNDM", "bigram", 0.23, 0.16),
            ("T5-XXL CNNDM", "T5-small", 0.65, 0.53),
            ("T5-XXL CNNDM", "T5-base", 0.73, 0.55),
            ("T5-XXL CNNDM", "T5-large", 0.74, 0.56),
            ("LaMDA 137B", "LaMDA 100M", 0.61, 0.57),
            ("LaMDA 137B", "LaMDA 2B", 0.71, 0.71),
            ("LaMDA 137B", "LaMDA 8B", 0.75, 0.74),
        ),
    ),
    PublishedTable(
        name="leviathan-4",
        paper=LEVIATHAN,
        arxiv="2211.17192",
        place="Table 4, appendix A.3",
        setting=_T5,
        columns=("task", "draft", "temperature", "gamma", "alpha", "c", "expected", "measured"),
        rows=(
            ("EnDe", "T5-small", 0, 7, 0.75, 0.02, 3.2, 3.4),
            ("EnDe", "T5-base", 0, 7, 0.80, 0.04, 3.3, 2.8),
            ("EnDe", "T5-large", 0, 7, 0.82, 0.11, 2.5, 1.7),
            ("EnDe", "T5-small", 1, 7, 0.62, 0.02, 2.3, 2.6),
            ("EnDe", "T5-base", 1, 5, 0.68, 0.04, 2.4, 2.4),
            ("EnDe", "T5-large", 1, 3, 0.71, 0.11, 2.0, 1.4),
            ("CNNDM", "T5-small", 0, 5, 0.65, 0.02, 2.4, 3.1),
            ("CNNDM", "T5-base", 0, 5, 0.73, 0.04, 2.6, 3.0),
            ("CNNDM", "T5-large", 0, 3, 0.74, 0.11, 2.0, 2.2),
            ("CNNDM", "T5-small", 1, 5, 0.53, 0.02, 1.9, 2.3),
            ("CNNDM", "T5-base", 1, 3, 0.55, 0.04, 1.8, 2.2),
            ("CNNDM", "T5-large", 1, 3, 0.56, 0.11, 1.6, 1.7),
        ),
    ),
    PublishedTable(
        name="eagle-3-batch-1",
        paper=EAGLE_3,
        arxiv="2503.01840",
        place="Table 4, section 4.3",
        setting=LocalText(
            "SGLang v0.4.4, one H100, Llama 3.1 8B, MT-bench, batch 1",
            "SGLang v0.4.4，一块 H100，Llama 3.1 8B，MT-bench，批量 1",
        ),
        columns=("method", "tokens_per_s"),
        rows=(("plain", 158.34), ("EAGLE-2", 244.10), ("EAGLE-3", 373.25)),
    ),
    PublishedTable(
        name="dflash-12",
        paper=DFLASH,
        arxiv="2602.06036",
        place="Table 12, appendix A.4",
        setting=LocalText("vLLM, Qwen3.5-9B, DFlash", "vLLM，Qwen3.5-9B，DFlash"),
        columns=("task", "concurrency", "tokens_per_s", "speedup"),
        rows=(
            ("Math500", 1, 849, 4.0),
            ("Math500", 8, 5096, 3.2),
            ("Math500", 16, 7669, 2.5),
            ("Math500", 32, 9836, 1.9),
            ("HumanEval", 1, 969, 4.6),
            ("HumanEval", 8, 5434, 3.4),
            ("HumanEval", 16, 8131, 2.7),
            ("HumanEval", 32, 10258, 2.1),
            ("MT-Bench", 1, 627, 3.0),
            ("MT-Bench", 8, 3536, 2.2),
            ("MT-Bench", 16, 5297, 1.7),
            ("MT-Bench", 32, 6787, 1.3),
        ),
    ),
)

TABLES: dict[str, PublishedTable] = {table.name: table for table in _TABLES}
"""Published tables by name."""

_SGLANG = LocalText(
    "SGLang v0.4.4, one H100, Llama 3.1 8B, MT-bench, chains of 3",
    "SGLang v0.4.4，一块 H100，Llama 3.1 8B，MT-bench，链长 3",
)
_VLLM = LocalText(
    "vLLM, RTX 3090 by the text (the table's caption says A100 in the arXiv version), "
    "Llama 3.1 8B, MT-bench, chains of at most 2",
    "vLLM，正文称 RTX 3090（arXiv 版的表题写作 A100），Llama 3.1 8B，MT-bench，链长不超过 2",
)
_B200 = LocalText("SGLang, one B200", "SGLang，一块 B200")
_SGLANG_SIZES = (2, 4, 8, 16, 24, 32, 48, 56, 64)
_VLLM_SIZES = (2, 4, 8, 16, 24, 32, 48, 56)
_B200_SIZES = (1, 4, 8, 16, 32)


def _eagle(name: str, title: str, place: str, speedups: tuple[float, ...]) -> BatchCurve:
    sglang = name.startswith("sglang")
    return BatchCurve(
        name=name,
        title=title,
        paper=EAGLE_3,
        arxiv="2503.01840",
        place=place,
        setting=_SGLANG if sglang else _VLLM,
        batches=_SGLANG_SIZES if sglang else _VLLM_SIZES,
        speedups=speedups,
    )


def _dflash(
    name: str, title: str, place: str, plain: tuple[float, ...], tau: float, *speedups: float
) -> BatchCurve:
    return BatchCurve(
        name=name,
        title=title,
        paper=DFLASH,
        arxiv="2602.06036",
        place=place,
        setting=_B200,
        batches=_B200_SIZES,
        speedups=speedups,
        plain_tokens_per_s=plain,
        tau=tau,
    )


_CURVES = (
    _eagle(
        "sglang-eagle-1",
        "EAGLE, chain of 3, SGLang on H100",
        "Table 3, section 4.3",
        (1.40, 1.38, 1.23, 1.02, 0.93, 0.94, 0.88, 0.99, 0.99),
    ),
    _eagle(
        "sglang-eagle-3",
        "EAGLE-3, chain of 3, SGLang on H100",
        "Table 3, section 4.3",
        (1.81, 1.82, 1.62, 1.48, 1.39, 1.32, 1.38, 1.34, 1.38),
    ),
    _eagle(
        "vllm-eagle-1",
        "EAGLE, chain of 2, vLLM on RTX 3090",
        "Table 5, section 4.4",
        (1.30, 1.25, 1.21, 1.10, 1.03, 0.93, 0.82, 0.71),
    ),
    _eagle(
        "vllm-eagle-3",
        "EAGLE-3, chain of 2, vLLM on RTX 3090",
        "Table 5, section 4.4",
        (1.75, 1.68, 1.58, 1.49, 1.42, 1.36, 1.21, 1.01),
    ),
    _dflash(
        "sglang-dflash-math",
        "DFlash, block of 16, Qwen3 8B, Math500, SGLang on B200",
        "Table 3, section 5.3",
        (230, 861, 1666, 3133, 5694),
        8.01,
        *(5.1, 4.5, 4.5, 3.9, 2.8),
    ),
    _dflash(
        "sglang-eagle-3-tree",
        "EAGLE-3, tree of 60 nodes, Llama 3.1 8B, GSM8K, SGLang on B200",
        "Table 5, section 5.5.1",
        (249, 923, 1739, 3245, 5349),
        4.55,
        *(1.9, 1.6, 1.3, 0.9, 0.6),
    ),
    _dflash(
        "sglang-dflash-moe",
        "DFlash, block of 16, Qwen3-Coder 30B-A3B, HumanEval, SGLang on B200",
        "Table 3, section 5.3",
        (229, 686, 1068, 1681, 2713),
        8.09,
        *(3.5, 3.0, 3.2, 3.2, 3.1),
    ),
)

CURVES: dict[str, BatchCurve] = {curve.name: curve for curve in _CURVES}
"""Published batch curves by name."""
