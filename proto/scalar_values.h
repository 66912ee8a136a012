// Parses numbers, sizes and durations as people write them.
#ifndef COMERA_PROTO_SCALAR_VALUES_H_
#define COMERA_PROTO_SCALAR_VALUES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera {

// All functions return InvalidArgument with a message to be put after a field's
// name. `quoted` text is neither a number nor a truth value.

absl::StatusOr<bool> ParseBool(const std::string& text, bool quoted);
absl::StatusOr<int64_t> ParseInt(const std::string& text, bool quoted);
absl::StatusOr<uint64_t> ParseUint64(const std::string& text);
// The result is finite.
absl::StatusOr<double> ParseDouble(const std::string& text, bool quoted);
// Accepts 1000, 64MiB, 1.5GB.
absl::StatusOr<int64_t> ParseBytes(const std::string& text);

struct DurationParts {
  int64_t seconds;
  int32_t nanos;
};
// Accepts 1h30m, 90s; at most 10,000 years.
absl::StatusOr<DurationParts> ParseDurationText(const std::string& text);

}  // namespace comera

#endif  // COMERA_PROTO_SCALAR_VALUES_H_
