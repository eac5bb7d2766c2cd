"""Files of trained heads: layouts, shards, and every fault named."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from speclab.core.errors import BadInput, ModelUnavailable
from speclab.models.heads.files import (
    INDEX,
    check_shape,
    check_target,
    count_blocks,
    read_config,
    read_manifest,
    read_tensors,
    refuse_unknown,
    write_manifest,
    write_tensors,
)

TENSORS = {
    "0.0.linear.weight": torch.arange(16.0).view(4, 4),
    "0.0.linear.bias": torch.ones(4, dtype=torch.float16),
    "0.1.weight": torch.full((6, 4), 0.5),
}


def same(found: dict[str, torch.Tensor]) -> bool:
    return found.keys() == TENSORS.keys() and all(
        torch.equal(found[key], tensor) and found[key].dtype == tensor.dtype
        for key, tensor in TENSORS.items()
    )


@pytest.mark.parametrize("max_bytes", [10_000, 100])
def test_what_is_written_is_read_back(tmp_path: Path, max_bytes: int) -> None:
    files = write_tensors(tmp_path, TENSORS, max_bytes)
    assert len(files) == (1 if max_bytes == 10_000 else 3)
    assert (tmp_path / INDEX).exists() == (max_bytes == 100)
    assert same(read_tensors(tmp_path))


def test_writing_again_leaves_no_old_shard(tmp_path: Path) -> None:
    write_tensors(tmp_path, TENSORS, 100)
    write_tensors(tmp_path, TENSORS)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_shards_without_an_index_are_read_together(tmp_path: Path) -> None:
    write_tensors(tmp_path, TENSORS, 100)
    (tmp_path / INDEX).unlink()
    assert same(read_tensors(tmp_path))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "medusa_lm_head.pt", "hydra_lm_head.pt"])
def test_pickles_of_tensors_are_read(tmp_path: Path, name: str) -> None:
    torch.save(TENSORS, tmp_path / name)
    assert same(read_tensors(tmp_path))


def test_sharded_pickles_follow_their_index(tmp_path: Path) -> None:
    places = {}
    for number, (key, tensor) in enumerate(TENSORS.items()):
        places[key] = f"pytorch_model-{number}.bin"
        torch.save({key: tensor}, tmp_path / places[key])
    index = {"metadata": {}, "weight_map": places}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    assert same(read_tensors(tmp_path))


class Payload:
    """What a hostile pickle does: it calls something when it is opened."""

    def __init__(self, touched: Path) -> None:
        self.touched = touched

    def __reduce__(self) -> tuple:
        return Path.touch, (self.touched,)


@pytest.mark.parametrize("state", ["payload", "module", "list", "nested"])
def test_a_pickle_with_more_than_tensors_is_refused_unopened(tmp_path: Path, state: str) -> None:
    touched = tmp_path / "touched"
    states = {
        "payload": {"weight": Payload(touched)},
        "module": torch.nn.Linear(2, 2),
        "list": [torch.ones(2)],
        "nested": {"state_dict": dict(TENSORS)},
    }
    torch.save(states[state], tmp_path / "medusa_lm_head.pt")
    with pytest.raises(ModelUnavailable, match=r"medusa_lm_head\.pt is a pickle") as caught:
        read_tensors(tmp_path)
    assert caught.value.code == "head_pickle"
    assert not touched.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "medusa_lm_head.pt"])
@pytest.mark.parametrize("left", [0, 40, 300])
def test_a_file_cut_short_is_named(tmp_path: Path, name: str, left: int) -> None:
    path = tmp_path / name
    save_file(TENSORS, path) if name.endswith("safetensors") else torch.save(TENSORS, path)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(ModelUnavailable, match=name) as caught:
        read_tensors(tmp_path)
    assert caught.value.code in ("head_corrupt", "head_pickle")


def test_no_weights_a_missing_shard_and_a_key_twice_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no weights"):
        read_tensors(tmp_path)
    save_file(TENSORS, tmp_path / "a.safetensors")
    save_file({"0.1.weight": torch.ones(1)}, tmp_path / "b.safetensors")
    with pytest.raises(ModelUnavailable, match=r"0\.1\.weight stands in two files"):
        read_tensors(tmp_path)
    index = {"weight_map": {"x": "c.safetensors"}}
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(ModelUnavailable, match=r"names c\.safetensors, which is not there"):
        read_tensors(tmp_path)


def test_an_index_cannot_lead_out_of_its_folder(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "outside.safetensors")
    folder = tmp_path / "head"
    folder.mkdir()
    index = {"weight_map": {"x": "../outside.safetensors"}}
    (folder / INDEX).write_text(json.dumps(index))
    with pytest.raises(ModelUnavailable, match=r"outside\.safetensors"):
        read_tensors(folder)


def test_a_tensor_larger_than_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"0\.0\.linear\.weight has 64 bytes"):
        write_tensors(tmp_path, TENSORS, 50)


def test_missing_key_and_wrong_shape_are_named() -> None:
    found = check_shape(TENSORS, "0.1.weight", (6, 4), head="medusa", target="pocket/target")
    assert found is TENSORS["0.1.weight"]
    with pytest.raises(ModelUnavailable, match=r"no tensor 1\.1\.weight.*has 0\.1\.weight"):
        check_shape(TENSORS, "1.1.weight", (6, 4), head="medusa", target="pocket/target")
    wrong = r"0\.1\.weight .* has shape \[6, 4\]; pocket/target needs \[2048, 192\]"
    with pytest.raises(ModelUnavailable, match=wrong):
        check_shape(TENSORS, "0.1.weight", (2048, 192), head="medusa", target="pocket/target")


def test_tensors_nothing_reads_are_refused() -> None:
    refuse_unknown(TENSORS, TENSORS, head="medusa")
    with pytest.raises(ModelUnavailable, match=r"1 tensors .* 0\.1\.weight"):
        refuse_unknown(TENSORS, [key for key in TENSORS if key[2] == "0"], head="medusa")


def test_the_manifest_states_every_file_and_the_target(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    write_tensors(tmp_path, TENSORS)
    written = write_manifest(tmp_path, {"head": "medusa", "target": "bundled:pocket/target@abc"})
    assert read_manifest(tmp_path) == written
    weights = tmp_path / "model.safetensors"
    assert written["files"].keys() == {"config.json", "model.safetensors"}
    facts = written["files"]["model.safetensors"]
    assert facts["sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert facts["bytes"] == weights.stat().st_size
    check_target(written, SimpleNamespace(source="bundled:pocket/target@abc"), "medusa")
    with pytest.raises(ModelUnavailable, match="trained for bundled:pocket/target@abc"):
        check_target(written, SimpleNamespace(source="bundled:pocket/target@abd"), "medusa")


def test_configuration_is_an_object_or_absent(tmp_path: Path) -> None:
    assert read_config(tmp_path) == {}
    (tmp_path / "config.json").write_text('{"medusa_num_heads": 3}')
    assert read_config(tmp_path) == {"medusa_num_heads": 3}
    for broken in ("[1]", "{"):
        (tmp_path / "config.json").write_text(broken)
        with pytest.raises(ModelUnavailable, match=r"config\.json cannot be read"):
            read_config(tmp_path)


WRONG_INDEXES = ({"weight_map": ["x"]}, {"weight_map": {"a": 5}}, {"weight_map": {"a": ["x"]}}, {})


@pytest.mark.parametrize("index", WRONG_INDEXES, ids=str)
def test_an_index_of_another_kind_is_named(tmp_path: Path, index: dict) -> None:
    write_tensors(tmp_path, TENSORS)
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(ModelUnavailable, match=r"index\.json cannot be read: weight_map must"):
        read_tensors(tmp_path)


WRONG_CONFIGS = {
    "hidden_size": "abc",
    "num_attention_heads": 0,
    "draft_vocab_size": 2.5,
    "rms_norm_eps": "x",
    "rope_theta": float("inf"),
    "rope_parameters": 3,
    "transformer_layer_config": 3,
    "eagle_config": [1],
    "eagle_aux_hidden_state_layer_ids": "abc",
}


@pytest.mark.parametrize("key", WRONG_CONFIGS)
def test_a_configuration_of_another_kind_is_named(tmp_path: Path, key: str) -> None:
    for number, said in enumerate(({key: WRONG_CONFIGS[key]}, {"eagle_config": {"head_dim": -1}})):
        (tmp_path / "config.json").write_text(json.dumps(said))
        with pytest.raises(ModelUnavailable, match=r"config\.json cannot be read: ") as caught:
            read_config(tmp_path)
        wanted = "head_dim" if number else key
        assert wanted in str(caught.value) or "an object was expected" in str(caught.value)
    (tmp_path / "config.json").write_text('{"a":' + "[" * 100_000)
    with pytest.raises(ModelUnavailable, match=r"config\.json cannot be read"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    "said",
    [
        {"rank_acceptance": 5},
        {"rank_acceptance": [1.5]},
        {"accuracies": [0.5]},
        {"files": {"model.safetensors": 3}},
        {"concat": "sideways"},
        {"norm_in": "never"},
    ],
    ids=str,
)
def test_a_manifest_of_another_kind_is_named(tmp_path: Path, said: dict) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(said))
    with pytest.raises(
        ModelUnavailable, match=rf"manifest\.json cannot be read: {next(iter(said))}"
    ):
        read_manifest(tmp_path)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_weight_that_is_not_finite_is_refused(value: float) -> None:
    tensors = {"fc.weight": torch.ones(2, 3)}
    check_shape(tensors, "fc.weight", (2, 3), head="eagle1", target="x")
    tensors["fc.weight"][1, 2] = value
    with pytest.raises(ModelUnavailable, match=r"fc\.weight .* not finite") as caught:
        check_shape(tensors, "fc.weight", (2, 3), head="eagle1", target="x")
    assert caught.value.code == "head_not_finite"


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.complex64], ids=str)
def test_a_quantised_weight_is_refused_and_ids_are_not(dtype: torch.dtype) -> None:
    tensors = {"fc.weight": torch.ones(2, 3).to(dtype), "d2t": torch.zeros(3, dtype=torch.long)}
    with pytest.raises(ModelUnavailable, match=r"fc\.weight .* is kept as") as caught:
        check_shape(tensors, "fc.weight", (2, 3), head="eagle1", target="x")
    assert caught.value.code == "head_dtype"
    check_shape(tensors, "d2t", (3,), head="eagle1", target="x")


@pytest.mark.parametrize("stray", [(999, 0), (0, 5), (3, 0)])
def test_a_stray_number_makes_no_room_for_heads_that_are_not_there(stray: tuple[int, int]) -> None:
    there = [(head, block) for head in range(2) for block in range(2)]
    assert count_blocks(there, "medusa") == (2, 2)
    with pytest.raises(ModelUnavailable, match="5 blocks, numbered up to") as caught:
        count_blocks([*there, stray], "medusa")
    assert caught.value.code == "head_gap"
