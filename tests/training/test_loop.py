"""The training loop learns, stops at its limits and resumes to the same weights."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from speclab.core.errors import NumericalFault
from speclab.training import loop


def batch_at(step: int, progress: float) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(16, 4, generator=generator)
    return inputs, inputs @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])


def squared_error(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return (model(batch[0]) - batch[1]).pow(2).mean()


def new_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))


def config(**changes: object) -> loop.LoopConfig:
    values = {"max_steps": 40, "autocast_dtype": None, "warmup_steps": 4, "learning_rate": 0.01}
    return loop.LoopConfig(**{**values, **changes})


class Interrupted(Exception):
    """Stands for a killed process."""


def test_a_stopped_run_resumes_to_the_same_weights(tmp_path: Path) -> None:
    whole = new_model()
    loop.run_loop(whole, batch_at, squared_error, config())

    def stops_at_25(step: int, progress: float) -> tuple[Tensor, Tensor]:
        if step == 25:
            raise Interrupted
        return batch_at(step, progress)

    checkpoint = tmp_path / "model.pt"
    stopped = new_model()
    often = config(checkpoint_every_s=0.0)
    with pytest.raises(Interrupted):
        loop.run_loop(stopped, stops_at_25, squared_error, often, checkpoint=checkpoint)
    resumed = new_model()
    progress = loop.run_loop(
        resumed, batch_at, squared_error, often, checkpoint=checkpoint, resume=True
    )
    assert progress.step == 40 and progress.tokens == 40 * 64
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name]), name


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    checkpoint = tmp_path / "model.pt"
    model = new_model()
    loop.run_loop(model, batch_at, squared_error, config(), checkpoint=checkpoint)
    again = new_model()
    loop.run_loop(again, batch_at, squared_error, config(), checkpoint=checkpoint, resume=True)
    assert torch.equal(model[0].weight, again[0].weight)


def test_the_loss_falls_and_is_logged(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    loop.run_loop(
        new_model(),
        batch_at,
        squared_error,
        config(max_steps=200, log_every=10),
        log=log,
        evaluation=lambda model: {"all": float(squared_error(model, batch_at(9999, 1.0)))},
    )
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert records[-2]["loss"] < 0.5 * records[0]["loss"]
    assert records[-1]["done"] and records[-1]["held_out"]["all"] < records[0]["loss"]


def test_a_loss_that_is_not_finite_ends_the_run_and_leaves_weights_and_checkpoint(
    tmp_path: Path,
) -> None:
    """Else a head of NaN is written, and a comparison of ranks takes NaN for the best guess."""

    def breaks_at_25(step: int, progress: float) -> tuple[Tensor, Tensor]:
        inputs, wanted = batch_at(step, progress)
        return inputs, wanted * float("inf") if step == 25 else wanted

    checkpoint, model = tmp_path / "model.pt", new_model()
    often = config(checkpoint_every_s=0.0)
    with pytest.raises(NumericalFault, match="The loss is inf"):
        loop.run_loop(model, breaks_at_25, squared_error, often, checkpoint=checkpoint)
    kept = new_model()
    assert loop.load_checkpoint(checkpoint, kept).step == 25
    for name, weight in model.state_dict().items():
        assert weight.isfinite().all() and torch.equal(weight, kept.state_dict()[name])


def test_the_time_budget_ends_a_run() -> None:
    progress = loop.run_loop(
        new_model(), batch_at, squared_error, config(max_steps=None, budget_s=0.05)
    )
    assert progress.step >= 1 and 0.05 <= progress.elapsed_s < 5


def test_the_schedule_warms_up_and_decays() -> None:
    settings = config(warmup_steps=10, learning_rate=1.0, final_lr_ratio=0.1)
    assert loop.learning_rate_at(settings, 0, 0.0) == pytest.approx(0.1)
    assert loop.learning_rate_at(settings, 9, 0.0) == pytest.approx(1.0)
    assert loop.learning_rate_at(settings, 99, 1.0) == pytest.approx(0.1)


def test_a_loop_without_limits_is_refused() -> None:
    with pytest.raises(ValueError, match="max_steps or budget_s"):
        loop.fraction_done(config(max_steps=None), 0, 0.0)
