"""What a notebook knows as ``cudalab.plot``: the course's figures, each a drawing and one sentence that says what it
shows.

The functions take plain numbers, NumPy arrays, or what ``cudalab.profile`` and ``cudalab.trace`` have returned, run
nothing on the device, and return a ``Picture``, which a notebook shows when it is the last line of a cell.
"""

from cudalab.plots.access import sectors, touched
from cudalab.plots.banks import banks
from cudalab.plots.bars import bars
from cudalab.plots.curve import curve
from cudalab.plots.heat_map import heat_map
from cudalab.plots.image import image
from cudalab.plots.layouts.bank_layout import bank_layout
from cudalab.plots.layouts.context import context
from cudalab.plots.layouts.graph import graph
from cudalab.plots.layouts.grid import grid
from cudalab.plots.layouts.lanes import lanes
from cudalab.plots.layouts.levels import levels
from cudalab.plots.layouts.message import message
from cudalab.plots.layouts.order import barriers, queue
from cudalab.plots.layouts.pending import pending
from cudalab.plots.layouts.product import register_tile, tiles, warp_reads, warp_tile
from cudalab.plots.layouts.rows import rows
from cudalab.plots.layouts.scopes import scopes
from cudalab.plots.layouts.set_aside import set_aside
from cudalab.plots.layouts.stages import stages
from cudalab.plots.layouts.streams import streams
from cudalab.plots.layouts.stride import stride
from cudalab.plots.layouts.struct import nodes, struct
from cudalab.plots.memories import memories
from cudalab.plots.occupancy import occupancy
from cudalab.plots.picture import Illustration, Picture
from cudalab.plots.pitch import pitch
from cudalab.plots.roofline import roofline
from cudalab.plots.routes import routes
from cudalab.plots.timeline import timeline

__all__ = [
    "Illustration",
    "Picture",
    "bank_layout",
    "banks",
    "barriers",
    "bars",
    "context",
    "curve",
    "graph",
    "grid",
    "heat_map",
    "image",
    "lanes",
    "levels",
    "memories",
    "message",
    "nodes",
    "occupancy",
    "pending",
    "pitch",
    "queue",
    "register_tile",
    "roofline",
    "routes",
    "rows",
    "scopes",
    "sectors",
    "set_aside",
    "stages",
    "streams",
    "stride",
    "struct",
    "tiles",
    "timeline",
    "touched",
    "warp_reads",
    "warp_tile",
]
