// Writes checkpoint files, and finds the newest good one.
#include "worker/trainer/state/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::trainer {
namespace {

constexpr absl::string_view kSuffix = ".checkpoint";
constexpr absl::string_view kSnapshotSuffix = ".snapshot";
constexpr int kKeepSnapshots = 2;
constexpr absl::string_view kPrefix = "step-";
constexpr size_t kDigits = 12;
constexpr absl::string_view kTrailer = "\nsha256 ";
constexpr size_t kHashDigits = 64;

class CheckpointFolder : public CheckpointFiles {
 public:
  explicit CheckpointFolder(std::string folder) : folder_(std::move(folder)) {}

  absl::StatusOr<std::vector<std::string>> List() override {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator it(folder_, error), end;
    if (error == std::errc::no_such_file_or_directory) return names;
    for (; !error && it != end; it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    if (error) {
      return absl::UnavailableError(
          absl::StrCat(folder_, ": ", error.message()));
    }
    return names;
  }

  absl::StatusOr<std::string> Read(const std::string& name) override {
    return ReadFile(absl::StrCat(folder_, "/", name));
  }

  absl::Status Write(const std::string& name,
                     std::string_view contents) override {
    RETURN_IF_ERROR(MakeDirectories(folder_));
    return WriteFileAtomically(absl::StrCat(folder_, "/", name), contents);
  }

  absl::Status WriteQuickly(const std::string& name,
                            std::string_view contents) override {
    RETURN_IF_ERROR(MakeDirectories(folder_));
    const std::string path = absl::StrCat(folder_, "/", name);
    const std::string temporary = path + ".tmp";
    {
      std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
      out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
      out.close();
      if (!out) {
        std::filesystem::space_info space = {};
        std::error_code ignored;
        space = std::filesystem::space(folder_, ignored);
        std::filesystem::remove(temporary, ignored);
        return space.available < contents.size()
                   ? absl::ResourceExhaustedError(path + ": disk full")
                   : absl::UnavailableError(path + ": not written");
      }
    }
    std::error_code error;
    std::filesystem::rename(temporary, path, error);
    if (!error) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
  }

  absl::Status Remove(const std::string& name) override {
    std::error_code error;
    std::filesystem::remove(absl::StrCat(folder_, "/", name), error);
    if (!error) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(name, ": ", error.message()));
  }

 private:
  const std::string folder_;
};

bool IsNameWith(absl::string_view suffix, absl::string_view name) {
  return name.size() == kPrefix.size() + kDigits + suffix.size() &&
         absl::StartsWith(name, kPrefix) && absl::EndsWith(name, suffix) &&
         std::all_of(name.begin() + kPrefix.size(),
                     name.begin() + kPrefix.size() + kDigits,
                     [](char c) { return c >= '0' && c <= '9'; });
}

bool IsSnapshotName(absl::string_view name) {
  return IsNameWith(kSnapshotSuffix, name);
}

// True for a file that a process left behind when it was killed while writing.
bool IsLeftover(absl::string_view name) {
  return absl::StartsWith(name, kPrefix) &&
         (absl::StrContains(name, absl::StrCat(kSuffix, ".tmp.")) ||
          absl::StrContains(name, absl::StrCat(kSnapshotSuffix, ".tmp")));
}

std::string NameOf(int64_t step, absl::string_view suffix) {
  return absl::StrFormat("%s%0*d%s", kPrefix, static_cast<int>(kDigits), step,
                         suffix);
}

}  // namespace

absl::StatusOr<TrainingState> ParseCheckpoint(std::string contents) {
  const size_t trailer = kTrailer.size() + kHashDigits + 1;
  if (contents.size() < trailer) return absl::DataLossError("truncated");
  const size_t body = contents.size() - trailer;
  const std::string claimed = contents.substr(body);
  contents.resize(body);
  if (claimed != absl::StrCat(kTrailer, Sha256Hex(contents), "\n")) {
    return absl::DataLossError("checksum differs");
  }
  return TrainingState::Parse(contents);
}

