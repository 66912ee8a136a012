// Collects violations found in a specification.
#ifndef COMERA_PROTO_VALIDATION_SPEC_CHECKER_H_
#define COMERA_PROTO_VALIDATION_SPEC_CHECKER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/validation/job_validation.h"

namespace comera {

// Appends a violation for every condition that does not hold.
class SpecChecker {
 public:
  explicit SpecChecker(std::vector<FieldViolation>* violations)
      : violations_(violations) {}

  void Add(absl::string_view field, std::string description) {
    violations_->push_back({std::string(field), std::move(description)});
  }

  // How many there are so far, those of others included.
  size_t count() const { return violations_->size(); }

  void Require(bool holds, absl::string_view field, std::string description) {
    if (!holds) Add(field, std::move(description));
  }

  // Requires low <= value <= high. Most fields cannot tell 0 from nothing.
  void Range(absl::string_view field, int64_t value, int64_t low, int64_t high,
             absl::string_view unit = "") {
    const std::string range = absl::StrCat("must be ", low, " to ", high,
                                           unit.empty() ? "" : " ", unit);
    Require(value >= low && value <= high, field,
            value == 0 ? absl::StrCat("is missing or 0; ", range)
                       : absl::StrCat(range, ", not ", value));
  }

  // Requires 0 < value <= high.
  void Weight(absl::string_view field, double value, double high) {
    Require(
        value > 0 && value <= high, field,
        absl::StrCat("must be above 0 and at most ", high, ", not ", value));
  }

  // Requires 0 <= value <= high.
  void NonNegative(absl::string_view field, double value, double high) {
    Require(value >= 0 && value <= high, field,
            absl::StrCat("must be 0 to ", high, ", not ", value));
  }

 private:
  std::vector<FieldViolation>* violations_;
};

}  // namespace comera

#endif  // COMERA_PROTO_VALIDATION_SPEC_CHECKER_H_
