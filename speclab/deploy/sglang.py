"""Configurations for SGLang, read from the wheel of 0.5.23."""

from __future__ import annotations

from speclab.core.protocols import LocalText
from speclab.deploy.differences import left_out, no_block, no_length, no_such_method
from speclab.deploy.plans import Block, Configuration, Refusal, Renamed, Wish
from speclab.deploy.shell_text import Word, command_line, python_call
from speclab.deploy.verification import (
    BLOCK,
    FULL_RATIO,
    NOTHING,
    TARGET_ONLY,
    Verification,
)

NAME, TITLE, VERSION = "sglang", "SGLang", "0.5.23"
ALGORITHMS = {
    "draft-model": "STANDALONE",
    "draft-tree": "STANDALONE",
    "n-gram": "NGRAM",
    "eagle-1": "EAGLE",
    "eagle-2": "EAGLE",
    "eagle-3": "EAGLE3",
    "mtp": "NEXTN",
}
ADAPTIVE_STEPS = (0, 1, 3, 5, 7)
"""Draft lengths among which its adaptive mode chooses unless told otherwise."""
EAGLES = ("eagle-1", "eagle-2", "eagle-3")
RATIO_FAMILIES = ("eagle-1", "eagle-2", "mtp")
"""Whose chains it can judge with p and q; an EAGLE-3 head usually has a vocabulary of its own."""
COUNTS_ROOT = LocalText(
    "SGLang counts the pending token as well.",
    "SGLang 把待定词元也算在内。",
)
MOST_TRIE_DEPTH = 18
SHARED_TRIE = LocalText(
    "Its NGRAM drafts from a trie too, filled by all requests: see Prompt lookup.",
    "它的 NGRAM 也用前缀树起草，但由所有请求共同填充：见“提示词查找”。",
)


def configure(wish: Wish) -> Configuration | Refusal:
    """Return how SGLang runs a method, or why it cannot."""
    if wish.family == "plain":
        return _answer(wish, {}, (), NOTHING, ())
    if wish.family not in ALGORITHMS:
        why = SHARED_TRIE if wish.family == "suffix" else LocalText("", "")
        return no_such_method(wish, NAME, TITLE, VERSION, why)
    notes: list[LocalText] = []
    if wish.family == "n-gram":
        options, names, used = _ngram(wish, notes)
    else:
        options, names, used = _drafted(wish, notes)
    verification = _judged(wish, options, notes)
    _adapt(wish, options, notes)
    if wish.family == "mtp":
        notes.append(
            LocalText(
                "For most targets the module is in the target's own checkpoint.",
                "多数目标模型的模块就在自己的检查点里。",
            )
        )
    return _answer(wish, options, names, verification, (*notes, *left_out(wish, used)))


Options = dict[str, object]


def _ngram(wish: Wish, notes: list[LocalText]) -> tuple[Options, tuple[Renamed, ...], set[str]]:
    options: Options = {
        "speculative_algorithm": "NGRAM",
        "speculative_num_draft_tokens": wish.drafted + 1,
        "speculative_ngram_max_bfs_breadth": 1,
    }
    notes.append(
        LocalText(
            "NGRAM looks up a trie filled by all requests, not this text alone, and tries matches "
            f"up to {MOST_TRIE_DEPTH} tokens long, so max_ngram has no counterpart; breadth 1 "
            "keeps the draft a chain.",
            f"NGRAM 查的是由所有请求填充的字典树，而不只是本文，匹配最长 {MOST_TRIE_DEPTH} "
            "个词元，因此 max_ngram 没有对应项；宽度 1 使草稿保持为链。",
        )
    )
    names = (
        Renamed(
            ours=wish.length_name,
            theirs="--speculative-num-draft-tokens",
            value=str(wish.drafted + 1),
            note=COUNTS_ROOT,
        ),
    )
    return options, names, {wish.length_name, "max_ngram"}


