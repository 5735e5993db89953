"""Any sequence of changes by Heat's API is shown as Heat would show it, and never leaves our own status undecided."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .edge import Edge

values = (
    st.none() | st.just("") | st.just({}) | st.just([]) | st.just([1]) | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)
changes = st.fixed_dictionaries(
    {},
    optional={
        "config_id": st.sampled_from([None, "", 0, 1, 2]),
        "status": st.sampled_from([None, "", "IN_PROGRESS", "COMPLETE", "FAILED", "BOGUS"]),
        "status_reason": st.sampled_from([None, "", "why", "because"]),
        "action": st.sampled_from([None, "CREATE", "UPDATE", "DELETE", "FROB"]),
        "input_values": values,
        "output_values": values,
        "server_id": st.just("other"),
        "unknown": values,
    },
)
EMPTY = (None, "", {}, [])


class Model:
    """What Heat keeps of a deployment, and what we add: another config without a status is IN_PROGRESS; `ours` is our own status."""

    def __init__(self, first):
        self.config = first.get("config_id", 0)
        self.shown = {
            "input_values": first.get("input_values") if first.get("input_values") is not None else {},
            "output_values": first.get("output_values") if first.get("output_values") not in EMPTY else None,
            "action": first.get("action"),
            "status": first.get("status"),
            "status_reason": "None" if first.get("status_reason") is None else first["status_reason"],
        }
        self.ours = first.get("status") if first.get("status") in ("COMPLETE", "FAILED") else "IN_PROGRESS"
        self.generations = 1

    def put(self, change):
        given = {name: value for name, value in change.items() if value not in EMPTY and name in (*self.shown, "config_id")}
        config = given.pop("config_id", self.config)
        if config != self.config:
            self.config, self.ours = config, "IN_PROGRESS"
            self.generations += 1
            self.shown["status"] = "IN_PROGRESS"
        self.shown |= given
        if given.get("status") in ("COMPLETE", "FAILED"):
            self.ours = given["status"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(changes, st.lists(changes, max_size=5))
def test_what_is_shown_is_what_heat_would_show(application, first, later):
    edge = Edge(application)
    configs = [edge.config(f"c-{n}")["id"] for n in range(3)]

    def wire(change):
        config = change.get("config_id")
        return change | ({"config_id": configs[config]} if isinstance(config, int) else {})

    first = {name: value for name, value in first.items() if value != "" or name != "status"}
    first["config_id"] = first["config_id"] if isinstance(first.get("config_id"), int) else 0
    model = Model(first)
    body = wire(first) | {"server_id": "some"}
    made = edge.ok("POST", "/software_deployments", json=body)["software_deployment"]
    for n, change in enumerate([None, *later]):
        if change is not None:
            model.put(change)
            made = edge.ok("PUT", f"/software_deployments/{made['id']}", json=wire(change))["software_deployment"]
        assert made == edge.show(made["id"])
        assert {name: made[name] for name in model.shown} == model.shown
        assert (made["config_id"], made["server_id"]) == (configs[model.config], "some")
        assert ("updated_time" in made) == (n > 0)
        native = edge.native(made["id"])
        assert (native["status"], native["generation"]["number"]) == (model.ours, model.generations)
    edge.ok("DELETE", f"/software_deployments/{made['id']}")
