// PTX's arithmetic on the host: bits in, bits out, rounded and flushed as the device does it. Functions end in the type
// that they are about where C++ would guess. Approximations are nearer than the device's own.
#pragma once
#include <fenv.h>
#include <math.h>
#include <string.h>

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using s8 = signed char;
using s16 = short;
using s32 = int;
using s64 = long long;
using u128 = unsigned __int128;
using s128 = __int128;
using f32 = float;
using f64 = double;

struct f16 { u16 bits; };
struct bf16 { u16 bits; };

template <class To, class From>
static inline To as(From from) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

// --- Between float types ---------------------------------------------------------------------------------------------

// A double in `exponent` and `mantissa` bits, rounded once.
static u32 narrowed(f64 v, int exponent, int mantissa, int rounding) {
  const u64 bits = as<u64>(v), rest = bits << 1 >> 1;
  const u32 sign = (u32)(bits >> 63) << (exponent + mantissa), infinity = ((1u << exponent) - 1) << mantissa;
  if (rest > 0x7ff0000000000000) return (1u << (exponent + mantissa)) - 1;
  if (rest == 0x7ff0000000000000) return sign | infinity;
  if (rest == 0) return sign;
  const int least = 1023 - (1 << (exponent - 1)) + 2;  // exponent, in a double's bits, of the least normal number
  const int here = rest >> 52 ? (int)(rest >> 52) : 1;
  const u64 digits = (rest & 0xfffffffffffff) | (rest >> 52 ? 1ull << 52 : 0);
  const int drop = 52 - mantissa + (here < least ? least - here : 0);
  const u64 kept = drop > 60 ? 0 : digits >> drop, tail = drop > 60 ? 1 : digits & ((1ull << drop) - 1);
  const u64 half = drop > 60 ? 2 : 1ull << (drop - 1);
  const bool away = rounding == FE_UPWARD ? !sign : rounding == FE_DOWNWARD ? sign != 0 : false;
  u64 made = kept;
  if (rounding == FE_TONEAREST) made += tail > half || (tail == half && (kept & 1));
  else made += tail != 0 && away;
  if (here >= least) made += (u64)(here - least) << mantissa;  // the leading digit counts as one of the exponent
  if (made >= infinity) made = rounding == FE_TONEAREST || away ? infinity : infinity - 1;
  return sign | (u32)made;
}

static inline f32 to_f32(f16 v) {
  const u32 sign = (u32)(v.bits >> 15) << 31, exponent = v.bits >> 10 & 31, digits = v.bits & 0x3ff;
  if (exponent == 31) return as<f32>(digits ? 0x7fffffff : sign | 0x7f800000);
  if (exponent) return as<f32>(sign | (exponent + 112) << 23 | digits << 13);
  return (sign ? -1.0f : 1.0f) * (f32)digits * 0x1p-24f;
}
static inline f32 to_f32(bf16 v) { return as<f32>((u32)v.bits << 16); }
static inline f32 to_f32(f32 v) { return v; }
static inline f64 to_f64(f16 v) { return to_f32(v); }
static inline f64 to_f64(bf16 v) { return to_f32(v); }
static inline f64 to_f64(f32 v) { return v; }
static inline f64 to_f64(f64 v) { return v; }
static inline f64 to_f64(s64 v) { return (f64)v; }

static inline f16 to_f16(f64 v, int rounding = FE_TONEAREST) { return {(u16)narrowed(v, 5, 10, rounding)}; }
static inline bf16 to_bf16(f64 v, int rounding = FE_TONEAREST) { return {(u16)narrowed(v, 8, 7, rounding)}; }
// The nearest float8_e4m3fn, the largest of what is larger.
static inline u8 to_e4m3(f32 v) {
  if (v != v) return 0x7f;
  int exponent;
  const f64 size = fmin(fabs((f64)v), 448);
  frexp(size, &exponent);
  const int last = size < 0x1p-6 ? -9 : exponent - 4;  // the exponent of the last place
  return (u8)((signbit(v) ? 0x80 : 0) | (((last + 9) << 3) + (int)nearbyint(ldexp(size, -last))));
}
static inline f32 canonical(f32 v) { return v != v ? as<f32>(0x7fffffffu) : v; }
static inline f64 canonical(f64 v) { return v; }
static inline f32 to_f32(f64 v, int rounding) { return as<f32>(narrowed(v, 8, 23, rounding)); }
static inline f32 to_f32(f64 v) { return canonical((f32)v); }

