"""The rules of the house: who may import whom, how long a file may be, where errors may be swallowed. Checked on the source itself."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]
LINES = 400

# A module belongs to the room with the longest name that begins its own; what is in no other room is domain.
# Direction: domain -> store -> operations -> edges. Each room may import itself and what stands here: rooms, or single modules of one.
ROOMS: dict[str, set[str]] = {
    "domain": set(),  # values in, values out
    "store": {"domain"},
    "operations": {"domain", "store"},
    "opening": {"domain", "store", "operations"},
    "web": {"domain", "store", "operations"},
    "web.native": {"domain", "store", "operations", "web", "pyz"},
    "web.heat": {"domain", "operations", "web", "store.tx"},  # the Heat-compatible edge: nothing but `server` imports it
    "server": {"domain", "web", "web.native", "web.heat"},  # the composition root of the serving process
    "pyz": set(),
    "client": {"domain"},
    "cli": {"domain", "client"},  # the command line speaks HTTP ...
    "cli.serve": {"domain", "client", "cli", "opening", "server", "store", "web"},  # ... but for the command that is the appliance
    "cli.token": {"domain", "client", "cli", "opening", "operations", "store"},  # ... and for the owner of a file that is not served
    "agent": set(),  # a house of its own
    "__main__": {"agent", "cli", "domain"},
}

# Who may import what is not ours. The agent may import the standard library only.
FOREIGN: dict[str, set[str]] = {
    "apsw": {"store"},
    "cryptography": {"domain"},
    "msgspec": {"domain", "store", "operations", "web", "web.native", "web.heat"},
    "pathspec": {"cli"},
    "rich": {"cli"},
    "starlette": {"web", "web.native", "web.heat", "server"},
    "uvicorn": {"server"},
    "uvloop": {"cli.serve"},
    "zstandard": {"domain", "store", "cli"},
}

# The domain knows no clock, no chance and no outside.
NOT_IN_DOMAIN = {"asyncio", "os", "pathlib", "random", "secrets", "shutil", "socket", "subprocess", "tempfile", "threading", "uuid"}
CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "now", "utcnow", "today", "sleep"}

# The only files that may catch everything and go on, and why.
CATCH_ALL = {
    "appliance/store/database.py": "whatever ends an operation is its submitter's answer",
    "appliance/web/seen.py": "the last write of what is advisory, when the appliance stops",
    "appliance/cli/common.py": "the outermost place of the command line: a bug is one line too",
    "appliance/agent/loop.py": "the agent's outermost loop",
    "appliance/agent/process.py": "a program that was released must be ended whatever goes wrong beside it",
    "appliance/agent/runner.py": "what was released has a result, whatever goes wrong",
}


@cache
def sources() -> dict[str, Path]:
    """Our modules by dotted name without `appliance.`."""
    root = TOP / "appliance"
    found = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def room_of(module: str) -> str:
    candidates = [room for room in ROOMS if module == room or module.startswith(room + ".")]
    return max(candidates, key=len, default="domain")


def imported(module: str, *, for_types: bool = True) -> Iterator[tuple[str, int]]:
    """(absolute dotted name, line) of everything a module imports, in functions too; `from a import b` is `a.b` if that is a module."""
    path = sources()[module]
    package = ["appliance", *module.split(".")] if module else ["appliance"]
    if path.name != "__init__.py":
        package = package[:-1]
    skipped = set()
    if not for_types:
        guards = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
        skipped = {inner for guard in guards for inner in ast.walk(guard)}
    for node in ast.walk(tree_of(path)):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])]) if node.level else node.module or ""
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield (whole if whole.removeprefix("appliance.") in sources() else base), node.lineno


def python_files() -> list[Path]:
    return [path for folder in ("appliance", "tests") for path in (TOP / folder).rglob("*.py")]


def test_each_room_imports_only_what_the_table_allows():
    wrong = []
    for module, path in sources().items():
        room = room_of(module)
        for name, line in imported(module):
            if name.split(".")[0] != "appliance" or name == "appliance":
                continue
            other = room_of(name.removeprefix("appliance."))
            if other != room and ROOMS[room].isdisjoint({other, name.removeprefix("appliance.")}):
                wrong.append(f"{path.relative_to(TOP)}:{line}: {room} may not import {name} ({other})")
    assert not wrong, "\n".join(wrong)


def test_foreign_packages_are_imported_only_where_the_table_allows():
    import sys

    wrong = []
    for module, path in sources().items():
        for name, line in imported(module):
            top = name.split(".")[0]
            if top != "appliance" and top not in sys.stdlib_module_names and room_of(module) not in FOREIGN.get(top, set()):
                wrong.append(f"{path.relative_to(TOP)}:{line}: {room_of(module)} may not import {name}")
    assert not wrong, "\n".join(wrong)


def test_the_agent_imports_itself_relatively_and_parses_as_python_3_9():
    for module, path in sources().items():
        if room_of(module) == "agent":
            ast.parse(path.read_text(), str(path), feature_version=(3, 9))
            for node in ast.walk(tree_of(path)):
                assert not (isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("appliance")), path
                assert not (isinstance(node, ast.Import) and any(alias.name.startswith("appliance") for alias in node.names)), path


def test_main_loads_the_agent_and_the_command_line_only_when_one_is_asked_for():
    top_level = [node for node in tree_of(sources()["__main__"]).body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in top_level] == ["import sys"]


def test_no_module_imports_itself_in_a_circle():
    graph = {}
    for module in sources():
        others = {name.removeprefix("appliance.") for name, _ in imported(module, for_types=False) if name.startswith("appliance.")}
        graph[module] = {other for other in others if other in sources()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("a circle of imports: " + " -> ".join(error.args[1]))


def test_the_domain_knows_no_clock_no_chance_and_no_outside():
    wrong = []
    for module, path in sources().items():
        if room_of(module) != "domain":
            continue
        wrong += [f"{module}: imports {name}" for name, _ in imported(module) if name.split(".")[0] in NOT_IN_DOMAIN]
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS:
                wrong += (
                    [f"{module}:{node.lineno}: reads the clock"] if ast.unparse(node.func.value) in ("time", "datetime", "date") else []
                )
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "input", "print"):
                wrong.append(f"{module}:{node.lineno}: calls {node.func.id}")
    assert not wrong, "\n".join(wrong)


def test_only_the_store_room_names_statements_of_sql():
    wrong = []
    verbs = ("SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM ", "PRAGMA ")
    for module, path in sources().items():
        if room_of(module) in ("store", "agent"):
            continue
        texts = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        wrong += [f"{path.relative_to(TOP)}:{text.lineno}: {text.value[:60]}" for text in texts if text.value.startswith(verbs)]
    assert not wrong, "SQL belongs into store/:\n" + "\n".join(wrong)


def test_only_the_named_edges_catch_everything():
    wrong = []
    for path in sources().values():
        name = path.relative_to(TOP).as_posix()
        for node in ast.walk(tree_of(path)):
            broad = False
            if isinstance(node, ast.ExceptHandler):
                caught = "" if node.type is None else ast.unparse(node.type)
                raises = bool(node.body) and isinstance(node.body[-1], ast.Raise)
                broad = not raises and (node.type is None or "BaseException" in caught or caught == "Exception")
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
                broad = any(ast.unparse(arg) in ("Exception", "BaseException") for arg in node.args)
            if broad and name not in CATCH_ALL:
                wrong.append(f"{name}:{node.lineno}: catches everything")
    assert not wrong, "\n".join(wrong)


def test_no_python_file_is_longer_than_400_lines():
    long = [f"{path.relative_to(TOP)}: {n} lines" for path in python_files() if (n := len(path.read_text().splitlines())) > LINES]
    assert not long, f"split these by noun (limit {LINES}): {long}"


def test_the_packaging_folder_is_no_package():
    # tools import a library of that name; a package here would stand in its way
    assert not (TOP / "packaging" / "__init__.py").exists()


def test_the_packaged_schema_is_a_link_to_the_one_at_the_top():
    link = TOP / "appliance" / "schema.sql"
    assert link.is_symlink()
    assert link.readlink().as_posix() == "../schema.sql"


def test_the_project_speaks_of_itself_alone():
    machine = ["/".join(("", "work", "")), "/".join(("", "tmp", "bash")), "pypi" + ".org", "registry.npmjs" + ".org"]
    texts = [path for folder in ("appliance", "tests", "packaging", ".ci") for path in (TOP / folder).rglob("*")]
    texts += [path for path in TOP.iterdir() if path.suffix in (".md", ".toml", ".sql") or path.name == "Makefile"]
    wrong = []
    for path in texts:
        if path.is_file() and path.suffix not in (".pyc", ".gz", ".zst", ".db"):
            text = path.read_text(errors="replace")
            wrong += [f"{path.relative_to(TOP)}: {word}" for word in machine if word in text]
    assert not wrong, "\n".join(wrong)
