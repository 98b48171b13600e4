"""Enumerations and flags of mrc_ctl.h, under its names and with its numbers."""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag


class ProfileState(Enum):
    """mrc_ctl_profile_state, of profiles of all kinds."""

    #: Not configured
    INIT = "INIT"
    #: Configured, not usable, may be changed
    OFFLINE = "OFFLINE"
    #: Usable
    ONLINE = "ONLINE"


class CtlOptCap(IntFlag):
    """mrc_ctl_attr_opt."""

    EV_PROFILE_MODIFY_ONLINE = 1 << 0
    CC_PROFILE_MODIFY_ONLINE = 1 << 1
    EV_EVENT = 1 << 2
    EV_EXPLICIT_RANGE = 1 << 3
    EV_EVENT_PRECISE_DROP_CNT = 1 << 4
    EP_OP_EV_PROBE = 1 << 5


class PortAdminState(IntEnum):
    """mrc_ctl_port_admin_state."""

    DISABLED = 0
    ENABLED = 1


class PortAttrMask(IntFlag):
    """mrc_ctl_port_attr_mask."""

    ADMIN_STATE = 1 << 0


class EvFmtMode(IntFlag):
    """mrc_ctl_ev_fmt_mode."""

    #: In the flow label and the UDP source port
    STEV = 1 << 0
    #: In a uSID carrier
    SRV6 = 1 << 1
    #: In the UDP source port alone
    UDP = 1 << 2


class EvFmtProfileAttrMask(IntFlag):
    """mrc_ctl_ev_fmt_profile_attr_mask."""

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    MODE = 1 << 2
    OP = 1 << 3
    VENDOR_CFG = 1 << 31


class EvState(IntFlag):
    """mrc_ctl_ev_state. SKIP, which passes in a turn, is GOOD here."""

    GOOD = 1 << 0
    ASSUMED_BAD = 1 << 1
    DENIED = 1 << 2
    UNKNOWN = 1 << 31


class EvMode(IntFlag):
    """mrc_ctl_ev_mode."""

    #: The NIC makes them
    AUTO = 1 << 0
    #: Each one given
    EXP = 1 << 1
    #: From rules for fields
    GEN = 1 << 2


class EvOpType(Enum):
    """mrc_ctl_ev_op."""

    REPLACE_EV = "REPLACE_EV"
    MODIFY_EV_STATE = "MODIFY_EV_STATE"
    QUERY_EV_STATE = "QUERY_EV_STATE"
    QUERY_EV_ARRAY = "QUERY_EV_ARRAY"


class EvOpFlags(IntFlag):
    """mrc_ctl_ev_op_flags."""

    NONE = 0
    ALL_COPIES = 1 << 0


class EvProfileAttrMask(IntFlag):
    """mrc_ctl_ev_profile_attr_mask."""

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    MODE = 1 << 2
    FMT_ID = 1 << 3
    COUNT = 1 << 4
    MIN_ACTIVE = 1 << 5
    EVENT_MASK = 1 << 6
    EV_OP = 1 << 7
    EV_FIELDS_OP = 1 << 8
    VENDOR_CFG = 1 << 31


class CcProfileAttrMask(IntFlag):
    """mrc_ctl_cc_profile_attr_mask."""

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    ALGORITHM = 1 << 2
    CONFIG = 1 << 3
    VENDOR_CFG = 1 << 31


class EpOpType(IntEnum):
    """mrc_ctl_ep_op_type."""

    EV_PROBE = 0
    PORT_STATUS_UPDATE = 1
