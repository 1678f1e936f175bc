"""The model and its optimiser: a small Llama that starts as a copying circuit, and Muon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM


@dataclass(frozen=True)
class ModelSize:
    """The size of the model."""

    hidden: int = 160
    feed_forward: int = 432
    layers: int = 5
    heads: int = 5


def build(size: ModelSize, tokenizer: Any, seed: int) -> LlamaForCausalLM:
    """An untrained model of this size, whose first two layers start as a copying circuit."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=size.hidden,
            intermediate_size=size.feed_forward,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            num_key_value_heads=size.heads,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            initializer_range=0.5 * size.hidden**-0.5,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    _wire_copying(model)
    return model


def _wire_copying(model: Any) -> None:
    """Starts two layers as an induction circuit (Olsson et al. 2022), so that training need not discover copying.

    Layer 0: some heads look at the token before and write what it is into a subspace of their own. Layer 1: as
    many heads look for a place whose token before is the present token, and say the token that stands there.
    """
    import torch

    config = model.config
    width = config.hidden_size // config.num_attention_heads
    half, heads = width // 2, config.num_attention_heads - 2
    scale = config.initializer_range
    basis = torch.linalg.qr(torch.randn(config.hidden_size, config.hidden_size))[0]
    basis[0] = 0
    rates = config.rope_parameters["rope_theta"] ** (-torch.arange(half) / half)
    with torch.no_grad():
        for layer in model.model.layers:  # blocks start silent, so that the circuit is heard
            layer.mlp.down_proj.weight.zero_()
            layer.self_attn.o_proj.weight.zero_()
        # One coordinate is the same in every embedding: what a head sees that needs no content.
        model.model.embed_tokens.weight[:, 0] = 4 * scale
        first, second = (model.model.layers[index].self_attn for index in (0, 1))
        for head in range(heads):
            rows = slice(head * width, (head + 1) * width)
            token, before = basis[:, rows].T, basis[:, rows].T.roll(width // 2, 0).flip(1)
            for attention in (first, second):
                for part in (attention.q_proj, attention.k_proj):
                    part.weight[rows] = 0
            for pair in range(4):  # the quick rotations tell neighbours apart
                first.q_proj.weight[head * width + pair, 0] = 1.8
                first.k_proj.weight[head * width + pair, 0] = 1.8 * torch.cos(rates[pair])
                first.k_proj.weight[head * width + half + pair, 0] = 1.8 * torch.sin(rates[pair])
            first.v_proj.weight[rows] = token
            first.o_proj.weight[:, rows] = before.T * scale
            slow = [
                *range(half // 2, half),
                *range(half + half // 2, width),
            ]  # hardly turned within a short text
            for place in slow:
                second.q_proj.weight[head * width + place] = 2.6 * token[place]
                second.k_proj.weight[head * width + place] = 2.6 * before[place]
            second.v_proj.weight[rows] = token
            second.o_proj.weight[:, rows] = token.T * 6 * scale


class Muon:
    """Momentum whose update is orthogonalised (Jordan et al. 2024): for the weight matrices inside the layers.

    Matrices of one shape are orthogonalised together, by five Newton-Schulz steps.
    """

    _A, _B, _C = 3.4445, -4.7750, 2.0315

    def __init__(
        self, matrices: list[torch.nn.Parameter], momentum: float = 0.95, decay: float = 0.01
    ) -> None:
        import torch

        self.momentum, self.decay = momentum, decay
        self.groups: dict[tuple[int, ...], list[torch.nn.Parameter]] = {}
        for matrix in matrices:
            self.groups.setdefault(tuple(matrix.shape), []).append(matrix)
        self.buffers = {shape: torch.zeros(len(group), *shape) for shape, group in self.groups.items()}

    def step(self, lr: float) -> None:
        """Moves the matrices along their gradients, by about `lr` in spectral norm."""
        import torch

        with torch.no_grad():
            for shape, group in self.groups.items():
                grads = torch.stack([matrix.grad for matrix in group])  # type: ignore[misc]
                buffer = self.buffers[shape].lerp_(grads, 1 - self.momentum)
                update = grads.lerp(buffer, self.momentum)
                tall = shape[0] > shape[1]
                x = update.mT if tall else update
                x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
                for _ in range(5):
                    gram = x @ x.mT
                    x = self._A * x + (self._B * gram + self._C * (gram @ gram)) @ x
                x = (x.mT if tall else x) * max(1.0, shape[0] / shape[1]) ** 0.5
                for matrix, direction in zip(group, x, strict=True):
                    matrix.mul_(1 - lr * self.decay).add_(direction, alpha=-lr)
