"""The linter: what it says of commands from blogs, and of texts that nobody should paste."""

from __future__ import annotations

import importlib
import json
import time

import pytest

from speclab.core.errors import BadInput
from speclab.deploy.engines import ENGINES
from speclab.deploy.findings import Finding, unknown
from speclab.deploy.lint import MOST_CHARS, MOST_FINDINGS, lint
from speclab.deploy.plans import Configuration, make_wish
from speclab.methods import METHODS

lint_module = importlib.import_module("speclab.deploy.lint")


def errors(text: str, engine: str = "") -> dict[str, str]:
    """Return subject -> remark of everything that stops the engine."""
    return {f.subject: f.text.en for f in lint(text, engine).findings if f.state == "error"}


def states(text: str, engine: str = "") -> dict[str, str]:
    return {f.subject: f.state for f in lint(text, engine).findings}


def vllm(**config: object) -> str:
    return f"vllm serve m --speculative-config '{json.dumps(config)}'"


GOOD = {"method": "eagle3", "model": "h", "num_speculative_tokens": 3}


def test_what_is_generated_is_clean() -> None:
    seen = 0
    for method in METHODS:
        for name, engine in ENGINES.items():
            found = engine.configure(make_wish(method))
            if not isinstance(found, Configuration) or not found.flags:
                continue
            for one in found.blocks:
                if one.kind != "json" and name != "transformers" and one.kind == "python":
                    continue
                text = one.text
                report = lint(text, name)
                if method == "medusa" and name == "vllm":
                    assert report.num_errors == 1, "medusa is gone in 0.33.0"
                elif one.kind != "shell" or name != "tensorrt-llm":
                    assert not report.num_errors, (text, report.findings)
                    seen += 1
                assert not any(finding.state == "warning" for finding in report.findings), text
    assert seen > 20


@pytest.mark.parametrize(
    ("command", "engine"),
    [
        ("vllm serve m", "vllm"),
        ("python -m vllm.entrypoints.openai.api_server --model m", "vllm"),
        ("$ CUDA_VISIBLE_DEVICES=0 python3 -m sglang.launch_server --model m", "sglang"),
        ("./build/bin/llama-server -m x.gguf", "llama.cpp"),
        (r"C:/llama/llama-server.exe -m x.gguf", "llama.cpp"),
        ("docker run ghcr.io/x --speculate 3", "tgi"),
        ("trtllm-serve m --config c.yaml", "tensorrt-llm"),
        ("speculative_config:\n  decoding_type: MTP\n", "tensorrt-llm"),
        ("model.generate(**x, assistant_model=draft)", "transformers"),
        ("--spec-draft-n-max 3", "llama.cpp"),
        ("--speculative-num-steps 3", "sglang"),
        ('{"method": "ngram"}', "vllm"),
    ],
)
def test_the_engine_is_found_out(command: str, engine: str) -> None:
    report = lint(command)
    assert report.engine == engine and report.detected
    assert not lint(command, engine).detected


def test_old_flags_are_told_with_what_to_write_now() -> None:
    found = errors("vllm serve m --speculative-model d --num-speculative-tokens 5")
    assert '{"model": …}' in found["--speculative-model"]
    assert '{"num_speculative_tokens": …}' in found["--num-speculative-tokens"]
    found = errors("llama-server -m a -md b --draft-max 16 --draft-min 2 --spec-type draft-simple")
    assert "--spec-draft-n-max" in found["--draft-max"]
    assert "--spec-draft-n-min" in found["--draft-min"]
    assert "0.32.0 still has it" in errors(vllm(**{**GOOD, "method": "medusa"}))["method: medusa"]
    old = errors(vllm(**GOOD, disable_by_batch_size=4))["disable_by_batch_size"]
    assert "num_speculative_tokens_per_batch_size" in old
    assert "use_dynamic_tree" in errors("decoding_type: Eagle3\neagle_choices: x")["eagle_choices"]


