"""Local arrays and device heap: read before written, leaked, or reached when they are gone; and read-only loads of what
the kernel writes."""

from __future__ import annotations

from tests.planted.planted import Planted, f32, i32, kernel

READ = ("uninitialised read",)
LEAK = ("memory leak",)
DANGLING = ("pointer to a local",)
READ_ONLY = ("read-only load",)

BUGS = (
    Planted(
        "private_histogram_not_zeroed",
        "initcheck",
        READ,
        kernel(
            "const int* x, int* y, int n",
            """    int bins[16]{{|| = { 0 } }};
    for (int k = 0; k < n; k++) bins[x[threadIdx.x * n + k]]++;  // HERE
    for (int b = 0; b < 16; b++) y[threadIdx.x * 16 + b] = bins[b];  // HERE""",
        ),
        (1,),
        (32,),
        (i32(32 * 7), i32(32 * 16, "zero"), 7),
    ),
    Planted(
        "private_list_read_past_what_was_put_in",
        "initcheck",
        READ,
        kernel(
            "const int* x, int* y, int n",
            """    int kept[32], count = 0;
    for (int k = 0; k < n; k++)
        if (x[k] > 7) kept[count++] = k;
    int sum = 0;
    for (int k = 0; k < {{n||count}}; k++) sum += kept[k];  // HERE
    y[threadIdx.x] = sum;  // HERE""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero"), 32),
    ),
    Planted(
        "private_stack_popped_one_too_far",
        "initcheck",
        READ,
        kernel(
            "const int* x, int* y, int n",
            """    int stack[40], top = 0;
    for (int k = 0; k < n; k++) stack[top++] = x[k] + threadIdx.x;
    int sum = 0;
    while (top > 0) { sum += stack[{{top--||--top}}]; }  // HERE
    y[threadIdx.x] = sum;  // HERE""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero"), 20),
    ),
    Planted(
        "ring_buffer_read_in_its_first_lap",
        "initcheck",
        READ,
        kernel(
            "const float* x, float* y, int n, int lag",
            """    float ring[8];
    for (int k = 0; k < n; k++) {
        float old = {{ring[(k - lag) & 7]||k < lag ? 0 : ring[(k - lag) & 7]}};  // HERE
        ring[k & 7] = x[k] + threadIdx.x;
        y[threadIdx.x * n + k] = x[k] - old;  // HERE
    }""",
        ),
        (1,),
        (32,),
        (f32(24), f32(32 * 24, "zero"), 24, 3),
    ),
    Planted(
        "heap_array_taken_for_zeros",
        "initcheck",
        READ,
        kernel(
            "const int* x, int* y",
            """    int* bins = (int*)malloc(16 * sizeof(int));
    if (!bins) return;
    for (int b = 0; b < 16; b++) {{y[threadIdx.x * 16 + b]||bins[b]}} = 0;
    for (int k = 0; k < 8; k++) bins[x[threadIdx.x * 8 + k]]++;  // HERE
    for (int b = 0; b < 16; b++) y[threadIdx.x * 16 + b] = bins[b];  // HERE
    free(bins);""",
        ),
        (1,),
        (32,),
        (i32(32 * 8), i32(32 * 16, "zero")),
    ),
    Planted(
        "block's_heap_array_half_filled",
        "initcheck",
        READ,
        kernel(
            "const float* x, float* y",
            """    __shared__ float* t;
    if (threadIdx.x == 0) t = (float*)malloc(64 * sizeof(float));
    __syncthreads();
    if (!t) return;
    if (threadIdx.x < {{32||64}}) t[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = t[63 - threadIdx.x];  // HERE
    __syncthreads();
    if (threadIdx.x == 0) free(t);""",
        ),
        (2,),
        (64,),
        (f32(64), f32(128, "zero")),
    ),
    Planted(
        "link_of_the_last_node_not_set",
        "initcheck",
        READ,
        kernel(
            "const int* x, int* y",
            """    Node* head = new Node;
    if (!head) return;
    head->value = x[threadIdx.x];
    {{||head->next = nullptr;}}
    int sum = 0;
    for (volatile Node* at = head; at; at = at->next) sum += at->value;  // HERE
    y[threadIdx.x] = sum;
    delete head;""",
            "struct Node { int value; Node* next; };\n",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero")),
    ),
    Planted(
        "heap_memory_of_each_thread_never_freed",
        "memcheck",
        LEAK,
        kernel(
            "const int* x, int* y, int n",
            """    int* copy = (int*)malloc(n * sizeof(int));  // HERE
    if (!copy) return;
    for (int k = 0; k < n; k++) copy[(k + threadIdx.x) % n] = x[k];
    y[threadIdx.x] = copy[0];
    {{||free(copy);}}""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero"), 32),
    ),
    Planted(
        "return_before_the_free",
        "memcheck",
        LEAK,
        kernel(
            "const int* x, int* y, int n",
            """    int* copy = (int*)malloc(n * sizeof(int));  // HERE
    if (!copy) return;
    for (int k = 0; k < n; k++) copy[(k + threadIdx.x) % n] = x[k];
    if (copy[0] > 12) { y[threadIdx.x] = -1; {{||free(copy); }}return; }
    y[threadIdx.x] = copy[0];
    free(copy);""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero"), 32),
    ),
    Planted(
        "grown_array_whose_old_copy_stays",
        "memcheck",
        LEAK,
        kernel(
            "const int* x, int* y, int n",
            """    int room = 4, *list = new int[room];  // HERE
    for (int k = 0; k < n; k++) {
        if (k == room) {
            int* larger = new int[2 * room];  // HERE
            for (int j = 0; j < room; j++) larger[j] = list[j];
            {{||delete[] list;}}
            list = larger, room *= 2;
        }
        list[k] = x[k] + threadIdx.x;
    }
    int sum = 0;
    for (int k = 0; k < n; k++) sum += list[k] * k;
    y[threadIdx.x] = sum;
    delete[] list;""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero"), 20),
    ),
    Planted(
        "address_of_a_local_in_shared_memory",
        "memcheck",
        DANGLING,
        kernel(
            "const int* x, int* y, int n",
            """    __shared__ int* box;
    {{||__shared__}} int values[8];
    if (threadIdx.x == 0) {
        for (int k = 0; k < 8; k++) values[k] = x[k];
        box = values;
    }
    __syncthreads();
    y[threadIdx.x] = box[threadIdx.x % n];  // HERE""",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero"), 8),
    ),
    Planted(
        "node_on_the_stack_in_a_list_of_the_block",
        "memcheck",
        DANGLING,
        kernel(
            "const int* x, int* y, Node** heads, int n",
            """    __shared__ Node kept[32];
    Node {{own||&own = kept[threadIdx.x]}};
    own.value = x[threadIdx.x], own.other = threadIdx.x;
    heads[threadIdx.x] = &own;
    __syncthreads();
    Node* neighbour = heads[(threadIdx.x + 1) % n];  // HERE
    y[threadIdx.x] = neighbour->value + own.other;  // HERE""",
            "struct Node { volatile int value; volatile int other; };\n",
        ),
        (1,),
        (32,),
        (i32(32), i32(32, "zero"), i32(64, "zero"), 32),
    ),
    Planted(
        "read_only_load_of_a_neighbour_just_written",
        "racecheck",
        READ_ONLY,
        kernel(
            "const float* x, float* y",
            """    int i = threadIdx.x;
    y[i] = 2 * x[i];
    __syncthreads();
    float right = {{__ldg(&y[(i + 1) % 64])||y[(i + 1) % 64]}};  // HERE
    __syncthreads();
    y[i] += right;""",
        ),
        (1,),
        (64,),
        (f32(64), f32(64, "zero")),
    ),
    Planted(
        "time_steps_through_the_read_only_cache",
        "racecheck",
        READ_ONLY,
        kernel(
            "float* a, float* b, int steps",
            """    int i = threadIdx.x;
    for (int s = 0; s < steps; s++) {
        const float* from = s % 2 ? b : a;
        float* to = s % 2 ? a : b;
        int left = (i + 63) % 64, right = (i + 1) % 64;
        to[i] = 0.5f * ({{__ldg(from + left) + __ldg(from + right)||from[left] + from[right]}});  // HERE
        __syncthreads();
    }""",
        ),
        (1,),
        (64,),
        (f32(64), f32(64, "zero"), 4),
    ),
)
