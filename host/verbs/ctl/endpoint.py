"""Endpoint operations of the user's: EV probes, self-probes, port status updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from host.config import ForwardingMode, NicConfig
from host.paths.universe import plane_of_ev
from host.qp.endpoint import EndpointResult
from host.qp.peer import Route, template_towards
from host.verbs.ctl.attributes import EpReq, EpRsp
from host.verbs.ctl.flags import EpOpType
from host.verbs.errors import (
    InvalidArgumentError,
    TimedOutError,
    TryAgainError,
    check_range,
    translated,
)
from host.wire import FrameTemplate
from host.wire.constants import ECN_NOT_ECT, EndpointOp
from host.wire.envelope import Envelope
from topologies.addressing import EV_BITS

if TYPE_CHECKING:
    from host.verbs.context import Context

_OPS: dict[EpOpType, EndpointOp] = {
    EpOpType.EV_PROBE: EndpointOp.EV_PROBE,
    EpOpType.PORT_STATUS_UPDATE: EndpointOp.PORT_STATUS_UPDATE,
}


def planes_of_mask(port_mask: int) -> int:
    """Planes (bit p = port p + 1) of a mask of ports (bit N = port N)."""
    return port_mask >> 1


def mask_of_planes(planes: int) -> int:
    """The inverse of `planes_of_mask`."""
    return planes << 1


class EpBatch:
    """Requests that were sent together, and the responses that have come.

    `on_done` is called when the last response is there or its time is over, under the rule of
    `CompChannel.notify`.
    """

    __slots__ = ("_context", "_waiting", "on_done", "responses", "timed_out")

    def __init__(self, context: Context) -> None:
        self._context = context
        #: The NIC's request ids → the user's
        self._waiting: dict[int, int] = {}
        #: In the order in which they came
        self.responses: list[EpRsp] = []
        #: Requests (`req_id`) whose time is over
        self.timed_out: list[int] = []
        self.on_done: Callable[[], None] | None = None

    @property
    def done(self) -> bool:
        """Whether every request was answered or given up."""
        self._context.device.dispatch()
        return not self._waiting

    def result(self) -> list[EpRsp]:
        """The responses, in the order in which they came.

        Raises TryAgainError while some may still come, TimedOutError when some did not come in
        time; those that came are in `responses` either way.
        """
        if not self.done:
            raise TryAgainError(f"{len(self._waiting)} response(s) may still come")
        if self.timed_out:
            told = ", ".join(map(str, self.timed_out))
            raise TimedOutError(f"no response in time to request(s) {told}")
        return self.responses

    @property
    def waiting(self) -> int:
        """How many requests are still without an outcome."""
        return len(self._waiting)

    def wait_for(self, request_id: int, req_id: int) -> None:
        """A request was sent."""
        self._waiting[request_id] = req_id

    def resolve(self, result: EndpointResult) -> None:
        """The NIC says what became of a request; other batches' are passed over."""
        req_id = self._waiting.pop(result.request_id, None)
        if req_id is None:
            return
        if result.rtt_ns is None or result.port is None:
            self.timed_out.append(req_id)
        else:
            self.responses.append(EpRsp(req_id, result.port + 1, result.rtt_ns))
        if not self._waiting and self.on_done is not None:
            self.on_done()


def route_of(config: NicConfig, req: EpReq) -> Route:
    """The way of a request. Raises InvalidArgumentError for one that there is not."""
    ev, port_num = req.req_ev.val, req.req_ev.port
    check_range("req_ev: val", ev, 0, (1 << EV_BITS) - 1)
    check_range("req_ev: port", port_num, 1, len(config.ports))
    if config.forwarding is not ForwardingMode.ECMP and plane_of_ev(ev) != port_num - 1:
        raise InvalidArgumentError(
            f"req_ev: EV {ev:#010x} leaves on port {plane_of_ev(ev) + 1}, not {port_num}"
        )
    carrier: int | None = None
    if req.carrier is not None:
        if config.forwarding is not ForwardingMode.SRV6:
            raise InvalidArgumentError("carrier: the NIC does not forward with SRv6")
        carrier = int(req.carrier)
    else:
        with translated():
            template = template_towards(config, int(req.dgid))
            carrier = None if template is None else template.address(ev)
    port = config.ports[port_num - 1]
    frames = FrameTemplate(
        Envelope.over_path(
            dst_mac=port.gateway_mac,
            src_mac=port.mac,
            carrier=carrier,
            dst=int(req.dgid),
            src=config.address,
            ev=ev,
            dscp=config.traffic.control,
            ecn=ECN_NOT_ECT,
            udp_port=config.udp_port,
        )
    )
    return Route(port_num - 1, frames, frames, frames)


def send_batch(
    context: Context,
    req_tc: int | None,
    op_type: EpOpType,
    reqs: Sequence[EpReq],
    rsp_timeout: int,
    add: Callable[[EpBatch], None],
) -> EpBatch:
    """Check all requests, then send them."""
    device = context.device
    config = device.nic.config
    if req_tc is not None:
        check_range("req_tc", req_tc, 0, 63)
    check_range("rsp_timeout", rsp_timeout, 1, (1 << 32) - 1)
    ids = [req.req_id for req in reqs]
    if not ids:
        raise InvalidArgumentError("req: there are no requests")
    if len(set(ids)) != len(ids):
        raise InvalidArgumentError("req_id: one is there twice; they must be unique")
    routes = []
    for req in reqs:
        check_range("req_id", req.req_id, 0, (1 << 16) - 1)
        if (req.port_status is not None) != (op_type is EpOpType.PORT_STATUS_UPDATE):
            raise InvalidArgumentError(
                "port_status: PORT_STATUS_UPDATE needs it, and nothing else has it"
            )
        if req.port_status is not None:
            if int(req.dgid) == config.address:
                raise InvalidArgumentError("dgid: it is the NIC's own")
            limit = mask_of_planes((1 << len(config.ports)) - 1)
            if req.port_status & ~limit:
                raise InvalidArgumentError(
                    f"port_status: {req.port_status:#x} does not fit: "
                    f"bits 1..{len(config.ports)} stand for the ports"
                )
        routes.append(route_of(config, req))
    batch = EpBatch(context)
    now_ns = device.driver.now_ns()
    add(batch)
    for req, route in zip(reqs, routes, strict=True):
        request_id = device.mrc_nic.request(
            _OPS[op_type],
            int(req.dgid),
            route,
            req.req_ev.val,
            now_ns,
            timeout_ns=rsp_timeout,
            dscp=req_tc,
            planes_up=planes_of_mask(req.port_status or 0),
        )
        if request_id is None:
            device.driver.kick()
            raise TryAgainError("too many endpoint requests are unanswered")
        batch.wait_for(request_id, req.req_id)
    device.driver.kick()
    return batch
