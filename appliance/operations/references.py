"""From what a person types to the thing that is meant."""

from appliance.errors import Conflict, NotFound
from appliance.names import is_uuid
from appliance.store import deployments, servers
from appliance.store.deployments import Deployment
from appliance.store.tx import Reader


def find_deployment(tx: Reader, ref: str) -> Deployment:
    """A living deployment by id or `SERVER/NAME`.

    Raises NotFound, Gone, or Conflict listing the ids when the name is not unique (the Heat edge allows that).
    """
    server_ref, slash, name = ref.partition("/")
    if not slash:
        if is_uuid(ref):
            return deployments.by_id(tx, ref)
        raise NotFound(f"no deployment {ref!r}", hint="name it as SERVER/NAME, or see: appliance deployment list")
    server = servers.find(tx, server_ref)
    found = deployments.named(tx, server.id, name)
    if not found:
        there = ", ".join(one.terms.name or one.id for one in deployments.of_server(tx, server.id)[:20])
        raise NotFound(f"no deployment {ref!r}", hint=f"{server.name} has: {there}" if there else f"{server.name} has no deployments")
    staying = [one for one in found if not one.leaving]  # one that is replaced is meant by its id only
    if len(found) > 1 and len(staying) != 1:
        raise Conflict(f"{ref} names {len(found)} deployments", hint="use one of the ids: " + ", ".join(one.id for one in found))
    return (staying or found)[0]
