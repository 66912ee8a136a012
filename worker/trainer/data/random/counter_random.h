// Random numbers as pure functions of what they are for: no state to carry,
// checkpoint or share between members. Philox 4x32-10 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011).
#ifndef COMERA_WORKER_TRAINER_DATA_RANDOM_COUNTER_RANDOM_H_
#define COMERA_WORKER_TRAINER_DATA_RANDOM_COUNTER_RANDOM_H_

#include <array>
#include <cstdint>

namespace comera::trainer {

// The purposes that random numbers are drawn for. Numbers are part of saved
// runs: a value is never reused for something else.
enum class RandomStream : uint32_t {
  kEpochOrder = 1,
  kTrainMask = 2,
  kValidationMask = 3,
  kFileOrder = 4,
  kValidationOrder = 5,
  kTestMask = 6,
  kTestOrder = 7,
  kClickTrainRow = 16,
  kClickValidationRow = 17,
  kClickWeight = 18,
  kClickSlope = 19,
  kGeneratedToken = 24,
};

// SplitMix64's finaliser: a bijection of 64 bits that scatters close inputs.
constexpr uint64_t MixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Four independent words for the place (a, b) of a stream.
constexpr std::array<uint32_t, 4> RandomWords(uint64_t seed,
                                              RandomStream stream, uint64_t a,
                                              uint64_t b) {
  const uint64_t key = MixBits(seed ^ MixBits(static_cast<uint64_t>(stream)));
  return Philox4x32(
      {static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32),
       static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)},
      {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

// In [0, 1), all 24 bits of a float's precision.
constexpr float UnitFloat(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

// In [0, n); the bias is below n / 2^32.
constexpr uint32_t BelowN(uint32_t word, uint32_t n) {
  return static_cast<uint32_t>((uint64_t{word} * n) >> 32);
}

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_RANDOM_COUNTER_RANDOM_H_
