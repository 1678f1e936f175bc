"""The cache of models that read draft trees: rows stand in slots of a slab, each token at the column of its position.

A pass over draft trees writes the tokens of a tree behind its row. What is kept of it is moved to the front before the next
pass, so rows have no holes; rows that leave make room without a copy of those that stay.

The bookkeeping is on the host. A pass copies what it needs of it to the device in one piece, and waits for nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.models.attention_masks import AttentionLayout, ancestor_words, is_chain
from constrained.models.base import Cache
from constrained.models.cache import ForwardFunction, HuggingFaceCache, forward_row
from constrained.models.positions import COLUMNS, Positions

if TYPE_CHECKING:
    import torch

    from constrained.models.fixed_steps import FixedSteps
    from constrained.models.slab import Slab
    from constrained.models.upload import PassUpload

_ROOM = 64
"""Columns beyond those in use that a slab is made with."""


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A row.

    Attributes:
        slot: of the slab.
        length: tokens.
        begin: where `path` begins.
        path: for the last tokens, from column `begin` on: at which columns behind `begin` they still are; empty where all
            are in their place.
        used: columns of the slot that matter.
        shift: from columns to positions, of the next token, see `constrained.models.positions`.
    """

    slot: int
    length: int = 0
    begin: int = 0
    path: tuple[int, ...] = ()
    used: int = 0
    shift: int = 0


