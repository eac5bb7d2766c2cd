"""Every generated configuration against frozen lists of what each engine takes."""

from __future__ import annotations

import ast
import bisect
import importlib.metadata
import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from speclab.core.errors import BadInput
from speclab.core.protocols import LocalText
from speclab.deploy import options
from speclab.deploy.engines import ENGINES, engine_named
from speclab.deploy.plans import (
    Block,
    Configuration,
    Refusal,
    Wish,
    make_wish,
)
from speclab.deploy.verification import MATCH
from speclab.methods import METHODS
from tests.deploy.configuration_kit import KEYS, TRT, block, dict_of, given, wishes

SPEC = "--speculative-config"
HOSTILE = (
    "meta-llama/Llama-3.1-8B",
    "a b'c\"d",
    "$(touch pwned)`id`;rm -rf / && echo | cat > x",
    "x\\y\\",
    "模型/草稿",
    "{not: [yaml}: # &*",
    "'\"'\"'",
)


def allowed(engine: str) -> set[str]:
    keys = KEYS[engine]
    return {word for name in ("flags", "json", "keys", "server") for word in keys.get(name, ())}


def flags_in(found: Configuration) -> set[str]:
    """Return the options and keys that stand in the texts themselves."""
    seen: set[str] = set()
    for one in found.blocks:
        if one.kind == "shell":
            words = shlex.split(one.text)
            seen |= {word for word in words if word.startswith("--")}
        elif one.kind == "json":
            seen |= set(json.loads(one.text))
        elif one.kind == "yaml":
            lines = [line for line in one.text.splitlines() if ":" in line]
            seen |= {line.split(":")[0].strip() for line in lines} - {"speculative_config"}
    return seen


def test_every_flag_is_in_its_engines_list() -> None:
    made = 0
    for wish in wishes():
        for name, engine in ENGINES.items():
            found = engine.configure(wish)
            if isinstance(found, Configuration):
                made += 1
                assert set(found.flags) <= allowed(name), (name, wish)
                assert flags_in(found) <= allowed(name), (name, wish)
    assert made > 200


@pytest.mark.parametrize("wrong", ["--draft-max", "num_draft_tokens", "--speculative-model"])
def test_a_wrong_flag_would_be_seen(wrong: str) -> None:
    found = given(make_wish("draft-model"), "llama.cpp")
    text = block(found, "shell") + f" {wrong if wrong.startswith('--') else '--' + wrong} 3"
    bad = Configuration(
        engine="llama.cpp",
        version="",
        blocks=(Block(kind="shell", title=LocalText("", ""), text=text),),
        flags=(),
        names=(),
        verification=MATCH,
    )
    assert not flags_in(bad) <= allowed("llama.cpp")


def test_values_are_in_the_lists_too() -> None:
    for wish in wishes():
        vllm = ENGINES["vllm"].configure(wish)
        if isinstance(vllm, Configuration) and any(one.kind == "json" for one in vllm.blocks):
            config = json.loads(block(vllm, "json"))
            assert config["method"] in KEYS["vllm"]["methods"][vllm.version]
            for key, words in KEYS["vllm"]["values"].items():
                assert config.get(key) in (None, *words)
            tiers = config.get("num_speculative_tokens_per_batch_size", [])
            assert all(
                low <= high and k <= config["num_speculative_tokens"] for low, high, k in tiers
            )
        sglang = ENGINES["sglang"].configure(wish)
        if isinstance(sglang, Configuration) and sglang.flags:
            check_sglang(dict_of(block(sglang, "shell")))
        llama = ENGINES["llama.cpp"].configure(wish)
        if isinstance(llama, Configuration) and "--spec-type" in llama.flags:
            assert dict_of(block(llama, "shell"))["--spec-type"] in KEYS["llama.cpp"]["types"]
        trt = ENGINES["tensorrt-llm"].configure(wish)
        if isinstance(trt, Configuration):
            check_tensorrt(trt, wish)