def test_a_misspelt_flag_is_told_the_nearest_name() -> None:
    found = errors(
        "python -m sglang.launch_server --speculative-algorithm EAGLE --speculative-num-step5 3"
    )
    assert "--speculative-num-steps" in found["--speculative-num-step5"]
    found = errors(vllm(**GOOD, num_speculative_token=2))
    assert "num_speculative_tokens" in found["num_speculative_token"]
    wrong = errors("llama-server -m a -md b --spec-type draft-eagle")["--spec-type"]
    assert "draft-eagle3" in wrong
    found = errors("m.generate(prompt_lookup_tokens=3, max_matching_ngram_size=2)", "transformers")
    assert "prompt_lookup_num_tokens" in found["prompt_lookup_tokens"]


def test_options_that_exist_are_no_errors() -> None:
    llama = (
        "llama-server -m a -md b --spec-type draft-simple --threads-draft 4 -tbd 4 "
        "--spec-draft-threads 4 --override-tensor-draft x=CPU --n-cpu-moe-draft 3 "
        "--device-draft CUDA0 --hf-repo-draft r/d --lookup-cache-static f"
    )
    assert set(states(llama).values()) == {"fine"}
    yaml = (
        "decoding_type: Eagle3\neagle3_layers_to_capture: [1, 2]\neagle3_model_arch: llama3\n"
        "spec_dec_variant: x\n"
    )
    assert set(states(yaml).values()) == {"fine"}
    for text, name in (
        ("llama-server -m a --spec-draft-brand-new 1", "--spec-draft-brand-new"),
        ("decoding_type: MTP\neagle3_new: 1", "eagle3_new"),
    ):
        assert states(text)[name] == "warning", "the list is not the whole parser"
    assert states("vllm serve m --spec-brand-new 1")["--spec-brand-new"] == "error"


def test_keywords_of_generate_are_read_with_their_values() -> None:
    call = "m.generate(assistant_model=d, assistant_ensemble_weight={}, no_repeat_ngram_size=3)"
    for value, state in (("None", "fine"), ("1.0", "fine"), ("0.3", "warning"), ("w", "warning")):
        found = states(call.format(value))
        assert found["assistant_ensemble_weight"] == state, value
        assert "no_repeat_ngram_size" not in found
    wrong = "m.generate(assistant_model=d, num_assistant_tokens_schedule='linear')"
    assert "constant" in errors(wrong)["num_assistant_tokens_schedule"]
    assert not errors(wrong.replace("'linear'", "chosen"))


def test_an_option_of_another_engine_is_named() -> None:
    found = errors("vllm serve m --spec-draft-n-max 5")
    assert found["--spec-draft-n-max"] == "An option of llama.cpp, not of vLLM."


def test_options_that_are_not_about_speculation_are_counted_not_judged() -> None:
    report = lint("vllm serve m --port 8000 --max-model-len 4096 --trust-remote-code")
    assert report.unchecked == 3
    assert [f.state for f in report.findings] == ["note"]


def test_shortened_options_of_sglang() -> None:
    command = "python -m sglang.launch_server --speculative-algo EAGLE --speculative-draft d"
    found = states(command)
    assert found["--speculative-algo"] == "warning" and found["--speculative-draft"] == "error"
    assert "--speculative-algorithm" not in errors(command)


@pytest.mark.parametrize(
    ("more", "subject"),
    [
        ("--speculative-num-steps 3", "--speculative-num-steps"),
        (
            "--speculative-num-steps 2 --speculative-eagle-topk 2 "
            "--speculative-num-draft-tokens 20",
            "--speculative-num-draft-tokens",
        ),
        ("--speculative-use-block-verification", "--speculative-use-block-verification"),
        (
            "--speculative-use-rejection-sampling --speculative-num-steps 3 "
            "--speculative-eagle-topk 4 --speculative-num-draft-tokens 8",
            "--speculative-use-rejection-sampling",
        ),
        ("--speculative-adaptive --speculative-num-steps 4", "--speculative-num-steps"),
    ],
)
def test_what_sglang_refuses_at_start(more: str, subject: str) -> None:
    command = f"python -m sglang.launch_server --speculative-algorithm EAGLE {more}"
    assert subject in errors(command)


