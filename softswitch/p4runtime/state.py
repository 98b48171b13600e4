"""`PipelineState`: one forwarding pipeline config and the state that requests read and write.

There is the active one, which packets run through, and after VERIFY_AND_SAVE a saved one, which is
written to until COMMIT makes it active; that is how "replaying the writes since the config was
saved" is done here.
"""

from __future__ import annotations

from typing import Any

from softswitch.p4runtime.access import SwitchAccess
from softswitch.p4runtime.binding import Binding
from softswitch.p4runtime.digests import DigestLists
from softswitch.p4runtime.packet_io import ControllerHeader
from softswitch.p4runtime.schema import Schema
from softswitch.pipeline import Pipeline
from softswitch.replication import ReplicationEngine
from softswitch.tables import Match


class PipelineState:
    """A bound pipeline and what P4Runtime keeps beside it.

    `config` is the `ForwardingPipelineConfig` as the client sent it. `replication` is the switch's
    own once the pipeline is active. The `*_by_deprecated_field` sets remember where a client used
    the numeric field that 1.4 deprecates, so that reads return what was written.
    """

    def __init__(
        self,
        config: Any,
        schema: Schema,
        pipeline: Pipeline,
        replication: ReplicationEngine,
        access: SwitchAccess,
    ) -> None:
        self.config = config
        self.schema = schema
        self.pipeline = pipeline
        self.binding = Binding(schema, pipeline)
        self.replication = replication
        self.access = access
        self.digests = DigestLists()
        self.packet_in = ControllerHeader(schema.packet_in)
        self.packet_out = ControllerHeader(schema.packet_out)
        self.group_max_sizes: dict[tuple[int, int], int] = {}
        self.watches_by_deprecated_field: set[tuple[object, ...]] = set()
        self.replicas_by_deprecated_field: set[tuple[object, ...]] = set()
        self.modified_defaults: set[int] = set()  # ids of tables whose default entry was written
        # Entries with an idle timeout: (table id, entry key) → when the timeout was last started.
        self.idle_started_ns: dict[tuple[int, tuple[Match, int]], int] = {}
