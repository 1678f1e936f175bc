"""The engines of fixed steps: the texts of the eager one, whatever loop, family, draft tree and length."""

from __future__ import annotations

import functools
import pickle
import random
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import constrained
import constrained.spec.kernels
from constrained import AWRS, Generator, Local, Speculation
from constrained.errors import InvalidArgument, ModelError
from constrained.models import capabilities, fixed_steps
from constrained.models import tree_attention as adapter
from constrained.models.capabilities import decoder_config
from constrained.models.hugging_face import HuggingFaceModel
from constrained.models.slab import Slab
from tests.device.loops import DRAFTS, LOOPS
from tests.models import test_families
from tests.spec.speculating import tree_path
from tests.support import families
from tests.support.families import FAMILIES
from tests.support.tiny_models import llama, random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

TREES = [name for name, family in FAMILIES.items() if family.way == "trees"]
FEW = {"Gemma 3", "Llama 4, not scaled"}
"""Two with windows and chunks; CI tests all."""
NOT_ATTENDING = {"Gemma 2", "gpt-oss"}
"""Families with windows whose attention does more than torch's: a soft cap, sinks."""
LOOK_AT_MASKS = {"Gemma 3n", "Gemma 4", "DeepSeek V3", "Nemotron"}
"""Families some of whose layers are torch's all the same: they use keys of others, values of
another size than keys, or call it themselves."""
CONSTRAINTS = (
    test_families.SCHEMA,
    constrained.regex("(red|green|blue|greenish){1,3}"),
    constrained.regex("[ab]{3,9}(true|name)"),
)
SAMPLERS = (Local(), Local(weights=False), AWRS())


@functools.cache
def static(engine: str = "static") -> HuggingFaceModel:
    return constrained.load(random_llama(), small_bpe_tokenizer(), engine=engine)