def test_what_sglang_changes_in_silence_is_a_warning() -> None:
    base = "python -m sglang.launch_server --speculative-algorithm"
    chain = "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 8"
    assert states(f"{base} EAGLE {chain}")["--speculative-num-draft-tokens"] == "warning"
    assert "--speculative-use-rejection-sampling" in errors(
        f"{base} STANDALONE --speculative-use-rejection-sampling"
    )
    lossy = lint(f"{base} EAGLE --speculative-accept-threshold-single 0.8").findings
    assert any("no longer follows" in finding.text.en for finding in lossy)
    exact = states(f"{base} EAGLE --speculative-accept-threshold-single 1.0")
    assert exact["--speculative-accept-threshold-single"] == "fine"
    assert states(f"{base} MINE")["MINE"] == "warning"
    assert "--speculative-algorithm" in errors(
        "python -m sglang.launch_server --speculative-num-steps 3"
    )


def test_a_draft_that_llama_cpp_would_not_use() -> None:
    assert states("llama-server -m a -md b")["-md"] == "warning"
    assert states("llama-server -m a -md b --spec-type draft-simple")["-md"] == "fine"
    assert "--spec-type" in errors("llama-server -m a --spec-type draft-simple")


@pytest.mark.parametrize(
    ("config", "subject"),
    [
        ({"method": "eagle3", "num_speculative_tokens": 3}, "model"),
        ({**GOOD, "num_speculative_tokens": 0}, "num_speculative_tokens"),
        ({**GOOD, "num_speculative_tokens": True}, "num_speculative_tokens"),
        ({**GOOD, "num_speculative_tokens": "3"}, "num_speculative_tokens"),
        (
            {**GOOD, "num_speculative_tokens_per_batch_size": [[1, 4, 5]]},
            "num_speculative_tokens_per_batch_size",
        ),
        (
            {**GOOD, "num_speculative_tokens_per_batch_size": {"1": 3}},
            "num_speculative_tokens_per_batch_size",
        ),
        ({**GOOD, "draft_sample_method": "random"}, "draft_sample_method"),
        ({**GOOD, "rejection_sample_method": "synthetic"}, "synthetic_acceptance_rates"),
        ({**GOOD, "synthetic_acceptance_length": 2}, "synthetic_acceptance_length"),
        ({**GOOD, "use_heterogeneous_vocab": True}, "use_heterogeneous_vocab"),
        ({"num_speculative_tokens": 3}, "method"),
        ({**GOOD, "tensor_parallel_size": 2}, "tensor_parallel_size"),
    ],
)
def test_json_that_vllm_refuses(config: dict, subject: str) -> None:
    assert subject in errors(vllm(**config))
    assert subject not in errors(vllm(**GOOD))


def test_lossy_and_synthetic_rules_are_warnings() -> None:
    for rule in ("fly", "synthetic"):
        found = states(vllm(**GOOD, rejection_sample_method=rule))
        assert found[f"rejection_sample_method: {rule}"] == "warning"


def test_short_forms_dots_underscores_and_python_are_read() -> None:
    twice = errors(vllm(**GOOD) + " --spec-tokens 4")
    assert "give it once" in twice["--spec-tokens"]
    dots = "vllm serve m --speculative-config.method eagle3 --speculative-config.model h "
    assert not errors(dots + "--speculative-config.num-speculative-tokens 3")
    assert "num_speculative_tokens" in errors(
        dots + "--speculative-config.num_speculative_tokens 0"
    )
    assert "foo" in errors('vllm serve m --speculative_config \'{"method": "ngram", "foo": 1}\'')
    python = "llm = LLM(model='m', speculative_config={'method': 'ngram', 'bar_ngram': None})"
    report = lint(python)
    assert report.engine == "vllm"
    assert "bar_ngram" in errors(python)


def test_half_a_surrogate_pair_in_json_is_shown_as_text() -> None:
    found = lint(r"""vllm serve m --speculative-config '{"a\ud800": 1, "method": "\ud800"}'""")
    assert all(finding.subject.encode() and finding.text.zh.encode() for finding in found.findings)
    assert any(finding.subject == "a?" for finding in found.findings)


