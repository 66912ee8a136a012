// Writes checkpoint files, and finds the newest good one or a certain one.
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

constexpr size_t kKeepSnapshots = 2;
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
                                 const Options& options)
    : files_(std::move(files)), options_(options) {}

absl::StatusOr<std::vector<CheckpointName>> CheckpointStore::Names(
    std::vector<std::string>* leftovers) {
  ASSIGN_OR_RETURN(const std::vector<std::string> all, files_->List());
  std::vector<CheckpointName> names;
  for (const std::string& file : all) {
    if (const auto name = ParseCheckpointFile(file)) names.push_back(*name);
    if (leftovers != nullptr && IsCheckpointLeftover(file)) {
      leftovers->push_back(file);
    }
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

bool CheckpointStore::IsAbandoned(const StateKey& key) const {
  if (!options_.start.has_value() || key.attempt >= options_.attempt) {
    return false;
  }
  // Where the attempt of the start is unknown, the step alone tells.
  if (options_.start->attempt == 0) return key.step > options_.start->step;
  return *options_.start < key;
}

absl::StatusOr<int64_t> CheckpointStore::Write(const TrainingState& state,
                                               bool snapshot) {
  ASSIGN_OR_RETURN(const std::string contents, CheckpointContents(state));
  const CheckpointName own = {{options_.attempt, state.progress.step},
                              snapshot};
  const std::string file = ToFileName(own);
  RETURN_IF_ERROR(snapshot ? files_->WriteQuickly(file, contents)
                           : files_->Write(file, contents));
  std::vector<std::string> unwanted;
  ASSIGN_OR_RETURN(std::vector<CheckpointName> names, Names(&unwanted));
  std::stable_partition(
      names.begin(), names.end(),
      [this](const CheckpointName& name) { return IsAbandoned(name.key); });
  std::vector<CheckpointName> kept, snapshots;
  for (const CheckpointName& one : names) {
    if (one.key.attempt == own.key.attempt && own.key < one.key) {
      unwanted.push_back(ToFileName(one));
    } else if (!one.snapshot) {
      kept.push_back(one);
    } else if (snapshot || own.key < one.key) {
      snapshots.push_back(one);
    } else {
      // A checkpoint makes earlier snapshots useless.
      unwanted.push_back(ToFileName(one));
    }
  }
  const auto drop_oldest = [&](const std::vector<CheckpointName>& of,
                               size_t keep) {
    for (size_t i = 0; i + keep < of.size(); ++i) {
      unwanted.push_back(ToFileName(of[i]));
    }
  };
  drop_oldest(kept, static_cast<size_t>(std::max(options_.keep, 2)));
  drop_oldest(snapshots, kKeepSnapshots);
  for (const std::string& one : unwanted) {
    RETURN_IF_ERROR(files_->Remove(one));
  }
  return static_cast<int64_t>(contents.size());
}

absl::StatusOr<std::optional<CheckpointStore::Loaded>>
CheckpointStore::LoadFirst(const std::vector<CheckpointName>& names,
                           const std::string& fingerprint) {
  Loaded loaded;
  for (const CheckpointName& name : names) {
    const std::string file = ToFileName(name);
    absl::StatusOr<std::string> contents = files_->Read(file);
    absl::StatusOr<TrainingState> state =
        contents.ok() ? ParseCheckpoint(*std::move(contents))
                      : contents.status();
    if (state.ok() && state->progress.step != name.key.step) {
      state = absl::DataLossError(
          absl::StrCat("holds the state of step ", state->progress.step));
    }
    if (!state.ok()) {
      loaded.damaged.push_back(
          absl::StrCat(file, ": ", state.status().message()));
      continue;
    }
    if (!options_.former_fingerprint.empty() &&
        state->fingerprint == options_.former_fingerprint) {
      state->fingerprint = fingerprint;
    }
    if (state->fingerprint != fingerprint) {
      return absl::FailedPreconditionError(absl::StrCat(
          "checkpoint ", file,
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

absl::StatusOr<std::optional<CheckpointStore::Loaded>>
CheckpointStore::LoadNewest(const std::string& fingerprint) {
  ASSIGN_OR_RETURN(std::vector<CheckpointName> names, Names());
  std::reverse(names.begin(), names.end());
  return LoadFirst(names, fingerprint);
}

absl::StatusOr<CheckpointStore::Loaded> CheckpointStore::Load(
    const StateKey& key, const std::string& fingerprint) {
  ASSIGN_OR_RETURN(std::vector<CheckpointName> names, Names());
  names.erase(std::remove_if(names.begin(), names.end(),
                             [&](const CheckpointName& name) {
                               return name.key.step != key.step ||
                                      (key.attempt != 0 &&
                                       name.key.attempt != 0 &&
                                       name.key.attempt != key.attempt);
                             }),
              names.end());
  std::reverse(names.begin(), names.end());
  ASSIGN_OR_RETURN(std::optional<Loaded> loaded, LoadFirst(names, fingerprint));
  if (loaded.has_value()) return *std::move(loaded);
  return absl::NotFoundError(absl::StrCat("no checkpoint of step ", key.step,
                                          " of attempt ", key.attempt,
                                          " is here"));
}

}  // namespace comera::trainer
