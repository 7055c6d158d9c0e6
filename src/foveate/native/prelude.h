// What every kernel sees: vectors, exp, and parallel loops on torch's own thread pool.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

typedef float Vec __attribute__((vector_size(64)));
typedef int32_t VecInt __attribute__((vector_size(64)));
constexpr int LANES = 16;

static inline Vec load(const float* from) {
    Vec x;
    std::memcpy(&x, from, sizeof x);
    return x;
}

static inline void store(float* to, Vec x) { std::memcpy(to, &x, sizeof x); }

static inline Vec fill(float x) { return Vec{} + x; }

static inline float sum(Vec x) {
    float parts[LANES], total = 0;
    store(parts, x);
    for (int stride = LANES / 2; stride; stride /= 2)
        for (int i = 0; i < stride; i++) parts[i] += parts[i + stride];
    total = parts[0];
    return total;
}

static inline Vec where(VecInt test, Vec yes, Vec no) {
    VecInt a, b;
    std::memcpy(&a, &yes, sizeof a);
    std::memcpy(&b, &no, sizeof b);
    VecInt chosen = (test & a) | (~test & b);
    std::memcpy(&yes, &chosen, sizeof yes);
    return yes;
}

// e^x to 2 units in the last place for -87 <= x <= 88; smaller arguments give 0, larger ones infinity, NaN stays NaN.
static inline Vec exp(Vec x) {
    const Vec magic = fill(12582912.0f);  // 1.5 · 2²³: adding it rounds to an integer
    Vec clamped = where(x > fill(89.0f), fill(89.0f), where(x < fill(-87.3f), fill(-87.3f), x));
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
