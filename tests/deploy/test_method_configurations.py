"""What single methods and engines get: rules, names, what is left out, what is refused."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from speclab.core.protocols import LocalText, MethodCard, Param
from speclab.deploy.engines import ENGINES
from speclab.deploy.plans import Configuration, Refusal, family_of, make_wish
from speclab.deploy.verification import BLOCK, FULL_RATIO, MATCH, ONE_HOT, TARGET_ONLY
from speclab.methods import METHODS
from tests.deploy.configuration_kit import TRT, block, dict_of, given, wishes


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
