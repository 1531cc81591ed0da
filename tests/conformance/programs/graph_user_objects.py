"""User objects: reference counts, who holds references, what copies of a graph hold, and when the destructor runs."""

import ctypes
import time

from cudalab import cudart, driver

from ..appending import append_node, graph, logged, new_log, warm_appends
from ..busy import spin, streams, warm
from ..program import code, program

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
NO_SYNC, MOVE = 1, 1


class Objects:
    """Destructors that note the number of their object."""

    def __init__(self):
        self.gone = []
        self.function = HOST_FUNCTION(lambda data: self.gone.append(int(data or 0)))
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value

    def create(self, number, count=1, flags=NO_SYNC):
        return cudart.cudaUserObjectCreate(number, self.address, count, flags)

    def new(self, number, count=1):
        return self.create(number, count)[1]

    def after(self, count):
        """What was destroyed, once so many were; destructors run in a thread of the driver's."""
        deadline = time.monotonic() + 2
        while len(self.gone) < count and time.monotonic() < deadline:
            time.sleep(0.005)
        return sorted(self.gone)

    def soon(self):
        """What was destroyed, a little later."""
        time.sleep(0.05)
        return sorted(self.gone)


def instantiated(made):
    return cudart.cudaGraphInstantiate(made, 0)[1]


def done():
    cudart.cudaGetLastError()


@program("an object lives until its last reference is released")
def references():
    objects = Objects()
    error, one = objects.create(5, 2)
    result = {"created": error.name, "retained": code(cudart.cudaUserObjectRetain(one, 3))}
    result["released"] = [code(cudart.cudaUserObjectRelease(one, count)) for count in (2, 2)]
    result["alive"] = objects.soon()
    result["last"] = code(cudart.cudaUserObjectRelease(one, 1))
    result["gone"] = objects.after(1)
    return result


@program("what creating and counting objects refuses")
def errors():
    objects = Objects()
    one = objects.new(5)
    result = {
        "no flags": code(objects.create(1, 1, 0)),
        "other flags": code(objects.create(1, 1, 3)),
        "no count": code(objects.create(1, 0)),
        "retain none": code(cudart.cudaUserObjectRetain(one, 0)),
        "release none": code(cudart.cudaUserObjectRelease(one, 0)),
        "retain null": code(cudart.cudaUserObjectRetain(0, 1)),
        "release null": code(cudart.cudaUserObjectRelease(0, 1)),
    }
    with graph() as made:
        result["graph"] = {
            "no count": code(cudart.cudaGraphRetainUserObject(made, one, 0, 0)),
            "flags": code(cudart.cudaGraphRetainUserObject(made, one, 1, 2)),
        }
    cudart.cudaUserObjectRelease(one, 1)
    result["gone"] = objects.after(1)
    done()
    return result


@program("an object with a large count, and a pointer as its data")
def large_count():
    objects = Objects()
    one = objects.new(1 << 40, 1000)
    result = {"released": code(cudart.cudaUserObjectRelease(one, 999)), "alive": objects.soon()}
    cudart.cudaUserObjectRelease(one, 1)
    result["gone"] = objects.after(1)
    return result


@program("a graph takes a reference of its own, or the caller's")
def retained_by_a_graph():
    objects = Objects()
    own, moved = objects.new(1), objects.new(2)
    _, made = cudart.cudaGraphCreate(0)
    result = {
        "retained": code(cudart.cudaGraphRetainUserObject(made, own, 1, 0)),
        "moved": code(cudart.cudaGraphRetainUserObject(made, moved, 1, MOVE)),
    }
    result["alive"] = objects.soon()
    result["destroyed"] = code(cudart.cudaGraphDestroy(made))
    result["with the graph"] = objects.after(1)
    result["released"] = code(cudart.cudaUserObjectRelease(own, 1))
    result["gone"] = objects.after(2)
    return result


@program("a graph releases references, some and all")
def released_by_a_graph():
    objects = Objects()
    one = objects.new(1)
    with graph() as made:
        result = {"retained": code(cudart.cudaGraphRetainUserObject(made, one, 3, 0))}
        cudart.cudaUserObjectRelease(one, 1)
        result["some"] = code(cudart.cudaGraphReleaseUserObject(made, one, 2))
        result["alive"] = objects.soon()
        result["none"] = code(cudart.cudaGraphReleaseUserObject(made, one, 0))
        result["last"] = code(cudart.cudaGraphReleaseUserObject(made, one, 1))
        result["gone"] = objects.after(1)
    done()
    return result


@program("moving more references than the caller says it has")
def moved_in_parts():
    objects = Objects()
    one = objects.new(1, 3)
    with graph() as made:
        result = {"two": code(cudart.cudaGraphRetainUserObject(made, one, 2, MOVE))}
        result["own"] = code(cudart.cudaUserObjectRelease(one, 1))
        result["alive"] = objects.soon()
        result["released"] = code(cudart.cudaGraphReleaseUserObject(made, one, 2))
        result["gone"] = objects.after(1)
    done()
    return result


