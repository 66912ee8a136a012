// Reads, changes and validates the job file of a command line.

#include "client/cli/session/spec_input.h"

#include "absl/strings/str_cat.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/job_file.h"
#include "common/status_macros.h"

namespace comera::client {

std::vector<Argument> SpecArguments(SpecInput* input) {
  return {
      {"file", "Job file: .yaml, .json or .textproto", &input->file, true, {}},
      {"--set",
       "Sets a field: FIELD=VALUE, e.g. model.layers=4; repeatable",
       &input->assignments,
       false,
       {}},
  };
}

absl::StatusOr<v1::JobSpec> ReadSpec(const SpecInput& input,
                                     const Session& session) {
  std::vector<std::string> notes;
  ASSIGN_OR_RETURN(v1::JobSpec spec, ReadJobFile(input.file, &notes));
  for (const std::string& assignment : input.assignments) {
    RETURN_IF_ERROR(
        SetJobField(assignment, session.env.working_folder, &spec, &notes));
  }
  for (const std::string& note : notes) session.Note(Printable(note));
  return spec;
}

std::optional<v1::JobSpec> ReadSoundSpec(const SpecInput& input,
                                         const Session& session) {
  absl::StatusOr<v1::JobSpec> spec = ReadSpec(input, session);
  if (!spec.ok()) {
    session.Fail(Printable(std::string(spec.status().message())),
                 kExitClientError);
    return std::nullopt;
  }
  if (!CheckSpec(*spec, input.file, session)) return std::nullopt;
  return *std::move(spec);
}

bool CheckSpec(const v1::JobSpec& spec, const std::string& file,
               const Session& session) {
  const std::vector<FieldViolation> violations = ValidateJobSpec(spec);
  for (const FieldViolation& violation : violations) {
    session.Fail(Printable(absl::StrCat(file, ": ", violation.field, ": ",
                                        violation.description)),
                 kExitClientError);
  }
  return violations.empty();
}

}  // namespace comera::client
