// Formats and parses the names of checkpoint files.
#include "worker/trainer/state/checkpoint_name.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace comera::trainer {
namespace {

constexpr absl::string_view kPrefix = "step-";
constexpr absl::string_view kAttempt = ".attempt-";
constexpr absl::string_view kCheckpoint = ".checkpoint";
constexpr absl::string_view kSnapshot = ".snapshot";
constexpr size_t kDigits = 12;

absl::string_view SuffixOf(bool snapshot) {
  return snapshot ? kSnapshot : kCheckpoint;
}

bool IsNumber(absl::string_view text, int64_t* number) {
  return !text.empty() && text.size() <= kDigits &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= '0' && c <= '9'; }) &&
         absl::SimpleAtoi(text, number);
}

}  // namespace

std::string ToFileName(const CheckpointName& name) {
  const std::string attempt =
      name.key.attempt > 0 ? absl::StrCat(kAttempt, name.key.attempt) : "";
  return absl::StrFormat("%s%0*d%s%s", kPrefix, static_cast<int>(kDigits),
                         name.key.step, attempt, SuffixOf(name.snapshot));
}

std::optional<CheckpointName> ParseCheckpointFile(std::string_view file) {
  absl::string_view text(file.data(), file.size());
  CheckpointName name;
  name.snapshot = absl::EndsWith(text, kSnapshot);
  if (!absl::ConsumePrefix(&text, kPrefix) ||
      !absl::ConsumeSuffix(&text, SuffixOf(name.snapshot)) ||
      text.size() < kDigits ||
      !IsNumber(text.substr(0, kDigits), &name.key.step)) {
    return std::nullopt;
  }
  text.remove_prefix(kDigits);
  if (text.empty()) return name;
  // Every state has one name only, so numbers do not begin with 0.
  if (!absl::ConsumePrefix(&text, kAttempt) || absl::StartsWith(text, "0") ||
      !IsNumber(text, &name.key.attempt)) {
    return std::nullopt;
  }
  return name;
}

bool IsCheckpointLeftover(std::string_view file) {
  const absl::string_view name(file.data(), file.size());
  return absl::StartsWith(name, kPrefix) &&
         (absl::StrContains(name, absl::StrCat(kCheckpoint, ".tmp.")) ||
          absl::StrContains(name, absl::StrCat(kSnapshot, ".tmp")));
}

}  // namespace comera::trainer
