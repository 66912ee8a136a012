// Parses job files: one JobSpec as YAML, JSON or textproto.
#ifndef COMERA_PROTO_JOB_TEXT_H_
#define COMERA_PROTO_JOB_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"

namespace comera {

enum class JobFileFormat { kYaml, kJson, kTextproto };

inline constexpr size_t kMaxJobFileBytes = 1 << 20;

// Tells the format by the file's extension: .yaml .yml .json .textproto .txtpb
// .pbtxt. InvalidArgument: it is another one.
absl::StatusOr<JobFileFormat> FormatOf(const std::string& path);

// Parses a job file's text without changing data paths. The result is
// well-formed but not validated: see ValidateJobSpec. `name` stands for the
// file in errors. InvalidArgument: `name:line: field: problem`.
//
// Former names of fields are read as the current ones; `notes`, unless null,
// gets a line `name:line: ...` for each.
absl::StatusOr<v1::JobSpec> ParseJobFile(
    const std::string& contents, const std::string& name, JobFileFormat format,
    std::vector<std::string>* notes = nullptr);

}  // namespace comera

#endif  // COMERA_PROTO_JOB_TEXT_H_
