// Checks that bad modes, ranks, objectives and targets are refused.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/validation/job_validation.h"
#include "tests/proto/sample_specs.h"
#include "tests/proto/validation/bad_specs.h"

namespace comera {
namespace {

void AddTarget(Spec& s, double loss, double ratio) {
  v1::Target& target = *s.mutable_objective()->mutable_late()->add_targets();
  target.set_target_loss(loss);
  target.set_target_ratio(ratio);
}

// Turns the single target into a list of one.
void MakeList(Spec& s) {
  v1::LateStage& late = *s.mutable_objective()->mutable_late();
  AddTarget(s, late.target_loss(), late.target_ratio());
  late.clear_target_loss();
  late.clear_target_size();
}

const std::vector<BadSpec>& BadSpecs() {
  static const auto* specs = new std::vector<BadSpec>{
      // Errors in compression.
      {"compression.embedding.input_modes",  // 999 rows for 1000 entries
       [](Spec& s) {
         s.mutable_compression()->mutable_embedding()->set_input_modes(0, 9);
       }},
      {"compression.embedding.output_modes",
       [](Spec& s) {
         s.mutable_compression()->mutable_embedding()->set_output_modes(0, 5);
       }},
      {"compression.embedding.output_modes",  // count
       [](Spec& s) {
         s.mutable_compression()->mutable_embedding()->add_output_modes(1);
       }},
      {"compression.embedding.dense_tokens",
       [](Spec& s) {
         s.mutable_compression()->mutable_embedding()->set_dense_tokens(-1);
       }},
      {"compression.embedding.dense_tokens",  // all of the vocabulary
       [](Spec& s) {
         s.mutable_compression()->mutable_embedding()->set_dense_tokens(1000);
       }},
      {"compression.embedding.dense_tokens",  // beside `dense`
       [](Spec& s) {
         v1::LayerCompression& embedding =
             *s.mutable_compression()->mutable_embedding();
         embedding.Clear();
         embedding.set_dense(true);
         embedding.set_dense_tokens(4);
       }},
      {"compression.embedding.dense_tokens",  // CoLA has no cores
       [](Spec& s) {
         s.mutable_compression()->set_method(v1::CompressionSpec::COLA);
         s.mutable_compression()->mutable_embedding()->set_dense_tokens(4);
         s.mutable_objective()->clear_late();
       }},
      {"compression.output.dense_tokens",
       [](Spec& s) {
         s.mutable_compression()->mutable_output()->set_dense_tokens(4);
       }},
      {"compression.attention.input_modes",
       [](Spec& s) {
         s.mutable_compression()->mutable_attention()->set_input_modes(0, 7);
       }},
      {"compression.attention.output_modes",
       [](Spec& s) {
         s.mutable_compression()->mutable_attention()->set_output_modes(1, 12);
       }},
      {"compression.attention.input_modes",
       [](Spec& s) {
         s.mutable_compression()->mutable_attention()->clear_input_modes();
       }},
      {"compression.attention.output_modes",
       [](Spec& s) {
         s.mutable_compression()->mutable_attention()->clear_output_modes();
       }},
      {"compression.attention.input_modes[1]",
       [](Spec& s) {
         s.mutable_compression()->mutable_attention()->set_input_modes(1, 0);
       }},
      {"compression.attention.input_modes[0]",
       [](Spec& s) {
         auto* a = s.mutable_compression()->mutable_attention();
         a->set_input_modes(0, -6);
         a->set_input_modes(1, -8);
       }},
      {"compression.attention.input_modes",  // would wrap around to 48
       [](Spec& s) {
         auto* a = s.mutable_compression()->mutable_attention();
         a->set_input_modes(0, int64_t{1} << 62);
         a->set_input_modes(1, int64_t{1} << 62);
       }},
      {"compression.attention.input_modes",
       [](Spec& s) {
         auto* a = s.mutable_compression()->mutable_attention();
         for (int i = 0; i < 100; ++i) a->add_input_modes(1);
       }},
      {"compression.attention.ranks",
       [](Spec& s) {
         s.mutable_compression()->mutable_attention()->add_ranks(6);
       }},
      {"compression.attention.ranks[1]",
       [](Spec& s) {
         s.mutable_compression()->mutable_attention()->set_ranks(1, 0);
       }},
      {"compression.attention.ranks[2]",
       [](Spec& s) {
         s.mutable_compression()->mutable_attention()->set_ranks(2, 4097);
       }},
      {"compression.ffn_up.output_modes",
       [](Spec& s) {
         s.mutable_compression()->mutable_ffn_up()->set_output_modes(0, 3);
       }},
      {"compression.ffn_down.input_modes",
       [](Spec& s) {
         s.mutable_compression()->mutable_ffn_down()->set_input_modes(0, 3);
       }},
      {"compression.ffn_down.ranks",
       [](Spec& s) {
         s.mutable_compression()->mutable_ffn_down()->add_ranks(12);
       }},
      {"compression.head.ranks",  // two ranks, automatic modes
       [](Spec& s) {
         s.mutable_compression()->mutable_head()->add_ranks(3);
         s.mutable_compression()->mutable_head()->add_ranks(4);
       }},
      {"compression.output.output_modes",  // 992 for 1000 entries
       [](Spec& s) {
         s.mutable_compression()->mutable_output()->set_output_modes(0, 31);
       }},
      {"compression.output.input_modes",
       [](Spec& s) {
         s.mutable_compression()->mutable_output()->set_input_modes(0, 12);
       }},
      {"compression.rank_threshold",
       [](Spec& s) { s.mutable_compression()->set_rank_threshold(-1); }},
      {"compression.rank_threshold",
       [](Spec& s) { s.mutable_compression()->set_rank_threshold(kInfinity); }},
      {"compression.compact_every_steps",
       [](Spec& s) { s.mutable_compression()->set_compact_every_steps(-5); }},
      {"compression.method",
       [](Spec& s) {
         s.mutable_compression()->set_method(
             static_cast<v1::CompressionSpec::Method>(9));
       }},
      // Errors in the objective.
      {"objective.kind",
       [](Spec& s) {
         s.mutable_objective()->set_kind(
             static_cast<v1::ObjectiveSpec::Kind>(-1));
       }},
      {"objective.early.steps",
       [](Spec& s) { s.mutable_objective()->mutable_early()->set_steps(-1); }},
      {"objective.early.steps",
       [](Spec& s) {
         s.mutable_objective()->mutable_early()->set_steps(2'000'000'000);
       }},
      {"objective.early.steps", [](Spec& s) { s.clear_objective(); }},
      {"objective.early.gamma",
       [](Spec& s) {
         s.mutable_objective()->mutable_early()->set_gamma(-0.5);
       }},
      {"objective.early.beta",
       [](Spec& s) { s.mutable_objective()->mutable_early()->set_beta(kNan); }},
      {"objective.late",
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->clear_target_size();
       }},
      {"objective.late.target_loss",
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->clear_target_loss();
       }},
      {"objective.late.target_loss",
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->set_target_loss(-1);
       }},
      {"objective.late.target_loss",
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->set_target_loss(kNan);
       }},
      {"objective.late.mode",
       [](Spec& s) {
         s.mutable_objective()->set_kind(v1::ObjectiveSpec::REFERENCE);
         s.mutable_objective()->mutable_late()->set_mode(
             v1::LateStage::ACHIEVEMENT);
       }},
      {"objective.late.target_ratio",
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->set_target_ratio(1.01);
       }},
      {"objective.late.target_ratio",
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->set_target_ratio(0);
       }},
      {"objective.late.target_ratio",  // below biases and LayerNorms
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->set_target_ratio(0.01);
       }},
      {"objective.late.target_bytes",
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->set_target_bytes(-4);
       }},
      {"objective.late.target_bytes",
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->set_target_bytes(1000);
       }},
      {"objective.late.target_parameters",
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->set_target_parameters(5000);
       }},
      {"objective.late.target_parameters",  // the dense model does not shrink
       [](Spec& s) {
         s.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
         s.mutable_objective()->mutable_late()->set_target_parameters(50000);
       }},
      {"objective.late.target_ratio",  // what REFERENCE needs
       [](Spec& s) {
         s.mutable_objective()->set_kind(v1::ObjectiveSpec::REFERENCE);
         s.mutable_objective()->mutable_late()->set_target_bytes(1 << 20);
       }},
      {"objective.late.target_loss",  // a list instead of the single target
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->clear_target_size();
         AddTarget(s, 3.5, 0.8);
       }},
      {"objective.late.targets",
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->clear_target_loss();
         AddTarget(s, 3.5, 0.8);
       }},
      {"objective.late.targets[1].target_loss",
       [](Spec& s) { MakeList(s), AddTarget(s, 0, 0.5); }},
      {"objective.late.targets[1].target_ratio",
       [](Spec& s) { MakeList(s), AddTarget(s, 3, 1.5); }},
      {"objective.late.targets[1].target_ratio",  // below biases, LayerNorms
       [](Spec& s) { MakeList(s), AddTarget(s, 3, 0.01); }},
      {"objective.late.targets[1]",
       [](Spec& s) {
         MakeList(s), AddTarget(s, 3, 0.5);
         s.mutable_objective()
             ->mutable_late()
             ->mutable_targets(1)
             ->clear_target_size();
       }},
      {"objective.late.targets[0].target_ratio",  // what REFERENCE needs
       [](Spec& s) {
         MakeList(s);
         s.mutable_objective()->set_kind(v1::ObjectiveSpec::REFERENCE);
         s.mutable_objective()
             ->mutable_late()
             ->mutable_targets(0)
             ->set_target_bytes(1 << 20);
       }},
      {"objective.late.targets",
       [](Spec& s) {
         MakeList(s);
         for (int i = 0; i < 16; ++i) AddTarget(s, 3, 0.5);
       }},
      {"objective.late.w_loss",
       [](Spec& s) { s.mutable_objective()->mutable_late()->set_w_loss(0); }},
      {"objective.late.w_size",
       [](Spec& s) { s.mutable_objective()->mutable_late()->set_w_size(-1); }},
      {"objective.late.rho",
       [](Spec& s) { s.mutable_objective()->mutable_late()->set_rho(-1); }},
      {"objective.late.max_steps",
       [](Spec& s) {
         s.mutable_objective()->mutable_late()->set_max_steps(0);
       }},
  };
  return *specs;
}

