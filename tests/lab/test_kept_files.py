"""What may be kept for the pages, and how: nothing partial, nothing of a busy machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from speclab.__main__ import app
from speclab.core.errors import BadInput
from speclab.lab.terminal import check_ends, deliver


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["families", "--keep", "--methods", "suffix"], "usual methods"),
        (["families", "--keep", "--allow-busy"], "exclude"),
        (["heads", "--keep", "--pair", "custom:org/a|org/b"], "catalogue"),
        (["bench", "--keep", "--pair", "custom:org/a|org/b"], "catalogue"),
        (["quantspec", "--keep", "--pair", "nowhere"], "catalogue"),
        (["multi-draft", "--keep", "--top-k", "5"], "usual methods"),
        (["search-layers", "--keep", "--pair", "custom:a|b"], "catalogue"),
        (["sweep", "--axis", "batch", "--methods", "suffix"], "raw passes"),
        (["predict", "--recommend", "draft-model", "--keep"], "not kept"),
    ],
)
def test_a_report_that_may_not_be_kept_is_refused_before_any_work(
    arguments: list[str], said: str
) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 or isinstance(done.exception, BadInput)
    assert said in f"{done.output} {done.exception}"


def test_a_kept_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    kept, shown = tmp_path / "report.json", []
    kept.write_text('{"old": 1}\n', encoding="utf-8")
    with pytest.raises(BadInput, match="JSON"):
        deliver({"speed": float("nan")}, None, kept, shown.append)
    assert len(shown) == 1, "what was measured is shown even if it cannot be kept"
    assert json.loads(kept.read_text(encoding="utf-8")) == {"old": 1}
    deliver({"speed": 2.0}, None, kept, shown.append)
    assert json.loads(kept.read_text(encoding="utf-8")) == {"speed": 2.0}
    assert list(tmp_path.iterdir()) == [kept]


def test_pairs_of_the_catalogue_are_kept_from_a_quiet_machine() -> None:
    check_ends(None, True, "pocket")
    check_ends(None, False, "custom:a|b", allow_busy=True, usual=False)