@functools.cache
def static_family(name: str) -> HuggingFaceModel:
    made = HuggingFaceModel(FAMILIES[name].make(), families.vocabulary(), engine="static")
    assert made.no_engine is None
    return made


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FEW else pytest.mark.ci) for name in TREES]
)
def test_every_family_that_reads_trees_has_its_logits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of the eager engine, whose judge is transformers reading a text in one piece."""
    monkeypatch.setattr(test_families, "load", static_family)
    test_families.test_ragged_texts_have_the_logits_of_each_alone(name)
    test_families.test_draft_tokens_have_the_logits_of_their_branches_and_can_be_rejected(name)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.ci) for seed in range(2, 12))])
@pytest.mark.parametrize("engine", ["eager", "static"])
def test_rows_that_come_go_split_and_change_places_keep_their_texts(engine: str, seed: int) -> None:
    """The judge reads each text in one piece."""
    rng, model = random.Random(seed), llama() if engine == "eager" else static()
    cache, texts = model.cache(0), []

    def some(count: int) -> list[int]:
        return [rng.randrange(1, 250) for _ in range(count)]

    for step in range(14):
        action = (
            "join"
            if len(texts) < 2
            else rng.choice(["join", "keep", "fork", "tree", "tree", "tree", "plain"])
        )
        if action == "join":
            arrived, new = model.cache(1), some(rng.choice([1, 9, 70]))
            model.forward([new], arrived)
            cache.join(arrived)
            texts.append(new)
        elif action in ("keep", "fork"):
            rows = [rng.randrange(len(texts)) for _ in range(rng.choice([1, 2, len(texts)]))]
            if action == "fork":
                cache = cache.fork(rows)
            else:
                cache.keep(rows)
            texts = [list(texts[row]) for row in rows]
        elif action == "plain":
            new = [some(rng.choice([1, 1, 5])) for _ in texts]
            model.forward(new, cache)
            texts = [text + more for text, more in zip(texts, new, strict=True)]
        else:
            trees = [test_families.draft_tree(rng, 1, rng.randrange(8), chain=False) for _ in texts]
            model.forward_trees([t for t, _ in trees], [p for _, p in trees], [0] * len(trees), cache)
            rows = [*range(len(texts)), *([0] if step % 3 == 0 else [])]
            kept = [tree_path(trees[row][1], rng.randrange(len(trees[row][1]))) for row in rows]
            cache.keep_paths(rows, kept)
            texts = [
                texts[row] + [trees[row][0][i] for i in one] for row, one in zip(rows, kept, strict=True)
            ]
        assert cache.lengths == [len(text) for text in texts]
    judge = llama()
    found = model.forward([[3]] * len(texts), cache)
    for logits, text in zip(found, texts, strict=True):
        expected = judge.forward([[*text, 3]], judge.cache(1))[0]
        assert logits == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("drafts", [None, DRAFTS], ids=["plain", "drafts"])
@pytest.mark.parametrize(
    "name",
    [name if name in ("batch", "serving") else pytest.param(name, marks=pytest.mark.ci) for name in LOOPS],
)
def test_every_loop_has_the_texts_of_the_eager_engine(name: str, drafts: Speculation | None) -> None:
    found, expected = LOOPS[name](static(), drafts), LOOPS[name](llama(), drafts)
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in expected]
    assert [logprob for _, logprob in found] == pytest.approx([one for _, one in expected], abs=5e-3)
    assert static().no_engine is None


def check(number: int, engine: str) -> None:
    """Batches of equal settings; the prompts are of a few tokens, of a chunk, and of several."""
    rng = random.Random(number)
    constraint, sampler = rng.choice(CONSTRAINTS), rng.choice(SAMPLERS)
    size = rng.choice([0, 0, 1, 3, 12, 40, 64])
    drafts = Speculation(nodes=size, adapts=False) if size else None
    prompts = [
        [rng.randrange(1, 250) for _ in range(rng.choice([1, 7, 64, 65, 150]))]
        for _ in range(rng.choice([1, 1, 2, 5]))
    ]
    settings: dict[str, Any] = {
        "seed": rng.randrange(1 << 30), "temperature": rng.choice([0.0, 0.7, 1.0]), "max_tokens": 25
    }  # fmt: skip

    def run(model: Any) -> list[Any]:
        return Generator(model, constraint, sampler=sampler, speculation=drafts).batch(prompts, **settings)

    expected, found = run(llama()), run(static(engine))
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [one.logprob for one in found] == pytest.approx([one.logprob for one in expected], abs=2e-3)
    assert {one.stats.no_engine for one in found} == {None}


@pytest.mark.parametrize(
    "number", [*range(4), *(pytest.param(n, marks=pytest.mark.ci) for n in range(4, 40))]
)
def test_batches_have_the_texts_of_the_eager_engine(number: int) -> None:
    check(number, "static")


@pytest.mark.slow
def test_thousands_of_batches_have_the_texts_of_the_eager_engine() -> None:
    for number in range(100, 2600):
        check(number, "static")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of torch's compiler are its own
def test_compiled_passes_have_the_texts_of_the_eager_engine() -> None:
    for number in range(5):
        check(number, "compiled")


def test_the_attention_of_trees_has_the_texts_of_the_eager_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU in torch; on a device this is the kernel."""
    model = constrained.load(random_llama(), small_bpe_tokenizer(), engine="static")
    called: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        called.append(args[0].shape[2])
        return constrained.spec.kernels.tree_attention(*args, **kwargs)

    monkeypatch.setattr(adapter, "tree_attention", counted)
    steps = capabilities.probe_steps(
        model.model, model._run, model.capabilities, model.device, model.vocabulary.size,
        compiles=False, tree_attention=True,
    )  # fmt: skip
    assert isinstance(steps, fixed_steps.FixedSteps)
    assert steps.supports_tree_attention
    assert decoder_config(model.model)._attn_implementation == "constrained_tree"
    monkeypatch.setitem(model.__dict__, "_steps", steps)
    monkeypatch.setattr(sys.modules[__name__], "static", lambda engine: model)
    called.clear()
    for number in (1, 3):
        check(number, "static")
    assert set(called) <= set(fixed_steps.SIZES)
    assert max(called) >= 32
    # Without a tree it is torch's.
    eager = HuggingFaceModel(model.model, model.tokenizer)
    assert eager.no_trees is None
    settings: dict[str, Any] = {"seed": 2, "temperature": 1.0}
    found, expected = (
        Generator(one, CONSTRAINTS[2])("someone", **settings).tokens for one in (eager, llama())
    )
    assert found == expected
    again = pickle.loads(pickle.dumps(model))
    assert "_steps" not in vars(again)
    assert Generator(again, CONSTRAINTS[2])("someone", **settings).tokens == expected


