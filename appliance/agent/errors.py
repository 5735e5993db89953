"""What can go wrong in the agent, in sentences for people, and the exit codes of its commands."""

from __future__ import annotations

SUCCESS = 0
FAILED = 1  # a run ended FAILED
USAGE = 2  # wrong arguments or settings
NOT_JOINED = 5  # this state directory belongs to no server yet
REFUSED = 6  # a wrong token, another epoch, another agent on the same state, a journal we do not know
UNREACHABLE = 7  # no answer from the appliance; what is not delivered is kept


class AgentError(Exception):
    """Base of every error a person may see: one sentence, a hint what to do about it, and an exit code."""

    exit_code = FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Usage(AgentError):
    """The command or a setting is wrong."""

    exit_code = USAGE


class NotJoined(AgentError):
    """There is no identity in the state directory."""

    exit_code = NOT_JOINED


class Refused(AgentError):
    """Someone said no, and asking again at once would not help."""

    exit_code = REFUSED


class Unreachable(AgentError):
    """No usable answer: the network, a time limit, or something that is no appliance."""

    exit_code = UNREACHABLE


class BadDocument(AgentError):
    """A document that cannot be used; the last good one stays in force."""
