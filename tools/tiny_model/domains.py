"""What the made-up documents speak of: the domains, their fields and the ways to say each field.

Data only. In a clause `{v}` is the value and what comes before the clause is its subject; `{l}` is a label of
the field. A clause that opens with a comma stands right after its subject.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.tiny_model import values as v
from tools.tiny_model.values import (
    BoolKind,
    EnumKind,
    FieldKind,
    ListKind,
    decimals,
    integers,
)


@dataclass(frozen=True)
class DomainField:
    """One fact about a subject: names for its key (the first is the concept), its values, its clauses."""

    labels: tuple[str, ...]
    kind: FieldKind | EnumKind | BoolKind | ListKind
    clauses: tuple[str, ...] = ()


@dataclass(frozen=True)
class DomainObject:
    """A nested object with its own subject, such as a customer or an address."""

    labels: tuple[str, ...]
    fields: tuple[DomainField, ...]
    subject: bool = True  # False: an address, whose clauses follow the subject of the whole


@dataclass(frozen=True)
class DomainTable:
    """A list of objects; each template says one whole row, `{0}` being the value of its first field."""

    labels: tuple[str, ...]
    fields: tuple[DomainField, ...]
    templates: tuple[str, ...]
    leads: tuple[str, ...]


@dataclass(frozen=True)
class Domain:
    """A kind of document: its subjects, whether the first field names the subject, and its fields."""

    name: str
    subjects: tuple[str, ...]
    fields: tuple[DomainField | DomainObject | DomainTable, ...]
    named: bool = True


# fmt: off
# One field a line: a table is easier to read wide than long.


def _f(labels: str, kind: FieldKind | EnumKind | BoolKind | ListKind, clauses: str = "") -> DomainField:
    return DomainField(tuple(labels.split("|")), kind, tuple(clauses.split("|")) if clauses else ())


def _choice(options: str) -> EnumKind:
    return EnumKind(tuple(options.split("|")))


def _flag(yes: str, no: str) -> BoolKind:
    return BoolKind(tuple(yes.split("|")), tuple(no.split("|")))


_EMAIL = _f("email|mail|e mail|email address|contact email", v.EMAIL, "can be reached at {v}|answers mail at {v}|writes from {v}|uses the address {v}")
_PHONE = _f("phone|telephone|phone number|mobile|tel", v.PHONE, "can be called on {v}|picks up the phone at {v}|has the number {v}")
_CITY = _f("city|town|place|location", v.PLACE, "lives in {v}|is based in {v}|comes from {v}")
_NAME = _f("name|full name|person", v.PERSON, "is called {v}|is {v}|goes by the name of {v}")
_ADDRESS = DomainObject(
    ("address", "postal address", "home address"),
    (
        _f("street|street address|road", v.STREET, "is at {v}|can be found at {v}"),
        _f("city|town|place", v.PLACE, "is in {v}|belongs to {v}"),
        _f("postcode|zip|zip code|postal code", v.POSTCODE, "has the postcode {v}|has zip code {v}"),
        _f("country|nation", v.COUNTRY, "lies in {v}|is in {v}"),
    ),
)
_PRICE = _f("price|cost|unit price|amount", decimals(1, 900), "costs {v}|sells for {v}|is priced at {v}|goes for {v} euros")
_TOTAL = _f("total|total amount|sum|grand total|amount due", decimals(5, 5000), "comes to {v} in total|totals {v}|adds up to {v}")
_CURRENCY = _f("currency", _choice("EUR|USD|GBP|JPY|CHF|SEK"), "is billed in {v}|is paid in {v}")
_NOTE = _f("tags|keywords|labels|topics", ListKind(v.WORD, 1, 4), "is tagged {v}|is filed under {v}|carries the tags {v}")
_PRIORITY = _f("priority|urgency", _choice("low|medium|high|urgent"), "has {v} priority|is of {v} priority|was marked {v}")
_RATING = _f("rating|score|stars", decimals(1, 5, 1), "is rated {v}|scores {v} out of 5|has a rating of {v}")


def _contact(labels: str, *more: DomainField) -> DomainObject:
    return DomainObject(tuple(labels.split("|")), (_NAME, _EMAIL, _PHONE, *more))


_PERSON = Domain(
    "person",
    ("The person", "She", "He", "This member", "They"),
    (
        _NAME,
        _f("age|age in years|years", integers(18, 95, 0.02), "is {v} years old|is {v}|turned {v} this year|, {v},|, aged {v},|, {v} years old,"),
        _CITY,
        _EMAIL,
        _PHONE,
        _f("job|occupation|profession|job title|role", v.PHRASE, "works as a {v}|earns a living as a {v}|, a {v},|is a {v}"),
        _f("employer|company|organisation|works for", v.COMPANY, "works for {v}|works at {v}|is employed by {v}|joined {v}"),
        _f("birth date|date of birth|born|birthday", v.DATE, "was born on {v}|has a birthday on {v}|, born {v},"),
        _f("nationality|country|country of birth", v.COUNTRY, "is a citizen of {v}|comes from {v}|holds a passport of {v}"),
        _f("hobbies|interests|pastimes", ListKind(v.WORD, 1, 4), "enjoys {v}|likes {v}|spends weekends on {v}"),
        _f("languages|spoken languages", ListKind(v.WORD, 1, 3), "speaks {v}|is fluent in {v}"),
        _f("height|height cm", integers(140, 210), "is {v} cm tall|measures {v} cm"),
        _f("married|is married", _flag("is married|has a spouse", "is not married|is single")),
        _f("children|number of children|kids", integers(0, 6, 0.5), "has {v} children|is a parent of {v}"),
        _ADDRESS,
    ),
)

_PRODUCT = Domain(
    "product",
    ("The product", "It", "This item", "The article"),
    (
        _f("name|product|product name|title|item", v.PRODUCT, "is called {v}|is sold as {v}|is the {v}"),
        _PRICE,
        _f("brand|maker|manufacturer", v.COMPANY, "is made by {v}|comes from the maker {v}|is a {v} product"),
        _f("sku|product code|article number|id", v.CODE, "has the article number {v}|is listed as {v}|carries the code {v}"),
        _f("stock|quantity|units in stock|in stock", integers(0, 900), "has {v} units in stock|is available {v} times|counts {v} pieces on the shelf"),
        _f("color|colour|finish", _choice("black|white|red|blue|green|silver|grey"), "comes in {v}|is {v}|has a {v} finish"),
        _f("weight|weight kg|mass", decimals(0.1, 60), "weighs {v} kg|has a weight of {v} kg"),
        _f("available|is available|in store", _flag("is available now|can be ordered today", "is not available|is sold out")),
        _f("category|department|type", _choice("kitchen|garden|office|sport|toys|audio|clothing"), "is found under {v}|belongs to the {v} range"),
        _f("materials|made of", ListKind(v.WORD, 1, 3), "is made of {v}|consists of {v}"),
        _f("warranty months|warranty", integers(6, 60), "has {v} months of warranty|is covered for {v} months"),
        _RATING,
        _CURRENCY,
    ),
)

_ORDER = Domain(
    "order",
    ("The order", "This order", "It", "The invoice"),
    (
        _f("order id|order number|id|reference|invoice number", v.CODE, "has the number {v}|is order {v}|carries the reference {v}|, number {v},"),
        _f("date|order date|ordered on|placed on", v.DATE, "was placed on {v}|is dated {v}|came in on {v}"),
        _TOTAL,
        _CURRENCY,
        _f("status|state|order status", _choice("paid|pending|shipped|cancelled|delivered|refunded|in progress"), "is {v}|was marked as {v}|is currently {v}"),
        _contact("customer|client|buyer", _f("city|town", v.PLACE, "lives in {v}|comes from {v}")),
        DomainTable(
            ("items", "lines", "products", "positions", "order lines"),
            (
                _f("product|name|item|description", v.PRODUCT),
                _f("quantity|count|amount|qty", integers(1, 40, 0.15)),
                _f("price|unit price|price each", decimals(0.5, 400)),
            ),
            ("{1} x {0} at {2}", "{1} of the {0} for {2} each", "{0}, {1} pieces, {2} each", "{0} ({1} at {2})"),
            ("It contains", "The lines are", "Ordered were", "The items:"),
        ),
        _f("discount|discount percent|rebate", integers(1, 50), "has a discount of {v} percent|is reduced by {v} %"),
        _f("paid|is paid", _flag("has been paid|is settled", "has not been paid|is still open")),
        _f("payment method|payment|paid by", _choice("card|cash|transfer|paypal|voucher"), "is paid by {v}|was settled by {v}"),
        _f("due date|due|payable by", v.DATE, "is due on {v}|must be paid by {v}"),
    ),
)

_EVENT = Domain(
    "event",
    ("The event", "It", "This evening", "The meeting"),
    (
        _f("title|name|event|event name", v.TITLE, "is called {v}|is announced as {v}|bears the title {v}"),
        _f("date|day|event date|when", v.DATE, "takes place on {v}|is on {v}|is set for {v}|happens on {v}"),
        _f("start time|start|starts at|begins", v.TIME, "starts at {v}|begins at {v}|opens at {v}"),
        _f("end time|end|ends at", v.TIME, "ends at {v}|is over at {v}|closes at {v}"),
        _f("venue|place|location|hall", v.TITLE, "is held at {v}|uses the hall {v}"),
        _f("city|town", v.PLACE, "takes place in {v}|comes to {v}|is in {v}"),
        _f("organizer|host|organiser", v.PERSON, "is organised by {v}|is hosted by {v}"),
        _f("speakers|guests|performers", ListKind(v.PERSON, 1, 3), "features {v}|presents {v}|has talks by {v}"),
        _f("seats|capacity|places", integers(10, 5000), "offers {v} seats|has room for {v} people"),
        _f("ticket price|price|entry", decimals(3, 150), "costs {v} to enter|has tickets at {v}|charges {v}"),
        _f("free|is free|free entry", _flag("is free of charge|has free entry", "is not free|charges for entry")),
        _NOTE,
    ),
)

_BOOKING = Domain(
    "booking",
    ("The booking", "This reservation", "It", "The stay"),
    (
        _f("reference|booking reference|confirmation|booking id", v.CODE, "has the reference {v}|is confirmed as {v}|is booking {v}"),
        _f("guest|guest name|name|booked by", v.PERSON, "is for {v}|was made by {v}|is in the name of {v}"),
        _f("hotel|hotel name|property", v.TITLE, "is at the hotel {v}|is with {v}"),
        _f("check in|arrival|arrival date|from", v.DATE, "starts on {v}|has check-in on {v}|begins with arrival on {v}"),
        _f("check out|departure|departure date|until", v.DATE, "ends on {v}|has check-out on {v}|closes with departure on {v}"),
        _f("guests|number of guests|persons|party size", integers(1, 9, 0.4), "is for {v} guests|covers {v} people|is for a party of {v}"),
        _f("nights|number of nights", integers(1, 21, 0.3), "lasts {v} nights|covers {v} nights"),
        _f("room type|room|category", _choice("single|double|suite|family|studio|twin"), "includes a {v} room|is for a {v} room"),
        _f("breakfast|breakfast included", _flag("includes breakfast|comes with breakfast", "has no breakfast|does not include breakfast")),
        _f("requests|special requests|wishes", ListKind(v.PHRASE, 1, 3), "asks for {v}|comes with requests for {v}"),
        _TOTAL,
        _contact("contact|traveller"),
    ),
    named=False,
)

_ESTATE = Domain(
    "real estate",
    ("The flat", "The house", "It", "This property", "The apartment"),
    (
        _f("listing id|listing|id|reference", v.CODE, "is listed as {v}|has the listing number {v}"),
        _f("street|address|street address", v.STREET, "is at {v}|stands at {v}|can be seen at {v}"),
        _f("city|town|location", v.PLACE, "is in {v}|lies in {v}|is located in {v}"),
        _f("rooms|number of rooms|bedrooms", integers(1, 9, 0.4), "has {v} rooms|offers {v} rooms"),
        _f("area|size|square meters|floor area", integers(25, 400), "measures {v} square metres|covers {v} m2|has {v} sqm"),
        _f("rent|monthly rent|price", integers(300, 9000), "rents for {v} a month|costs {v} per month"),
        _f("floor|storey", integers(0, 20, 0.1), "is on floor {v}|is on level {v}"),
        _f("furnished|is furnished", _flag("is furnished|comes with furniture", "is unfurnished|comes without furniture")),
        _f("balcony|has balcony", _flag("has a balcony|comes with a balcony", "has no balcony|lacks a balcony")),
        _f("built|year built|construction year", integers(1850, 2025), "was built in {v}|dates from {v}"),
        _f("features|extras|amenities", ListKind(v.WORD, 1, 4), "boasts {v}|includes {v}"),
        _f("available from|free from|move in date", v.DATE, "is free from {v}|can be moved into on {v}"),
        _contact("agent|landlord|owner"),
    ),
    named=False,
)

_JOB = Domain(
    "job offer",
    ("The position", "This role", "It", "The job"),
    (
        _f("title|job title|position|role", v.PHRASE, "is for a {v}|calls for a {v}|is that of a {v}"),
        _f("company|employer|firm", v.COMPANY, "is offered by {v}|is open at {v}|is with {v}"),
        _f("location|city|place of work", v.PLACE, "is based in {v}|is in {v}"),
        _f("salary|annual salary|pay|yearly pay", integers(20000, 180000), "pays {v} a year|comes with a salary of {v}"),
        _f("skills|required skills|requirements", ListKind(v.WORD, 1, 5), "requires {v}|asks for {v}|needs knowledge of {v}"),
        _f("experience|years of experience|experience years", integers(1, 15, 0.3), "needs {v} years of experience|asks for {v} years in the field"),
        _f("contract|contract type|employment type", _choice("permanent|temporary|freelance|internship|part time|full time"), "is {v}|is a {v} one"),
        _f("remote|is remote|remote work", _flag("can be done remotely|is remote", "is on site only|is not remote")),
        _f("deadline|closing date|apply by", v.DATE, "closes on {v}|is open until {v}|takes applications until {v}"),
        _f("contact|contact person|recruiter", v.PERSON, "is handled by {v}|has {v} as contact"),
        _f("start date|start|starting", v.DATE, "starts on {v}|begins on {v}"),
    ),
    named=False,
)

_RECIPE = Domain(
    "recipe",
    ("The dish", "It", "This recipe", "The meal"),
    (
        _f("name|title|dish|recipe", v.TITLE, "is called {v}|is known as {v}"),
        _f("servings|serves|portions", integers(1, 12, 0.4), "serves {v}|makes {v} portions|is enough for {v} people"),
        _f("prep time|preparation minutes|preparation time|prep minutes", integers(5, 90), "takes {v} minutes to prepare|needs {v} minutes of preparation"),
        _f("cook time|cooking minutes|cooking time", integers(5, 240), "cooks for {v} minutes|bakes for {v} minutes"),
        DomainTable(
            ("ingredients", "shopping list", "components"),
            (
                _f("name|ingredient|item", v.WORD),
                _f("amount|quantity", integers(1, 800)),
                _f("unit|measure", _choice("g|ml|cups|spoons|pieces")),
            ),
            ("{1} {2} {0}", "{1} {2} of {0}", "{0} ({1} {2})", "{0}: {1} {2}"),
            ("You need", "It takes", "Ingredients:", "Use"),
        ),
        _f("ingredients|ingredient list|made with", ListKind(v.WORD, 2, 5), "is made with {v}|needs {v}|combines {v}"),
        _f("difficulty|level", _choice("easy|medium|hard"), "is {v}|is {v} to make"),
        _f("vegetarian|is vegetarian", _flag("is vegetarian|contains no meat", "is not vegetarian|contains meat")),
        _f("cuisine|origin|country", v.COUNTRY, "comes from {v}|is a classic of {v}"),
        _f("calories|energy|kcal", integers(80, 1500), "has {v} calories|provides {v} kcal"),
        _f("author|chef|cook", v.PERSON, "was created by {v}|is a recipe by {v}"),
        _RATING,
    ),
)

_APPOINTMENT = Domain(
    "appointment",
    ("The appointment", "It", "This visit", "The consultation"),
    (
        _f("patient|patient name|name", v.PERSON, "is for {v}|was booked by {v}|concerns the patient {v}"),
        _f("doctor|physician|practitioner", v.PERSON, "is with Dr. {v}|is with doctor {v}|will be held by Dr. {v}"),
        _f("date|day|appointment date", v.DATE, "is on {v}|takes place on {v}|is set for {v}"),
        _f("time|hour|start time|at", v.TIME, "starts at {v}|is at {v}|begins at {v}"),
        _f("duration|minutes|duration minutes|length", integers(10, 120), "lasts {v} minutes|takes {v} minutes"),
        _f("reason|complaint|symptom", v.PHRASE, "is about a {v}|was made because of a {v}"),
        _f("symptoms|complaints", ListKind(v.PHRASE, 1, 3), "follows complaints of {v}|is due to {v}"),
        _f("clinic|practice|hospital", v.TITLE, "takes place at the {v} clinic|is at {v}"),
        _f("department|specialty", _choice("cardiology|dermatology|surgery|radiology|neurology|dentistry"), "is in {v}|belongs to {v}"),
        _f("insured|has insurance|insurance", _flag("is covered by insurance|is insured", "is not covered by insurance|is not insured")),
        _f("first visit|new patient", _flag("is a first visit|is for a new patient", "is a follow-up|is not a first visit")),
        _f("temperature|body temperature", decimals(35, 41, 1), "notes a temperature of {v}|records a fever of {v}"),
        _f("room|room number", integers(1, 480), "is in room {v}"),
    ),
    named=False,
)

_SHIPMENT = Domain(
    "shipment",
    ("The parcel", "The shipment", "It", "This package"),
    (
        _f("tracking number|tracking|tracking id|id", v.CODE, "has the tracking number {v}|is tracked as {v}|, tracked as {v},"),
        _f("carrier|courier|shipped by", v.COMPANY, "travels with {v}|is carried by {v}|was handed to {v}"),
        _f("origin|from|sent from", v.PLACE, "left {v}|was sent from {v}|comes from {v}"),
        _f("destination|to|sent to", v.PLACE, "goes to {v}|is bound for {v}|is on its way to {v}"),
        _f("weight|weight kg|mass", decimals(0.1, 90), "weighs {v} kg|tips the scales at {v} kg"),
        _f("status|state|delivery status", _choice("in transit|delivered|delayed|lost|returned|at customs|pending"), "is {v}|is reported as {v}"),
        _f("shipped on|ship date|sent on", v.DATE, "was shipped on {v}|left on {v}"),
        _f("expected|delivery date|expected delivery|eta", v.DATE, "should arrive on {v}|is expected on {v}|will be delivered on {v}"),
        _f("fragile|is fragile", _flag("is fragile|must be handled with care", "is not fragile|is robust")),
        _f("pieces|boxes|number of boxes", integers(1, 40, 0.2), "consists of {v} boxes|counts {v} pieces"),
        _contact("sender|shipper", _f("city|town", v.PLACE, "lives in {v}|writes from {v}")),
        _contact("recipient|receiver|addressee", _f("city|town", v.PLACE, "lives in {v}|waits in {v}")),
        _f("contents|goods", ListKind(v.PRODUCT, 1, 3), "contains {v}|holds {v}"),
    ),
    named=False,
)

_BOOK = Domain(
    "book",
    ("The book", "It", "This volume", "The novel"),
    (
        _f("title|name|book title", v.TITLE, "is called {v}|is titled {v}|bears the title {v}"),
        _f("author|writer|written by", v.PERSON, "was written by {v}|is by {v}|is a work of {v}|, by {v},"),
        _f("authors|writers", ListKind(v.PERSON, 1, 3), "was written by {v}|is by {v}"),
        _f("year|published|publication year|year published", integers(1800, 2026), "appeared in {v}|was published in {v}|came out in {v}"),
        _f("publisher|publishing house|press", v.COMPANY, "was published by {v}|appeared with {v}|is sold by {v}"),
        _f("pages|page count|number of pages", integers(40, 1200), "has {v} pages|runs to {v} pages"),
        _f("isbn|isbn 13", v.text_kind(lambda rng: "978" + "".join(rng.choice("0123456789") for _ in range(10)), coded=True), "has the ISBN {v}|carries ISBN {v}"),
        _f("language", v.WORD, "is written in {v}|reads in {v}"),
        _f("genre|category", _choice("fiction|poetry|history|crime|romance|science|travel|biography"), "is {v}|belongs to {v}|is shelved under {v}"),
        _PRICE,
        _RATING,
        _NOTE,
        _f("translated|is translation", _flag("is a translation|was translated", "is not a translation|was never translated")),
    ),
)

_BUG = Domain(
    "bug report",
    ("The bug", "It", "This issue", "The report"),
    (
        _f("id|ticket|ticket id|issue id", v.CODE, "is tracked as {v}|has the ticket {v}|is filed as {v}"),
        _f("title|summary|subject", v.PHRASE, "is about a {v}|describes a {v}"),
        _f("severity|impact", _choice("minor|major|critical|blocker|trivial"), "is {v}|was rated {v}"),
        _PRIORITY,
        _f("status|state", _choice("open|closed|in review|fixed|duplicate|assigned"), "is {v}|is now {v}"),
        _f("version|affected version|release", v.text_kind(lambda rng: f"{rng.randint(0, 20)}.{rng.randint(0, 40)}.{rng.randint(0, 30)}"), "affects version {v}|was seen in version {v}|hits release {v}"),
        _f("reporter|reported by|author", v.PERSON, "was reported by {v}|was found by {v}|comes from {v}"),
        _f("assignee|assigned to|owner", v.PERSON, "was given to {v}|is assigned to {v}|is in the hands of {v}"),
        _f("component|module|area", v.WORD, "sits in the {v} module|touches the component {v}"),
        _f("steps|steps to reproduce|reproduction", ListKind(v.PHRASE, 1, 4), "is triggered by the steps {v}|can be reproduced by {v}"),
        _f("reported on|date|created", v.DATE, "was reported on {v}|was opened on {v}"),
        _f("reproducible|is reproducible", _flag("can be reproduced|is reproducible", "cannot be reproduced|is not reproducible")),
        _f("affected users|users|user count", integers(1, 9000), "affects {v} users|was met by {v} users"),
        _NOTE,
    ),
    named=False,
)

_COMPANY = Domain(
    "company",
    ("The company", "It", "The firm", "The business"),
    (
        _f("name|company|company name", v.COMPANY, "is called {v}|trades as {v}|is known as {v}"),
        _f("founded|year founded|founding year|established", integers(1850, 2026), "was founded in {v}|was set up in {v}|has existed since {v}"),
        _f("headquarters|city|head office|seat", v.PLACE, "has its head office in {v}|is based in {v}|sits in {v}"),
        _f("employees|staff|headcount|number of employees", integers(1, 90000), "employs {v} people|has {v} employees|has a staff of {v}"),
        _f("ceo|chief executive|head|director", v.PERSON, "is led by {v}|is run by {v}|has {v} as its head"),
        _f("revenue|turnover|annual revenue", decimals(0.5, 900, 1), "makes {v} million a year|reports a turnover of {v} million"),
        _f("industry|sector|branch", v.WORD, "works in {v}|is active in {v}"),
        _f("website|url|homepage|web site", v.URL, "has its website at {v}|can be found at {v}|is online at {v}"),
        _f("founders|founded by", ListKind(v.PERSON, 1, 3), "was founded by {v}|was started by {v}"),
        _f("listed|publicly traded|is public", _flag("is listed on the stock exchange|is publicly traded", "is not listed|is privately held")),
        _f("products|product lines", ListKind(v.PRODUCT, 1, 3), "makes {v}|sells {v}"),
        _ADDRESS,
    ),
)

_FLIGHT = Domain(
    "flight",
    ("The flight", "It", "This connection", "The plane"),
    (
        _f("flight number|flight|number|id", v.text_kind(lambda rng: v._letters(rng, 2) + str(rng.randint(10, 9999)), coded=True), "has the number {v}|is flight {v}|flies as {v}"),
        _f("airline|operator|carrier", v.COMPANY, "is operated by {v}|is flown by {v}"),
        _f("from|origin|departure city|departs from", v.PLACE, "leaves from {v}|departs from {v}|takes off in {v}"),
        _f("to|destination|arrival city|arrives in", v.PLACE, "flies to {v}|lands in {v}|arrives in {v}"),
        _f("departure time|departs|departure|takes off at", v.TIME, "leaves at {v}|departs at {v}|takes off at {v}"),
        _f("arrival time|arrives|arrival|lands at", v.TIME, "arrives at {v}|lands at {v}"),
        _f("date|day|travel date", v.DATE, "flies on {v}|is on {v}"),
        _f("gate", v.text_kind(lambda rng: rng.choice("ABCDEFGH") + str(rng.randint(1, 90)), coded=True), "boards at gate {v}|uses gate {v}"),
        _f("seat class|class|cabin", _choice("economy|business|first|premium"), "is booked in {v}|is in {v} class"),
        _f("delayed|is delayed", _flag("is delayed|runs late", "is on time|is not delayed")),
        _f("passengers|passenger names|travellers", ListKind(v.PERSON, 1, 3), "carries {v}|is booked for {v}"),
        _f("fare|price|ticket price", decimals(30, 2000), "costs {v}|has a fare of {v}"),
    ),
    named=False,
)

_FILM = Domain(
    "film",
    ("The film", "It", "This movie", "The picture"),
    (
        _f("title|name|film|movie", v.TITLE, "is called {v}|runs under the title {v}"),
        _f("director|directed by", v.PERSON, "was directed by {v}|is directed by {v}|is a film by {v}"),
        _f("cast|actors|starring", ListKind(v.PERSON, 1, 4), "stars {v}|has {v} in the cast"),
        _f("year|release year|released", integers(1920, 2026), "came out in {v}|was released in {v}"),
        _f("length|runtime|duration|running time", integers(60, 240), "lasts {v} minutes|runs for {v} minutes"),
        _f("genres|genre list", ListKind(v.WORD, 1, 3), "mixes {v}|is a blend of {v}"),
        _f("studio|production company", v.COMPANY, "was produced by {v}|was made by {v}"),
        _f("country|country of origin", v.COUNTRY, "was shot in {v}|comes from {v}"),
        _f("budget|budget millions", decimals(0.2, 300, 1), "cost {v} million to make|had a budget of {v} million"),
        _f("subtitled|has subtitles", _flag("has subtitles|is subtitled", "has no subtitles|is not subtitled")),
        _RATING,
    ),
)

_TEAM = Domain(
    "team",
    ("The team", "It", "The project", "The group"),
    (
        _f("name|team|project|project name", v.TITLE, "is called {v}|goes by the name {v}"),
        _f("leader|lead|manager|project lead", v.PERSON, "is led by {v}|reports to {v}|is managed by {v}"),
        DomainTable(
            ("members", "people", "staff", "participants"),
            (
                _f("name|full name|person", v.PERSON),
                _f("role|position|job", v.WORD),
                _f("age|years", integers(18, 70)),
            ),
            ("{0} ({1}, {2})", "{0}, {2} years old, {1}", "{0}, {1}, aged {2}", "{0} as {1} ({2} years)"),
            ("The members are", "On board are", "It consists of", "Members:"),
        ),
        _f("budget|funds|funding", integers(1000, 900000), "has a budget of {v}|can spend {v}"),
        _f("deadline|due|end date", v.DATE, "must deliver by {v}|ends on {v}|is due on {v}"),
        _f("started|start date|since", v.DATE, "started on {v}|has worked since {v}"),
        _f("tools|technologies|stack", ListKind(v.WORD, 1, 4), "uses {v}|works with {v}"),
        _f("active|is active", _flag("is active|is still running", "is not active|has been closed")),
        _f("city|location|office", v.PLACE, "works in {v}|is based in {v}"),
        _PRIORITY,
    ),
)

# Domains that training never sees.

_VEHICLE = Domain(
    "vehicle",
    ("The car", "It", "This vehicle", "The van"),
    (
        _f("model|vehicle|name", v.PRODUCT, "is a {v}|is the model {v}"),
        _f("plate|license plate|registration", v.CODE, "has the plate {v}|is registered as {v}"),
        _f("mileage|kilometers|odometer", integers(100, 250000), "has run {v} km|shows {v} km"),
        _f("year|model year|built", integers(1980, 2026), "was built in {v}|dates from {v}"),
        _f("fuel|fuel type", _choice("petrol|diesel|electric|hybrid|gas"), "runs on {v}|is {v}"),
        _f("owner|owner name|keeper", v.PERSON, "belongs to {v}|is owned by {v}"),
        _f("price|asking price", integers(500, 90000), "costs {v}|sells for {v}"),
        _f("doors|number of doors", integers(2, 5, 0.4), "has {v} doors"),
        _f("inspected on|last inspection", v.DATE, "was inspected on {v}|passed its inspection on {v}"),
        _f("accident free|no accidents", _flag("is accident free|never had an accident", "is not accident free|had an accident")),
        _f("extras|equipment", ListKind(v.WORD, 1, 4), "comes with {v}|includes {v}"),
    ),
)

_COURSE = Domain(
    "course",
    ("The course", "It", "This class", "The seminar"),
    (
        _f("title|course|course title", v.TITLE, "is called {v}|is titled {v}"),
        _f("course code|code|id", v.CODE, "has the code {v}|is listed as {v}"),
        _f("teacher|instructor|lecturer", v.PERSON, "is taught by {v}|is given by {v}"),
        _f("students|participants|enrolled", integers(3, 400), "has {v} students|counts {v} participants"),
        _f("start date|starts on|begins", v.DATE, "starts on {v}|begins on {v}"),
        _f("credits|points", integers(1, 12, 0.3), "is worth {v} credits|gives {v} points"),
        _f("level", _choice("beginner|intermediate|advanced"), "is for {v} learners|is {v}"),
        _f("topics|subjects", ListKind(v.WORD, 1, 4), "covers {v}|deals with {v}"),
        _f("fee|price|tuition", decimals(20, 2000), "costs {v}|has a fee of {v}"),
        _f("online|is online", _flag("is online|takes place online", "is not online|takes place on site")),
        _contact("contact|office"),
    ),
)

_PET = Domain(
    "pet",
    ("The animal", "It", "The pet", "This one"),
    (
        _f("name|pet name", v.NICKNAME, "is called {v}|answers to {v}"),
        _f("species|animal|kind", _choice("cat|dog|rabbit|parrot|hamster|turtle"), "is a {v}"),
        _f("age|age in years", integers(0, 20, 0.2), "is {v} years old|, aged {v},"),
        _f("weight|weight kg", decimals(0.1, 60, 1), "weighs {v} kg"),
        _f("chip|chip number|microchip", v.CODE, "has the chip {v}|carries chip number {v}"),
        _f("owner|keeper", v.PERSON, "belongs to {v}|lives with {v}"),
        _f("vaccinated|is vaccinated", _flag("is vaccinated|has all its vaccines", "is not vaccinated|lacks vaccines")),
        _f("found on|arrival|arrived on", v.DATE, "was found on {v}|arrived on {v}"),
        _f("shelter|home", v.TITLE, "lives at {v}|is kept at {v}"),
        _f("likes|favourite things", ListKind(v.WORD, 1, 3), "likes {v}|loves {v}"),
        _f("vet|veterinarian", v.PERSON, "is seen by {v}|is looked after by the vet {v}"),
    ),
)

TRAIN_DOMAINS = (
    _PERSON, _PRODUCT, _ORDER, _EVENT, _BOOKING, _ESTATE, _JOB, _RECIPE, _APPOINTMENT, _SHIPMENT, _BOOK, _BUG,
    _COMPANY, _FLIGHT, _FILM, _TEAM,
)
"""The domains of the training split."""

HELDOUT_DOMAINS = (_VEHICLE, _COURSE, _PET)
"""The domains that only the held-out split has."""

LABEL_WORDS = tuple(
    sorted(
        {
            word
            for domain in TRAIN_DOMAINS
            for field in domain.fields
            for label in field.labels
            for word in label.split()
            if len(word) > 2
        }
    )
)
"""The words in the names of the fields of the training split."""
