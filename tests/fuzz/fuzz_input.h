// Helpers that fuzz targets share.
#ifndef COMERA_TESTS_FUZZ_FUZZ_INPUT_H_
#define COMERA_TESTS_FUZZ_FUZZ_INPUT_H_

#include <cstdint>
#include <string>

namespace comera {

// Splits one input from the front into parts.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), data ? size : 0) {}

  // Returns the next byte modulo `count`; 0 at the end.
  int Choose(int count);
  // Returns the text up to the next "\n---\n", which is skipped, or to the end.
  std::string Part();
  std::string Rest() { return rest_; }

 private:
  std::string rest_;
};

// Makes a file in memory for parsers that open a path, and returns its path.
// Each process has one file for each `index`.
std::string FuzzFile(const std::string& contents, int index = 0);

// Makes a file in memory for parsers that look at a file's name or open a
// folder. The file is called `name` and lies in FuzzFolder(); returns its path.
std::string NamedFuzzFile(const std::string& name, const std::string& contents);

// The folder of this process's named files, which goes when the process ends.
const std::string& FuzzFolder();

// Aborts with `what`, the property that does not hold.
[[noreturn]] void FuzzFailure(const std::string& what);

}  // namespace comera

#endif  // COMERA_TESTS_FUZZ_FUZZ_INPUT_H_
