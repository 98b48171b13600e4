"""QP hints: what traffic to expect. The NIC keeps them and acts on none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from host.verbs.attributes import HINT_FIELDS, MAX_VENDOR_CFG_BYTES, QpHintAttr
from host.verbs.errors import InvalidArgumentError, check_range
from host.verbs.flags import QpHintAttrMask
from host.verbs.resource import Resource

if TYPE_CHECKING:
    from host.verbs.context import Context

_ALL = QpHintAttrMask(sum(HINT_FIELDS))
_MAX_INT = (1 << 31) - 1


def check_vendor_cfg(vendor_cfg: object) -> None:
    """Raises InvalidArgumentError for more bytes than the structures hold."""
    if not isinstance(vendor_cfg, bytes) or len(vendor_cfg) > MAX_VENDOR_CFG_BYTES:
        raise InvalidArgumentError(f"vendor_cfg: it must be bytes, {MAX_VENDOR_CFG_BYTES} at most")


class QpHint(Resource):
    """mrc_qp_hint, made by `Context.create_qp_hint`."""

    __slots__ = ("_attr",)

    kind = "QP hint"

    def __init__(self, context: Context, attr: QpHintAttr) -> None:
        self._check(attr)
        context.check_open()
        context.device.add_hint()
        super().__init__(context)
        self._attr = attr

    @staticmethod
    def _check(attr: QpHintAttr) -> None:
        for name in ("num_qps_per_peer", "num_send_peers", "num_remote_recv_peers"):
            value = getattr(attr, name)
            if value is not None:
                check_range(name, value, 0, _MAX_INT)
        if attr.vendor_cfg is not None:
            check_vendor_cfg(attr.vendor_cfg)

    def query_qp_hint(self, mask: QpHintAttrMask = _ALL) -> QpHintAttr:
        """mrc_query_qp_hint: the attributes of the mask; the others are None."""
        self.check_open()
        return QpHintAttr(
            **{name: getattr(self._attr, name) for bit, name in HINT_FIELDS.items() if bit & mask}
        )

    def modify_qp_hint(self, attr: QpHintAttr, mask: QpHintAttrMask | None = None) -> None:
        """mrc_modify_qp_hint. Without a mask, all attributes that are not None count."""
        self.check_open()
        changes = {
            name: getattr(attr, name)
            for bit, name in HINT_FIELDS.items()
            if (getattr(attr, name) is not None if mask is None else bit & mask)
        }
        for name, value in changes.items():
            if value is None:
                raise InvalidArgumentError(f"{name}: it is in the mask, but was not given")
        changed = replace(self._attr, **changes)
        self._check(changed)
        self._attr = changed

    def _destroy(self) -> None:
        self.context.device.remove_hint()
