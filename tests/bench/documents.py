"""What an agent's poll costs: a document of 50 deployments, unchanged (304) and whole (200), on one kept connection."""

from .serving import Line, shown, took

DEPLOYMENTS = 50
POLLS = 500


def run(url: str, token: str) -> list[str]:
    """The lines of the table."""
    admin = Line(url, token)
    added = admin.json("POST", "/v1/servers", {"name": "web-1"})
    instance = {"machine": "m", "root": None, "cloud": None}
    joined = admin.json(
        "POST", "/v1/join", {"token": added["join_token"], "instance": instance, "agent_state": "s", "boot": "b", "journal": 1}
    )
    config = {"group": "script", "body": "#!/bin/sh\n" + "echo a line of a script\n" * 40}
    wanted = [{"server": "web-1", "name": f"d{n}", "config": config, "inputs": {"n": n}} for n in range(DEPLOYMENTS)]
    made = took(lambda: admin.json("POST", "/v1/deployments", wanted))
    said = {
        "Appliance-Instance": '{"machine": "m"}',
        "Appliance-Agent-State": "s",
        "Appliance-Boot": "b",
        "Appliance-Journal": "1",
    }
    agent = Line(url, joined["token"], said)
    path = f"/v1/servers/{joined['server']}/document"
    status, headers, body = agent.raw("GET", path)
    assert status == 200, body
    etag = headers["etag"]
    whole = [took(lambda: agent.raw("GET", path)) for _ in range(POLLS)]
    same = [took(lambda: agent.raw("GET", path, If_None_Match=etag)) for _ in range(POLLS)]
    assert agent.raw("GET", path, If_None_Match=etag)[0] == 304
    return [
        f"{DEPLOYMENTS} deployments made in one request: {made:.1f} ms; document of {len(body) / 1000:.0f} kB",
        shown("  poll, whole document (200)", whole),
        shown("  poll, nothing new (304)", same),
    ]
