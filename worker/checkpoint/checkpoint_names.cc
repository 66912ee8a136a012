// Formats, parses and compares the file names of checkpoints.

#include "worker/checkpoint/checkpoint_names.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "worker/files/open_folder.h"

namespace comera::worker {
namespace {

constexpr char kPrefix[] = "step-";
constexpr char kAttempt[] = ".attempt-";
constexpr char kCheckpoint[] = ".checkpoint";
constexpr char kSnapshot[] = ".snapshot";
constexpr size_t kDigits = 12;

bool IsNumber(absl::string_view text, int64_t* number) {
  return !text.empty() && text.size() <= kDigits &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= '0' && c <= '9'; }) &&
         absl::SimpleAtoi(text, number);
}

}  // namespace

std::string ToFileName(const CheckpointName& name) {
  const std::string attempt =
      name.attempt > 0 ? absl::StrCat(kAttempt, name.attempt) : "";
  return absl::StrFormat("%s%012d%s%s", kPrefix, name.step, attempt,
                         name.snapshot ? kSnapshot : kCheckpoint);
}

std::optional<CheckpointName> ParseCheckpointName(std::string_view file) {
  absl::string_view text(file.data(), file.size());
  CheckpointName name;
  name.snapshot = absl::EndsWith(text, kSnapshot);
  if (!absl::ConsumePrefix(&text, kPrefix) ||
      !absl::ConsumeSuffix(&text, name.snapshot ? kSnapshot : kCheckpoint) ||
      text.size() < kDigits || !IsNumber(text.substr(0, kDigits), &name.step)) {
    return std::nullopt;
  }
  text.remove_prefix(kDigits);
  if (text.empty()) return name;
  // Every state has one name only, so numbers do not begin with 0.
  if (!absl::ConsumePrefix(&text, kAttempt) || absl::StartsWith(text, "0") ||
      !IsNumber(text, &name.attempt)) {
    return std::nullopt;
  }
  return name;
}

std::vector<CheckpointName> ListCheckpointFiles(const PathBelow& path) {
  std::vector<CheckpointName> names;
  const absl::StatusOr<OpenFolder> folder = OpenFolder::Open(path);
  if (!folder.ok()) return names;
  const absl::StatusOr<std::vector<std::string>> files = folder->List();
  if (!files.ok()) return names;
  for (const std::string& file : *files) {
    const auto name = ParseCheckpointName(file);
    if (name && folder->SizeOf(file)) names.push_back(*name);
  }
  std::sort(names.begin(), names.end(), IsOlder);
  return names;
}

std::vector<CheckpointName> NamesOf(const StateKey& key,
                                    std::vector<CheckpointName> names) {
  names.erase(std::remove_if(names.begin(), names.end(),
                             [&](const CheckpointName& name) {
                               return name.step != key.step ||
                                      (key.attempt != 0 && name.attempt != 0 &&
                                       name.attempt != key.attempt);
                             }),
              names.end());
  std::sort(names.begin(), names.end(),
            [](const CheckpointName& a, const CheckpointName& b) {
              return IsOlder(b, a);
            });
  return names;
}

}  // namespace comera::worker
