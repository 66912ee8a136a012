// Planned pieces never overlap while alive, and share memory otherwise.
#include "kernels/memory_plan.h"

#include <cstring>
#include <memory>
#include <random>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"

namespace comera::kernels {
namespace {

bool LiveIn(const PieceRequest& piece, int phase) {
  for (const PhaseSpan& span : piece.spans) {
    if (span.first <= phase && phase <= span.last) return true;
  }
  return false;
}

// Every byte of every phase has at most one owner.
void CheckNoOverlap(const std::vector<PieceRequest>& pieces,
                    const Placement& placement, int phases) {
  for (int phase = 0; phase < phases; ++phase) {
    std::vector<int> owner(placement.bytes, -1);
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (!LiveIn(pieces[i], phase)) continue;
      ASSERT_EQ(placement.offsets[i] % 64, 0);
      for (int64_t b = 0; b < pieces[i].bytes; ++b) {
        int& byte = owner.at(placement.offsets[i] + b);
        ASSERT_EQ(byte, -1)
            << "phase " << phase << ": " << i << " and " << byte;
        byte = static_cast<int>(i);
      }
    }
  }
}

TEST(PlacePiecesTest, RandomLifetimesNeverOverlap) {
  constexpr int kPhases = 12;
  std::mt19937 random(1);
  double waste = 0;
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<PieceRequest> pieces(1 + random() % 30);
    for (PieceRequest& piece : pieces) {
      piece.bytes = random() % 5 == 0 ? 0 : random() % 3000;
      int phase = random() % kPhases;
      for (int spans = 1 + random() % 2; spans > 0 && phase < kPhases;
           --spans) {
        const int last = std::min<int>(phase + random() % 6, kPhases - 1);
        piece.spans.push_back({phase, last});
        phase = last + 2;
      }
    }
    const Placement placement = PlacePieces(pieces);
    CheckNoOverlap(pieces, placement, kPhases);
    const int64_t least = MostLiveBytes(pieces);
    ASSERT_GE(placement.bytes, least);
    waste += static_cast<double>(placement.bytes - least) / (least + 1);
  }
  EXPECT_LT(waste / kRounds, 0.1);
}

// Saved pieces pile up to the turn; the scratch of every phase is one memory.
TEST(PlacePiecesTest, TrainingStepTakesWhatIsLiveAtItsPeak) {
  constexpr int kStages = 6, kLast = 2 * kStages - 1;
  std::vector<PieceRequest> pieces;
  for (int i = 0; i < kStages; ++i) {
    pieces.push_back({6400, {{i, kLast - i}}});
    pieces.push_back({64000, {{i, i}, {kLast - i, kLast - i}}});
  }
  const Placement placement = PlacePieces(pieces);
  EXPECT_EQ(MostLiveBytes(pieces), kStages * 6400 + 64000);
  EXPECT_EQ(placement.bytes, kStages * 6400 + 64000);
}

TEST(MemoryPlanTest, SharesMemoryByLifetime) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  MemoryPlan plan(backend.get());
  const auto a = plan.Reserve("a", 1000, {{0, 1}});
  const auto b = plan.Reserve("b", 100, {{2, 3}});
  const auto c = plan.Reserve("c", 64, {{1, 2}});
  const auto none = plan.Reserve("none", 0, {{0, 3}});
  plan.Enlarge(b, 1000);
  plan.Enlarge(b, 10);  // does not make it smaller
  EXPECT_EQ(plan.Address(a), nullptr);
  ASSERT_OK(plan.Commit());
  EXPECT_EQ(plan.bytes(), 1024 + 64);
  EXPECT_EQ(plan.most_live_bytes(), 1024 + 64);
  EXPECT_EQ(plan.Address(a), plan.Address(b));
  EXPECT_NE(plan.Address(a), plan.Address(c));
  EXPECT_NE(plan.Address(none), nullptr);
  EXPECT_EQ(plan.Address(4), nullptr);
  EXPECT_EQ(plan.Address(-1), nullptr);
  std::memset(plan.Address(b), 1, 1000);
  EXPECT_THAT(plan.Commit(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(MemoryPlanTest, FillsPiecesAtTheStart) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  MemoryPlan plan(backend.get());
  const auto before = plan.Reserve("before", 64, {{0, 1}});
  const auto ones = plan.Reserve("ones", 64, {{0, 1}});
  plan.FillAtStart(ones, 1);
  plan.Enlarge(ones, 4 * 18);
  ASSERT_OK(plan.Commit());
  for (int i = 0; i < 18; ++i) EXPECT_EQ(plan.Floats(ones)[i], 1) << i;
  for (int i = 0; i < 16; ++i) EXPECT_EQ(plan.Floats(before)[i], 0) << i;
}

TEST(MemoryPlanTest, NamesTheLargestWhenItDoesNotFit) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({1, 1000});
  MemoryPlan plan(backend.get());
  plan.Reserve("small", 10, {{0, 0}});
  plan.Reserve("large", 5000, {{0, 0}});
  const absl::Status status = plan.Commit();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_NE(status.message().find("large=5000 small=10"), std::string::npos);
}

}  // namespace
}  // namespace comera::kernels