@functools.cache
def attending_family(name: str) -> HuggingFaceModel:
    """A model with the attention of trees, as on a device."""
    made = HuggingFaceModel(FAMILIES[name].make(), families.vocabulary(), engine="static")
    steps = capabilities.probe_steps(
        made.model, made._run, made.capabilities, made.device, made.vocabulary.size, compiles=False, tree_attention=True
    )  # fmt: skip
    assert isinstance(steps, fixed_steps.FixedSteps)
    made.__dict__["_steps"] = steps
    return made


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ("Gemma 3", "Gemma 3n") else pytest.mark.ci) for name in TREES],
)
def test_masks_are_made_only_where_a_layer_looks_at_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = attending_family(name)._steps
    assert isinstance(steps, fixed_steps.FixedSteps)
    assert steps.masked == (name in LOOK_AT_MASKS or not steps.supports_tree_attention)
    monkeypatch.setattr(test_families, "load", attending_family)
    test_families.test_draft_tokens_have_the_logits_of_their_branches_and_can_be_rejected(name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "Gemma 3" else pytest.mark.ci)
        for name in TREES
        if "window" in FAMILIES[name].note
    ],
)
def test_the_attention_of_trees_keeps_to_windows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are several times as long as a window; seen whole, the logits are others."""
    if not attending_family(name)._steps.supports_tree_attention:  # type: ignore[union-attr]
        assert name in NOT_ATTENDING
        return
    seen: set[int] = set()

    def counted(*args: Any, **kwargs: Any) -> Any:
        seen.add(kwargs["window"])
        return constrained.spec.kernels.tree_attention(*args, **kwargs)

    def whole(*args: Any, **kwargs: Any) -> Any:
        return constrained.spec.kernels.tree_attention(*args, **kwargs | {"window": 0})

    monkeypatch.setattr(test_families, "load", attending_family)
    monkeypatch.setattr(adapter, "tree_attention", counted)
    test_families.test_ragged_texts_have_the_logits_of_each_alone(name)
    assert families.WINDOW in seen
    monkeypatch.setattr(adapter, "tree_attention", whole)
    with pytest.raises(AssertionError):
        test_families.test_ragged_texts_have_the_logits_of_each_alone(name)


def test_a_prompt_is_read_in_chunks_and_its_last_tokens_in_a_small_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    widths: list[int] = []
    model = static()
    run = model._run

    def counted(**inputs: Any) -> Any:
        widths.append(inputs["input_ids"].shape[1])
        return run(**inputs)

    monkeypatch.setattr(model._steps, "_run", counted)
    cache = model.cache(1)
    ids = [1 + i % 200 for i in range(256 + 64 + 3)]
    found = model.forward([ids], cache)
    assert widths == [256, 64, 4]
    assert cache.lengths == [len(ids)]
    eager = llama()
    assert found == pytest.approx(eager.forward([ids], eager.cache(1)), abs=1e-3)


@pytest.mark.parametrize("engine", ["eager", "static"])
def test_a_tree_behind_a_long_prompt_is_read_and_kept_with_it(engine: str) -> None:
    """Only what is kept of the tree is moved: the prompt is longer than what can be moved at once."""
    model, ids = llama() if engine == "eager" else static(), [1 + i % 200 for i in range(1030)]
    cache = model.cache(2)
    tokens, parents = [*ids, 7, 8, 9], [*range(-1, 1029), 1029, 1029, 1031]
    model.forward_trees([tokens] * 2, [parents] * 2, [1029] * 2, cache)
    cache.keep_paths([0, 1], [[*range(1030), 1031, 1032]] * 2)
    found = model.forward([[5], [6]], cache)
    for logits, token in zip(found, (5, 6), strict=True):
        expected = llama().forward([[*ids, 8, 9, token]], llama().cache(1))[0]
        assert logits == pytest.approx(expected, abs=1e-3)


def test_slabs_are_used_again_with_what_is_left_in_them() -> None:
    steps = static()._steps
    assert isinstance(steps, fixed_steps.FixedSteps)
    slab = steps.slab(1, 10)
    with torch.inference_mode():
        for store in slab.stores:
            store.fill_(3.0)
    steps.give_back(slab)
    assert steps.captured(Slab(steps._layout, 1, 256)) is None  # nothing is captured on a CPU
    assert steps.slab(1, 10) is slab
    steps.give_back(slab)
    check(1, "static")


def test_a_pass_is_made_where_it_has_been_captured() -> None:
    """A row that was copied while the slab with graphs was in use is copied to it once it is free."""
    model = constrained.load(random_llama(), small_bpe_tokenizer(), engine="static")
    steps = model._steps
    assert isinstance(steps, fixed_steps.FixedSteps)
    first, second = steps.slab(1, 10), steps.slab(1, 600)
    first.graphs["as if captured"] = second.graphs["as if captured"] = (None, None, torch.zeros(1))
    for slab in (first, second):
        steps.give_back(slab)
    cache, ids = model.cache(1), [1 + i % 200 for i in range(300)]
    model.forward([ids[:2]], cache)
    assert cache._slab is not first  # too small for a pass over a chunk
    model.forward([ids[2:]], cache)
    assert cache._slab is second
    twin = cache.fork([0])
    assert twin._slab is not second
    del cache
    found = model.forward([[7]], twin)
    assert twin._slab is second
    assert found == pytest.approx(llama().forward([[*ids, 7]], llama().cache(1)), abs=1e-3)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A CUDA device with so many bytes left, where a place of a slab takes 8 KiB."""
    memory = SimpleNamespace(left=0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (memory.left, 80 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 0)

    def stores(slab: Slab) -> list[Any]:
        size = slab.slots * slab.columns << 12
        return [
            SimpleNamespace(
                is_cuda=True, device=torch.device("cuda"), numel=lambda: size, element_size=lambda: 2
            )
        ]

    monkeypatch.setattr(Slab, "stores", property(stores))
    monkeypatch.setattr(Slab, "ready", True)
    return memory


def fixed(*, supports_tree_attention: bool) -> fixed_steps.FixedSteps:
    steps = static()._steps
    assert isinstance(steps, fixed_steps.FixedSteps)
    return fixed_steps.FixedSteps(
        steps._run, steps._layout, compiles=False, supports_tree_attention=supports_tree_attention
    )


def test_slabs_are_kept_as_long_as_the_device_has_room(memory: SimpleNamespace) -> None:
    """Graphs are bound to a slab: a batch that grows and shrinks comes back to those it had, and captures nothing again."""
    steps, memory.left = fixed(supports_tree_attention=False), 1 << 30
    slabs = [Slab(steps._layout, 1, 256) for _ in range(12)]
    for slab in slabs:
        steps.give_back(slab)
    assert list(steps._free) == slabs
    memory.left = 4 * 7 * (2 << 20)  # for seven of them
    more = Slab(steps._layout, 1, 256)
    steps.give_back(more)
    assert list(steps._free) == [*slabs[-6:], more]
    assert steps.slab(32, 512).slots == 32  # as large as 64 of them: only those that stay in any case
    assert list(steps._free) == [*slabs[-3:], more]
    memory.left = 0
    steps.give_back(slabs[0])
    assert list(steps._free) == [*slabs[-2:], more, slabs[0]]


def test_slabs_have_room_for_texts_to_grow_where_that_costs_little(memory: SimpleNamespace) -> None:
    """On a device attention looks at the columns of the text alone."""
    memory.left = 128 * 4 * 1024 * 8192  # four slots of 1,024 columns are a 128th
    for supports_tree_attention, columns in ((False, 256), (True, 1024)):
        steps = fixed(supports_tree_attention=supports_tree_attention)
        steps.give_back(steps.slab(1, 10))  # what a place takes is known then
        assert [steps.slab(slots, 10).columns for slots in (2, 3, 5)] == [columns, columns, 256]
        assert steps.slab(2, 1025).columns == 2048


def test_passes_of_batches_are_ready_before_they_are_used(
    memory: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int, int, bool]] = []

    def called(steps: Any, slab: Slab, ids: Any, *others: Any, every: bool) -> None:
        steps._look_at(slab)
        seen.append((slab.slots, slab.columns, ids.shape[1], every))

    monkeypatch.setattr(fixed_steps.FixedSteps, "__call__", called)
    monkeypatch.setattr(Slab, "take", lambda *arguments: None)
    monkeypatch.setattr(fixed_steps, "upload", lambda device, *arrays: list(map(torch.from_numpy, arrays)))
    steps = fixed(supports_tree_attention=True)
    steps.warm_up(torch.device("cpu"), 4, 0, None)
    assert not seen
    memory.left = 128 * 2 * 1024 * 8192  # two slots of 1,024 columns are a 128th
    steps.warm_up(torch.device("cuda"), 3, 2, 2048)
    assert {one[:2] for one in seen[1:]} == {
        (4, 256),
        (4, 512),
        *((n, 1024) for n in (1, 2, 4)),
        *((n, 2048) for n in (1, 2, 4)),
    }
    assert {one[2:] for one in seen if one[:2] == (1, 2048)} == {
        *((size, True) for size in fixed_steps.SIZES), *((size, False) for size in fixed_steps.CHUNKS)
    }  # fmt: skip
    assert {one[2] for one in seen if one[0] == 2} == set(fixed_steps.SIZES)
    assert {one[2] for one in seen if one[0] == 4} == {1}
    # Where slabs would not be kept nothing is captured.
    seen.clear()
    memory.left = 4 * 5 * 1024 * 8192
    steps = fixed(supports_tree_attention=True)
    steps.warm_up(torch.device("cuda"), 32, 0, None)
    assert {one[:2] for one in seen} == {(1, 256), (2, 256), (4, 256), (8, 256)}