def check_sglang(given_: dict[str, str]) -> None:
    """Hold the rules that SGLang's own code enforces at start."""
    assert given_["--speculative-algorithm"] in KEYS["sglang"]["algorithms"]
    if given_["--speculative-algorithm"] == "NGRAM":
        return
    steps, width, size = (
        int(given_[f"--speculative-{name}"])
        for name in ("num-steps", "eagle-topk", "num-draft-tokens")
    )
    assert size == steps + 1 if width == 1 else size <= width + (steps - 1) * width**2 + 1
    if "--speculative-use-rejection-sampling" in given_:
        assert width == 1 and given_["--speculative-algorithm"] in ("EAGLE", "NEXTN")
    if "--speculative-use-block-verification" in given_:
        assert "--speculative-use-rejection-sampling" in given_
    if "--speculative-adaptive" in given_:
        assert width == 1 and steps in (1, 3, 5, 7)
        assert given_["--speculative-algorithm"] in ("EAGLE", "EAGLE3")


def check_tensorrt(found: Configuration, wish: Wish) -> None:
    python = block(found, "python")
    names = {node.id for node in ast.walk(ast.parse(python)) if isinstance(node, ast.Name)}
    made = [name for name in names if name.endswith("Config")]
    assert set(made) <= set(KEYS["tensorrt-llm"]["classes"])
    if any(one.kind == "yaml" for one in found.blocks):
        lines = block(found, "yaml").splitlines()
        values = dict(line.strip().split(": ", 1) for line in lines if ": " in line)
        assert json.loads(values["decoding_type"]) in KEYS["tensorrt-llm"]["types"]
        length = int(values["max_draft_len"])
        if "max_total_draft_tokens" in values:
            most = length * int(values["dynamic_tree_max_topK"])
            assert length <= int(values["max_total_draft_tokens"]) <= most
        if "draft_len_schedule" in values:
            schedule = yaml.safe_load(f"x: {values['draft_len_schedule']}")["x"]
            for requests, drafted in ((1, length), (4, length), (5, (length + 1) // 2), (17, 1)):
                assert drafted_at(schedule, requests) == drafted
            assert drafted_at(schedule, 64) == 1 and drafted_at(schedule, 65) == 0
        if wish.family == "mtp":
            assert values["num_nextn_predict_layers"] == values["max_draft_len"]


def drafted_at(schedule: dict[int, int], requests: int) -> int:
    """Return the length that TensorRT-LLM takes: keys are upper bounds, none beyond the last."""
    at = bisect.bisect_left(sorted(schedule), requests)
    return schedule[sorted(schedule)[at]] if at < len(schedule) else 0


def test_the_keys_of_a_schedule_are_upper_bounds() -> None:
    schedule = {4: 4, 8: 2, 32: 1}
    told = [drafted_at(schedule, requests) for requests in (1, 4, 5, 8, 9, 32, 33)]
    assert told == [4, 4, 2, 2, 1, 1, 0]
    found = given(make_wish("prompt-lookup", {"num_speculative_tokens": 4}, length="load"), TRT)
    assert "draft_len_schedule: {4: 4, 16: 2, 64: 1}" in block(found, "yaml")


def test_the_linters_tables_are_the_frozen_lists() -> None:
    tables = options.OPTIONS
    for name in ("vllm", "sglang", "llama.cpp", "tgi"):
        every = {*tables[name].current, *tables[name].other_names}
        frozen = {*KEYS[name]["flags"], *KEYS[name].get("documented", ())}
        extra = {"--metrics", "--dllm-algorithm", "--dllm-algorithm-config"}
        aliases = {"--gpu-layers-draft", "--n-gpu-layers-draft", "-ctkd", "-ctvd"}
        aliases |= {"--cache-type-k-draft", "--cache-type-v-draft"}
        aliases |= {"--draft-p-min", "--draft-p-split"}
        assert frozen <= every and every - frozen <= extra | aliases
    assert options.VLLM_JSON.current == set(KEYS["vllm"]["json"])
    assert set(KEYS["llama.cpp"]["removed"]) == set(options.LLAMA_CPP.removed)
    assert set(options.LLAMA_TYPES) == set(KEYS["llama.cpp"]["types"])
    assert set(KEYS["tensorrt-llm"]["keys"]) == {
        *options.TENSORRT.current,
        *options.TENSORRT.other_names,
    }
    assert set(KEYS["transformers"]["keys"]) <= options.TRANSFORMERS.current
    for name, engine in ENGINES.items():
        assert engine.version == KEYS[name]["version"] == tables[name].version


def test_transformers_itself_knows_every_name() -> None:
    spec = importlib.util.find_spec("transformers")
    assert spec is not None and spec.origin is not None
    assert importlib.metadata.version("transformers") == ENGINES["transformers"].version
    folder = Path(spec.origin).parent / "generation"
    config = (folder / "configuration_utils.py").read_text()
    known = set(re.findall(r"self\.(\w+) = kwargs\.pop\(", config))
    tree = ast.parse((folder / "utils.py").read_text())
    (generate,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "generate"
    )
    known |= {argument.arg for argument in generate.args.args}
    known |= set(re.findall(r'kwargs\.pop\("(\w+)"', (folder / "utils.py").read_text()))
    for wish in wishes():
        found = ENGINES["transformers"].configure(wish)
        if isinstance(found, Configuration):
            assert set(found.flags) <= known
            ast.parse(block(found, "python"))
    assert "assistant_model" in known and "num_speculative_tokens" not in known


@pytest.mark.parametrize("name", HOSTILE)
def test_any_model_name_stays_one_word_in_every_text(name: str) -> None:
    for method in METHODS:
        wish = make_wish(method, target=name, draft=f"{name}-d", head=f"{name}-h")
        for engine in ENGINES.values():
            found = engine.configure(wish)
            if isinstance(found, Refusal):
                continue
            kept = 0
            for one in found.blocks:
                if one.kind == "shell":
                    words = shlex.split(one.text)
                    kept += wish.target in words or wish.head in words
                    at = words.index(SPEC) if SPEC in words else 0
                    assert not at or json.loads(words[at + 1])["method"]
                elif one.kind == "python":
                    values = {
                        n.value
                        for n in ast.walk(ast.parse(one.text))
                        if isinstance(n, ast.Constant)
                    }
                    kept += wish.target in values
                elif one.kind == "yaml":
                    inside = yaml.safe_load(one.text)["speculative_config"]
                    assert inside.get("speculative_model") in (None, wish.draft, wish.head)
                elif one.kind == "json":
                    assert json.loads(one.text).get("model") in (None, wish.draft, wish.head)
            assert kept, (engine.name, method)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a\nb", "deploy_name_hidden"),
        ("a\x00b", "deploy_name_hidden"),
        ("a\u202eb", "deploy_name_hidden"),
        ("a\u200bb", "deploy_name_hidden"),
        ("a\ud800b", "deploy_name_hidden"),
        ("--trust-remote-code", "deploy_name_option"),
        ("x" * 301, "deploy_name_long"),
    ],
)
def test_names_that_no_model_has_are_refused(name: str, code: str) -> None:
    for place in ("target", "draft", "head"):
        with pytest.raises(BadInput) as caught:
            make_wish("draft-model", **{place: name})
        assert caught.value.code == code


def test_wrong_choices_are_refused() -> None:
    with pytest.raises(BadInput, match="length must be one of"):
        make_wish("draft-model", length="whim")
    with pytest.raises(BadInput, match="rule must be one of"):
        make_wish("draft-model", rule="typical")
    with pytest.raises(BadInput, match="no engine 'ollama'"):
        engine_named("ollama")
    with pytest.raises(BadInput, match="no parameter 'gamma'"):
        make_wish("draft-model", {"gamma": 3})
