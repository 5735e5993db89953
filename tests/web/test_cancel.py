"""`/v1/deployments/.../cancel`."""


def made(application, name):
    return application.ok("POST", "/v1/deployments", json={"server": "web", "name": name, "config": {"body": "#!/bin/sh\n"}})["id"]


def test_one_and_several_are_cancelled(application):
    application.ok("POST", "/v1/servers", json={"name": "web"})
    a, b, c = (made(application, name) for name in "abc")
    found = application.ok("POST", "/v1/deployments/web/a/cancel", "operator")
    assert (found["id"], found["status"], found["reason"], found["settled"]) == (a, "FAILED", "cancelled", "failed")
    found = application.ok("POST", "/v1/deployments/cancel", "operator", json={"ids": ["web/b", c], "force": True})
    assert [(one["id"], one["reason"]) for one in found] == [(b, "cancelled"), (c, "cancelled")]


def test_what_cannot_be_cancelled_is_refused(application):
    application.ok("POST", "/v1/servers", json={"name": "web"})
    id = made(application, "a")
    application.fails(403, "POST", f"/v1/deployments/{id}/cancel", "viewer")
    application.fails(404, "POST", "/v1/deployments/web/b/cancel")
    application.fails(400, "POST", f"/v1/deployments/{id}/cancel", json={"hard": True})
    application.ok("POST", f"/v1/deployments/{id}/cancel", "operator")
    error = application.fails(409, "POST", f"/v1/deployments/{id}/cancel")
    assert error["message"] == "web/a is FAILED (cancelled by the operator before it was granted): there is nothing to cancel"
    application.ok("DELETE", f"/v1/deployments/{id}")
    application.fails(410, "POST", f"/v1/deployments/{id}/cancel")
