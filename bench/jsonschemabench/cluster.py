"""A Ray cluster: the same rows, by actors that hold an engine and its model once, through Ray Data.

A schema goes out as a row of text with its id and comes back as one, whatever happens to it: an actor holds its
engine in a process of its own, as the processes of this machine are held, with the same limits, and starts another
where one died. Which schemas are left is settled before, by the ids of the rows that are there.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained.bench.jsonschemabench import rows as r
from constrained.bench.jsonschemabench.data import SchemaItem
from constrained.bench.jsonschemabench.local import ModelWorker
from constrained.bench.masks.supervise import EngineUnavailable
from constrained.errors import InvalidArgument
from constrained.extraction.cluster.ray_cluster import connected, load_ray
from constrained.extras import MissingExtra

if TYPE_CHECKING:
    from constrained.bench.jsonschemabench.settings import SchemaBenchSettings

ACTOR_BATCH = 4
"""Schemas that an actor takes at a time: rows come in hands, and an interruption costs no more than these."""


class RayActor:
    """What an actor runs: one engine with its model.

    Args:
        engine: its name.
        settings: as `SchemaBenchSettings`.
    """

    def __init__(self, engine: str, settings: SchemaBenchSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._worker: ModelWorker | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="jsonschemabench-")
        self._missing = ""
        try:
            self._worker = self._start()
        except EngineUnavailable as error:
            self._missing = str(error)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Columns ``id`` and ``item`` in; ``id``, ``row``, ``version`` and ``unavailable`` out, in the same order."""
        rows = [self._row(text) for text in batch["item"]]
        version = "" if self._worker is None else self._worker.ready.version
        return {
            "id": [str(name) for name in batch["id"]],
            "row": rows,
            "version": [version] * len(rows),
            "unavailable": [self._missing] * len(rows),
        }

    def _row(self, text: str) -> str:
        if self._worker is not None and self._worker.closed and not self._missing:
            try:
                self._worker = self._start()
            except EngineUnavailable as error:
                self._missing = str(error)
        if self._worker is None or self._missing:
            return ""
        item = SchemaItem(**json.loads(text))
        return json.dumps(self._worker.row(self._engine, item, self._settings).to_json())

    def _start(self) -> ModelWorker:
        return ModelWorker(self._engine, self._settings, Path(self._folder.name))

    def __del__(self) -> None:
        if getattr(self, "_worker", None) is not None:
            self._worker.close()  # type: ignore[union-attr]
        self._folder.cleanup()


class RayBackend:
    """The backend ``ray``, see `constrained.bench.jsonschemabench.run.Backend`.

    Raises:
        InvalidArgument: Ray is not installed.
    """

    def __init__(self, settings: SchemaBenchSettings, out: Path) -> None:
        try:
            load_ray()
        except MissingExtra as error:
            raise InvalidArgument(str(error), action="or use --backend local") from None
        self.versions: dict[str, str] = {}
        self._settings = settings

    def rows(self, engine: str, items: Sequence[SchemaItem]) -> Generator[r.SchemaBenchRow, None, None]:
        """See `Backend`.

        Raises:
            InvalidArgument: the cluster cannot be reached.
        """
        with connected(self._settings.address, cores=self._settings.processes * self._settings.threads):
            for answer in self._answers(engine, items):
                if answer["unavailable"]:
                    raise EngineUnavailable(str(answer["unavailable"]))
                self.versions.setdefault(engine, str(answer["version"]))
                yield r.SchemaBenchRow(**json.loads(answer["row"]))

    def _answers(self, engine: str, items: Sequence[SchemaItem]) -> Iterable[dict[str, Any]]:
        import ray.data

        settings = self._settings
        dealt = deal_batches(items)
        cards = [{"id": item.id, "item": json.dumps(asdict(item))} for hand in dealt for item in hand]
        blocks = ray.data.from_items(cards, override_num_blocks=len(dealt))
        # One hand at a time: an actor that got hard ones is not given the next before it has done with them.
        size = min(settings.processes, len(dealt))
        actors = ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=1)
        answers: Iterable[dict[str, Any]] = blocks.map_batches(
            RayActor,
            fn_constructor_args=(engine, settings),
            batch_size=None,  # whole hands
            compute=actors,
            num_cpus=settings.threads,
            num_gpus=settings.gpus,
        ).iter_rows()
        return answers


def deal_batches(items: Sequence[SchemaItem]) -> list[list[SchemaItem]]:
    """The schemas in hands of `ACTOR_BATCH`, dealt by size like cards: no hand gets more than its part of the big ones.

    Args:
        items: any number.

    Returns:
        The hands; the one with the biggest schema comes first, so that no big one is begun at the very end.
    """
    count = -(-len(items) // ACTOR_BATCH)
    by_size = sorted(items, key=lambda item: (-len(json.dumps(item.schema)), item.id))
    return [by_size[place::count] for place in range(count)]
