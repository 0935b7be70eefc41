"""Where http_get may go. Pure functions: they read and judge, and look nothing up.

An address is public or it is special (loopback, private, …) by the special-purpose address
registries of IANA (RFC 6890 and its updates), written out here because the standard library's view
of them changes between patch releases. An IPv6 address that stands for an IPv4 one is judged as
both: IPv4-mapped (RFC 4291), NAT64 (RFC 6052) and 6to4 (RFC 3056).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Host = Address | str

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*", re.IGNORECASE)
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?P<hex>0x[0-9a-f]*)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*)", re.IGNORECASE
)
_BRACKETED = re.compile(
    r"\[(?P<host>[0-9a-f:.]*:[0-9a-f:./]*)\](?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE
)
_PLAIN = re.compile(r"(?P<host>[^:/]+(?:/[0-9]{1,2})?)(?::(?P<port>[0-9]{1,5}))?")

_SPECIAL4 = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_SPECIAL6 = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),  # Teredo among others
        ("2001:db8::/32", "reserved"),
        ("3fff::/20", "reserved"),
    )
)
_GLOBAL6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_6TO4 = IPv6Network("2002::/16")


@dataclass(frozen=True, slots=True)
class HostRule:
    """A host's name in lower case, or a network; with a port, that port only."""

    target: Network | str
    port: int | None = None

    def covers(self, host: Host, port: int, addresses: Collection[Address]) -> bool:
        """Whether this is about the host by its name, or about one of the addresses."""
        if self.port is not None and self.port != port:
            return False
        if isinstance(self.target, str):
            return self.target == host
        return any(address in self.target for address in addresses)


@dataclass(frozen=True, slots=True)
class Rules:
    """Public addresses are open and special ones closed, but for these; deny wins."""

    allow: tuple[HostRule, ...] = ()
    deny: tuple[HostRule, ...] = ()

    def refusal(self, host: Host, port: int, addresses: Collection[Address]) -> str | None:
        """Why nothing may be sent there; None if it may.

        Ask with all addresses of the host. Without any it is about the name alone, so that a denied
        one need not be looked up.
        """
        every = [form for address in addresses for form in (address, *_forms(address))]
        if any(rule.covers(host, port, every) for rule in self.deny):
            return "denied by BATCHQ_HTTP_GET_DENY"
        for address in addresses:
            if self._opens(host, port, address):
                continue
            for form in _forms(address):
                kind = special_kind(form)
                if kind is not None and not self._opens(host, port, form):
                    return f"a {kind} address"
        return None

    def _opens(self, host: Host, port: int, address: Address) -> bool:
        return any(rule.covers(host, port, (address,)) for rule in self.allow)


def parse_rules(text: str) -> tuple[HostRule, ...]:
    """Comma-separated names, addresses and networks, each with a `:port` if wanted.

    IPv6 with a port goes in brackets: `[::1]:80`, `[fd00::/8]:80`. ValueError for anything else.
    """
    return tuple(_rule(part.strip()) for part in text.split(","))


def read_host(text: str) -> Host:
    """What the host of a URL is: an address, however it is spelled, or a name in lower case.

    Reads numbers as browsers and inet_aton do: `2130706433`, `0x7f.1` and `0177.0.0.1` are
    127.0.0.1 (WHATWG URL Standard, "IPv4 parser"). ValueError if it is neither.
    """
    if ":" in text:
        if "%" in text:
            raise ValueError("an address with a zone")
        return IPv6Address(text)
    name = text.removesuffix(".")
    if _NUMERIC.fullmatch(name):
        return _ipv4(name)
    if not _NAME.fullmatch(name):
        raise ValueError("neither a name nor an address")
    return name.lower()


def special_kind(address: Address) -> str | None:
    """What keeps an address from being public; None if it is. Judges this form of it alone."""
    for network, kind in _SPECIAL4 if address.version == 4 else _SPECIAL6:
        if address in network:
            return kind
    if address.version == 6 and address not in _GLOBAL6 and address not in _NAT64:
        return "reserved"
    return None


def _forms(address: Address) -> Iterator[Address]:
    """The address and the IPv4 one it stands for. A mapped one is nothing but the latter."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        yield address.ipv4_mapped
        return
    yield address
    if address in _NAT64:
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
    elif address in _6TO4:
        yield IPv4Address(int(address) >> 80 & 0xFFFF_FFFF)


def _ipv4(text: str) -> IPv4Address:
    """One to four numbers, each a byte but the last, which fills the rest."""
    numbers = [_number(part) for part in text.split(".")]
    *bytes_, rest = numbers
    if len(numbers) > 4 or any(byte > 255 for byte in bytes_) or rest >= 256 ** (5 - len(numbers)):
        raise ValueError("no IPv4 address")
    value = rest
    for place, byte in enumerate(bytes_):
        value += byte << 8 * (3 - place)
    return IPv4Address(value)


def _number(text: str) -> int:
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError("no IPv4 address")
    if found["hex"] is not None:
        return int(found["hex"][2:] or "0", 16)
    return int(text, 8 if found["octal"] is not None else 10)


def _rule(text: str) -> HostRule:
    """One entry, in its plain spelling: what could be read in two ways is refused."""
    if text.count(":") > 1 and not text.startswith("["):
        return HostRule(_network(text))
    found = (_BRACKETED if text.startswith("[") else _PLAIN).fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no rule")
    host, port = found["host"], None if found["port"] is None else int(found["port"])
    if port is not None and not 1 <= port <= 65_535:
        raise ValueError(f"{text!r} has no port from 1 to 65535")
    if ":" in host or "/" in host or _NUMERIC.fullmatch(host.removesuffix(".")):
        return HostRule(_network(host), port)
    return HostRule(str(read_host(host)), port)


def _network(text: str) -> Network:
    if "%" in text:
        raise ValueError("an address with a zone")
    return ip_network(text)
