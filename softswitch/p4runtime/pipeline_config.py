"""Forwarding pipeline configs: verify, save, commit, read back.

`PipelineConfigs` holds at most two `PipelineState`s: the active one, which packets run through, and
a saved one that waits for COMMIT. Requests refer to the saved one while there is one, as the
specification says.
"""

from __future__ import annotations

import logging
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.access import SwitchAccess
from softswitch.p4runtime.device_config import program_text
from softswitch.p4runtime.entities import EntityHandler, handlers
from softswitch.p4runtime.errors import Code, P4RuntimeError, invalid, not_found
from softswitch.p4runtime.reconcile import carry_over
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.state import PipelineState
from softswitch.program import UnsupportedProgram, load_program
from softswitch.replication import ReplicationEngine

log = logging.getLogger(__name__)


class PipelineConfigs:
    """The configs of one switch.

    Not thread-safe but for the switch's lock, which it takes where needed.
    """

    def __init__(self, access: SwitchAccess) -> None:
        self._access = access
        self._active: PipelineState | None = None
        self._saved: PipelineState | None = None
        self._handlers: dict[str, EntityHandler] = {}

    @property
    def active(self) -> PipelineState | None:
        """The pipeline that packets run through; packet I/O and digests speak its P4Info."""
        return self._active

    @property
    def current(self) -> PipelineState | None:
        """The pipeline that reads and writes refer to."""
        return self._saved or self._active

    @property
    def handlers(self) -> dict[str, EntityHandler]:
        """Entity handlers of the current pipeline; FAILED_PRECONDITION when there is none."""
        if self.current is None:
            raise P4RuntimeError(
                Code.FAILED_PRECONDITION,
                "no forwarding pipeline config has been set on this switch",
            )
        return self._handlers

    def verify(self, config: Any) -> PipelineState:
        """Build everything a config needs without touching the switch; the lock is not needed.

        INVALID_ARGUMENT when the config is missing, contradicts itself or cannot be realised.
        """
        if not config.HasField("p4info"):
            raise invalid("config.p4info is not set")
        max_groups = self._access.replication.max_groups
        try:
            schema = Schema(config.p4info)
            program = load_program(program_text(config.p4_device_config))
            pipeline = self._access.build(program)
            return PipelineState(
                config, schema, pipeline, ReplicationEngine(max_groups=max_groups), self._access
            )
        except UnsupportedProgram as error:
            raise invalid(f"p4_device_config: {error}") from None
        except P4RuntimeError as error:
            # Whatever this switch does not support makes the config one that it cannot realise.
            raise invalid(error.message) from None

    def save(self, state: PipelineState) -> None:
        """Let reads and writes refer to a verified config.

        Packets still run through the active one.
        """
        self._saved = state
        self._handlers = handlers(state)

    def commit(self, state: PipelineState) -> None:
        """Let packets run through a verified config; what was saved before is dropped."""
        groups = list(state.replication.groups())
        sessions = list(state.replication.sessions())
        with self._access.lock:
            self._access.install(state.pipeline)
            engine = self._access.replication
            for group in groups:
                engine.create_group(group)
            for session in sessions:
                engine.create_session(session)
            state.replication = engine
            self._active = state
            self._saved = None
            self._handlers = handlers(state)
        log.info("P4Runtime: program '%s' is running", state.pipeline.program.name)

    def commit_saved(self) -> PipelineState:
        """COMMIT: the saved config, with what was written to it, becomes active.

        NOT_FOUND when none was saved.
        """
        if self._saved is None:
            raise not_found("no config has been saved (VERIFY_AND_SAVE) that could be committed")
        state = self._saved
        self.commit(state)
        return state

    def reconcile(self, state: PipelineState) -> None:
        """RECONCILE_AND_COMMIT: carry the forwarding state over to a verified config.

        INVALID_ARGUMENT, naming the entity, when something does not fit the new config; nothing
        changes then.
        """
        if self.current is not None:
            # Without the switch's lock, which this would hold for too long: other requests are kept
            # out, the new pipeline is nobody else's yet, and packets only count in the old one.
            carry_over(self.current, self._handlers, handlers(state))
        self.commit(state)

    def get(self, response_type: int) -> Any:
        """The config as the client sent it, reduced to what the response type asks for.

        None without one.
        """
        if self.current is None:
            return None
        config = self.current.config
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest
        reply = p4runtime_pb2.ForwardingPipelineConfig()
        if config.HasField("cookie"):
            reply.cookie.CopyFrom(config.cookie)
        if response_type in (request.ALL, request.P4INFO_AND_COOKIE):
            reply.p4info.CopyFrom(config.p4info)
        if response_type in (request.ALL, request.DEVICE_CONFIG_AND_COOKIE):
            reply.p4_device_config = config.p4_device_config
        elif response_type not in (request.COOKIE_ONLY, request.P4INFO_AND_COOKIE):
            raise invalid(f"response_type {response_type} is unknown")
        return reply
