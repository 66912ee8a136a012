// Makes a scenario that breaks a rule smaller.
#ifndef COMERA_TESTS_SERVER_SCHEDULER_SCENARIO_SHRINKER_H_
#define COMERA_TESTS_SERVER_SCHEDULER_SCENARIO_SHRINKER_H_

#include <string>

#include "tests/server/scheduler/cluster_player.h"
#include "tests/server/scheduler/scenario.h"

namespace comera::server {

// Drops jobs and workers, and simplifies what is left, as long as the decider
// still breaks the rule; plays at most `plays` scenarios.
Scenario Shrink(Scenario scenario, const Decider& decide,
                const std::string& rule, int plays = 2000);

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_SCHEDULER_SCENARIO_SHRINKER_H_
