// Prints comparisons and counts passes and failures.

#include "tests/golden/report.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"

namespace comera::golden {

void Report::BeginFile(const std::string& name) { file_ = name; }

void Report::CompareTensor(const std::string& name,
                           const std::vector<float>& actual,
                           const std::vector<float>& reference,
                           double tolerance, double floor) {
  if (actual.size() != reference.size()) {
    Check(name, false,
          absl::StrFormat("%d values, reference has %d", actual.size(),
                          reference.size()));
    return;
  }
  double difference = 0, scale = floor;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double d = std::fabs(double{actual[i]} - double{reference[i]});
    // Unlike max(), this keeps a NaN.
    if (!(d <= difference)) difference = d;
    scale = std::max(scale, std::fabs(double{reference[i]}));
  }
  const double error = difference == 0 ? 0
                       : scale == 0    ? std::numeric_limits<double>::infinity()
                                       : difference / scale;
  Check(
      name, error <= tolerance,
      absl::StrFormat("relative error %.2e (at most %.0e)", error, tolerance));
}

void Report::CompareChange(const std::string& name,
                           const std::vector<float>& initial,
                           const std::vector<float>& actual,
                           const std::vector<float>& reference,
                           double tolerance) {
  if (actual.size() != reference.size() || initial.size() != actual.size()) {
    Check(name, false, "another number of values than the reference");
    return;
  }
  double difference = 0, change = 0, largest = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double d = std::fabs(double{actual[i]} - double{reference[i]});
    // Unlike max(), this keeps a NaN.
    if (!(d <= difference)) difference = d;
    change = std::max(change,
                      std::fabs(double{reference[i]} - double{initial[i]}));
    largest = std::max(largest, std::fabs(double{reference[i]}));
  }
  const double rounding = 2 * 0x1p-23 * largest;
  const double error = difference / change;
  Check(name, change > 0 && difference <= tolerance * change + rounding,
        absl::StrFormat("relative error of the change %.2e (at most %.0e, and "
                        "%.0e of rounding)",
                        error, tolerance, rounding / change));
}

void Report::Note(const std::string& text) {
  *out_ << "note  " << file_ << "  " << text << "\n";
}

void Report::Skip(const std::string& why) {
  ++skipped_;
  *out_ << "skip  " << file_ << "  " << why << "\n";
}

void Report::Check(const std::string& name, bool passed,
                   const std::string& detail) {
  ++(passed ? passed_ : failed_);
  *out_ << (passed ? "ok    " : "FAIL  ") << file_ << "  " << name << "  "
        << detail << "\n";
}

void Report::PrintTotals() {
  *out_ << passed_ << " passed, " << failed_ << " failed" << std::endl;
}

}  // namespace comera::golden
