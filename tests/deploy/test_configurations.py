"""Every generated configuration against frozen lists of what each engine takes."""

from __future__ import annotations

import ast
import bisect
import importlib.metadata
import importlib.util
import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from speclab.core.errors import BadInput
from speclab.core.protocols import LocalText, MethodCard, Param
from speclab.deploy import options
from speclab.deploy.engines import ENGINES, engine_named
from speclab.deploy.plans import (
    LENGTHS,
    RULES,
    Block,
    Configuration,
    Refusal,
    Wish,
    family_of,
    make_wish,
)
from speclab.deploy.verification import BLOCK, FULL_RATIO, MATCH, ONE_HOT, TARGET_ONLY
from speclab.methods import METHODS

KEYS = {path.stem: json.loads(path.read_text()) for path in Path(__file__).parent.glob("keys/*")}
SPEC = "--speculative-config"
TRT = "tensorrt-llm"
HOSTILE = (
    "meta-llama/Llama-3.1-8B",
    "a b'c\"d",
    "$(touch pwned)`id`;rm -rf / && echo | cat > x",
    "x\\y\\",
    "模型/草稿",
    "{not: [yaml}: # &*",
    "'\"'\"'",
)
SHAPES: dict[str, tuple[dict[str, Any], ...]] = {
    "draft-model": (
        {},
        {"draft_temperature": 0.0},
        {"draft_temperature": 0.7, "min_confidence": 0.4, "shared_noise": True},
    ),
    "prompt-lookup": (
        {},
        {"num_speculative_tokens": 1, "max_ngram": 8, "min_ngram": 8},
        {"branches": 8, "match": "frequent"},
    ),
    "suffix": ({}, {"mode": "tree", "factor": 4.0, "offset": 8.0}),
    "draft-tree": ({}, {"depth": 8, "width": 8, "siblings": "top-k"}, {"width": 1}),
    "medusa": ({}, {"num_heads": 8, "tree_nodes": 64}, {"top_k": 1}),
    "eagle-1": ({}, {"top_k": 1, "depth": 5}),
    "eagle-2": ({}, {"top_k": 1, "draft_sampling": "drawn"}, {"depth": 1, "total_tokens": 64}),
    "eagle-3": ({}, {"top_k": 1, "draft_sampling": "drawn"}, {"depth": 12, "total_tokens": 1}),
}


@cache
def wishes() -> list[Wish]:
    """Return every method in several shapes, lengths and rules."""
    return [
        make_wish(method, params, target="T", draft="D", head="H", length=length, rule=rule)
        for method in METHODS
        for params in SHAPES.get(method, ({},))
        for length in LENGTHS
        for rule in RULES
    ]


def allowed(engine: str) -> set[str]:
    keys = KEYS[engine]
    return {word for name in ("flags", "json", "keys", "server") for word in keys.get(name, ())}


def block(found: Configuration, kind: str) -> str:
    return next(one.text for one in found.blocks if one.kind == kind)


def given(wish: Wish, engine: str) -> Configuration:
    found = ENGINES[engine].configure(wish)
    assert isinstance(found, Configuration)
    return found


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


def dict_of(command: str) -> dict[str, str]:
    words = shlex.split(command)
    pairs = zip(words, [*words[1:], ""], strict=True)
    return {word: after for word, after in pairs if word.startswith("--")}


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


def test_a_drawn_chain_asks_for_the_rule_that_needs_q() -> None:
    drawn, greedy = make_wish("draft-model"), make_wish("draft-model", {"draft_temperature": 0.0})
    assert json.loads(block(given(drawn, "vllm"), "json"))["draft_sample_method"] == "probabilistic"
    assert given(drawn, "vllm").verification is FULL_RATIO
    assert given(greedy, "vllm").verification is ONE_HOT
    assert given(drawn, "sglang").verification is TARGET_ONLY
    assert given(drawn, "llama.cpp").verification is MATCH
    assert given(drawn, "transformers").verification is FULL_RATIO
    blocks = make_wish("draft-model", rule="block")
    assert given(blocks, "vllm").verification is BLOCK
    assert given(blocks, "sglang").verification is TARGET_ONLY
    eagle = make_wish("eagle-2", {"top_k": 1, "draft_sampling": "drawn"})
    assert given(eagle, "sglang").verification is FULL_RATIO
    assert "--speculative-use-rejection-sampling" in given(eagle, "sglang").flags