absl::StatusOr<std::string> CheckpointContents(const TrainingState& state) {
  ASSIGN_OR_RETURN(std::string contents, state.Serialize());
  absl::StrAppend(&contents, kTrailer, Sha256Hex(contents), "\n");
  return contents;
}

std::unique_ptr<CheckpointFiles> OpenCheckpointFolder(std::string folder) {
  return std::make_unique<CheckpointFolder>(std::move(folder));
}

CheckpointStore::CheckpointStore(std::unique_ptr<CheckpointFiles> files,
                                 int keep)
    : files_(std::move(files)), keep_(std::max(keep, 2)) {}

absl::StatusOr<std::vector<std::string>> CheckpointStore::Names(
    std::vector<std::string>* leftovers) {
  ASSIGN_OR_RETURN(const std::vector<std::string> all, files_->List());
  std::vector<std::string> names;
  for (const std::string& name : all) {
    if (IsNameWith(kSuffix, name) || IsSnapshotName(name)) {
      names.push_back(name);
    }
    if (leftovers != nullptr && IsLeftover(name)) leftovers->push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<int64_t> CheckpointStore::Save(const TrainingState& state) {
  return Write(state, /*snapshot=*/false);
}

absl::StatusOr<int64_t> CheckpointStore::SaveSnapshot(
    const TrainingState& state) {
  return Write(state, /*snapshot=*/true);
}

absl::StatusOr<int64_t> CheckpointStore::Write(const TrainingState& state,
                                               bool snapshot) {
  ASSIGN_OR_RETURN(const std::string contents, CheckpointContents(state));
  const std::string name =
      NameOf(state.progress.step, snapshot ? kSnapshotSuffix : kSuffix);
  RETURN_IF_ERROR(snapshot ? files_->WriteQuickly(name, contents)
                           : files_->Write(name, contents));
  std::vector<std::string> unwanted, kept, snapshots;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(&unwanted));
  const std::string next = NameOf(state.progress.step + 1, "");
  for (const std::string& one : names) {
    if (one >= next) {
      unwanted.push_back(one);
    } else {
      (IsSnapshotName(one) ? snapshots : kept).push_back(one);
    }
  }
  for (size_t i = 0; i + keep_ < kept.size(); ++i) unwanted.push_back(kept[i]);
  // A checkpoint makes earlier snapshots useless.
  const size_t keep = snapshot ? kKeepSnapshots : 0;
  for (size_t i = 0; i + keep < snapshots.size(); ++i) {
    unwanted.push_back(snapshots[i]);
  }
  for (const std::string& one : unwanted) {
    RETURN_IF_ERROR(files_->Remove(one));
  }
  return static_cast<int64_t>(contents.size());
}

absl::StatusOr<std::optional<CheckpointStore::Loaded>>
CheckpointStore::LoadNewest(const std::string& fingerprint) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  Loaded loaded;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    absl::StatusOr<std::string> contents = files_->Read(*name);
    absl::StatusOr<TrainingState> state =
        contents.ok() ? ParseCheckpoint(*std::move(contents))
                      : contents.status();
    if (!state.ok()) {
      loaded.damaged.push_back(
          absl::StrCat(*name, ": ", state.status().message()));
      continue;
    }
    if (state->fingerprint != fingerprint) {
      return absl::FailedPreconditionError(absl::StrCat(
          "checkpoint ", *name,
          " belongs to another specification (model, data, compression, "
          "objective, optimizer or training differ); use another work_dir or "
          "remove it"));
    }
    loaded.state = *std::move(state);
    return std::optional<Loaded>(std::move(loaded));
  }
  if (loaded.damaged.empty()) return std::optional<Loaded>();
  return absl::DataLossError(absl::StrCat("no good checkpoint: ",
                                          absl::StrJoin(loaded.damaged, "; ")));
}

}  // namespace comera::trainer
