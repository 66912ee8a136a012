// Compares the digests of all members' data.
#include "worker/trainer/loop/data_agreement.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {

absl::Status CheckSameData(collective::Communicator* communicator,
                           const std::string& digest) {
  if (communicator == nullptr || communicator->world_size() == 1) {
    return absl::OkStatus();
  }
  const int world = communicator->world_size();
  const auto digits = static_cast<int64_t>(digest.size());
  // One row for each member, which alone writes to it: the sum is exact.
  std::vector<float> rows(world * digits);
  float* const own = rows.data() + communicator->rank() * digits;
  std::copy(digest.begin(), digest.end(), own);
  RETURN_IF_ERROR(WithFailureClass(
      communicator->AllReduce(absl::MakeSpan(rows)), v1::COLLECTIVE_HANG));
  std::vector<int> others;
  for (int member = 1; member < world; ++member) {
    const auto row = rows.begin() + member * digits;
    if (!std::equal(row, row + digits, rows.begin())) others.push_back(member);
  }
  if (others.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "data: member", others.size() == 1 ? " " : "s ",
      absl::StrJoin(others, ", "), " of ", world,
      others.size() == 1 ? " reads" : " read",
      " other samples than member 0: the files of the data or of the "
      "vocabulary differ between their machines, in contents or in order"));
}

}  // namespace comera::trainer