TEST(CompressionValidationTest, AListOfTargetsIsAccepted) {
  Spec spec = MaskedLmSpec();
  MakeList(spec);
  AddTarget(spec, 3, 0.8);
  AddTarget(spec, 4, 0.5);
  EXPECT_TRUE(ValidateJobSpec(spec).empty());
}

TEST(CompressionValidationTest, RefusesBadSpecsByField) {
  EXPECT_GE(BadSpecs().size(), 45u);
  ExpectRefused(MaskedLmSpec(), BadSpecs());
}

// Where the modes are right, ranks may still be given as one number.
TEST(CompressionValidationTest, AcceptsOneRankForAllBonds) {
  v1::JobSpec spec = MaskedLmSpec();
  auto* ranks =
      spec.mutable_compression()->mutable_attention()->mutable_ranks();
  ranks->Clear();
  ranks->Add(12);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
}

// Listed ranks say how many cores a layer has. The modes that are chosen for it
// are as many on both sides, so the bonds between the cores are odd in number.
TEST(CompressionValidationTest, ListedRanksNeedNoModes) {
  v1::JobSpec spec = ClassifierSpec();
  spec.mutable_compression()->set_method(v1::CompressionSpec::COMERA);
  auto* ranks =
      spec.mutable_compression()->mutable_attention()->mutable_ranks();
  ranks->Clear();
  for (const int rank : {4, 12, 12, 12, 4}) ranks->Add(rank);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  ranks->RemoveLast();
  EXPECT_EQ(Describe(ValidateJobSpec(spec)),
            "compression.attention.ranks: has 4 ranks: without modes, "
            "give one for all bonds, or an odd number of them, at most 31\n");
  ranks->Resize(33, 4);
  EXPECT_NE(Describe(ValidateJobSpec(spec)), "");
}

TEST(CompressionValidationTest, DenseMethodNeedsRoomForTheDenseModel) {
  v1::JobSpec spec = MaskedLmSpec();
  spec.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
  spec.mutable_objective()->mutable_late()->set_target_parameters(1'000'000);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
}

}  // namespace
}  // namespace comera
