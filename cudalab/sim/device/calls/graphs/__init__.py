"""The runtime calls about graphs.

``graphs.py``             nodes, edges, clones; ``graph_work.py`` makes work of what a node is to do
``graph_parameters.py``   what nodes do, and its change; ``node_attributes.py``: attributes of kernel nodes
``graph_execution.py``    instantiation and launch; ``graph_launches.py`` issues the operations of a launch
``graph_memory.py``       memory of graphs; ``conditional_nodes.py``: handles of conditional nodes; ``user_objects.py``
``stream_capture.py``     streams whose calls become nodes
"""
