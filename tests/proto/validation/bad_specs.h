// Helpers for tables of bad specifications.
#ifndef COMERA_TESTS_PROTO_VALIDATION_BAD_SPECS_H_
#define COMERA_TESTS_PROTO_VALIDATION_BAD_SPECS_H_

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/validation/job_validation.h"

namespace comera {

using Spec = v1::JobSpec;

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

inline std::string Describe(const std::vector<FieldViolation>& violations) {
  std::string text;
  for (const FieldViolation& violation : violations) {
    absl::StrAppend(&text, violation.field, ": ", violation.description, "\n");
  }
  return text;
}

// A change that makes a valid spec invalid.
struct BadSpec {
  const char* field;  // the field that must be reported
  std::function<void(Spec&)> damage;
};

inline void ExpectRefused(const Spec& sound,
                          const std::vector<BadSpec>& bad_specs) {
  for (size_t i = 0; i < bad_specs.size(); ++i) {
    Spec spec = sound;
    bad_specs[i].damage(spec);
    const std::vector<FieldViolation> violations = ValidateJobSpec(spec);
    bool named = false;
    for (const FieldViolation& violation : violations) {
      named = named || violation.field == bad_specs[i].field;
      EXPECT_FALSE(violation.description.empty());
    }
    EXPECT_TRUE(named) << "row " << i << " must name " << bad_specs[i].field
                       << ", got:\n"
                       << Describe(violations);
  }
}

}  // namespace comera

#endif  // COMERA_TESTS_PROTO_VALIDATION_BAD_SPECS_H_
