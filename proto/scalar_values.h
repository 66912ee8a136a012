// Numbers, sizes and durations as people write them.
#ifndef COMERA_PROTO_SCALAR_VALUES_H_
#define COMERA_PROTO_SCALAR_VALUES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera {

// All: InvalidArgument with a message that follows a field's name. `quoted`
// text is no number and no truth value.

absl::StatusOr<bool> ParseBool(const std::string& text, bool quoted);
absl::StatusOr<int64_t> ParseInt(const std::string& text, bool quoted);
absl::StatusOr<uint64_t> ParseUint64(const std::string& text);
// Finite.
absl::StatusOr<double> ParseDouble(const std::string& text, bool quoted);
// 1000, 64MiB, 1.5GB.
absl::StatusOr<int64_t> ParseBytes(const std::string& text);

struct DurationParts {
  int64_t seconds;
  int32_t nanos;
};
// 1h30m, 90s; at most 10,000 years.
absl::StatusOr<DurationParts> ParseDurationText(const std::string& text);

}  // namespace comera

#endif  // COMERA_PROTO_SCALAR_VALUES_H_
