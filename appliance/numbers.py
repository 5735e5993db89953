"""Which whole numbers are taken: those that every JSON program and the file keep exactly, also after a little arithmetic."""

from typing import Annotated

import msgspec

LARGEST = 1 << 53

Whole = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Counter = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
