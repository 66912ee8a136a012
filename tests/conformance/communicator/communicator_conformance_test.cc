// Runs the conformance suites over the communicators of the CPU build,
// including NCCL's on a fake of NCCL.
#include "tests/conformance/communicator/conformance.h"
#include "tests/conformance/communicator/fake_nccl_gang.h"

namespace comera::collective {
namespace {

constexpr Implementation kImplementations[] = {
    {"InProcess", InProcessGang},
    {"Gloo", GlooGang},
    {"GlooTls", GlooTlsGang},
    {"NcclOnFake", FakeNcclGang, 8, /*compares_sizes=*/false}};

INSTANTIATE_TEST_SUITE_P(All, CommunicatorTest,
                         testing::ValuesIn(kImplementations), NameOf);

INSTANTIATE_TEST_SUITE_P(All, CommunicatorSizesTest,
                         testing::Combine(testing::ValuesIn(kImplementations),
                                          testing::Range(1, 9)),
                         NameOfSize);

}  // namespace
}  // namespace comera::collective
