// Runs the threads of a launch, one at a time on one thread of the host, each on a stack of its own, in an order that a
// seed decides. A thread runs until it waits for others or asks what they have left in memory; so whatever the kernel
// leaves to chance between two barriers is left to chance here, and copies land as late, or as early, as they may.
//
// What a device would do wrong in silence is an error here, in words that name the thread.
#include "emulator.hpp"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

using namespace emulator;

// --- Lists that grow -------------------------------------------------------------------------------------------------

template <class T>
struct List {
  T* items = nullptr;
  u32 count = 0, room = 0;

  T& add(const T& item) {
    if (count == room) items = (T*)realloc((void*)items, (room = room ? 2 * room : 8) * sizeof(T));
    return items[count++] = item;
  }
  void remove(u32 k) {
    memmove((void*)(items + k), (void*)(items + k + 1), (--count - k) * sizeof(T));
  }
  T take(u32 k) {  // in any order
    const T item = items[k];
    items[k] = items[--count];
    return item;
  }
  T* begin() { return items; }
  T* end() { return items + count; }
  void free() {
    ::free((void*)items);
    *this = {};
  }
};

// --- Changing over from one stack to another -------------------------------------------------------------------------

constexpr u32 STACK = 64 * 1024, STACK_END = 64;  // bytes; those at the end must stay as they are
constexpr u8 UNTOUCHED = 0xa5;

#ifdef __x86_64__
struct Context { void* stack_pointer; };

asm(R"(
.text
.globl emulator_change_over
.hidden emulator_change_over
emulator_change_over:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov (%rsi), %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
)");
extern "C" void emulator_change_over(Context* from, Context* to);

static void begin_at(Context& context, u8* stack, void (*function)()) {
  void** top = (void**)(stack + STACK) - 1;
  *--top = (void*)function;  // where `ret` goes, with the stack as after a call
  for (int k = 0; k < 6; ++k) *--top = nullptr;
  context.stack_pointer = top;
}
#else
using Context = ucontext_t;

static void emulator_change_over(Context* from, Context* to) { swapcontext(from, to); }
static void begin_at(Context& context, u8* stack, void (*function)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = STACK;
  context.uc_link = nullptr;
  makecontext(&context, function, 0);
}
#endif

// --- What there is in a launch ---------------------------------------------------------------------------------------

struct Block;
struct Warp;

// A copy on its way to shared memory, or, with no bytes, an arrival that waits for those before it.
struct Copy {
  u8* to;
  const u8* from;
  u32 bytes, taken, group, barrier;
};

enum class Waits { NOT, LANES, THREADS, CLUSTER, BARRIER, ENDED };

struct Fiber : Thread {
  Context context;
  u8* stack;
  Block* block_of;
  Warp* warp;
  Waits waits;
  u32 waits_at;  // which barrier
  u32 number;    // in its block
  u32 priority;
  u64 received;         // what its lanes agreed on
  List<Copy> copies;    // in the order of their issue
  bool copies_listed;   // in state.copying
  u32 group;            // of copies, not yet committed
  u32 cluster_phase;    // of the cluster's barrier at which it arrived last; odd while it has not waited for it
  bool launches_ended;  // it has waited for the launches before
};

struct Warp {
  Fiber* lanes[32];
  u64 values[32];
  u32 arrived, ended;
  Meeting what;
  u32 mask, argument;
};

// An mbarrier. Its 64 bits in shared memory hold a mark, which must stay.
struct Barrier {
  u32 at, expected;
  int pending;
  long long bytes;
  u64 phase;
  bool armed, waited_for, fenced;
  Fiber* maker;
};
constexpr u64 MARK = 0x7a6f6f0000000000;

// A barrier of threads, of the 16 that a block has.
struct Sync { u32 arrived, threads; };

struct Variable { u32 number, at, bytes; };

struct Cluster {
  Block* blocks;
  u32 count, arrived, phase, threads, ended;
};

struct Block {
  Cluster* cluster;
  Index index;
  u32 rank, ended, in_flight;  // copies to this block's shared memory that have not landed
  u8* shared;                  // its window; addresses in shared memory count from here
  List<Barrier> barriers;
  Sync syncs[16];
  Fiber* fibers;
  Warp* warps;
};

// On its way to shared memory, and counted there: of a bulk copy, or a value of a thread elsewhere in the cluster.
struct Delivery {
  Block* block;
  u32 to, bytes, barrier;
  const u8* from;
  u64 value;
};

// Memory that a launch is given: moved to where nothing else is, and back.
struct Memory {
  void** pointer;
  u64 bytes;
  u32 fill;     // a byte: what lies around it, and what it begins with if it is not `kept`
  u32 kept;     // it begins as it was
  u32 written;  // goes back where it came from
};

struct Launch {
  void (*entry)(void**);
  void** parameters;
  u32 grid[2], threads, cluster, cooperative, shared_bytes, capability, flush_subnormals, tensors;
  u64 seed;
  Memory* memories;
  u32 memory_count;
};

struct Moved {
  u8 *original, *at, *pages;
  u64 bytes, page_bytes;
};

constexpr u32 PAGE = 64 * 1024;  // or several, of a host with smaller ones
constexpr u32 STATIC_BYTES = 64 * 1024, BEFORE_STATICS = 1024, BETWEEN = 16;
constexpr u32 DYNAMIC_BYTES = 256 * 1024, WINDOW = STATIC_BYTES + PAGE + DYNAMIC_BYTES + PAGE;
constexpr u32 ADDRESS = 0xffffff;     // of an address in shared memory: the place; above it, a block's rank and one
constexpr u32 TOGETHER = 2048;        // threads of blocks that need not, but may run side by side
constexpr u64 FOR_EVER = 20'000'000;  // turns of threads that only ask
constexpr u64 NOT_YET = 1ull << 62;   // added to addresses that must not be used yet

