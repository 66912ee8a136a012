#ifndef COMERA_TESTS_E2E_CHAOS_STATE_CHECK_H_
#define COMERA_TESTS_E2E_CHAOS_STATE_CHECK_H_

#include <string>
#include <vector>

#include "tests/e2e/chaos/evidence.h"

namespace comera::e2e {

// Adds a violation for each attempt that goes on from a state that it should
// not have: what clients see of it looks right, because training is exact.
//   - An attempt goes on from the state that the coordinator named, and from no
//     other step.
//   - A state that was given up stays given up: once an attempt began before
//     it, no later attempt goes on from it.
// Only attempts that began are judged, by the step that clients were told of.
void CheckStates(const Evidence& evidence,
                 std::vector<std::string>* violations);

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_STATE_CHECK_H_
