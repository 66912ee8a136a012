// comera export --format hf|hf-factors|onnx|gguf|safetensors: writes a model
// for other programs.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/session/temporary_folder.h"
#include "client/cli/verbs/bucket_folder.h"
#include "client/cli/verbs/export_formats.h"
#include "client/program_output.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

// Writes the model into a folder of this machine.
absl::Status Export(const ExportArguments& arguments, const std::string& to,
                    const Session& session) {
  ModelUse use = arguments.use;
  use.model = arguments.what;
  ASSIGN_OR_RETURN(const std::string trainer,
                   FindTrainer(use.trainer, session));
  ASSIGN_OR_RETURN(const std::string folder, FindModel(use, session));
  std::vector<std::string> command = {
      trainer, absl::StrCat("--export=", arguments.format),
      absl::StrCat("--model=", folder), absl::StrCat("--to=", to)};
  if (!arguments.precision.empty()) {
    command.push_back(absl::StrCat("--export-precision=", arguments.precision));
  }
  ASSIGN_OR_RETURN(const ProgramOutput output, RunProgram(std::move(command)));
  if (output.exit_code == 0) return absl::OkStatus();
  absl::string_view said = absl::StripAsciiWhitespace(output.err);
  absl::ConsumePrefix(&said, "comera-trainer: ");
  return absl::FailedPreconditionError(
      said.empty()
          ? absl::StrCat("comera-trainer ended with ", output.exit_code)
          : std::string(said));
}

// Writes the model into a folder that goes afterwards, and uploads that.
int ExportToBucket(const ExportArguments& arguments, const Session& session) {
  std::atomic<bool> cancelled{false};
  absl::Status written;
  absl::StatusOr<int> uploaded = 0;
  {
    Interrupts interrupts([&cancelled] { cancelled = true; });
    const auto run = [&]() -> absl::StatusOr<int> {
      ASSIGN_OR_RETURN(const BucketFolder bucket,
                       BucketFolder::Open(arguments.to, arguments.bucket,
                                          session, cancelled));
      ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFolder> folder,
                       TemporaryFolder::Create(session.env.state_folder));
      written = Export(arguments, folder->path(), session);
      if (!written.ok() || cancelled) return 0;
      return bucket.Upload(folder->path(), arguments.force, cancelled);
    };
    uploaded = run();
    if (interrupts.happened()) {
      return session.Fail(
          "interrupted; the same command leaves what is there already",
          kExitInterrupted);
    }
  }
  if (!written.ok()) return FailModelUse(written, session);
  if (!uploaded.ok()) {
    return session.Fail(Printable(std::string(uploaded.status().message())),
                        ExitCodeOfRpc(uploaded.status()));
  }
  session.Note(absl::StrCat("written to ", arguments.to, ", ", *uploaded,
                            *uploaded == 1 ? " new file" : " new files"));
  return kExitOk;
}

}  // namespace

int ExportModel(const ExportArguments& arguments, const Session& session) {
  if (IsBucketUrl(arguments.to)) return ExportToBucket(arguments, session);
  const absl::Status status = Export(arguments, arguments.to, session);
  if (!status.ok()) return FailModelUse(status, session);
  session.Note(absl::StrCat("written to ", arguments.to));
  return kExitOk;
}

}  // namespace comera::client
