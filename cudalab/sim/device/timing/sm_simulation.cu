// One SM of the modelled device: resident warps issue the machine code of a kernel until all blocks of the SM have
// ended. Times are in cycles. sm_simulation.py says what is modelled, and fills these structures (its _INSTRUCTION,
// _STEP, _SETTING and _RESULT have the same layout).

const int PIPES = 11, SCOREBOARDS = 6, SCHEDULERS = 4, MOST_WARPS = 64, MOST_NESTED = 8, MOST_STEPS = 512;
const int GROUPS = 8;  // of asynchronous copies that are remembered
const double NEVER = 1e300;

enum Kind { PLAIN, MEMORY, BARRIER, COPY, COMMIT, AWAIT_COPIES };
enum StepKind { RUN, LOOP, END_LOOP, END };

struct Instruction {
    int pipe, stall, write_barrier, read_barrier, waits, kind;
    int left, unused;  // AWAIT_COPIES: groups that may still be under way
    double occupancy;  // of the pipe, which each scheduler has
    double latency;    // until the result is there
    double unit;       // of the load/store unit, which the schedulers share
    double read;       // until the operands have been read
    double port;       // of the SM's port to the L2, by which all comes in,
    double out;        // and of its way out, for what is stored
    double slot;       // of its scheduler, which issues nothing else meanwhile
    double missing;    // share of its executions that miss the L1,
    double missed;     // whose results come so much later
    double atomic;     // of this SM's part of the units for atomics on global memory
};

struct Step {
    int kind;
    int first;     // RUN: index of the first instruction; LOOP: of the step that ends it; END_LOOP: of the one that begins it
    int count;     // RUN: instructions
    int unused;
    double times;  // RUN: share of the visits in which it runs; LOOP: iterations
};

struct Setting {
    int warps, resident, blocks, most_issues;
    int others, unused;  // index of the step at which all warps of a block but the first begin
    double branch, barrier, arrival, dispatch, launch;
};

struct Result {
    double cycles;             // until the last instruction has completed
    double middle;             // when half of most_issues had issued
    long long issued, at_middle;
    int ended;                 // blocks
    int complete;              // 0: most_issues were reached before
    double unit;               // cycles that the load/store unit was busy
    double port;               // cycles that the port to the L2 was busy
    double arrivals;           // cycles that the barrier unit was busy
    double pipes[PIPES];       // busy cycles of the pipes, over all schedulers
};

struct Warp {
    int block, instruction, left, step, depth, state;
    int groups, loads;                // committed groups of copies; loads so far
    double next;                      // the earliest cycle of the next issue, as far as the control field says
    double stored;                    // when its last store has arrived
    double copied;                    // when all copies of this group and of those before it have
    double arrived[GROUPS];           // the same of committed groups, by their number modulo GROUPS
    double ready[SCOREBOARDS];        // when each scoreboard is free
    double iterations[MOST_NESTED];   // left, of the loops that it is in
};

enum State { RUNNING, AT_BARRIER, ENDED };

struct Machine {
    double pipe_free[SCHEDULERS * PIPES];
    double slot_free[SCHEDULERS];
    double earliest[SCHEDULERS];         // cycle of the next issue
    int chosen[SCHEDULERS];              // the warp that issues then, -1: none
    bool stale[SCHEDULERS];              // whether that must be found again
    double ready[MOST_WARPS];            // when each warp could issue if it were alone, NEVER: it waits or has ended
    int pipe[MOST_WARPS];                // of its next instruction
    int age[MOST_WARPS];                 // the number of its block among those that have begun
    int begun;
    int arrived[MOST_WARPS], live[MOST_WARPS];  // warps of each resident block
    double arrival[MOST_WARPS];          // when the barrier unit has taken the last one
    int waiting[MOST_WARPS];             // warps to be brought to their next instruction
    int waiters;
    double unit_free, port_free, barrier_free, out_free, atomic_free;
    double started;                      // when the last warp of the last block began
};

// Bring a warp to its next instruction.
__device__ void advance(Warp &w, const Step *steps, float *shares, double branch) {
    for (;;) {
        const Step &s = steps[++w.step];
        float &share = shares[w.step];
        if (s.kind == END) {
            w.state = ENDED;
            return;
        }
        if (s.kind == RUN) {
            share += (float)s.times;
            if (share < 0.9999f) continue;
            share -= 1.0f;
            if (s.first != w.instruction) w.next += branch;  // what stands between was jumped over
            w.instruction = s.first;
            w.left = s.count;
            return;
        }
        if (s.kind == LOOP) {
            double whole = floor(s.times);
            share += (float)(s.times - whole);
            if (share >= 1.0f) {
                share -= 1.0f;
                whole += 1.0;
            }
            if (whole < 1.0)
                w.step = s.first;
            else
                w.iterations[w.depth++] = whole;
        } else if (--w.iterations[w.depth - 1] >= 1.0) {
            w.step = s.first;
        } else {
            w.depth--;
        }
    }
}

