// Runs the threads of a launch, one at a time on one thread of the host, in an order that a seed decides. A thread runs
// until it waits for others or asks what they have left in memory; so whatever a kernel leaves to chance between two
// barriers is left to chance here. What a device would do wrong in silence is an error, in words that name the thread.
#include "machine.hpp"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

template <class T> static T& append(List<T>& list, const T& item) {
  if (list.count == list.room) {
    list.room = list.room ? 2 * list.room : 8;
    list.items = (T*)realloc((void*)list.items, list.room * sizeof(T));
  }
  return list.items[list.count++] = item;
}
template <class T> static T take(List<T>& list, u32 k) {  // in any order
  const T item = list.items[k];
  list.items[k] = list.items[--list.count];
  return item;
}

// --- What there is in a launch ---------------------------------------------------------------------------------------

// A copy of a thread, on its way from device memory to shared memory.
struct Copy {
  u8* to;
  const u8* from;
  u32 bytes, taken, group;
};

enum : u32 { NOT, LANES, THREADS, CLUSTER, OVER };

// Of each lane: what it brought to the meeting that it waits at.
struct Warp {
  Thread* lanes[32];
  u64 values[32][5];
  u32 masks[32], numbers[32], kinds[32];
};

struct Sync { u32 arrived, threads; };

struct Cluster {
  Block* blocks;
  u32 count, arrived, phase, ended, threads;
};

struct Block {
  Cluster* cluster;
  Index index;
  u32 rank, ended, in_flight, threads;
  u8* shared;  // its first byte is at SHARED_BEGINS
  u8* memory;  // of the threads
  Sync syncs[16];
  Warp* warps;
};

// On its way to shared memory, and counted there.
struct Delivery {
  Block* block;
  u8* to;
  u32 bytes, barrier;
  const u8* from;
  u64 value[2];
};

constexpr u32 TOGETHER = 2048;        // threads of blocks that need not, but may run side by side
constexpr u64 FOR_EVER = 20'000'000;  // turns of threads that only ask
constexpr u32 FUEL = 1u << 16;        // branches back, until others have a turn
constexpr time_t LONGEST = 300;      // seconds that a launch may take

static struct State {
  sigjmp_buf home;
  char* message;
  u32 message_bytes;
  u64 random, turns_without_progress, turns;
  time_t began;
  u32 order;  // 0: any thread that is ready; 1: often the one made ready last; 2: often the one ready longest
  Thread* running;
  List<Thread*> ready, asleep;
  List<Delivery> deliveries;
  List<Cluster*> clusters, free_clusters;
  List<void*> owned;
  u32 threads_at_work;
} state;

const Launch* launch;
Span last_span;

static u64 random_below(u64 limit) {
  u64& r = state.random;
  r ^= r >> 12, r ^= r << 25, r ^= r >> 27;
  return (r * 0x2545f4914f6cdd1dull >> 32) % limit;
}

void fail(const char* format, ...) {
  char* to = state.message;
  char* end = to + state.message_bytes;
  const Thread* t = state.running;
  if (t) {
    const Index b = t->block->index, i = t->index;
    to += snprintf(to, end - to, "block (%u, %u, %u), thread (%u, %u, %u), #%u: ", b.x, b.y, b.z, i.x, i.y, i.z,
                   t->statement);
  }
  va_list words;
  va_start(words, format);
  vsnprintf(to, end - to, format, words);
  va_end(words);
  siglongjmp(state.home, 1);
}

static void* own(u64 bytes) {
  void* made = nullptr;
  if (posix_memalign(&made, 128, bytes + 128)) fail("no memory for %llu bytes", bytes);
  memset(made, 0, bytes);
  return append(state.owned, made);
}

static void progress() { state.turns_without_progress = 0; }

static void wake(Thread* thread) {
  thread->waits = NOT;
  append(state.ready, thread);
}

static bool wait_for_others(Thread& t, u32 why, u32 at = 0) {
  t.waits = why;
  t.waits_at = at;
  return true;
}

bool ask_later(Thread& t) {
  if (random_below(4) == 0) return false;
  append(state.asleep, &t);
  return true;
}
bool pause(Thread& t) {
  if (random_below(4)) return false;
  append(state.ready, &t);
  return true;
}

// --- Where a thread is -----------------------------------------------------------------------------------------------

Index block_index(const Thread& t) { return t.block->index; }
Index cluster_index(const Thread& t) {
  const Index b = t.block->index;
  return {b.x / launch->cluster[0], b.y / launch->cluster[1], b.z / launch->cluster[2]};
}
u32 rank_in_cluster(const Thread& t) { return t.block->rank; }

