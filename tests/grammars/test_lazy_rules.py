"""Rules whose bodies are made when somebody asks for them."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest

from constrained.automaton import TokenAutomaton, fill_masks
from grammars import ir
from grammars.transform.lazy_rules import LazyRules, rules_built_so_far
from tests.support.finite import byte_vocabulary

LENGTH = 50


class Chain:
    """``(0(1(2( ... )))``: each rule calls the next, and its body is built when it is reached."""

    def __init__(self, length: int = LENGTH, pause: float = 0.0) -> None:
        self.length = length
        self.pause = pause
        self.made: list[str] = []
        self.lengths = {"1": self.shortest(1)}
        self.rules = LazyRules({"0": self.body("0")}, self.lengths, self.make)
        self.grammar = ir.Grammar(self.rules, "0")

    def shortest(self, number: int) -> int:
        return sum(len(f"({i})") for i in range(number, self.length))

    def body(self, name: str) -> ir.Expr:
        number = int(name)
        inner = ir.call(str(number + 1)) if number + 1 < self.length else ir.EPSILON
        return ir.sequence(ir.terminal(f"({number}"), inner, ir.terminal(")"))

    def make(self, name: str) -> ir.Expr:
        time.sleep(self.pause)
        self.made.append(name)
        if int(name) + 1 < self.length:
            self.lengths[str(int(name) + 1)] = self.shortest(int(name) + 1)
        return self.body(name)

    @property
    def text(self) -> bytes:
        return "".join(f"({i}" for i in range(self.length)).encode() + b")" * self.length


def test_a_body_is_built_once_when_it_is_reached() -> None:
    chain = Chain()
    assert list(rules_built_so_far(chain.grammar)) == ["0"]
    assert chain.rules["1"] is chain.rules["1"]
    assert chain.made == ["1"]
    with pytest.raises(KeyError):
        chain.rules["3"]  # nobody has called it yet


def test_whoever_looks_at_all_rules_sees_all_of_them() -> None:
    chain = Chain()
    assert len(chain.rules) == LENGTH
    assert list(chain.rules) == [str(i) for i in range(LENGTH)]
    assert sorted(chain.made) == sorted(str(i) for i in range(1, LENGTH))


def test_an_automaton_asks_for_what_its_text_comes_to() -> None:
    chain = Chain()
    automaton = TokenAutomaton(chain.grammar, byte_vocabulary())
    assert automaton.memory["rules"] == 1
    state = automaton.start
    assert automaton.shortest_completion(state) == len(chain.text)  # this spells the whole text
    assert automaton.memory["rules"] == LENGTH

    chain = Chain()
    automaton = TokenAutomaton(chain.grammar, byte_vocabulary())
    state = automaton.start
    row = automaton.new_mask()
    for byte in chain.text[:20]:
        automaton.fill_mask(state, row)
        assert row.view(np.uint32)[byte // 32] == 1 << byte % 32
        state = automaton.next(state, byte)
    assert len(chain.made) <= 11  # a rule takes two bytes, or three
    assert automaton.memory["rules"] == len(chain.made) + 1


def test_every_question_may_come_to_a_rule_without_a_body() -> None:
    text = Chain().text

    def states(automaton: TokenAutomaton, count: int) -> list[int]:
        return automaton.walk(automaton.start, list(text[:count]))

    def fresh() -> TokenAutomaton:
        return TokenAutomaton(Chain().grammar, byte_vocabulary(b"(0(1", b"(1(2(3(4"))

    whole = TokenAutomaton(ir.Grammar(dict(Chain().rules), "0"), byte_vocabulary(b"(0(1", b"(1(2(3(4"))
    for count in (0, 1, 2, 3, 17):
        expected = states(whole, count)[-1] if count else whole.start
        for ask in (forced, shortest, one_row, row_within, several_rows, pooled_rows):
            automaton = fresh()
            state = states(automaton, count)[-1] if count else automaton.start
            assert ask(automaton, state) == ask(whole, expected)
        assert len(states(fresh(), len(text))) == len(text)


def forced(automaton: TokenAutomaton, state: int) -> object:
    return automaton.forced(state)


def shortest(automaton: TokenAutomaton, state: int) -> object:
    return automaton.shortest_completion(state)


def one_row(automaton: TokenAutomaton, state: int) -> object:
    row = automaton.new_mask()
    automaton.fill_mask(state, row)
    return row.tolist()


def row_within(automaton: TokenAutomaton, state: int) -> object:
    row = automaton.new_mask()
    automaton.fill_mask_within(state, row, 400)
    return row.tolist()


def several_rows(automaton: TokenAutomaton, state: int) -> object:
    rows = automaton.new_mask(1)
    automaton.fill_masks([state], rows)
    return rows.tolist()


def pooled_rows(automaton: TokenAutomaton, state: int) -> object:
    rows = automaton.new_mask(2)
    fill_masks([automaton, automaton], [state, automaton.start], rows)
    return rows.tolist()


def test_threads_share_an_automaton_and_its_rules() -> None:
    """Several threads come to the same rules at the same time; another automaton of the same grammar does, too."""
    chain = Chain(pause=0.0005)
    vocabulary = byte_vocabulary()
    automata = [TokenAutomaton(chain.grammar, vocabulary) for _ in range(2)]
    start = threading.Barrier(6)
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            automaton = automata[number % 2]
            start.wait()
            state, row = automaton.start, automaton.new_mask()
            for byte in chain.text:
                automaton.fill_mask(state, row)
                assert row.view(np.uint32)[byte // 32] == 1 << byte % 32
                state = automaton.next(state, byte)
            assert automaton.accepts(state)
        except BaseException as error:  # reported by the test
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert sorted(chain.made, key=int) == [str(i) for i in range(1, LENGTH)]
    assert all(automaton.memory["rules"] == LENGTH for automaton in automata)


def test_a_wrong_length_is_an_error_and_not_a_dead_end() -> None:
    rules = LazyRules(
        {"start": ir.sequence(ir.terminal("<"), ir.call("later"))},
        {"later": 2},
        lambda name: ir.terminal("abc"),
    )
    automaton = TokenAutomaton(ir.Grammar(rules, "start"), byte_vocabulary())
    with pytest.raises(ValueError, match="lazy rule"):
        automaton.next(automaton.start, ord("<"))


def test_what_a_maker_raises_is_raised() -> None:
    def fail(name: str) -> ir.Expr:
        raise OSError(name)

    rules = LazyRules({"start": ir.sequence(ir.terminal("<"), ir.call("later"))}, {"later": 2}, fail)
    automaton = TokenAutomaton(ir.Grammar(rules, "start"), byte_vocabulary())
    for _ in range(2):
        with pytest.raises(OSError, match="later"):
            automaton.next(automaton.start, ord("<"))


class Table(ctypes.Structure):
    """What `spec/_core/automaton_table.hpp` says of the capsule of an automaton."""

    _fields_ = (
        ("automaton", ctypes.c_void_p),
        ("next", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)),
        (
            "forced",
            ctypes.CFUNCTYPE(
                ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t
            ),
        ),
        (
            "first_bytes",
            ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64)),
        ),
    )


def test_a_drafter_comes_to_rules_without_a_body() -> None:
    """It asks natively, and without the lock of the interpreter."""
    automaton = TokenAutomaton(Chain().grammar, byte_vocabulary())
    capsule = automaton.automaton_table
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.argtypes, name.restype = [ctypes.py_object], ctypes.c_char_p
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    table = Table.from_address(pointer(capsule, name(capsule)))
    text = Chain().text
    state = automaton.start
    for byte in text[:9]:
        state = table.next(table.automaton, state, byte)
        assert state
    room = ctypes.create_string_buffer(len(text))
    assert table.forced(table.automaton, state, room, len(text)) == len(text) - 9
    assert room.raw[: len(text) - 9] == text[9:]
    words = (ctypes.c_uint64 * 4)()
    table.first_bytes(table.automaton, state, words)
    assert [byte for byte in range(256) if words[byte // 64] >> byte % 64 & 1] == [text[9]]