template <class T> struct From64;
template <> struct From64<f16> { static f16 of(f64 v) { return to_f16(v); } };
template <> struct From64<bf16> { static bf16 of(f64 v) { return to_bf16(v); } };
template <> struct From64<f32> { static f32 of(f64 v) { return to_f32(v); } };
template <> struct From64<f64> { static f64 of(f64 v) { return v; } };

static inline f32 ftz(f32 v) { return fabsf(v) < 0x1p-126f ? copysignf(0.0f, v) : v; }
static inline f16 ftz(f16 v) { return v.bits & 0x7c00 ? v : f16{(u16)(v.bits & 0x8000)}; }
static inline f32 saturated(f32 v) { return v > 0 ? v < 1 ? v : 1.0f : 0.0f; }

// --- Sums, products, quotients ---------------------------------------------------------------------------------------

static inline f32 add(f32 a, f32 b) { return canonical(a + b); }
static inline f32 sub(f32 a, f32 b) { return canonical(a - b); }
static inline f32 mul(f32 a, f32 b) { return canonical(a * b); }
static inline f32 quotient(f32 a, f32 b) { return canonical(a / b); }
static inline f32 multiply_add(f32 a, f32 b, f32 c) { return canonical(__builtin_fmaf(a, b, c)); }
static inline f64 add(f64 a, f64 b) { return a + b; }
static inline f64 sub(f64 a, f64 b) { return a - b; }
static inline f64 mul(f64 a, f64 b) { return a * b; }
static inline f64 quotient(f64 a, f64 b) { return a / b; }
static inline f64 multiply_add(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }

// Of halves: a double's sum is rounded to odd first, so that rounding it again can't err.
static inline f64 odd_sum(f64 a, f64 b) {
  const f64 sum = a + b, of_b = sum - a, error = (a - (sum - of_b)) + (b - of_b);
  if (error == 0 || !isfinite(sum) || as<u64>(sum) & 1) return sum;
  return as<f64>(as<u64>(sum) + ((error > 0) == (sum > 0) ? 1 : -1));
}
template <class T> static inline T add(T a, T b) { return From64<T>::of(odd_sum(to_f64(a), to_f64(b))); }
template <class T> static inline T sub(T a, T b) { return From64<T>::of(odd_sum(to_f64(a), -to_f64(b))); }
template <class T> static inline T mul(T a, T b) { return From64<T>::of(to_f64(a) * to_f64(b)); }
template <class T> static inline T multiply_add(T a, T b, T c) {
  return From64<T>::of(odd_sum(to_f64(a) * to_f64(b), to_f64(c)));
}

// Rounded otherwise than to nearest: operands and result pass through memory, which the compiler can't look ahead of.
#define ROUNDED(name, operation)                              \
  template <class T>                                          \
  static T name(int rounding, T a, T b = T(), T c = T()) {          \
    volatile T x = a, y = b, z = c;                           \
    fesetround(rounding);                                     \
    const T p = x, q = y, r = z;                              \
    volatile T made = operation;                              \
    fesetround(FE_TONEAREST);                                 \
    (void)r;                                                  \
    return canonical((T)made);                                \
  }
ROUNDED(add_rounded, p + q)
ROUNDED(sub_rounded, p - q)
ROUNDED(mul_rounded, p * q)
ROUNDED(quotient_rounded, p / q)
ROUNDED(multiply_add_rounded, sizeof(T) == 4 ? (T)fmaf((f32)p, (f32)q, (f32)r) : (T)fma((f64)p, (f64)q, (f64)r))

