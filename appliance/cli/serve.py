"""`appliance serve`."""

import argparse
import contextlib
import errno
import gc
import ipaddress
import logging
import os
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

from appliance.cli.common import REFUSED, SUCCESS, USAGE, Console, Failure, command
from appliance.client import config_path


def register(parsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = command(
        parsers,
        "serve",
        "be the appliance: serve one database file",
        serve,
        example="appliance serve --db ./lab.db --listen 127.0.0.1:8642",
        remote=False,
    )
    parser.add_argument("--db", metavar="FILE", help="the database (default: $APPLIANCE_DB, else /var/lib/appliance/lab.db for root)")
    parser.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:8642", help="where to listen (default: 127.0.0.1:8642)")
    parser.add_argument("--url", metavar="URL", help="base of every URL that is written, stored in the database (default: the listener)")
    parser.add_argument("--allow-host", metavar="HOST", action="append", default=[], help="answer to this host name too")
    parser.add_argument("--tls-cert", metavar="FILE", help="serve https with this certificate (PEM, with its chain)")
    parser.add_argument("--tls-key", metavar="FILE", help="... and this private key (PEM)")
    parser.add_argument("--insecure-http", action="store_true", help="serve plain http on a network: tokens can be read on the way")
    parser.add_argument(
        "--heat-none",
        action="store_true",
        help="let Heat's clients on this host ask without a credential (see: appliance heat)",
    )
    parser.add_argument("--access-log", action="store_true", help="log each request (URL secrets are masked)")


def serve(args: argparse.Namespace, console: Console) -> int:
    """Open the file, listen, serve until told to stop."""
    from appliance.errors import ApplianceError

    try:
        return _serve(args, console)
    except ApplianceError as error:
        raise Failure(error.message, error.hint, REFUSED if error.code == "conflict" else USAGE) from None


def _serve(args: argparse.Namespace, console: Console) -> int:
    import uvloop

    from appliance.opening import default_path, open_file
    from appliance.server import server
    from appliance.store import file
    from appliance.web.context import Context, Settings

    host, port = _address(args.listen)
    tls = _tls(args)
    loopback = _is_loopback(host)
    if not loopback and not tls and not args.insecure_http:
        raise Failure(
            f"refusing to serve plain http on {host}, where tokens could be read on the way",
            "give --tls-cert and --tls-key, or --insecure-http if this network is yours alone",
        )
    if args.heat_none and not loopback:
        raise Failure(f"refusing requests without a credential on {host}", "--heat-none goes with a loopback listener only")
    if args.heat_none and args.url:
        _refuse_open(args.url)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # an exception of a handler has been logged, with its request, where it became an answer
    logging.getLogger("uvicorn.error").addFilter(lambda record: not record.getMessage().startswith("Exception in ASGI application"))
    if args.access_log:
        logging.getLogger("appliance.access").setLevel(logging.INFO)
    listener = _listen(host, port)
    port = listener.getsockname()[1]
    path = str(Path(args.db or os.environ.get("APPLIANCE_DB") or default_path()).absolute())
    opened = open_file(path, f"appliance serve on {host}:{port}")
    try:
        scheme = "https" if tls else "http"
        own = f"{scheme}://{_shown_host(host)}:{port}"
        if args.url:
            _check_url(args.url)
            opened.database.write(file.set_url, args.url.rstrip("/"))
        url = (args.url or opened.row.url or own).rstrip("/")
        if args.heat_none:
            _refuse_open(url)
        hosts = {one.lower() for one in [urlsplit(url).hostname or "", host, *args.allow_host, *_own_hosts(host, loopback)] if one}
        settings = Settings(url, frozenset(hosts), not loopback and not tls, loopback, args.access_log, args.heat_none)
        context = Context(opened.database, opened.key, opened.row.epoch_number, opened.row.epoch_id, settings)
        made = server(context, tls)
        if opened.admin_token is not None:
            _announce(console, path, own, opened.admin_token)
        warning = "  (plain http on a network: --insecure-http)" if settings.insecure else ""
        console.note(f"serving {path} at {own}{warning}")
        gc.freeze()
        uvloop.run(made.serve(sockets=[listener]))
        return SUCCESS
    finally:
        opened.close()


def _refuse_open(url: str) -> None:
    if not _is_loopback(urlsplit(url).hostname or ""):
        raise Failure(f"refusing requests without a credential for {url}", "--heat-none is for clients on this host only")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise Failure(f"--listen {text!r} is not HOST:PORT", "for example 127.0.0.1:8642, or [::]:8642")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _shown_host(host: str) -> str:
    if host in ("0.0.0.0", "::"):  # noqa: S104 - it is compared, not listened on
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _own_hosts(host: str, loopback: bool) -> list[str]:
    """Names and addresses this listener has."""
    names = ["localhost", "127.0.0.1", "::1"]
    if loopback:
        return names
    names += [socket.gethostname(), socket.getfqdn()]
    with contextlib.suppress(OSError):
        names += [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - it is compared, not listened on
        names += _interface_addresses()
    return names


def _interface_addresses() -> list[str]:
    """Addresses of this machine's interfaces, from the kernel's own tables."""
    found: list[str] = []
    try:
        for line in Path("/proc/net/fib_trie").read_text().splitlines():
            word = line.strip().removeprefix("|-- ")
            if word.count(".") == 3 and word.replace(".", "").isdigit():
                found.append(word)
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            raw = line.split()[0]
            found.append(str(ipaddress.ip_address(bytes.fromhex(raw))))
    except OSError:
        pass
    return found


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(4096)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise Failure(f"port {port} on {host} is taken", "stop what listens there, or choose another with --listen", REFUSED) from None
        raise Failure(f"cannot listen on {host}:{port} ({error.strerror})", "choose another address with --listen") from None
    listener.setblocking(False)
    return listener


def _tls(args: argparse.Namespace) -> tuple[str, str] | None:
    if bool(args.tls_cert) != bool(args.tls_key):
        raise Failure("--tls-cert and --tls-key go together")
    if not args.tls_cert:
        return None
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(args.tls_cert, args.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise Failure(f"the certificate {args.tls_cert} with the key {args.tls_key} cannot be used: {error}") from None
    return args.tls_cert, args.tls_key


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Failure(f"--url {url!r} is not a base URL", "for example https://lab.example:8642")


def _announce(console: Console, path: str, url: str, token: str) -> None:
    """Say that a file is new, and leave its first token where only its owner finds it."""
    console.note(f"made a new database: {path}")
    profile = config_path()
    if not profile.exists():
        _write_private(profile, f'url = "{url}"\ntoken = "{token}"\n')
        console.note(f"wrote a profile for this account: {profile} (the commands of this account use it)")
    elif sys.stderr.isatty():
        console.note(f"kept the profile {profile} of another appliance")
        console.note(f"the admin token, shown once: {token}")
    else:
        kept = Path(path + ".admin-token")
        _write_private(kept, token + "\n")
        console.note(f"kept the profile {profile} of another appliance; the admin token is in {kept}")


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
