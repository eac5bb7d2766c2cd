"""The package's layers, module names and docstrings, read from the source without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "speclab"
LAYERS = (
    ("core",),
    ("models",),
    ("engine",),
    ("methods",),
    ("testing", "stats", "training"),
    ("lab",),
    ("figures", "deploy"),
    ("ui",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
TOP = ("__init__", "__main__", "app")
"""The facade, the command line and the app stand above every layer."""
FORBIDDEN = {
    "core": ("torch", "transformers", "gradio", "plotly"),
    "figures": ("torch", "transformers", "gradio"),
    "stats": ("torch", "transformers", "gradio"),
    "ui": ("torch", "transformers"),
}
GRADIO_ONLY_IN = ("ui", "app", "__main__")
NAME_TRAPS = {
    *("types", "trace", "statistics", "random", "select", "tokenize", "profile"),
    *("utils", "util", "helpers", "misc"),
}


def sources() -> list[Path]:
    return [*sorted(PACKAGE.rglob("*.py")), *(path for path in [ROOT / "app.py"] if path.exists())]


def part_of(path: Path) -> str:
    """Return the sub-package of a file, or its stem at the top level."""
    parts = path.relative_to(PACKAGE if PACKAGE in path.parents else ROOT).with_suffix("").parts
    return parts[0]


def imports(tree: ast.AST, path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute module) of every import, those inside functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def faults_of(path: Path, source: str) -> list[str]:
    """Return "file:line: what is wrong" for each import that breaks the table."""
    part, found = part_of(path), []
    for line, module in imports(ast.parse(source), path):
        top, *rest = module.split(".")
        where = f"{path.relative_to(ROOT)}:{line}"
        if top in FORBIDDEN.get(part, ()):
            found.append(f"{where}: {part} imports {top}")
        if top == "gradio" and part not in GRADIO_ONLY_IN:
            found.append(f"{where}: gradio belongs to ui and app.py")
        other = rest[0] if top == "speclab" and rest else part
        if part in TOP or other == part or other not in LEVEL:
            continue
        if part not in LEVEL or LEVEL[other] >= LEVEL[part]:
            found.append(f"{where}: {part} imports {other}, which stands above or beside it")
    return found


def test_imports_follow_the_layers() -> None:
    found = [fault for path in sources() for fault in faults_of(path, path.read_text("utf-8"))]
    assert not found, "\n".join(found)


def test_every_subpackage_has_a_layer() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders <= LEVEL.keys(), f"not in the table of layers: {folders - LEVEL.keys()}"


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("speclab/core/laws.py", "import torch"),
        ("speclab/core/laws.py", "from speclab.models.toy import ToyModel"),
        ("speclab/core/laws.py", "def f():\n    from speclab import engine"),
        ("speclab/models/toy.py", "import gradio as gr"),
        ("speclab/stats/counters.py", "from speclab.testing import exact_law"),
        ("speclab/figures/tree.py", "from speclab.ui import texts"),
        ("speclab/ui/watch.py", "import torch"),
        ("speclab/elsewhere.py", "from speclab.core import laws"),
    ],
)
def test_a_wrong_import_is_found(file: str, line: str) -> None:
    assert faults_of(ROOT / file, line)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("speclab/engine/loop.py", "import torch\nfrom speclab.core.laws import Law"),
        ("speclab/__main__.py", "from speclab.lab.runs import generate"),
        ("speclab/ui/watch.py", "import gradio as gr\nfrom speclab.figures import tree"),
    ],
)
def test_a_right_import_is_not(file: str, line: str) -> None:
    assert faults_of(ROOT / file, line) == []


def test_no_module_shadows_the_standard_library_or_says_nothing() -> None:
    found = [str(path.relative_to(ROOT)) for path in sources() if path.stem in NAME_TRAPS]
    assert not found, f"rename: {found}"


def undocumented(path: Path) -> Iterator[str]:
    """Yield "file:line name" of public classes, functions and methods without a docstring."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    stack: list[tuple[ast.AST, str]] = [(ast.parse(path.read_text("utf-8")), "")]
    while stack:
        node, prefix = stack.pop()
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, kinds) or child.name.startswith("_"):
                continue
            name = prefix + child.name
            overload = any(getattr(d, "attr", "") == "setter" for d in child.decorator_list)
            if ast.get_docstring(child) is None and not overload:
                yield f"{path.relative_to(ROOT)}:{child.lineno} {name}"
            if isinstance(child, ast.ClassDef):
                stack.append((child, f"{name}."))


def test_every_public_name_has_a_docstring() -> None:
    found = [fault for path in sources() for fault in undocumented(path)]
    found += [
        f"{path.relative_to(ROOT)}:1 module"
        for path in sources()
        if ast.get_docstring(ast.parse(path.read_text("utf-8"))) is None
    ]
    assert not found, f"{len(found)} without a docstring:\n" + "\n".join(found)
