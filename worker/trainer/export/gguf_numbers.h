// Numbers as the tensors of a GGUF file hold them.
#ifndef COMERA_WORKER_TRAINER_EXPORT_GGUF_NUMBERS_H_
#define COMERA_WORKER_TRAINER_EXPORT_GGUF_NUMBERS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace comera::trainer {

// The values are those of the format.
enum class GgufNumber : uint32_t {
  kFloat32 = 0,
  kFloat16 = 1,
  // Blocks of 32 bytes with one scale, a float16 before them.
  kQ8_0 = 8,
};

// Numbers in one block of kQ8_0.
inline constexpr int64_t kQ8Block = 32;

// The nearest float16, of two the even one; infinity from 65520 on.
uint16_t Float16Bits(float value);

// Appends `count` values, for kQ8_0 a multiple of kQ8Block. OutOfRange: a value
// is not finite, or too large for a float16 or for a block's scale.
absl::Status AppendNumbers(GgufNumber type, const float* values, int64_t count,
                           std::string* bytes);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_GGUF_NUMBERS_H_
