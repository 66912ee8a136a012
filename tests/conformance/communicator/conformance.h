// The suites that every Communicator must pass. A test instantiates both with
// its implementation.
#ifndef COMERA_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_
#define COMERA_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_

#include <ostream>
#include <string>
#include <tuple>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/conformance/communicator/gang.h"

namespace comera::collective {

struct Implementation {
  const char* name;
  Gang (*factory)(int world_size, absl::Duration timeout);
  // The largest world size; tests of larger gangs are made smaller or skipped.
  int max_ranks = 8;
  // Whether collectives of different sizes end with an error on every rank.
  bool compares_sizes = true;
};

inline void PrintTo(const Implementation& implementation, std::ostream* out) {
  *out << implementation.name;
}

// Far longer than any collective here takes.
inline constexpr absl::Duration kTimeout = absl::Seconds(60);

class CommunicatorTest : public testing::TestWithParam<Implementation> {
 protected:
  int MaxRanks() const { return GetParam().max_ranks; }
  Gang MakeGang(int world_size, absl::Duration timeout = kTimeout) {
    return GetParam().factory(world_size, timeout);
  }
};

// The second parameter is the number of ranks.
class CommunicatorSizesTest
    : public testing::TestWithParam<std::tuple<Implementation, int>> {};

inline std::string NameOf(const testing::TestParamInfo<Implementation>& info) {
  return info.param.name;
}
inline std::string NameOfSize(
    const testing::TestParamInfo<std::tuple<Implementation, int>>& info) {
  return std::string(std::get<0>(info.param).name) + "_" +
         std::to_string(std::get<1>(info.param));
}

}  // namespace comera::collective

#endif  // COMERA_TESTS_CONFORMANCE_COMMUNICATOR_CONFORMANCE_H_