def test_what_is_drawn_is_what_the_method_provides() -> None:
    drawn = {name: make_wish(name).draws for name in METHODS}
    assert drawn["draft-model"] and drawn["draft-tree"] and drawn["eagle-1"] and drawn["mtp"]
    assert not drawn["prompt-lookup"] and not drawn["eagle-3"] and not drawn["medusa"]
    assert not make_wish("draft-tree", {"siblings": "top-k"}).draws
    assert not make_wish("draft-tree", {"draft_temperature": 0.0}).draws
    for name in ("mtp", "eagle-1"):
        found = given(make_wish(name), "vllm")
        config = json.loads(block(found, "json"))
        assert config["draft_sample_method"] == "probabilistic"
        assert found.verification is FULL_RATIO
    for wish in wishes():
        found = ENGINES["vllm"].configure(wish)
        if isinstance(found, Configuration):
            ours = {row.ours for row in found.names}
            assert ours <= wish.params.keys(), "a parameter that the method lacks"


def test_a_drawn_draft_differs_where_the_engine_takes_the_best_token() -> None:
    for engine in ("llama.cpp", TRT):
        for method in ("draft-model", "mtp"):
            found = given(make_wish(method), engine)
            assert found.differs and any("one-hot" in note.en for note in found.notes)
        greedy = given(make_wish("draft-model", {"draft_temperature": 0.0}), engine)
        assert not greedy.differs and not any("one-hot" in note.en for note in greedy.notes)


def test_sglang_keeps_the_tree_where_no_block_verification_is_on() -> None:
    block_, usual = (make_wish("eagle-3", rule=rule) for rule in ("block", "usual"))
    for wish in (block_, usual):
        shown = dict_of(block(given(wish, "sglang"), "shell"))
        assert shown["--speculative-eagle-topk"] == str(wish.width) != "1"
    tree = given(make_wish("draft-tree", rule="block"), "sglang")
    assert dict_of(block(tree, "shell"))["--speculative-eagle-topk"] != "1"
    assert any("no block verification" in note.en for note in tree.notes)
    eagle = given(make_wish("eagle-2", rule="block"), "sglang")
    assert dict_of(block(eagle, "shell"))["--speculative-eagle-topk"] == "1"
    assert eagle.verification is BLOCK


def test_a_threshold_that_transformers_fits_anew_is_told() -> None:
    for params, told in (({}, False), ({"min_confidence": 0.4}, True)):
        found = given(make_wish("draft-model", params), "transformers")
        assert any("scikit-learn" in note.en for note in found.notes) == told
    spec = importlib.util.find_spec("transformers")
    assert spec is not None and spec.origin is not None
    source = (Path(spec.origin).parent / "generation" / "candidate_generator.py").read_text()
    assert "roc_curve" in source and "is_sklearn_available" in source


def test_sglang_counts_the_pending_token_and_never_more_than_come_up() -> None:
    tree = dict_of(block(given(make_wish("eagle-3"), "sglang"), "shell"))
    assert tree["--speculative-num-draft-tokens"] == "12"
    small = make_wish("eagle-3", {"depth": 1, "top_k": 3, "total_tokens": 64})
    assert dict_of(block(given(small, "sglang"), "shell"))["--speculative-num-draft-tokens"] == "4"
    chain = dict_of(
        block(given(make_wish("mtp", {"num_speculative_tokens": 3}), "sglang"), "shell")
    )
    assert chain["--speculative-num-steps"] == "3"
    assert chain["--speculative-num-draft-tokens"] == "4"


