"""From a config's reference to a plan file to the bytes of the version that is current in this transaction."""

from collections.abc import Iterable

from appliance.config import BODY_BYTES, Files, Statement, check_body
from appliance.errors import ApplianceError, Conflict, Invalid
from appliance.plan import Entry, Switch, digest_of_entries, problems, refuse, symlink_problems
from appliance.store import blobs, deployments, listings, plans
from appliance.store.configs import Config
from appliance.store.listings import Lines
from appliance.store.plans import Plan
from appliance.store.tx import Reader
from appliance.store.uses import Resolved


class Sources:
    """Resolves references within one operation; a listing is read once however many deployments refer to its plan."""

    def __init__(self, tx: Reader, missing: type[ApplianceError] = Conflict) -> None:
        self._tx = tx
        self._missing = missing  # what it is to refer to a file that is not there
        self._current: dict[int, tuple[Plan, Switch, int, Lines]] = {}
        self._bodies: dict[tuple[bytes, str | None], None] = {}
        self._trees: dict[tuple[int, str], tuple[Resolved, tuple[Entry, ...]]] = {}

    def followed(self, ids: Iterable[str]) -> dict[str, str | None]:
        """The generations that those who follow these deployments look at."""
        return {id: deployments.substantial(self._tx, id) for id in ids}

    def resolve(self, config: Config) -> list[Resolved]:
        """What of plans a config refers to, as it is current now; checked to be what a machine can run. The body's file comes first.

        Raises Conflict when a plan was deleted or has no current version, `missing` when that has no such file or directory, Invalid when
        the file is no text, too large, or (for `script`) no script, or when directories of files cannot lie beside each other.
        """
        trees = [self._tree(key, files) for key, files in zip(config.files, config.statement.files, strict=True)]
        if len(trees) > 1:
            together = [entry for _, entries in trees for entry in entries]
            refuse(problems(tuple(sorted(together, key=lambda entry: entry.path))))
            self._check_links("the files together", together)
        return self._body(config) + [resolved for resolved, _ in trees]

    def _tree(self, key: int, files: Files) -> tuple[Resolved, tuple[Entry, ...]]:
        if (key, files.prefix) in self._trees:
            return self._trees[key, files.prefix]
        plan, current, listing, lines = self._lines(key, files.plan)
        entries = listings.subtree(self._tx, lines, files.prefix)
        if not entries:
            raise self._missing(
                f"plan {files.plan!r} has no directory {files.prefix!r} in version {current.version}"
                if files.prefix
                else f"plan {files.plan!r} has no files in version {current.version}",
                hint=f"see what it has with: appliance plan ls {files.plan} {current.version}",
            )
        if files.prefix:  # within the plan they are safe; they must be within the directory, too
            self._check_links(str(files), entries)
        resolved = Resolved(plan.id, files.prefix, current.version, listing, digest_of_entries(entries), "tree")
        self._trees[key, files.prefix] = (resolved, entries)
        return resolved, entries

    def _check_links(self, where: str, entries: Iterable[Entry]) -> None:
        links = {entry.path: blobs.read(self._tx, entry.digest) for entry in entries if entry.mode == "symlink"}
        refuse([f"{where}: {one}" for one in symlink_problems(links)])

    def _body(self, config: Config) -> list[Resolved]:
        source = config.statement.source
        if source is None or config.plan is None:
            return []
        plan, current, listing, lines = self._lines(config.plan, source.plan)
        where = f"{source.plan}:{source.path}"
        value = lines.get(source.path)
        if value is None:
            raise self._missing(
                f"plan {source.plan!r} has no file {source.path!r} in version {current.version}",
                hint=f"see what it has with: appliance plan ls {source.plan} {current.version}",
            )
        if listings.mode_of(value) == "symlink":
            raise Invalid(f"{where} is a symlink", hint="name the file it points to")
        blob = blobs.by_id(self._tx, [listings.blob_of(value)])[listings.blob_of(value)]
        key = (blob.digest, config.statement.group)
        if key not in self._bodies:
            if blob.size > BODY_BYTES:
                raise Invalid(f"{where} has {blob.size} bytes; a config's body may have {BODY_BYTES}")
            check_body(config.statement.group, text_of(blobs.content(self._tx, blob), where), where)
            self._bodies[key] = None
        return [Resolved(plan.id, source.path, current.version, listing, blob.digest)]

    def _lines(self, id: int, name: str) -> tuple[Plan, Switch, int, Lines]:
        if id not in self._current:
            plan = plans.by_id(self._tx, id)
            if plan is None:
                raise Conflict(f"plan {name!r}, which the config refers to, was deleted", hint="make a config that refers to a living plan")
            current = plans.current(self._tx, id)
            if current is None:
                raise Conflict(
                    f"plan {name!r} has no current version, so nothing of it can be deployed",
                    hint=f"make one current first: appliance plan switch {name} VERSION",
                )
            listing = plans.version(self._tx, plan, current.version).listing
            self._current[id] = (plan, current, listing, listings.read(self._tx, listing))
        return self._current[id]


def keys_of(tx: Reader, statement: Statement) -> tuple[int | None, tuple[int, ...]]:
    """The keys of the plans that a statement's source and its files name. Raises NotFound."""
    source = None if statement.source is None else plans.find(tx, statement.source.plan).id
    return source, tuple(plans.find(tx, one.plan).id for one in statement.files)


def text_of(raw: bytes, where: str) -> str:
    """`raw` as text. Raises Invalid naming the line that is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        raise Invalid(f"{where} is not text: line {line}, column {column} is not UTF-8", hint="a config's body must be text") from None
