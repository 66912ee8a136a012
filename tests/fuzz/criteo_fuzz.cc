// Fuzzes Criteo click logs, plain or gzip.
#include <string>

#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/data/clicks/criteo_tsv.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  comera::v1::CriteoTsv spec;
  spec.set_parts(2 + input.Choose(4));
  spec.set_max_table_rows(input.Choose(2) * 3);
  spec.add_files(comera::FuzzFile(input.Rest()));
  comera::trainer::ReadCriteoTsv(spec, [](const std::string&) {})
      .status()
      .IgnoreError();
  return 0;
}
