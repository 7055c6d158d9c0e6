// What every kernel sees: vectors, exp, tile registers, and parallel loops on torch's own thread pool. Vectors hold as many
// floats as a register of the processor, a divisor of 16: compilers split longer ones at a loss, of a factor of ten at worst.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#ifdef __SSE2__
#include <immintrin.h>
#endif
#if defined(__AMX_BF16__) && defined(__linux__)
#define TILES
#include <sys/syscall.h>
#include <unistd.h>
#endif

#ifdef __AVX512F__
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t VecInt __attribute__((vector_size(4 * LANES)));

static inline Vec load(const float* from) {
    Vec x;
    std::memcpy(&x, from, sizeof x);
    return x;
}

static inline void store(float* to, Vec x) { std::memcpy(to, &x, sizeof x); }

typedef uint32_t VecUnsigned __attribute__((vector_size(4 * LANES)));
typedef uint16_t VecHalf __attribute__((vector_size(2 * LANES)));

// Floats, or bfloat16 where `half` is set.
static inline Vec take(const void* from, bool half, int64_t at) {
    if (!half) return load((const float*)from + at);
    VecHalf bits;
    std::memcpy(&bits, (const uint16_t*)from + at, sizeof bits);
    VecUnsigned wide = __builtin_convertvector(bits, VecUnsigned) << 16;
    Vec x;
    std::memcpy(&x, &wide, sizeof x);
    return x;
}

// To the nearest bfloat16, ties to even; NaN stays NaN.
static inline void put(void* to, bool half, int64_t at, Vec x) {
    if (!half) return store((float*)to + at, x);
    VecUnsigned bits;
    std::memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    VecInt number = x == x;
    bits = (bits & (VecUnsigned)number) | (~(VecUnsigned)number & 0x7fc0);
    VecHalf rounded = __builtin_convertvector(bits, VecHalf);
    std::memcpy((uint16_t*)to + at, &rounded, sizeof rounded);
}

static inline Vec fill(float x) { return Vec{} + x; }

static inline float sum(Vec x) {
    typedef float Four __attribute__((vector_size(16)));
    Four parts[LANES / 4];
    std::memcpy(parts, &x, sizeof x);
    for (int stride = LANES / 8; stride; stride /= 2)
        for (int i = 0; i < stride; i++) parts[i] += parts[i + stride];
    return (parts[0][0] + parts[0][2]) + (parts[0][1] + parts[0][3]);
}

// Number, number + 1, and so on.
static inline VecInt counted_from(int32_t number) {
    VecInt counted;
    for (int i = 0; i < LANES; i++) counted[i] = i;
    return counted + number;
}

static inline Vec where(VecInt test, Vec yes, Vec no) { return test ? yes : no; }

// The smaller and the larger of x and a limit; NaN stays NaN.
static inline Vec at_most(Vec x, float limit) {
#if defined(__AVX512F__)
    return (Vec)_mm512_maskz_min_ps(0xFFFF, (__m512)fill(limit), (__m512)x);
#elif defined(__AVX__)
    return (Vec)_mm256_min_ps((__m256)fill(limit), (__m256)x);
#elif defined(__SSE2__)
    return (Vec)_mm_min_ps((__m128)fill(limit), (__m128)x);
#else
    return where(fill(limit) < x, fill(limit), x);
#endif
}

static inline Vec at_least(Vec x, float limit) {
#if defined(__AVX512F__)
    return (Vec)_mm512_maskz_max_ps(0xFFFF, (__m512)fill(limit), (__m512)x);
#elif defined(__AVX__)
    return (Vec)_mm256_max_ps((__m256)fill(limit), (__m256)x);
#elif defined(__SSE2__)
    return (Vec)_mm_max_ps((__m128)fill(limit), (__m128)x);
#else
    return where(fill(limit) > x, fill(limit), x);
#endif
}

// 1 / x to the last bit or two, for normal x.
static inline Vec reciprocal(Vec x) {
#ifdef __AVX512F__
    Vec rough = (Vec)_mm512_maskz_rcp14_ps(0xFFFF, (__m512)x);
    return rough + rough * (1.0f - x * rough);
#else
    return 1.0f / x;
#endif
}