// Note when a warp could issue if it were alone.
__device__ void settle(Machine &m, const Warp &w, const Instruction *code, int index) {
    double ready = NEVER;
    if (w.state == RUNNING) {
        const Instruction &i = code[w.instruction];
        ready = w.next;
#pragma unroll 1
        for (int waits = i.waits; waits; waits &= waits - 1) ready = fmax(ready, w.ready[__ffs(waits) - 1]);
        if (i.kind == AWAIT_COPIES && w.groups > i.left && i.left < GROUPS)
            ready = fmax(ready, w.arrived[(w.groups - 1 - i.left) % GROUPS]);
        m.pipe[index] = i.pipe;
    }
    m.ready[index] = ready;
    m.stale[index % SCHEDULERS] = true;
}

// Find the warp of a scheduler that can issue first; of several one of the oldest block,
// of these the one that has been ready for longest.
__device__ void choose(Machine &m, int scheduler, int count) {
    double best = NEVER, since = NEVER;
    int oldest = 0;
    int chosen = -1;
    const double slot = m.slot_free[scheduler];
    const double *pipe_free = m.pipe_free + scheduler * PIPES;
#pragma unroll 1
    for (int index = scheduler; index < count; index += SCHEDULERS) {
        const double ready = m.ready[index];
        if (ready > best || ready == NEVER) continue;
        const double t = fmax(fmax(ready, slot), pipe_free[m.pipe[index]]);
        if (t < best || t == best && (m.age[index] < oldest || m.age[index] == oldest && ready < since)) {
            best = t;
            since = ready;
            oldest = m.age[index];
            chosen = index;
        }
    }
    m.earliest[scheduler] = best;
    m.chosen[scheduler] = chosen;
    m.stale[scheduler] = false;
}

// Let the warps of a new block begin, one after the other, in the slot of one that has ended. An SM gets a block only
// so often.
__device__ void start_block(Machine &m, Warp *warps, int slot, int of_block, const Setting *setting, double free) {
    double when = fmax(free, m.started);
    m.started = when + fmax(setting->dispatch, of_block * setting->launch);
#pragma unroll 1
    for (int index = slot * of_block; index < (slot + 1) * of_block; ++index) {
        Warp &w = warps[index];
        w.block = slot;
        w.step = index == slot * of_block ? -1 : setting->others - 1;
        w.instruction = 0;
        w.depth = 0;
        w.state = RUNNING;
        w.groups = 0;
        w.loads = index << 16;
        w.next = w.stored = w.copied = when;
#pragma unroll 1
        for (int board = 0; board < SCOREBOARDS; ++board) w.ready[board] = when;
        when += setting->launch;
        m.age[index] = m.begun;
        m.waiting[m.waiters++] = index;
    }
    m.begun++;
    m.arrived[slot] = 0;
    m.live[slot] = of_block;
}

// When everything that the warps of an ended block started has completed, their stores among it.
__device__ double end_of_block(const Warp *warps, int slot, int of_block) {
    double end = 0.0;
#pragma unroll 1
    for (int index = slot * of_block; index < (slot + 1) * of_block; ++index) {
        end = fmax(end, fmax(warps[index].next, warps[index].stored));
#pragma unroll 1
        for (int board = 0; board < SCOREBOARDS; ++board) end = fmax(end, warps[index].ready[board]);
    }
    return end;
}

__device__ void release_barrier(Machine &m, Warp *warps, const Instruction *code, int slot, int of_block,
                                double latency) {
#pragma unroll 1
    for (int index = slot * of_block; index < (slot + 1) * of_block; ++index)
        if (warps[index].state == AT_BARRIER) {
            warps[index].state = RUNNING;
            warps[index].next = fmax(warps[index].next, m.arrival[slot] + latency);
            settle(m, warps[index], code, index);
        }
    m.arrived[slot] = 0;
}

// A number between 0 and 1 for each load of a warp, as if by chance, and the same in each simulation.
__device__ double chance(Warp &w) {
    unsigned x = (unsigned)w.loads++ * 0x9E3779B1u;
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return (x ^ x >> 16) * 0x1p-32;
}

