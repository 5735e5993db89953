"""The line between machines and the appliance: it loses, repeats, delays and overtakes."""

import json
from typing import TYPE_CHECKING, Any

from appliance.agent.errors import Unreachable
from appliance.agent.wire import Answer

from .appliance import Appliance, Died

if TYPE_CHECKING:
    from .machine import Body

# What may become of a request. drop: it never arrives; mute: its answer does not. late: it is held up on the way; slow: its answer is.
# stuck: it is held up and then lost. twice: it arrives twice; stray: a copy of it arrives some other time, too. die: the appliance is
# killed before its commit; dead: after it. short: a document comes with a part of its items only.
FATES = ("ok", "drop", "mute", "late", "slow", "stuck", "twice", "stray", "die", "dead", "short")


class Network:
    """Everything that is sent goes through here. `strays` are copies still on their way."""

    def __init__(self, appliance: Appliance) -> None:
        self.appliance = appliance
        self.strays: list[tuple[Body, str, str, dict[str, str], Any]] = []

    def exchange(self, body: "Body", method: str, path: str, headers: dict[str, str], message: Any) -> Answer:
        """One request of an agent, as the fate of its activity has it. Raises Unreachable."""
        body.point()
        body.world.clock.pass_(0.001)
        fiber = body.fiber
        assert fiber is not None
        body.world.invariants.on_send(body, path, message)
        fate = fiber.fates.popleft() if fiber.fates else "ok"
        if fate == "drop":
            raise Unreachable("lost on the way")
        if fate in ("late", "stuck"):
            self._held(body)
        if fate == "stuck":
            raise Unreachable("no answer in time")
        if fate == "short":
            headers.pop("If-None-Match", None)
        if fate == "stray":
            self.strays.append((body, method, path, headers, message))
        if fate == "die":
            self.appliance.doomed = True
        try:
            answer = self._handled(body, method, path, headers, message)
            if fate == "twice":
                self._handled(body, method, path, headers, message)
        except Died:
            raise Unreachable("the appliance died") from None
        if self.appliance.doomed:  # nothing was written that it could have died in
            self.appliance.doomed = False
            self.appliance.crash()
            raise Unreachable("the appliance died")
        if fate == "dead":
            self.appliance.crash()
        if fate in ("dead", "mute"):
            raise Unreachable("no answer")
        if fate == "slow":
            self._held(body)
        body.point()
        return _shortened(answer) if fate == "short" and path.partition("?")[0].endswith("/document") else answer

    def _held(self, body: "Body") -> None:
        fiber = body.fiber
        assert fiber is not None
        fiber.cut = False
        fiber.park("line")
        if fiber.cut:
            raise Unreachable("cut")

    def _handled(self, body: "Body", method: str, path: str, headers: dict[str, str], message: Any) -> Answer:
        answer = self.appliance.handle(method, path, headers, message)
        world = body.world
        world.clock.pass_(0.001)
        if world.tracing:
            is_document = path.partition("?")[0].endswith("document")
            said = "" if is_document else f"{message} -> {answer.body.decode()[:300]}"
            world.say(f"{body.label}: {path.rpartition('/')[2]} {answer.status} {said}")
        world.invariants.on_answer(body, path, message, answer)
        return answer

    def stray(self) -> None:
        """A copy arrives."""
        if self.strays:
            body, method, path, headers, message = self.strays.pop(0)
            self._handled(body, method, path, headers, message)


def _shortened(answer: Answer) -> Answer:
    if answer.status != 200:
        return answer
    document = json.loads(answer.body)
    items = document["desired"]["items"]
    document["desired"]["items"] = items[: len(items) // 2]
    kept = {item["deployment"] for item in document["desired"]["items"]}
    document["observed"]["items"] = {name: one for name, one in document["observed"]["items"].items() if name in kept}
    return Answer(200, {"etag": '"short"'}, json.dumps(document).encode())
