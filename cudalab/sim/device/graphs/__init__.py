"""CUDA graphs: work and its order as data, made once and launched any number of times.

``content.py``      what a node does, as plain values
``graph.py``        nodes and edges
``memory.py``       what allocation and free nodes give and take
``conditional.py``  nodes whose bodies run by a value that kernels set
``user_object.py``  what of the program a graph keeps alive
``executable.py``   an instantiated graph, and its launch: one operation to its stream, many to the engines
``update.py``       what of an executable graph may change
``capture.py``      streams whose calls become nodes
``dot.py``          a graph as text for Graphviz

The calls are in ``calls/graphs/``.
"""
