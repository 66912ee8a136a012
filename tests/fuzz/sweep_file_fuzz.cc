// Fuzzes sweep files and the plans made from them.
#include <string>
#include <vector>

#include "client/sweep_file.h"
#include "proto/sweep/sweep_plan.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  auto spec = comera::client::ParseSweepFile(input.Rest(), "sweep.yaml");
  if (!spec.ok()) {
    if (spec.status().message().empty()) {
      comera::FuzzFailure("an error without a message");
    }
    return 0;
  }
  std::vector<comera::FieldViolation> violations;
  comera::PlanSweep(*spec, &violations);
  return 0;
}
