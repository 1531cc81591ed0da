"""The runtime calls, in groups over one ``DeviceState``.

``group.py``               the base class of a group, and the decorator that declares a call
``device.py``              waiting for all work, errors, limits, reset
``memory.py``              allocation, registration, pointer attributes; ``allocator.py`` is what other groups share
``pools.py``               stream-ordered allocation; ``pool_bookkeeping.py`` keeps a pool's books
``managed_memory.py``      prefetching, advice
``peers.py``               peer access, and copies from one device to another
``copies.py``              copies and memsets; ``placement.py`` finds the memory that a region lies in
``streams.py``             streams, events, host functions
``stream_attributes.py``   attributes of streams; ``access_windows.py`` checks windows, for launches and graphs, too
``stream_values.py``       values in memory that streams write or wait for
``textures.py``            CUDA arrays, texture and surface objects
``kernels.py``             modules, occupancy, launches, array operations
``graphs/``                graphs: what nodes do, instantiation and launch, capture, memory, user objects

Which call waits for what is what an H200 with driver 580 does (``tests/conformance/programs/implicit_waits.py``). Waits
that CUDA does not promise, by loading a module or for staging memory, take time and order nothing.
"""
