// Parses job files: one JobSpec as YAML, JSON or textproto.
#ifndef COMERA_PROTO_JOB_TEXT_H_
#define COMERA_PROTO_JOB_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "proto/field_lines.h"

namespace comera {

enum class JobFileFormat { kYaml, kJson, kTextproto };

inline constexpr size_t kMaxJobFileBytes = 1 << 20;

// Tells the format by the file's extension: .yaml .yml .json .textproto .txtpb
// .pbtxt. InvalidArgument: it is another one.
absl::StatusOr<JobFileFormat> FormatOf(const std::string& path);

// A job file's text as far as it could be read.
struct JobFileText {
  // Well-formed, but not validated: see ValidateJobSpec. Data paths are as they
  // were written.
  v1::JobSpec spec;
  // Empty for textprotos and where the text has a syntax error.
  FieldLines lines;
  // A line `name:line: ...` for each field under a former name, which is read
  // as the current one.
  std::vector<std::string> notes;
  // InvalidArgument, with a line `name:line: field: problem` for each mistake.
  absl::Status status;
};

// Reads all that can be read. `name` stands for the file in errors.
JobFileText ReadJobText(const std::string& contents, const std::string& name,
                        JobFileFormat format);

// Does the same for files without a mistake; notes are added to `notes` unless
// it is null. InvalidArgument: as above.
absl::StatusOr<v1::JobSpec> ParseJobFile(
    const std::string& contents, const std::string& name, JobFileFormat format,
    std::vector<std::string>* notes = nullptr);

}  // namespace comera

#endif  // COMERA_PROTO_JOB_TEXT_H_
