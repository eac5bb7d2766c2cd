"""The tab Deploy: what its functions answer, and the page in a browser, in both languages."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import app as app_script
from speclab.core.errors import BadInput
from speclab.deploy.engines import ENGINES
from speclab.methods import METHODS
from speclab.ui import deploy_view, tab_deploy
from speclab.ui.backend import Lab, default_lab
from speclab.ui.deploy_view import config_reply, lint_reply, options, read_reply
from speclab.ui.prove_panel import answering
from speclab.ui.texts_deploy import DEPLOY
from speclab.ui.texts_errors import error_text
from tests.deploy.page_server import PAGES, page_server

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

ASSETS = Path(tab_deploy.__file__).parents[2] / "assets"
APP = Path(__file__).with_name("deploy_app.py")
SLOW_MS = 90_000
browser_test = pytest.mark.browser
CONFIG = {"method": "draft-model", "engine": "vllm", "params": {"num_speculative_tokens": 3}}


@pytest.fixture(scope="module")
def lab() -> Lab:
    return default_lab(allow_fetch=True)


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SYSTEM", "SPACE_ID"):
        monkeypatch.delenv(name, raising=False)


# --- without a browser ----------------------------------------------------------------------------


def test_every_word_exists_in_both_languages_with_the_same_slots() -> None:
    english, chinese = DEPLOY["en"], DEPLOY["zh"]
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        slots = [sorted(re.findall(r"\{(\w+)\}", each)) for each in (text, chinese[key])]
        assert slots[0] == slots[1], key


def test_every_word_is_used() -> None:
    code = [Path(deploy_view.__file__), Path(tab_deploy.__file__)]
    code += [*(ASSETS / "js" / "deploy").glob("*.js")]
    text = "\n".join(path.read_text("utf-8") for path in code)
    made = ("dp_length_", "dp_rule_", "dp_state_", "dp_badge_", "dp_source_", "dp_col_")
    made += ("dp_target", "dp_draft", "dp_head", "dp_yes", "dp_other", "dp_no")
    for key in DEPLOY["en"]:
        assert key in text or key.startswith(made), key


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_table_is_what_the_generators_answer(lab: Lab, lang: str) -> None:
    given = options(lab, lang)
    assert list(given["table"]) == list(METHODS)
    table = given["table"]
    assert table["draft-model"]["tgi"] == "no" and table["draft-model"]["vllm"] == "yes"
    assert table["draft-model"]["sglang"] == "other", "its drafts are chosen, not drawn"
    assert table["eagle-3"] == {
        "vllm": "other",
        "sglang": "yes",
        "llama.cpp": "other",
        "tensorrt-llm": "yes",
        "tgi": "no",
        "transformers": "no",
    }
    for engine in ("llama.cpp", "tensorrt-llm"):
        assert table["draft-model"][engine] == "other", "its drafts are chosen, not drawn"
    assert set(table["hydra"].values()) == {"no"}
    assert json.loads(json.dumps(given)) == given


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_method_and_engine_answers(lab: Lab, lang: str) -> None:
    for method in METHODS:
        for engine in ENGINES:
            reply = config_reply({"method": method, "engine": engine}, lang)
            assert reply["badge"].startswith(ENGINES[engine].title)
            known = options(lab, lang)["table"][method][engine] if engine == "vllm" else None
            if "refusal" in reply:
                assert known in (None, "no") and "https://" in reply["refusal"]
            else:
                assert reply["blocks"][0]["text"] and reply["verified"]["text"]


def test_a_configuration_takes_parameters_and_names() -> None:
    reply = config_reply({**CONFIG, "target": "a'b", "draft": "d"}, "en")
    assert '"num_speculative_tokens": 3' in reply["blocks"][1]["text"]
    assert """'a'"'"'b'""" in reply["blocks"][0]["text"]
    assert reply["verified"]["mark"] == "Lossless."
    medusa = config_reply({"method": "medusa", "engine": "vllm"}, "zh")
    assert "0.32.0" in medusa["badge"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "nope"},
        {"engine": "nope"},
        {"params": {"num_speculative_tokens": 99}},
        {"params": {"num_speculative_tokens": None}},
        {"params": {"num_speculative_tokens": "3"}},
        {"params": {"__class__": 1}},
        {"target": "--evil"},
        {"target": "x\u0000"},
        {"length": "x"},
        {"rule": "x"},
    ],
)
def test_wrong_requests_are_sentences_in_both_languages(wrong: dict) -> None:
    with pytest.raises(BadInput) as caught:
        config_reply({**CONFIG, **wrong}, "en")
    chinese = error_text(caught.value, "zh")
    assert re.search("[\u4e00-\u9fff]", chinese)


def test_requests_that_no_page_makes_say_so() -> None:
    ask = answering(lambda given: config_reply(given, "en"), "config", "en", "Deploy")
    for payload in (
        "",
        "[]",
        "{}",
        '{"method": []}',
        '{"method": "mtp", "engine": "vllm", "params": 3}',
    ):
        assert "error" in json.loads(ask(payload))


def test_a_command_is_checked_in_both_languages() -> None:
    text = "vllm serve m --speculative-model d --port 1"
    for lang in ("en", "zh"):
        reply = lint_reply({"text": text, "engine": ""}, lang)
        assert reply["errors"] == 1 and reply["findings"][0]["state"] == "error"
        assert reply["findings"][0]["mark"] == DEPLOY[lang]["dp_state_error"]
        assert "1" in reply["unchecked"]
    with pytest.raises(BadInput) as caught:
        lint_reply({"text": "", "engine": ""}, "zh")
    assert error_text(caught.value, "zh").startswith("没有命令")


def test_a_server_is_read_twice_and_nothing_is_kept_here(lab: Lab) -> None:
    with page_server() as server:
        asked = {"source": "address", "address": f"{server.address}/vllm-1"}
        first = read_reply(lab, asked, "en")
        kept = json.loads(json.dumps(first["reading"]))
        asked = {"source": "address", "address": f"{server.address}/vllm-2", "first": kept}
        second = read_reply(lab, asked, "en")
    rows = {row[0]: row[1] for row in second["table"]["rows"]}
    assert first["title"].startswith("vLLM, since") and "between" in second["title"]
    assert rows["drafts accepted"] == "450" and rows["mean acceptance length"] == "2.8"
    assert "tokens per round τ" not in rows or rows["tokens per round τ"] != "2.8"
    assert rows["acceptance by position · 3"] == "0.44"


def test_pasted_pages_and_details_need_no_server(lab: Lab) -> None:
    closed = dataclasses.replace(lab, allow_fetch=False)
    text = (PAGES / "sglang-1.txt").read_text()
    reply = read_reply(closed, {"source": "page", "text": text}, "zh")
    shown = " ".join(" ".join(row) for row in reply["table"]["rows"])
    assert "引擎报告" in shown and "引擎的设置" in shown
    steps = {"num_spec_steps": 1, "per_step_accepted": [1], "per_step_drafted": [2]}
    reply = read_reply(closed, {"source": "details", "text": json.dumps(steps)}, "en")
    assert reply["title"] == "One request of vLLM." and "reading" not in reply


def test_addresses_are_refused_where_visitors_come_from_elsewhere(lab: Lab, monkeypatch) -> None:
    asked = {"source": "address", "address": "http://127.0.0.1:1/"}
    with pytest.raises(BadInput) as caught:
        read_reply(dataclasses.replace(lab, allow_fetch=False, allow_local=True), asked, "en")
    assert caught.value.code == "metrics_visitors", "folders are another permission"
    assert "--allow-fetch" in str(caught.value) and "--allow-fetch" in error_text(
        caught.value, "zh"
    )
    with pytest.raises(BadInput, match="cannot be reached"):
        read_reply(lab, asked, "en")
    monkeypatch.setenv("SPACE_ID", "someone/lab")
    with pytest.raises(BadInput) as caught:
        read_reply(lab, asked, "zh")
    assert error_text(caught.value, "zh").startswith("Space 上不能读取服务器")


@pytest.mark.parametrize(
    ("given", "local", "fetch"),
    [
        ([], True, True),
        (["--host", "0.0.0.0"], False, False),
        (["--host", "0.0.0.0", "--allow-local"], True, False),
        (["--host", "0.0.0.0", "--allow-fetch"], False, True),
        (["--no-allow-fetch"], True, False),
    ],
)
def test_asking_addresses_has_an_option_of_its_own(
    given: list[str], local: bool, fetch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GRADIO_SERVER_NAME", "GRADIO_SHARE"):
        monkeypatch.delenv(name, raising=False)
    made: list[dict[str, bool]] = []
    page = SimpleNamespace(launch=lambda **options: None)
    monkeypatch.setattr(app_script, "default_lab", lambda **more: made.append(more))
    monkeypatch.setattr(app_script, "build", lambda lab: page)
    monkeypatch.setattr(sys, "argv", ["app.py", *given])
    app_script.main()
    assert made == [{"allow_local": local, "allow_fetch": fetch}]


def test_a_kept_read_that_was_changed_is_a_bad_request(lab: Lab) -> None:
    ask = answering(lambda given: read_reply(lab, given, "en"), "read", "en", "Deploy")
    page = (PAGES / "vllm-1.txt").read_text()
    for first in ({"engine": "vllm"}, {"engine": "vllm", "counters": []}, "x", [1]):
        reply = json.loads(ask(json.dumps({"source": "page", "text": page, "first": first})))
        assert "error" in reply and "Traceback" not in reply["error"]
    big = json.loads(ask(json.dumps({"source": "page", "text": "x" * (4 * 1024**2 + 1)})))
    assert "4,194,305" in big["error"]


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def app(serve) -> str:
    return serve(APP)


@pytest.fixture
def visit(open_page) -> Callable:
    """Open the tab with the switch on."""

    def open_(url: str, lang: str = "en", **more):
        page = open_page(f"{url}/zh" if lang == "zh" else url, **more)
        page.set_default_timeout(SLOW_MS)
        expect.set_options(timeout=SLOW_MS)
        page.wait_for_selector("#deploy .pv-root[data-ready]")
        return page

    return open_


@browser_test
def test_from_a_cell_to_a_configuration_a_refusal_and_the_clipboard(app: str, visit) -> None:
    page = visit(app, permissions=["clipboard-read", "clipboard-write"])
    answer = page.locator("#deploy .dp-answer")
    expect(answer).to_be_hidden()
    page.locator("#deploy .dp-cell[aria-label^='EAGLE-3'][aria-label*='SGLang']").click()
    expect(answer).to_have_attribute("data-engine", "sglang")
    expect(answer.locator("pre").first).to_contain_text("EAGLE3")
    page.fill("#deploy [data-field=head]", "<img src=x onerror=alert(1)> ${1+1} {{x}}")
    expect(answer.locator("pre").first).to_contain_text(
        "'<img src=x onerror=alert(1)> ${1+1} {{x}}'"
    )
    page.fill("#deploy [data-field=depth]", "3")
    expect(answer.locator("pre").first).to_contain_text("--speculative-num-steps 3")
    answer.locator("[data-copy]").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("python -m sglang.launch_server \\\n  --model-path TARGET")
    page.fill("#deploy [data-field=depth]", "99")
    expect(page.locator("#deploy [data-config] .pv-status")).to_contain_text("depth")
    page.select_option("#deploy [data-field=method]", "hydra")
    expect(answer).to_have_attribute("data-kind", "refusal")
    assert page.evaluate("localStorage.getItem('speclab-engineer')") == "1"


@browser_test
def test_lint_and_two_reads_on_a_phone_in_chinese_and_in_the_dark(app: str, visit) -> None:
    page = visit(app, lang="zh", viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.locator("#deploy .dp-switch").click()
    for summary in page.locator("#deploy summary").all():
        summary.click()
    page.fill("#deploy [data-field=command]", "llama-server -m a -md b --draft-max 8")
    page.get_by_role("button", name=DEPLOY["zh"]["dp_check"], exact=True).click()
    expect(page.locator("#deploy [data-lint]")).to_have_attribute("data-errors", "1")
    expect(page.locator("#deploy .dp-finding.error")).to_contain_text("--spec-draft-n-max")
    box = page.locator("#deploy [data-metrics]")
    with page_server() as server:
        page.fill("#deploy [data-field=address]", f"{server.address}/vllm-1")
        page.get_by_role("button", name=DEPLOY["zh"]["dp_read"], exact=True).click()
        expect(box).to_have_attribute("data-reads", "1")
        page.fill("#deploy [data-field=address]", f"{server.address}/vllm-2")
        page.get_by_role("button", name=DEPLOY["zh"]["dp_again"], exact=True).click()
        expect(box).to_have_attribute("data-reads", "2")
    expect(box.locator("tbody")).to_contain_text("450")
    page.fill("#deploy [data-field=address]", "file:///etc/passwd")
    page.get_by_role("button", name=DEPLOY["zh"]["dp_again"], exact=True).click()
    expect(box.locator(".pv-status")).to_contain_text("只读取 http")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#deploy .dp-switch").bounding_box()["height"] >= 44
