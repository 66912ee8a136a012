// Reads job files: one JobSpec as YAML, JSON or textproto.
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
using comera::JobFileText;
using comera::ParseJobFile;

// Reads all that can be read of a job file; relative data paths become
// absolute, starting at the file's folder. Its status is NotFound or
// PermissionDenied if the file cannot be read, or InvalidArgument as that of
// ReadJobText.
JobFileText LoadJobFile(const std::string& path);

// Reads a job file; relative data paths become absolute, starting at the file's
// folder. The spec is well-formed but not validated: see ValidateJobSpec.
// NotFound, PermissionDenied: the file cannot be read. InvalidArgument:
// `file:line: field: problem`. Notes on former names of fields are added to
// `notes` unless it is null.
absl::StatusOr<v1::JobSpec> ReadJobFile(
    const std::string& path, std::vector<std::string>* notes = nullptr);

// Applies `field.path=value`, with the value written as in YAML. Relative data
// paths in it become absolute, starting at `folder`.
absl::Status SetJobField(const std::string& assignment,
                         const std::string& folder, v1::JobSpec* spec,
                         std::vector<std::string>* notes = nullptr);

// Makes the paths of data, tokenizer and weights absolute. Paths of datasets
// (datasets/...) stay; a local folder of that name is written ./datasets. URLs
// stay too.
void ResolveDataPaths(const std::string& folder, v1::JobSpec* spec);

}  // namespace comera::client

#endif  // COMERA_CLIENT_JOB_FILE_H_