// e^x to 2 units in the last place for -87 <= x <= 88; smaller arguments give 0, larger ones infinity, NaN stays NaN.
static inline Vec exp(Vec x) {
    const Vec magic = fill(12582912.0f);  // 1.5 · 2²³: adding it rounds to an integer
    Vec clamped = at_least(at_most(x, 89.0f), -87.3f);
    Vec rounded = clamped * 1.44269504f + magic;
    Vec n = rounded - magic;
    Vec r = clamped - n * 0.693359375f + n * 2.12194440e-4f;
    Vec p = fill(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    VecInt bits;
    std::memcpy(&bits, &rounded, sizeof bits);
    VecInt half = (bits - 0x4B400000) >> 1, rest = (bits - 0x4B400000) - half;
    VecInt low = (half + 127) << 23, high = (rest + 127) << 23;  // 2ⁿ in two factors, for n up to 128
    Vec scale_low, scale_high;
    std::memcpy(&scale_low, &low, sizeof low);
    std::memcpy(&scale_high, &high, sizeof high);
    p = p * scale_low * scale_high;
    p = where(x < fill(-87.3f), Vec{}, p);
    return where(x != x, x, where(x > fill(88.72284f), fill(INFINITY), p));
}

#ifdef __AVX512F__
// Rows of a block of 16 × 16 become its columns: pairs, fours, eights and sixteens change places.
static inline void transpose(__m512 (&x)[16]) {
    __m512 y[16];
    for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            __m512d low = _mm512_castps_pd(y[i + j]), high = _mm512_castps_pd(y[i + j + 2]);
            x[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            x[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    for (int i = 0; i < 4; i++) {
        y[i] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0x88);
        y[i + 4] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0xdd);
        y[i + 8] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0x88);
        y[i + 12] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        x[i] = _mm512_shuffle_f32x4(y[i], y[i + 8], 0x88);
        x[i + 8] = _mm512_shuffle_f32x4(y[i], y[i + 8], 0xdd);
    }
}
#endif

// Whether products of matrices may run on tile registers: where the processor has AMX and the system, which must be asked
// once, lets this process use it.
static bool tiles_wanted = true;

static inline bool has_tiles() {
#ifdef TILES
    static const bool allowed = syscall(SYS_arch_prctl, 0x1023, 18) == 0;
    return allowed && tiles_wanted;
#else
    return false;
#endif
}

extern "C" {
int64_t uses_tiles() { return has_tiles(); }

// This kernel runs on the vector registers alone from here on, or on tiles again where there are any.
void want_tiles(int64_t yes) { tiles_wanted = yes != 0; }
}

#ifdef TILES
// All eight registers of this thread hold 16 rows of 64 bytes, until this goes. Compilers do not know that a tile is read
// from memory: `tiles_read` before the first one makes them write what they have put off.
struct TileRegisters {
    TileRegisters() {
        struct Shape {
            uint8_t palette, start, reserved[14];
            uint16_t bytes[16];
            uint8_t rows[16];
        };
        alignas(64) static const Shape shape = {
            1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
        _tile_loadconfig(&shape);
    }
    ~TileRegisters() { _tile_release(); }
};

static inline void tiles_read() { __asm__ volatile("" ::: "memory"); }
#endif

// torch's OpenMP runtime, where it is loaded; without it loops run on one thread.
extern "C" void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags) __attribute__((weak));

// Calls body(task) for every task below `tasks`, each exactly once, on up to `threads` threads.
template <class Body>
static void parallel(int64_t tasks, int64_t threads, const Body& body) {
    struct Shared {
        std::atomic<int64_t> next;
        int64_t tasks;
        const Body* body;
    } shared{{0}, tasks, &body};
    if (threads > tasks) threads = tasks;
    if (threads <= 1 || !GOMP_parallel) {
        for (int64_t task = 0; task < tasks; task++) body(task);
        return;
    }
    GOMP_parallel(
        [](void* data) {
            Shared& shared = *static_cast<Shared*>(data);
            for (int64_t task; (task = shared.next++) < shared.tasks;) (*shared.body)(task);
        },
        &shared, (unsigned)threads, 0);
}