class SlabCache(HuggingFaceCache):
    """Rows in the first slots of a slab, in any order.

    With fixed steps all slots and columns of a slab take part in every pass, and the tokens of a pass are padded to one of
    a few numbers; long prompts are read in chunks. Without them a pass has the rows, tokens and columns that are there.
    """

    def __init__(
        self,
        rows: int,
        layout: AttentionLayout,
        steps: FixedSteps | None = None,
        positions: Positions = COLUMNS,
    ) -> None:
        """Creates an empty cache.

        Args:
            rows: number of rows.
            layout: the model's attention layers.
            steps: passes of fixed sizes; None: of any size.
            positions: of ids.
        """
        self._steps = steps
        self._rows = [SlotRow(slot) for slot in range(rows)]
        self._layout, self._positions = layout, positions
        self._slab: Slab | None = None

    def __del__(self) -> None:
        slab = self.__dict__.get("_slab")
        if slab is not None and self._steps is not None:
            self._steps.give_back(slab)

    @property
    def lengths(self) -> list[int]:
        """Tokens read so far, per row."""
        return [row.length for row in self._rows]

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows, in this order."""
        kept = [self._rows[row] for row in rows]
        free = [*range(len(kept))]
        copies: list[tuple[int, int, int]] = []
        stays = [False] * len(kept)
        for i, row in enumerate(kept):
            if row.slot in free:  # of no row before
                free.remove(row.slot)
                stays[i] = True
        # Slots that are left hold no row that is kept.
        for i, row in enumerate(kept):
            if not stays[i]:
                kept[i] = replace(row, slot=free.pop(0))
                copies.append((row.slot, kept[i].slot, row.used))
        self._reserve(len(kept), 0)
        if self._slab is not None and copies:
            self._slab.take(self._slab, copies)
        self._rows = kept
        # All slots take part in a fixed step.
        if self._steps is not None and self._slab is not None and 0 < 2 * len(kept) <= self._slab.slots:
            self._replace(len(kept), self._slab.columns)

    def fork(self, rows: Sequence[int]) -> Cache:
        """An independent cache of these rows."""
        twin = copy.copy(self)
        twin._slab, twin._rows = None, [replace(self._rows[row], slot=i) for i, row in enumerate(rows)]
        if self._slab is not None and rows:
            twin._slab = self._make(len(rows), max(row.used for row in twin._rows) + _ROOM)
            copies = [(self._rows[row].slot, i, self._rows[row].used) for i, row in enumerate(rows)]
            twin._slab.take(self._slab, copies)
        return twin

    def branch(self, count: int) -> Cache:
        """Rows that go on from the only one here; in passes of any size its columns are stored once, as their prefix."""
        from constrained.models.slab import Slab

        (row,) = self._rows
        if self._steps is not None or self._slab is None or self._slab.base is not None or row.path:
            return self.fork([0] * count)
        assert row.slot == 0
        twin = copy.copy(self)
        twin._rows = [replace(row, slot=slot) for slot in range(count)]
        twin._slab = Slab(self._layout, count, row.length + _ROOM, self._slab, row.length)
        return twin

    def join(self, other: Cache) -> None:
        """Appends the rows of another cache: they are copied, and those here stay where they are."""
        assert isinstance(other, SlabCache)
        if not self._rows:
            self._slab, self._rows = other._slab, other._rows
            other._slab, other._rows = None, []
        if not other._rows:
            return
        self._reserve(len(self._rows) + len(other._rows), max(row.used for row in other._rows))
        assert self._slab is not None
        assert other._slab is not None, "rows that have read nothing cannot be joined to others"
        rows = [replace(row, slot=slot) for slot, row in enumerate(other._rows, len(self._rows))]
        copies = [(old.slot, new.slot, old.used) for old, new in zip(other._rows, rows, strict=True)]
        self._slab.take(other._slab, copies)
        self._rows = self._rows + rows

    def forward(
        self, run: ForwardFunction, tokens: Sequence[Sequence[int]], upload: PassUpload
    ) -> torch.Tensor:
        """The first call reads each row in its own forward pass, later calls read all rows in one.

        Prompts differ in length, so one pass for all would mostly read padding; read alone, a prompt has equal logits
        in every batch.
        """
        import torch

        self._reserve(len(tokens), self._longest(tokens))
        if self._steps is not None:
            parents = [range(-1, len(ids) - 1) for ids in tokens]
            logits = self._steps_of(run, tokens, parents, [len(ids) - 1 for ids in tokens], upload)
        elif self._unmasked:
            self._settle(upload)
            logits = torch.cat([self._read(run, row, ids, upload) for row, ids in enumerate(tokens)])
        else:
            parents = [range(-1, len(ids) - 1) for ids in tokens]
            wanted = [[len(ids) - 1] for ids in tokens]
            logits = self._look(run, tokens, parents, wanted, upload)
        for row, ids in enumerate(tokens):
            end = self._rows[row].length + len(ids)
            self._rows[row] = replace(self._rows[row], length=end, used=end, shift=self._shift(row, ids))
        return logits

    def forward_trees(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        upload: PassUpload,
    ) -> list[torch.Tensor]:
        """As `forward`: the first call reads each row in its own forward pass, later calls read all rows in one."""
        import torch

        self._reserve(len(tokens), self._longest(tokens))
        wanted = [range(start, len(ids)) for start, ids in zip(skip, tokens, strict=True)]
        if self._steps is not None:
            together = self._steps_of(run, tokens, parents, skip, upload)
            logits = list(torch.split(together, [len(places) for places in wanted]))
        elif self._unmasked and all(map(is_chain, parents)):
            self._settle(upload)
            logits = [
                self._read(run, row, ids, upload, every=len(wanted[row])) for row, ids in enumerate(tokens)
            ]
        elif not any(self.lengths):
            logits = []
            for row, ids in enumerate(tokens):
                logits.append(self._look(run, [ids], [parents[row]], [wanted[row]], upload, rows=[row]))
        else:
            together = self._look(run, tokens, parents, wanted, upload)
            logits = list(torch.split(together, [len(places) for places in wanted]))
        self._rows = [
            # Draft tokens, which may go, are of texts.
            replace(one, begin=one.length, used=one.length + len(ids), shift=self._shift(row, ids))
            for row, (one, ids) in enumerate(zip(self._rows, tokens, strict=True))
        ]
        return logits

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Keeps one path of each tree; it is moved to the front before the next pass."""
        self.keep(rows)
        for i, path in enumerate(paths):
            row = self._rows[i]
            end = row.begin + len(path)
            placed = next((at for at, place in enumerate(path) if place != at), len(path))
            self._rows[i] = SlotRow(
                row.slot,
                length=end,
                begin=row.begin + placed,
                path=tuple(place - placed for place in path[placed:]),
                used=end if placed == len(path) else row.used,
                shift=row.shift,
            )

    @property
    def _unmasked(self) -> bool:
        """Whether rows are read one by one, without a mask: at their beginning, and a single one that no window hides a part of."""
        return not any(self.lengths) or (len(self._rows) == 1 and not self._layout.hidden(self.lengths[0]))

    def _shift(self, row: int, ids: Sequence[int]) -> int:
        """The shift of a row behind more ids."""
        return self._rows[row].shift + self._positions.shift(ids)

    def _longest(self, tokens: Sequence[Sequence[int]]) -> int:
        """Columns that a pass needs: rows are padded to equal numbers of tokens, and in fixed steps to their size."""
        from constrained.models.fixed_steps import CHUNKS

        padding = 0 if self._steps is None else max(CHUNKS)
        return max(self.lengths) + max(map(len, tokens)) + padding

    def _reserve(self, slots: int, columns: int) -> None:
        """Makes the slab large enough for all that is there, and for this."""
        slab = self._slab
        if slab is None:
            if columns:
                self._slab = self._make(slots, columns + _ROOM)
            return
        if slots <= slab.slots and columns <= slab.columns:
            return
        slots = slab.slots if slots <= slab.slots else max(slots, 1 + 5 * slab.slots // 4)
        columns = slab.columns if columns <= slab.columns else max(columns + _ROOM, 5 * slab.columns // 4)
        self._replace(slots, columns)

    def _make(self, slots: int, columns: int) -> Slab:
        from constrained.models.slab import Slab

        if self._steps is not None:
            return self._steps.slab(slots, columns)
        base, prefix = (None, 0) if self._slab is None else (self._slab.base, self._slab.prefix)
        return Slab(self._layout, slots, columns, base, prefix)

    def _replace(self, slots: int, columns: int) -> None:
        """Copies all rows, which are in the first slots, into another slab."""
        old = self._slab
        assert old is not None
        self._slab = self._make(slots, columns)
        copies = [(row.slot, row.slot, row.used) for row in self._rows]
        self._slab.take(old, copies, last=self._steps is None)
        if self._steps is not None:
            self._steps.give_back(old)

    def _move_to_graphs(self) -> None:
        """Copies all rows into a slab whose passes have been captured, if there is one: that takes less time than to capture one."""
        assert self._steps is not None
        assert self._slab is not None
        other = self._steps.captured(self._slab)
        if other is not None:
            other.take(self._slab, [(row.slot, row.slot, row.used) for row in self._rows if row.used])
            self._steps.give_back(self._slab)
            self._slab = other

    def _moves(self) -> list[NDArray[Any]]:
        """What `Slab.compact` moves: source [slots, tokens] and start [slots], int32; nothing, if all is in place."""
        moved = [row for row in self._rows if row.path]
        if not moved:
            return []
        assert self._slab is not None
        source = np.full((self._slab.slots, max(len(row.path) for row in moved)), -1, dtype=np.int32)
        start = np.zeros(self._slab.slots, dtype=np.int32)
        for row in moved:
            start[row.slot] = begin = row.begin - self._slab.prefix
            here = np.arange(len(row.path))
            path = np.array(row.path)
            source[row.slot, : len(path)] = np.where(path == here, -1, begin + path)
        self._rows = [replace(row, path=(), used=row.length) for row in self._rows]
        return [source, start]

    def _settle(self, upload: PassUpload, moves: Sequence[torch.Tensor] | None = None) -> None:
        """Moves what was kept of the last trees to the front."""
        if moves is None:
            arrays = self._moves()
            moves = upload(*arrays) if arrays else ()
        if moves:
            assert self._slab is not None
            self._slab.compact(*moves)

    def _read(
        self, run: ForwardFunction, row: int, ids: Sequence[int], upload: PassUpload, *, every: int = 1
    ) -> torch.Tensor:
        """Reads tokens of one row, without padding or mask; logits after the last `every` ones, [every, V]."""
        assert self._slab is not None
        slot, begin = self._rows[row].slot, self._rows[row].length
        target, first = self._slab.target, begin - self._slab.prefix
        target.slots, target.shown, target.before = (slot, slot + 1), first + len(ids), begin
        target.columns, target.hidden = (first, first + len(ids)), {}
        return forward_row(
            run, ids, self._slab.cache, begin, upload,
            every=every, positions=self._positions, shift=self._rows[row].shift,
        )  # fmt: skip

    def _steps_of(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        upload: PassUpload,
    ) -> torch.Tensor:
        """Fixed steps: first tokens of long rows in chunks, then the rest, with logits of all but the skipped tokens."""
        from constrained.models.fixed_steps import CHUNKS, SIZES

        self._move_to_graphs()
        done = [0] * len(tokens)
        for chunk in CHUNKS:
            while max(len(ids) - at for ids, at in zip(tokens, done, strict=True)) > SIZES[-1]:
                taken = [chunk if at + chunk <= start else 0 for at, start in zip(done, skip, strict=True)]
                if not any(taken):
                    break
                parts = [ids[at : at + count] for ids, at, count in zip(tokens, done, taken, strict=True)]
                chains = [range(-1, len(part) - 1) for part in parts]
                self._look(run, parts, chains, [()] * len(parts), upload, begun=self._begun(tokens, done))
                done = [at + count for at, count in zip(done, taken, strict=True)]
        rest = [ids[at:] for ids, at in zip(tokens, done, strict=True)]
        trees = [[max(-1, one - at) for one in tree[at:]] for tree, at in zip(parents, done, strict=True)]
        wanted = [range(start - at, len(ids)) for start, at, ids in zip(skip, done, rest, strict=True)]
        return self._look(run, rest, trees, wanted, upload, begun=self._begun(tokens, done))

    def _begun(self, tokens: Sequence[Sequence[int]], done: Sequence[int]) -> list[SlotRow]:
        """The rows behind so many first tokens."""
        return [
            replace(row, length=row.length + at, shift=self._shift(i, ids[:at]))
            for i, (row, ids, at) in enumerate(zip(self._rows, tokens, done, strict=True))
        ]

    def _look(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        wanted: Sequence[Sequence[int]],
        upload: PassUpload,
        *,
        rows: Sequence[int] | None = None,
        begun: Sequence[SlotRow] | None = None,
    ) -> torch.Tensor:
        """One forward pass.

        Args:
            run: the model.
            tokens: ids, by row.
            parents: of each of them.
            wanted: tokens after which logits are wanted, by row.
            upload: copies ids to where they go.
            rows: those that are read; None: all.
            begun: these rows, as of their first tokens here; None: as they are.

        Returns:
            Logits of the wanted tokens, row after row, [places, V].
        """
        from constrained.models.tree_pass import tree_pass

        assert self._slab is not None
        begun = begun or [self._rows[row] for row in rows or range(len(tokens))]
        first = 0 if rows is None else begun[0].slot
        slots, width = len(tokens), max(map(len, tokens))
        if self._steps is None:
            # The head of the model reads these columns alone: not those of a prompt before its drafts.
            columns = width - min((places[0] for places in wanted if places), default=width - 1)
        else:
            slots, width = self._slab.slots, self._steps.size(width)
            columns = width
        ids = np.zeros((slots, width), dtype=np.int64)
        lengths = np.zeros(slots, dtype=np.int64)
        shifts = [0] * slots
        trees: list[Sequence[int]] = [()] * slots
        picked: list[int] = []
        for row, given, before, places in zip(begun, tokens, parents, wanted, strict=True):
            at = row.slot - first
            ids[at, : len(given)] = given
            lengths[at], shifts[at] = row.length, row.shift
            trees[at] = before
            picked += [at * columns + place - (width - columns) for place in places]
        depths, words = ancestor_words(trees, width)
        all_in_order = picked == [*range(len(picked))]
        chosen = np.array([] if all_in_order else picked, dtype=np.int64)
        moves = self._moves() if rows is None else []
        placed = self._positions.of(ids, lengths[:, None] + depths, shifts)
        apart = [] if placed is None else [placed]
        inputs, behind, deep, seen, index, *more = upload(ids, lengths, depths, words, chosen, *apart, *moves)
        positions, moved = more[: len(apart)], more[len(apart) :]
        self._settle(upload, moved)
        if self._steps is not None:
            logits = self._steps(self._slab, inputs, behind, deep, seen, *positions, every=bool(picked))
        else:
            shown, hidden = int(lengths.max()) + width, self._layout.hidden(int(lengths.min()))
            logits = tree_pass(
                run, self._layout, self._slab, first, shown, inputs, behind, deep, seen, *positions,
                every=columns, hidden=hidden,
            )  # fmt: skip
        logits = logits.flatten(0, 1)
        return logits[: len(picked)] if all_in_order else logits.index_select(0, index)
