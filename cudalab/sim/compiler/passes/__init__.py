"""Analyses and transformations of a PTX module that run before code generation, one pass per module.

The passes in the order in which they run. ``codegen.analysis`` runs the passes over functions (``ModulePlan._plan``),
which fill in ``codegen.plan.Plan``; ``build`` runs those that fill in ``program.Kernel``. K: kernels only. ``clocks``,
``longest_path``, ``loop_work`` and ``timed_code`` are in the folder ``timing``.

======================  ===========================  ===================================================================
pass                    takes                        gives
======================  ===========================  ===================================================================
``lowering.refusal``    module                       module without kernels on tensor cores; why each is refused
``inlining``         K  function, call graph         function in which calls of functions that wait are their bodies
``stack``               function                     function with its stack pointer in a register, where it moves
``contraction``         function                     function whose products and sums are ``fma`` where ptxas fuses
``control_flow``        function                     basic blocks; guards are branches, suspension points end blocks
``polling``          K  blocks                       a suspension point in each loop that waits for memory to change
``races``            K  blocks                       a suspension point before stores that may lose others' updates
``clocks``           K  blocks                       the time of each value, in kernels that read a clock
``rematerialisation``   blocks                       literals, and values that are recomputed instead of kept
``liveness``            blocks, recomputed values    the registers that are live where, and the exposed ones
``pointer_roots``       blocks, variables            the allocation that each pointer belongs to, and its alignment
``not_a_number``        blocks                       floats whose NaN would have the host's bits
``regions``          K  blocks, liveness             suspension points; the code between two; each thread's frame
``races``            K  regions                      those that read shared memory which no barrier has ordered
``accesses``            blocks, roots                accesses, what each is checked against, groups checked together
``async_copies``        blocks, roots                the two ends of each asynchronous copy
``compare_and_swap``    blocks                       loads whose value a compare-and-swap compares with
``codegen.analysis``    blocks, accesses, points     sites: what records of the trace and faults name
``elided_records``      sites, groups                the sites whose records are elided (in ``codegen``)
``flushing``            module                       whether the processor's mode for subnormals serves all of it
``longest_path``     K  blocks                       ``Kernel.longest_path``
``loop_work``        K  blocks, back-edges           instructions that back-edges count; ``Kernel.rounds``
``data_dependence``  K  blocks                       ``Kernel.steady``
``timed_code``       K  blocks, instruction_classes  ``Kernel.timed``, what the time model executes
``undefined_values``  K  blocks, accesses, liveness   what undefined values can reach, for sanitized code
``divergence``          blocks of a region           the places at which lanes part, for wide code
======================  ===========================  ===================================================================

Shared helpers: ``operands`` (registers read and written by an instruction), ``suspension`` (instructions that wait for
other threads), ``instruction_classes`` (the SM pipe an instruction issues to), ``thread_dependence`` (which threads may
have the same value) and ``semantics``, one folder up (the meaning of an opcode).
"""
