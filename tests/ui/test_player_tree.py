"""The draft tree in a browser: shapes, mask, one node, how it grew, keyboard, links both ways."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from speclab.core.records import Evidence, Round, Trace
from speclab.core.trees import TokenTree
from speclab.stats.depths import counts_by_depth
from speclab.ui.depths import depths
from speclab.ui.texts_player import EN, ZH
from tests.ui.player_harness import load_message
from tests.ui.player_traces import chain_trace, grown_trace, split_trace, tree_trace, wide_trace

FOLD = ".fold-body.tree"
VISIBLE = str.maketrans({" ": "·", "\n": "↵", "\t": "⇥"})


@pytest.fixture
def player(player):
    """Open players with a fold unfolded."""

    def open_(message: str | None, fold: str = "tree", **options):
        page = player(message, **options)
        page.evaluate(
            "(name) => { document.querySelector(`[data-fold=${name}]`).open = true; }", fold
        )
        page.wait_for_selector(f".fold-body.{fold} > *")
        return page

    return open_


def drawn_mask(page, size: int) -> np.ndarray:
    """Return bool[n+1, n+1] as the figure shows it."""
    rows = page.evaluate(
        "[...document.querySelectorAll('.mask-row')].map((row) =>"
        " [...row.querySelectorAll('.cell[data-col]')].map((cell) => +cell.dataset.col))"
    )
    mask = np.zeros((size + 1, size + 1), dtype=bool)
    assert len(rows) == size + 1
    for row, columns in enumerate(rows):
        mask[row, [column + 1 for column in columns]] = True
    return mask


@pytest.mark.browser
@pytest.mark.parametrize("make", [tree_trace, wide_trace, chain_trace], ids=lambda m: m.__name__)
def test_every_node_and_every_cell_is_the_records(player, make) -> None:
    trace = make()
    page = player(load_message(trace), query="?round=1&node=next")
    round_ = trace.rounds[1]
    size = len(round_.tree)
    assert page.locator(".tree-svg .node").count() == size + 1
    for state, count in states(round_).items():
        assert page.locator(f".tree-svg .node.{state}").count() == count, state
    assert page.locator(".tree-svg .on-path").count() == round_.num_accepted
    assert (drawn_mask(page, size) == round_.tree.ancestor_mask()).all()
    assert page.locator(".mask-row .cell.prefix").count() == size + 1
    columns = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.tree-svg .node')].map((node) =>"
        " [node.dataset.node, +node.getAttribute('aria-level') - 1]))"
    )
    assert [columns[str(node)] for node in range(size)] == list(round_.tree.position_offsets)


def states(round_: Round) -> dict[str, int]:
    tested = round_.num_tested
    return {
        "accepted": round_.num_accepted,
        "rejected": tested - round_.num_accepted,
        "untested": round_.num_drafted - tested,
    }


@pytest.mark.browser
@pytest.mark.parametrize("size", [1, 2, 24, 25, 64])
@pytest.mark.parametrize("width", [390, 1280])
def test_boxes_never_overlap_and_the_page_never_scrolls_sideways(player, size, width) -> None:
    page = player(load_message(wide_trace(size)), viewport={"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.evaluate(
        "[...document.querySelectorAll('.tree-svg .node rect')].map((box) =>"
        " ['x', 'y', 'width', 'height'].map((name) => +box.getAttribute(name)))"
    )
    assert len(boxes) == size + 1
    for at, (x, y, w, h) in enumerate(boxes):
        for other_x, other_y, other_w, other_h in boxes[:at]:
            apart = x >= other_x + other_w or other_x >= x + w
            assert apart or y >= other_y + other_h or other_y >= y + h
    drawing = page.locator(".tree-svg").bounding_box()
    assert max(x + w for x, _, w, _ in boxes) <= drawing["width"]


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_names_stay_inside_their_boxes_and_off_the_numbers(player, width) -> None:
    trace = grown_trace()
    chinese = base64.b64encode("可是没有找到".encode()).decode()
    pieces = dict.fromkeys(trace.pieces, chinese)
    page = player(
        load_message(replace(trace, pieces=pieces)),
        query="?round=0&node=0",
        viewport={"width": width, "height": 844},
    )
    page.locator(".grow-steps button").nth(3).click()
    boxes = page.evaluate(
        "[...document.querySelectorAll('.tree-svg .node:not(.pending)')].map((node) =>"
        " ['rect', '.node-name', '.node-chance'].map((part) => {"
        " const b = node.querySelector(part).getBoundingClientRect();"
        " return [b.left, b.right, b.top, b.bottom]; }))"
    )
    assert boxes
    for box, name, chance in boxes:
        assert box[0] <= name[0] and name[1] <= box[1] + 1
        assert name[1] <= chance[0] + 1 or name[3] <= chance[2] + 4


@pytest.mark.browser
def test_an_empty_proposal_and_a_chain_say_what_they_are(player) -> None:
    page = player(load_message(split_trace()))
    assert page.locator(FOLD).inner_text() == EN["tree_empty"]
    page = player(load_message(chain_trace(60)), query="?round=0&node=0")
    assert EN["chain_caption"] in page.locator(FOLD).inner_text()
    tops = page.evaluate(
        "[...document.querySelectorAll('.tree-svg .node rect')].map((b) => b.getAttribute('y'))"
    )
    assert len(set(tops)) == 1, "a chain is one line"


# --- one node --------------------------------------------------------------------------------


def facts(page) -> dict[str, str]:
    names = page.locator(".node-facts dt").all_text_contents()
    return dict(zip(names, page.locator(".node-facts dd").all_text_contents(), strict=True))


def prob(value: float) -> str:
    """Return a probability as the player writes it."""
    if 0 < value < 0.0005:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e-{-int(exponent)}"
    text = f"{value:.3f}"
    return text[:-1] if text.endswith("0") else text


@pytest.mark.browser
def test_a_hovered_node_lights_its_path_its_row_and_its_cells(player) -> None:
    trace = tree_trace()
    round_ = trace.rounds[1]
    page = player(load_message(trace), query="?round=1&node=next")
    node = next(n for n in range(len(round_.tree)) if round_.tree.depth(n) == 3)
    page.locator(f'.tree-svg [data-node="{node}"]').hover()
    path = round_.tree.path(node)
    lit = page.locator(".tree-svg .node.seen")
    seen = {int(lit.nth(i).get_attribute("data-node")) for i in range(lit.count())}
    assert seen == {-1, *path[:-1]}
    assert page.locator(".mask-row.self").get_attribute("data-node") == str(node)
    cells = page.locator(".mask-row.self .cell[data-col]")
    columns = {int(cells.nth(i).get_attribute("data-col")) for i in range(cells.count())}
    assert columns == {-1, *path}
    names = page.locator(".node-path .name").all_text_contents()
    words = [trace.piece(token).decode() for token in round_.tree.path_tokens(node)]
    assert names[1:] == [word.translate(VISIBLE) for word in words]
    prefix = round_.context_length - 1
    assert facts(page)[EN["node_position"]] == f"{prefix} + 3 = {prefix + 3}"


@pytest.mark.browser
def test_a_tested_nodes_probabilities_are_those_of_its_slice(player) -> None:
    trace = tree_trace()
    round_ = trace.rounds[0]
    flip, cut = round_.verdict.flips[0], round_.slices[0]
    page = player(load_message(trace), query=f"?round=0&node={flip.node}")
    at = cut.tokens.index(flip.token)
    shown = facts(page)
    assert shown[EN["node_draft"]] == prob(cut.raw_draft[at])
    assert shown[EN["node_path"]] == prob(cut.raw_draft[at])
    assert shown[EN["node_target"]] == prob(cut.raw_target[at])
    untested = next(n for n in range(len(round_.tree)) if n not in judged(round_))
    page.locator(f'.tree-svg [data-node="{untested}"]').hover()
    assert facts(page)[EN["node_target"]] == EN["state_untested"]
    assert facts(page)[EN["node_draft"]] == EN["not_recorded"]


def judged(round_: Round) -> set[int]:
    return {flip.node for flip in round_.verdict.flips}


@pytest.mark.browser
def test_strip_card_tree_and_mask_are_linked_both_ways(player) -> None:
    trace = tree_trace()
    page = player(load_message(trace), query="?round=1&node=next")
    node = trace.rounds[1].verdict.flips[0].node
    page.locator(f'.rounds-slot [data-k="1:{node}"]').hover()
    assert page.locator(".tree-svg .node.self").get_attribute("data-node") == str(node)
    assert page.locator(".mask-row.self").get_attribute("data-node") == str(node)
    page.locator(f'.mask-row[data-node="{node}"] .name').click()
    assert page.locator(".card").get_attribute("data-k") == f"1:{node}"
    assert page.locator(".pinned").count() == 1
    assert f"node={node}" in page.url
    other = next(n for n in range(len(trace.rounds[1].tree)) if n != node)
    page.locator(f'.tree-svg [data-node="{other}"]').hover()
    assert page.locator(".card.preview").get_attribute("data-k") == f"1:{other}"
    page.mouse.move(5, 5)
    assert page.locator(".card").get_attribute("data-k") == f"1:{node}"
    assert page.locator(".tree-svg .node.self").get_attribute("data-node") == str(node)


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_moves_under_the_pointer(player, width) -> None:
    trace = tree_trace()
    page = player(
        load_message(trace), query="?round=1&node=next", viewport={"width": width, "height": 700}
    )
    page.locator(".tree-svg").scroll_into_view_if_needed()
    tops = set()
    for node in range(-1, len(trace.rounds[1].tree)):
        page.locator(f'.tree-svg [data-node="{node}"]').dispatch_event(
            "pointerover", {"pointerType": "mouse", "bubbles": True}
        )
        tops.add(page.locator(".tree-svg").bounding_box()["y"])
    assert max(tops) - min(tops) < 2  # the page scrolls by whole pixels, cards end between them


@pytest.mark.browser
def test_the_keyboard_walks_the_tree(player) -> None:
    trace = tree_trace()
    tree = trace.rounds[1].tree
    page = player(load_message(trace), query="?round=1&node=next")
    assert page.locator(".tree-svg .node[tabindex='0']").count() == 1
    page.locator(".tree-svg .node[tabindex='0']").focus()

    def at() -> int:
        return int(page.evaluate("document.activeElement.dataset.node"))

    assert at() == -1
    page.keyboard.press("ArrowRight")
    first = at()
    assert tree.parents[first] == -1
    page.keyboard.press("ArrowDown")
    below = at()
    assert below != first and tree.depth(below) == 1
    assert page.locator(".card.preview").get_attribute("data-k") == f"1:{below}"
    assert page.locator(".mask-row.self").get_attribute("data-node") == str(below)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    assert tree.parents[at()] == first
    page.keyboard.press("Enter")
    assert page.locator(".card").get_attribute("data-k") == f"1:{at()}"
    assert page.locator(".pinned").count() == 1
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert at() == -1
    assert page.locator("#host").get_attribute("data-round") == str(len(trace.rounds) - 1)
    assert page.locator(".tree-svg .node[tabindex='0']").count() == 1


# --- how it grew -----------------------------------------------------------------------------


def grown_of(round_: Round) -> Evidence:
    return next(item for item in round_.evidence if item.kind == "grown")


def all_depths(tree: TokenTree, grown: Evidence) -> list[int]:
    found = list(tree.position_offsets)
    for parent in grown.parents:
        found.append(1 if parent < 0 else found[parent] + 1)
    return found


@pytest.mark.browser
def test_sub_steps_grow_the_tree_level_by_level_and_then_choose(player) -> None:
    trace = grown_trace()
    round_ = trace.rounds[0]
    grown = grown_of(round_)
    found = all_depths(round_.tree, grown)
    page = player(load_message(trace), reduced_motion="reduce")
    page.locator("label", has_text=EN["substeps"]).click()
    for level in range(1, max(found) + 1):
        assert page.locator(".stages [aria-current=step]").get_attribute("data-stage") == "draft"
        shown = page.locator(".tree-svg .node:not(.pending)")
        assert shown.count() == sum(depth <= level for depth in found)
        assert page.locator(".tree-svg .node.newest").count() == found.count(level)
        fed = [place for place in grown.expanded if found[place] < level]
        assert page.locator(".tree-svg .node.fed:not(.pending)").count() == len(fed)
        assert page.locator(".mask-svg").count() == 0, "the target has seen nothing yet"
        last = [place for place in grown.expanded if found[place] == level - 1]
        values = {"level": level, "fed": len(last), "n": found.count(level)}
        text = EN["grow_first" if level == 1 else "grow_level_part"].format(**values)
        assert page.locator(".grow-text").inner_text() == text
        assert page.locator(".card .sentence").inner_text() == text
        hidden = page.locator(".rnd[data-r='0'] .tok.unseen")
        deeper = [n for n in judged(round_) if round_.tree.depth(n) > level]
        assert hidden.count() == len(deeper) + 1
        page.get_by_label(EN["next"], exact=True).click()
    assert page.locator(".tree-svg .node.kept").count() == len(round_.tree)
    assert page.locator(".tree-svg .node.dropped").count() == len(grown.tokens)
    text = page.locator(".grow-text").inner_text()
    assert f"{len(found) + 5} candidates" in text and f"{len(grown.tokens) + 5} are dropped" in text
    assert EN["grow_hidden"].format(n=5) in text
    page.get_by_label(EN["next"], exact=True).click()
    assert page.locator(".stages [aria-current=step]").get_attribute("data-stage") == "verify"
    assert page.locator(".tree-svg .node").count() == len(round_.tree) + 1
    assert (drawn_mask(page, len(round_.tree)) == round_.tree.ancestor_mask()).all()


@pytest.mark.browser
def test_buttons_lead_to_the_levels_of_the_pinned_tokens_round(player) -> None:
    trace = grown_trace()
    page = player(load_message(trace), query="?round=1&node=0")
    buttons = page.locator(".grow-steps button")
    levels = max(all_depths(trace.rounds[1].tree, grown_of(trace.rounds[1])))
    assert buttons.all_text_contents() == [
        *(str(level + 1) for level in range(levels)),
        EN["grow_rerank_short"],
        EN["grow_judged"],
    ]
    assert buttons.last.get_attribute("aria-pressed") == "true"
    buttons.nth(1).click()
    assert page.locator("#host").get_attribute("data-round") == "1"
    assert page.locator("#host").get_attribute("data-step") == "1"
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"
    assert page.locator(".staged").count() == 1
    buttons.last.click()
    assert page.locator(".tree-svg .node.accepted").count() == trace.rounds[1].num_accepted


@pytest.mark.browser
def test_a_dropped_candidate_is_explained_and_is_no_token_of_the_run(player) -> None:
    trace = grown_trace()
    round_ = trace.rounds[0]
    grown, size = grown_of(round_), len(round_.tree)
    page = player(load_message(trace), query="?round=0&node=0")
    page.locator(".grow-steps button", has_text=EN["grow_rerank_short"]).click()
    card = page.locator(".card").get_attribute("data-k")
    place = next(at for at, parent in enumerate(grown.parents) if parent >= 0)
    page.locator(f'.tree-svg [data-node="{size + place}"]').hover()
    assert page.locator(".card").get_attribute("data-k") == card
    shown = facts(page)
    sure = next(item for item in round_.evidence if item.kind == "confidence").values
    values = [*sure, *grown.values]
    parent = grown.parents[place]
    assert shown[EN["node_path"]] == prob(grown.values[place])
    assert shown[EN["node_draft"]] == prob(grown.values[place] / values[parent])
    assert shown[EN["node_target"]] == "–"


@pytest.mark.browser
def test_a_trace_of_many_nodes_is_refused_a_drawing(player) -> None:
    round_ = chain_trace(20).rounds[0]
    tree = TokenTree((1,) * 161, (-1,) * 161)
    huge = replace(
        round_, tree=tree, sampled=(False,) * 161, slices=(), verdict=round_.verdict, evidence=()
    )
    verdict = replace(round_.verdict, accepted=(), flips=())
    trace = replace(chain_trace(20), rounds=(replace(huge, verdict=verdict),))
    page = player(load_message(trace))
    assert "161" in page.locator(FOLD).inner_text()
    assert page.locator(".tree-svg").count() == 0


# --- looks -----------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize(("labels", "body"), [(EN, ""), (ZH, "dark")], ids=["en", "zh-dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_states_differ_in_shape_and_all_words_are_there(player, labels, body, width) -> None:
    trace = grown_trace()
    page = player(
        load_message(trace),
        labels=labels,
        body=body,
        viewport={"width": width, "height": 844},
        query="?round=0&node=0",
    )
    looks = page.evaluate(
        "['accepted', 'rejected', 'untested'].map((kind) => { const box ="
        " document.querySelector(`.tree-key .node.${kind} rect`), style = getComputedStyle(box);"
        " return [style.strokeDasharray, box.getAttribute('rx')].join(); })"
    )
    assert len(set(looks)) == 3
    page.locator(".grow-steps button").nth(1).click()
    text = page.locator(FOLD).inner_text()
    assert labels["grow_caption"] in text and "{" not in text
    sizes = page.evaluate(
        "[...document.querySelectorAll('.grow-steps button')].map((b) => b.offsetHeight)"
    )
    assert min(sizes) >= 44
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
def test_a_round_of_the_bundled_head_grows_in_the_page(player) -> None:
    """A recording of the real method, where one is bundled."""
    folder = Path(__file__).parents[2] / "assets" / "traces"
    files = sorted(folder.glob("*eagle*.json"))
    if not files:
        pytest.skip("no recording of a dynamic tree is bundled")
    trace = Trace.from_json(files[0].read_text(encoding="utf-8"))
    page = player(load_message(trace), query="?round=0&node=next")
    assert page.locator(".tree-svg .node").count() == len(trace.rounds[0].tree) + 1
    if any(item.kind == "grown" for item in trace.rounds[0].evidence):
        page.locator(".grow-steps button").first.click()
        assert page.locator(".tree-svg .node.candidate").count() > 0


# --- depths ----------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("make", [tree_trace, chain_trace], ids=lambda make: make.__name__)
def test_acceptance_by_depth_is_the_counted_one(player, make, lang) -> None:
    trace = make()
    page = player(load_message(trace, depths=depths(trace, lang)), fold="depths")
    rows = page.locator(".depths-table tbody tr")
    counts = counts_by_depth(trace.rounds)
    assert rows.count() == len(counts)
    is_tree = make is tree_trace
    for at, row in enumerate(counts):
        bars = rows.nth(at).locator(".share-bar")
        shares = [row.cumulative, *([] if row.conditional is None else [row.conditional])]
        widths = [
            float(bars.nth(i).get_attribute("style").removeprefix("width:").rstrip("%;"))
            for i in range(bars.count())
        ]
        assert widths == pytest.approx([100 * share for share in shares], abs=0.006)
        cells = rows.nth(at).locator("td").all_text_contents()[2:]
        wanted = [row.tested, row.drafted] if is_tree else []
        assert cells == [EN["not_available"] if v is None else f"{v:.2f}" for v in wanted]
    about = page.locator(".depths-about").inner_text()
    assert depths(trace, lang)["about"][0]["text"] in about
    assert page.locator(".depths-about .badge").text_content() == EN["badge_counted"]


@pytest.mark.browser
def test_a_run_without_drafts_has_no_depths(player) -> None:
    trace = split_trace()
    page = player(load_message(trace, depths=depths(trace, "en")), fold="depths")
    assert page.locator(".fold-body.depths").inner_text() == EN["no_depths"]