void find_span(u64 address, u32 bytes, bool writes) {
  if (launch->dependent && !state.running->goes_on) fail("uses memory before it waits for the launches before it");
  if (!launch->checks_spans) return;
  const Span* nearest = nullptr;
  u64 distance = ~0ull;
  for (u32 k = 0; k < launch->span_count; ++k) {
    const Span& span = launch->spans[k];
    if (address >= span.from && bytes <= span.bytes && address - span.from <= span.bytes - bytes) {
      if (writes && !span.written) fail("writes memory that is only to be read");
      last_span = span;
      return;
    }
    const u64 away = address < span.from ? span.from - address : address - span.from;
    if (away < distance) distance = away, nearest = &span;
  }
  if (nearest == nullptr) fail("%s memory at 0x%llx, and was given none", writes ? "writes" : "reads", address);
  fail("%s %u bytes, %lld bytes from the start of %llu that it was given", writes ? "writes" : "reads", bytes,
       (s64)(address - nearest->from), nearest->bytes);
}

// The block that an address is in, and a place of so many bytes there.
u8* shared_place(Thread& t, u32 address, u32 bytes, Block** found) {
  Block* block = t.block;
  const u32 place = address & ADDRESS, rank = address >> 24;
  if (rank) {
    Cluster& cluster = *block->cluster;
    if (rank > cluster.count) fail("there is no block %u in a cluster of %u", rank - 1, cluster.count);
    block = &cluster.blocks[rank - 1];
    if (block != t.block && t.cluster_phase / 2 == 0) {
      fail("to another block's shared memory before it is known to have started, by the cluster's barrier");
    }
    if (block->ended == block->threads) fail("to the shared memory of a block that has ended");
  }
  if (found) *found = block;
  if (place < SHARED_BEGINS || place + bytes > launch->shared_end) {
    fail("%u bytes at 0x%x of shared memory, which a block has from 0x%x to 0x%x", bytes, place, SHARED_BEGINS,
         launch->shared_end);
  }
  return block->shared + (place - SHARED_BEGINS);
}

#include "meetings.hpp"

#include "copies.hpp"

// --- The launch ------------------------------------------------------------------------------------------------------

static Cluster* new_cluster(u32 count) {
  if (state.free_clusters.count) return take(state.free_clusters, state.free_clusters.count - 1);
  Cluster* cluster = (Cluster*)own(sizeof(Cluster));
  cluster->blocks = (Block*)own(count * sizeof(Block));
  const u32 threads = launch->block[0] * launch->block[1] * launch->block[2];
  for (u32 b = 0; b < count; ++b) {
    Block& block = cluster->blocks[b];
    block.shared = (u8*)own(launch->shared_end - SHARED_BEGINS);
    block.memory = (u8*)own((u64)threads * (launch->thread_bytes + launch->local_bytes));
    block.warps = (Warp*)own((threads + 31) / 32 * sizeof(Warp));
  }
  return cluster;
}

static void start(u64 number) {
  const u32 *size = launch->cluster, *grid = launch->grid, *shape = launch->block;
  const u32 count = size[0] * size[1] * size[2], threads = shape[0] * shape[1] * shape[2];
  const u64 across = grid[0] / size[0], down = grid[1] / size[1];
  const u64 x = number % across * size[0], y = number / across % down * size[1], z = number / across / down * size[2];
  Cluster* cluster = new_cluster(count);
  *cluster = {cluster->blocks, count, 0, 0, 0, count * threads};
  append(state.clusters, cluster);
  for (u32 b = 0; b < count; ++b) {
    Block& block = cluster->blocks[b];
    block = {cluster, {(u32)x + b % size[0], (u32)y + b / size[0] % size[1], (u32)z + b / size[0] / size[1]}, b, 0, 0,
             threads, block.shared, block.memory, {}, block.warps};
    memset(block.shared, 0xff, launch->shared_end - SHARED_BEGINS);
    memset(block.warps, 0, (threads + 31) / 32 * sizeof(Warp));
    memset(block.memory, 0xcb, (u64)threads * (launch->thread_bytes + launch->local_bytes));
    for (u32 k = 0; k < threads; ++k) {
      Thread& t = *(Thread*)(block.memory + (u64)k * launch->thread_bytes);
      memset((void*)&t, 0, sizeof(Thread));
      t.number = k, t.lane = k % 32;
      t.index = {k % shape[0], k / shape[0] % shape[1], k / shape[0] / shape[1]};
      t.block = &block;
      t.warp = &block.warps[k / 32];
      t.warp->lanes[k % 32] = &t;
      t.local = block.memory + (u64)threads * launch->thread_bytes + (u64)k * launch->local_bytes;
      t.fuel = 1 + (u32)random_below(FUEL);
      append(state.ready, &t);
    }
  }
  state.threads_at_work += cluster->threads;
}

static void thread_ended(Thread& t) {
  Block& block = *t.block;
  Cluster& cluster = *block.cluster;
  for (u32 k = 0; k < t.copies.count; ++k) fail("ended with a copy on its way that nothing has waited for");
  free(t.copies.items);
  t.copies = {};
  if (t.cluster_phase % 2) fail("ended, and has not waited for its cluster's barrier, at which it arrived");
  t.waits = OVER;
  ++block.ended, ++cluster.ended;
  progress();
  lane_ended(t);
  for (u32 k = 0; k < 16; ++k) release_threads(block, k);
  release_cluster(cluster);
  if (block.ended == block.threads && block.in_flight) {
    fail("its block has ended, and what is sent to its shared memory is still on its way");
  }
  if (cluster.ended < cluster.threads) return;
  for (u32 k = 0; k < state.clusters.count; ++k) {
    if (state.clusters.items[k] == &cluster) take(state.clusters, k);
  }
  state.threads_at_work -= cluster.threads;
  append(state.free_clusters, &cluster);
}