static struct State {
  const Launch* launch;
  Context scheduler;
  sigjmp_buf home;
  bool running;
  u64 random, turns_without_progress;
  // How this launch is run, by the seed.
  u32 priorities;  // 0: none; of each thread, each warp, or each block
  u64 late;        // one turn in so many copies land, up to so many of them
  u64 slow;        // one time in so many, a thread lags behind others until they have had many turns
  List<Fiber*> ready, asleep, copying;
  List<Delivery> deliveries;
  List<Cluster*> clusters;   // at work
  List<Variable> variables;  // in shared memory, at the same place in every block
  List<u8*> windows, free_windows;
  List<Moved> moved;
  u32 threads_at_work;
  char* message;
  u32 message_bytes;
} state;
static List<u8*> free_stacks;

Thread* emulator::current;
static Fiber& self() { return *(Fiber*)current; }

static u64 random_below(u64 limit) {
  u64& r = state.random;
  r ^= r >> 12, r ^= r << 25, r ^= r >> 27;
  return (r * 0x2545f4914f6cdd1dull >> 32) % limit;
}

void emulator::fail(const char* format, ...) {
  char* to = state.message;
  char* end = to + state.message_bytes;
  if (current) {
    to += snprintf(to, end - to, "block %u, thread %u: ",
                   current->block.x + current->block.y * current->grid_size.x, current->thread.x);
  }
  va_list words;
  va_start(words, format);
  vsnprintf(to, end - to, format, words);
  va_end(words);
  siglongjmp(state.home, 1);
}

// --- Threads wait, and go on -----------------------------------------------------------------------------------------

static void wake(Fiber* fiber) {
  fiber->waits = Waits::NOT;
  state.ready.add(fiber);
}

// Of threads that a barrier has let go, the last `count` that are ready, one may lag behind the others.
static void one_lags(u32 count, u64 rarely) {
  if (random_below(rarely)) return;
  const u32 k = state.ready.count - 1 - random_below(count);
  state.asleep.add(state.ready.take(k));
}

static void progress() { state.turns_without_progress = 0; }

// A thread tells other blocks something: of its own block the others may lag behind, who had better not be needed for it.
static void block_lags() {
  progress();
  if (random_below(2 * state.slow)) return;
  for (u32 k = 0; k < state.ready.count;) {
    if (state.ready.items[k]->block_of == self().block_of) {
      state.asleep.add(state.ready.take(k));
    } else {
      ++k;
    }
  }
}

static void let_others() {
  Fiber& me = self();
  emulator_change_over(&me.context, &state.scheduler);
}

static void wait_for_others(Waits why, u32 at = 0) {
  self().waits = why;
  self().waits_at = at;
  let_others();
}

static void stand_back() {
  state.ready.add(&self());
  let_others();
}

static void ask_later() {
  self().priority = random_below(1u << 31);  // whoever asks again and again must not keep others from answering
  stand_back();
}

void emulator::pause() {
  if (random_below(4) == 0) stand_back();
}

static void thread_ended() {
  Fiber& me = self();
  Block& block = *me.block_of;
  if (me.copies.count) fail("ended with a copy on its way that nothing has waited for");
  for (u32 k = 0; k < STACK_END; ++k) {
    if (me.stack[k] != UNTOUCHED) fail("its stack was too small");
  }
  if (me.warp->arrived) fail("ended, and other lanes of its warp wait for it");
  if (block.syncs[0].arrived) fail("ended, and other threads of its block wait for it at __syncthreads");
  ++me.warp->ended, ++block.ended, ++block.cluster->ended;
  if (block.cluster->arrived && me.cluster_phase != 2 * block.cluster->phase + 1) {
    fail("ended, and others of its cluster wait for it at the cluster's barrier");
  }
  progress();
  me.waits = Waits::ENDED;
}

static void run_thread() {
  state.launch->entry(state.launch->parameters);
  thread_ended();
  let_others();
}

u64 emulator::meet_lanes(Meeting what, u32 mask, u64 value, u32 argument) {
  Fiber& me = self();
  Warp& warp = *me.warp;
  const u32 lane = me.number % 32;
  if (mask != 0xffffffffu) fail("only whole warps are emulated, got the mask 0x%x", mask);
  if (warp.ended) fail("waits for lanes of its warp that have ended");
  if (warp.arrived == 0) {
    warp.what = what, warp.argument = argument;
  } else if (warp.what != what || warp.argument != argument) {
    fail("the lanes of its warp meet at different instructions");
  }
  warp.values[lane] = value;
  if (++warp.arrived < 32) {
    wait_for_others(Waits::LANES);
    return me.received;
  }
  u64 all = 1;
  for (u64 v : warp.values) all &= v;
  for (u32 k = 0; k < 32; ++k) {
    warp.lanes[k]->received = what == Meeting::EXCHANGE ? warp.values[k ^ argument] : all;
    if (k != lane) wake(warp.lanes[k]);
  }
  warp.arrived = 0;
  one_lags(31, 8 * state.slow);
  emulator::pause();
  return me.received;
}

