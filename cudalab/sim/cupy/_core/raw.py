"""``RawKernel`` and ``RawModule``: kernels in CUDA C++ (CuPy User Guide, "User-Defined Kernels").

The source is compiled when the kernel is first needed: a launch, or a question about its registers. Kernels and modules
made from the same source and options share one loaded module, and so its ``__device__`` variables, as under CuPy.
"""

from __future__ import annotations

from typing import Any

from cudalab.sim.compiler import CompileError, compile
from cudalab.sim.compiler.frontend.targets import architecture
from cudalab.sim.cupy._base.call import device, epoch
from cudalab.sim.cupy.cuda import driver
from cudalab.sim.cupy.cuda.compiler import CompileException
from cudalab.sim.cupy.cuda.function import Function, Module
from cudalab.sim.cupy.cuda.memory import MemoryPointer, UnownedMemory

_ATTRIBUTES = (
    "max_threads_per_block",
    "shared_size_bytes",
    "const_size_bytes",
    "local_size_bytes",
    "num_regs",
    "ptx_version",
    "binary_version",
    "cache_mode_ca",
    "max_dynamic_shared_size_bytes",
    "preferred_shared_memory_carveout",
)
_MAX_THREADS, _SHARED, _CONST, _LOCAL, _REGISTERS, _PTX, _BINARY, _CACHE_MODE = range(8)

_modules: dict[tuple[Any, ...], Module] = {}
_epoch: list[Any] = [None]


def load(
    code: str | None,
    path: str | None,
    options: tuple[str, ...],
    backend: str,
    name_expressions: tuple[str, ...] | None,
    log_stream: Any = None,
) -> Module:
    """The loaded module of a source text or a ``.ptx`` file on the current device; the same for the same arguments."""
    if _epoch[0] != epoch():
        _modules.clear()
        _epoch[0] = epoch()
    key = (code, path, options, backend, name_expressions, device().contexts.number)
    module = _modules.get(key)
    if module is None or log_stream is not None:
        module = Module()
        if code is None:
            module.load_file(str(path))
        else:
            program = _compile(code, options, backend, name_expressions)
            if log_stream is not None:
                log_stream.write(program.log)
            module._load_program(program)
        _modules[key] = module
    return module


def _compile(code: str, options: tuple[str, ...], backend: str, name_expressions: tuple[str, ...] | None) -> Any:
    if backend != "nvrtc":
        raise NotImplementedError(
            f"backend={backend!r} is not simulated: the simulated device compiles with NVRTC. Leave `backend` out."
        )
    try:
        properties = device().properties
        own = architecture(properties["major"], properties["minor"])
        return compile(code, options=options, name_expressions=name_expressions or (), architecture=own)
    except CompileError as error:
        raised = CompileException((error.log or str(error)).rstrip("\n") + "\n", code, error.name, options, backend)
        notes = [str(error)] if error.log else []
        for note in [*notes, *getattr(error, "__notes__", ())]:
            raised.add_note(note)
        raise raised from None


def _check(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"Argument {name!r} has incorrect type (expected {kind.__name__}, got {type(value).__name__})")


def _attribute(number: int, doc: str) -> property:
    def get(kernel: RawKernel) -> int:
        return driver.funcGetAttribute(number, kernel.kernel.ptr)

    return property(get, doc=doc)


def _settable(number: int, doc: str) -> property:
    def put(kernel: RawKernel, value: int) -> None:
        driver.funcSetAttribute(kernel.kernel.ptr, number, value)

    return _attribute(number, doc).setter(put)


