"""What must hold: at every start, at every message, after every commit. What must hold in the end stands in `ending`."""

import hashlib
from typing import TYPE_CHECKING, Any

from appliance.agent.wire import Answer
from appliance.deployment import AT_ONCE
from appliance.store.tx import Reader

from .machine import Start

if TYPE_CHECKING:
    from .machine import Body
    from .world import World

MUST = ("rerun", "reset")  # causes of generations that run though nothing changed
SAID = {"started": ("running", "finished"), "finished": ("finished",), "released": ("released",)}  # signals, and what their run then is
_GENERATIONS = "generation g JOIN terms t ON (t.deployment, t.number) = (g.deployment, g.terms)"

# An ungranted one is blocked exactly when something it depends on is not COMPLETE; who is granted or running has such a run.
_WRONG = """
SELECT s.deployment, s.phase, 'it waits for nothing, or should wait' FROM state s JOIN deployment d ON d.id = s.deployment
 WHERE d.deleted_commit IS NULL AND s.phase IN ('blocked', 'pending') AND (s.phase = 'blocked') <> EXISTS (
  SELECT 1 FROM need n JOIN state x ON x.deployment = n.needs WHERE n.deployment = s.deployment AND x.status <> 'COMPLETE')
UNION ALL
SELECT s.deployment, s.phase, 'no such run is open' FROM state s JOIN deployment d ON d.id = s.deployment
 WHERE d.deleted_commit IS NULL AND s.phase IN ('granted', 'running')
 AND NOT EXISTS (SELECT 1 FROM run r WHERE r.id = s.run AND r.stands = s.phase)
UNION ALL
SELECT s.deployment, s.status, 'a repeat of it is said to run and does not' FROM state s JOIN deployment d ON d.id = s.deployment
 WHERE d.deleted_commit IS NULL AND s.repeating IS NOT NULL
 AND NOT EXISTS (SELECT 1 FROM run r WHERE r.id = s.repeating AND r.stands = 'running')
UNION ALL
SELECT v.id, v.changed, 'changed moved without a generation' FROM server v WHERE v.changed > v.commit_no AND NOT EXISTS (
  SELECT 1 FROM deployment d LEFT JOIN generation g ON g.deployment = d.id
   WHERE d.server = v.id AND v.changed IN (d.deleted_commit, g.commit_no))
"""