void emulator::sync_threads(u32 number, u32 threads) {
  Fiber& me = self();
  Block& block = *me.block_of;
  Sync& sync = block.syncs[number];
  if (threads == 0) {
    threads = me.block_size.x;
    if (block.ended) fail("waits for threads of its block that have ended, at __syncthreads");
  }
  if (sync.arrived == 0) sync.threads = threads;
  if (sync.threads != threads) fail("barrier %u is for %u threads, and for %u", number, sync.threads, threads);
  if (++sync.arrived < threads) return wait_for_others(Waits::THREADS, number);
  sync.arrived = 0;
  progress();
  for (u32 k = 0; k < me.block_size.x; ++k) {
    Fiber& other = block.fibers[k];
    if (other.waits == Waits::THREADS && other.waits_at == number) wake(&other);
  }
  one_lags(threads - 1, state.slow);
  stand_back();
}

// --- Shared memory ---------------------------------------------------------------------------------------------------

static u32 dynamic_at() {
  const u32 bytes = (state.launch->shared_bytes + 15) / 16 * 16;
  return WINDOW - PAGE - bytes;  // it ends where a page does that can't be touched
}

// Variables have bytes of a pattern between them.
static void mark_behind(const Variable& variable, u8* window) {
  const u32 end = variable.at + variable.bytes;
  memset(window + end, UNTOUCHED, (end + 15) / 16 * 16 + BETWEEN - end);
}