class RawKernel:
    """A kernel in CUDA C++: ``kernel(grid, block, args, shared_mem=0, stream=None)`` launches it.

    Args:
        code: CUDA C++.
        name: name of the ``__global__`` function, declared ``extern "C"``.
        options: compiler options, a tuple: ``('-DN=4', '--std=c++17')``.
        backend: ``nvrtc``.
        translate_cucomplex: not simulated when True.
        enable_cooperative_groups: launch so that all blocks are on the device at once (grid synchronisation).
        jitify: deprecated in CuPy; not simulated when True.
    """

    __slots__ = (
        "__name__",
        "__weakref__",
        "_function",
        "_function_epoch",
        "_name_expressions",
        "backend",
        "code",
        "enable_cooperative_groups",
        "file_path",
        "name",
        "options",
    )

    def __init__(
        self,
        code: str,
        name: str,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        *,
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        jitify: Any = None,
    ) -> None:
        if code is not None:
            _check("code", code, str)
        _check("name", name, str)
        _check("options", options, tuple)
        _check("backend", backend, str)
        _refuse(translate_cucomplex, jitify)
        self.code = code
        self.name = self.__name__ = name
        self.options = options
        self.backend = backend
        self.enable_cooperative_groups = bool(enable_cooperative_groups)
        self.file_path: str | None = None
        self._name_expressions: tuple[str, ...] | None = None
        self._function: Function | None = None
        self._function_epoch: Any = None

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: Any, *more: Any, **kwargs: Any) -> None:
        """Launch; the first call compiles.

        Args:
            grid: blocks, a tuple of up to three numbers.
            block: threads a block, a tuple of up to three numbers.
            args: the kernel's arguments, a tuple.
            shared_mem: bytes of dynamic shared memory a block; more than 48 KiB after setting
                ``max_dynamic_shared_size_bytes``.
            stream: the current one by default.

        Raises ``CompileException``, ``TypeError`` (arguments that do not fit the declaration), ``CUDADriverError``.
        """
        if more:
            error = TypeError(f"RawKernel.__call__() takes 4 positional arguments but {4 + len(more)} were given")
            error.add_note(
                "What <<<grid, block, shared, stream>>> names last goes by name: kernel(grid, block, args, "
                "shared_mem=bytes), and a stream is made the current one: with stream: kernel(grid, block, args)"
            )
            raise error
        self.kernel(grid, block, args, enable_cooperative_groups=self.enable_cooperative_groups, **kwargs)

    def __getitem__(self, configuration: Any) -> None:
        """Numba's way to launch, ``kernel[grid, block](x)``, is none here."""
        error = TypeError(f"{type(self).__name__!r} object is not subscriptable")
        error.add_note("kernel[grid, block](x) is Numba's way to launch; write kernel((blocks,), (threads,), (x,))")
        raise error

    @property
    def kernel(self) -> Function:
        """The compiled and loaded kernel."""
        return self._load(None)

    def _load(self, log_stream: Any) -> Function:
        made_for = epoch(), device().contexts.number
        if self._function is None or self._function_epoch != made_for or log_stream is not None:
            expressions = self._name_expressions
            module = load(self.code, self.file_path, self.options, self.backend, expressions, log_stream)
            self._function = module.get_function(self.name)
            self._function_epoch = made_for
        return self._function

    def compile(self, log_stream: Any = None) -> None:
        """Compile now; ``log_stream`` is a file that the compiler's messages are written to."""
        self._function = None
        self._load(log_stream)

    @property
    def name_expressions(self) -> tuple[str, ...]:
        """Name expressions of its module. CuPy does not give them; ``cudalab.profile`` needs them."""
        return self._name_expressions or ()

    @property
    def attributes(self) -> dict[str, int]:
        """What is known of the compiled kernel, by name."""
        return {name: getattr(self, name) for name in _ATTRIBUTES}

    max_threads_per_block = _attribute(_MAX_THREADS, "Most threads a block; ``__launch_bounds__`` lowers it.")
    shared_size_bytes = _attribute(_SHARED, "Bytes of static shared memory a block.")
    const_size_bytes = _attribute(_CONST, "Bytes of constant memory.")
    local_size_bytes = _attribute(_LOCAL, "Bytes of local memory a thread: local arrays and spilled registers.")
    num_regs = _attribute(_REGISTERS, "Registers a thread.")
    ptx_version = _attribute(_PTX, "Virtual architecture it was compiled for, as 90.")
    binary_version = _attribute(_BINARY, "Architecture it was compiled for, as 90.")
    cache_mode_ca = _attribute(_CACHE_MODE, "Were all loads cached in L1 by option?")
    max_dynamic_shared_size_bytes = _settable(
        driver.MAX_DYNAMIC_SHARED, "Most bytes of dynamic shared memory a launch may ask for; set it for over 48 KiB."
    )
    preferred_shared_memory_carveout = _settable(
        driver.PREFERRED_CARVEOUT, "Preferred part of the L1 for shared memory, percent; -1 leaves it to the driver."
    )

    def __getstate__(self) -> dict[str, Any]:
        names = ("code", "name", "options", "backend", "enable_cooperative_groups", "file_path", "_name_expressions")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self.__name__ = self.name
        self._function = None
        self._function_epoch = None


