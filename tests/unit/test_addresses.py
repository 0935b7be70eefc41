"""Where http_get may go: spellings of addresses, ranges that are not public, rules."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybatchq.addresses import HostRule, Rules, parse_rules, read_host, special_kind

PUBLIC = [
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.255.255",
    "172.32.0.0", "192.0.1.0", "192.167.255.255", "223.255.255.255", "2606:4700::1111",
    "2001:200::1", "2001:4860:4860::8888", "2a00::1", "3ffe::1",
]  # fmt: skip
SPECIAL = {
    "0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "10.0.0.1": "private",
    "100.64.0.1": "carrier-grade NAT", "100.127.255.255": "carrier-grade NAT",
    "127.0.0.1": "loopback", "127.255.255.254": "loopback", "169.254.169.254": "link-local",
    "172.16.0.1": "private", "172.31.255.255": "private", "192.0.0.8": "reserved",
    "192.0.2.1": "reserved", "192.88.99.1": "reserved", "192.168.1.1": "private",
    "198.18.0.1": "reserved", "198.19.255.255": "reserved", "198.51.100.1": "reserved",
    "203.0.113.1": "reserved", "224.0.0.1": "multicast", "239.255.255.255": "multicast",
    "240.0.0.1": "reserved", "255.255.255.255": "reserved",
    "::": "unspecified", "::1": "loopback", "::2": "reserved", "::7f00:1": "reserved",
    "::ffff:0:7f00:1": "reserved", "64:ff9b:1::1": "reserved", "100::1": "reserved",
    "2001::1": "reserved", "2001:2::1": "reserved", "2001:10::1": "reserved",
    "2001:db8::1": "reserved", "3fff::1": "reserved", "4000::1": "reserved",
    "5f00::1": "reserved", "fc00::1": "private", "fd00:ec2::254": "private",
    "fe80::1": "link-local", "fec0::1": "private", "ff02::1": "multicast",
}  # fmt: skip
LOOPBACK = IPv4Address("127.0.0.1")
BEYOND = "denied by BATCHQ_HTTP_GET_DENY"


def refusal(rules: Rules, host: str, *addresses: str, port: int = 80) -> str | None:
    return rules.refusal(read_host(host), port, [ip_address(address) for address in addresses])


def rules(allow: str | None = None, deny: str | None = None) -> Rules:
    return Rules(
        () if allow is None else parse_rules(allow), () if deny is None else parse_rules(deny)
    )


@pytest.mark.parametrize("text", PUBLIC)
def test_a33_public_addresses_are_open(text: str) -> None:
    assert special_kind(ip_address(text)) is None
    assert refusal(rules(), text, text) is None


@pytest.mark.parametrize(("text", "kind"), SPECIAL.items())
def test_a33_special_addresses_are_closed_and_said_to_be_what_they_are(
    text: str, kind: str
) -> None:
    assert special_kind(ip_address(text)) == kind
    assert refusal(rules(), text, text) == f"a {kind} address"


@pytest.mark.parametrize(
    ("text", "stands_for"),
    [
        ("::ffff:{}", "::ffff:127.0.0.1"),
        ("64:ff9b::{}", "64:ff9b::7f00:1"),
        ("2002:{}::1", "2002:7f00:1::1"),
    ],
)
@pytest.mark.parametrize(("v4", "kind"), [(t, k) for t, k in SPECIAL.items() if "." in t])
def test_a33_an_ipv4_address_inside_an_ipv6_one_is_judged_too(
    text: str, stands_for: str, v4: str, kind: str
) -> None:
    high, low = divmod(int(IPv4Address(v4)), 65_536)
    written = text.format(f"{high:x}:{low:x}")
    assert refusal(rules(), written, written) == f"a {kind} address"
    assert refusal(rules(), stands_for, stands_for) == "a loopback address"
    public = text.format("808:808")
    assert refusal(rules(), public, public) is None
    assert refusal(rules(deny="8.8.0.0/16"), public, public) == BEYOND


@given(st.integers(0, 2**32 - 1))
def test_a33_no_ipv4_address_that_the_standard_library_knows_as_local_is_open(number: int) -> None:
    address = IPv4Address(number)
    if address.is_private or address.is_multicast or address.is_reserved or address.is_link_local:
        assert special_kind(address) is not None


@given(st.integers(0, 2**128 - 1) | st.integers(0, 2**32 - 1) | st.integers(2**125, 2**126 - 1))
def test_a33_no_ipv6_address_that_the_standard_library_knows_as_local_is_open(
    number: int,
) -> None:
    address = IPv6Address(number)
    if address.is_private or address.is_multicast or address.is_site_local:
        assert rules().refusal(address, 80, [address]) is not None


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1", "127.0.0.1.", "2130706433", "127.1", "127.0.1", "0177.0.0.1", "017700000001",
        "0x7f000001", "0X7F.0x0.0x0.0x1", "0x7f.1", "127.0x1", "0000177.0.0.1",
        "::ffff:127.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:FFFF:7F00:0001",
    ],
)  # fmt: skip
def test_a33_every_spelling_of_loopback_is_read_as_it(text: str) -> None:
    host = read_host(text)
    assert isinstance(host, IPv4Address | IPv6Address)
    assert (getattr(host, "ipv4_mapped", None) or host) == LOOPBACK
    assert rules().refusal(host, 80, [host]) == "a loopback address"
    assert rules(allow="127.0.0.1").refusal(host, 80, [host]) is None


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.data())
def test_a33_numbers_of_any_base_and_count_are_one_address(
    number: int, parts: int, data: st.DataObject
) -> None:
    rest = number & (256 ** (5 - parts) - 1)
    numbers = [number >> 8 * (3 - place) & 255 for place in range(parts - 1)] + [rest]
    bases = data.draw(
        st.lists(st.sampled_from(["{}", "0x{:x}", "0X{:X}", "0{:o}"]), min_size=parts)
    )
    text = ".".join(base.format(value) for base, value in zip(bases, numbers, strict=False))
    assert read_host(text) == IPv4Address(number)


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", "a..b", "-a", "a-", "a b", "a%41", "127.0.0.1 ", "256.1.1.1", "1.2.3.4.5",
        "4294967296", "1.16777216", "08", "0xg.1", "a.1", "a.0x1", "+1",
        "①", "ä.example", "a" * 64, "a." * 127 + "ab", "fe80::1%eth0", "::1%1", "1:2", "::g",
        "v1.a:b", "a\0b", "a\n", "localhost\n",
    ],
)  # fmt: skip
def test_a33_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the caller does not show it
        read_host(text)


@pytest.mark.parametrize(
    "text", ["localhost", "a", "my_host.example", "xn--bcher-kva.de", "1a", "a1", "0x.example"]
)
def test_names_are_names(text: str) -> None:
    assert read_host(text) == read_host(f"{text.upper()}.") == text


def test_a33_one_special_address_among_public_ones_closes_a_name() -> None:
    assert refusal(rules(), "mixed.example", "8.8.8.8", "10.0.0.1") == "a private address"
    assert refusal(rules(), "mixed.example", "8.8.8.8", "fe80::1") == "a link-local address"
    assert refusal(rules(), "public.example", "8.8.8.8", "2606:4700::1111") is None


def test_a33_a_name_opens_its_addresses_and_no_others() -> None:
    opened = rules(allow="intranet.example")
    assert refusal(opened, "intranet.example", "10.0.0.1") is None
    assert refusal(opened, "Intranet.Example.", "10.0.0.1") is None
    assert refusal(opened, "www.intranet.example", "10.0.0.1") == "a private address"
    assert refusal(opened, "10.0.0.1", "10.0.0.1") == "a private address"


def test_a33_a_network_opens_its_addresses_under_any_name() -> None:
    opened = rules(allow="10.1.2.0/24, fd00::/8")
    for host in ("10.1.2.3", "db.example"):
        assert refusal(opened, host, "10.1.2.3") is None
        assert refusal(opened, host, "10.1.2.3", "fd12::1") is None
        assert refusal(opened, host, "10.1.3.3") == "a private address"
        assert refusal(opened, host, "10.1.2.3", "10.1.3.3") == "a private address"
    assert refusal(opened, "x.example", "::ffff:10.1.2.3") is None
    assert refusal(opened, "x.example", "64:ff9b::a01:203") is None
    assert refusal(opened, "x.example", "64:ff9b::a01:303") == "a private address"
    assert refusal(rules(allow="64:ff9b::/96"), "x.example", "64:ff9b::a01:203") is None


@pytest.mark.parametrize(
    ("text", "host", "address"),
    [
        ("localhost:9000", "localhost", "127.0.0.1"),
        ("127.0.0.1:9000", "127.0.0.1", "127.0.0.1"),
        ("127.0.0.0/8:9000", "localhost", "127.0.0.1"),
        ("[::1]:9000", "::1", "::1"),
        ("[fd00::/8]:9000", "x.example", "fd00::1"),
    ],
)
def test_a33_a_rule_with_a_port_is_about_that_port(text: str, host: str, address: str) -> None:
    assert refusal(rules(allow=text), host, address, port=9000) is None
    assert refusal(rules(allow=text), host, address, port=9001) is not None
    both = rules(allow=f"{host if ':' not in host else '[::1]'},{address}", deny=text)
    assert refusal(both, host, address, port=9000) == BEYOND
    assert refusal(both, host, address, port=9001) is None


@pytest.mark.parametrize("denied", ["intranet.example", "10.1.2.3", "10.0.0.0/8", "0.0.0.0/0"])
def test_a33_deny_wins_over_allow(denied: str) -> None:
    both = rules(allow="intranet.example,10.1.2.0/24", deny=denied)
    assert refusal(both, "intranet.example", "10.1.2.3") == BEYOND
    assert refusal(both, "intranet.example", "10.1.2.3", "8.8.8.8") == BEYOND


def test_a33_deny_closes_what_is_public() -> None:
    assert refusal(rules(deny="bad.example"), "bad.example") == BEYOND  # without a lookup
    assert refusal(rules(deny="bad.example"), "good.example") is None
    assert refusal(rules(deny="8.8.8.8"), "good.example", "1.1.1.1", "8.8.8.8") == BEYOND


def test_rules_are_read_as_they_are_written() -> None:
    text = "Intranet.Example, 10.1.2.0/24,localhost:9000 ,10.0.0.1:80,::1,[::1],[fd00::/8]:443"
    assert parse_rules(text) == (
        HostRule("intranet.example"),
        HostRule(ip_network("10.1.2.0/24")),
        HostRule("localhost", 9000),
        HostRule(ip_network("10.0.0.1/32"), 80),
        HostRule(ip_network("::1/128")),
        HostRule(ip_network("::1/128")),
        HostRule(ip_network("fd00::/8"), 443),
    )


@pytest.mark.parametrize(
    "text",
    [
        "", ",", "a,", "a,,b", "*", "*.example", "http://a", "a/b", "user@a", "a b", "a:", "a:0",
        "a:65536", "a:http", "a:-1", "10.1.2.3/24", "10.0.0.0/33", "10.0.0.0/255.0.0.0", "10.0/8",
        "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "[10.0.0.1]:80", "[a]:80", "[::1", "::1]",
        "[::1]80", "[::1]:", "[::1]/128", "fd00::1/8", "fe80::1%eth0", "[fe80::1%eth0]:80", "1:2:3",
        "ä.example", "::1:99999:1",
    ],
)  # fmt: skip
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the setting's own error shows the text
        parse_rules(text)
