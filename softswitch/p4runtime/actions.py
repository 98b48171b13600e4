"""`Action` messages ↔ the `ActionCall` of an entry (section "Action Specification")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from softswitch.p4runtime.codec import decode_uint, encode_uint
from softswitch.p4runtime.errors import denied, invalid
from softswitch.p4runtime.schema import ActionSchema, ActionScope
from softswitch.tables import ActionCall

Actions = Mapping[int, tuple[ActionSchema, ActionScope]]


def decode_action(
    message: Any, actions: Actions, where: str, *, is_default: bool = False
) -> ActionCall:
    """The call a p4.v1.Action stands for (section "Action Specification").

    INVALID_ARGUMENT for actions or parameters that are not there or missing, OUT_OF_RANGE for
    values that do not fit, PERMISSION_DENIED when the action may not stand in this place.
    """
    found = actions.get(message.action_id)
    if found is None:
        raise invalid(f"{where}: action id {message.action_id} is none of its actions")
    schema, scope = found
    if scope is ActionScope.DEFAULT_ONLY and not is_default:
        raise denied(f"{where}: action '{schema.name}' may only be the default action")
    if scope is ActionScope.TABLE_ONLY and is_default:
        raise denied(f"{where}: action '{schema.name}' may not be the default action")
    args = [-1] * len(schema.params)
    for param in message.params:
        position = schema.param_positions.get(param.param_id)
        if position is None:
            raise invalid(
                f"{where}: action '{schema.name}' has no parameter with id {param.param_id}"
            )
        known = schema.params[position]
        if args[position] >= 0:
            raise invalid(f"{where}: {known.label} is given twice")
        args[position] = decode_uint(param.value, known.bitwidth, known.label)
    if -1 in args:
        raise invalid(f"{where}: {schema.params[args.index(-1)].label} is missing")
    return ActionCall(schema.name, tuple(args))


def encode_action(call: ActionCall, schema: ActionSchema, message: Any) -> None:
    """Fill in a p4.v1.Action."""
    message.action_id = schema.id
    for param, value in zip(schema.params, call.args, strict=True):
        message.params.add(param_id=param.id, value=encode_uint(value))
