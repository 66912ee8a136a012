// Seals what a program saves, and gives it back to resume from.
#include "worker/trainer/program/program_checkpoints.h"

#include <filesystem>
#include <fstream>
#include <ios>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_macros.h"

namespace comera::trainer {
namespace {

namespace fs = std::filesystem;

SealedStates::Options OptionsOf(const TrainerTask& task) {
  SealedStates::Options options;
  options.keep = task.spec().checkpoint().keep();
  options.attempt = task.attempt();
  if (task.resume() && task.has_start()) {
    options.start = StateKey{task.start().attempt(), task.start().step()};
  }
  return options;
}

}  // namespace

ProgramCheckpoints::ProgramCheckpoints(const TrainerTask& task,
                                       std::string folder)
    : resume_(task.resume()),
      has_start_(task.has_start()),
      start_{task.start().attempt(), task.start().step()},
      folder_(std::move(folder)),
      states_(
          OpenCheckpointFolder(absl::StrCat(task.work_dir(), "/checkpoints")),
          OptionsOf(task)) {}

absl::Status ProgramCheckpoints::Restore(std::vector<std::string>* damaged) {
  if (!resume_) return absl::OkStatus();
  const auto give = [this](const CheckpointName& name, std::string contents) {
    return Give(name.key.step, contents);
  };
  if (has_start_) return states_.Load(start_, give, damaged);
  return states_.LoadNewest(give, damaged).status();
}

absl::Status ProgramCheckpoints::Give(int64_t step,
                                      const std::string& contents) const {
  RETURN_IF_ERROR(MakeDirectories(folder_));
  const std::string path = absl::StrFormat("%s/step-%010d", folder_, step);
  RETURN_IF_ERROR(WriteFileAtomically(path + ".pt", contents));
  // Run takes a file for whole if this says so.
  const nlohmann::json marker = {{"step", step},
                                 {"bytes", contents.size()},
                                 {"sha256", Sha256Hex(contents)}};
  return WriteFileAtomically(path + ".json", JsonText(marker) + "\n");
}

absl::StatusOr<int64_t> ProgramCheckpoints::Keep(int64_t step,
                                                 const std::string& path) {
  std::error_code error;
  // A job's checkpoints are seen by people who may not see all that the member
  // may.
  const fs::path real = fs::canonical(path, error);
  if (error || real.parent_path() != fs::canonical(folder_, error) ||
      !fs::is_regular_file(real, error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is no file in the folder that COMERA_RUN_CHECKPOINTS names"));
  }
  const auto size = fs::file_size(real, error);
  std::string contents;
  // With room for the seal, so that it is in memory once.
  if (!error) contents.reserve(static_cast<size_t>(size) + 128);
  std::ifstream file(real, std::ios::binary);
  std::string part(size_t{1} << 20, '\0');
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) ||
         file.gcount() > 0) {
    contents.append(part, 0, static_cast<size_t>(file.gcount()));
  }
  if (error || file.bad() || contents.size() != size) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " cannot be read, or has changed"));
  }
  return states_.Save(step, std::move(contents), /*snapshot=*/false);
}

}  // namespace comera::trainer
