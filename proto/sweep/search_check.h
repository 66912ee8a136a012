// What a search (`compression.method: auto`) needs of its specification.
#ifndef COMERA_PROTO_SWEEP_SEARCH_CHECK_H_
#define COMERA_PROTO_SWEEP_SEARCH_CHECK_H_

#include "comera/v1/sweep_service.pb.h"
#include "proto/validation/spec_checker.h"

namespace comera {

// Checks what a search needs beyond what its runs are checked for. Fields are
// those of SweepSpec.
void CheckSearch(const v1::SweepSpec& spec, SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_SWEEP_SEARCH_CHECK_H_
