"""What can be wrong with a frame. Every error says in which header and at which byte."""

from __future__ import annotations


class DecodeError(ValueError):
    """A frame that is not a whole and right MRC packet; it is dropped and counted.

    `header` is the header's name as in the specification ("outer IPv6", "BTH", ...), `offset` the
    byte of the frame, from 0, where the wrong thing stands.
    """

    def __init__(self, header: str, offset: int, problem: str) -> None:
        super().__init__(f"{header} at byte {offset}: {problem}")
        self.header = header
        self.offset = offset
        self.problem = problem


class NotMrcError(DecodeError):
    """Somebody else's packet: another EtherType, next header or UDP port. Not malformed."""


class WrongDestinationError(DecodeError):
    """The inner destination address is not this NIC's."""


class TruncatedError(DecodeError):
    """The frame ends before the header (or what a length promises) does.

    `offset` is where the header starts.
    """


class LengthError(DecodeError):
    """Lengths of two headers contradict one another, or the payload's its padding."""


class FieldError(DecodeError):
    """A field has a value that the specification does not allow."""


class UnknownOpcodeError(FieldError):
    """The BTH opcode is none of MRC's."""


class UdpChecksumError(DecodeError):
    """The UDP checksum is neither zero nor right."""


class IcrcError(DecodeError):
    """The ICRC is wrong: the packet was corrupted on its way."""


class EncodeError(ValueError):
    """A value does not fit its field. `header` and `field` as in the specification."""

    def __init__(self, header: str, field: str, value: object, wanted: str) -> None:
        super().__init__(f"{header}.{field}: {value} does not fit, it must be {wanted}")
        self.header = header
        self.field = field
        self.value = value