def test_json_that_is_none() -> None:
    base = "vllm serve m --speculative-config "
    assert "double quotes" in errors(base + "\"{'method': 'ngram'}\"")["JSON"]
    assert "single quotes" in errors(base + '{"method":"ngram"}')["JSON"]
    assert "object" in errors(base + "'[1, 2]'")["JSON"]
    assert "deeply" in errors(base + "'" + "[" * 4000 + "]" * 4000 + "'")["JSON"]
    assert (
        "deeply" in errors("LLM(speculative_config={'a': " + "[" * 900 + "]" * 900 + "})")["JSON"]
    )


def test_what_web_pages_do_to_commands() -> None:
    found = lint("vllm serve m –speculative-config ‘{“method”:”ngram”}’")
    assert found.findings[0].state == "error" and "Typographic" in found.findings[0].text.en
    assert {"--speculative-config", "method"} <= {finding.subject for finding in found.findings}
    hidden = lint("vllm serve m --spec\u200b-method ngram \x00 \x1b[31m")
    assert hidden.findings[0].subject == "U+200B U+0000 U+001B"
    assert states("vllm serve m --spec\u200b-method ngram")["--spec-method"] == "fine"
    lines = "llama-server \\\n  -m a \\\r\n  --spec-type ngram-simple # why not\n"
    assert states(lines)["--spec-type"] == "fine"
    assert "never closed" in errors("vllm serve 'm --spec-method ngram")["'"]
    assert states("vllm serve m --spec-tokens 2 --spec-tokens 3")["--spec-tokens"] in (
        "warning",
        "fine",
    )


def test_hostile_texts_are_bounded() -> None:
    with pytest.raises(BadInput, match="at most 20,000"):
        lint("vllm " + "x" * MOST_CHARS)
    for empty in ("", "  \n\t"):
        with pytest.raises(BadInput, match="no command"):
            lint(empty)
    with pytest.raises(BadInput, match="No engine"):
        lint("rm -rf /tmp/nothing")
    with pytest.raises(BadInput, match="no engine 'bash'"):
        lint("x", "bash")
    many = lint("vllm serve m " + " ".join(f"--spec-{i}" for i in range(1500)))
    assert len(many.findings) == MOST_FINDINGS
    assert all(isinstance(f, Finding) and len(f.subject) <= 80 for f in many.findings)
    lint("vllm serve m --spec-" + "a" * 15_000)
    steps = "--speculative-num-steps " + "9" * 4_300
    lint(
        f"sglang.launch_server {steps} --speculative-eagle-topk 1 --speculative-num-draft-tokens 5"
    )
    assert many.unchecked == 0
    rest = lint("vllm serve m " + " ".join(f"--spec-{i}" for i in range(80)) + " --port 1")
    assert rest.unchecked == 1


def test_long_names_and_many_of_them_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    started = time.process_time()
    lint("vllm serve m --" + "accept" * 3_000)
    assert time.process_time() - started < 1.0
    asked = []
    monkeypatch.setattr(lint_module, "unknown", lambda *given: asked.append(1) or unknown(*given))
    lint("vllm serve m " + " ".join(f"--spec-{i}" for i in range(1500)))
    assert len(asked) == MOST_FINDINGS, "the nearest name is sought for those that are shown"


def test_nothing_is_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    lint("vllm serve m; touch pwned $(touch pwned) `touch pwned` --spec-method ngram")
    lint("LLM(speculative_config={'a': __import__('os').system('touch pwned')})")
    assert not list(tmp_path.iterdir())


def test_every_remark_exists_in_both_languages() -> None:
    for command in (
        "vllm serve m --speculative-model d –x ‘ --spec-method medusa --spec-tokens 0",
        "python -m sglang.launch_server --speculative-draft d --speculative-algo MINE",
        "llama-server -md b --draft 3 --spec-type x",
    ):
        for finding in lint(command).findings:
            assert finding.text.en and finding.text.zh and finding.text.en != finding.text.zh