static u8* new_window() {
  const u32 dynamic = dynamic_at();
  u8* window;
  if (state.free_windows.count) {
    window = state.free_windows.items[--state.free_windows.count];
  } else {
    window = (u8*)mmap(nullptr, WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (window == MAP_FAILED) fail("no memory for a block's shared memory");
    state.windows.add(window);
    mprotect(window, STATIC_BYTES, PROT_READ | PROT_WRITE);
    mprotect(window + dynamic / PAGE * PAGE, WINDOW - PAGE - dynamic / PAGE * PAGE, PROT_READ | PROT_WRITE);
  }
  memset(window, 0xff, STATIC_BYTES);
  memset(window + dynamic, 0xff, WINDOW - PAGE - dynamic);
  for (const Variable& variable : state.variables) mark_behind(variable, window);
  return window;
}

void* emulator::shared_variable(u32 number, u32 bytes) {
  u8* here = self().block_of->shared;
  u32 at = BEFORE_STATICS;
  for (const Variable& variable : state.variables) {
    if (variable.number == number) return here + variable.at;
    at = (variable.at + variable.bytes + 15) / 16 * 16 + BETWEEN;
  }
  if (at + bytes + 2 * BETWEEN > STATIC_BYTES) fail("more than %u bytes of variables in shared memory", STATIC_BYTES);
  const Variable& made = state.variables.add({number, at, bytes});
  for (u8* window : state.windows) mark_behind(made, window);
  return here + at;
}

void* emulator::dynamic_shared() { return self().block_of->shared + dynamic_at(); }

u32 emulator::address_in_shared(const void* at) {
  const u64 place = (const u8*)at - self().block_of->shared;
  if (place > WINDOW) fail("%p is not in its block's shared memory", at);
  return (u32)place;
}

// The block that an address is in, and a place of so many bytes there.
static u8* in_shared(u32 address, u32 bytes, Block** found = nullptr) {
  Block* block = self().block_of;
  const u32 place = address & ADDRESS, rank = address >> 24;
  if (rank) {
    Cluster& cluster = *block->cluster;
    if (rank > cluster.count) fail("there is no block %u in a cluster of %u", rank - 1, cluster.count);
    block = &cluster.blocks[rank - 1];
    if (block != self().block_of && self().cluster_phase / 2 == 0) {
      fail("to another block's shared memory before it is known to have started, by the cluster's barrier");
    }
    if (block->ended == current->block_size.x) fail("to the shared memory of a block that has ended");
  }
  if (found) *found = block;
  if (bytes && address % bytes) fail("%u bytes at 0x%x of shared memory, which is no multiple of them", bytes, place);
  if (place >= dynamic_at() && place + bytes <= WINDOW - PAGE) return block->shared + place;
  for (const Variable& variable : state.variables) {
    if (place >= variable.at && place + bytes <= variable.at + variable.bytes) return block->shared + place;
  }
  fail("0x%x is no place in shared memory", place);
}

// --- mbarriers -------------------------------------------------------------------------------------------------------

static Barrier& barrier_at(u32 address, Block** where = nullptr) {
  Block* block;
  const u64* word = (const u64*)in_shared(address, 8, &block);
  const u32 at = address & ADDRESS;
  for (Barrier& barrier : block->barriers) {
    if (barrier.at != at) continue;
    if (*word != (MARK | at)) fail("the mbarrier at 0x%x was written over", at);
    if (&self() != barrier.maker && block != self().block_of && !barrier.fenced) {
      fail("the mbarrier at 0x%x is not fenced after it was made", at);
    }
    if (where) *where = block;
    return barrier;
  }
  fail("there is no mbarrier at 0x%x of block %u of the cluster", at, block->rank);
}

static void complete_if_due(Block& block, Barrier& barrier) {
  if (barrier.bytes > 0xfffff || barrier.bytes < -0xfffff) fail("an mbarrier counts to 2^20 - 1 bytes");
  if (barrier.pending || barrier.bytes) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  progress();
  for (u32 k = 0; k < state.launch->threads; ++k) {
    Fiber& other = block.fibers[k];
    if (other.waits == Waits::BARRIER && other.waits_at == barrier.at) wake(&other);
  }
}

static void arrive_at(Block& block, Barrier& barrier) {
  if (barrier.pending == 0) fail("more arrivals at the mbarrier at 0x%x than it waits for", barrier.at);
  barrier.armed = true;
  --barrier.pending;
  complete_if_due(block, barrier);
}

void ptx::make_barrier(u32 at, u32 arrivals) {
  Fiber& me = self();
  *(u64*)in_shared(at, 8) = MARK | at;
  for (Barrier& barrier : me.block_of->barriers) {
    if (barrier.at == at) fail("the mbarrier at 0x%x is made twice", at);
  }
  me.block_of->barriers.add({at, arrivals, (int)arrivals, 0, 0, false, false, false, &me});
}

void ptx::fence_barriers() {
  for (Barrier& barrier : self().block_of->barriers) {
    if (barrier.maker == &self()) barrier.fenced = true;
  }
}

void ptx::arrive(u32 address) {
  emulator::pause();
  Block* block;
  Barrier& barrier = barrier_at(address, &block);
  arrive_at(*block, barrier);
}

void ptx::arrive_expecting(u32 address, u32 bytes) {
  emulator::pause();
  Block* block;
  Barrier& barrier = barrier_at(address, &block);
  barrier.bytes += bytes;
  arrive_at(*block, barrier);
}

static bool has_passed(u32 address, u32 parity) {
  Barrier& barrier = barrier_at(address);
  barrier.waited_for = true;
  return (barrier.phase & 1) != (parity & 1);
}

u32 ptx::try_wait(u32 address, u32 parity) {
  while (!has_passed(address, parity)) wait_for_others(Waits::BARRIER, address & ADDRESS);
  return 1;
}

u32 ptx::test_wait(u32 address, u32 parity) {
  ask_later();
  return has_passed(address, parity);
}

// --- Copies ----------------------------------------------------------------------------------------------------------

// A place that is being copied to holds nothing that may be relied on.
static void spoil(u8* place, u32 bytes) { memset(place, 0xff, bytes); }

static void land(const Copy& copy) {
  memcpy(copy.to, copy.from, copy.taken);
  memset(copy.to + copy.taken, 0, copy.bytes - copy.taken);
}

static void arrive_where_due(Fiber& fiber) {
  while (fiber.copies.count && fiber.copies.items[0].bytes == 0) {
    const u32 at = fiber.copies.items[0].barrier;
    fiber.copies.remove(0);
    for (Barrier& barrier : fiber.block_of->barriers) {
      if (barrier.at == at) arrive_at(*fiber.block_of, barrier);
    }
  }
}

static void land_copy(Fiber& fiber, u32 k) {
  progress();
  land(fiber.copies.items[k]);
  fiber.copies.remove(k);
  arrive_where_due(fiber);
}

void ptx::copy(u32 to, u64 from, u32 bytes, u32 taken) {
  Fiber& me = self();
  u8* place = in_shared(to, bytes);
  if (to >> 24) fail("cp.async to another block");
  if (from % bytes) fail("cp.async of %u bytes from 0x%llx, which is no multiple of them", bytes, from);
  if (bytes != 4 && bytes != 8 && bytes != 16) fail("cp.async of %u bytes", bytes);
  if (taken > bytes) fail("cp.async takes %u of %u bytes", taken, bytes);
  within((const void*)from, taken);
  spoil(place, bytes);
  if (!me.copies_listed) state.copying.add(&me);
  me.copies_listed = true;
  me.copies.add({place, (const u8*)from, bytes, taken, me.group, 0});
}

void ptx::commit_copies() { ++self().group; }

void ptx::wait_for_copies(u32 groups_left) {
  Fiber& me = self();
  for (u32 k = 0; k < me.copies.count;) {
    Copy& copy = me.copies.items[k];
    if (copy.bytes && copy.group + groups_left < me.group) {
      land_copy(me, k);
    } else {
      ++k;
    }
  }
}

void ptx::wait_for_copies() {
  commit_copies();
  wait_for_copies(0);
}

void ptx::arrive_behind_copies(u32 barrier) {
  Fiber& me = self();
  barrier_at(barrier);
  me.copies.add({nullptr, nullptr, 0, 0, me.group, barrier});
  arrive_where_due(me);
}

void ptx::copy_bulk(u32 to, const void* from, u32 bytes, u32 barrier) {
  Block *block, *counts;
  u8* place = in_shared(to, 0, &block);
  if (bytes % 16 || to % 16 || (u64)from % 16) fail("a bulk copy of %u bytes that is not in whole words", bytes);
  if (bytes) in_shared(to + bytes - 16, 16);
  within(from, bytes);
  Barrier& counted = barrier_at(barrier, &counts);
  if (counts != block) fail("a bulk copy is counted in another block");
  if (!counted.fenced) fail("a bulk copy is counted by an mbarrier that is not fenced after it was made");
  spoil(place, bytes);
  ++block->in_flight;
  state.deliveries.add({block, to & ADDRESS, bytes, barrier & ADDRESS, (const u8*)from, 0});
}

void ptx::store_remote(u32 to, u64 value, u32 barrier) {
  emulator::pause();
  Block *block, *counts;
  u8* place = in_shared(to, 8, &block);
  barrier_at(barrier, &counts);
  if (counts != block) fail("st.async is counted in another block");
  spoil(place, 8);
  ++block->in_flight;
  state.deliveries.add({block, to & ADDRESS, 8, barrier & ADDRESS, nullptr, value});
}

static void deliver(const Delivery& delivery) {
  Block& block = *delivery.block;
  u8* place = block.shared + delivery.to;
  memcpy(place, delivery.from ? delivery.from : (const u8*)&delivery.value, delivery.bytes);
  progress();
  --block.in_flight;
  for (Barrier& barrier : block.barriers) {
    if (barrier.at != delivery.barrier) continue;
    barrier.bytes -= delivery.bytes;
    complete_if_due(block, barrier);
  }
}

// Whether there was one that could land.
static bool something_lands() {
  while (const u32 count = state.copying.count + state.deliveries.count) {
    const u32 k = random_below(count);
    if (k >= state.copying.count) {
      deliver(state.deliveries.take(k - state.copying.count));
      return true;
    }
    Fiber& fiber = *state.copying.items[k];
    if (fiber.copies.count == 0) {
      state.copying.take(k);
      fiber.copies_listed = false;
      continue;
    }
    u32 one = random_below(fiber.copies.count);
    while (fiber.copies.items[one].bytes == 0) --one;  // what comes first is never an arrival
    land_copy(fiber, one);
    return true;
  }
  return false;
}

// --- Clusters --------------------------------------------------------------------------------------------------------

void ptx::cluster_arrive() {
  Fiber& me = self();
  Cluster& cluster = *me.block_of->cluster;
  if (me.cluster_phase % 2) fail("arrives at the cluster's barrier twice without waiting for it");
  ++me.cluster_phase;
  if (++cluster.arrived < cluster.threads) return;
  cluster.arrived = 0;
  ++cluster.phase;
  progress();
  for (u32 b = 0; b < cluster.count; ++b) {
    for (u32 k = 0; k < state.launch->threads; ++k) {
      Fiber& other = cluster.blocks[b].fibers[k];
      if (other.waits == Waits::CLUSTER) wake(&other);
    }
  }
}

void ptx::cluster_wait() {
  Fiber& me = self();
  if (me.cluster_phase % 2 == 0) fail("waits for the cluster's barrier without having arrived at it");
  const u32 phase = me.cluster_phase / 2;
  if (me.block_of->cluster->phase == phase) wait_for_others(Waits::CLUSTER);
  ++me.cluster_phase;
  emulator::pause();
}

u32 ptx::cluster_rank() { return self().block_of->rank; }
u32 ptx::cluster_size() { return self().block_of->cluster->count; }

u32 ptx::in_block(u32 address, u32 rank) {
  if (address >> 24) fail("mapa of what is mapped already");
  return address | (rank + 1) << 24;
}

// --- Device memory ---------------------------------------------------------------------------------------------------

void ptx::within(const void* from, u32 bytes) {
  const u8* at = (const u8*)from;
  for (const Moved& moved : state.moved) {
    if (at >= moved.pages && at < moved.pages + moved.page_bytes && at + bytes > moved.at + moved.bytes) {
      fail("reads %u bytes, %lld from the start of %llu that it was given", bytes, (long long)(at - moved.at),
           moved.bytes);
    }
  }
}

void ptx::launches_before_have_ended() {
  if (self().launches_ended) fail("waits for the launches before it twice");
  self().launches_ended = true;
}
u64 ptx::usable(u64 address) { return address - NOT_YET; }

u64 ptx::peek(const u64* at) {
  ask_later();
  aligned(at, 8);
  return *(const volatile u64*)at;
}

void ptx::send(u64* at, u64 value) {
  emulator::pause();
  aligned(at, 8);
  *(volatile u64*)at = value;
  block_lags();
}

template <class T, class Change>
static T changed(T* at, Change change) {
  emulator::pause();
  ptx::aligned(at, sizeof(T));
  const T before = *at;
  *at = change(before);
  block_lags();
  return before;
}
u32 ptx::count_up_to(u32* at, u32 most) {
  return changed(at, [&](u32 before) { return before >= most ? 0 : before + 1; });
}
u64 ptx::add(u64* at, u64 value) {
  return changed(at, [&](u64 before) { return before + value; });
}

// --- Numbers ---------------------------------------------------------------------------------------------------------

// Into `exponent` and `mantissa` bits, rounded to nearest even.
static u16 rounded(float v, u32 exponent, u32 mantissa) {
  const u32 bits = bits_as<u32>(v), sign = bits >> 31 << 15, rest = bits & 0x7fffffff;
  const u32 infinity = ((1u << exponent) - 1) << mantissa;
  if (rest > 0x7f800000) return 0x7fff;
  if (rest == 0x7f800000) return sign | infinity;
  const int least = 127 - (1 << (exponent - 1)) + 2;  // exponent, in a float's bits, of the smallest normal number
  const int here = (int)(rest >> 23) ? (int)(rest >> 23) : 1;
  const u32 digits = (rest & 0x7fffff) | (rest >> 23 ? 0x800000 : 0);
  const u32 drop = 23 - mantissa + (here < least ? least - here : 0);
  if (drop > 25) return sign;
  const u32 kept = digits >> drop, tail = digits & ((1u << drop) - 1), half = 1u << (drop - 1);
  u32 made = kept + (tail > half || (tail == half && (kept & 1)));
  if (here >= least) made += (u32)(here - least) << mantissa;  // the leading digit counts as one of the exponent
  return sign | (made < infinity ? made : infinity);
}

u16 ptx::float_to_half(float v) { return rounded(v, 5, 10); }
u16 ptx::float_to_bfloat(float v) { return rounded(v, 8, 7); }

float ptx::half_to_float(u16 half) {
  const u32 sign = (u32)(half >> 15) << 31, exponent = half >> 10 & 31, digits = half & 0x3ff;
  if (exponent == 31) return bits_as<float>(sign | 0x7f800000 | digits << 13);
  if (exponent) return bits_as<float>(sign | (exponent + 112) << 23 | digits << 13);
  return (sign ? -1.0f : 1.0f) * (float)digits * 0x1p-24f;
}

float ptx::power_of_two(float v) {
  const float made = __builtin_exp2f(v);
  return made < 0x1p-126f ? 0 : made;
}

float ptx::reciprocal(float v) {
  const float sign = __builtin_copysignf(1, v), made = 1 / (__builtin_fabsf(v) < 0x1p-126f ? sign * 0.0f : v);
  return __builtin_fabsf(made) < 0x1p-126f ? sign * 0.0f : made;
}

// As a double, which holds every float as a normal number.
static double widened(float v) {
  const u32 bits = bits_as<u32>(v);
  if (bits >> 23 & 0xff) return v;
  return (bits >> 31 ? -0x1p-149 : 0x1p-149) * (int)(bits & 0x7fffff);
}
float ptx::product(float a, float b) { return (float)(widened(a) * widened(b)); }
float ptx::difference(float a, float b) { return (float)(widened(a) - widened(b)); }
u32 ptx::equal_floats(float a, float b) { return widened(a) == widened(b) ? 0xffffffffu : 0; }

// Words of `bits` bits, of which those above `infinity` are NaN.
static u32 extreme(u32 a, u32 b, u32 bits, u32 infinity, bool least) {
  const u32 sign = 1u << (bits - 1), canonical = sign - 1;
  const bool a_is_nan = (a & ~sign) > infinity, b_is_nan = (b & ~sign) > infinity;
  if (least ? a_is_nan || b_is_nan : a_is_nan && b_is_nan) return canonical;
  if (a_is_nan || b_is_nan) return a_is_nan ? b : a;
  const auto order = [&](u32 w) { return w & sign ? (sign << 1) - 1 - w : w | sign; };
  return (order(a) < order(b)) == least ? a : b;
}
static u32 extremes(u32 a, u32 b, u32 infinity, bool least) {
  return extreme(a >> 16, b >> 16, 16, infinity, least) << 16 | extreme(a & 0xffff, b & 0xffff, 16, infinity, least);
}
u32 ptx::least_float(u32 a, u32 b) { return extreme(a, b, 32, 0x7f800000, true); }
u32 ptx::least_halves(u32 a, u32 b) { return extremes(a, b, 0x7c00, true); }
u32 ptx::least_bfloats(u32 a, u32 b) { return extremes(a, b, 0x7f80, true); }
u32 ptx::largest_halves(u32 a, u32 b) { return extremes(a, b, 0x7c00, false); }
u32 ptx::largest_bfloats(u32 a, u32 b) { return extremes(a, b, 0x7f80, false); }

// As -ftz=true has it: subnormal floats are zero in arithmetic. Of kernels in double the host would do so to doubles.
static u32 flush_subnormals(bool yes) {
#if defined(__x86_64__)
  const u32 before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(yes ? before | 0x8040 : before & ~0x8040u);
  return before & 0x8040;
#elif defined(__aarch64__)
  u64 mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  asm volatile("msr fpcr, %0" ::"r"(yes ? mode | 1u << 24 : mode & ~(1ull << 24)));
  return mode & 1u << 24;
#else
#error "how subnormal numbers are flushed on this processor"
#endif
}

// --- Memory of a launch ----------------------------------------------------------------------------------------------
//
// Between pages that can't be touched, as close to the one before or the one behind as its place in a 16-byte word lets:
// the whole of the first word may be read, and what is before it may not. Memory may end with the last element, which
// loads of whole words are held to (ptx::within).

static void move_there(const Memory& memory) {
  u8* original = (u8*)*memory.pointer;
  const u64 first = (u64)original & ~15ull, length = (((u64)original + memory.bytes + 15) & ~15ull) - first;
  const u64 inside = (length + PAGE - 1) / PAGE * PAGE;
  u8* pages = (u8*)mmap(nullptr, inside + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) fail("no memory for %llu bytes", memory.bytes);
  u8* from = pages + PAGE;
  mprotect(from, inside, PROT_READ | PROT_WRITE);
  memset(from, memory.fill, inside);
  u8* at = from + (random_below(2) ? inside - length : 0) + ((u64)original - first);
  state.moved.add({original, at, pages, memory.bytes, inside + 2 * PAGE});
  if (memory.kept) memcpy(at, original, memory.bytes);
  if (!memory.written) mprotect(from, inside, PROT_READ);
  *memory.pointer = at;
}

static void move_back(const Memory& memory, const Moved& moved) {
  *memory.pointer = moved.original;
  if (!memory.written) return;
  memcpy(moved.original, moved.at, moved.bytes);
  for (u8* at = moved.pages + PAGE; at < moved.pages + moved.page_bytes - PAGE; ++at) {
    if (at == moved.at) at += moved.bytes;
    if (at < moved.pages + moved.page_bytes - PAGE && *at != (u8)memory.fill) {
      fail("wrote %lld bytes from the start of %llu bytes of memory that it was given", (long long)(at - moved.at),
           moved.bytes);
    }
  }
}

static struct sigaction handlers[4];
constexpr int SIGNALS[4] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};

