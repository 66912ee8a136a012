#ifndef COMERA_TESTS_E2E_CHAOS_SPECS_H_
#define COMERA_TESTS_E2E_CHAOS_SPECS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"

namespace comera::e2e {

// The dataset that some of the jobs train on.
inline constexpr char kChaosDataset[] = "chaos";

// Returns small jobs over the text in the folder `corpus`, some of them over
// the dataset of that text: one and two members, gangs of variable size, one of
// a priority that stops others; with checkpoints that go to the shared store,
// to other workers or nowhere; one that asks its owner before it begins anew,
// one of few retries without copies, one with a time limit, one with a late
// stage, one that leaves its early stage and one that goes on from there.
// `plain`: only those that go on whatever happens, for the short test. Their
// display_name distinguishes them.
std::vector<v1::JobSpec> ChaosSpecs(const std::string& corpus, int steps,
                                    bool plain);

// Returns the specs of these names; all, if there are none. InvalidArgument: a
// name is unknown, or one starts from another that is not among them.
absl::StatusOr<std::vector<v1::JobSpec>> SelectSpecs(
    std::vector<v1::JobSpec> specs, const std::set<std::string>& names);

// Whether the job leaves its early stage for others.
bool LeavesEarlyStage(const v1::JobSpec& spec);
// Whether the job starts from the early stage of another, which has to be named
// in start_from.
bool StartsFromEarlyStage(const v1::JobSpec& spec);

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_SPECS_H_
