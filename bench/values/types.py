"""The types that the project's own documents are read into.

Members that a text may leave out come last. No member can be known without the text.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal


@dataclass
class Customer:
    """Who has to pay."""

    name: str
    city: str


@dataclass
class Invoice:
    """A bill for what was sold."""

    number: str
    issued: date
    customer: Customer
    currency: Literal["CZK", "EUR", "GBP", "USD"]
    total: float
    items: list[str]
    paid: bool
    due: date | None = None


@dataclass
class Biography:
    """A person's life in a few words."""

    name: str
    born: date
    birthplace: str
    occupation: str
    languages: list[str]
    employer: str | None = None
    children: int | None = None


@dataclass
class Venue:
    """Where an event takes place."""

    name: str
    city: str


@dataclass
class Event:
    """Something that people go to."""

    title: str
    kind: Literal["concert", "conference", "exhibition", "market", "workshop"]
    starts: date
    venue: Venue
    free: bool
    guests: list[str]
    ends: date | None = None
    capacity: int | None = None


class Priority(enum.Enum):
    """How soon a ticket has to be solved."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


@dataclass
class Ticket:
    """A customer's trouble with a product."""

    reference: str
    opened: date
    customer: str
    product: str
    priority: Priority
    resolved: bool
    parts: list[str]
    refund: float | None = None
    assignee: str | None = None


@dataclass
class Job:
    """An advertisement for a job."""

    title: str
    company: str
    city: str
    contract: Literal["permanent", "fixed-term", "internship", "freelance"]
    remote: bool
    skills: list[str]
    salary: int | None = None
    apply_by: date | None = None
    hours: int | None = None


@dataclass
class Line:
    """Something that was ordered."""

    product: str
    quantity: int
    price: float


@dataclass
class Order:
    """What a customer buys."""

    customer: str
    ordered: date
    lines: list[Line]
    total: float
    shipping: float | None = None


TYPES: dict[str, type[Any]] = {
    "biography": Biography,
    "event": Event,
    "invoice": Invoice,
    "job": Job,
    "order": Order,
    "ticket": Ticket,
}
"""By the names that documents give them."""
