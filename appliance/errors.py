"""What can go wrong, in the words of the domain. Each edge has one table from these to its own answers."""


class ApplianceError(Exception):
    """Base of every error a user may see.

    `message` is one sentence that says what and where; `hint` says what to do about it, or is empty. `detail` is a
    small JSON-able dictionary for programs (for example the missing digests).
    """

    code = "error"

    def __init__(self, message: str, *, hint: str = "", detail: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail or {}


class Invalid(ApplianceError):
    """The request itself is wrong and would be wrong again."""

    code = "invalid"


class Unauthorized(ApplianceError):
    """No credential, or one that is not known (any more)."""

    code = "unauthorized"


class Forbidden(ApplianceError):
    """A known credential that may not do this."""

    code = "forbidden"


class NotFound(ApplianceError):
    """There is no such thing, or none that this credential may know of."""

    code = "not-found"


class Gone(ApplianceError):
    """It existed and was deleted."""

    code = "gone"


class Conflict(ApplianceError):
    """Right in itself, but not as things stand; nothing was changed."""

    code = "conflict"


class TooLarge(ApplianceError):
    """Over a limit, which the message names."""

    code = "too-large"


class Busy(ApplianceError):
    """Not now; try again."""

    code = "busy"


class StorageFull(ApplianceError):
    """The disk (or the limit of the file) is full; nothing was changed."""

    code = "storage-full"


class Corrupt(ApplianceError):
    """Stored bytes are not what they must be."""

    code = "corrupt"
