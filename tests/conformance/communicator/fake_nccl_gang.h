// Makes gangs of NcclCommunicators on a fake of NCCL.
#ifndef COMERA_TESTS_CONFORMANCE_COMMUNICATOR_FAKE_NCCL_GANG_H_
#define COMERA_TESTS_CONFORMANCE_COMMUNICATOR_FAKE_NCCL_GANG_H_

#include "tests/conformance/communicator/gang.h"

namespace comera::collective {

Gang FakeNcclGang(int world_size, absl::Duration timeout);

}  // namespace comera::collective

#endif  // COMERA_TESTS_CONFORMANCE_COMMUNICATOR_FAKE_NCCL_GANG_H_
