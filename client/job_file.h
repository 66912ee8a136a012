// Job files: one JobSpec as YAML, JSON or textproto.
#ifndef COMERA_CLIENT_JOB_FILE_H_
#define COMERA_CLIENT_JOB_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "proto/job_text.h"

namespace comera::client {

using comera::FormatOf;
using comera::JobFileFormat;
using comera::ParseJobFile;

// Reads a job file; relative data paths become absolute below the file's
// folder. The spec is well-formed but may still make no sense: see
// ValidateJobSpec. NotFound, PermissionDenied: the file; InvalidArgument:
// `file:line: field: what is wrong`. Notes on former names of fields are added
// to `notes` unless it is null.
absl::StatusOr<v1::JobSpec> ReadJobFile(
    const std::string& path, std::vector<std::string>* notes = nullptr);

// Applies `field.path=value`; the value is written as in YAML. Relative data
// paths in it become absolute below `folder`.
absl::Status SetJobField(const std::string& assignment,
                         const std::string& folder, v1::JobSpec* spec,
                         std::vector<std::string>* notes = nullptr);

// Makes the data's, tokenizer's and weights' paths absolute; those of datasets
// (datasets/...) stay. A local folder of that name is ./datasets.
void ResolveDataPaths(const std::string& folder, v1::JobSpec* spec);

}  // namespace comera::client

#endif  // COMERA_CLIENT_JOB_FILE_H_
