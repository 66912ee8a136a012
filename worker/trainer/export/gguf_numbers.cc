// Rounds floats to the numbers of GGUF's tensors.
#include "worker/trainer/export/gguf_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace comera::trainer {
namespace {

constexpr uint32_t kSign = 0x80000000;
// 65520, the first number that rounds to infinity.
constexpr uint32_t kOverflow = 0x477ff000;
// 2^-14: below it float16 is subnormal.
constexpr uint32_t kNormal = 0x38800000;
constexpr uint16_t kInfinity = 0x7c00;
constexpr float kMaxFloat16 = 65519.0f;
// The largest code of a block.
constexpr float kMaxCode = 127.0f;

uint32_t Bits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Little-endian, as the machines are that this runs on.
void Append16(uint16_t value, std::string* bytes) {
  bytes->push_back(static_cast<char>(value & 0xff));
  bytes->push_back(static_cast<char>(value >> 8));
}

absl::Status CheckRange(float value, float limit) {
  if (std::abs(value) <= limit) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat(value, " does not fit: the largest number is ", limit));
}

// One block: the scale, then each value divided by it.
absl::Status AppendBlock(const float* values, std::string* bytes) {
  float largest = 0;
  for (int64_t i = 0; i < kQ8Block; ++i) {
    const absl::Status fits = CheckRange(values[i], kMaxFloat16 * kMaxCode);
    if (!fits.ok()) return fits;
    largest = std::max(largest, std::abs(values[i]));
  }
  const float scale = largest / kMaxCode;
  const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
  Append16(Float16Bits(scale), bytes);
  for (int64_t i = 0; i < kQ8Block; ++i) {
    // A scale below the smallest float makes an infinite inverse.
    const float code =
        std::isfinite(inverse) ? std::round(values[i] * inverse) : 0.0f;
    bytes->push_back(static_cast<char>(
        static_cast<int8_t>(std::clamp(code, -127.f, 127.f))));
  }
  return absl::OkStatus();
}

}  // namespace

uint16_t Float16Bits(float value) {
  const uint32_t bits = Bits(value);
  const auto sign = static_cast<uint16_t>((bits & kSign) >> 16);
  const uint32_t magnitude = bits & ~kSign;
  if (magnitude >= kOverflow) return sign | kInfinity;
  if (magnitude < kNormal) {
    // Numbers from 0.5 on are as far apart as subnormal ones of float16, so
    // this addition rounds.
    return static_cast<uint16_t>(sign |
                                 (Bits(std::abs(value) + 0.5f) - Bits(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

absl::Status AppendNumbers(GgufNumber type, const float* values, int64_t count,
                           std::string* bytes) {
  switch (type) {
    case GgufNumber::kFloat32:
      bytes->append(reinterpret_cast<const char*>(values),
                    static_cast<size_t>(count) * sizeof(float));
      return absl::OkStatus();
    case GgufNumber::kFloat16:
      for (int64_t i = 0; i < count; ++i) {
        if (absl::Status fits = CheckRange(values[i], kMaxFloat16);
            !fits.ok()) {
          return fits;
        }
        Append16(Float16Bits(values[i]), bytes);
      }
      return absl::OkStatus();
    case GgufNumber::kQ8_0:
      for (int64_t i = 0; i < count; i += kQ8Block) {
        if (absl::Status added = AppendBlock(values + i, bytes); !added.ok()) {
          return added;
        }
      }
      return absl::OkStatus();
  }
  return absl::InternalError("no type of numbers");
}

}  // namespace comera::trainer
