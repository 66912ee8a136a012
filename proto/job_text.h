// The text of job files: one JobSpec as YAML, JSON or textproto.
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

// By the name's ending: .yaml .yml .json .textproto .txtpb .pbtxt.
// InvalidArgument: another ending.
absl::StatusOr<JobFileFormat> FormatOf(const std::string& path);

// Reads a job file's text; data paths stay as they are. The spec is well-formed
// but may still make no sense: see ValidateJobSpec. `name` stands in errors.
// InvalidArgument: `name:line: field: what is wrong`.
//
// Former names of fields are read as the current ones; `notes`, unless null,
// gets a line `name:line: ...` for each.
absl::StatusOr<v1::JobSpec> ParseJobFile(
    const std::string& contents, const std::string& name, JobFileFormat format,
    std::vector<std::string>* notes = nullptr);

}  // namespace comera

#endif  // COMERA_PROTO_JOB_TEXT_H_
