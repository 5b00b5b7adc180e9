"""Schedule 1 of the long agreement: one part for each of twelve services, in wordings that take turns.

The facts of a service are in source/services.yaml; the sentences around them are here. Three wordings of each clause
take turns, so that no part reads like the one before it and none can be mistaken for a running header.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

MARK = "!services"  # stands in the source where Schedule 1 goes

PERSONNEL = (
    "The Service is provided {hours}. The service manager is {lead}, a key person within the meaning of clause 7.2. "
    "A deputy with the same authority is named on the duty roster for every day on which the manager is absent.",
    "{lead} leads the Service and is a key person. The hours of service are {hours}. The Supplier shall roster enough "
    "people to cover holidays, sickness and training, and shall show the roster to the Customer a week in advance.",
    "Hours of service: {hours}. The key person is {lead}, who attends the operational review in person. Agency workers "
    "shall not make up more than 8 per cent of the hours worked in any month.",
)
LEVELS = (
    "The Service Levels are set out below. Each is measured over a calendar month, for every Site with beds by itself.",
    "Performance is measured against the following table. The figures apply to all Sites together, but a Site that "
    "falls short by more than five percentage points counts as a failure of its own.",
    "The table states what is to be achieved, how it is established, and the kind of failure that applies in Schedule "
    "2 if it is not. The reference period is the calendar month unless the table says otherwise.",
)
RECORDS = (
    "The Supplier shall enter every job in the information system while it is being done and not afterwards. It shall "
    "keep the raw data of every measurement for 24 months and give the Customer read access to them.",
    "Measurements are taken automatically where the table names a system; a figure that was entered by hand is marked "
    "as such. If the data for more than two days in a month are missing, the Service Level counts as missed.",
    "Once a quarter the contract managers compare a sample of 50 records with what the wards remember. If more than "
    "three of them differ, the Supplier shall repeat the measurement of that quarter at its own cost.",
)
CHARGE = (
    "The monthly Charge for this Service is GBP {charge}. If the Customer withdraws the Service under clause 3.3, the "
    "breakage cost is GBP {breakage} in the first Contract Year and falls by one seventh in each year after that.",
    "The Customer shall pay GBP {charge} a month. Breakage cost under clause 3.3 is GBP {breakage}, reduced in "
    "proportion to the months of the initial term that have passed.",
    "For this Service a fixed sum of GBP {charge} is due for each month; an incomplete month is charged by days. The "
    "breakage cost amounts to GBP {breakage} until 31 March 2028 and to one half of that sum from then on.",
)
CONSEQUENCES = (
    "{special} The Customer shall state its claim within 30 days of learning of the event.",
    "In addition to service credits the following applies. {special}",
    "{special} Sums under this paragraph do not count towards the limit of clause 5.3.",
)
DEPENDENCIES = (
    "The Customer {customer}. The Service does not include {excluded}.",
    "Not included are {excluded}. The Supplier relies on this: the Customer {customer}.",
    "It is the Customer's part that it {customer}. Outside the scope are {excluded}; the Supplier shall nevertheless "
    "report what it notices there.",
)
RIGHTS = (
    "{rights} Otherwise clause 15 applies to this Service without change.",
    "{rights} On exit the material is handed over within ten Business Days, in a form that can be edited.",
    "{rights} The Supplier shall mark each document with its date, its author and the owner of the rights.",
)
DISAGREEMENT = (
    "A disagreement on whether a Service Level was met is settled by the two quality leads within five Business Days, "
    "and failing that under clause 28.2, whatever its value.",
    "If the parties disagree about a measurement, the Customer's figure is used for the invoice, and the difference is "
    "settled with interest once clause 28 has run its course.",
    "Complaints of patients about this Service are answered by the Supplier within seven Business Days with a copy to "
    "the Customer. A complaint that is made twice is passed to the operational review.",
)


@dataclass(frozen=True, slots=True)
class Service:
    """The facts of one service, as in source/services.yaml."""

    name: str
    purpose: str
    tasks: list[str]
    levels: list[list[str]]  # measure, target, how it is measured, kind of failure
    hours: str
    lead: str
    charge: str  # GBP a month
    breakage: str  # GBP
    customer: str
    excluded: str
    rights: str
    special: str


def read_services(text: str) -> list[Service]:
    """The services of the YAML file. Raises TypeError when a key is missing or unknown."""
    return [Service(**item) for item in yaml.safe_load(text)]


def fill_services(source: str, services: list[Service]) -> str:
    """The source of the agreement with Schedule 1 in the place of the mark; other sources come back as they are."""
    if MARK not in source:
        return source
    return source.replace(MARK, "\n\n".join(_iter_blocks(services)))


def _iter_blocks(services: list[Service]) -> Iterator[str]:
    yield "# Schedule 1. The services"
    yield (
        f"This schedule has {len(services)} parts, one for each Service. What the clauses say applies to all of them; "
        "what a part says applies to that Service alone. The approved subcontractors are Pellucid Window Care Limited "
        "for windows, Aurora Lifts plc for lifts, Bellwether Textiles Limited for laundry and Nimbus Parking Limited "
        "for the car parks."
    )
    for number, service in enumerate(services, start=1):
        yield from _iter_part(number, service)


def _iter_part(number: int, service: Service) -> Iterator[str]:
    facts = {key: getattr(service, key) for key in Service.__slots__}

    def clause(part: int, wordings: tuple[str, str, str]) -> str:
        choice = (number + number // 3 * (part % 2) + part) % 3  # never the same twice running
        return f"{number}.{part} {wordings[choice].format(**facts)}"

    yield f"## Part {number}. {service.name}"
    yield f"{number}.1 {service.purpose}"
    yield f"{number}.2 The Supplier shall:"
    yield "\n".join(_iter_list(service.tasks))
    yield clause(3, PERSONNEL)
    yield clause(4, LEVELS)
    yield "\n".join(
        f"| {' | '.join(row)} |" for row in (["Measure", "Target", "Established by", "Kind"], *service.levels)
    )
    yield clause(5, RECORDS)
    yield clause(6, CHARGE)
    yield clause(7, CONSEQUENCES)
    yield clause(8, DEPENDENCIES)
    yield clause(9, RIGHTS)
    yield clause(10, DISAGREEMENT)


def _iter_list(items: list[str]) -> Iterator[str]:
    for number, item in enumerate(items):
        end = "." if number == len(items) - 1 else "; and" if number == len(items) - 2 else ";"
        yield f"({chr(ord('a') + number)}) {item}{end}"
