// Tests when a run counts as dominated.
#include "server/sweep/dominance_rule.h"

#include "gtest/gtest.h"

namespace comera::server {
namespace {

v1::FrontPoint Other(double loss, int64_t size) {
  v1::FrontPoint point;
  point.mutable_point()->set_validation_loss(loss);
  point.mutable_point()->set_size_parameters(size);
  point.set_run(3);
  return point;
}

// Flat at loss 3 and 1000 parameters, three quarters done.
DominanceSubject Hopeless() {
  DominanceSubject subject;
  subject.step = 750;
  subject.total_steps = 1000;
  subject.final_size = 1000;
  for (int i = 0; i < 5; ++i) {
    ValidationSample sample;
    sample.set_step(550 + 50 * i);
    sample.set_loss(3.0 - 0.01 * i);
    sample.set_size_parameters(1000);
    subject.validations.push_back(sample);
  }
  v1::ParetoPoint point;
  point.set_validation_loss(2.96);
  point.set_size_parameters(1000);
  subject.points.push_back(point);
  return subject;
}

bool Stops(const DominanceSubject& subject,
           const std::vector<v1::FrontPoint>& others = {Other(2.0, 800)},
           DominanceOptions options = {}) {
  std::string why;
  const bool hopeless = IsHopeless(subject, others, options, &why);
  EXPECT_EQ(hopeless, !why.empty());
  return hopeless;
}

TEST(DominanceRuleTest, ARunThatIsPastItsChanceIsHopeless) {
  EXPECT_TRUE(Stops(Hopeless()));
}

TEST(DominanceRuleTest, NobodyIsStoppedWithoutABetterModel) {
  EXPECT_FALSE(Stops(Hopeless(), {}));
  // Better in one only, or not by the margin.
  EXPECT_FALSE(Stops(Hopeless(), {Other(2.0, 1001), Other(3.1, 100)}));
  EXPECT_FALSE(Stops(Hopeless(), {Other(2.9, 800)}));
  EXPECT_FALSE(Stops(Hopeless(), {Other(2.0, 960)}));
}

TEST(DominanceRuleTest, AFallingLossIsTakenToFallOn) {
  DominanceSubject falling = Hopeless();
  // 0.2 nats in 50 steps once: five times that is still to come.
  falling.validations[2].set_loss(3.2);
  EXPECT_FALSE(Stops(falling));
  // Near the end that no longer helps.
  falling.step = 990;
  EXPECT_TRUE(Stops(falling));
}

TEST(DominanceRuleTest, OneGoodPointOfItsOwnIsEnough) {
  DominanceSubject subject = Hopeless();
  v1::ParetoPoint large;
  large.set_validation_loss(1.9);
  large.set_size_parameters(5000);
  subject.points.push_back(large);
  EXPECT_FALSE(Stops(subject));
}

TEST(DominanceRuleTest, EveryRunHasItsTime) {
  DominanceSubject young = Hopeless();
  young.step = 499;
  EXPECT_FALSE(Stops(young));
  DominanceSubject unseen = Hopeless();
  unseen.validations.resize(3);
  EXPECT_FALSE(Stops(unseen));
  DominanceSubject unknown = Hopeless();
  unknown.total_steps = 0;
  EXPECT_FALSE(Stops(unknown));
}

TEST(DominanceRuleTest, AModelThatStillShrinksIsNotJudged) {
  DominanceSubject shrinking = Hopeless();
  shrinking.validations.back().set_size_parameters(1001);
  EXPECT_FALSE(Stops(shrinking));
  DominanceSubject open_end = Hopeless();
  open_end.final_size = 0;
  EXPECT_FALSE(Stops(open_end));
}

}  // namespace
}  // namespace comera::server
