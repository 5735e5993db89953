"""Whatever people and agents do, in any order, on a real file: what must hold holds after each step, and nothing is stuck at the end."""

import os
import tempfile
import uuid
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from appliance.errors import ApplianceError, Conflict, Invalid
from appliance.operations.claims import Ask
from appliance.operations.explain import settled
from appliance.store import deployments, runs

from ..samples import push, switch_to
from .site import from_plan, new_site, script

SERVERS = ("m", "n")
REFS = ["m/a", "m/b", "n/a"]
BODIES = [script("one"), script("two"), from_plan("lab", "a")]

MEMORY = Path("/dev/shm")  # thousands of commits are not to wait for a disk
EXAMPLES = int(os.environ.get("APPLIANCE_EXAMPLES", "30"))

refs = st.sampled_from(REFS)
servers = st.sampled_from(SERVERS)
bodies = st.sampled_from(BODIES)
policies = st.sampled_from(["on-change", "once", "per-boot", "always"])
seldom = st.integers(0, 4).map(lambda n: n == 0)


class Held:
    """A run an agent has in its journal."""

    def __init__(self, ask, after, repeat=None):
        self.ask, self.after, self.repeat, self.running = ask, after, repeat, repeat is not None


class Life(RuleBasedStateMachine):
    """Two servers, six names, one plan with two versions; agents that run one thing at a time."""

    @initialize(
        chosen=st.lists(policies, min_size=len(REFS), max_size=len(REFS)), texts=st.lists(bodies, min_size=len(REFS), max_size=len(REFS))
    )
    def born(self, chosen, texts):
        self.directory = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.opened = new_site(Path(self.directory.name))
        self.site = next(self.opened)
        self.machines = {name: self.site.machine(name) for name in SERVERS}
        self.journals = {name: [] for name in SERVERS}
        self.done = {name: set() for name in SERVERS}  # generations an agent's journal has COMPLETE
        self.started = set()
        self.licences = {}  # of `once` deployments: how often they may have been started
        self.starts = {}
        for n, text in enumerate((b"1", b"2"), 1):
            push(self.site.database, "lab", {"a": b"#!/bin/sh\n# a" + text, "b": b"#!/bin/sh\n# b", "c": b"%d" % n})
        switch_to(self.site.database, "lab", 1)
        for n, (ref, policy, body) in enumerate(zip(REFS, chosen, texts, strict=True)):
            self.licences[self.site.deploy(ref, body, policy=policy, depends_on=REFS[:n][-1:])] = 1

    def teardown(self):
        if hasattr(self, "opened"):
            self.come_to_rest()
            assert self.site.value("PRAGMA integrity_check") == "ok"
            self.opened.close()
            self.directory.cleanup()

    # ------------------------------------------------------------------------------------------ people

    def exists(self, ref):
        try:
            return self.site.of(ref)
        except ApplianceError:
            return None

    @rule(ref=refs, body=bodies, policy=policies, after=st.sets(refs, max_size=2))
    def deploys(self, ref, body, policy, after):
        there = self.exists(ref)
        needs = [one for one in after if one != ref and self.exists(one)]
        try:
            more = {} if there else {"policy": policy}
            id = self.site.bring(ref, body, depends_on=needs, update=True, **more).id
        except Invalid:  # a circle
            return
        if there is None:
            self.licences[id] = 1

    @rule(ref=refs, body=bodies)
    def edits(self, ref, body):
        if before := self.exists(ref):
            self.site.edit(ref, config=body)
            self.check_at_once(before)

    def check_at_once(self, before):
        """A new generation is COMPLETE without a run only where the last run here has just this state to show for it."""
        after = self.site.of(before.id)
        standing = after.standing
        if after.generation.id != before.generation.id and standing.status == "COMPLETE" and not standing.held:
            over = [run for run in self.site.runs(after.id) if run.stands == "ended"]
            assert over
            assert over[-1].status == "COMPLETE"
            assert fingerprint_of(self.site, over[-1]) == after.generation.fingerprint
            assert not [run for run in self.site.runs(after.id) if run.stands in ("granted", "running")]

    @rule(version=st.sampled_from([1, 2]))
    def switches(self, version):
        before = [one for one in map(self.exists, REFS) if one]
        moved = switch_to(self.site.database, "lab", version)
        for one in before:
            after = self.site.of(one.id)
            assert (after.generation.id != one.generation.id) == (one.id in moved.deployments)
            self.check_at_once(one)

    @rule(ref=refs)
    def reruns(self, ref):
        if one := self.exists(ref):
            self.site.rerun(ref)
            self.licences[one.id] += 1
            assert self.site.stands(ref) in ("pending", "blocked")

    @rule(ref=refs, now=seldom)
    def deletes(self, ref, now):
        if now and self.exists(ref):
            try:
                self.site.delete(ref)
            except Conflict:  # others need it
                assert self.exists(ref)

    @rule(server=servers, now=seldom)
    def resets(self, server, now):
        if now:
            self.site.reset(server)
            for one in self.on(server):
                self.licences[one.id] += 1

    def on(self, server):
        return [one for one in map(self.exists, REFS) if one and one.server_name == server]

    # ------------------------------------------------------------------------------------------ agents

    @rule(server=servers, data=st.data())
    def asks(self, server, data):
        """An agent asks for what its document lets it ask, or for anything at all."""
        machine = self.machines[server]
        items = machine.items()
        if items:
            chosen = data.draw(st.lists(st.sampled_from([item["name"] for item in items]), min_size=1, unique=True))
            self.claims(server, [item for item in items if item["name"] in chosen])

    @rule(server=servers, code=st.sampled_from([0, 0, 0, 1]), outcome=st.sampled_from(["ended", "ended", "ended", "interrupted"]))
    def works(self, server, code, outcome):
        """An agent with a good line runs the first thing that is ready."""
        ready = [item for item in self.machines[server].items() if item["ready"] and item["generation"] not in self.seen_to(server)]
        if ready and not self.running(server):
            self.claims(server, ready[:1])
            for held in self.journals[server][-1:]:
                if held.ask.generation == ready[0]["generation"] and set(held.after) <= self.done[server]:
                    self.starts_this(server, held)
                    self.finishes_this(server, held, code, outcome)

    def seen_to(self, server):
        return self.done[server] | {held.ask.generation for held in self.journals[server]}

    def claims(self, server, items):
        machine = self.machines[server]
        asks = [Ask(str(uuid.uuid4()), it["deployment"], it["generation"], it["attempt"]) for it in items]
        for ask, answer in zip(asks, machine.claim_these(asks), strict=True):
            if answer == "granted":
                self.journals[server].append(Held(ask, machine.after(ask)))

    def running(self, server):
        return next((held for held in self.journals[server] if held.running), None)

    @precondition(lambda self: any(not held.running for journal in self.journals.values() for held in journal))
    @rule(server=servers, data=st.data(), word=st.booleans())
    def starts_one(self, server, data, word):
        """What its journal lets it start, though it may be superseded by now; the word of it may get lost."""
        ready = [held for held in self.journals[server] if set(held.after) <= self.done[server]]
        if ready and not self.running(server):
            self.starts_this(server, data.draw(st.sampled_from(ready)), word)

    def starts_this(self, server, held, word=True):
        held.running = True
        if word:
            self.machines[server].starts(held.ask)
            self.count(held.ask)

    def count(self, ask):
        if ask.run not in self.started:
            self.started.add(ask.run)
            self.starts[ask.deployment] = self.starts.get(ask.deployment, 0) + 1

    @precondition(lambda self: any(self.running(server) for server in SERVERS))
    @rule(server=servers, code=st.sampled_from([0, 0, 1]), outcome=st.sampled_from(["ended", "ended", "interrupted"]))
    def finishes(self, server, code, outcome):
        held = self.running(server)
        if held:
            self.finishes_this(server, held, code, outcome)

    def finishes_this(self, server, held, code=0, outcome="ended"):
        self.journals[server].remove(held)
        complete = code == 0 and outcome == "ended"
        self.done[server] |= {held.ask.generation} if complete else set()
        self.machines[server].ends(held.ask, code, outcome, repeat=held.repeat)
        if held.repeat is None:
            self.count(held.ask)
        self.machines[server].ends(held.ask, code, outcome, repeat=held.repeat)

    @precondition(lambda self: any(not held.running for journal in self.journals.values() for held in journal))
    @rule(server=servers, data=st.data())
    def gives_back(self, server, data):
        waiting = [held for held in self.journals[server] if not held.running]
        if waiting:
            self.gives_back_this(server, data.draw(st.sampled_from(waiting)))

    def gives_back_this(self, server, held):
        self.journals[server].remove(held)
        self.machines[server].releases(held.ask)

    @rule(server=servers, repeat=st.sampled_from(["boot", "agent-start", "interval"]))
    def repeats(self, server, repeat):
        """What has run to its end and repeats by its policy."""
        for item in self.machines[server].items():
            fit = item["policy"] == ("per-boot" if repeat == "boot" else "always")
            if fit and item["generation"] in self.done[server] and not self.running(server):
                ask = Ask(str(uuid.uuid4()), item["deployment"], item["generation"])
                self.machines[server].starts(ask, repeat=repeat, changed=1)
                self.started.add(ask.run)
                self.journals[server].append(Held(ask, [], repeat))

    @rule(server=servers, now=seldom)
    def loses_its_state(self, server, now):
        if not now:
            return
        machine = self.machines[server]
        machine.says(agent_state=str(uuid.uuid4()), journal=1)
        machine.arrives()
        self.journals[server].clear()
        observed = machine.document()["observed"]["items"].values()
        self.done[server] = {it["generation"] for it in observed if it["status"] == "COMPLETE"}

    @rule(server=servers)
    def reboots(self, server):
        if not self.running(server):
            self.machines[server].boots(str(uuid.uuid4()))

    # ------------------------------------------------------------------------------------------ what must hold

    @invariant()
    def holds(self):
        if not hasattr(self, "site"):
            return
        assert self.site.broken_references() == []
        twice = "SELECT count(*) FROM (SELECT 1 FROM run WHERE repeat IS NULL AND stands <> 'released' AND granted_commit IS NOT NULL"
        assert self.site.value(twice + " GROUP BY generation, attempt HAVING count(*) > 1)") == 0
        known = {row[0] for row in self.site.database.read(lambda tx: list(tx.rows("SELECT id FROM run WHERE started_at IS NOT NULL")))}
        assert self.started <= known
        for ref in REFS:
            if one := self.exists(ref):
                self.holds_for(one)
        for server, machine in self.machines.items():
            assert machine.etag() == machine.etag()
            places = {item["deployment"]: n for n, item in enumerate(machine.items())}
            assert len(places) == len(self.on(server))
            for item in machine.items():
                assert all(places[need] < places[item["deployment"]] for need in item["after"])

    def holds_for(self, one):
        standing = one.standing
        needs = self.site.database.read(deployments.needs, one.id)
        complete = all(self.site.of(need).standing.status == "COMPLETE" for need in needs)
        open_runs = self.site.database.read(runs.open_of_deployment, one.id)
        assert (standing.status == "IN_PROGRESS") == (standing.phase is not None)
        if standing.phase in ("pending", "blocked"):
            assert (standing.phase == "pending") == complete
            assert not [run for run in open_runs if run.generation == one.generation.id and run.repeat is None]
        if standing.phase in ("granted", "running"):
            assert standing.run in [run.id for run in open_runs]
        if standing.repeating is not None:
            assert standing.repeating in [run.id for run in open_runs if run.repeat is not None]
        if one.terms.policy == "once":
            assert self.starts.get(one.id, 0) <= self.licences[one.id]

    def come_to_rest(self):
        """Agents with a good line do all there is to do; then each deployment has run to an end, or waits for one that failed."""
        for _ in range(3 * len(REFS)):
            for server, machine in self.machines.items():
                while held := self.running(server):
                    self.finishes_this(server, held)
                current = {item["generation"] for item in machine.items()}
                for held in list(self.journals[server]):
                    if held.ask.generation not in current:
                        self.gives_back_this(server, held)
                    elif set(held.after) <= self.done[server]:
                        self.starts_this(server, held)
                        self.finishes_this(server, held)
                    else:
                        self.gives_back_this(server, held)
                self.claims(server, [item for item in machine.items() if item["ready"]])
        for ref in REFS:
            if one := self.exists(ref):
                assert one.standing.phase in (None, "blocked"), (ref, one.standing)
                if one.standing.phase == "blocked":
                    assert self.site.database.read(settled, one) == "blocked"
        self.holds()


def fingerprint_of(site, run):
    found = site.database.read(deployments.generation_of, run.deployment, run.generation)
    assert found is not None
    return found[1]


Life.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
TestLife = Life.TestCase
