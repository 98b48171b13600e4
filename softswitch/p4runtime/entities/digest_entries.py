"""Digest configuration (section "DigestEntry"); the lists themselves travel on the stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.digests import DigestConfig
from softswitch.p4runtime.entities.base import EntityHandler, Undo, count
from softswitch.p4runtime.errors import Code, P4RuntimeError, invalid, not_found
from softswitch.p4runtime.schema import DigestSchema
from softswitch.p4runtime.state import PipelineState


class DigestHandler(EntityHandler):
    """`DigestEntry`. Inserting one switches the digest on, deleting it switches it off."""

    kind = "digest_entry"

    def __init__(self, state: PipelineState) -> None:
        self._schemas = state.schema.digests
        self._lists = state.digests

    def insert(self, message: Any) -> Undo:
        """Switch a digest on."""
        schema, config = self._decode(message)
        if self._lists.config(schema.id) is not None:
            raise P4RuntimeError(Code.ALREADY_EXISTS, f"digest '{schema.name}' is already enabled")
        self._lists.enable(schema.id, config)
        return lambda: self._lists.disable(schema.id)

    def modify(self, message: Any) -> Undo:
        """Give a digest that is on another configuration."""
        schema, config = self._decode(message)
        before = self._existing(schema)
        self._lists.enable(schema.id, config)
        return lambda: self._lists.enable(schema.id, before)

    def delete(self, message: Any) -> Undo:
        """Switch a digest off."""
        schema = self._schemas.get(message.digest_id)
        before = self._existing(schema)
        self._lists.disable(schema.id)
        return lambda: self._lists.enable(schema.id, before)

    def read(self, message: Any) -> Iterator[Any]:
        """One digest, or all of them for id 0, as far as they are on."""
        if message.digest_id == 0:
            return self._read(list(self._schemas.by_id))
        return self._read([self._schemas.get(message.digest_id).id])

    def _read(self, digest_ids: list[int]) -> Iterator[Any]:
        for digest_id in digest_ids:
            config = self._lists.config(digest_id)
            if config is None:
                continue
            message = p4runtime_pb2.DigestEntry(digest_id=digest_id)
            message.config.SetInParent()
            message.config.max_timeout_ns = config.max_timeout_ns
            message.config.max_list_size = config.max_list_size
            message.config.ack_timeout_ns = config.ack_timeout_ns
            yield message

    def _decode(self, message: Any) -> tuple[DigestSchema, DigestConfig]:
        schema = self._schemas.get(message.digest_id)
        what = f"digest '{schema.name}'"
        if not message.HasField("config"):
            raise invalid(f"{what}: config is not set")
        config = message.config
        return schema, DigestConfig(
            max_timeout_ns=count(config.max_timeout_ns, f"{what}: max_timeout_ns"),
            max_list_size=count(config.max_list_size, f"{what}: max_list_size"),
            ack_timeout_ns=count(config.ack_timeout_ns, f"{what}: ack_timeout_ns"),
        )

    def _existing(self, schema: DigestSchema) -> DigestConfig:
        config = self._lists.config(schema.id)
        if config is None:
            raise not_found(f"digest '{schema.name}' is not enabled")
        return config
