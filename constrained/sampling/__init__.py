"""Which law a text is drawn from, and how: the family of samplers, all in one frame.

At a prefix u the model gives token a the probability p(a) = P(a | u), after temperature; f(a) = 1 if u.a can still
become a text of the constraint (an end of sequence: if u is one); Z(u) = sum of p f. A sampler is a proposal of
tokens, a number W(u) that is properly weighted for it (E[W 1{X = x}] = p(x) f(x) for every x), and what is done
with W:

    sampler   proposal at u                     W(u)    what is done with W
    local     p f / Z                           Z(u)    reported; the law of the texts is Q = prod of p f / Z

`SAMPLERS` is the only place where a sampler is chosen. Must not know: grammars, models, how the loop runs.
"""

from __future__ import annotations

from constrained.sampling.frame import Draw, Position, Sampler
from constrained.sampling.local import Local
from constrained.sampling.warp import Warp

SAMPLERS: dict[str, type[Sampler]] = {"local": Local}
"""Name -> configuration class; each can be built without arguments."""


def choose(sampler: str | Sampler) -> Sampler:
    """A sampler by its name, or the configured one that was passed.

    Raises:
        InvalidArgument: nothing has this name.
    """
    from constrained.errors import InvalidArgument

    if isinstance(sampler, Sampler):
        return sampler
    if not isinstance(sampler, str) or sampler not in SAMPLERS:
        known = ", ".join(sorted(SAMPLERS))
        raise InvalidArgument(f"sampler {sampler!r} is not known", action=f"use one of: {known}")
    return SAMPLERS[sampler]()


__all__ = ["SAMPLERS", "Draw", "Local", "Position", "Sampler", "Warp", "choose"]
