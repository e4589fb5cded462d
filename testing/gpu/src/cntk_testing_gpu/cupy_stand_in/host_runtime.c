/* Runs the threads of CUDA blocks one after the other on the host: each thread of a block that has barriers is a fiber,
   which gives way to the next at a barrier. Blocks run in order. Fibers last from launch to launch, and change by
   _longjmp: what begins or leaves a context of its own asks the system twice. */

#undef _FORTIFY_SOURCE /* its longjmp takes another stack for a broken one */
#include <setjmp.h>
#include <stdlib.h>
#include <ucontext.h>

typedef struct { unsigned x, y, z; } dim3;
typedef void (*Thread)(void **);

dim3 threadIdx, blockIdx, blockDim, gridDim;

#define STACK (96 * 1024)
#define MOST 1024

static jmp_buf places[MOST], home;
static char *stacks[MOST];
static int begun[MOST], finished[MOST], current;
static ucontext_t fresh[MOST], back;
static Thread body;
static void **given;
static unsigned long long exchanged[MOST];

static void place(int index)
{
    threadIdx.x = index % blockDim.x;
    threadIdx.y = index / blockDim.x % blockDim.y;
    threadIdx.z = index / blockDim.x / blockDim.y;
}

void __syncthreads(void)
{
    if (_setjmp(places[current]) == 0)
        _longjmp(home, 1);
}

static void run(void)
{
    for (;;) {
        body(given);
        finished[current] = 1;
        __syncthreads(); /* until there is a next block */
    }
}

static void resume(int index)
{
    current = index;
    place(index);
    if (_setjmp(home) == 0) {
        if (begun[index])
            _longjmp(places[index], 1);
        begun[index] = 1;
        getcontext(&fresh[index]);
        if (!stacks[index])
            stacks[index] = malloc(STACK);
        fresh[index].uc_stack.ss_sp = stacks[index];
        fresh[index].uc_stack.ss_size = STACK;
        fresh[index].uc_link = &back;
        makecontext(&fresh[index], run, 0);
        setcontext(&fresh[index]);
    }
}

unsigned long long host_exchange(unsigned long long mine, int lane)
{
    int warp = current / 32 * 32;
    unsigned long long found;
    exchanged[current] = mine;
    __syncthreads();
    found = exchanged[lane < 0 || lane > 31 ? current : warp + lane];
    __syncthreads();
    return found;
}

int host_lane(void) { return current % 32; }

/* Returns 1 if some threads of a block had finished while others waited at a barrier. */
int host_launch(Thread thread, void **arguments, const unsigned *grid, const unsigned *block, int barriers)
{
    int count = block[0] * block[1] * block[2], index, left, done;
    gridDim.x = grid[0], gridDim.y = grid[1], gridDim.z = grid[2];
    blockDim.x = block[0], blockDim.y = block[1], blockDim.z = block[2];
    body = thread, given = arguments;
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
                if (!barriers) {
                    for (index = 0; index < count; index++) {
                        place(index);
                        thread(arguments);
                    }
                    continue;
                }
                for (index = 0; index < count; index++)
                    finished[index] = 0;
                for (left = count; left;) {
                    done = 0;
                    for (index = 0; index < count; index++) {
                        if (!finished[index])
                            resume(index);
                        done += finished[index];
                    }
                    if (done && done < count) {
                        for (index = 0; index < count; index++)
                            begun[index] = finished[index]; /* the others stay where they are for good */
                        return 1;
                    }
                    left = count - done;
                }
            }
    return 0;
}