// Issue the next instruction of a warp in cycle t.
__device__ void issue(Machine &m, Warp &w, const Instruction &i, int scheduler, double t, double arrival, Result &r) {
    m.slot_free[scheduler] = t + i.slot;
    m.pipe_free[scheduler * PIPES + i.pipe] = t + i.occupancy;
    r.pipes[i.pipe] += i.occupancy;
    w.next = t + i.stall + i.slot - 1.0;
    double begin = t;
    if (i.kind == MEMORY || i.kind == COPY) {
        begin = fmax(t, m.unit_free);
        m.unit_free = begin + i.unit;
        m.pipe_free[scheduler * PIPES + i.pipe] = fmax(t + i.occupancy, m.unit_free);
        r.unit += i.unit;
    }
    if (i.read_barrier >= 0) w.ready[i.read_barrier] = fmax(w.ready[i.read_barrier], begin + i.read);
    if (i.port > 0.0) {
        begin = fmax(begin, m.port_free);
        m.port_free = begin + i.port;
        r.port += i.port;
        begin = m.port_free;
    }
    if (i.out > 0.0) begin = m.out_free = fmax(begin, m.out_free) + i.out;
    if (i.atomic > 0.0) begin = m.atomic_free = fmax(begin, m.atomic_free) + i.atomic;
    double latency = i.latency;
    if (i.missing > 0.0 && chance(w) < i.missing) latency += i.missed;
    if (i.write_barrier >= 0 && i.kind != COMMIT)
        w.ready[i.write_barrier] = fmax(w.ready[i.write_barrier], begin + latency);
    if (i.kind == COPY) w.copied = fmax(w.copied, begin + latency);
    if (i.kind == COMMIT) w.arrived[w.groups++ % GROUPS] = w.copied;
    if (i.kind == MEMORY || i.kind == COPY) w.stored = fmax(w.stored, begin + latency);
    r.cycles = fmax(r.cycles, begin + latency);
    if (i.kind == BARRIER) {
        m.barrier_free = fmax(t, m.barrier_free) + arrival;
        r.arrivals += arrival;
        m.arrival[w.block] = m.barrier_free;
        w.state = AT_BARRIER;
        m.arrived[w.block]++;
    }
    w.instruction++;
    w.left--;
}

extern "C" __global__ void simulate_sm(const Instruction *code, const Step *steps, const Setting *setting,
                                       Warp *warps, float *shares, Result *result) {
    Machine m;
    m.unit_free = m.port_free = m.barrier_free = m.out_free = m.atomic_free = 0.0;
    m.waiters = m.begun = 0;
    m.started = 0.0;
    const int of_block = setting->warps;
    int started = min(setting->resident, setting->blocks);
    const int count = started * of_block;
#pragma unroll 1
    for (int s = 0; s < SCHEDULERS; ++s) {
        m.slot_free[s] = 0.0;
        m.stale[s] = true;
#pragma unroll 1
        for (int p = 0; p < PIPES; ++p) m.pipe_free[s * PIPES + p] = 0.0;
    }
#pragma unroll 1
    for (int slot = 0; slot < started; ++slot) start_block(m, warps, slot, of_block, setting, 0.0);
    long long issued = 0;
    for (;;) {
#pragma unroll 1
        while (m.waiters) {
            int index = m.waiting[--m.waiters];
            Warp &w = warps[index];
            advance(w, steps, shares + index * MOST_STEPS, setting->branch);
            settle(m, w, code, index);
            if (w.state == ENDED && --m.live[w.block] == 0) {
                result->ended++;
                if (started < setting->blocks) {
                    ++started;
                    double free = end_of_block(warps, w.block, of_block);
                    start_block(m, warps, w.block, of_block, setting, free);
                }
            }
            if (m.arrived[w.block] && m.arrived[w.block] == m.live[w.block])
                release_barrier(m, warps, code, w.block, of_block, setting->barrier);
        }
        int s = 0;
#pragma unroll 1
        for (int other = 0; other < SCHEDULERS; ++other) {
            if (m.stale[other]) choose(m, other, count);
            if (m.earliest[other] < m.earliest[s]) s = other;
        }
        const int index = m.chosen[s];
        if (index < 0) break;
        Warp &w = warps[index];
        const double t = m.earliest[s];
        issue(m, w, code[w.instruction], s, t, setting->arrival, *result);
        if (w.left == 0) m.waiting[m.waiters++] = index;
        else settle(m, w, code, index);
        if (w.left > 0 && w.state == AT_BARRIER && m.arrived[w.block] == m.live[w.block])
            release_barrier(m, warps, code, w.block, of_block, setting->barrier);
        if (++issued == setting->most_issues / 2) {
            result->middle = t;
            result->at_middle = issued;
        }
        if (issued >= setting->most_issues) {
            result->cycles = t;
            result->issued = issued;
            return;
        }
    }
    result->issued = issued;
    result->complete = 1;
}