// div.approx and div.full: a quotient of a divisor beyond 2^126 is zero, of the first.
static inline f32 quotient_approx(f32 a, f32 b) {
  if (isfinite(b) && fabsf(b) > 0x1p126f) return isinf(a) ? as<f32>(0x7fffffffu) : copysignf(0, copysignf(1, a) * b);
  return quotient(a, b);
}

static inline f32 power_of_two(f32 v) { return to_f32(exp2((f64)v)); }
static inline f32 reciprocal(f32 v) { return canonical(1 / v); }
static inline f64 reciprocal(f64 v) { return 1 / v; }
static inline f32 root(f32 v) { return canonical(sqrtf(v)); }
static inline f64 root(f64 v) { return sqrt(v); }
static inline f32 reciprocal_root(f32 v) { return to_f32(1 / sqrt((f64)v)); }
static inline f64 reciprocal_root(f64 v) { return 1 / sqrt(v); }
template <class T> static inline T power_of_two(T v) { return From64<T>::of(exp2(to_f64(v))); }

// rcp.approx.ftz.f64 looks at the upper half alone, and so do we: what corrects it must cope.
static inline f64 reciprocal_upper(f64 v) { return as<f64>(as<u64>(1 / as<f64>(as<u64>(v) >> 32 << 32)) >> 32 << 32); }
static inline f64 reciprocal_root_upper(f64 v) {
  return as<f64>(as<u64>(1 / sqrt(as<f64>(as<u64>(v) >> 32 << 32))) >> 32 << 32);
}

// --- Least and largest -----------------------------------------------------------------------------------------------

// Of words of T's size, `infinity` the bits of that: -0 is below +0, and a NaN is dropped, or `spreads` as the canonical.
template <class T>
static inline T extreme(T a, T b, T infinity, bool least, bool spreads) {
  const T sign = (T)((T)1 << (8 * sizeof(T) - 1));
  const T canonical = sizeof(T) == 8 ? (T)(infinity | infinity >> 1) : (T)(sign - 1);
  const bool a_is_nan = (T)(a & (T)~sign) > infinity, b_is_nan = (T)(b & (T)~sign) > infinity;
  if (spreads ? a_is_nan || b_is_nan : a_is_nan && b_is_nan) return canonical;
  if (a_is_nan || b_is_nan) return a_is_nan ? b : a;
  const T x = (T)(a & sign ? (T)~a : (T)(a | sign)), y = (T)(b & sign ? (T)~b : (T)(b | sign));
  return (x < y) == least ? a : b;
}

#define EXTREME(type, word, infinity)                                                     \
  static inline type least(type a, type b, bool spreads = false) {                        \
    return as<type>(extreme<word>(as<word>(a), as<word>(b), infinity, true, spreads));    \
  }                                                                                       \
  static inline type largest(type a, type b, bool spreads = false) {                      \
    return as<type>(extreme<word>(as<word>(a), as<word>(b), infinity, false, spreads));   \
  }
EXTREME(f16, u16, 0x7c00)
EXTREME(bf16, u16, 0x7f80)
EXTREME(f32, u32, 0x7f800000)
EXTREME(f64, u64, 0x7ff0000000000000)

// Of integers.
template <class T> static inline T lesser(T a, T b) { return b < a ? b : a; }
template <class T> static inline T greater(T a, T b) { return b > a ? b : a; }

// --- Two halves in a word --------------------------------------------------------------------------------------------

template <class T, class F>
static inline u32 each(u32 a, u32 b, u32 c, F f) {
  const T low = f(T{(u16)a}, T{(u16)b}, T{(u16)c});
  const T high = f(T{(u16)(a >> 16)}, T{(u16)(b >> 16)}, T{(u16)(c >> 16)});
  return (u32)high.bits << 16 | low.bits;
}

// Two integers in a word.
template <class T, class F>
static inline u32 each_integer(u32 a, u32 b, F f) {
  return (u32)(u16)f((T)(a >> 16), (T)(b >> 16)) << 16 | (u16)f((T)a, (T)b);
}