@program("a clone and an executable graph hold references of their own")
def copies():
    objects = Objects()
    one = objects.new(1)
    _, made = cudart.cudaGraphCreate(0)
    cudart.cudaGraphRetainUserObject(made, one, 1, MOVE)
    _, clone = cudart.cudaGraphClone(made)
    executable = instantiated(clone)
    result = {"seen": []}
    cudart.cudaGraphDestroy(made)
    result["seen"].append(objects.soon())
    cudart.cudaGraphDestroy(clone)
    result["seen"].append(objects.soon())
    result["destroyed"] = code(cudart.cudaGraphExecDestroy(executable))
    result["gone"] = objects.after(1)
    return result


@program("a child graph node keeps what its graph holds")
def children():
    objects = Objects()
    one = objects.new(1)
    _, child = cudart.cudaGraphCreate(0)
    cudart.cudaGraphRetainUserObject(child, one, 1, MOVE)
    _, parent = cudart.cudaGraphCreate(0)
    _, node = cudart.cudaGraphAddChildGraphNode(parent, [], 0, child)
    cudart.cudaGraphDestroy(child)
    result = {"alive": objects.soon()}
    inner = cudart.cudaGraphChildGraphNodeGetGraph(node)[1]
    result["released by the inner graph"] = code(cudart.cudaGraphReleaseUserObject(inner, one, 1))
    result["then"] = objects.soon()
    cudart.cudaGraphDestroy(parent)
    result["gone"] = objects.after(1)
    done()
    return result


@program("a destroyed node takes the references of its child graph along")
def destroyed_child():
    objects = Objects()
    one = objects.new(1)
    with graph() as parent:
        _, child = cudart.cudaGraphCreate(0)
        cudart.cudaGraphRetainUserObject(child, one, 1, MOVE)
        _, node = cudart.cudaGraphAddChildGraphNode(parent, [], 0, child)
        cudart.cudaGraphDestroy(child)
        result = {"destroyed": code(cudart.cudaGraphDestroyNode(node)), "gone": objects.after(1)}
    return result


@program("an executable graph holds on while a launch is under way, after it was destroyed")
def while_it_runs():
    warm_appends()
    warm()
    objects, log = Objects(), new_log()
    one = objects.new(1)
    with streams(1) as (stream,):
        _, made = cudart.cudaGraphCreate(0)
        append_node(made, [], log, 3)
        cudart.cudaGraphRetainUserObject(made, one, 1, MOVE)
        executable = instantiated(made)
        cudart.cudaGraphDestroy(made)
        cudart.cudaGraphUpload(executable, stream)
        cudart.cudaStreamSynchronize(stream)
        spin(stream)
        launched = code(cudart.cudaGraphLaunch(executable, stream))
        destroyed = code(cudart.cudaGraphExecDestroy(executable))
        early = list(objects.gone)
        cudart.cudaStreamSynchronize(stream)
    return {"calls": [launched, destroyed], "early": early, "log": logged(log), "gone": objects.after(1)}


@program("an update takes the references of the new graph and leaves the old ones")
def updated():
    objects = Objects()
    one, other = objects.new(1), objects.new(2)
    with graph() as made, graph() as second:
        cudart.cudaGraphAddEmptyNode(made, [], 0)
        cudart.cudaGraphAddEmptyNode(second, [], 0)
        cudart.cudaGraphRetainUserObject(made, one, 1, MOVE)
        cudart.cudaGraphRetainUserObject(second, other, 1, MOVE)
        executable = instantiated(made)
        result = {"updated": code(cudart.cudaGraphExecUpdate(executable, second))}
        result["released"] = code(cudart.cudaGraphReleaseUserObject(made, one, 1))
        result["old"] = objects.soon()
        cudart.cudaGraphReleaseUserObject(second, other, 1)
        result["new"] = objects.soon()
        cudart.cudaGraphExecDestroy(executable)
        result["gone"] = objects.after(2)
    return result


@program("objects of a captured graph, taken over from the stream's capture")
def captured():
    objects = Objects()
    one = objects.new(1)
    with streams(1) as (stream,):
        cudart.cudaStreamBeginCapture(stream, cudart.cudaStreamCaptureMode(0))
        found = cudart.cudaStreamGetCaptureInfo(stream)
        retained = code(cudart.cudaGraphRetainUserObject(found[3], one, 1, MOVE))
        _, made = cudart.cudaStreamEndCapture(stream)
        result = {"retained": retained, "alive": objects.soon()}
        cudart.cudaGraphDestroy(made)
        result["gone"] = objects.after(1)
    return result


@program("user objects by the driver")
def by_the_driver():
    objects = Objects()
    error, one = driver.cuUserObjectCreate(6, objects.address, 1, NO_SYNC)
    _, made = driver.cuGraphCreate(0)
    result = {
        "created": error.name,
        "retained": code(driver.cuUserObjectRetain(one, 1)),
        "by the graph": code(driver.cuGraphRetainUserObject(made, one, 1, 0)),
        "released by it": code(driver.cuGraphReleaseUserObject(made, one, 1)),
        "released": [code(driver.cuUserObjectRelease(one, 1)) for _ in range(2)],
        "no flags": code(driver.cuUserObjectCreate(6, objects.address, 1, 0)),
        "gone": objects.after(1),
    }
    driver.cuGraphDestroy(made)
    return result
