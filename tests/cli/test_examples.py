"""Every example the help shows works, in a lab as the examples suppose it; those that read give JSON too."""

import json
import shlex

from ..lab import Lab, Machine, until
from .conftest import Cli
from .test_main import COMMANDS, examples

# In an order in which each finds what it needs. What stands in brackets is run before the example it stands before.
ORDER = [
    "server add web-1 --label rack3",
    "server add old-1 --stock > os-collect-config.conf",
    "[plan push ./templates lab --switch]",
    "[plan push ./templates lab --exclude x]",
    "deploy base --script base.sh --output result --wait",
    "deploy app --server 'web-*' --server label:rack3 --plan lab --path scripts/app.sh --input who=me --after base",
    "deploy tools --server web-1 --script base.sh --files lab/scripts",
    "status",
    "status --json",
    "why web-1/base",
    "log web-1/base",
    "log web-1/base --output result",
    "wait web-1/base --timeout 10m",
    "rerun web-1/base --wait",
    "deployment list --server web-1 --status FAILED",
    "deployment show web-1/base",
    "deployment runs web-1/base",
    "deployment update web-1/base --input who=you --timeout 10m",
    "config create shared --script base.sh --input who --input count:Number=3 --output result",
    "config list",
    "config show shared",
    "config delete shared",
    "server list",
    "server list --label rack3",
    "server show web-1",
    "server label web-1 --add rack4 --remove rack3",
    "server token web-1",
    "deployment suspend web-1/base",
    "deployment resume web-1/base",
    "server keep web-1",
    "server reset web-1 --yes",
    "deployment delete web-1/app web-1/base --yes",
    "server rename web-1 web-01",
    "[server rename web-01 web-1]",
    "token create --role operator --name ann --expires 30d",
    "token list --all",
    "audit --limit 20",
    "token revoke ann",
    "[deploy base --server web-1 --script base.sh]",
    "audit --object web-1/base",
    "server remove web-1 --yes",
    "[server add web-1]",
    "[deploy base --server web-1 --script base.sh]",
    "cancel web-1/base",
    "[rerun web-1/base]",
    "cancel web-1/base --force",
]
READS = [line for line in ORDER if line.split()[0] in ("status", "why", "log", "audit") or line.split()[1] in ("list", "show", "runs")]
# These have tests of their own.
ELSEWHERE = ("plan", "serve", "heat", "demo")


def shown() -> list[str]:
    return [line.removeprefix("appliance ") for one in COMMANDS for line in examples(one) if one.prog.split()[1] not in ELSEWHERE]


def test_every_example_has_its_place_in_the_order():
    assert sorted(shown()) == sorted(line for line in ORDER if not line.startswith("["))


def test_every_example_works(tmp_path, capsys, monkeypatch):
    lab = Lab(tmp_path)
    try:
        lab.serve()
        cli = Cli(lab, tmp_path, capsys, monkeypatch)
        (tmp_path / "templates" / "scripts").mkdir(parents=True)
        cli.file("templates/scripts/app.sh", "#!/bin/sh\necho $who\n")
        cli.file("base.sh", "#!/bin/sh\nprintf done > $heat_outputs_path.result\n")
        for line in ORDER:
            if line.startswith("deploy base"):  # it names no server, so there must be one only; and it waits
                cli.ok("server", "remove", "old-1", "--yes")
                lab.machines["web-1"] = Machine(lab, "web-1").join()
                lab.machines["web-1"].start()
            if line == "server keep web-1":  # there must be something to decide
                machine = lab.machines["web-1"]
                machine.stop()
                (machine.root / "etc/machine-id").write_text("0" * 32 + "\n")
                machine.start()
                until("another machine to be noticed", lambda: lab.client.get("/v1/servers/web-1")["trouble"])
            words = shlex.split(line.strip("[]").partition(" > ")[0])
            code, _, err = cli.run(*words)
            assert code == 0, f"{line}: {err}"
            if line in READS:
                json.loads(cli.ok(*words, *([] if "--json" in words else ["--json"]))[0])
    finally:
        lab.close()
