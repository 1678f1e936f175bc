"""The texts of `constrained demo`, each with what is read out of it, and the answer that is right.

They were written once, as people write, and are kept whatever the model makes of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, time
from typing import Any, Literal

from constrained.constraint import choice


@dataclass
class Customer:
    """Who has to pay."""

    name: str
    city: str


@dataclass
class Invoice:
    """An invoice."""

    number: str
    issued: date
    customer: Customer
    items: list[str]
    total: float
    currency: Literal["EUR", "GBP", "USD"]


@dataclass
class Person:
    """A person."""

    name: str
    born: date
    birthplace: str
    occupation: str
    languages: list[str]


@dataclass
class Event:
    """An event that is open to the public."""

    performer: str
    day: date
    doors_open: time
    venue: str
    city: str
    ticket_price: float


@dataclass
class Ticket:
    """A message to the support of an app."""

    customer: str
    app_version: str
    device: str
    kind: Literal["crash", "billing", "feature request", "other"]
    urgent: bool
    earlier_ticket: int | None = None


COMPLAINT = choice(["cleanliness", "noise", "price", "service"])


@dataclass
class Resident:
    """A person."""

    name: str
    born: date
    city: str
    languages: list[str]


@dataclass
class Recipient:
    """The recipient of a parcel."""

    name: str
    city: str


@dataclass
class Parcel:
    """A parcel."""

    tracking_number: str
    weight: float
    status: Literal["in transit", "delivered", "returned"]
    fragile: bool
    recipient: Recipient


@dataclass
class Flight:
    """A flight."""

    flight_number: str
    origin: str
    destination: str
    departs_on: date
    passengers: list[str]


@dataclass(frozen=True)
class DemoText:
    """A text of the demo.

    Attributes:
        title: what kind of text it is.
        text: what is read.
        constraint: a type, or a choice.
        shown: the classes whose source shows the type, or its expression.
        answer: the value that is right.
        instructions: for the prompt.
    """

    title: str
    text: str
    constraint: Any
    shown: tuple[type, ...] | str
    answer: Any
    instructions: str | None = None

    @property
    def is_json(self) -> bool:
        """Whether the answer is JSON, which a choice is not."""
        return isinstance(self.constraint, type)


TEXTS = (
    DemoText(
        "a person",
        "Ingrid Solberg was born in Tromsø on 4 November 1979. She trained as a marine biologist and has "
        "worked at the aquarium in Bergen since 2011. She speaks Norwegian, English and some Russian.",
        Person,
        (Person,),
        Person(
            name="Ingrid Solberg",
            born=date(1979, 11, 4),
            birthplace="Tromsø",
            occupation="marine biologist",
            languages=["Norwegian", "English", "Russian"],
        ),
    ),
    DemoText(
        "an event",
        "Jazz in the courtyard: on Saturday 18 July 2026 the Nadia Okafor Quartet plays at the Old Customs "
        "House in Bristol. Doors open at 19:30. Tickets cost £12, children get in for free.",
        Event,
        (Event,),
        Event(
            performer="Nadia Okafor Quartet",
            day=date(2026, 7, 18),
            doors_open=time(19, 30),
            venue="Old Customs House",
            city="Bristol",
            ticket_price=12.0,
        ),
    ),
    DemoText(
        "a support ticket",
        "Hi, this is Tom Achterberg. Since yesterday's update (5.2.1) your app crashes every time I open the "
        "camera on my Pixel 8. I already reinstalled it twice, no luck. I need it for work, so please "
        "hurry! My ticket from last week was 88142.",
        Ticket,
        (Ticket,),
        Ticket(
            customer="Tom Achterberg",
            app_version="5.2.1",
            device="Pixel 8",
            kind="crash",
            urgent=True,
            earlier_ticket=88142,
        ),
    ),
    DemoText(
        "an invoice",
        "Bright & Sons Plumbing, Leeds\nInvoice 2024-0387, 12 March 2024\n"
        "To: Hannah Whitfield, 14 Mill Lane, Otley\n"
        "Replacing a kitchen tap, parts and labour: 145.00\nNew shut-off valve: 32.50\n"
        "Total 177.50 pounds, payable within 30 days",
        Invoice,
        (Customer, Invoice),
        Invoice(
            number="2024-0387",
            issued=date(2024, 3, 12),
            customer=Customer("Hannah Whitfield", "Otley"),
            items=["Replacing a kitchen tap, parts and labour", "New shut-off valve"],
            total=177.5,
            currency="GBP",
        ),
    ),
    DemoText(
        "a choice",
        "The room was spotless and the staff were lovely, but the street below is so loud that we hardly "
        "slept. Next time we would ask for a room at the back.",
        COMPLAINT,
        'choice(["cleanliness", "noise", "price", "service"])',
        "noise",
        "What does the guest complain about?",
    ),
)
"""Of the real model."""

BUNDLED_TEXTS = (
    DemoText(
        "a person",
        "Marie Lefèvre was born on 1987-03-14 and lives in Lyon. She speaks French, German and Catalan.",
        Resident,
        (Resident,),
        Resident("Marie Lefèvre", date(1987, 3, 14), "Lyon", ["French", "German", "Catalan"]),
    ),
    DemoText(
        "a parcel",
        "The parcel has the tracking number RX7741 and the weight 12.5. The status is in transit. Fragile: yes. "
        "The recipient has the name Jonas Berg and the city Göteborg.",
        Parcel,
        (Recipient, Parcel),
        Parcel("RX7741", 12.5, "in transit", True, Recipient("Jonas Berg", "Göteborg")),
    ),
    DemoText(
        "a flight",
        "Flight number: KL1509\nOrigin: Amsterdam\nDestination: Kraków\nDeparts on: 2026-07-02\n"
        "Passengers: Ana Silva, Tomáš Novák",
        Flight,
        (Flight,),
        Flight("KL1509", "Amsterdam", "Kraków", date(2026, 7, 2), ["Ana Silva", "Tomáš Novák"]),
    ),
)
"""Of the bundled model, which reads only texts that name each field."""
