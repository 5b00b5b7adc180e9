"""Which lines near the edges repeat: at one place on enough pages, counting with them, or in slots of changing text."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from qwen_batch.clean.edges import EdgeLine, mask
from qwen_batch.clean.page_numbers import MOST_SHIFTED, PAGE_WORDS
from qwen_batch.clean.sizes import median
from qwen_batch.patterns import late

MIN_PAGES = 3
MIN_RUN = 4  # pages of a section with a running line of its own
RUN_SPREAD = 2.2  # pages that such a run may span for each of its lines: every other page
PLACE_TOLERANCE = 8.0  # points
SLOT_TOLERANCE = 1.5  # points
SLOT_MIN_PAGES = 5
SLOT_MATCHED = 0.6  # share of a slot's lines that a neighbour takes up
SLOT_DENSE = 0.7  # share of the pages from its first to its last that a slot has
SLOT_GAP = 0.6  # of the font size: space between a running line and the body beyond ordinary leading
SHORT_GAP = 1.0  # of the font size: the same, where two pages must do as evidence, and for whole sentences
CONSTANT = 0.8  # share of the lines in which a number is the same
TRACKING = 0.6  # share of lines in which a number counts with the pages
SAME_SIZE = 0.06  # relative
_NUMBER = re.compile(r"\d+")
_PAGE_NUMBER_APART = late(r"^(\d{1,4})\s{3,}|(?<![:\s])\s{3,}(\d{1,4})$")
_PAGE_BEFORE = late(rf"(?<!\w){PAGE_WORDS}\s*[-:]?\s*$", re.IGNORECASE)
_TOTAL_AFTER = late(r"\s*(?:of|/|de|von|di|z|из|sur)\s*\d", re.IGNORECASE)
_LABEL_BEFORE = late(r"(?:[:：=#№$€£¥]|\b(?:no|nr)\.?)\s*$", re.IGNORECASE)
_APART_BEFORE = late(r"(?:^|\s{3,}|[-–—|•·~*/])\s*[\[(]?$")
_APART_AFTER = late(r"[\])]?\s*(?:$|\s{3,}|[-–—|•·~*])")
_SIGN = late(r"[-–—|•·~*/\[\]()]|\s{3}")
WORD = late(r"[^\W\d_]{2,}|[\u3400-\u9fff]")


def relative_gap(cluster: Sequence[EdgeLine]) -> float:
    """The usual space between lines and the next row towards the body, in font sizes."""
    return median([line.inner_gap / max(line.size, 1.0) for line in cluster])


class Repeated(NamedTuple):
    """Lines whose masked text stands at one place on enough pages."""

    same: list[EdgeLine]  # that say the same
    counting: list[list[EdgeLine]]  # whose numbers count with the pages, or are roman
    stamped: list[list[EdgeLine]]  # whose numbers are mostly the same, as where a time stands beside a date


def repeated(lines: Sequence[EdgeLine], num_pages: int) -> Repeated:
    found = Repeated([], [], [])
    groups: dict[tuple[str, str], list[EdgeLine]] = defaultdict(list)
    for line in lines:
        groups[line.edge, mask(line.text)].append(line)
    for group in groups.values():
        for cluster in _clusters(group, PLACE_TOLERANCE):
            if not _is_running({line.page_index for line in cluster}, num_pages):
                continue
            if _says_the_same(cluster):
                found.same.extend(cluster)
            elif _is_one_line(cluster):
                found.counting.append(cluster)
            elif _is_stamped(cluster):
                found.stamped.append(cluster)
    return found


def _clusters(group: Iterable[EdgeLine], tolerance: float) -> Iterator[list[EdgeLine]]:
    """Lines whose distance from the edge is about the same."""
    cluster: list[EdgeLine] = []
    for line in sorted(group, key=lambda item: item.offset):
        if cluster and line.offset - cluster[-1].offset > tolerance:
            yield cluster
            cluster = []
        cluster.append(line)
    if cluster:
        yield cluster


def _is_running(indices: set[int], num_pages: int) -> bool:
    count = len(indices)
    if count < MIN_PAGES:
        return False
    if 2 * count >= num_pages:
        return True
    parities = {index % 2 for index in indices}
    if len(parities) == 1 and 2 * count >= len(range(parities.pop(), num_pages, 2)):
        return True
    return count >= MIN_RUN and max(indices) - min(indices) + 1 <= RUN_SPREAD * count


def _says_the_same(cluster: Sequence[EdgeLine]) -> bool:
    return len({line.text for line in cluster}) < 0.8 * len(cluster)


def _is_one_line(cluster: Sequence[EdgeLine]) -> bool:
    """False for lines that only look alike because numbers are hidden, such as `Section 4` at the top of pages."""
    if _says_the_same(cluster):
        return True
    offsets: dict[tuple[int, int], set[int]] = defaultdict(set)
    for line in cluster:
        numbers = set(_page_numbers(line))
        for number in numbers:
            offsets[1, number - line.page_index].add(line.page_index)
            if number + 1 in numbers:  # two pages may stand on one sheet
                offsets[2, number - 2 * line.page_index].add(line.page_index)
    pages = {line.page_index for line in cluster}
    if max(map(len, offsets.values()), default=0) >= TRACKING * len(pages):
        return True
    return all(_is_constant(values) for values in _columns_of_numbers(cluster))  # then the pages have roman numbers


def _page_numbers(line: EdgeLine) -> Iterator[int]:
    """The numbers of a line that may be page numbers by form.

    None is the value of a label, as in `Born: 1950`, or stands amid words, as in `Fee: 50 EUR`.
    """
    for match in _NUMBER.finditer(line.text):
        before, after = line.text[: match.start()], line.text[match.end() :]
        number = int(match[0][:8])
        if _PAGE_BEFORE().search(before) or _TOTAL_AFTER().match(after):
            yield number
        elif not _LABEL_BEFORE().search(before) and (_APART_BEFORE().search(before) or _APART_AFTER().match(after)):
            beside = before[-3:] + after[:3]
            if _SIGN().search(beside) or abs(number - line.page_index) <= MOST_SHIFTED:
                yield number


def _columns_of_numbers(cluster: Sequence[EdgeLine]) -> list[tuple[str, ...]]:
    """The first numbers of all lines, the second ones, and so on: lines whose masks are equal have as many."""
    return list(zip(*(_NUMBER.findall(line.text) for line in cluster), strict=False))


def _is_stamped(cluster: Sequence[EdgeLine]) -> bool:
    columns = _columns_of_numbers(cluster)
    return 2 * sum(map(_is_constant, columns)) > len(columns) > 2


def _is_constant(values: Sequence[str]) -> bool:
    return Counter(values).most_common(1)[0][1] >= CONSTANT * len(values)


def numbered(lines: Sequence[EdgeLine], needed: int) -> Iterator[EdgeLine]:
    """Lines at one place with a page number apart at an end, whatever else they say: `2   The parties`."""
    groups: dict[tuple[str, int], list[EdgeLine]] = defaultdict(list)
    for line in lines:
        if match := _PAGE_NUMBER_APART().search(line.text):
            groups[line.edge, int(match[1] or match[2]) - line.page_index].append(line)
    for group in groups.values():
        for cluster in _clusters(group, SLOT_TOLERANCE):
            if len({line.page_index for line in cluster}) >= needed:
                yield from cluster


def facing(lines: Sequence[EdgeLine], clusters: Iterable[Sequence[EdgeLine]]) -> list[EdgeLine]:
    """Outermost lines that count through left and right pages at one place, whatever they say on either side.

    `clusters`: lines that count with the pages. No heading does so on both sides, and on one side two pages are enough.
    """
    found: dict[EdgeLine, None] = {}
    for cluster in clusters:
        sides = {line.page_index % 2 for line in cluster}
        counts = Counter(count for line in cluster for count in _counts(line))
        if len(sides) > 1 or not counts:
            continue
        count, often = counts.most_common(1)[0]
        other = [
            line
            for line in lines
            if line.row == 0
            and line.edge == cluster[0].edge
            and line.page_index % 2 not in sides
            and abs(line.offset - cluster[0].offset) <= SLOT_TOLERANCE
            and abs(line.size - cluster[0].size) <= SAME_SIZE * line.size
            and count in _counts(line)
        ]
        if often >= TRACKING * len(cluster) and len({line.page_index for line in other}) >= 2:
            found |= {line: None for line in (*cluster, *other) if line.row == 0}
    return list(found)


def _counts(line: EdgeLine) -> set[int]:
    """By how much the numbers of a line are larger than the index of its page."""
    return {int(number) - line.page_index for number in _NUMBER.findall(line.text) if len(number) <= 4}


def outermost(lines: Sequence[EdgeLine], num_pages: int) -> Iterator[EdgeLine]:
    """Outermost lines, set apart, that all pages, all odd or all even ones have at one place, the first page left out.

    Two pages are then enough. Heads that mirror left and right count as the same.
    """
    groups: dict[tuple[str, str], list[EdgeLine]] = defaultdict(list)
    for line in lines:
        if line.row == 0 and line.inner_gap >= SHORT_GAP * line.size:
            groups[line.edge, " ".join(sorted(line.text.split()))].append(line)
    wanted = [set(range(first, num_pages, step)) for first, step in ((1, 1), (0, 2), (1, 2), (2, 2))]
    for group in groups.values():
        for cluster in _clusters(group, SLOT_TOLERANCE):
            have = {line.page_index for line in cluster}
            if len(have) >= 2 and any(pages <= have for pages in wanted if pages):
                yield from cluster


def slotted(lines: Sequence[EdgeLine], found: Sequence[EdgeLine], num_pages: int) -> Iterator[list[EdgeLine]]:
    """Lines of places where most of what is said is said again on a page nearby."""
    taken = {(line.page_index, line.line_index) for line in found}
    alike: dict[tuple[str, str], list[EdgeLine]] = defaultdict(list)
    for line in lines:
        if (line.page_index, line.line_index) in taken:
            continue
        alike[line.edge, mask(line.text)].append(line)
    steady = [line for group in alike.values() if len(group) < MIN_PAGES or _is_one_line(group) for line in group]
    for edge in ("top", "bottom"):
        for cluster in _clusters((line for line in steady if line.edge == edge), SLOT_TOLERANCE):
            slot = list({line.page_index: line for line in cluster}.values())
            slot.sort(key=lambda line: line.page_index)
            if len(slot) < max(SLOT_MIN_PAGES, num_pages // 4) or len(slot) < 0.9 * len(cluster):
                continue
            if not _is_dense(slot, found) or relative_gap(slot) < SLOT_GAP:
                continue
            words = _telling_words(slot)
            if sum(_is_taken_up(words, position) for position in range(len(slot))) >= SLOT_MATCHED * len(slot):
                yield slot


def _is_dense(slot: Sequence[EdgeLine], found: Sequence[EdgeLine]) -> bool:
    """Whether most pages from its first to its last have a running line at its place."""
    first, last = slot[0].page_index, slot[-1].page_index
    lowest, highest = min(line.offset for line in slot), max(line.offset for line in slot)
    have = {line.page_index for line in slot}
    have |= {
        line.page_index
        for line in found
        if line.edge == slot[0].edge
        and first <= line.page_index <= last
        and lowest - SLOT_TOLERANCE <= line.offset <= highest + SLOT_TOLERANCE
    }
    return len(have) >= SLOT_DENSE * (last - first + 1)


def _telling_words(slot: Sequence[EdgeLine]) -> list[set[str]]:
    """The words of each line but for those that all say, as `Signed` does before different names."""
    words = [set(WORD().findall(line.text.casefold())) for line in slot]
    often = Counter(word for each in words for word in each)
    labels = {word for word, count in often.items() if count >= CONSTANT * len(slot)}
    return [each - labels or each for each in words]


def _is_taken_up(words: Sequence[set[str]], position: int) -> bool:
    """Whether one of the two lines before or after in the slot shares half of the words."""
    mine = words[position]
    for theirs in (*words[max(0, position - 2) : position], *words[position + 1 : position + 3]):
        smaller = min(len(mine), len(theirs))
        if mine and mine == theirs:
            return True
        if smaller >= 2 and 2 * len(mine & theirs) >= smaller:
            return True
    return False
