"""What ranks tell each other out of band, as JSON: the table from which a group is connected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from host.verbs import InvalidArgumentError, MrInfo, QpInfo

#: Of the document, so that ranks of different versions notice
GROUP_VERSION = 1


@dataclass(frozen=True, slots=True)
class LinkInfo:
    """One rank's end of the link with rank `peer`: its queue pairs, and where its mailbox is."""

    peer: int
    mailbox: MrInfo
    qps: tuple[QpInfo, ...]

    def to_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        return {
            "peer": self.peer,
            "mailbox": self.mailbox.to_json(),
            "qps": [qp.to_json() for qp in self.qps],
        }

    @classmethod
    def from_json(cls, document: object) -> LinkInfo:
        """The inverse of `to_json`. Raises InvalidArgumentError, naming what is wrong."""
        values = _object(document, "link", ("peer", "mailbox", "qps"))
        return cls(
            _integer(values["peer"], "link: peer"),
            MrInfo.from_json(values["mailbox"]),
            tuple(QpInfo.from_json(qp) for qp in _list(values["qps"], "link: qps")),
        )


@dataclass(frozen=True, slots=True)
class RankInfo:
    """One row of the table: a rank, and its end of each of its links."""

    rank: int
    size: int
    links: tuple[LinkInfo, ...]

    def link(self, peer: int) -> LinkInfo | None:
        """Its end of the link with a rank."""
        for link in self.links:
            if link.peer == peer:
                return link
        return None

    def to_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        return {
            "version": GROUP_VERSION,
            "rank": self.rank,
            "size": self.size,
            "links": [link.to_json() for link in self.links],
        }

    @classmethod
    def from_json(cls, document: object) -> RankInfo:
        """The inverse of `to_json`. Raises InvalidArgumentError, naming what is wrong."""
        values = _object(document, "rank", ("version", "rank", "size", "links"))
        if values["version"] != GROUP_VERSION:
            raise InvalidArgumentError(
                f"rank: version: {values['version']!r} does not fit: it must be {GROUP_VERSION}"
            )
        return cls(
            _integer(values["rank"], "rank: rank"),
            _integer(values["size"], "rank: size"),
            tuple(LinkInfo.from_json(link) for link in _list(values["links"], "rank: links")),
        )


def _object(document: object, what: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise InvalidArgumentError(f"{what}: {document!r} does not fit: it must be an object")
    for name in names:
        if name not in document:
            raise InvalidArgumentError(f"{what}: {name} is missing")
    for name in document:
        if name not in names:
            raise InvalidArgumentError(f"{what}: there is no {name}")
    return document


def _integer(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidArgumentError(
            f"{what}: {value!r} does not fit: it must be an integer, 0 or more"
        )
    return value


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidArgumentError(f"{what}: {value!r} does not fit: it must be a list")
    return value