static void on_signal(int number, siginfo_t* about, void*) {
  if (!state.running) {  // none of ours
    for (int k = 0; k < 4; ++k) sigaction(SIGNALS[k], &handlers[k], nullptr);
    return;
  }
  if (number == SIGILL) fail("an index is out of bounds, or an address no multiple of its type's size");
  if (number == SIGFPE) fail("a division by zero");
  const u8* at = (const u8*)about->si_addr;
  for (Moved& moved : state.moved) {
    if (at >= moved.pages && at < moved.pages + moved.page_bytes) {
      fail("reads or writes memory %lld bytes from the start of %llu that it was given, or writes what is to be read",
           (long long)(at - moved.at), moved.bytes);
    }
  }
  for (u8* window : state.windows) {
    if (at >= window && at < window + WINDOW) {
      fail("shared memory at 0x%llx, where there is none; what the launch asks for is at 0x%x to 0x%x",
           (u64)(at - window), dynamic_at(), WINDOW - PAGE);
    }
  }
  fail("memory at %p, which is none of the launch's, or used before the launches before it have ended", (void*)at);
}

// --- The launch ------------------------------------------------------------------------------------------------------

// The blocks [first, first + count) of the grid, as a cluster.
static void start(u64 first, u32 count) {
  const Launch& launch = *state.launch;
  Cluster* cluster = (Cluster*)calloc(1, sizeof(Cluster));
  state.clusters.add(cluster);
  *cluster = {(Block*)calloc(count, sizeof(Block)), count, 0, 0, count * launch.threads, 0};
  for (u32 b = 0; b < count; ++b) {
    Block& block = cluster->blocks[b];
    const u64 number = first + b;
    block.cluster = cluster;
    block.index = {(u32)(number % launch.grid[0]), (u32)(number / launch.grid[0]), 0};
    block.rank = b;
    block.shared = new_window();
    block.fibers = (Fiber*)calloc(launch.threads, sizeof(Fiber));
    block.warps = (Warp*)calloc(launch.threads / 32, sizeof(Warp));
    u32 priority = random_below(1u << 31);
    for (u32 k = 0; k < launch.threads; ++k) {
      Fiber& fiber = block.fibers[k];
      fiber.thread = {k, 0, 0};
      fiber.block = block.index;
      fiber.block_size = {launch.threads, 1, 1};
      fiber.grid_size = {launch.grid[0], launch.grid[1], 1};
      fiber.block_of = &block;
      fiber.warp = &block.warps[k / 32];
      fiber.warp->lanes[k % 32] = &fiber;
      fiber.number = k;
      if (state.priorities == 1 || (state.priorities == 2 && k % 32 == 0)) priority = random_below(1u << 31);
      fiber.priority = priority;
      if (free_stacks.count == 0) {
        u8* stacks = (u8*)mmap(nullptr, 64 * STACK, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) fail("no memory for the threads' stacks");
        for (u32 s = 0; s < 64; ++s) {
          memset(stacks + s * STACK, UNTOUCHED, STACK_END);
          free_stacks.add(stacks + s * STACK);
        }
      }
      fiber.stack = free_stacks.items[--free_stacks.count];
      begin_at(fiber.context, fiber.stack, run_thread);
      wake(&fiber);
    }
  }
  state.threads_at_work += cluster->threads;
}

