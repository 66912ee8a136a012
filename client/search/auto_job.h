// Writes the job of `comera run --auto`, whose user has only data and targets.
#ifndef COMERA_CLIENT_SEARCH_AUTO_JOB_H_
#define COMERA_CLIENT_SEARCH_AUTO_JOB_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/search/labelled_file.h"
#include "comera/v1/job.pb.h"

namespace comera::client {

// What the command line says. Texts are as they were given, empty ones unset.
struct AutoRequest {
  // A file of labelled texts, a JSON lines file of texts, a file of plain text,
  // or a folder of source code or text; an absolute path.
  std::string data;
  std::string validation;
  std::string test;
  LabelledColumns columns;
  std::string target_loss;
  std::string target_accuracy;
  // Parameters ("61000", "60k", "1.2M") or bytes ("256KiB").
  std::string target_size;
  // A duration ("10m") or a number of steps ("20000 steps").
  std::string budget;
};

// The job: a classifier where the data have labels, a causal language model of
// plain text, else a masked language model. NotFound, PermissionDenied: the
// data. InvalidArgument: a text that is no number, data of an unknown kind, or
// no target.
absl::StatusOr<v1::JobSpec> MakeAutoJob(const AutoRequest& request);

}  // namespace comera::client

#endif  // COMERA_CLIENT_SEARCH_AUTO_JOB_H_
