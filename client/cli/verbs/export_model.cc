// comera export --format hf|hf-factors|onnx|gguf|safetensors: writes a model
// for other programs.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/export_formats.h"
#include "client/program_output.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

absl::Status Export(const ExportArguments& arguments, const Session& session) {
  ModelUse use = arguments.use;
  use.model = arguments.what;
  ASSIGN_OR_RETURN(const std::string trainer,
                   FindTrainer(use.trainer, session));
  ASSIGN_OR_RETURN(const std::string folder, FindModel(use, session));
  std::vector<std::string> command = {
      trainer, absl::StrCat("--export=", arguments.format),
      absl::StrCat("--model=", folder), absl::StrCat("--to=", arguments.to)};
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

}  // namespace

int ExportModel(const ExportArguments& arguments, const Session& session) {
  const absl::Status status = Export(arguments, session);
  if (!status.ok()) return FailModelUse(status, session);
  session.Note(absl::StrCat("written to ", arguments.to));
  return kExitOk;
}

}  // namespace comera::client