// --- Integers from floats --------------------------------------------------------------------------------------------

static inline f64 whole(f64 v, int rounding) {
  return rounding == FE_TONEAREST ? nearbyint(v) : rounding == FE_UPWARD ? ceil(v)
       : rounding == FE_DOWNWARD ? floor(v) : trunc(v);
}
// Held to the range of T; `from64`: whether it was a double.
template <class T>
static inline T integer(f64 v, int rounding, bool from64) {
  constexpr bool is_signed = (T)-1 < (T)0;
  constexpr T highest = is_signed ? (T)(((u64)1 << (8 * sizeof(T) - 1)) - 1) : (T)-1, lowest = (T)(-highest - 1);
  if (v != v) return from64 && sizeof(T) == 8 ? (T)(1ull << 63) : (T)0;
  v = whole(v, rounding);
  if (v >= ldexp(1, 8 * sizeof(T) - is_signed)) return highest;
  if (is_signed ? v < -ldexp(1, 8 * sizeof(T) - 1) : v < 0) return is_signed ? lowest : (T)0;
  return (T)v;
}

// Whatever is divided by zero has all bits; the least of all by -1 is itself.
template <class T> static inline T divided(T a, T b) {
  return b == 0 ? (T)-1 : (T)-1 < (T)0 && b == (T)-1 ? (T)(0 - (u64)a) : (T)(a / b);
}
template <class T> static inline T remaining(T a, T b) {
  return b == 0 ? a : (T)-1 < (T)0 && b == (T)-1 ? (T)0 : (T)(a % b);
}

// --- Bits ------------------------------------------------------------------------------------------------------------

template <class T> static inline T shifted_left(T v, u32 by) { return by >= 8 * sizeof(T) ? (T)0 : (T)(v << by); }
template <class T> static inline T shifted_right(T v, u32 by) {
  const u32 most = 8 * sizeof(T) - 1;
  return by > most ? ((T)-1 < (T)0 ? (T)(v >> most) : (T)0) : (T)(v >> by);
}
static inline u32 funnel(u32 low, u32 high, u32 by, bool left, bool wraps) {
  const u32 n = wraps ? by & 31 : by > 32 ? 32 : by;
  const u64 both = (u64)high << 32 | low;
  return left ? (u32)(both << n >> 32) : n == 32 ? high : (u32)(both >> n);
}
// Of an unsigned T.
template <class T> static inline T low_bits(u32 count) { return count >= 8 * sizeof(T) ? (T)-1 : ((T)1 << count) - 1; }
template <class T> static inline T field(T v, u32 at, u32 bits, bool is_signed) {
  constexpr u32 most = 8 * sizeof(T);
  at &= 255, bits &= 255;
  if (bits == 0) return 0;
  const u32 top = at + bits - 1 < most - 1 ? at + bits - 1 : most - 1, inside = at < most ? top + 1 - at : 0;
  const T made = shifted_right<T>(v, at) & low_bits<T>(inside);
  return is_signed && v >> top & 1 ? made | (T)~low_bits<T>(inside) : made;
}
template <class T> static inline T inserted(T from, T into, u32 at, u32 bits) {
  const T mask = shifted_left<T>(low_bits<T>(bits & 255), at & 255);
  return (into & ~mask) | (shifted_left<T>(from, at & 255) & mask);
}
static inline u32 logic3(u32 a, u32 b, u32 c, u32 table) {
  u32 made = 0;
  for (u32 k = 0; k < 8; ++k) {
    if (table >> k & 1) made |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  }
  return made;
}
static inline u32 bytes_of(u32 a, u32 b, u32 chosen) {
  const u64 both = (u64)b << 32 | a;
  u32 made = 0;
  for (u32 k = 0; k < 4; ++k) {
    const u32 which = chosen >> 4 * k & 15;
    u32 byte = (u32)(both >> 8 * (which & 7)) & 255;
    if (which & 8) byte = byte & 128 ? 255 : 0;
    made |= byte << 8 * k;
  }
  return made;
}
