"""A request with an Idempotency-Key acts once, whoever asks how often, also across a restart."""

from collections.abc import Callable

from appliance.errors import Conflict, Invalid
from appliance.store import idempotency
from appliance.store.idempotency import Kept
from appliance.store.tx import Tx

KEY_LENGTH = 255


def once(tx: Tx, who: str, key: str, request: bytes, run: Callable[[Tx], tuple[int, bytes]], *, secret: bool) -> tuple[int, bytes, bool]:
    """Run `run` unless `who` already had an answer under `key`; (status, body, whether it is a repeat).

    `request` is the digest of the request. Raises Conflict when the key came with another request, or when the first answer held a
    secret, which is not kept. An error is not an answer: the request may be sent again.
    """
    if not 1 <= len(key) <= KEY_LENGTH:
        raise Invalid(f"an Idempotency-Key has 1 to {KEY_LENGTH} characters")
    kept = idempotency.find(tx, who, key)
    if kept is None:
        status, body = run(tx)
        idempotency.keep(tx, who, key, Kept(request, status, None if secret else body))
        return status, body, False
    if kept.request != request:
        raise Conflict("this Idempotency-Key was used for another request", hint="use a new key for a new request")
    if kept.body is None:
        raise Conflict(
            "this request was answered before with a secret that is shown only once",
            hint="revoke what it made and ask with a new key",
        )
    return kept.status, kept.body, True