class Invariants:
    """The checks of one world. Each says what is wrong by ending the history."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self._tags: dict[tuple[str, str], bytes] = {}
        self._desired: dict[tuple[str, bytes], str] = {}
        self._checked = self._granted = world.appliance.file.commit_no

    def _rows(self, sql: str, *bindings: Any) -> list[Any]:
        def query(tx: Reader) -> list[Any]:
            return list(tx.rows(sql, bindings))

        found: list[Any] = self.world.appliance.file.read(query)
        return found

    # ------------------------------------------------------------------------------------------ starts

    def on_start(self, body: "Body", run: str, text: str) -> None:
        """A program is being started: it was journaled, granted, is wanted, and its policy allows it."""
        world, process = self.world, body.process
        assert process is not None
        assert process.agent is not None
        rows = process.journal.rows("SELECT * FROM run WHERE run = ?", run)
        if not rows or rows[0]["state"] != "running" or not process.journal.committed:
            world.violated(f"run {run} is started before its start is in the journal")
        row = rows[0]
        mark, document = process.agent._start_mark, process.agent.line.document
        begun = world.number(), body.monotonic()
        start = Start(run, row["deployment"], row["generation"], row["attempt"], row["repeat"], row["changed"], body.boot, mark, *begun)
        others = [other for other in body.starts if other.deployment == start.deployment]
        if any(other.run == run for other in body.starts):
            world.violated(f"run {run} is started twice on {body.label}")
        if any(not other.lost for other in body.running()):
            world.violated(f"two programs run at once on {body.label}")
        item = next((item for item in document.items if item.deployment == start.deployment), None) if document else None
        if item is None or (item.generation, item.attempt) != (start.generation, start.attempt):
            world.violated(f"run {run} is started, and the newest document of {body.label} does not ask for it")
        assert item is not None
        start.policy, start.interval = item.policy, item.interval
        if start.repeat is None:
            self._granted_start(body, start, others)
        else:
            self._repeat(body, start, others)
        self._text(start, text)
        body.starts.append(start)
        world.say(f"{body.label}: STARTS {item.name} {run} {start.repeat or ''}")

    def _granted_start(self, body: "Body", start: Start, others: list[Start]) -> None:
        world = self.world
        found = self._rows("SELECT deployment, generation, attempt, after FROM run WHERE id = ? AND granted_commit IS NOT NULL", start.run)
        if not found or found[0][:3] != (start.deployment, start.generation, start.attempt):
            world.violated(f"run {start.run} is started without a grant of its generation")
        for other in others:
            if (other.generation, other.attempt, other.repeat) == (start.generation, start.attempt, None):
                world.violated(f"one attempt of generation {start.generation} is started twice on {body.label}")
        after = [one for (one,) in self._rows("SELECT value FROM json_each((SELECT after FROM run WHERE id = ?))", start.run)]
        for generation in after:
            here = any(one.generation == generation and one.ended == 0 for one in body.starts)
            known = self._rows("SELECT 1 FROM state WHERE generation = ? AND status = 'COMPLETE'", generation)
            if not here and not known and not self._rows("SELECT 1 FROM run WHERE generation = ? AND status = 'COMPLETE'", generation):
                world.violated(f"run {start.run} is started before {generation}, which it was granted after, is complete")
        self._once(body, start, others)

    def _once(self, body: "Body", start: Start, others: list[Start]) -> None:
        """`once`: a second start needs a rerun or reset (or a move to `always`) since the last one."""
        sql = f"SELECT g.id, g.number, g.cause, t.policy FROM {_GENERATIONS} WHERE g.deployment = ?"
        generations = {id: (number, cause, policy) for id, number, cause, policy in self._rows(sql, start.deployment)}
        number, _, policy = generations[start.generation]
        if policy != "once" or start.policy != "once" or not others:
            return
        last = max(generations[other.generation][0] for other in others)
        if not any(last < one <= number and (cause in MUST or how == "always") for one, cause, how in generations.values()):
            self.world.violated(f"a `once` deployment is started again on {body.label}, and nobody asked for it")

    def _repeat(self, body: "Body", start: Start, others: list[Start]) -> None:
        world = self.world
        last = others[-1] if others else None
        if body.boot in body.wiped_in or last is None:
            return  # its memory was lost in this very boot
        match start.repeat:
            case "boot":
                if start.policy != "per-boot" or any(other.boot == body.boot for other in others):
                    world.violated(f"a `per-boot` deployment is started again in one boot of {body.label}")
            case "agent-start":
                if any(other.mark == start.mark for other in others):
                    world.violated(f"an `always` deployment is started twice for one agent start of {body.label}")
            case "changed":
                if start.changed <= last.changed and last.policy == "always":
                    world.violated(f"an `always` deployment is started for a change that {body.label} has acted on")
            case "interval":
                if last.ended_at is not None and last.boot == body.boot and body.monotonic() - last.ended_at < (start.interval or 1e9):
                    world.violated(f"an `always` deployment is started before its interval is over on {body.label}")

    def _text(self, start: Start, text: str) -> None:
        """The bytes are those of the generation."""
        sql = f"""SELECT c.body, (SELECT s.digest FROM source s WHERE s.generation = g.id AND s.plan = c.plan AND s.path = c.path)
          FROM {_GENERATIONS} JOIN config c ON c.id = t.config WHERE g.id = ?"""
        [(body, digest)] = self._rows(sql, start.generation)
        wanted = hashlib.sha256(text.encode()).digest() == digest if digest else body == _quoted(text)
        if not wanted:
            self.world.violated(f"run {start.run} runs other bytes than its generation was made of")

    # ------------------------------------------------------------------------------------------ messages

    def on_send(self, body: "Body", path: str, message: Any) -> None:
        """What is said was journaled before it is said."""
        process = body.process
        assert process is not None
        if path.endswith("/claim"):
            said = [(one["run"], None) for one in message["runs"]]
        elif path.endswith("/signals"):
            said = [(path.split("/")[3], SAID[message["kind"]])]
        else:
            return
        for run, states in said:
            rows = process.journal.rows("SELECT state FROM run WHERE run = ?", run)
            if not rows and process.journal.rows("SELECT 1 FROM outbox WHERE run = ?", run):
                continue  # of a deployment that was forgotten since
            if not rows or (states is not None and rows[0][0] not in states):
                self.world.violated(f"{body.label} says something about run {run} that is not in its journal")

    def on_answer(self, body: "Body", path: str, message: Any, answer: Answer) -> None:
        """What the appliance answers, as it leaves it."""
        if answer.status >= 500 and answer.status != 503:
            self.world.violated(f"{path} was answered {answer.sentence}")
        route = path.partition("?")[0].rpartition("/")[2]
        if route == "document" and answer.status == 200:
            self._document(body.server, answer.headers["etag"], answer.body.partition(b',"observed":')[0])
        if route == "claim" and answer.status == 200:
            self._grants()

    def _document(self, server: str, etag: str, desired: bytes) -> None:
        """The ETag is that of what is desired, and of nothing else."""
        digest = hashlib.sha256(desired).digest()
        if self._tags.setdefault((server, etag), digest) != digest:
            self.world.violated("one ETag stands for two documents")
        if self._desired.setdefault((server, digest), etag) != etag:
            self.world.violated("the ETag changed, and what is desired did not")

    def _grants(self) -> None:
        """What was just granted may start now, or after what is granted on the same server."""
        file = self.world.appliance.file
        since, self._granted = self._granted, file.commit_no
        for run, deployment, after in self._rows("SELECT id, deployment, after FROM run WHERE granted_commit > ?", since):
            sql = "SELECT s.generation, s.status FROM need n JOIN state s ON s.deployment = n.needs WHERE n.deployment = ?"
            for generation, status in self._rows(sql, deployment):
                if status != "COMPLETE" and generation not in after:
                    self.world.violated(f"run {run} was granted before what it depends on is complete")

    # ------------------------------------------------------------------------------------------ commits

    def after(self) -> None:
        """After a step: where things stand fits together."""
        file = self.world.appliance.file
        if file.commit_no == self._checked:
            return
        since, self._checked = self._checked, file.commit_no
        for thing, stands, why in self._rows(_WRONG):
            self.world.violated(f"{thing} is {stands}: {why}")
        sql = """SELECT s.deployment, g.fingerprint, d.server FROM state s JOIN generation g ON g.id = s.generation
          JOIN deployment d ON d.id = s.deployment WHERE s.sentence = ? AND s.commit_no > ? AND d.deleted_commit IS NULL"""
        for deployment, fingerprint, server in self._rows(sql, AT_ONCE, since):
            self._at_once(deployment, fingerprint, server)

    def _at_once(self, deployment: str, fingerprint: bytes, server: str) -> None:
        """Complete at once: what was started last on the machine is this very state, and it was completed."""
        bodies = [body for body in self.world.bodies if body.server == server and not body.gone]
        starts = sorted((start for body in bodies for start in body.starts if start.deployment == deployment), key=lambda start: start.at)
        if any(body.tainted for body in bodies) or not starts:
            return
        sql = "SELECT r.status, g.fingerprint FROM run r JOIN generation g ON g.id = r.generation WHERE r.id = ?"
        found = self._rows(sql, starts[-1].run)
        if found and found != [("COMPLETE", fingerprint)]:
            self.world.violated(f"{deployment} is called complete at once, and its machine was left otherwise")


def _quoted(text: str) -> str:
    """A text as a config's body stands in the file: JSON."""
    return '"' + text.replace("\n", "\\n") + '"'
