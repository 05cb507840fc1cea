// What a translated kernel is written in: a thread, its memory, and what it asks of the machine that runs it.
//
// A kernel is a function that runs one thread until it waits for others; what it holds across that is in a struct behind
// `Thread`, and `at` says where it goes on. machine.cpp decides who runs.
#pragma once
#include "numbers.hpp"

#pragma GCC visibility push(default)

struct Index { u32 x, y, z; };
struct Block;
struct Warp;
struct Copy;

template <class T>
struct List {
  T* items;
  u32 count, room;
};

struct Thread {
  u32 at;         // where it goes on
  u32 statement;  // the one that it is at, for messages
  u32 number, lane;
  Index index;
  Block* block;
  Warp* warp;
  u8* local;  // its own memory
  u64 received[4];
  bool agreed;
  bool goes_on;  // behind the launches before this one
  u32 fuel;
  u32 waits, waits_at;
  List<Copy> copies;
  u32 group;  // of copies, not yet committed
  u32 cluster_phase;  // of the cluster's barrier at which it arrived last; odd while it has not waited for it
};

enum Stopped : u32 { ENDED, WAITS, LATER };

struct Launch {
  u32 (*step)(Thread&, const u8* parameters);
  const u8* parameters;
  u32 grid[3], block[3], cluster[3];
  u32 resident;  // blocks at once; 0: some
  u32 thread_bytes, local_bytes, static_bytes, dynamic_at, shared_end;
  u64 seed;
  const struct Span* spans;
  u32 span_count, checks_spans, dependent;
};

// Memory that a launch was given.
struct Span { u64 from, bytes; u32 written; };

// As the kernel sees memory: its own shared memory begins behind what the system takes of it.
constexpr u32 SHARED_BEGINS = 1024;
constexpr u32 ADDRESS = 0xffffff;         // of an address in shared memory: the place; above it, a block's rank and one
constexpr u64 GENERIC_SHARED = 1ull << 60;

extern const Launch* launch;
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
Index block_index(const Thread& t);
Index cluster_index(const Thread& t);
u32 rank_in_cluster(const Thread& t);

// --- Memory ----------------------------------------------------------------------------------------------------------

extern Span last_span;
void find_span(u64 address, u32 bytes, bool writes);
u8* shared_place(Thread& t, u32 address, u32 bytes, Block** found = nullptr);

static inline void aligned(u64 address, u32 bytes) {
  if (address & (bytes - 1)) fail("%u bytes at 0x%llx, which is no multiple of them", bytes, address);
}

template <class T = u8>
static inline T* in_global(u64 address, u32 bytes, bool writes) {
  aligned(address, bytes);
  if (address - last_span.from > last_span.bytes - bytes || last_span.bytes < bytes || (writes && !last_span.written)) {
    find_span(address, bytes, writes);
  }
  return (T*)address;
}
static inline u8* in_shared(Thread& t, u64 address, u32 bytes) {
  aligned(address, bytes);
  return shared_place(t, (u32)address, bytes);
}
static inline u8* in_local(Thread& t, u64 address, u32 bytes) {
  aligned(address, bytes);
  const u64 place = address - (u64)t.local;
  if (place > launch->local_bytes || place + bytes > launch->local_bytes) fail("0x%llx is not in local memory", address);
  return (u8*)address;
}
static inline u8* anywhere(Thread& t, u64 address, u32 bytes, bool writes) {
  if (address & GENERIC_SHARED) return in_shared(t, address & ~GENERIC_SHARED, bytes);
  if (address - (u64)t.local < launch->local_bytes) return in_local(t, address, bytes);
  return in_global(address, bytes, writes);
}
template <class T> static inline T loaded(const u8* from) {
  T made;
  memcpy(&made, from, sizeof(T));
  return made;
}
template <class T> static inline void stored(u8* to, T value) { memcpy(to, &value, sizeof(T)); }

// --- With others -----------------------------------------------------------------------------------------------------
//
// These return whether the thread must stop; it then goes on behind them.

bool ask_later(Thread& t);  // before it looks at what others write, again and again
bool pause(Thread& t);      // before it does what others see

enum Meeting : u32 { SYNC, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, SHUFFLE_INDEX, REDUCE, LOAD_MATRIX, STORE_MATRIX };
bool meet_lanes(Thread& t, Meeting what, u32 mask, u32 number, u64 a = 0, u64 b = 0, u64 c = 0, u64 d = 0, u64 e = 0);
enum Reduction : u64 { SUM, LEAST_SIGNED, LEAST_UNSIGNED, LARGEST_SIGNED, LARGEST_UNSIGNED };

bool sync_threads(Thread& t, u32 barrier, u32 threads);  // 0: all

void cluster_arrive(Thread& t);
bool cluster_wait(Thread& t);
u32 mapped(u32 address, u32 rank);

// --- Copies ----------------------------------------------------------------------------------------------------------

void copy(Thread& t, u32 to, u64 from, u32 bytes, u32 taken);
void commit_copies(Thread& t);
void wait_for_copies(Thread& t, u32 groups_left);
void copy_bulk(Thread& t, u32 to, u64 from, u32 bytes, u32 barrier);
void store_async(Thread& t, u32 to, const void* value, u32 bytes, u32 barrier);

void barrier_init(Thread& t, u32 at, u32 arrivals);
u64 barrier_arrive(Thread& t, u32 at, u32 expected_bytes);
bool barrier_passed(Thread& t, u32 at, u32 parity);

#pragma GCC visibility pop

// What an atomic operation makes of what is there.
template <class T, class F>
static inline T changed(u8* at, F change) {
  const T before = loaded<T>(at);
  stored<T>(at, change(before));
  return before;
}