class RawModule:
    """CUDA C++ with several kernels and variables.

    Args:
        code: CUDA C++; or give ``path``.
        path: a ``.ptx`` file.
        options: compiler options, a tuple.
        backend: ``nvrtc``.
        translate_cucomplex: not simulated when True.
        enable_cooperative_groups: as for :class:`RawKernel`.
        name_expressions: C++ names of template instances, as ``['scale<float>', 'scale<int>']``.
        jitify: deprecated in CuPy; not simulated when True.
    """

    __slots__ = (
        "__weakref__",
        "backend",
        "code",
        "enable_cooperative_groups",
        "file_path",
        "name_expressions",
        "options",
    )

    def __init__(
        self,
        *,
        code: str | None = None,
        path: str | None = None,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Any = None,
        jitify: Any = None,
    ) -> None:
        if (code is None) == (path is None):
            raise TypeError("Exactly one of `code` and `path` keyword arguments must be given.")
        _check("options", options, tuple)
        if code is not None:
            _check("code", code, str)
        elif name_expressions is not None:
            raise ValueError("need CUDA C++ code for the requested kernels")
        _refuse(translate_cucomplex, jitify)
        self.code = code
        self.file_path = path
        self.options = options if code is not None else ()
        self.backend = backend
        self.enable_cooperative_groups = bool(enable_cooperative_groups)
        self.name_expressions = None if name_expressions is None else tuple(name_expressions)

    @property
    def module(self) -> Module:
        """The compiled and loaded module."""
        return load(self.code, self.file_path, self.options, self.backend, self.name_expressions)

    def compile(self, log_stream: Any = None) -> None:
        """Compile now; ``log_stream`` is a file that the compiler's messages are written to."""
        load(self.code, self.file_path, self.options, self.backend, self.name_expressions, log_stream)

    def get_function(self, name: str) -> RawKernel:
        """The kernel ``name``: an ``extern "C"`` name, or one of the name expressions."""
        _check("name", name, str)
        lowered = (self.module.mapping or {}).get(name, name)
        kernel = RawKernel(
            self.code,  # type: ignore[arg-type]
            lowered,
            self.options,
            self.backend,
            enable_cooperative_groups=self.enable_cooperative_groups,
        )
        kernel.file_path = self.file_path
        kernel._name_expressions = self.name_expressions
        _ = kernel.kernel  # a wrong name is an error here
        return kernel

    def get_global(self, name: str) -> MemoryPointer:
        """Where the ``__device__`` or ``__constant__`` variable ``name`` lies; ``cp.ndarray(shape, dtype, pointer)``
        makes an array of it."""
        module = self.module
        return MemoryPointer(UnownedMemory(module.get_global_var(name), 0, module, 0), 0)


def _refuse(translate_cucomplex: bool, jitify: Any) -> None:
    if translate_cucomplex:
        raise NotImplementedError(
            "translate_cucomplex=True is not simulated: include <cuComplex.h> and use its functions."
        )
    if jitify:
        raise NotImplementedError("jitify=True is not simulated: CUDA's own headers are found without it.")
