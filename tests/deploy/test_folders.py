"""Exported folders: loaded by Transformers and run by the generated program; layouts; refusals."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from safetensors import safe_open

from speclab.core.errors import BadInput
from speclab.deploy.engines import ENGINES
from speclab.deploy.folders import export_folder
from speclab.deploy.plans import Configuration, make_wish
from speclab.models import catalogue

ASSETS = Path(__file__).parents[2] / "assets" / "models"


def tensors(place: Path) -> dict[str, tuple[int, ...]]:
    with safe_open(place, "pt") as file:
        return {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "load_pair", cache(catalogue.load_pair))
        for kind in ("draft", "target", "eagle3", "medusa"):
            export_folder(kind, "pocket", root / kind, say=print)
    return root


def test_the_generated_program_runs_on_the_exported_pair(exported: Path, capsys) -> None:
    wish = make_wish("draft-model", target=str(exported / "target"), draft=str(exported / "draft"))
    found = ENGINES["transformers"].configure(wish)
    assert isinstance(found, Configuration)
    program = found.blocks[0].text.replace("max_new_tokens=64", "max_new_tokens=8")
    exec(compile(program, "generated", "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith("4 constant 0.0\n") and "Once upon a time" in said


def test_weights_can_be_read_by_an_engine_of_another_user(exported: Path) -> None:
    weights = list(exported.rglob("*.safetensors"))
    assert len(weights) >= 4 and all(path.stat().st_mode & 0o044 == 0o044 for path in weights)


def test_models_keep_their_weights_and_older_readers_find_their_names(exported: Path) -> None:
    for kind in ("draft", "target"):
        source, folder = ASSETS / "pocket" / kind, exported / kind
        weights = "model.safetensors"
        assert (folder / weights).read_bytes() == (source / weights).read_bytes()
        config = json.loads((folder / "config.json").read_text())
        assert config["rope_theta"] == 10_000.0 and config["torch_dtype"] == "float16"
        told = json.loads((folder / "tokenizer_config.json").read_text())
        assert told["tokenizer_class"] == "PreTrainedTokenizerFast"
        assert "local_files_only" not in told


def test_an_eagle_head_carries_embedding_map_and_architecture(exported: Path) -> None:
    found = tensors(exported / "eagle3" / "model.safetensors")
    config = json.loads((exported / "eagle3" / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert found["embed_tokens.weight"] == (config["vocab_size"], config["hidden_size"])
    assert found["d2t"] == (config["draft_vocab_size"],)
    assert "midlayer.self_attn.q_proj.weight" in found


def test_medusa_heads_have_both_layouts(exported: Path) -> None:
    first = tensors(exported / "medusa" / "medusa_lm_head.safetensors")
    folder = exported / "medusa" / "vllm-0.32"
    config = json.loads((folder / "config.json").read_text())
    served = tensors(folder / "model.safetensors")
    wanted = {f"lm_heads.{k}.weight" for k in range(config["num_heads"])}
    wanted |= {
        f"blocks.{k}.layers.0.{part}"
        for k in range(config["num_heads"])
        for part in ("weight", "bias")
    }
    assert served.keys() == wanted and config["medusa_fc_bias"] is True
    assert sorted(first.values()) == sorted(served.values())
    told = json.loads((exported / "medusa" / "config.json").read_text())
    assert told["base_model_name_or_path"] == "./target"


def test_every_readme_tells_commands_and_what_was_not_done(exported: Path) -> None:
    for kind in ("draft", "target", "eagle3", "medusa"):
        text = (exported / kind / "README.md").read_text()
        assert "No engine was run" in text and "vllm serve ./target" in text
        assert f"# {kind} of pocket" in text
    assert "./medusa/vllm-0.32" in (exported / "medusa" / "README.md").read_text()
    assert "--model-id ./medusa" in (exported / "medusa" / "README.md").read_text()
    eagle = (exported / "eagle3" / "README.md").read_text()
    assert 'speculative_model: "./eagle3"' in eagle and "checksum" in eagle


def test_what_engines_cannot_take_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"8,193 tokens of its own.*Export eagle3"):
        export_folder("draft", "smollm2-135m", tmp_path / "a")
    with pytest.raises(BadInput, match=r"Qwen/Qwen2\.5-0\.5B-Instruct, which is not of this lab"):
        export_folder("draft", "qwen2.5-1.5b", tmp_path / "a")
    with pytest.raises(BadInput, match="nothing called 'hydra'"):
        export_folder("hydra", "pocket", tmp_path / "a")
    with pytest.raises(BadInput, match="no pair 'nope'"):
        export_folder("draft", "nope", tmp_path / "a")
    with pytest.raises(BadInput, match="has no medusa head"):
        export_folder("medusa", "pocket-mtp", tmp_path / "a")
    with pytest.raises(BadInput, match="as an option"):
        export_folder("draft", "pocket", tmp_path / "a", target_at="--x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    with pytest.raises(BadInput, match="nothing is overwritten"):
        export_folder("draft", "pocket", tmp_path / "full")
    assert not (tmp_path / "a").exists()