// Ends the launch with where its threads are.
[[noreturn]] static void stuck(const char* what) {
  const char* states[] = {"run", "wait for their warp", "wait for their block", "wait for their cluster", "have ended"};
  char words[1600] = "";
  u32 used = 0;
  for (u32 c = 0; c < state.clusters.count && c < 4; ++c) {
    for (u32 b = 0; b < state.clusters.items[c]->count && b < 4; ++b) {
      Block& block = state.clusters.items[c]->blocks[b];
      for (u32 kind = 0; kind < 5; ++kind) {
        u32 count = 0, at = 0;
        for (u32 k = 0; k < block.threads; ++k) {
          const Thread& t = *block.warps[k / 32].lanes[k % 32];
          if (t.waits == kind) ++count, at = t.statement;
        }
        if (count == 0 || used > 1500) continue;
        used += snprintf(words + used, sizeof(words) - used, "; of block (%u, %u, %u) %u threads %s, one at #%u",
                         block.index.x, block.index.y, block.index.z, count, states[kind], at);
      }
    }
  }
  state.running = nullptr;
  fail("%s%s", what, words);
}

static Thread* next_thread() {
  const u32 count = state.ready.count;
  if (state.order && random_below(16)) return take(state.ready, state.order == 1 ? count - 1 : 0);
  return take(state.ready, (u32)random_below(count));
}

static void run_all() {
  const u32 *grid = launch->grid, *size = launch->cluster;
  for (u32 k = 0; k < 3; ++k) {
    if (size[k] == 0 || grid[k] % size[k]) fail("%u blocks are no multiple of a cluster of %u", grid[k], size[k]);
  }
  const u32 of_cluster = size[0] * size[1] * size[2];
  const u64 units = (u64)grid[0] * grid[1] * grid[2] / of_cluster;
  u64 started = 0;
  const u64 offset = random_below(units), step = random_below(2) ? 1 : units - 1;  // forwards or backwards
  for (;;) {
    while (started < units && (launch->resident ? state.clusters.count * of_cluster < launch->resident
                                                : state.threads_at_work < TOGETHER)) {
      start((offset + started++ * step) % units);
    }
    if (random_below(16) == 0) something_lands();
    if (state.ready.count == 0 || random_below(64 * (state.threads_at_work + 1)) == 0) {
      for (u32 k = 0; k < state.asleep.count; ++k) append(state.ready, state.asleep.items[k]);
      state.asleep.count = 0;
    }
    if (state.ready.count == 0) {
      if (something_lands()) continue;
      if (state.threads_at_work == 0 && started == units) return;
      stuck("no thread can go on");
    }
    if (++state.turns_without_progress > FOR_EVER) stuck("threads ask for ever");
    if ((++state.turns & 0xffff) == 0 && time(nullptr) - state.began > LONGEST) stuck("the launch takes too long");
    Thread& t = *next_thread();
    state.running = &t;
    if (launch->dependent && !t.goes_on) last_span = {0, 0, 0};
    const u32 stopped = launch->step(t, launch->parameters);
    if (stopped == ENDED) thread_ended(t);
    if (stopped == LATER) {
      t.fuel = FUEL;
      append(state.asleep, &t);
    }
    state.running = nullptr;
  }
}

// 0, or 1 and a message.
extern "C" __attribute__((visibility("default"))) int ptx_launch(const Launch* what, char* message, u32 bytes) {
  launch = what;
  state.message = message, state.message_bytes = bytes;
  state.random = what->seed * 2654435761u + 88172645463325252ull;
  for (int k = 0; k < 8; ++k) random_below(2);
  state.order = (u32)random_below(3);
  state.turns = state.turns_without_progress = 0;
  state.began = time(nullptr);
  state.running = nullptr;
  last_span = what->checks_spans ? Span{0, 0, 0} : Span{0, ~0ull, 1};
  fenv_t before;
  feholdexcept(&before);
  fesetenv(FE_DFL_ENV);
  const int failed = sigsetjmp(state.home, 1);
  if (!failed) run_all();
  fesetenv(&before);
  for (u32 c = 0; c < state.clusters.count; ++c) {
    for (u32 b = 0; b < state.clusters.items[c]->count; ++b) {
      Block& block = state.clusters.items[c]->blocks[b];
      for (u32 k = 0; k < block.threads; ++k) free(block.warps[k / 32].lanes[k % 32]->copies.items);
    }
  }
  for (u32 k = 0; k < state.owned.count; ++k) free(state.owned.items[k]);
  state.owned.count = state.ready.count = state.asleep.count = state.deliveries.count = 0;
  state.clusters.count = state.free_clusters.count = state.threads_at_work = 0;
  return failed;
}