static void free_cluster(Cluster* cluster) {
  for (u32 b = 0; b < cluster->count; ++b) {
    Block& block = cluster->blocks[b];
    for (u32 k = 0; k < state.launch->threads; ++k) {
      Fiber& fiber = block.fibers[k];
      fiber.copies.free();
      memset(fiber.stack, UNTOUCHED, STACK_END);
      free_stacks.add(fiber.stack);
    }
    state.free_windows.add(block.shared);
    block.barriers.free();
    free(block.fibers);
    free(block.warps);
  }
  free(cluster->blocks);
  free(cluster);
}

// What must hold as a block ends, of which that thread is the last.
static void block_ended(Block& block) {
  if (block.in_flight) fail("its block has ended, and what is sent to its shared memory is still on its way");
  for (Barrier& barrier : block.barriers) {
    const char* wrong = nullptr;
    if (barrier.bytes) wrong = "with bytes still expected";
    else if (barrier.pending != (int)barrier.expected) wrong = "amid a phase";
    else if (barrier.armed && !barrier.waited_for) wrong = "that was arrived at, and that nothing has waited for";
    if (wrong) fail("its block has ended, and left the mbarrier at 0x%x %s", barrier.at, wrong);
  }
  for (const Variable& variable : state.variables) {
    for (u32 k = variable.bytes; k < (variable.bytes + 15) / 16 * 16 + BETWEEN; ++k) {
      if (block.shared[variable.at + k] != UNTOUCHED) {
        fail("its block has written behind a variable of %u bytes in shared memory", variable.bytes);
      }
    }
  }
  const u32 end = dynamic_at() + state.launch->shared_bytes;
  for (u32 k = end; k < WINDOW - PAGE; ++k) {
    if (block.shared[k] != 0xff) fail("its block has written behind the shared memory that the launch asks for");
  }
}

