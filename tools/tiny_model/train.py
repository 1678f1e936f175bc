"""Trains the bundled model from nothing: tokenizer, curriculum, optimiser, checkpoints.

    python -m tools.tiny_model.train --out weights --minutes 90

Needs torch and transformers only; two CPU cores are enough.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained.prompting.chat_template import render_chat
from tools.tiny_model import corpus
from tools.tiny_model import tokenizer as tiny_tokenizer
from tools.tiny_model.network import ModelSize, Muon, build
from tools.tiny_model.prompt import EXTRACTION_INSTRUCTION, extraction_messages

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast

IGNORED = -100
_STRIDE = 16  # rows of a batch are padded to a multiple of this length
_RANKS = 64  # at most so many processes


@dataclass(frozen=True)
class TrainingConfig(ModelSize):
    """Everything that a training run depends on, the speed of the machine apart."""

    seed: int = 1
    steps: int = 9000
    minutes: float = 90.0  # the schedule ends at `steps` or here, whichever comes first
    batch_tokens: int = 2560  # of one process
    lr: float = 3e-3
    lr_matrices: float = 0.02
    warmup: int = 100
    level: float = 0.4  # share of the schedule before the learning rates decline
    curriculum: int = 400  # batches until the corpus is at its full level
    max_length: int = 352
    average_every: int = 8  # steps of every process between two averages of their weights


def encode(example: corpus.Example, tokenizer: Any) -> tuple[list[int], int]:
    """Token ids of prompt, answer and end, and how many of them are the prompt."""
    asked = render_chat(extraction_messages(example.text, example.schema), tokenizer)
    prompt, answer = (
        tokenizer(part, add_special_tokens=False)["input_ids"] for part in (asked, example.completion)
    )
    return [*prompt, *answer, tokenizer.eos_token_id], len(prompt)


def batches(config: TrainingConfig, tokenizer: Any, rank: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yields padded batches `(tokens, targets)`, int64 `[rows, length]`, of rows of about equal length.

    Targets are the next tokens on the answer and `IGNORED` elsewhere. Every rank draws examples of its own.
    """
    import numpy as np

    number, made = (config.seed * _RANKS + rank) << 40, 0
    buckets: dict[int, list[tuple[list[int], int]]] = {}
    while True:
        level = min(1.0, made / max(1, config.curriculum))
        ids, prompt = encode(corpus.draw_example(number, "train", level), tokenizer)
        number += 1
        if len(ids) > config.max_length:
            continue
        width = -(-(len(ids) - 1) // _STRIDE) * _STRIDE
        bucket = buckets.setdefault(width, [])
        bucket.append((ids, prompt))
        if len(bucket) < max(1, config.batch_tokens // width):
            continue
        tokens = np.full((len(bucket), width), tokenizer.pad_token_id, dtype=np.int64)
        targets = np.full((len(bucket), width), IGNORED, dtype=np.int64)
        for row, (ids, prompt) in enumerate(bucket):
            tokens[row, : len(ids) - 1] = ids[:-1]
            targets[row, prompt - 1 : len(ids) - 1] = ids[prompt:]
        bucket.clear()
        made += 1
        yield tokens, targets


def answer_logits(
    model: Any, tokens: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits at the positions that have a target, `[n, vocabulary]`, and those targets, `[n]`.

    Rows are padded on the right and attention is causal, so no mask is needed.
    """
    hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state
    wanted = targets != IGNORED
    return model.lm_head(hidden[wanted]), targets[wanted]


def train_tokenizer(config: TrainingConfig, examples: int = 12000) -> PreTrainedTokenizerFast:
    """Trains the tokenizer on the training split."""

    def texts() -> Iterator[str]:
        for number in range(examples):
            example = corpus.draw_example((config.seed << 40) + number, "train")
            yield extraction_messages(example.text, example.schema)[0]["content"].replace(
                EXTRACTION_INSTRUCTION, ""
            )
            yield example.completion

    return tiny_tokenizer.train(texts(), [EXTRACTION_INSTRUCTION])


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Writes the model in bfloat16 and its tokenizer, as `transformers` reads them."""
    import copy

    import torch

    folder.mkdir(parents=True, exist_ok=True)
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder, save_jinja_files=False)
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["tokenizer_class"] = (
        "PreTrainedTokenizerFast"  # the name that every version of transformers knows
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    for path in folder.iterdir():
        path.chmod(0o644)


def evaluate(model: Any, tokenizer: Any, count: int = 256) -> dict[str, float]:
    """Teacher-forced scores on the held-out split: loss, token accuracy, and the share of answers with no wrong token."""
    import torch

    loss, right, tokens, exact = 0.0, 0, 0, 0
    rows = sorted(
        (encode(corpus.draw_example(number, "heldout"), tokenizer) for number in range(count)),
        key=lambda r: len(r[0]),
    )
    with torch.no_grad():
        for ids, prompt in rows:
            inputs = torch.tensor([ids[:-1]])
            targets = torch.tensor([[IGNORED] * (prompt - 1) + ids[prompt:]])
            logits, wanted = answer_logits(model, inputs, targets)
            loss += float(torch.nn.functional.cross_entropy(logits, wanted, reduction="sum"))
            hits = logits.argmax(-1) == wanted
            right, tokens, exact = right + int(hits.sum()), tokens + len(wanted), exact + int(hits.all())
    return {"loss": loss / tokens, "token_accuracy": right / tokens, "exact": exact / count}


def train(
    config: TrainingConfig,
    out: Path,
    *,
    resume: Path | None = None,
    rank: int = 0,
    ranks: int = 1,
    save_every: float = 5.0,
) -> None:
    """Trains and writes checkpoints to `out`, the last one at the end of the schedule; reports JSON lines.

    Args:
        config: what to train.
        out: folder of the weights, overwritten at every checkpoint.
        resume: folder of weights and tokenizer to go on from, instead of training both from nothing.
        rank: which of the processes this is; the first one reports and writes.
        ranks: processes, one thread each; each takes steps of its own, and every few steps their weights are averaged
            (local SGD, Stich 2019), so that a busy core holds up the others rarely. `torch.distributed` is set up if
            there are several.
        save_every: minutes between checkpoints and held-out evaluations.
    """
    import torch

    if resume:
        tokenizer, model = _loaded(resume)
    else:
        tokenizer = train_tokenizer(config)
        model = build(config, tokenizer, config.seed)
    parameters = list(model.parameters())
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    others = [p for p in parameters if all(p is not matrix for matrix in matrices)]
    muon = Muon(matrices)
    adam = torch.optim.AdamW(others, lr=config.lr, betas=(0.9, 0.98), weight_decay=0.0)
    source = batches(config, tokenizer, rank)

    def log(report: dict[str, Any]) -> None:
        if rank == 0:
            print(json.dumps(report), flush=True)

    log({"parameters": sum(p.numel() for p in parameters), "ranks": ranks, **asdict(config)})
    began = reported = saved = time.monotonic()
    seen = answers = step = 0
    progress = losses = 0.0
    while True:
        tokens, targets = (torch.from_numpy(part) for part in next(source))
        loss = torch.nn.functional.cross_entropy(*answer_logits(model, tokens, targets))
        loss.backward()  # type: ignore[no-untyped-call]
        scale = min(1.0, (step + 1) / config.warmup) * _schedule(progress, config.level)
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        for group in adam.param_groups:
            group["lr"] = config.lr * scale
        adam.step()
        muon.step(config.lr_matrices * scale)
        model.zero_grad(set_to_none=True)
        step, losses = step + 1, losses + float(loss.detach())
        seen, answers = seen + tokens.numel() * ranks, answers + int((targets != IGNORED).sum()) * ranks
        if step % 48 == 0:
            now, speed = time.monotonic(), seen / (time.monotonic() - began)
            log({"step": step, "minutes": round((now - began) / 60, 2), "tokens": seen, "answer_tokens": answers,
                 "loss": round(losses / 48, 4), "seconds_per_step": round((now - reported) / 48, 3), "tokens_per_second": round(speed)})  # fmt: skip
            reported, losses = now, 0.0
        if step % config.average_every:
            continue
        minutes = (time.monotonic() - began) / 60
        progress = _average(parameters, max(step / config.steps, minutes / config.minutes), ranks)
        if progress >= 1:
            break
        if rank == 0 and (time.monotonic() - saved) / 60 >= save_every:
            save(model, tokenizer, out)
            log({"step": step, "heldout": evaluate(model, tokenizer, 100)})
            saved = time.monotonic()
    if rank == 0:
        save(model, tokenizer, out)
        log(
            {
                "step": step,
                "tokens": seen,
                "answer_tokens": answers,
                "heldout": evaluate(model, tokenizer, 200),
            }
        )


def _average(parameters: list[torch.nn.Parameter], progress: float, ranks: int) -> float:
    """Averages the weights of all processes in place, and their progress, whose clocks differ."""
    import torch
    from torch import distributed

    if ranks == 1:
        return progress
    with torch.no_grad():
        shared = torch.cat([torch.tensor([progress]), *(p.flatten() for p in parameters)])
        distributed.all_reduce(shared)
        shared /= ranks
        for p, mean in zip(parameters, torch.split(shared[1:], [p.numel() for p in parameters]), strict=True):
            p.copy_(mean.view_as(p))
    return float(shared[0])


def _loaded(folder: Path) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32
    )


def _schedule(progress: float, level: float) -> float:
    """1 at first, then a straight line down to 1 percent."""
    return max(0.01, 1.0 if progress < level else 1 - (progress - level) / (1 - level))


def _process(
    rank: int, ranks: int, rendezvous: str, config: TrainingConfig, out: Path, options: dict[str, Any]
) -> None:
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    try:
        train(config, out, rank=rank, ranks=ranks, **options)
    finally:
        distributed.destroy_process_group()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the weights")
    parser.add_argument("--resume", type=Path, help="folder of weights to go on from")
    parser.add_argument("--ranks", type=int, default=2, help="processes, one thread each (default 2)")
    parser.add_argument(
        "--save-every", type=float, default=5.0, help="minutes between checkpoints (default 5)"
    )
    for name, value in asdict(TrainingConfig()).items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(value), default=value, help=f"default {value}"
        )
    options = vars(parser.parse_args())
    out, ranks = options.pop("out"), options.pop("ranks")
    how = {key: options.pop(key) for key in ("resume", "save_every")}

    from torch.multiprocessing.spawn import spawn

    with tempfile.TemporaryDirectory() as folder:
        arguments = (ranks, f"{folder}/rendezvous", TrainingConfig(**options), out, how)
        spawn(_process, args=arguments, nprocs=ranks)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