@pytest.mark.parametrize(
    ("name", "part"), [("Mamba 2", "takes no positions"), ("Bloom", "takes no positions")]
)
def test_families_that_read_no_trees_are_read_eagerly_and_say_why(name: str, part: str) -> None:
    model = HuggingFaceModel(FAMILIES[name].make(), families.vocabulary(), engine="static")
    out = Generator(model, constrained.regex("[ab]{3}"), sampler="local")([5, 6], seed=1, max_tokens=8)
    assert part in (out.stats.no_engine or "")


def test_what_excludes_an_engine_is_named() -> None:
    model = constrained.load(random_llama(), small_bpe_tokenizer(), engine="static", isolate=True)
    assert "a pass of its own" in (model.no_engine or "")
    assert llama().no_engine is None
    with pytest.raises(InvalidArgument, match="eager, static, compiled"):
        constrained.load(engine="jit")
    with pytest.raises(ModelError, match="engine cannot be set"):
        constrained.load(llama(), engine="static")


def test_a_compiler_that_fails_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(torch, "compile", lambda *args, **kwargs: broken)
    model = constrained.load(random_llama(), small_bpe_tokenizer(), engine="compiled")
    make = Generator(model, constrained.regex("[ab]{3}"), sampler="local")
    with pytest.warns(UserWarning, match="no compiler here"):
        make("someone", seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = make("someone", seed=1)
    assert "no compiler here" in (out.stats.no_engine or "")
    assert (
        out.tokens
        == Generator(llama(), constrained.regex("[ab]{3}"), sampler="local")("someone", seed=1).tokens
    )
