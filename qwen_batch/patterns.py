"""Regular expressions that many documents do without are compiled when they are first used.

Compiling takes 0.1 to 1 ms each, with thousands of characters in a set 1 to 3, and a file of one page is read in 60.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable


def late(pattern: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """Gives the compiled pattern, always the same one."""
    return functools.cache(functools.partial(re.compile, pattern, flags))
