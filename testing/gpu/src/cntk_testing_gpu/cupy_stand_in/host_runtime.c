/* Runs the threads of CUDA blocks one after the other on the host: each thread of a block that has barriers is a fiber,
   which gives way to the next at a barrier. Blocks run in order. */

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
static int started[MOST], finished[MOST], current;
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

static void run(void)
{
    body(given);
    finished[current] = 1;
    _longjmp(home, 1);
}

static void resume(int index)
{
    current = index;
    place(index);
    if (_setjmp(home) == 0) {
        if (started[index])
            _longjmp(places[index], 1);
        started[index] = 1;
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

void __syncthreads(void)
{
    if (_setjmp(places[current]) == 0)
        _longjmp(home, 1);
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
                    started[index] = finished[index] = 0;
                for (left = count; left;) {
                    done = 0;
                    for (index = 0; index < count; index++) {
                        if (!finished[index])
                            resume(index);
                        done += finished[index];
                    }
                    if (done && done < count)
                        return 1;
                    left = count - done;
                }
            }
    return 0;
}
