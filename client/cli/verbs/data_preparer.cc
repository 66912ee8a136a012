// Runs a trainer that prepares data and reads the lines that it writes.
#include "client/cli/verbs/data_preparer.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

constexpr size_t kErrorTail = 4000;

}  // namespace

absl::StatusOr<std::unique_ptr<DataPreparer>> DataPreparer::Start(
    const std::vector<std::string>& command, bool standard_input) {
  ChildProgram::Options options;
  if (standard_input) options.input = ChildProgram::Input::kInherited;
  ASSIGN_OR_RETURN(auto program, ChildProgram::Start(command, options));
  return absl::WrapUnique(new DataPreparer(std::move(program)));
}

absl::Status DataPreparer::EndOfProgram() {
  ASSIGN_OR_RETURN(const ChildProgram::End end, program_->WaitForEnd());
  if (!end.by_signal && end.code == 0) return absl::OkStatus();
  const std::string said = program_->Errors(kErrorTail);
  // Log lines come before the error.
  absl::string_view text = said;
  const size_t line = text.rfind('\n');
  if (line != absl::string_view::npos) text.remove_prefix(line + 1);
  absl::ConsumePrefix(&text, "comera-trainer: ");
  if (!text.empty()) return absl::FailedPreconditionError(text);
  return absl::FailedPreconditionError(
      absl::StrCat(end.by_signal ? "comera-trainer was ended by signal "
                                 : "comera-trainer ended with status ",
                   end.code));
}

absl::StatusOr<std::optional<std::string>> DataPreparer::NextLine() {
  ASSIGN_OR_RETURN(std::optional<std::string> line, program_->NextLine());
  if (!line) RETURN_IF_ERROR(EndOfProgram());
  return line;
}

}  // namespace comera::client
