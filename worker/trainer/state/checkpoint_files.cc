// Writes sealed files of training states, and finds the newest good one or a
// certain one.
#include "worker/trainer/state/checkpoint_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

std::unique_ptr<CheckpointFiles> OpenCheckpointFolder(std::string folder) {
  return std::make_unique<CheckpointFolder>(std::move(folder));
}

std::string Seal(std::string contents) {
  absl::StrAppend(&contents, kTrailer, Sha256Hex(contents), "\n");
  return contents;
}

absl::StatusOr<std::string> Unseal(std::string sealed) {
  const size_t trailer = kTrailer.size() + kHashDigits + 1;
  if (sealed.size() < trailer) return absl::DataLossError("truncated");
  const size_t body = sealed.size() - trailer;
  const std::string claimed = sealed.substr(body);
  sealed.resize(body);
  if (claimed != absl::StrCat(kTrailer, Sha256Hex(sealed), "\n")) {
    return absl::DataLossError("checksum differs");
  }
  return sealed;
}

SealedStates::SealedStates(std::unique_ptr<CheckpointFiles> files,
                           const Options& options)
    : files_(std::move(files)), options_(options) {}

absl::StatusOr<std::vector<CheckpointName>> SealedStates::Names(
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

bool SealedStates::IsAbandoned(const StateKey& key) const {
  if (!options_.start.has_value() || key.attempt >= options_.attempt) {
    return false;
  }
  // Where the attempt of the start is unknown, the step alone tells.
  if (options_.start->attempt == 0) return key.step > options_.start->step;
  return *options_.start < key;
}

absl::StatusOr<int64_t> SealedStates::Save(int64_t step, std::string contents,
                                           bool snapshot) {
  contents = Seal(std::move(contents));
  const CheckpointName own = {{options_.attempt, step}, snapshot};
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

absl::StatusOr<bool> SealedStates::LoadFirst(
    const std::vector<CheckpointName>& names, const Take& take,
    std::vector<std::string>* damaged) {
  std::vector<std::string> passed;
  for (const CheckpointName& name : names) {
    const std::string file = ToFileName(name);
    absl::StatusOr<std::string> contents = files_->Read(file);
    if (contents.ok()) contents = Unseal(*std::move(contents));
    absl::Status status = contents.status();
    const bool unread = !status.ok();
    if (!unread) status = take(name, *std::move(contents));
    if (status.ok()) {
      if (damaged != nullptr) *damaged = std::move(passed);
      return true;
    }
    if (!unread && !absl::IsDataLoss(status)) return status;
    passed.push_back(absl::StrCat(file, ": ", status.message()));
  }
  if (passed.empty()) return false;
  return absl::DataLossError(
      absl::StrCat("no good checkpoint: ", absl::StrJoin(passed, "; ")));
}

absl::StatusOr<bool> SealedStates::LoadNewest(
    const Take& take, std::vector<std::string>* damaged) {
  ASSIGN_OR_RETURN(std::vector<CheckpointName> names, Names());
  std::reverse(names.begin(), names.end());
  return LoadFirst(names, take, damaged);
}

absl::Status SealedStates::Load(const StateKey& key, const Take& take,
                                std::vector<std::string>* damaged) {
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
  ASSIGN_OR_RETURN(const bool found, LoadFirst(names, take, damaged));
  if (found) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no checkpoint of step ", key.step,
                                          " of attempt ", key.attempt,
                                          " is here"));
}

}  // namespace comera::trainer
