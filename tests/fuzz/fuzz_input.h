// What fuzz targets share.
#ifndef COMERA_TESTS_FUZZ_FUZZ_INPUT_H_
#define COMERA_TESTS_FUZZ_FUZZ_INPUT_H_

#include <cstdint>
#include <string>

namespace comera {

// One input, taken apart from the front.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), data ? size : 0) {}

  // The next byte modulo `count`; 0 at the end.
  int Choose(int count);
  // Up to the next "\n---\n", which is passed over, or the end.
  std::string Part();
  std::string Rest() { return rest_; }

 private:
  std::string rest_;
};

// A file in memory for parsers that open a path; each process has one for each
// `index`. Returns its path.
std::string FuzzFile(const std::string& contents, int index = 0);

// Stops with `what`: the property that was found not to hold.
[[noreturn]] void FuzzFailure(const std::string& what);

}  // namespace comera

#endif  // COMERA_TESTS_FUZZ_FUZZ_INPUT_H_
