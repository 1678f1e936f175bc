"""`ServedModel`: a model under its name, with the thread that owns it and the compiler of its constraints."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from constrained.automaton.cache import compile_cached
from constrained.chat.tools import ToolFormat
from constrained.decoding.generator import Generator
from constrained.decoding.speculation import DraftSchedulers, resolve_speculation, speculation_obstacle
from constrained.errors import InvalidArgument
from constrained.models import LanguageModel
from constrained.sampling import Local
from constrained.server.compiler import Compiler
from constrained.server.read_request import named
from constrained.server.request_constraint import first_constraints
from constrained.server.scheduler import Scheduler
from constrained.server.settings import ServerSettings
from constrained.server.workers import Workers


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that requests can name.

    Attributes:
        name: what requests call it.
        language_model: the model.
        scheduler: decodes its sequences.
        compiler: compiles constraints for its vocabulary.
    """

    name: str
    language_model: LanguageModel
    scheduler: Scheduler
    compiler: Compiler

    def warm(self) -> None:
        """Loads modules and tables before the first request; on a device, captures passes and compiles kernels."""
        for constraint in first_constraints():
            compile_cached(constraint, self.compiler.vocabulary)
        self.scheduler.warm_up()
        if self.language_model.plans_draws:
            draw = Generator(self.language_model, {"type": "object"}, sampler=Local(weights=False))
            for temperature in (0.0, 1.0):
                draw([0], temperature=temperature, max_tokens=8)


class ServedModels:
    """The models of a server by name.

    Attributes:
        by_name: in the order in which they were given; a model with several names is there several times.
        workers: compile constraints and prepare large requests for all of them.
    """

    def __init__(
        self,
        models: LanguageModel | Mapping[str, LanguageModel],
        settings: ServerSettings,
        format: ToolFormat | None,
    ) -> None:
        """Each model gets a batch of its own; workers are shared.

        Args:
            models: by name; or one model, whose name is that of the settings.
            settings: limits and the name.
            format: format of tool calls; None: detected from each chat template.

        Raises:
            InvalidArgument: there are no models, one without a name, or something that is not a `LanguageModel`.
        """
        named = models if isinstance(models, Mapping) else {settings.name: models}
        if not named or not all(named):
            raise InvalidArgument(
                "a server needs at least one model, each with a name", action="pass them by name"
            )
        for model in named.values():
            if not isinstance(model, LanguageModel):
                raise InvalidArgument(
                    f"a {type(model).__name__} cannot be served",
                    action="pass what constrained.load(...) returns",
                )
        self.workers = Workers(named, settings, format)
        self.by_name: dict[str, ServedModel] = {}
        for name, model in named.items():
            same = next((one for one in self.distinct if one.language_model is model), None)
            if same is None:
                self.by_name[name] = _served(name, model, settings, self.workers, format)
            else:
                self.by_name[name] = replace(same, name=name)

    @property
    def distinct(self) -> list[ServedModel]:
        """Each model once, under its first name."""
        return list({id(one.scheduler): one for one in reversed(self.by_name.values())}.values())[::-1]

    @property
    def failure(self) -> str | None:
        """Type of the error that ended a scheduler; None while all of them run."""
        return next((one.scheduler.failure for one in self.distinct if one.scheduler.failure), None)

    def named(self, name: str | None) -> ServedModel:
        """The model of a request; without a name the first one.

        Raises:
            ApiError: 404, there is none of that name.
        """
        return named(self.by_name, name)

    def parent(self, model: ServedModel) -> str | None:
        """The name of the served model over whose weights an adapter's model is; None: it is no adapter's, or that one is not served."""
        base = model.language_model.adapted_from
        return next(
            (one.name for one in self.distinct if base is not None and one.language_model is base), None
        )

    def shed(self) -> None:
        """Ends a running request of the model that has most."""
        max(self.distinct, key=lambda one: one.scheduler.running).scheduler.shed()

    def start(self) -> None:
        """Loads what the first requests need, and starts the threads that own the models."""
        starting = threading.Thread(target=self.workers.start, name="workers")
        starting.start()
        for one in self.distinct:
            one.warm()
            one.scheduler.start()
        starting.join()

    def stop(self) -> None:
        """Ends all requests, then the threads."""
        self.workers.close()
        for one in self.distinct:
            one.scheduler.stop()


def _served(
    name: str, model: LanguageModel, settings: ServerSettings, workers: Workers, format: ToolFormat | None
) -> ServedModel:
    """A model with its scheduler and its compiler."""
    speculation = resolve_speculation(settings.speculation)
    drafts = shared = None
    if speculation is not None and speculation_obstacle(model) is None:
        drafts = DraftSchedulers(speculation, model.vocabulary, chains=model.no_trees is not None)
        shared = drafts.for_constraint(*compile_cached({"type": "object"}, model.vocabulary))
    scheduler = Scheduler(
        model,
        settings.max_batch,
        shared,
        speculation_max_batch=settings.speculation_max_batch,
    )
    return ServedModel(name, model, scheduler, Compiler(name, model, settings, workers, format, drafts))