def test_medusa_is_pinned_to_the_last_version_that_has_it() -> None:
    found = given(make_wish("medusa"), "vllm")
    assert found.version == "0.32.0"
    assert any("0.33.0 no longer" in note.en for note in found.notes)
    assert given(make_wish("eagle-3"), "vllm").version == "0.33.0"


def test_what_is_left_out_is_said() -> None:
    wish = make_wish("draft-model", {"min_confidence": 0.4, "draft_temperature": 0.7})
    notes = " ".join(note.en for note in given(wish, "vllm").notes)
    assert "min_confidence = 0.4 has no counterpart" in notes
    assert "draft_temperature = 0.7 has no counterpart" in notes
    llama = given(wish, "llama.cpp")
    assert dict_of(block(llama, "shell"))["--spec-draft-p-min"] == "0.4"
    assert not any("min_confidence" in note.en for note in llama.notes)
    tree = given(make_wish("eagle-3"), "vllm")
    assert any("becomes its first branch of 6" in note.en for note in tree.notes)


@pytest.mark.skipif(
    "draft_length" not in {param.name for param in METHODS["draft-model"].card.params},
    reason="drafts have one length",
)
def test_draft_lengths_of_the_method_go_where_the_engine_has_them() -> None:
    sure = make_wish("draft-model", {"draft_length": "confidence", "stop_threshold": 0.7})
    assert dict_of(block(given(sure, "llama.cpp"), "shell"))["--spec-draft-p-min"] == "0.3"
    assert "assistant_confidence_threshold = 0.3" in block(given(sure, "transformers"), "python")
    assert any("draft_length = confidence" in note.en for note in given(sure, "vllm").notes)
    grown = make_wish("draft-model", {"draft_length": "heuristic"})
    assert "'heuristic_transient'" in block(given(grown, "transformers"), "python")
    assert any("by recent acceptance" in note.en for note in given(grown, "vllm").notes)
    eagle = make_wish("eagle-3", {"top_k": 1, "draft_length": "heuristic"})
    assert "--speculative-adaptive" in given(eagle, "sglang").flags
    learned = make_wish("draft-model", {"draft_length": "learned", "stop_threshold": 0.5})
    said = " ".join(note.en for note in given(learned, "llama.cpp").notes)
    assert "draft_length = learned has no" in said and "stop_threshold = 0.5 has no" in said


def test_methods_without_an_option_are_refused_with_the_paper() -> None:
    for method, engine in (
        ("draft-tree", "vllm"),
        ("hydra", "vllm"),
        ("parallel-mtp", "sglang"),
        ("eagle-2", "llama.cpp"),
        ("medusa", "tensorrt-llm"),
        ("draft-model", "tgi"),
        ("eagle-3", "transformers"),
    ):
        found = ENGINES[engine].configure(make_wish(method))
        assert isinstance(found, Refusal)
        assert "has no option for" in found.reason.en and "没有" in found.reason.zh
        assert METHODS[method].card.paper_url in found.instead.en


def test_early_exit_is_set_on_the_target_itself() -> None:
    found = given(make_wish("early-exit", {"exit_layer": 5, "min_confidence": 0.3}), "transformers")
    program = block(found, "python")
    assert "assistant_early_exit=5" in program and "assistant_model" not in program
    assert "target.generation_config.num_assistant_tokens = 4" in program
    assert "target.generation_config.assistant_confidence_threshold = 0.3" in program
    assert "draft.generation_config" not in program and found.verification is FULL_RATIO
    assert any("cache of its own" in note.en for note in found.notes)
    for name, engine in ENGINES.items():
        for method in ("early-exit", "draft-and-verify"):
            if (name, method) != ("transformers", "early-exit"):
                assert isinstance(engine.configure(make_wish(method)), Refusal), (name, method)