// Ends the launch with what every block waits for.
[[noreturn]] static void stuck(const char* what) {
  const char* states[] = {"run", "wait for their warp", "wait for their block", "wait for their cluster",
                          "wait for an mbarrier", "have ended"};
  char words[1600] = "";
  u32 used = 0;
  const auto say = [&](const char* format, auto... values) {
    if (used < sizeof(words)) used += snprintf(words + used, sizeof(words) - used, format, values...);
  };
  for (Cluster* cluster : state.clusters) {
    for (u32 b = 0; b < cluster->count; ++b) {
      Block& block = cluster->blocks[b];
      u32 threads[6] = {};
      for (u32 k = 0; k < state.launch->threads; ++k) ++threads[(int)block.fibers[k].waits];
      say("; block %u:", block.index.x + block.index.y * state.launch->grid[0]);
      for (u32 k = 0; k < 6; ++k) {
        if (threads[k]) say(" %u threads %s,", threads[k], states[k]);
      }
      for (Barrier& barrier : block.barriers) {
        if (barrier.pending == (int)barrier.expected && barrier.bytes == 0) continue;
        say(" the mbarrier at 0x%x waits for %d of %u arrivals and %lld bytes,", barrier.at, barrier.pending,
            barrier.expected, barrier.bytes);
      }
    }
  }
  current = nullptr;
  fail("%s%s", what, words);
}

