// Implements the draws of random runs with a generator of their own, since
// those of the standard library differ between libraries.

#include "proto/sweep/random_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "comera/v1/job.pb.h"
#include "proto/spec_field.h"
#include "proto/sweep/sweep_plan.h"

namespace comera {
namespace {

constexpr int kMaxFields = 16;
// 2^53, so that every whole number below it is a double.
constexpr double kMaxWhole = 9007199254740992.0;

// SplitMix64 (Steele, Lea and Flood 2014): a bijection whose outputs for
// consecutive numbers are independent for all that matters here.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// In [0, 1).
double Uniform(uint64_t seed, int run, int field) {
  const uint64_t bits = Mix(Mix(Mix(seed) ^ static_cast<uint64_t>(run)) ^
                            static_cast<uint64_t>(field));
  return static_cast<double>(bits >> 11) / kMaxWhole;
}

void CheckRange(const v1::FieldRange& range, const std::string& field,
                SpecChecker& check) {
  if (!range.values().empty()) {
    check.Require(!range.has_min() && !range.has_max() && !range.log(),
                  field + ".values", "excludes min, max and log");
    return;
  }
  if (!range.has_min() || !range.has_max()) {
    check.Add(field, "needs values, or min and max");
    return;
  }
  check.Require(range.min() <= range.max(), field + ".max", "is below min");
  check.Require(!range.log() || range.min() > 0, field + ".min",
                "must be above 0 with log");
  if (!TakesWholeNumbers(*v1::JobSpec::descriptor(), range.path())) return;
  check.Require(std::fabs(range.min()) < kMaxWhole &&
                    std::fabs(range.max()) < kMaxWhole &&
                    std::ceil(range.min()) <= std::floor(range.max()),
                field, "has no whole number, and the field takes no other");
}

}  // namespace

bool CheckRandomRuns(const v1::RandomRuns& random, SpecChecker& check) {
  const size_t before = check.count();
  check.Range("random.runs", random.runs(), 1, kMaxSweepRuns);
  check.Range("random.fields", random.fields_size(), 1, kMaxFields, "fields");
  if (check.count() > before) return false;
  for (int i = 0; i < random.fields_size(); ++i) {
    const std::string field = absl::StrCat("random.fields[", i, "]");
    check.Require(!random.fields(i).path().empty(), field + ".path",
                  "is missing");
    CheckRange(random.fields(i), field, check);
  }
  return check.count() == before;
}

std::string DrawValue(const v1::RandomRuns& random, int run, int field) {
  const v1::FieldRange& range = random.fields(field);
  const double u = Uniform(random.seed(), run, field);
  if (!range.values().empty()) {
    const double count = range.values_size();
    return range.values(static_cast<int>(u * count));
  }
  const bool whole =
      TakesWholeNumbers(*v1::JobSpec::descriptor(), range.path());
  double low = range.min(), high = range.max();
  if (whole) {
    low = std::ceil(low);
    high = std::floor(high);
  }
  // Each whole number has an interval of length 1 of its own, or one from it to
  // the next on the logarithm's scale.
  const double top = whole ? high + 1 : high;
  double value =
      range.log() ? low * std::pow(top / low, u) : low + u * (top - low);
  if (!whole) return absl::StrCat(std::clamp(value, low, high));
  value = std::clamp(std::floor(value), low, high);
  return absl::StrCat(static_cast<int64_t>(value));
}

}  // namespace comera
