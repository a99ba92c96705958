"""Who may use a local server: where it listens, by what names it is asked for, and the token that it demands."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from bystander.schemas.errors import ConfigError

LOOPBACK = "127.0.0.1"
_TOKEN = re.compile(r"[\w.~-]{16,200}", re.ASCII)
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:\d{1,5})?", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,252})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Access:
    """Rules of one server. Without a token, whoever reaches the port may use it: on loopback, users of this machine."""

    host: str
    port: int
    token: str | None
    names: frozenset[str]
    """Host names by which it may be asked for. Other names are refused, so that no foreign name that somebody lets
    point to this machine makes a browser take our pages for its own."""
    takes_addresses: bool
    """Whether any address in digits will do as a name: where it listens on all of the machine's addresses."""
    clip_origins: frozenset[str] = frozenset()
    """Origins of other sites whose pages may read what is below `/api/clips/`, such as a Label Studio."""

    @property
    def url(self) -> str:
        """Where the pages are, without the token."""
        host = self.host
        if _is_unspecified(host):
            host = socket.gethostname().lower()
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"

    @property
    def url_with_token(self) -> str:
        """Where the pages are, to be opened once: the browser then keeps the token in a cookie."""
        return f"{self.url}?{urlencode({'token': self.token})}" if self.token else self.url

    @property
    def token_cookie(self) -> str:
        """Name of the token's cookie; it has the port, since browsers share cookies between ports."""
        return f"bystander-token-{self.port}"

    def lets_in(self, token: str | None) -> bool:
        """Return whether a request with this token may pass, in a time that does not depend on how near it is."""
        return self.token is None or hmac.compare_digest((token or "").encode(), self.token.encode())

    def knows_host(self, header: str) -> bool:
        """Return whether a request's `Host` header names this server."""
        name = _parse_host(header)
        if name is None:
            return False
        return name in self.names or (self.takes_addresses and _find_address(name) is not None)

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Return whether an `Origin` header is that of a page of ours, asked for by this `Host` header."""
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower() and not parts.path


def make_access(
    host: str = LOOPBACK,
    port: int = 0,
    token: str | None = None,
    names: Sequence[str] = (),
    clip_origins: Sequence[str] = (),
) -> Access:
    """Return the rules for a server on `host`; one that others can reach demands a token, a new one if none is given.

    Args:
        host: address or name to listen on.
        port: to listen on.
        token: demanded of every browser, if given; on loopback there need be none.
        names: more host names by which it may be asked for, such as that of a proxy before it.
        clip_origins: sites whose pages may read clips, as `http://localhost:8080`.

    Raises:
        ConfigError: the token is too easy to guess, or a name or origin is none.
    """
    for origin in clip_origins:
        if not _ORIGIN.fullmatch(origin):
            raise ConfigError(f"origin {origin!r}: write protocol, name and port, as http://localhost:8080")
    if token is not None and not _TOKEN.fullmatch(token):
        raise ConfigError("--token: give 16 to 200 letters, digits, dots, hyphens, underscores and tildes")
    for name in (host, *names):
        if not name or (_find_address(name) is None and not _NAME.fullmatch(name.lower())):
            raise ConfigError(f"host {name!r}: is neither a host name nor an address; leave out port and protocol")
    is_loopback = _is_loopback(host)
    known = {host.lower(), *(name.lower() for name in names)}
    if is_loopback:
        known |= {"localhost", "127.0.0.1", "::1"}
    elif _is_unspecified(host):
        known |= {"localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
    if token is None and not is_loopback:
        token = secrets.token_urlsafe(24)
    return Access(host, port, token, frozenset(known), _is_unspecified(host), frozenset(clip_origins))


def _is_loopback(host: str) -> bool:
    address = _find_address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def _is_unspecified(host: str) -> bool:
    address = _find_address(host)
    return address is not None and address.is_unspecified


def _find_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _parse_host(header: str) -> str | None:
    """Return the name in a `Host` header, without the port; None where it is not well-formed."""
    found = re.fullmatch(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?", header.lower(), re.ASCII)
    return (found[1] or found[2]) if found else None
