// CUDA C++ as far as the kernels speak it, for a host's compiler. emulator.py puts the kernels' source behind this file,
// with inline PTX turned into calls of namespace ptx and shared memory into references; emulator.cpp runs the threads.
#pragma once
#pragma GCC visibility push(default)

namespace emulator {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

struct Index { u32 x, y, z; };
struct Thread { Index thread, block, block_size, grid_size; };

extern Thread* current;

// Ends the launch with that message about the running thread.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Lets other threads run, now and then.
void pause();

// Shared memory: the variable of that number, in the running block, and what the launch asks for besides.
void* shared_variable(u32 number, u32 bytes);
void* dynamic_shared();
u32 address_in_shared(const void* at);

template <class T> T& shared(u32 number) { return *(T*)shared_variable(number, sizeof(T)); }

// What the lanes of a warp do together, each with a value of its own.
enum class Meeting { SYNC, ALL, EXCHANGE };
u64 meet_lanes(Meeting what, u32 mask, u64 value, u32 argument);
void sync_threads(u32 barrier, u32 threads);  // 0: all of the block

template <class T>
T exchanged(u32 mask, T value, int lane_mask) {
  u64 bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = meet_lanes(Meeting::EXCHANGE, mask, bits, lane_mask);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

// The least of the numbers of type T that lie side by side in two words.
template <class T>
u32 least_side_by_side(u32 a, u32 b) {
  T x[4 / sizeof(T)], y[4 / sizeof(T)];
  __builtin_memcpy(x, &a, 4);
  __builtin_memcpy(y, &b, 4);
  for (u32 k = 0; k < 4 / sizeof(T); ++k) x[k] = y[k] < x[k] ? y[k] : x[k];
  __builtin_memcpy(&a, x, 4);
  return a;
}

template <class T>
T extreme_in_memory(T* at, T value, bool least) {
  pause();
  const T before = *at;
  if (least ? value < before : value > before) *at = value;
  return before;
}

// A kernel's parameters, as a launch passes them: an array of pointers.
template <u32... I> struct Numbers {};
template <u32 N, u32... I> struct Count : Count<N - 1, N - 1, I...> {};
template <u32... I> struct Count<0, I...> { using type = Numbers<I...>; };

template <class... A, u32... I>
void call(void (*kernel)(A...), void** parameters, Numbers<I...>) {
  kernel(*(A*)parameters[I]...);
}
template <class... A>
void call(void (*kernel)(A...), void** parameters) {
  call(kernel, parameters, typename Count<sizeof...(A)>::type{});
}

}  // namespace emulator

// --- PTX: what emulator.py puts in the place of each instruction -----------------------------------------------------

namespace ptx {

using emulator::bits_as;
using emulator::u16;
using emulator::u32;
using emulator::u64;

void launches_before_have_ended();
u64 usable(u64 address);
template <class... P>
void wait_for_launches_before(P&... addresses) {
  launches_before_have_ended();
  ((addresses = (P)usable((u64)addresses)), ...);
}

// Rounded to nearest even, subnormal numbers kept.
float half_to_float(u16 half);
u16 float_to_half(float v);
u16 float_to_bfloat(float v);
inline float bfloat_to_float(u16 v) { return bits_as<float>((u32)v << 16); }
inline u32 two_halves(float high, float low) { return (u32)float_to_half(high) << 16 | float_to_half(low); }
inline u32 two_bfloats(float high, float low) { return (u32)float_to_bfloat(high) << 16 | float_to_bfloat(low); }
float power_of_two(float v);  // subnormal numbers are zero, before and after
float reciprocal(float v);  // likewise
float product(float a, float b);  // of subnormal numbers too, though the result may be zero where it is one
float difference(float a, float b);  // likewise
u32 equal_floats(float a, float b);  // likewise: all bits, or none

// min.NaN and max, of numbers as they are in a word: -0 is below +0, and a NaN is the canonical one. A maximum drops it.
u32 least_float(u32 a, u32 b);
u32 least_halves(u32 a, u32 b);
u32 least_bfloats(u32 a, u32 b);
u32 largest_halves(u32 a, u32 b);
u32 largest_bfloats(u32 a, u32 b);

inline void aligned(const volatile void* at, u32 bytes) {
  if ((u64)at % bytes) emulator::fail("%u bytes at %p, which is no multiple of them", bytes, (const void*)at);
}
void within(const void* from, u32 bytes);  // fails if that is more than the memory that holds the first of them
inline void load(const void* from, u32& a, u32& b, u32& c, u32& d) {
  aligned(from, 16);
  within(from, 16);
  const u32* word = (const u32*)from;
  a = word[0], b = word[1], c = word[2], d = word[3];
}
inline void load_if(u32 wanted, const void* from, u32& a, u32& b, u32& c, u32& d) {
  if (wanted) load(from, a, b, c, d);
}
inline void store(void* to, u32 a, u32 b, u32 c, u32 d) {
  aligned(to, 16);
  u32* word = (u32*)to;
  word[0] = a, word[1] = b, word[2] = c, word[3] = d;
}

inline void sync(u32 barrier, u32 threads) { emulator::sync_threads(barrier, threads); }

// Between blocks, in device memory: each lets others run first.
u64 peek(const u64* at);
void send(u64* at, u64 value);
u32 count_up_to(u32* at, u32 most);
u64 add(u64* at, u64 value);

void copy(u32 to, u64 from, u32 bytes, u32 taken);  // cp.async; zeros where fewer are taken
inline void copy(u32 to, const void* from, u32 bytes) { copy(to, (u64)from, bytes, bytes); }
void commit_copies();
void wait_for_copies(u32 groups_left);
void wait_for_copies();
void arrive_behind_copies(u32 barrier);
void copy_bulk(u32 to, const void* from, u32 bytes, u32 barrier);

void make_barrier(u32 at, u32 arrivals);
void fence_barriers();
void arrive(u32 barrier);
void arrive_expecting(u32 barrier, u32 bytes);
u32 try_wait(u32 barrier, u32 parity);
u32 test_wait(u32 barrier, u32 parity);

void cluster_arrive();
void cluster_wait();
u32 cluster_rank();
u32 cluster_size();
u32 in_block(u32 address, u32 rank);
void store_remote(u32 to, u64 value, u32 barrier);

}  // namespace ptx

#pragma GCC visibility pop

// --- What CUDA C++ has built in --------------------------------------------------------------------------------------

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define threadIdx (emulator::current->thread)
#define blockIdx (emulator::current->block)
#define blockDim (emulator::current->block_size)
#define gridDim (emulator::current->grid_size)

inline void __syncthreads() { emulator::sync_threads(0, 0); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulator::meet_lanes(emulator::Meeting::SYNC, mask, 0, 0); }
inline int __all_sync(unsigned mask, int wanted) {
  return (int)emulator::meet_lanes(emulator::Meeting::ALL, mask, wanted != 0, 0);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask) {
  return emulator::exchanged(mask, value, lane_mask);
}
inline unsigned __cvta_generic_to_shared(const void* p) { return emulator::address_in_shared(p); }

template <class T> T atomicMin(T* at, T value) { return emulator::extreme_in_memory(at, value, true); }
template <class T> T atomicMax(T* at, T value) { return emulator::extreme_in_memory(at, value, false); }

inline float __int_as_float(int v) { return emulator::bits_as<float>(v); }
inline float __uint_as_float(unsigned v) { return emulator::bits_as<float>(v); }
inline unsigned __float_as_uint(float v) { return emulator::bits_as<unsigned>(v); }
inline double __longlong_as_double(long long v) { return emulator::bits_as<double>(v); }
inline int __double2hiint(double v) { return (int)(emulator::bits_as<unsigned long long>(v) >> 32); }
inline int __double2loint(double v) { return (int)emulator::bits_as<unsigned long long>(v); }
inline double __hiloint2double(int high, int low) {
  return emulator::bits_as<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline unsigned __vminu4(unsigned a, unsigned b) { return emulator::least_side_by_side<unsigned char>(a, b); }
inline unsigned __vmins4(unsigned a, unsigned b) { return emulator::least_side_by_side<signed char>(a, b); }
inline unsigned __vmins2(unsigned a, unsigned b) { return emulator::least_side_by_side<short>(a, b); }

extern "C" {
double exp(double);
float fmaxf(float, float);
float fmaf(float, float, float);
float log2f(float);
}
