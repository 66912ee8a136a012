#ifndef COMERA_TESTS_GOLDEN_REPORT_H_
#define COMERA_TESTS_GOLDEN_REPORT_H_

#include <ostream>
#include <string>
#include <vector>

namespace comera::golden {

// Prints one line per comparison and counts the results.
class Report {
 public:
  explicit Report(std::ostream* out) : out_(out) {}

  // Assigns the comparisons that follow to this file.
  void BeginFile(const std::string& name);

  // Compares the largest absolute difference, divided by the largest absolute
  // reference value or by `floor` if that is larger, with `tolerance`. A
  // different size or a value that is not finite fails.
  void CompareTensor(const std::string& name, const std::vector<float>& actual,
                     const std::vector<float>& reference, double tolerance,
                     double floor = 0);
  // Compares the changes from `initial` in the same way. What float32 rounds
  // off the values themselves, twice the distance to the next number at the
  // largest of them, is no error.
  void CompareChange(const std::string& name, const std::vector<float>& initial,
                     const std::vector<float>& actual,
                     const std::vector<float>& reference, double tolerance);
  // Prints what is no comparison.
  void Note(const std::string& text);
  // Prints why the file is not compared, which is no failure.
  void Skip(const std::string& why);
  // Reports a condition that does not concern a single tensor.
  void Check(const std::string& name, bool passed, const std::string& detail);

  int passed() const { return passed_; }
  int failed() const { return failed_; }
  int skipped() const { return skipped_; }
  void PrintTotals();

 private:
  std::ostream* out_;
  std::string file_;
  int passed_ = 0;
  int failed_ = 0;
  int skipped_ = 0;
};

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_REPORT_H_
