// An arena places, zeroes and gives back the pieces reserved in it.
#include "kernels/arena.h"

#include <memory>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"

namespace comera::kernels {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ArenaTest, PiecesAreAlignedZeroedAndApart) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  Arena arena(backend.get());
  const Arena::Piece a = arena.Reserve("a", 5 * sizeof(float));
  const Arena::Piece b = arena.Reserve("b", 0);
  const Arena::Piece c = arena.Reserve("c", 100);
  EXPECT_EQ(arena.Address(a), nullptr);
  ASSERT_OK(arena.Commit());
  EXPECT_EQ(arena.bytes(), 64 + 64 + 128);
  for (Arena::Piece piece : {a, b, c}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.Address(piece)) % 64, 0u);
  }
  EXPECT_EQ(arena.Floats(b) - arena.Floats(a), 16);
  EXPECT_EQ(arena.Ints(c) - arena.Ints(b), 16);
  EXPECT_EQ(arena.Floats(a)[4], 0.0f);
  EXPECT_EQ(arena.Address(3), nullptr);
}

TEST(ArenaTest, CommitsOnceUntilReset) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  Arena arena(backend.get());
  arena.Reserve("a", 8);
  ASSERT_OK(arena.Commit());
  EXPECT_THAT(arena.Commit(), StatusIs(absl::StatusCode::kFailedPrecondition));
  arena.Reset();
  EXPECT_EQ(arena.bytes(), 0);
  const Arena::Piece again = arena.Reserve("b", 8);
  ASSERT_OK(arena.Commit());
  EXPECT_NE(arena.Address(again), nullptr);
}

TEST(ArenaTest, NothingReservedIsFine) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  Arena arena(backend.get());
  EXPECT_OK(arena.Commit());
}

TEST(ArenaTest, NamesTheLargestPiecesWhenMemoryIsShort) {
  CpuOptions options;
  options.memory_limit_bytes = 1 << 20;
  const std::unique_ptr<Backend> backend = CreateCpuBackend(options);
  Arena arena(backend.get());
  arena.Reserve("scores", 900000);
  arena.Reserve("bias", 10);
  arena.Reserve("hidden", 400000);
  arena.Reserve("tokens", 2000);
  EXPECT_THAT(
      arena.Commit(),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("scores=900000 hidden=400000 tokens=2000"),
                     HasSubstr("1048576"), Not(HasSubstr("bias")))));
}

TEST(ArenaTest, GivesItsMemoryBack) {
  CpuOptions options;
  options.memory_limit_bytes = 1000;
  const std::unique_ptr<Backend> backend = CreateCpuBackend(options);
  for (int i = 0; i < 3; ++i) {
    Arena arena(backend.get());
    arena.Reserve("most", 900);
    ASSERT_OK(arena.Commit());
  }
}

}  // namespace
}  // namespace comera::kernels