static void wake_all() {
  for (Fiber* fiber : state.asleep) state.ready.add(fiber);
  state.asleep.count = 0;
}

static Fiber* next_fiber() {
  const u32 count = state.ready.count;
  u32 best = random_below(count);
  if (state.priorities && random_below(4)) {  // now and then any, since the others may be asking for what it does
    for (u32 tries = 0; tries < 8; ++tries) {
      const u32 k = random_below(count);
      if (state.ready.items[k]->priority > state.ready.items[best]->priority) best = k;
    }
  }
  return state.ready.take(best);
}

static void run_all() {
  const Launch& launch = *state.launch;
  const u32 together = launch.cooperative ? launch.grid[0] : launch.cluster;
  const u64 blocks = (u64)launch.grid[0] * launch.grid[1], units = blocks / together;
  u64 started = 0;
  const u64 offset = random_below(units), step = random_below(2) ? 1 : units - 1;  // forwards or backwards
  if (blocks % launch.cluster) fail("%llu blocks are no multiple of a cluster of %u", blocks, launch.cluster);
  for (;;) {
    while (started < units && (state.threads_at_work == 0 || state.threads_at_work < TOGETHER)) {
      const u64 unit = (offset + started++ * step) % units;
      for (u32 first = 0; first < together; first += launch.cluster) start(unit * together + first, launch.cluster);
    }
    if (random_below(state.late) == 0) {
      for (u64 many = 1 + random_below(state.late); many && something_lands(); --many) {}
    }
    if (state.ready.count == 0 || random_below(64 * state.threads_at_work) == 0) wake_all();
    if (state.ready.count == 0) {
      if (something_lands()) continue;
      if (state.threads_at_work == 0 && started == units) return;
      stuck("no thread can go on");
    }
    if (++state.turns_without_progress > FOR_EVER) stuck("threads ask for ever");
    Fiber* fiber = next_fiber();
    current = fiber;
    emulator_change_over(&state.scheduler, &fiber->context);
    if (fiber->waits == Waits::ENDED) {
      Block& block = *fiber->block_of;
      if (block.ended == launch.threads) block_ended(block);
      Cluster* cluster = block.cluster;
      if (cluster->ended == cluster->threads) {
        for (u32 k = 0; k < state.copying.count;) {
          if (state.copying.items[k]->block_of->cluster == cluster) {
            state.copying.take(k);
          } else {
            ++k;
          }
        }
        for (u32 k = 0; k < state.clusters.count; ++k) {
          if (state.clusters.items[k] == cluster) state.clusters.take(k);
        }
        state.threads_at_work -= cluster->threads;
        free_cluster(cluster);
      }
    }
    current = nullptr;
  }
}

// 0, or 1 and a message.
extern "C" __attribute__((visibility("default"))) int emulator_launch(
    const Launch* launch, char* message, u32 message_bytes) {
  static u8 signal_stack[64 * 1024];
  state.launch = launch;
  state.message = message;
  state.message_bytes = message_bytes;
  state.random = launch->seed * 2654435761u + 88172645463325252ull;
  for (int k = 0; k < 8; ++k) random_below(2);
  state.priorities = random_below(4);
  constexpr u64 LATE[] = {2, 16, 256, 4096};
  constexpr u64 SLOW[] = {1, 4, 32, 1 << 30};
  state.late = LATE[random_below(4)];
  state.slow = SLOW[random_below(4)];
  state.turns_without_progress = 0;
  current = nullptr;

  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  stack_t ours = {}, theirs;
  ours.ss_sp = signal_stack;
  ours.ss_size = sizeof(signal_stack);
  sigaltstack(&ours, &theirs);
  for (int k = 0; k < 4; ++k) sigaction(SIGNALS[k], &action, &handlers[k]);
  const u32 mode = flush_subnormals(launch->flush_subnormals);

  const int failed = sigsetjmp(state.home, 1);
  state.running = true;
  u64* problem = (u64*)launch->parameters[0];
  if (!failed) {
    for (u32 k = 0; k < launch->memory_count; ++k) move_there(launch->memories[k]);
    for (u32 k = 0; k < launch->tensors && launch->capability >= 90; ++k) problem[k] += NOT_YET;
    run_all();
    for (u32 k = 0; k < launch->tensors && launch->capability >= 90; ++k) problem[k] -= NOT_YET;
    for (u32 k = 0; k < launch->memory_count; ++k) move_back(launch->memories[k], state.moved.items[k]);
  }
  state.running = false;

  flush_subnormals(mode);
  for (int k = 0; k < 4; ++k) sigaction(SIGNALS[k], &handlers[k], nullptr);
  sigaltstack(&theirs, nullptr);
  for (Cluster* cluster : state.clusters) free_cluster(cluster);
  for (u8* window : state.windows) munmap(window, WINDOW);
  for (Moved& moved : state.moved) munmap(moved.pages, moved.page_bytes);
  state.ready.count = state.asleep.count = state.copying.count = state.deliveries.count = 0;
  state.clusters.count = state.variables.count = 0;
  state.windows.count = state.free_windows.count = state.moved.count = state.threads_at_work = 0;
  current = nullptr;
  return failed;
}
