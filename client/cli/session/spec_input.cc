// Reads, changes and validates the job file of a command line.

#include "client/cli/session/spec_input.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "proto/field_lines.h"
#include "proto/validation/job_validation.h"

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

namespace {

// The field, and what is below it, stand in no line of the file.
void ForgetLines(const std::string& field, FieldLines* lines) {
  for (auto& [path, line] : *lines) {
    const bool below = absl::StartsWith(path, field + ".") ||
                       absl::StartsWith(path, field + "[");
    if (below) line = 0;
  }
  (*lines)[field] = 0;
}

}  // namespace

JobFileText ReadSpec(const SpecInput& input, const Session& session) {
  JobFileText text = LoadJobFile(input.file);
  for (const std::string& assignment : input.assignments) {
    const absl::Status status = SetJobField(
        assignment, session.env.working_folder, &text.spec, &text.notes);
    ForgetLines(assignment.substr(0, assignment.find('=')), &text.lines);
    if (text.status.ok()) text.status = status;
  }
  for (const std::string& note : text.notes) session.Note(Printable(note));
  return text;
}

std::optional<v1::JobSpec> ReadSoundSpec(const SpecInput& input,
                                         const Session& session) {
  JobFileText text = ReadSpec(input, session);
  if (!CheckText(text, input.file, session)) return std::nullopt;
  return std::move(text.spec);
}

void FailLines(const absl::Status& status, const Session& session) {
  for (absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    session.Fail(Printable(std::string(line)), kExitClientError);
  }
}

bool CheckText(const JobFileText& text, const std::string& file,
               const Session& session) {
  if (!text.status.ok()) FailLines(text.status, session);
  bool sound = text.status.ok();
  for (const FieldViolation& violation : ValidateJobSpec(text.spec)) {
    // What was not read may be why another field is wrong.
    const bool certain =
        text.status.ok() ||
        (text.lines.count(violation.field) > 0 &&
         !absl::StrContains(text.status.message(),
                            absl::StrCat(": ", violation.field, ": ")));
    if (!certain) continue;
    const int line = LineOf(text.lines, violation.field);
    session.Fail(Printable(absl::StrCat(
                     file, line > 0 ? absl::StrCat(":", line) : "", ": ",
                     violation.field, ": ", violation.description)),
                 kExitClientError);
    sound = false;
  }
  return sound;
}

bool CheckSpec(const v1::JobSpec& spec, const std::string& file,
               const Session& session) {
  JobFileText text;
  text.spec = spec;
  return CheckText(text, file, session);
}

}  // namespace comera::client
