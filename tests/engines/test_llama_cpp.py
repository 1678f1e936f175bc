"""Models in GGUF files: the bundled model and a random one, written by `gguf`, beside themselves in transformers."""

from __future__ import annotations

import gc
import json
import math
import pickle
import subprocess
import sys
import threading
import weakref
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jinja2 import TemplateError

import constrained
from constrained import Generator, Speculation, choice, regex
from constrained.bench.fidelity.exact_distribution import exact_distributions
from constrained.bench.fidelity.goodness_of_fit import g_test
from constrained.cli import main
from constrained.errors import (
    InvalidArgument,
    ModelError,
    ModelMismatch,
    PromptError,
)
from constrained.models.memory import batch_token_limit
from constrained.prompting.chat_template import encode_chat
from constrained.prompting.jinja import render_template
from constrained.vocabulary import Vocabulary
from constrained.vocabulary.llama_vocabulary import llama_vocabulary
from tests.support.gguf_files import write_llama, write_pieces, write_sentencepiece
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import (
    SENTENCEPIECE_FILES,
    sentencepiece_tokenizer,
    small_bpe_tokenizer,
)

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 30}, "born": {"type": "integer"}},
    "required": ["name", "born"],
    "additionalProperties": False,
}
TEXTS = ["Ana Novak was born in 1987 in Brno.", "In 1990 came Jan Dvorak.", "Eva Mala, 2001."]
PROMPT = "say "
ONE: dict[str, Any] = {"n_threads": 1, "n_threads_batch": 1}
"""Threads of llama.cpp wait for each other by spinning, on a busy machine for long."""
WORDS = ["ab", "abc", "b", "bca", "cab", "cc"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gguf")


@cache
def bundled() -> Any:
    return constrained.load()


@pytest.fixture(scope="module")
def exact(folder: Path) -> Any:
    """The bundled model in float32, keys and values too, with its own tokenizer for prompts."""
    import llama_cpp

    path = write_llama(folder / "tiny.gguf", bundled().model, bundled().tokenizer)
    kind = llama_cpp.GGML_TYPE_F32
    return constrained.load(path, bundled().tokenizer, type_k=kind, type_v=kind, flash_attn=False, **ONE)


@pytest.fixture(scope="module")
def quantised(folder: Path) -> Any:
    """The bundled model in 8 bits, opened by the name of its file alone."""
    return constrained.load(
        write_llama(folder / "tiny-q8.GGUF", bundled().model, bundled().tokenizer, "Q8_0"), **ONE
    )


def settled(actual: Any, expected: Any) -> float:
    """Largest difference of logits, in standard deviations over the vocabulary."""
    return float(np.abs(actual - expected).max() / expected.std())


# ------------------------------------------------------------------------------------------------ logits and caches


def test_logits_are_those_of_transformers(exact: Any, quantised: Any) -> None:
    ids = bundled().encode(TEXTS[0])
    expected = bundled().forward([ids], bundled().cache(1))
    assert settled(exact.forward([ids], exact.cache(1)), expected) < 1e-3
    assert 1e-4 < settled(quantised.forward([ids], quantised.cache(1)), expected) < 0.5


def test_rows_that_are_kept_copied_cut_and_joined_go_on_like_themselves(exact: Any) -> None:
    """Ragged rows, forks, rejected drafts and rows of other caches, each against its whole sequence read at once."""
    random = np.random.default_rng(0)
    sequences = [random.integers(5, 1500, size).tolist() for size in (7, 30, 3)]
    cache = exact.cache(3)
    check(exact, sequences, exact.forward(sequences, cache))
    fork = cache.fork([2, 0, 2])
    cache.keep([1, 1, 0])
    sequences, forked = [sequences[i] for i in (1, 1, 0)], [sequences[i] for i in (2, 0, 2)]
    for _ in range(3):
        drafts = [random.integers(5, 1500, size).tolist() for size in (4, 1, 6)]
        parents = [list(range(-1, len(row) - 1)) for row in drafts]
        logits = exact.forward_trees(drafts, parents, [0, 0, 2], cache)
        for sequence, row, skip, got in zip(sequences, drafts, (0, 0, 2), logits, strict=True):
            for i in range(skip, len(row)):
                check(exact, [sequence + row[: i + 1]], got[i - skip : i - skip + 1])
        rows, lengths = [2, 0, 0], [3, 1, 4]  # new row i is a prefix of old row rows[i]
        cache.keep_paths(rows, [list(range(length)) for length in lengths])
        sequences = [sequences[row] + drafts[row][:length] for row, length in zip(rows, lengths, strict=True)]
        assert cache.lengths == list(map(len, sequences))
    fork.keep([2, 1])
    cache.join(fork)
    sequences += [forked[2], forked[1]]
    new = random.integers(5, 1500, (5, 1)).tolist()
    check(exact, [old + token for old, token in zip(sequences, new, strict=True)], exact.forward(new, cache))


def check(model: Any, sequences: list[list[int]], logits: Any) -> None:
    for sequence, row in zip(sequences, logits, strict=True):
        expected = bundled().forward([sequence], bundled().cache(1))[0]
        assert settled(row, expected) < 1e-3
    assert len(logits) == len(sequences)


def test_the_memory_grows_beyond_its_first_cells_and_sequences(exact: Any) -> None:
    random = np.random.default_rng(1)
    sequences = random.integers(5, 1500, (40, 60)).tolist()
    cache = exact.cache(40)
    exact.forward([row[:50] for row in sequences], cache)
    check(exact, sequences, exact.forward([row[50:] for row in sequences], cache))


def test_sequences_are_freed_and_there_are_not_endlessly_many(exact: Any) -> None:
    for _ in range(20):
        exact.forward([[7, 8, 9]] * 40, exact.cache(40))
    gc.collect()
    with pytest.raises(ModelError, match=r"llama\.cpp holds 256 sequences at a time"):
        exact.cache(257)
    assert exact.cache(200).lengths == [0] * 200


def test_the_batches_of_many_documents_fit_into_memory(exact: Any, quantised: Any) -> None:
    config = bundled().model.config
    values = 2 * config.num_hidden_layers * config.hidden_size
    assert (exact.cache_bytes_per_token, quantised.cache_bytes_per_token) == (4 * values, 2 * values)
    limit = batch_token_limit(exact)
    assert limit is not None
    assert limit > 10_000


def test_threads_take_turns(exact: Any) -> None:
    expected = Generator(exact, PERSON)
    texts = {text: expected(text, max_tokens=40).text for text in TEXTS}
    found: dict[str, str] = {}

    def run(text: str) -> None:
        found[text] = Generator(exact, PERSON)(text, max_tokens=40).text

    threads = [threading.Thread(target=run, args=(text,)) for text in TEXTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == texts


# ------------------------------------------------------------------------------------------------ generation


@pytest.mark.parametrize("constraint", [PERSON, regex("[A-Z][a-z]+ [0-9]{2,6}"), choice(["yes", "no"])])
def test_greedy_tokens_are_those_of_transformers(exact: Any, constraint: Any) -> None:
    for speculation in (None, "auto"):
        ours, theirs = (  # transformers can read trees, and would find the likeliest answer
            Generator(model, constraint, sampler="local", speculation=speculation)
            for model in (exact, bundled())
        )
        for text in TEXTS:
            assert ours(text, max_tokens=60).tokens == theirs(text, max_tokens=60).tokens


def test_drafts_are_read_as_chains(exact: Any) -> None:
    generator = Generator(exact, PERSON, speculation=Speculation(nodes=8, adapts=False))
    outputs = [generator(text, max_tokens=60) for text in TEXTS * 2]
    assert sum(output.stats.accepted for output in outputs) > 0
    assert sum(output.stats.forwards for output in outputs) < sum(len(output.tokens) for output in outputs)


def test_extraction_of_one_and_of_many(exact: Any) -> None:
    expected = [constrained.extract(bundled(), text, PERSON) for text in TEXTS]
    assert [constrained.extract(exact, text, PERSON) for text in TEXTS] == expected
    many = constrained.extract_many(exact, TEXTS * 3, PERSON, batch_size=4, ordered=True)
    assert [result.value for result in many] == expected * 3


@pytest.fixture(scope="module")
def lively(folder: Path) -> Any:
    """A random model whose distributions are wide, and its twin in transformers."""
    made = random_llama()
    path = write_llama(folder / "random.gguf", made, small_bpe_tokenizer())
    return constrained.load(path, **ONE), constrained.load(made, small_bpe_tokenizer())


@pytest.mark.parametrize("sampler", ["local", "cars"])
def test_samplers_have_the_distribution_of_an_enumeration(lively: Any, sampler: str) -> None:
    model, twin = lively
    generator = Generator(model, choice(WORDS), sampler=sampler)
    exact = exact_distributions(twin, generator.automaton, 6, prompt=PROMPT)
    law = exact.local if sampler == "local" else exact.conditional
    outputs = generator.batch([PROMPT] * 250, seed=5, temperature=1.0)
    assert g_test(Counter(output.text for output in outputs), law) > 1e-3


@pytest.mark.parametrize("sampler", ["awrs", "smc"])
def test_weighted_samplers_estimate_the_mass_of_an_enumeration(lively: Any, sampler: str) -> None:
    model, twin = lively
    generator = Generator(model, choice(WORDS), sampler=sampler)
    exact = exact_distributions(twin, generator.automaton, 6, prompt=PROMPT)
    drawn = generator.sample(PROMPT, 400, seed=5, temperature=1.0)
    assert abs(drawn.log_evidence - math.log(exact.mass)) < 5 * drawn.log_evidence_error < 1.5


# ------------------------------------------------------------------------------------------------ vocabulary and prompts


def test_the_vocabulary_of_a_file_is_that_of_its_tokenizer(exact: Any, quantised: Any, lively: Any) -> None:
    assert quantised.vocabulary == bundled().vocabulary
    assert quantised.vocabulary.special == bundled().vocabulary.special
    assert lively[0].vocabulary == lively[1].vocabulary
    assert exact.vocabulary == bundled().vocabulary


def test_sentencepiece_has_the_same_bytes_and_ids_in_a_file(folder: Path) -> None:
    from llama_cpp import Llama
    from sentencepiece import SentencePieceProcessor

    file = sentencepiece_tokenizer(SENTENCEPIECE_FILES[0]).file_path
    processor = SentencePieceProcessor(model_file=str(file))
    path = write_sentencepiece(folder / "sp.gguf", processor)
    own = Vocabulary.from_tokenizer(Llama(str(path), vocab_only=True, verbose=False))
    expected = Vocabulary.from_tokenizer(processor)
    assert own == expected
    for text in ("a b", " Zoë  lives", "日本 x", '{"a": [1, 2]}\n'):
        assert own.encode(text) == expected.encode(text)
    again = pickle.loads(pickle.dumps(own))
    assert again.encode("a b") == own.encode("a b")


def test_long_tokens_bytes_added_and_unknown_tokens(folder: Path) -> None:
    """At each id: tokens of over 32 bytes, single bytes, names that texts of users must not become."""
    from llama_cpp import Llama

    from constrained.models.llama_cpp.tokenizer import GgufTokenizer

    names = ["<unk>", "<s>", "</s>", "<|im_end|>", "<tool_call>"]
    pieces = [*names, *(f"<0x{byte:02X}>" for byte in range(256)), *"abcdefghijklmnopqrstuvwxyz/<>|_\u2581"]
    pieces += [letter * length for letter in "-=~" for length in (2, 4, 8, 16, 32, 33, 64, 100)]
    kinds = [2, 3, 3, 3, 4, *[6] * 256, *[1] * (len(pieces) - 261)]
    path = write_pieces(folder / "pieces.gguf", pieces, kinds)
    llama = Llama(str(path), vocab_only=True, verbose=False)
    vocabulary, tokenizer = Vocabulary.from_tokenizer(llama), GgufTokenizer(llama)
    written = [piece.replace("\u2581", " ").encode() for piece in pieces]
    assert list(vocabulary.tokens) == [
        *[b""] * 4,
        written[4],
        *(bytes([b]) for b in range(256)),
        *written[261:],
    ]
    assert [str(name) for name in tokenizer.added_tokens_decoder.values()] == names
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}</s>{% endfor %}"
    for name in names:
        ids = encode_chat([{"role": "user", "content": f"a{name}b"}], tokenizer)
        assert [token for token in ids if token < 5] == [2], name


def test_the_template_of_a_file_writes_what_it_writes_in_transformers(quantised: Any) -> None:
    from transformers.utils import chat_template_utils

    template = """{%- for m in messages %}
    {% if loop.index0 == 3 %}{% break %}{% endif %}
    {%- generation %}{{ m | tojson }}{{ m.content | tojson(indent=2) }}{% endgeneration %}
{% endfor %}{{ tools | tojson }}{% set ns = namespace(a=1) %}{{ ns.a }}{{ bos_token }}{{ dict(a=1) }}"""
    chat = [{"role": "user", "content": text} for text in ("<é'&>", "b\n", "", "never")]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    given = {"tools": tools, "bos_token": "<s>", "flag": True}
    expected, _ = chat_template_utils.render_jinja_template([chat], chat_template=template, **given)
    assert render_template(template, messages=chat, **given) == expected[0]
    for hostile in ("{{ messages.append(1) }}", "{{ ''.__class__.__mro__ }}", "{{ raise_exception('no') }}"):
        with pytest.raises(TemplateError):
            render_template(hostile, messages=chat)


def test_a_file_needs_neither_torch_nor_transformers(folder: Path, quantised: Any) -> None:
    """In a process that has neither: load, chat, extract, the processor."""
    code = """
import sys
sys.modules |= {"torch": None, "transformers": None}
import constrained
from constrained.integrations.llama_cpp import LlamaCppLogitsProcessor
model = constrained.load(sys.argv[1], n_threads=1)
many = constrained.extract_many(model, ["Ana, 1987."] * 2, {"enum": ["a", "b"]}, batch_size=2)
print(len({result.value for result in many}), model.llama.create_completion(
    "x", logits_processor=LlamaCppLogitsProcessor({"enum": ["a"]}, model.llama), temperature=0.0)["choices"][0]["text"])
"""
    run = [sys.executable, "-c", code, str(folder / "tiny-q8.GGUF")]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.stdout == '1 "a"\n', done.stderr


def test_chats_are_written_by_the_template_of_the_file(quantised: Any) -> None:
    chat = [{"role": "system", "content": "Say yes."}, {"role": "user", "content": "Now"}]
    text = bundled().tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    special = {token: name for name, token in quantised.vocabulary.special.items()}
    spelled = b"".join(
        special[token].encode() if token in special else quantised.vocabulary.tokens[token]
        for token in quantised.encode(chat)
    )
    assert spelled.decode() == text
    assert quantised.encode("Now") == quantised.encode([chat[1]])
    with pytest.raises(PromptError, match="surrogate"):
        quantised.encode("\ud800")


# ------------------------------------------------------------------------------------------------ loading


def test_load_refuses_what_it_cannot_open(folder: Path, exact: Any) -> None:
    with pytest.raises(ModelError, match="there is no file"):
        constrained.load(folder / "nothing.gguf")
    damaged = folder / "damaged.gguf"
    damaged.write_bytes((folder / "tiny.gguf").read_bytes()[:3000])
    with pytest.raises(ModelError, match="cannot be loaded"):
        constrained.load(damaged)
    with pytest.raises(ModelError, match=r"has no option n_thread\n  -> did you mean n_threads"):
        constrained.load(folder / "tiny.gguf", n_thread=2)
    with pytest.raises(ModelError, match="isolate cannot be set for a GGUF file"):
        constrained.load(folder / "tiny.gguf", isolate=True)
    with pytest.raises(ModelMismatch, match="for the tokenizer and"):
        constrained.load(folder / "tiny.gguf", small_bpe_tokenizer())


def test_the_context_and_a_loaded_llama(folder: Path, exact: Any) -> None:
    from llama_cpp import Llama

    assert exact.context == 2048
    short = constrained.load(folder / "tiny.gguf", bundled().tokenizer, n_ctx=64)
    assert short.context == 64
    with pytest.raises(PromptError, match="the model reads 64 in all"):
        Generator(short, PERSON)("long " * 80)
    llama = Llama(str(folder / "tiny.gguf"), verbose=False)
    loaded = constrained.load(llama, bundled().tokenizer)
    assert loaded.context == 2048
    assert loaded.fingerprint == exact.fingerprint != constrained.load(folder / "tiny-q8.GGUF").fingerprint
    assert (
        Generator(loaded, PERSON)(TEXTS[0], max_tokens=40).text
        == Generator(exact, PERSON)(TEXTS[0], max_tokens=40).text
    )


def test_a_file_can_be_named_on_the_command_line(
    folder: Path, quantised: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    schema = folder / "person.json"
    schema.write_text(json.dumps(PERSON))
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["extract", TEXTS[0], "--schema", str(schema), "--model", str(folder / "tiny-q8.GGUF")])
    assert set(json.loads(capfd.readouterr().out)) == {"name", "born"}


# ------------------------------------------------------------------------------------------------ the logits processor


def completed(llama: Any, prompt: list[int], *processors: Any, **options: Any) -> str:
    from llama_cpp import LogitsProcessorList

    settings = {"max_tokens": 41, "temperature": 0.0, **options}
    said = llama.create_completion(prompt, logits_processor=LogitsProcessorList(processors), **settings)
    return str(said["choices"][0]["text"])


@pytest.fixture(scope="module")
def llama(folder: Path, exact: Any) -> Any:
    from llama_cpp import Llama

    return Llama(str(folder / "tiny.gguf"), n_ctx=512, verbose=False, **ONE)


def test_completions_of_llama_cpp_follow_the_constraint(llama: Any) -> None:
    from constrained.integrations.llama_cpp import LlamaCppLogitsProcessor

    processor = LlamaCppLogitsProcessor(PERSON, llama, max_tokens=40)
    expected = Generator(bundled(), PERSON)
    for text in (*TEXTS, TEXTS[0]):
        assert completed(llama, bundled().encode(text), processor) == expected(text, max_tokens=40).text
    for seed in range(4):
        short = LlamaCppLogitsProcessor(PERSON, llama, max_tokens=17)
        said = completed(llama, bundled().encode(TEXTS[0]), short, max_tokens=18, temperature=1.5, seed=seed)
        assert set(json.loads(said)) == {"name", "born"}


@pytest.mark.parametrize("bias", [None, {"5": -1.0}])
def test_a_processor_alone_constrains_the_text(llama: Any, bias: Any) -> None:
    """llama-cpp-python takes a list, and writes without the constraint where it cannot run through one."""
    from constrained.integrations.llama_cpp import LlamaCppLogitsProcessor

    processor = LlamaCppLogitsProcessor(choice(["red", "green"]), llama)
    said = llama.create_completion(
        "A colour:", temperature=0.0, logits_processor=processor, logit_bias=bias, max_tokens=20
    )
    assert said["choices"][0]["text"] in ("red", "green")


def test_the_vocabulary_of_a_llama_is_read_once_and_does_not_keep_its_weights(
    folder: Path, exact: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    from llama_cpp import Llama

    own = Llama(str(folder / "tiny.gguf"), verbose=False)
    vocabulary = llama_vocabulary(own)
    assert llama_vocabulary(own) is vocabulary
    ids, alive = vocabulary.encode("Ana Novák"), weakref.ref(own)
    assert constrained.compile(choice(["red"]), vocabulary).vocabulary is vocabulary
    capfd.readouterr()
    del own
    assert alive() is None
    assert vocabulary.encode("Ana Novák") == ids
    assert pickle.loads(pickle.dumps(vocabulary)).encode("Ana Novák") == ids
    assert capfd.readouterr() == ("", "")


def test_a_failure_ends_the_text_and_is_shown(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """llama-cpp-python calls processors from C, where an exception is lost: nothing may be written after one."""
    from constrained.integrations.llama_cpp import LlamaCppLogitsProcessor

    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: seen.append(unraisable.exc_value))
    forced = 77

    def forcing(input_ids: Any, scores: Any) -> Any:
        return np.where(np.arange(len(scores)) == forced, 0, -np.inf).astype(scores.dtype)

    processor = LlamaCppLogitsProcessor(PERSON, llama)
    assert (
        completed(llama, bundled().encode(TEXTS[0]), processor, forcing)
        == bundled().vocabulary.tokens[forced].decode()
    )
    assert isinstance(processor.error, InvalidArgument)
    assert seen[0] is processor.error


def test_drafts_of_llama_cpp_are_refused(folder: Path, exact: Any) -> None:
    from llama_cpp import Llama
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    from constrained.integrations.llama_cpp import LlamaCppLogitsProcessor

    drafting = Llama(str(folder / "tiny.gguf"), draft_model=LlamaPromptLookupDecoding(), verbose=False)
    with pytest.raises(InvalidArgument, match="draft_model"):
        LlamaCppLogitsProcessor(PERSON, drafting)
