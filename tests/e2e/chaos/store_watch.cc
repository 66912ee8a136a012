// Looks for the states of unfinished jobs in the shared store.
#include "tests/e2e/chaos/store_watch.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/job_state.h"

namespace comera::e2e {
namespace {

namespace fs = std::filesystem;

// A job that has ended may lose its states before a client hears of the end, so
// it is blamed only if it goes on this much later. One that succeeded does not
// go on, and all others keep their states.
constexpr absl::Duration kConfirm = absl::Seconds(3);

}  // namespace

bool StoreWatch::HasState(const std::string& job) const {
  std::error_code error;
  // What cannot be listed is blamed on nobody, except where nothing is.
  const fs::path path =
      fs::path(folder_) / "checkpoints" / job.substr(job.rfind('/') + 1);
  fs::directory_iterator files(path, error);
  if (error) return error != std::errc::no_such_file_or_directory;
  return std::any_of(
      fs::begin(files), fs::end(files), [](const fs::directory_entry& file) {
        return absl::StartsWith(file.path().filename().string(), "step-");
      });
}

void StoreWatch::Check(const std::vector<v1::Job>& jobs, absl::Time asked,
                       absl::Time now) {
  std::set<std::string> kept;
  std::map<std::string, absl::Time> empty_since;
  for (const v1::Job& job : jobs) {
    const std::string& name = job.name();
    if (IsFinal(job.state()) || told_.count(name) > 0) continue;
    if (HasState(name)) {
      kept.insert(name);
    } else if (kept_.count(name) > 0) {
      empty_since[name] = now;
    }
    const auto empty = empty_since_.find(name);
    if (empty == empty_since_.end()) continue;
    if (asked - empty->second < kConfirm) {
      empty_since[name] = empty->second;
      continue;
    }
    told_.insert(name);
    violations_.push_back(
        absl::StrCat("the store had states of ", name, ", and none at ",
                     absl::FormatTime(empty->second, absl::UTCTimeZone()),
                     ", though it has not ended"));
  }
  // Jobs that are not told of have succeeded, or were deleted.
  kept_ = std::move(kept);
  empty_since_ = std::move(empty_since);
}

}  // namespace comera::e2e
