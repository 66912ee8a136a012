// Writes a job that trains within seconds, and its data.
#ifndef COMERA_TESTS_E2E_TINY_JOB_H_
#define COMERA_TESTS_E2E_TINY_JOB_H_

#include <string>

#include "absl/status/statusor.h"

namespace comera::e2e {

// The path of a program of this project, e.g. "server/comera-server".
std::string Binary(const std::string& path);

// Makes `folder` and writes source-like text from a small grammar to it: always
// the same files, with patterns that a model can learn.
absl::Status WriteTinyCorpus(const std::string& folder);

// Writes `folder`/job.yaml, a job of two members that can meet its targets, and
// its training files. Returns the job file's path.
absl::StatusOr<std::string> WriteTinyJob(const std::string& folder);

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_TINY_JOB_H_
