// A job that trains within seconds, and what it trains on.
#ifndef COMERA_TESTS_E2E_TINY_JOB_H_
#define COMERA_TESTS_E2E_TINY_JOB_H_

#include <string>

#include "absl/status/statusor.h"

namespace comera::e2e {

// Path of a program of this project, e.g. "server/comera-server".
std::string Binary(const std::string& path);

// Writes source-like text from a small grammar into `folder`, which is made:
// the same files every time, and something to learn.
absl::Status WriteTinyCorpus(const std::string& folder);

// Writes `folder`/job.yaml, a job of two members that can meet its targets, and
// the files that it learns from. Returns the job file's path.
absl::StatusOr<std::string> WriteTinyJob(const std::string& folder);

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_TINY_JOB_H_
