#ifndef COMERA_TESTS_GOLDEN_GOLDEN_CHECK_H_
#define COMERA_TESTS_GOLDEN_GOLDEN_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "tests/golden/device_memory.h"
#include "tests/golden/report.h"

namespace comera::golden {

// Checks every *.safetensors file in the folder as its metadata say, each on a
// backend of its own. A file that cannot be checked counts as a failure, one of
// a method that the job file does not offer as skipped.
// NotFound: the folder has no such file.
absl::Status CheckFolder(const std::string& folder,
                         const BackendFactory& make_backend, Report* report);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_GOLDEN_CHECK_H_
