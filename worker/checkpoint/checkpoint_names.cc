// Formats and parses the file names of checkpoints, and verifies their
// checksums.

#include "worker/checkpoint/checkpoint_names.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/files.h"

namespace comera::worker {
namespace {

constexpr char kPrefix[] = "step-";
constexpr char kCheckpoint[] = ".checkpoint";
constexpr char kSnapshot[] = ".snapshot";
constexpr size_t kDigits = 12;
constexpr std::string_view kTrailer = "\nsha256 ";
constexpr size_t kHashDigits = 64;

}  // namespace

std::string ToFileName(const CheckpointName& name) {
  return absl::StrFormat("%s%012d%s", kPrefix, name.step,
                         name.snapshot ? kSnapshot : kCheckpoint);
}

std::optional<CheckpointName> ParseCheckpointName(std::string_view file) {
  absl::string_view text(file.data(), file.size());
  CheckpointName name;
  name.snapshot = absl::EndsWith(text, kSnapshot);
  if (!absl::ConsumePrefix(&text, kPrefix) ||
      !absl::ConsumeSuffix(&text, name.snapshot ? kSnapshot : kCheckpoint) ||
      text.size() != kDigits ||
      !std::all_of(text.begin(), text.end(),
                   [](char c) { return c >= '0' && c <= '9'; }) ||
      !absl::SimpleAtoi(text, &name.step)) {
    return std::nullopt;
  }
  return name;
}

std::vector<CheckpointName> ListCheckpointFiles(const std::string& folder) {
  std::vector<CheckpointName> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    if (const auto name = ParseCheckpointName(it->path().filename().string())) {
      names.push_back(*name);
    }
  }
  std::sort(names.begin(), names.end(),
            [](const CheckpointName& a, const CheckpointName& b) {
              return a.step < b.step;
            });
  return names;
}

bool IsWhole(std::string_view contents) {
  const size_t trailer = kTrailer.size() + kHashDigits + 1;
  if (contents.size() < trailer) return false;
  const std::string_view body = contents.substr(0, contents.size() - trailer);
  return contents.substr(body.size()) ==
         absl::StrCat(std::string(kTrailer), Sha256Hex(body), "\n");
}

}  // namespace comera::worker