def test_every_method_has_a_family_and_new_ones_are_refused_not_guessed() -> None:
    families = {name: family_of(method.card) for name, method in METHODS.items()}
    assert families["autoregressive"] == "plain" and families["eagle-2"] == "eagle-2"
    text = LocalText("x", "x")
    card = MethodCard(name="n", title=text, one_liner=text, paper="p", paper_url="u")
    assert family_of(card) == "plain"
    odd = Param(name="window", symbol="", kind="int", default=1, help=text)
    for needs in ({"head:new"}, {"early_exit"}, set()):
        new = MethodCard(
            name="n",
            title=text,
            one_liner=text,
            paper="p",
            paper_url="u",
            needs=frozenset(needs),
            params=(odd,),
        )
        assert family_of(new) == "other"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_everything_that_is_said_exists_in_both_languages(lang: str) -> None:
    for wish in wishes():
        for engine in ENGINES.values():
            found = engine.configure(wish)
            if isinstance(found, Refusal):
                said = [found.reason, found.instead]
            else:
                said = [*found.notes, found.verification.about, found.verification.title]
                said += [one.title for one in found.blocks]
            assert all(getattr(text, lang).strip() for text in said)


def test_drafts_with_another_tokenizer() -> None:
    shared, spelled = (make_wish(name) for name in ("token-intersection", "string-match"))
    assert (shared.family, spelled.family) == ("token-intersection", "string-match")
    found = given(shared, "vllm")
    config = json.loads(block(found, "json"))
    assert config["use_heterogeneous_vocab"] is True and config["method"] == "draft_model"
    assert config["draft_sample_method"] == "greedy"
    assert found.verification is ONE_HOT and found.differs
    drawn, greedy = (given(wish, "transformers") for wish in (shared, spelled))
    for program in (drawn, greedy):
        text = block(program, "python")
        assert "assistant_tokenizer=draft_tokenizer," in text and "tokenizer=tokenizer," in text
        assert {"tokenizer", "assistant_tokenizer"} <= set(program.flags)
    assert drawn.verification is FULL_RATIO and "do_sample=True" in block(drawn, "python")
    assert greedy.verification is MATCH and "do_sample=False" in block(greedy, "python")
    assert "generation_config.assistant_lookbehind = 10" in block(greedy, "python")
    for name in ("sglang", "llama.cpp", TRT, "tgi"):
        assert all(isinstance(ENGINES[name].configure(w), Refusal) for w in (shared, spelled))
    assert isinstance(ENGINES["vllm"].configure(spelled), Refusal)


def test_suffix_decoding_is_asked_of_vllm_without_anyone_elses_text() -> None:
    wish = make_wish("suffix", {"max_depth": 32, "factor": 2.0, "min_probability": 0.2})
    found = given(wish, "vllm")
    assert json.loads(block(found, "json")) == {
        "method": "suffix",
        "num_speculative_tokens": 16,
        "suffix_decoding_max_tree_depth": 32,
        "suffix_decoding_max_spec_factor": 2.0,
        "suffix_decoding_min_token_prob": 0.2,
        "suffix_decoding_max_cached_requests": 0,
    }
    assert found.verification is ONE_HOT and not found.differs
    assert any("arctic-inference" in note.en for note in found.notes)
    tree = given(make_wish("suffix", {"mode": "tree", "offset": 2.0}), "vllm")
    notes = " ".join(note.en for note in tree.notes)
    assert tree.differs and "drafts a chain" in notes and "offset = 2.0 has no counterpart" in notes
    for engine in ENGINES.keys() - {"vllm"}:
        refusal = ENGINES[engine].configure(wish)
        assert isinstance(refusal, Refusal) and "Suffix decoding" in refusal.reason.en


def test_branches_of_prompt_lookup_become_a_chain_and_this_is_said() -> None:
    found = given(make_wish("prompt-lookup", {"branches": 3, "match": "frequent"}), "vllm")
    notes = " ".join(note.en for note in found.notes)
    assert "the tree of 24 candidates becomes its first branch of 8" in notes
    assert "match = frequent has no counterpart" in notes and found.differs
    assert not given(make_wish("prompt-lookup"), "vllm").differs
