#ifndef COMERA_TESTS_E2E_CHAOS_WRITES_HEALTH_H_
#define COMERA_TESTS_E2E_CHAOS_WRITES_HEALTH_H_

#include <string>

namespace comera::e2e {

// Whether the coordinator at the address says, within a second, that it takes
// changes (the health service comera.v1.Writes). False also if it says nothing.
bool SaysWritable(const std::string& address);

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_WRITES_HEALTH_H_
