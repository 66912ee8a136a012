// Checks every golden file of a folder:
//   bazel run //tests/golden:golden_check -- --dir=DIR
// Exit code 0: all passed; 1: something failed; 2: usage, or no such folder.
#include <iostream>
#include <string>

#include "absl/strings/match.h"
#include "tests/golden/golden_check.h"

int main(int argc, char** argv) {
  constexpr char kFlag[] = "--dir=";
  if (argc != 2 || !absl::StartsWith(argv[1], kFlag)) {
    std::cerr << "usage: golden_check --dir=DIR\n";
    return 2;
  }
  comera::golden::Report report(&std::cout);
  const absl::Status status = comera::golden::CheckFolder(
      std::string(argv[1]).substr(sizeof(kFlag) - 1),
      comera::golden::CpuFactory, &report);
  if (!status.ok()) {
    std::cerr << status.message() << "\n";
    return 2;
  }
  report.PrintTotals();
  return report.failed() == 0 ? 0 : 1;
}