def _drafted(wish: Wish, notes: list[LocalText]) -> tuple[Options, tuple[Renamed, ...], set[str]]:
    """Return steps, width and size; with width 1 the size is steps + 1 whatever is asked."""
    adaptive = wish.follows == "acceptance" and wish.family in EAGLES
    steps = _nearest(wish.drafted) if adaptive else wish.drafted
    block = wish.rule == "block" and wish.family in RATIO_FAMILIES
    width = 1 if adaptive or wish.is_chain or block else wish.width
    most = width + (steps - 1) * width**2 + 1
    size = steps + 1 if width == 1 else min(wish.nodes + 1, most)
    options: Options = {"speculative_algorithm": ALGORITHMS[wish.family]}
    model = "" if wish.family == "mtp" else wish.draft if "draft" in wish.family else wish.head
    if model:
        options["speculative_draft_model_path"] = model
    options |= {
        "speculative_num_steps": steps,
        "speculative_eagle_topk": width,
        "speculative_num_draft_tokens": size,
    }
    if width == 1 and not wish.is_chain:
        notes.append(
            LocalText(
                "That needs a chain, so the tree becomes one branch.",
                "这要求草稿是链，因此树只剩一条分支。",
            )
        )
    elif wish.family in ("eagle-1", "draft-tree") and width > 1:
        notes.append(
            LocalText(
                "SGLang grows the tree anew each round from the likeliest candidates; the tree "
                "here has a fixed shape.",
                "SGLang 每轮从最可能的候选重新生长树；这里的树形状固定。",
            )
        )
    size_name = "total_tokens" if "total_tokens" in wish.params else ""
    rows = (
        (wish.length_name, "--speculative-num-steps", steps, LocalText("", "")),
        ("top_k" if "top_k" in wish.params else "width", "--speculative-eagle-topk", width, None),
        (size_name or "1 + γ", "--speculative-num-draft-tokens", size, COUNTS_ROOT),
    )
    names = tuple(
        Renamed(ours=ours, theirs=theirs, value=str(value), note=note or LocalText("", ""))
        for ours, theirs, value, note in rows
        if ours in wish.params or ours == "1 + γ"
    )
    used = {wish.length_name, "top_k", "width", "total_tokens", "draft_sampling"}
    used |= {"draft_temperature"} if wish.temperature_kept else set()
    used |= {"siblings"} if wish.params.get("siblings") == "top-k" else set()
    return options, names, used


def _nearest(steps: int) -> int:
    return min((s for s in ADAPTIVE_STEPS if s), key=lambda s: (abs(s - steps), s))


def _judged(wish: Wish, options: Options, notes: list[LocalText]) -> Verification:
    """Set how drafts are judged; return the rule."""
    chain = options.get("speculative_eagle_topk") == 1
    ratio = wish.family in RATIO_FAMILIES and chain
    if wish.rule == "block" and ratio:
        options["speculative_use_rejection_sampling"] = True
        options["speculative_use_block_verification"] = True
        return BLOCK
    if wish.draws and ratio:
        options["speculative_use_rejection_sampling"] = True
        return FULL_RATIO
    only = LocalText(
        "Its rejection sampling takes EAGLE and NEXTN chains only, and no head with a vocabulary "
        "of its own, as EAGLE-3's usually is.",
        "它的拒绝采样只用于 EAGLE 与 NEXTN 的链，且头不能有自己的词表（EAGLE-3 通常有）。",
    )
    if wish.rule == "block":
        notes.append(no_block(TITLE, only))
    elif wish.draws:
        notes.append(
            LocalText(
                "Drafts are chosen, not drawn: the engine has no full ratio for this method. "
                + only.en,
                "草稿是选出来的，不是抽出来的：引擎对这个方法没有完整比值。" + only.zh,
            )
        )
    return TARGET_ONLY


def _adapt(wish: Wish, options: Options, notes: list[LocalText]) -> None:
    if wish.follows == "method":
        return
    if wish.follows == "acceptance" and wish.family in EAGLES:
        options["speculative_adaptive"] = True
        notes.append(
            LocalText(
                "Adaptive drafting chooses among 1, 3, 5 and 7 steps for one request, fewer as "
                "requests grow, none from 64 on; the steps above are where it starts.",
                "自适应起草：单个请求时在 1、3、5、7 步中选择，请求越多步数越少，64 个起不再起草；"
                "上面的步数是起点。",
            )
        )
        return
    has = LocalText(
        "Its adaptive mode, for EAGLE chains, follows acceptance and load together.",
        "它的自适应模式（用于 EAGLE 链）同时考虑接受情况与负载。",
    )
    notes.extend(no_length(wish, TITLE, has))


def _answer(
    wish: Wish,
    options: Options,
    names: tuple[Renamed, ...],
    verification: Verification,
    notes: tuple[LocalText, ...],
) -> Configuration:
    flags = {f"--{key.replace('_', '-')}": value for key, value in options.items()}
    words: list[Word] = [
        ("python", "-m", "sglang.launch_server"),
        ("--model-path", wish.target),
        *((flag,) if value is True else (flag, str(value)) for flag, value in flags.items()),
    ]
    call = python_call("sgl.Engine", {"model_path": wish.target, **options})
    python = f"import sglang as sgl\n\nengine = {call}\n"
    return Configuration(
        engine=NAME,
        version=VERSION,
        blocks=(
            Block(
                kind="shell", title=LocalText("Command line", "命令行"), text=command_line(words)
            ),
            Block(kind="python", title=LocalText("Python", "Python"), text=python),
        ),
        flags=tuple(flags),
        names=names,
        verification=verification,
        notes=notes,
        differs=_differs(wish, verification),
    )


def _differs(wish: Wish, verification: Verification) -> bool:
    reshaped = wish.family in ("eagle-1", "draft-tree") and not wish.is_chain
    unlike = wish.draws and verification is TARGET_ONLY
    return reshaped or unlike or wish.family == "n-gram"
